//! Reading the tree and contents.

use super::chain::{Chain, chain};
use super::codec::{self, content_columns, node_columns, signed};
use super::fault::Done;
use super::query as sql;
use super::seam::{Dialect, Link, damaged};
use crate::catalogue::Found;
use crate::types::{Content, ManifestChunk, Node};
use holdfast_base::{BlockId, ContentId, DrivePath, Error, NodeId, NodeName, SpaceId};

/// Walks a path as far as it exists.
pub(super) fn find(link: &dyn Link, space: SpaceId, path: &DrivePath, with_content: bool) -> Done<Found> {
    let Chain { nodes: chain, content } = chain(link, space, path, with_content)?;
    if chain.is_empty() {
        return Err(Error::not_found("there is no such space").into());
    }
    let found = Found { chain, content };
    let holder = found.node(path).filter(|node| with_content && node.content.is_some());
    let problem = match (holder, &found.content) {
        (Some(_), None) => "its content is missing",
        (Some(node), Some(content)) if node.size != content.size => "its size is not that of its content",
        _ => return Ok(found),
    };
    Err(Error::damaged(format!("{path}: {problem}; run holdfast check")).into())
}

/// Members of a folder in byte order of name.
pub(super) fn children(link: &dyn Link, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Done<Vec<Node>> {
    // No name is empty, so every name comes after the empty one.
    let after = after.map_or("", |name| name.as_str());
    let sql =
        concat!("SELECT ", node_columns!(), " FROM node WHERE parent_id = ?1 AND name > ?2 ORDER BY name LIMIT ?3");
    sql::all(link, sql, (folder.0, after, codec::rows(limit)), codec::node)
}

/// Nodes below a folder, counted up to `limit`.
pub(super) fn count_below(link: &dyn Link, folder: NodeId, limit: usize) -> Done<usize> {
    let sql = "WITH RECURSIVE below (id, kind) AS ( \
                   SELECT id, kind FROM node WHERE parent_id = ?1 \
                   UNION ALL \
                   SELECT node.id, node.kind FROM below JOIN node ON parent_id = below.id WHERE below.kind = 0) \
               SELECT count(*) FROM (SELECT id FROM below LIMIT ?2) AS counted";
    sql::only(link, sql, (folder.0, codec::rows(limit)), |row| row.get(0))
}

macro_rules! kept {
    () => {
        "WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM spent WHERE content_id = content.id)"
    };
}

/// A content by row; none once nobody refers to it any more, though rows of it may be left.
pub(super) fn content(link: &dyn Link, id: ContentId) -> Done<Option<Content>> {
    let sql = match link.dialect() {
        // A content under another's number would pass every check of its own.
        Dialect::Sqlite => concat!(
            "SELECT sum = row_sum(id, space_id, size, block_bytes, blocks, nonce, tag, inline), ",
            content_columns!(),
            " FROM content ",
            kept!()
        ),
        Dialect::Postgres => concat!("SELECT TRUE, ", content_columns!(), " FROM content ", kept!()),
    };
    sql::first(link, sql, [id.0], |row| {
        if !row.get::<bool>(0)? {
            return Err(damaged("the catalogue's record of a file's content fails its integrity check").into());
        }
        codec::content(row, 1)
    })
}

/// Every content in row order.
pub(super) fn all_contents(link: &dyn Link, after: Option<ContentId>, limit: usize) -> Done<Vec<Content>> {
    let sql = concat!("SELECT ", content_columns!(), " FROM content WHERE id > ?1 ORDER BY id LIMIT ?2");
    sql::all(link, sql, (after.map_or(0, |id| id.0), codec::rows(limit)), |row| codec::content(row, 0))
}

/// A chunk of a manifest.
pub(super) fn manifest_chunk(link: &dyn Link, content: ContentId, index: u64) -> Done<Option<ManifestChunk>> {
    let sql = "SELECT tag, blocks FROM manifest WHERE content_id = ?1 AND chunk = ?2";
    let row = sql::first(link, sql, (content.0, signed(index)), |row| Ok((row.get(0)?, row.get::<Vec<u8>>(1)?)))?;
    let Some((tag, bytes)) = row else { return Ok(None) };
    let (ids, rest) = bytes.as_chunks::<{ BlockId::BYTES }>();
    if !rest.is_empty() {
        return Err(Error::damaged("a manifest is damaged; run holdfast check").into());
    }
    Ok(Some(ManifestChunk { index, blocks: ids.iter().copied().map(BlockId).collect(), tag }))
}
