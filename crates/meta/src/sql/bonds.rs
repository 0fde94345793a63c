//! Hard links: nodes that are one file.
//!
//! Each name of a file is a node of its own, with its path, tags, old versions and locks. Those of one file have a *bond*: a row each
//! with the same `bond_id`. What changes content or attributes of one changes all of them in the same transaction ([`follow`], [`others`]), so that each is a file like any to whoever
//! knows nothing of this; contents are counted references already. In a space without any, all of this costs one comparison.
//!
//! **Numbers.** A file keeps the number it had before it was linked, which is that of a node of its; whoever knows it by that finds it as long as it has a name. When that node
//! leaves and others stay, the node gets another number ([`renumber`]) and not the file. So a number is that of one node, or of one bond
//! none of whose nodes has it. The last name of a file is an ordinary node again if it has the file's number; otherwise it keeps its row.
//!
//! **Leaving.** What is taken out of the tree leaves its bond, with the content it had: what is put back from the trash is a file of its own.
//! Of a folder that is removed as a whole, what is below is looked through for that, if the space has any bonds.

use super::codec::{self, node_columns, signed};
use super::contents;
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, Fault, refuse};
use super::index::note;
use super::instances::end_older;
use super::lock_check::Change;
use super::posix::{self, End, for_change, place, touch};
use super::posix_write::refusal;
use super::query as sql;
use super::state::SpaceState;
use super::subtree::LEVELS_MAX;
use super::tree_write::{new_node, set_content};
use super::tx::Tx;
use super::versions;
use super::walk::Spot;
use crate::catalogue::Guard;
use crate::types::{Bond, Durable, Entry, FILE_NAMES_MAX, NewName, Node, NodeKind, Posix};
use holdfast_base::{DrivePath, ErrorKind, NodeId, NodeName, Result, SpaceId};

/// Bonds of a space that are looked at one by one when a folder is removed: some µs each.
const FEW: usize = 256;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn link(
        &self,
        space: SpaceId,
        link: NewName,
        usual: Posix,
        guard: &Guard,
        durable: Durable,
    ) -> Result<Entry> {
        let guard = guard.clone();
        let work = move |tx: &Tx<'_>| add_name(tx, space, &link, &usual, &guard);
        self.0.submit_when("link", Scope::Space(space), work, refusal, durable).await
    }
}

fn add_name(tx: &Tx<'_>, space: SpaceId, link: &NewName, usual: &Posix, guard: &Guard) -> Done<Entry> {
    let mut state = SpaceState::load_for(tx, space, guard)?;
    if guard.through.iter().any(|through| through.space == space) {
        return refuse(ErrorKind::Forbidden, "a file gets another name from members of its space only");
    }
    if !state.bonds {
        end_older(tx)?;
    }
    let old = for_change(tx, &mut state, link.node, guard)?;
    if old.node.kind != NodeKind::File {
        return refuse(ErrorKind::WrongKind, "a folder has one name");
    }
    let end = End::new(tx, &state, link.parent, &link.name)?;
    let spot = end.spot(tx, &mut state, |_| Change::Add, guard)?;
    if spot.node.is_some() {
        return refuse(ErrorKind::AlreadyExists, format!("{} exists already", spot.path));
    }
    if old.names() >= FILE_NAMES_MAX {
        return refuse(ErrorKind::TooLarge, format!("a file can have {FILE_NAMES_MAX} names"));
    }
    let posix = Posix { ctime_ns: link.now_ns, ..old.attributes(usual) };
    posix::put(tx, old.node.id, &posix)?;
    for other in others(tx, &state, old.node.id)? {
        posix::put(tx, other.id, &posix)?;
    }
    let node = Node {
        id: NodeId(tx.new_id()?),
        parent: Some(link.parent),
        name: link.name.as_str().to_owned(),
        seq: state.next_seq(),
        created_ms: guard.now_ms,
        has_properties: false,
        ..old.node.clone()
    };
    contents::add_refs(tx, node.content.into_iter())?;
    state.used += signed(node.size);
    new_node(tx, &node)?;
    posix::copy(tx, std::iter::once((old.node.id, node.id)))?;
    let number = old.number();
    let sql = "INSERT INTO bond (node_id, bond_id, space_id) VALUES (?1, ?2, ?3)";
    if old.bond.is_none() {
        sql::put(tx, sql, (old.node.id.0, number.0, space.0))?;
    }
    sql::put(tx, sql, (node.id.0, number.0, space.0))?;
    touch(tx, link.parent, link.now_ns)?;
    state.is_of_more();
    state.save(tx)?;
    Ok(Entry { node, posix: Some(posix), bond: Some(Bond { number, names: old.names() + 1 }) })
}

/// Whether a file of the space has, or had, several names.
pub(super) fn has_any(tx: &Tx<'_>, space: SpaceId) -> Done<bool> {
    let sql = "SELECT 1 FROM bond WHERE space_id = ?1 LIMIT 1";
    Ok(sql::first(tx, sql, [space.0], |_| Ok(()))?.is_some())
}

/// The other names of a node's file.
pub(super) fn others(tx: &Tx<'_>, state: &SpaceState, node: NodeId) -> Done<Vec<Node>> {
    if !state.bonds {
        return Ok(Vec::new());
    }
    let sql = concat!(
        "SELECT ",
        node_columns!("node."),
        " FROM bond AS own JOIN bond AS other ON other.space_id = own.space_id AND other.bond_id = own.bond_id \
         JOIN node ON node.id = other.node_id WHERE own.node_id = ?1 AND other.node_id <> ?1 ORDER BY node.id"
    );
    sql::all(tx, sql, [node.0], codec::node)
}

/// Gives the other names of a file the content that one of them has now, which has its row and that one's reference. `keep` is whether
/// what they had becomes an old version. The caller saves the state; answers which they are.
pub(super) fn follow(tx: &Tx<'_>, state: &mut SpaceState, now: &Node, keep: bool, guard: &Guard) -> Done<Vec<Node>> {
    let others = others(tx, state, now.id)?;
    contents::add_refs(tx, others.iter().filter_map(|_| now.content))?;
    for old in &others {
        state.used += signed(now.size);
        if keep {
            versions::supersede(tx, state, old, guard)?;
        } else {
            versions::let_go(tx, state, old)?;
        }
        follow_one(tx, now, old)?;
    }
    if !others.is_empty() {
        state.is_of_more();
    }
    Ok(others)
}

/// Writes the content that a file has now under another of its names.
pub(super) fn follow_one(tx: &Tx<'_>, now: &Node, other: &Node) -> Done<()> {
    let Node { content, size, seq, modified_ms, .. } = *now;
    set_content(tx, &Node { content, size, seq, modified_ms, ..other.clone() })
}

/// The attributes of a file changed: writes them under its other names. Extended ones are not among them, but how many there are.
pub(super) fn follow_attributes(tx: &Tx<'_>, state: &mut SpaceState, now: &Entry) -> Done<Vec<Node>> {
    let others = others(tx, state, now.node.id)?;
    for other in &others {
        if let Some(posix) = &now.posix {
            posix::put(tx, other.id, posix)?;
        }
        follow_time(tx, now.node.modified_ms, other)?;
    }
    if !others.is_empty() {
        state.is_of_more();
    }
    Ok(others)
}

/// Writes a file's modification time under another of its names.
pub(super) fn follow_time(tx: &Tx<'_>, modified_ms: i64, other: &Node) -> Done<()> {
    if other.modified_ms == modified_ms {
        return Ok(());
    }
    sql::put(tx, "UPDATE node SET modified_ms = ?2 WHERE id = ?1", (other.id.0, modified_ms))
}

/// A name of a file changed: notes when, under all of them.
pub(super) fn stamp(tx: &Tx<'_>, state: &mut SpaceState, node: NodeId, now_ns: i64) -> Done<()> {
    let others = others(tx, state, node)?;
    for node in std::iter::once(node).chain(others.iter().map(|other| other.id)) {
        sql::put(tx, "UPDATE posix SET ctime_ns = ?2 WHERE node_id = ?1", (node.0, now_ns))?;
    }
    if !others.is_empty() {
        state.is_of_more();
    }
    Ok(())
}

/// Another name of a file, where it is.
pub(super) struct OtherName {
    path: DrivePath,
    above: Vec<i64>,
    pub(super) node: Node,
}

impl OtherName {
    /// As if it had been walked to.
    pub(super) fn spot(&self) -> Spot<'_> {
        Spot { path: &self.path, above: self.above.clone(), has_parent: true, node: Some(self.node.clone()) }
    }
}

/// The other names of a node's file, with their places: what locks are looked for on.
pub(super) fn other_names(tx: &Tx<'_>, state: &SpaceState, node: NodeId) -> Done<Vec<OtherName>> {
    let mut names = Vec::new();
    for node in others(tx, state, node)? {
        let Some(parent) = node.parent else { continue };
        match place(tx, state, parent) {
            Ok(place) => {
                let path = place.path.join(NodeName::new(&node.name)?)?;
                names.push(OtherName { path, above: place.above, node });
            }
            // One that is not in the tree has no locks; `check` finds it.
            Err(Fault::Refused(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(names)
}

/// Whether two nodes are names of one file.
pub(super) fn are_one(tx: &Tx<'_>, state: &SpaceState, one: NodeId, other: NodeId) -> Done<bool> {
    if one == other || !state.bonds {
        return Ok(one == other);
    }
    let sql = "SELECT 1 FROM bond AS own JOIN bond AS other ON other.space_id = own.space_id AND other.bond_id = own.bond_id \
               WHERE own.node_id = ?1 AND other.node_id = ?2";
    Ok(sql::first(tx, sql, (one.0, other.0), |_| Ok(()))?.is_some())
}

/// Takes a node out of its bond, as a part of taking it out of the tree, after its locks ended. Answers its number from then on; none if its file has
/// no other name. The caller saves the state.
pub(super) fn leave(tx: &Tx<'_>, state: &mut SpaceState, node: NodeId, now_ns: i64) -> Done<Option<NodeId>> {
    if !state.bonds {
        return Ok(None);
    }
    let Some((node, stay)) = part(tx, state.id, node)? else { return Ok(None) };
    for other in stay {
        sql::put(tx, "UPDATE posix SET ctime_ns = ?2 WHERE node_id = ?1", (other, now_ns))?;
    }
    state.is_of_more();
    Ok(Some(node))
}

/// Takes a node from the others of its file. Answers its number from then on, and those that stay; none if there are none.
pub(super) fn part(tx: &Tx<'_>, space: SpaceId, node: NodeId) -> Done<Option<(NodeId, Vec<i64>)>> {
    let sql = "SELECT other.node_id, other.bond_id FROM bond AS own \
               JOIN bond AS other ON other.space_id = own.space_id AND other.bond_id = own.bond_id \
               WHERE own.node_id = ?1 AND other.node_id <> ?1 ORDER BY other.node_id";
    let stay: Vec<(i64, i64)> = sql::all(tx, sql, [node.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some(&(_, number)) = stay.first() else { return Ok(None) };
    sql::put(tx, "DELETE FROM bond WHERE node_id = ?1", [node.0])?;
    if stay == [(number, number)] {
        sql::put(tx, "DELETE FROM bond WHERE node_id = ?1", [number])?;
    }
    let node = if node.0 == number { renumber(tx, space, node)? } else { node };
    Ok(Some((node, stay.into_iter().map(|(other, _)| other).collect())))
}

/// The same for everything below a folder.
pub(super) fn leave_below(tx: &Tx<'_>, state: &mut SpaceState, folder: NodeId, now_ns: i64) -> Done<()> {
    if !state.bonds {
        return Ok(());
    }
    for node in below(tx, state.id, folder)? {
        leave(tx, state, NodeId(node), now_ns)?;
    }
    Ok(())
}

/// Nodes below a folder that have a bond: of few, each is asked for the folders it is in; where there are more, everything below is looked through.
fn below(tx: &Tx<'_>, space: SpaceId, folder: NodeId) -> Done<Vec<i64>> {
    let sql = "SELECT count(*) FROM (SELECT node_id FROM bond WHERE space_id = ?1 LIMIT ?2) AS few";
    let bonds: usize = sql::only(tx, sql, (space.0, codec::rows(FEW + 1)), |row| row.get(0))?;
    if bonds <= FEW {
        let sql = "WITH RECURSIVE up (node_id, level, folder_id) AS ( \
                       SELECT bond.node_id, CAST(0 AS BIGINT), parent_id FROM bond JOIN node ON node.id = bond.node_id \
                       WHERE bond.space_id = ?2 \
                       UNION ALL SELECT up.node_id, level + 1, node.parent_id FROM up JOIN node ON node.id = up.folder_id \
                       WHERE up.folder_id > 0 AND up.folder_id <> ?1 AND level < ?3) \
                   SELECT node_id FROM up WHERE folder_id = ?1 ORDER BY node_id";
        return sql::all(tx, sql, (folder.0, space.0, LEVELS_MAX), |row| row.get(0));
    }
    let sql = "WITH RECURSIVE below (id, kind) AS ( \
                   SELECT id, kind FROM node WHERE parent_id = ?1 \
                   UNION ALL SELECT node.id, node.kind FROM below JOIN node ON parent_id = below.id WHERE below.kind = 0) \
               SELECT below.id FROM below JOIN bond ON bond.node_id = below.id ORDER BY below.id";
    sql::all(tx, sql, [folder.0], |row| row.get(0))
}

/// Gives a node that is leaving another number: the file that stays is known by this one.
fn renumber(tx: &Tx<'_>, space: SpaceId, node: NodeId) -> Done<NodeId> {
    let new = tx.new_id()?;
    sql::put(tx, "UPDATE node SET id = ?2 WHERE id = ?1", (node.0, new))?;
    for table in ["property", "version", "posix", "xattr", "trash"] {
        sql::put(tx, &format!("UPDATE {table} SET node_id = ?2 WHERE node_id = ?1"), (node.0, new))?;
    }
    let sql = "UPDATE share SET node_id = ?2 WHERE node_id = ?1 AND space_id = ?3";
    sql::put(tx, sql, (node.0, new, space.0))?;
    sql::put(tx, "DELETE FROM word WHERE node_id = ?1", [node.0])?;
    sql::put(tx, "DELETE FROM unindexed WHERE space_id = ?1 AND node_id = ?2", (space.0, node.0))?;
    note(tx, space, new)?;
    Ok(NodeId(new))
}
