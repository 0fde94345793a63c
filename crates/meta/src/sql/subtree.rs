//! Facts about a node and everything below it, and where a node's chain of folders ends.

use super::fault::Done;
use super::query as sql;
use super::seam::Link;
use holdfast_base::Error;

/// Folders above a node before they are taken for a circle: far more than moves can pile up.
pub(super) const LEVELS_MAX: i64 = 1 << 20;

/// Where the chain of folders above a node ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// At the root of a space.
    Live,
    /// At this trash entry.
    Trash(i64),
    /// At something purged, or nowhere: it counts in no sum.
    Purged,
}

/// Follows the parents of a node.
pub(super) fn home_of(link: &dyn Link, node: i64) -> Done<Home> {
    let sql = "WITH RECURSIVE up (level, id, parent_id) AS ( \
                   SELECT CAST(0 AS BIGINT), id, parent_id FROM node WHERE id = ?1 \
                   UNION ALL SELECT level + 1, node.id, node.parent_id FROM up JOIN node ON node.id = up.parent_id \
                   WHERE up.parent_id > 0 AND level < ?2) \
               SELECT level, parent_id, (SELECT trash.id FROM trash WHERE trash.node_id = up.id), \
                   EXISTS (SELECT 1 FROM garbage WHERE garbage.node_id = up.id) FROM up ORDER BY level DESC LIMIT 1";
    let top = sql::first(link, sql, (node, LEVELS_MAX), |row| {
        Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, row.get::<Option<i64>>(2)?, row.get::<bool>(3)?))
    })?;
    match top {
        Some((_, 0, _, purged)) => Ok(if purged { Home::Purged } else { Home::Live }),
        Some((_, ..0, entry, _)) => Ok(entry.map_or(Home::Purged, Home::Trash)),
        Some((LEVELS_MAX.., ..)) => {
            Err(Error::damaged("folders of the catalogue contain each other; run holdfast check").into())
        }
        _ => Ok(Home::Purged),
    }
}

/// What a subtree counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sizes {
    /// Bytes of its files and their old versions.
    pub(super) bytes: i64,
    /// The part of old versions.
    pub(super) version_bytes: i64,
    /// Nodes, itself included.
    pub(super) nodes: i64,
}

/// Sums a subtree; costs O(nodes), about 2 µs each.
pub(super) fn sizes_of(link: &dyn Link, node: i64) -> Done<Sizes> {
    let sql = "WITH RECURSIVE below (id, kind, size) AS ( \
                   SELECT id, kind, size FROM node WHERE id = ?1 \
                   UNION ALL \
                   SELECT node.id, node.kind, node.size FROM below JOIN node ON parent_id = below.id WHERE below.kind = 0) \
               SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT), CAST(coalesce(sum( \
                   (SELECT sum(version.size) FROM version WHERE kind = 1 AND node_id = below.id)), 0) AS BIGINT) \
               FROM below";
    sql::only(link, sql, [node], |row| {
        let (nodes, current, version_bytes): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Sizes { bytes: current + version_bytes, version_bytes, nodes })
    })
}
