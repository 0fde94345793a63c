//! Walking a path inside an operation, and the preconditions on what it finds.

use super::chain::{Chain, chain, child};
use super::codec;
use super::fault::{Done, refuse};
use super::query as sql;
use super::seam::{Dialect, Link};
use crate::catalogue::Expect;
use crate::types::{Node, NodeKind};
use holdfast_base::limits::PATH_DEPTH_MAX;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result, SpaceId};

/// What lies at a path.
#[derive(Debug)]
pub(super) struct Spot<'p> {
    /// The path that was walked.
    pub(super) path: &'p DrivePath,
    /// Folders from the root to the parent, as far as they exist. Empty for the root itself.
    pub(super) above: Vec<i64>,
    /// Whether the parent exists and is a folder. True for the root itself.
    pub(super) has_parent: bool,
    /// What is there.
    pub(super) node: Option<Node>,
}

/// Walks `path` from the root of `space`.
pub(super) fn walk<'p>(link: &dyn Link, space: SpaceId, root: i64, path: &'p DrivePath) -> Done<Spot<'p>> {
    match link.dialect() {
        Dialect::Sqlite => step_by_step(link, space, root, path),
        Dialect::Postgres => Ok(at_once(chain(link, space, path, false)?, path)),
    }
}

/// Reads no more of the folders on the way than leads on.
fn step_by_step<'p>(link: &dyn Link, space: SpaceId, root: i64, path: &'p DrivePath) -> Done<Spot<'p>> {
    let Some((last, folders)) = path.names().split_last() else {
        let node = child(link, 0, &space.to_string())?;
        return Ok(Spot { path, above: Vec::new(), has_parent: true, node });
    };
    let mut above = Vec::with_capacity(folders.len() + 1);
    let mut folder = root;
    above.push(folder);
    for name in folders {
        let sql = "SELECT id, kind FROM node WHERE parent_id = ?1 AND name = ?2";
        let step =
            sql::first(link, sql, (folder, name.as_str()), |row| Ok((row.get::<i64>(0)?, codec::node_kind(row, 1)?)))?;
        let Some((id, NodeKind::Folder)) = step else {
            return Ok(Spot { path, above, has_parent: false, node: None });
        };
        folder = id;
        above.push(folder);
    }
    let node = child(link, folder, last.as_str())?;
    Ok(Spot { path, above, has_parent: true, node })
}

fn at_once(chain: Chain, path: &DrivePath) -> Spot<'_> {
    let depth = path.names().len();
    let mut nodes = chain.nodes;
    let node = (nodes.len() > depth).then(|| nodes.pop()).flatten();
    let folders = nodes.iter().filter(|node| node.kind == NodeKind::Folder);
    let above: Vec<i64> = folders.map(|node| node.id.0).collect();
    Spot { path, has_parent: above.len() == depth, above, node }
}

/// The path of a node in the tree.
pub(super) fn path_of(link: &dyn Link, node: i64) -> Done<DrivePath> {
    let sql = "WITH RECURSIVE up (level, parent_id, name) AS ( \
                   SELECT CAST(0 AS BIGINT), parent_id, name FROM node WHERE id = ?1 \
                   UNION ALL SELECT level + 1, node.parent_id, node.name FROM up JOIN node ON node.id = up.parent_id \
                   WHERE up.parent_id > 0 AND level < ?2) \
               SELECT name FROM up WHERE parent_id > 0 ORDER BY level DESC";
    let names: Vec<String> = sql::all(link, sql, (node, codec::rows(PATH_DEPTH_MAX)), |row| row.get(0))?;
    let names = names.iter().map(|name| NodeName::new(name)).collect::<Result<_>>()?;
    Ok(DrivePath::from_names(names)?)
}

impl Spot<'_> {
    /// `PreconditionFailed` if what is here is not what the caller expects.
    pub(super) fn expect(&self, expect: Expect) -> Done<()> {
        let path = self.path;
        let message = match (expect, &self.node) {
            (Expect::Any, _) | (Expect::Absent, None) | (Expect::Present, Some(_)) => return Ok(()),
            (Expect::Seq(seq), Some(node)) if node.seq == seq => return Ok(()),
            (Expect::Absent, Some(_)) => format!("{path} exists already"),
            (Expect::Present | Expect::Seq(_), None) => format!("{path} does not exist"),
            (Expect::Seq(_), Some(_)) => format!("{path} was changed meanwhile: load it again"),
        };
        refuse(ErrorKind::PreconditionFailed, message)
    }

    /// The folder this is in; `Conflict` if there is none. The root has none.
    pub(super) fn parent(&self) -> Done<i64> {
        match self.above.last() {
            Some(&parent) if self.has_parent => Ok(parent),
            _ if self.path.is_root() => {
                Err(Error::forbidden("the root of a space cannot be made, moved or removed").into())
            }
            _ => refuse(ErrorKind::Conflict, format!("{}: the folder it should be in does not exist", self.path)),
        }
    }

    /// The node here; `NotFound` if there is none.
    pub(super) fn existing(&self) -> Done<&Node> {
        self.node.as_ref().ok_or_else(|| Error::not_found(format!("{} does not exist", self.path)).into())
    }

    /// The last name of the path; empty for the root.
    pub(super) fn name(&self) -> &str {
        self.path.name().map_or("", |name| name.as_str())
    }
}
