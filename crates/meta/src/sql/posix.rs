//! Nodes as a mount sees them: by number, with attributes that lie in a row beside the node's.
//!
//! A mount knows nodes by their numbers, so no operation walks a path down. One that changes something walks *up* from the folder once
//! ([`place`]): that proves that the folder is still in the tree, and gives the path and the folders that locks and the trash ask for.
//!
//! The row beside a node is made by mounts only. Other faces write milliseconds into the node's own row, and
//! [`Entry::attributes`](crate::types::Entry::attributes) finds out who wrote last; content that comes another way makes any node a regular
//! file. To them a link, a FIFO, a socket or a device is a small file; a link's target is its content, so it is sealed, versioned and
//! moved like any.

use super::chain::child;
use super::codec::{self, NODE_COLUMNS};
use super::fault::{Done, refuse};
use super::lock_check::{self, Change};
use super::query as sql;
use super::seam::{Dialect, Link, Row, Value, damaged};
use super::state::SpaceState;
use super::tx::Tx;
use super::walk::Spot;
use crate::catalogue::Guard;
use crate::types::{Bond, Entry, Node, NodeKind, Posix, Special, Standing};
use holdfast_base::limits::PATH_DEPTH_MAX;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeId, NodeName, Result, SpaceId};
use std::sync::LazyLock;

/// Columns of [`entry`], from the tables of `entry_tables`, after `SELECT`.
macro_rules! entry_columns {
    () => {
        concat!(
            super::codec::node_columns!("node."),
            ", posix.kind, mode, uid, gid, rdev, atime_ns, mtime_ns, ctime_ns, xattrs, bond.bond_id, \
             (SELECT count(*) FROM bond AS name WHERE name.space_id = bond.space_id AND name.bond_id = bond.bond_id)"
        )
    };
}

/// Where they come from.
macro_rules! entry_tables {
    () => {
        " FROM node LEFT JOIN posix ON posix.node_id = node.id LEFT JOIN bond ON bond.node_id = node.id WHERE "
    };
}

/// How many [`entry_columns`] there are.
const ENTRY_COLUMNS: usize = NODE_COLUMNS + 11;

/// Says whether a row of SQLite is what was written; see [`child`].
macro_rules! sound {
    () => {
        "node.sum = row_sum(node.parent_id, node.name, node.id, node.space_id, node.kind, node.content_id, node.size, \
         node.seq, node.created_ms, node.modified_ms, node.has_properties) AND (posix.sum IS NULL OR posix.sum = \
         row_sum(posix.node_id, posix.kind, mode, uid, gid, rdev, atime_ns, mtime_ns, ctime_ns, xattrs)) AND \
         (bond.sum IS NULL OR bond.sum = row_sum(bond.node_id, bond.bond_id, bond.space_id))"
    };
}

/// A query for one [`entry`], and whether its row is sound.
macro_rules! one {
    ($link:expr, $condition:literal) => {
        match $link.dialect() {
            Dialect::Sqlite => one!(sound!(), $condition,),
            Dialect::Postgres => one!("TRUE", $condition,),
        }
    };
    ($sound:expr, $condition:literal,) => {
        concat!("SELECT ", entry_columns!(), ", ", $sound, entry_tables!(), $condition)
    };
}

/// One node by its number, or that of its file, if it has a name.
pub(super) fn by_id(link: &dyn Link, space: SpaceId, id: NodeId) -> Done<Option<Entry>> {
    // Without a folder are the root, whose name is empty, and what is in the limbo, which has names of its own.
    Ok(anywhere(link, space, id)?.filter(|entry| entry.node.parent.is_some() || entry.node.name.is_empty()))
}

/// The same, in the tree or not.
pub(super) fn anywhere(link: &dyn Link, space: SpaceId, id: NodeId) -> Done<Option<Entry>> {
    match by_node(link, space, id)? {
        None => by_bond(link, space, id),
        entry => Ok(entry),
    }
}

/// One node by its own number, in the tree or not.
pub(super) fn by_node(link: &dyn Link, space: SpaceId, id: NodeId) -> Done<Option<Entry>> {
    let sql = one!(link, "node.id = ?1 AND node.space_id = ?2");
    Ok(one(link, sql, (id.0, space.0))?.filter(|entry| entry.node.id == id))
}

/// A node of the file of this number: what the file was known by has left it, and any name will do.
pub(super) fn by_bond(link: &dyn Link, space: SpaceId, id: NodeId) -> Done<Option<Entry>> {
    let sql = one!(
        link,
        "node.id = (SELECT min(name.node_id) FROM bond AS name WHERE name.space_id = ?2 AND name.bond_id = ?1) \
         AND node.space_id = ?2"
    );
    Ok(one(link, sql, (id.0, space.0))?.filter(|entry| entry.number() == id))
}

/// One member of a folder.
pub(super) fn by_name(link: &dyn Link, space: SpaceId, folder: NodeId, name: &str) -> Done<Option<Entry>> {
    let sql = one!(link, "node.parent_id = ?1 AND node.name = ?2 AND node.space_id = ?3");
    let found = one(link, sql, (folder.0, name, space.0))?;
    if found.as_ref().is_some_and(|entry| entry.node.parent != Some(folder) || entry.node.name != name) {
        return Err(damaged("the catalogue's record of a file or folder fails its integrity check").into());
    }
    Ok(found)
}

/// See [`Catalogue::standing`](crate::Catalogue::standing).
pub(super) fn standing(link: &dyn Link, space: SpaceId) -> Done<Option<Standing>> {
    let sql = "SELECT seq, locks FROM space_sum WHERE space_id = ?1";
    sql::first(link, sql, [space.0], |row| Ok(Standing { seq: row.get(0)?, locks: row.get(1)? }))
}

fn one(link: &dyn Link, sql: &str, params: impl super::seam::Params) -> Done<Option<Entry>> {
    sql::first(link, sql, params, |row| {
        if !row.get::<bool>(ENTRY_COLUMNS)? {
            return Err(damaged("the catalogue's record of a file or folder fails its integrity check").into());
        }
        entry(row)
    })
}

/// Members of a folder in byte order of name.
pub(super) fn members(
    link: &dyn Link,
    space: SpaceId,
    folder: NodeId,
    after: Option<&NodeName>,
    limit: usize,
) -> Done<Vec<Entry>> {
    let sql = concat!(
        "SELECT ",
        entry_columns!(),
        entry_tables!(),
        "node.parent_id = ?1 AND node.name > ?2 AND node.space_id = ?4 ORDER BY node.name LIMIT ?3"
    );
    // No name is empty, so every name comes after the empty one.
    let after = after.map_or("", |name| name.as_str());
    sql::all(link, sql, (folder.0, after, codec::rows(limit), space.0), entry)
}

fn entry(row: &Row<'_>) -> Done<Entry> {
    const AT: usize = NODE_COLUMNS;
    let node = codec::node(row)?;
    let posix = match row.get::<Option<i64>>(AT)? {
        None => None,
        Some(kind) => Some(Posix {
            special: special(kind)?,
            mode: row.get(AT + 1)?,
            uid: row.get(AT + 2)?,
            gid: row.get(AT + 3)?,
            rdev: row.get(AT + 4)?,
            atime_ns: row.get(AT + 5)?,
            mtime_ns: row.get(AT + 6)?,
            ctime_ns: row.get(AT + 7)?,
            xattrs: row.get(AT + 8)?,
        }),
    };
    let bond = match row.get::<Option<i64>>(AT + 9)? {
        None => None,
        Some(number) => Some(Bond { number: NodeId(number), names: row.get(AT + 10)? }),
    };
    Ok(Entry { node, posix, bond })
}

/// Part of the file format.
fn special(number: i64) -> Done<Special> {
    Ok(match number {
        0 => Special::None,
        1 => Special::Link,
        2 => Special::Fifo,
        3 => Special::Socket,
        4 => Special::Character,
        5 => Special::Block,
        other => return Err(damaged(format!("{other} is no kind of node")).into()),
    })
}

const fn special_number(special: Special) -> i64 {
    match special {
        Special::None => 0,
        Special::Link => 1,
        Special::Fifo => 2,
        Special::Socket => 3,
        Special::Character => 4,
        Special::Block => 5,
    }
}

/// Writes attributes, whether there were any or not.
pub(super) fn put(tx: &Tx<'_>, node: NodeId, posix: &Posix) -> Done<()> {
    let sql = "INSERT INTO posix (node_id, kind, mode, uid, gid, rdev, atime_ns, mtime_ns, ctime_ns, xattrs) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (node_id) DO UPDATE SET kind = excluded.kind, \
               mode = excluded.mode, uid = excluded.uid, gid = excluded.gid, rdev = excluded.rdev, \
               atime_ns = excluded.atime_ns, mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, \
               xattrs = excluded.xattrs";
    let Posix { special, mode, uid, gid, rdev, atime_ns, mtime_ns, ctime_ns, xattrs } = *posix;
    let kind = special_number(special);
    sql::put(tx, sql, (node.0, kind, mode & 0o7777, uid, gid, rdev, atime_ns, mtime_ns, ctime_ns, xattrs))
}

/// Nodes of one statement.
const TOGETHER: usize = 64;

/// Gives copies of nodes the attributes of their originals.
pub(super) fn copy(tx: &Tx<'_>, nodes: impl Iterator<Item = (NodeId, NodeId)>) -> Done<()> {
    static MANY: LazyLock<[String; 2]> = LazyLock::new(|| copying(TOGETHER));
    static ONE: LazyLock<[String; 2]> = LazyLock::new(|| copying(1));
    let pairs: Vec<[Value<'_>; 2]> = nodes.map(|(from, to)| [Value::Integer(from.0), Value::Integer(to.0)]).collect();
    let (many, rest) = pairs.as_chunks::<TOGETHER>();
    for pairs in many {
        MANY.iter().try_for_each(|sql| tx.put(sql, pairs.as_flattened()))?;
    }
    rest.iter().try_for_each(|pair| ONE.iter().try_for_each(|sql| tx.put(sql, pair)))
}

/// Statements that copy attributes and extended ones of so many nodes.
fn copying(nodes: usize) -> [String; 2] {
    let pair = |at: usize| format!("(CAST(?{} AS BIGINT), CAST(?{} AS BIGINT))", 2 * at + 1, 2 * at + 2);
    let pairs = (0..nodes).map(pair).collect::<Vec<_>>().join(", ");
    let one = |table: &str, columns: &str| {
        format!(
            "WITH named (original, copied) AS (VALUES {pairs}) INSERT INTO {table} (node_id, {columns}) \
             SELECT copied, {columns} FROM named, {table} WHERE node_id = original"
        )
    };
    let attributes = "kind, mode, uid, gid, rdev, atime_ns, mtime_ns, ctime_ns, xattrs";
    [one("posix", attributes), one("xattr", "name, value")]
}

/// Removes what there is of a node that goes.
pub(super) fn forget(tx: &Tx<'_>, node: i64) -> Done<()> {
    sql::put(tx, "DELETE FROM posix WHERE node_id = ?1", [node])?;
    sql::put(tx, "DELETE FROM xattr WHERE node_id = ?1", [node])?;
    sql::put(tx, "DELETE FROM held WHERE node_id = ?1", [node])
}

/// A folder in the tree.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) path: DrivePath,
    /// The folders from the root down, itself included.
    pub(super) above: Vec<i64>,
}

/// Walks up from a folder; `NotFound` if that does not end at the space's root, `WrongKind` if it is a file.
pub(super) fn place(link: &dyn Link, state: &SpaceState, folder: NodeId) -> Done<Place> {
    let sql = "WITH RECURSIVE up (level, id, parent_id, name, kind) AS ( \
                   SELECT CAST(0 AS BIGINT), id, parent_id, name, kind FROM node WHERE id = ?1 \
                   UNION ALL SELECT level + 1, node.id, node.parent_id, node.name, node.kind \
                   FROM up JOIN node ON node.id = up.parent_id WHERE up.parent_id > 0 AND level < ?2) \
               SELECT id, parent_id, name, kind FROM up ORDER BY level DESC";
    let depth = codec::rows(PATH_DEPTH_MAX);
    let rows: Vec<(i64, i64, String, NodeKind)> = sql::all(link, sql, (folder.0, depth), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, codec::node_kind(row, 3)?))
    })?;
    let (Some((top, 0, ..)), Some((.., kind))) = (rows.first(), rows.last()) else { return gone() };
    if *top != state.root {
        return gone();
    }
    if *kind != NodeKind::Folder {
        return refuse(ErrorKind::WrongKind, "this is not a folder");
    }
    let names = rows.iter().skip(1).map(|(_, _, name, _)| NodeName::new(name)).collect::<Result<_>>()?;
    Ok(Place { path: DrivePath::from_names(names)?, above: rows.iter().map(|(id, ..)| *id).collect() })
}

fn gone<T>() -> Done<T> {
    Err(Error::not_found("the folder was removed").into())
}

/// One end of an operation: a folder, a name in it, and the path of both.
pub(super) struct End {
    place: Place,
    path: DrivePath,
}

impl End {
    /// Of a folder and a name.
    pub(super) fn new(link: &dyn Link, state: &SpaceState, folder: NodeId, name: &NodeName) -> Done<Self> {
        Self::at(place(link, state, folder)?, name)
    }

    /// Of a folder that was found before.
    pub(super) fn at(place: Place, name: &NodeName) -> Done<Self> {
        let path = place.path.join(name.clone())?;
        Ok(Self { place, path })
    }

    /// What is there, after a test of locks.
    pub(super) fn spot(
        &self,
        tx: &Tx<'_>,
        state: &mut SpaceState,
        change: impl FnOnce(Option<&Node>) -> Change,
        guard: &Guard,
    ) -> Done<Spot<'_>> {
        let name = self.path.name().map_or("", |name| name.as_str());
        let folder = self.place.above.last().copied().unwrap_or(0);
        let node = child(tx, folder, name)?;
        let spot = Spot { path: &self.path, above: self.place.above.clone(), has_parent: true, node };
        lock_check::check(tx, state, &spot, change(spot.node.as_ref()), guard)?;
        Ok(spot)
    }

    /// What was found there, after a test of locks.
    pub(super) fn found(
        &self,
        tx: &Tx<'_>,
        state: &mut SpaceState,
        node: Option<Node>,
        guard: &Guard,
    ) -> Done<Spot<'_>> {
        let change = if node.is_some() { Change::Remove } else { Change::Add };
        let spot = Spot { path: &self.path, above: self.place.above.clone(), has_parent: true, node };
        lock_check::check(tx, state, &spot, change, guard)?;
        Ok(spot)
    }

    /// Whether this is in a folder or below it.
    pub(super) fn is_below(&self, folder: NodeId) -> bool {
        self.place.above.contains(&folder.0)
    }
}

/// A node, by its number or that of its file, that is to be changed: in the tree, and no lock in the way.
pub(super) fn for_change(tx: &Tx<'_>, state: &mut SpaceState, node: NodeId, guard: &Guard) -> Done<Entry> {
    let missing = || Error::not_found("there is no such file or folder any more");
    let entry = by_id(tx, state.id, node)?.ok_or_else(missing)?;
    let (above, path) = match entry.node.parent {
        None => (Vec::new(), DrivePath::root()),
        Some(parent) => {
            let place = place(tx, state, parent)?;
            let path = place.path.join(NodeName::new(&entry.node.name)?)?;
            (place.above, path)
        }
    };
    let spot = Spot { path: &path, above, has_parent: true, node: Some(entry.node.clone()) };
    lock_check::check(tx, state, &spot, Change::Modify, guard)?;
    Ok(entry)
}

/// Notes that a folder's members changed. Its entity tag stays: other faces see a folder as unchanged by what is in it.
pub(super) fn touch(tx: &Tx<'_>, folder: NodeId, now_ns: i64) -> Done<()> {
    let sql = "UPDATE node SET modified_ms = ?2 WHERE id = ?1";
    sql::put(tx, sql, (folder.0, crate::types::to_ms(now_ns)))?;
    let sql = "UPDATE posix SET mtime_ns = ?2, ctime_ns = ?2 WHERE node_id = ?1";
    sql::put(tx, sql, (folder.0, now_ns))
}
