//! Taking names away and giving others, and what becomes of a node that somebody has open.

use super::bonds;
use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::index::note;
use super::lock_check::{Change, end_locks};
use super::posix::{End, anywhere, by_id, touch};
use super::posix_write::refusal;
use super::query as sql;
use super::remove::{detach, discard_always, discard_detached, purge, reparent};
use super::state::SpaceState;
use super::subtree::sizes_of;
use super::trash::purge_entry;
use super::tx::Tx;
use super::walk::Spot;
use crate::catalogue::Guard;
use crate::types::{Durable, Leave, Node, NodeKind, Rename, Renamed, Taken, Unlink};
use holdfast_base::{Error, ErrorKind, NodeId, Result, SpaceId};

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn unlink(
        &self,
        space: SpaceId,
        unlink: Unlink,
        guard: &Guard,
        durable: Durable,
    ) -> Result<NodeId> {
        let guard = guard.clone();
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load_for(tx, space, &guard)?;
            let node = remove(tx, &mut state, &unlink, &guard)?;
            state.save(tx)?;
            Ok(node)
        };
        self.0.submit_when("unlink", Scope::Space(space), work, refusal, durable).await
    }

    pub(super) async fn rename(
        &self,
        space: SpaceId,
        rename: Rename,
        guard: &Guard,
        durable: Durable,
    ) -> Result<Renamed> {
        let guard = guard.clone();
        let work = move |tx: &Tx<'_>| move_entry(tx, space, &rename, &guard);
        self.0.submit_when("rename", Scope::Space(space), work, refusal, durable).await
    }

    pub(super) async fn hold(&self, space: SpaceId, nodes: Vec<NodeId>, until_ms: i64) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            let sql = "UPDATE held SET until_ms = ?2 WHERE node_id = ?1 OR node_id IN \
                       (SELECT bond.node_id FROM bond WHERE space_id = ?3 AND bond_id = ?1)";
            nodes.iter().try_for_each(|node| sql::put(tx, sql, (node.0, until_ms, space.0)))
        };
        self.0.write("hold", Scope::Space(space), work).await
    }

    pub(super) async fn let_go(&self, space: SpaceId, node: NodeId) -> Result<()> {
        let work = move |tx: &Tx<'_>| let_go(tx, space, node);
        self.0.submit_when("let_go", Scope::Space(space), work, refusal, Durable::Soon).await
    }
}

/// Takes a name. The caller saves the state.
fn remove(tx: &Tx<'_>, state: &mut SpaceState, unlink: &Unlink, guard: &Guard) -> Done<NodeId> {
    let end = End::new(tx, state, unlink.parent, &unlink.name)?;
    let spot = end.spot(tx, state, |_| Change::Remove, guard)?;
    let node = spot.existing()?;
    if (node.kind == NodeKind::Folder) != unlink.folder {
        return refuse(
            ErrorKind::WrongKind,
            format!("{} is {}a folder", spot.path, if unlink.folder { "not " } else { "" }),
        );
    }
    refuse_members(tx, node)?;
    let id = node.id;
    leave(tx, state, &spot, &unlink.leave, guard)?;
    touch(tx, unlink.parent, unlink.leave.now_ns)?;
    state.next_seq_in([unlink.parent, id]);
    Ok(id)
}

/// Whether a folder has anything in it.
pub(super) fn has_members(tx: &Tx<'_>, node: &Node) -> Done<bool> {
    let sql = "SELECT 1 FROM node WHERE parent_id = ?1 LIMIT 1";
    Ok(node.kind == NodeKind::Folder && sql::first(tx, sql, [node.id.0], |_| Ok(()))?.is_some())
}

/// `Conflict` for a folder with anything in it.
fn refuse_members(tx: &Tx<'_>, node: &Node) -> Done<()> {
    if has_members(tx, node)? {
        return refuse(ErrorKind::Conflict, format!("{} is not empty", node.name));
    }
    Ok(())
}

/// Takes what is at `spot` out of the tree. Locks were checked.
pub(super) fn leave(tx: &Tx<'_>, state: &mut SpaceState, spot: &Spot<'_>, leave: &Leave, guard: &Guard) -> Done<()> {
    let (spot, stays) = &detach(tx, state, spot, leave.now_ns)?;
    let node = spot.existing()?;
    let forget = node.created_ms > leave.forget_after_ms || (node.kind == NodeKind::File && node.size == 0);
    // Whoever has a file open has it by the names that stay.
    if let Some(until_ms) = leave.held_until_ms.filter(|_| !stays) {
        discard_always(tx, state, spot, guard)?;
        let sql = "INSERT INTO held (node_id, until_ms, forget) VALUES (?1, ?2, ?3) ON CONFLICT (node_id) DO UPDATE SET \
                   until_ms = excluded.until_ms, forget = excluded.forget";
        return sql::put(tx, sql, (node.id.0, until_ms, forget));
    }
    if !forget {
        return discard_detached(tx, state, spot, guard).map(drop);
    }
    let sizes = sizes_of(tx, node.id.0)?;
    reparent(tx, node, spot.parent()?, state.limbo(), &format!("g{}", node.id))?;
    purge(tx, state, node.id.0, sizes)
}

/// Nobody has the node open any more. One that was put back meanwhile stays where it is.
fn let_go(tx: &Tx<'_>, space: SpaceId, node: NodeId) -> Done<()> {
    // It had lost its last name, by which its file may be known or not.
    let sql = "DELETE FROM held WHERE node_id = ?1 OR node_id IN \
               (SELECT bond.node_id FROM bond WHERE space_id = ?2 AND bond_id = ?1) RETURNING forget, node_id";
    let held = sql::first(tx, sql, (node.0, space.0), |row| Ok((row.get::<bool>(0)?, row.get::<i64>(1)?)))?;
    let Some((forget, node)) = held else { return Ok(()) };
    let mut state = SpaceState::load(tx, space)?;
    if !forget && state.retention.days != 0 {
        return Ok(());
    }
    let sql = "SELECT id FROM trash WHERE node_id = ?1 AND space_id = ?2";
    if let Some(entry) = sql::first(tx, sql, (node, space.0), |row| row.get::<i64>(0))? {
        purge_entry(tx, &mut state, entry)?;
        state.save(tx)?;
    }
    Ok(())
}

fn move_entry(tx: &Tx<'_>, space: SpaceId, rename: &Rename, guard: &Guard) -> Done<Renamed> {
    let mut state = SpaceState::load_for(tx, space, guard)?;
    let (from, to) =
        (End::new(tx, &state, rename.from.0, &rename.from.1)?, End::new(tx, &state, rename.to.0, &rename.to.1)?);
    let source = from.spot(tx, &mut state, |_| Change::Remove, guard)?;
    let there = |node: Option<&Node>| if node.is_some() { Change::Remove } else { Change::Add };
    let target = to.spot(tx, &mut state, there, guard)?;
    let node = source.existing()?;
    if rename.from == rename.to {
        return ended(tx, space, node.id, None);
    }
    if let Some(other) = &target.node
        && rename.taken != Taken::Refuse
        && bonds::are_one(tx, &state, node.id, other.id)?
    {
        // As POSIX has it: both names stay.
        return ended(tx, space, node.id, None);
    }
    if to.is_below(node.id) {
        return refuse(ErrorKind::InvalidInput, format!("{} cannot be moved into itself", source.path));
    }
    let other = match (&target.node, rename.taken) {
        (None, Taken::Exchange) => return Err(Error::not_found(format!("{} does not exist", target.path)).into()),
        (Some(_), Taken::Refuse) => {
            return refuse(ErrorKind::AlreadyExists, format!("{} exists already", target.path));
        }
        (Some(other), Taken::Exchange) if from.is_below(other.id) => {
            return refuse(ErrorKind::InvalidInput, format!("{} cannot be moved into itself", target.path));
        }
        (Some(other), Taken::Replace) => {
            replaceable(tx, node, other)?;
            Some(other.id)
        }
        (other, _) => other.as_ref().map(|other| other.id),
    };
    // What is replaced is told as it was; of what changes places it is told where it is.
    let replaced = match other {
        Some(other) if rename.taken == Taken::Replace => anywhere(tx, space, other)?,
        _ => None,
    };
    carry(tx, &mut state, (&source, &target), rename, guard)?;
    touch(tx, rename.from.0, rename.leave.now_ns)?;
    if rename.from.0 != rename.to.0 {
        touch(tx, rename.to.0, rename.leave.now_ns)?;
    }
    state.save(tx)?;
    match replaced {
        Some(replaced) => Ok(Renamed { other: Some(replaced), ..ended(tx, space, node.id, None)? }),
        None => ended(tx, space, node.id, other),
    }
}

/// Moves what is at one spot to the other, and what is there out of the tree or back. It was tested that this can be done. The caller notes that the
/// folders changed, and saves the state.
pub(super) fn carry(
    tx: &Tx<'_>,
    state: &mut SpaceState,
    (source, target): (&Spot<'_>, &Spot<'_>),
    rename: &Rename,
    guard: &Guard,
) -> Done<()> {
    let node = source.existing()?;
    // Counted where each is hung.
    state.touches([NodeId(source.parent()?), node.id].into_iter().chain(target.node.as_ref().map(|other| other.id)));
    end_locks(tx, state, node.id.0)?;
    if let Some(other) = &target.node {
        reparent(tx, node, source.parent()?, state.limbo(), &format!("m{}", node.id))?;
        if rename.taken == Taken::Exchange {
            end_locks(tx, state, other.id.0)?;
            rehang(tx, state, other.id, source, rename.leave.now_ns)?;
        } else {
            leave(tx, state, target, &rename.leave, guard)?;
        }
    }
    rehang(tx, state, node.id, target, rename.leave.now_ns)
}

fn replaceable(tx: &Tx<'_>, node: &Node, other: &Node) -> Done<()> {
    if node.kind != other.kind {
        return refuse(ErrorKind::WrongKind, "a file cannot replace a folder, nor a folder a file");
    }
    refuse_members(tx, other)
}

/// Hangs a node where `spot` is.
fn rehang(tx: &Tx<'_>, state: &mut SpaceState, node: NodeId, spot: &Spot<'_>, now_ns: i64) -> Done<()> {
    let sql = "UPDATE node SET parent_id = ?2, name = ?3, seq = ?4 WHERE id = ?1";
    let seq = state.next_seq_in([NodeId(spot.parent()?)]);
    sql::put(tx, sql, (node.0, spot.parent()?, spot.name(), seq))?;
    bonds::stamp(tx, state, node, now_ns)?;
    note(tx, state.id, node.0)
}

fn ended(tx: &Tx<'_>, space: SpaceId, node: NodeId, other: Option<NodeId>) -> Done<Renamed> {
    let missing = || Error::damaged("a node that was moved is not there; run holdfast check");
    let entry = by_id(tx, space, node)?.ok_or_else(missing)?;
    let other = other.map(|other| anywhere(tx, space, other)).transpose()?.flatten();
    Ok(Renamed { entry, other })
}
