//! The nodes along a path, from the root of a space down.
//!
//! In this process a path is a point read a name. Over a network it is one recursive query, whatever the depth, that takes one
//! name after the other off the path.

use super::codec::{self, NODE_COLUMNS, content_columns, node_columns};
use super::fault::Done;
use super::query as sql;
use super::seam::{Dialect, Link, damaged};
use crate::types::{Content, Node, NodeKind};
use holdfast_base::{DrivePath, SpaceId};

/// What lies along a path.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// The nodes that exist: the root, folders, and whatever is last.
    pub(super) nodes: Vec<Node>,
    /// The content of what is at the path's end, if it was asked for and there is one.
    pub(super) content: Option<Content>,
}

/// Walks a path as far as it exists. Nothing is found in a space that does not exist.
pub(super) fn chain(link: &dyn Link, space: SpaceId, path: &DrivePath, with_content: bool) -> Done<Chain> {
    match link.dialect() {
        Dialect::Sqlite => step_by_step(link, space, path, with_content),
        Dialect::Postgres => at_once(link, space, path, with_content),
    }
}

/// A member of a folder.
///
/// In a tree whose order is damaged SQLite may answer a unique key with its neighbour, and a changed bit in a row may be another
/// row's content: so the row must be what was asked for, and what was written.
pub(super) fn child(link: &dyn Link, parent: i64, name: &str) -> Done<Option<Node>> {
    let sql = match link.dialect() {
        Dialect::Sqlite => concat!(
            "SELECT ",
            node_columns!(),
            ", sum = row_sum(parent_id, name, id, space_id, kind, content_id, size, seq, created_ms, modified_ms, \
             has_properties) FROM node WHERE parent_id = ?1 AND name = ?2"
        ),
        Dialect::Postgres => {
            concat!("SELECT ", node_columns!(), ", TRUE FROM node WHERE parent_id = ?1 AND name = ?2")
        }
    };
    sql::first(link, sql, (parent, name), |row| {
        let node = codec::node(row)?;
        // A root's name is not its own: it is found by its space.
        let same = row.get::<i64>(2)? == parent && (parent == 0 || node.name == name);
        if !same || !row.get::<bool>(NODE_COLUMNS)? {
            return Err(damaged("the catalogue's record of a file or folder fails its integrity check").into());
        }
        Ok(node)
    })
}

fn step_by_step(link: &dyn Link, space: SpaceId, path: &DrivePath, with_content: bool) -> Done<Chain> {
    let mut names = path.names().iter();
    let mut nodes = Vec::with_capacity(path.names().len() + 1);
    let mut next = child(link, 0, &space.to_string())?;
    while let Some(node) = next.take() {
        let (id, is_folder) = (node.id.0, node.kind == NodeKind::Folder);
        nodes.push(node);
        if let Some(name) = names.next()
            && is_folder
        {
            next = child(link, id, name.as_str())?;
        }
    }
    let end = nodes.get(path.names().len()).and_then(|node| node.content);
    let content = match end.filter(|_| with_content) {
        Some(id) => super::tree_read::content(link, id)?,
        None => None,
    };
    Ok(Chain { nodes, content })
}

/// In names there is no slash.
const AT_ONCE: &str = concat!(
    "WITH RECURSIVE chain AS (SELECT CAST(0 AS BIGINT) AS level, ",
    node_columns!(),
    " FROM node WHERE parent_id = 0 AND name = ?1 UNION ALL SELECT chain.level + 1, ",
    node_columns!("node."),
    " FROM chain JOIN node ON node.parent_id = chain.id \
      AND node.name = split_part(CAST(?2 AS TEXT), '/', CAST(chain.level + 1 AS INTEGER)) \
      WHERE chain.kind = 0 AND chain.level < ?3) SELECT ",
    node_columns!("chain."),
    ", ",
    content_columns!(),
    " FROM chain LEFT JOIN content ON content.id = chain.content_id AND chain.level = ?4 ORDER BY chain.level"
);

fn at_once(link: &dyn Link, space: SpaceId, path: &DrivePath, with_content: bool) -> Done<Chain> {
    let (root, depth) = (space.to_string(), codec::rows(path.names().len()));
    let names: Vec<&str> = path.names().iter().map(holdfast_base::NodeName::as_str).collect();
    let end = if with_content { depth } else { i64::MAX };
    let mut chain = Chain { nodes: Vec::with_capacity(names.len() + 1), content: None };
    let mut rows = sql::all(link, AT_ONCE, (root.as_str(), names.join("/").as_str(), depth, end), |row| {
        let has_content = row.get::<Option<i64>>(NODE_COLUMNS)?.is_some();
        Ok((codec::node(row)?, has_content.then(|| codec::content(row, NODE_COLUMNS)).transpose()?))
    })?;
    if let Some((_, content)) = rows.last_mut() {
        chain.content = content.take();
    }
    chain.nodes.extend(rows.into_iter().map(|(node, _)| node));
    Ok(chain)
}
