//! Reading the tree and contents.

use super::codec::{self, content_columns, node_columns, signed};
use super::fault::Done;
use super::sql;
use super::walk::child;
use crate::catalogue::Found;
use crate::types::{Content, ManifestChunk, Node, NodeKind};
use holdfast_base::{BlockId, ContentId, DrivePath, Error, NodeId, NodeName, SpaceId};
use rusqlite::Connection;

/// Walks a path as far as it exists.
pub(super) fn find(connection: &Connection, space: SpaceId, path: &DrivePath, with_content: bool) -> Done<Found> {
    let mut names = path.names().iter();
    let mut chain = Vec::with_capacity(path.names().len() + 1);
    let root = child(connection, 0, &space.to_string())?;
    let mut next = Some(root.ok_or_else(|| Error::not_found("there is no such space"))?);
    while let Some(node) = next.take() {
        let (id, is_folder) = (node.id.0, node.kind == NodeKind::Folder);
        chain.push(node);
        if let Some(name) = names.next()
            && is_folder
        {
            next = child(connection, id, name.as_str())?;
        }
    }
    let mut found = Found { chain, content: None };
    if let Some(id) = found.node(path).filter(|_| with_content).and_then(|node| node.content) {
        let missing = || Error::damaged(format!("{path}: its content is missing; run holdfast check"));
        found.content = Some(content(connection, id)?.ok_or_else(missing)?);
    }
    Ok(found)
}

/// Members of a folder in byte order of name.
pub(super) fn children(
    connection: &Connection,
    folder: NodeId,
    after: Option<&NodeName>,
    limit: usize,
) -> Done<Vec<Node>> {
    // No name is empty, so every name comes after the empty one.
    let after = after.map_or("", |name| name.as_str());
    let sql =
        concat!("SELECT ", node_columns!(), " FROM node WHERE parent_id = ?1 AND name > ?2 ORDER BY name LIMIT ?3");
    Ok(sql::all(connection, sql, (folder.0, after, codec::rows(limit)), codec::node)?)
}

/// Nodes below a folder, counted up to `limit`.
pub(super) fn count_below(connection: &Connection, folder: NodeId, limit: usize) -> Done<usize> {
    let sql = "WITH RECURSIVE below (id, kind) AS ( \
                   SELECT id, kind FROM node WHERE parent_id = ?1 \
                   UNION ALL \
                   SELECT node.id, node.kind FROM below JOIN node ON parent_id = below.id WHERE below.kind = 0) \
               SELECT count(*) FROM (SELECT 1 FROM below LIMIT ?2)";
    Ok(sql::only(connection, sql, (folder.0, codec::rows(limit)), |row| row.get(0))?)
}

/// A content by row.
pub(super) fn content(connection: &Connection, id: ContentId) -> Done<Option<Content>> {
    let sql = concat!("SELECT ", content_columns!(), " FROM content WHERE id = ?1");
    Ok(sql::first(connection, sql, [id.0], codec::content)?)
}

/// Every content in row order.
pub(super) fn all_contents(connection: &Connection, after: Option<ContentId>, limit: usize) -> Done<Vec<Content>> {
    let sql = concat!("SELECT ", content_columns!(), " FROM content WHERE id > ?1 ORDER BY id LIMIT ?2");
    Ok(sql::all(connection, sql, (after.map_or(0, |id| id.0), codec::rows(limit)), codec::content)?)
}

/// A chunk of a manifest.
pub(super) fn manifest_chunk(connection: &Connection, content: ContentId, index: u64) -> Done<Option<ManifestChunk>> {
    let sql = "SELECT tag, blocks FROM manifest WHERE content_id = ?1 AND chunk = ?2";
    let row = sql::first(connection, sql, (content.0, signed(index)), |row| {
        Ok((row.get(0)?, row.get_ref(1)?.as_blob()?.to_vec()))
    })?;
    let Some((tag, bytes)) = row else { return Ok(None) };
    let (ids, rest) = bytes.as_chunks::<{ BlockId::BYTES }>();
    if !rest.is_empty() {
        return Err(Error::damaged("a manifest is damaged; run holdfast check").into());
    }
    Ok(Some(ManifestChunk { index, blocks: ids.iter().copied().map(BlockId).collect(), tag }))
}
