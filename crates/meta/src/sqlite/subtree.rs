//! Facts about a node and everything below it, and where a node's chain of folders ends.

use super::fault::Done;
use super::sql;
use holdfast_base::Error;
use rusqlite::Connection;

/// Folders above a node before they are taken for a circle: far more than moves can pile up.
const LEVELS_MAX: usize = 1 << 20;

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
pub(super) fn home_of(connection: &Connection, mut node: i64) -> Done<Home> {
    for _ in 0..LEVELS_MAX {
        let sql = "SELECT parent_id FROM node WHERE id = ?1";
        let parent: Option<i64> = sql::first(connection, sql, [node], |row| row.get(0))?;
        match parent {
            Some(above) if above > 0 => node = above,
            Some(0) => {
                let sql = "SELECT 1 FROM garbage WHERE node_id = ?1";
                let purged = sql::first(connection, sql, [node], |_| Ok(()))?.is_some();
                return Ok(if purged { Home::Purged } else { Home::Live });
            }
            Some(_) => {
                let entry =
                    sql::first(connection, "SELECT id FROM trash WHERE node_id = ?1", [node], |row| row.get(0))?;
                return Ok(entry.map_or(Home::Purged, Home::Trash));
            }
            None => return Ok(Home::Purged),
        }
    }
    Err(Error::damaged("folders of the catalogue contain each other; run holdfast check").into())
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
pub(super) fn sizes_of(connection: &Connection, node: i64) -> Done<Sizes> {
    let sql = "WITH RECURSIVE below (id, kind, size) AS ( \
                   SELECT id, kind, size FROM node WHERE id = ?1 \
                   UNION ALL \
                   SELECT node.id, node.kind, node.size FROM below JOIN node ON parent_id = below.id WHERE below.kind = 0) \
               SELECT count(*), coalesce(sum(size), 0), \
                   coalesce(sum((SELECT sum(version.size) FROM version WHERE kind = 1 AND node_id = below.id)), 0) \
               FROM below";
    Ok(sql::only(connection, sql, [node], |row| {
        let (nodes, current, version_bytes): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Sizes { bytes: current + version_bytes, version_bytes, nodes })
    })?)
}
