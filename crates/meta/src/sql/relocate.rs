//! Moving: one re-parenting, whatever is below.
//!
//! If something at the destination is replaced, the moved node waits in the space's limbo while that goes to the trash, so
//! that even the folder a node is in can be replaced by the node.

use super::engine::{Engine, Ops, Scope};
use super::fault::{Done, refuse};
use super::index::note;
use super::lock_check::{self, Change, end_locks};
use super::query as sql;
use super::remove::{discard, reparent};
use super::state::SpaceState;
use super::tags;
use super::tx::Tx;
use super::walk::{Spot, walk};
use crate::catalogue::{Changed, Guard, Relocation};
use crate::types::Node;
use holdfast_base::{ErrorKind, NodeId, Result};

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn relocate(&self, relocation: &Relocation, guard: &Guard) -> Result<Changed> {
        let (relocation, guard) = (relocation.clone(), guard.clone());
        self.0.write("relocate", Scope::Space(relocation.space), move |tx| relocate(tx, &relocation, &guard)).await
    }
}

/// Source and destination of a copy or move, tested for everything that does not depend on which of the two it is.
pub(super) fn both_ends<'r>(
    tx: &Tx<'_>,
    state: &SpaceState,
    relocation: &'r Relocation,
    guard: &Guard,
) -> Done<(Spot<'r>, Spot<'r>)> {
    let source = walk(tx, relocation.space, state.root, &relocation.from)?;
    source.existing()?;
    source.expect(relocation.source_expect)?;
    if relocation.from == relocation.to {
        return refuse(ErrorKind::Forbidden, format!("{} cannot be copied or moved onto itself", relocation.from));
    }
    let destination = walk(tx, relocation.space, state.root, &relocation.to)?;
    destination.parent()?;
    destination.expect(guard.expect)?;
    if destination.node.is_some() && !relocation.overwrite {
        return refuse(ErrorKind::PreconditionFailed, format!("{} exists already", relocation.to));
    }
    Ok((source, destination))
}

/// Tests locks at the destination: what is there is removed, and a member is added.
pub(super) fn check_destination(
    tx: &Tx<'_>,
    state: &mut SpaceState,
    destination: &Spot<'_>,
    guard: &Guard,
) -> Done<()> {
    let change = if destination.node.is_some() { Change::Remove } else { Change::Add };
    lock_check::check(tx, state, destination, change, guard)
}

fn relocate(tx: &Tx<'_>, relocation: &Relocation, guard: &Guard) -> Done<Changed> {
    let mut state = SpaceState::load_for(tx, relocation.space, guard)?;
    if relocation.from != relocation.to && relocation.from.contains(&relocation.to) {
        let (from, to) = (&relocation.from, &relocation.to);
        return refuse(ErrorKind::Conflict, format!("{from} cannot be moved into itself, to {to}"));
    }
    let (source, destination) = both_ends(tx, &state, relocation, guard)?;
    let old = source.existing()?;
    let from = source.parent()?;
    let to = destination.parent()?;
    lock_check::check(tx, &mut state, &source, Change::Remove, guard)?;
    check_destination(tx, &mut state, &destination, guard)?;
    end_locks(tx, &mut state, old.id.0)?;
    let created = destination.node.is_none();
    if !created {
        reparent(tx, old, from, state.limbo(), &format!("m{}", old.id))?;
        discard(tx, &mut state, &destination, guard)?;
    }
    let seq = if created { state.next_seq_in([NodeId(from), NodeId(to), old.id]) } else { state.next_seq() };
    let node = Node { parent: Some(NodeId(to)), name: destination.name().to_owned(), seq, ..old.clone() };
    let sql = "UPDATE node SET parent_id = ?2, name = ?3, seq = ?4 WHERE id = ?1";
    sql::put(tx, sql, (node.id.0, to, &node.name, node.seq))?;
    if node.name != old.name {
        note(tx, node.space, node.id.0)?;
    }
    let changed = Changed { node, created };
    let changed = tags::add_to_written(tx, &mut state, &relocation.to, changed, &relocation.tags, guard)?;
    state.save(tx)?;
    Ok(changed)
}
