//! Removing: whatever it is, it is one re-parenting and one row in the trash.

use super::bonds;
use super::codec::node_kind_number;
use super::engine::{Engine, Ops, Scope};
use super::fault::Done;
use super::lock_check::{self, Change, end_locks};
use super::query as sql;
use super::state::SpaceState;
use super::subtree::{Sizes, sizes_of};
use super::tx::Tx;
use super::walk::{Spot, walk};
use crate::catalogue::Guard;
use crate::types::{Node, NodeKind, to_ns};
use holdfast_base::{DrivePath, NodeId, Result, SpaceId};

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn remove(&self, space: SpaceId, path: &DrivePath, guard: &Guard) -> Result<Option<i64>> {
        let (path, guard) = (path.clone(), guard.clone());
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load_for(tx, space, &guard)?;
            let spot = walk(tx, space, state.root, &path)?;
            spot.expect(guard.expect)?;
            let (node, folder) = (spot.existing()?, NodeId(spot.parent()?));
            lock_check::check(tx, &mut state, &spot, Change::Remove, &guard)?;
            let entry = discard(tx, &mut state, &spot, &guard)?;
            if node.kind == NodeKind::File {
                state.next_seq_in([folder]);
            } else {
                // With all that is below it.
                state.next_seq();
            }
            state.save(tx)?;
            Ok(entry)
        };
        self.0.write("remove", Scope::Space(space), work).await
    }
}

/// Puts what is at `spot` into the trash and answers the entry, or purges it in a space that keeps nothing. Locks were checked; they
/// end here.
pub(super) fn discard(tx: &Tx<'_>, state: &mut SpaceState, spot: &Spot<'_>, guard: &Guard) -> Done<Option<i64>> {
    let (spot, _) = detach(tx, state, spot, to_ns(guard.now_ms))?;
    discard_detached(tx, state, &spot, guard)
}

/// The same for what was detached.
pub(super) fn discard_detached(
    tx: &Tx<'_>,
    state: &mut SpaceState,
    spot: &Spot<'_>,
    guard: &Guard,
) -> Done<Option<i64>> {
    let node = spot.existing()?;
    if state.retention.days == 0 {
        let sizes = sizes_of(tx, node.id.0)?;
        reparent(tx, node, spot.parent()?, state.limbo(), &format!("g{}", node.id))?;
        purge(tx, state, node.id.0, sizes)?;
        return Ok(None);
    }
    discard_always(tx, state, spot, guard).map(Some)
}

/// Ends locks, and bonds with names that stay: what comes first where something is taken out of the tree. Answers the spot from then on, and whether it was a file that
/// has other names. The caller saves the state.
pub(super) fn detach<'p>(tx: &Tx<'_>, state: &mut SpaceState, spot: &Spot<'p>, now_ns: i64) -> Done<(Spot<'p>, bool)> {
    let mut node = spot.existing()?.clone();
    end_locks(tx, state, node.id.0)?;
    let left = match node.kind {
        NodeKind::File => bonds::leave(tx, state, node.id, now_ns)?,
        NodeKind::Folder => bonds::leave_below(tx, state, node.id, now_ns).map(|()| None)?,
    };
    node.id = left.unwrap_or(node.id);
    let spot = Spot { path: spot.path, above: spot.above.clone(), has_parent: spot.has_parent, node: Some(node) };
    Ok((spot, left.is_some()))
}

/// Puts what is at `spot`, and detached, into the trash, whatever the space keeps.
pub(super) fn discard_always(tx: &Tx<'_>, state: &mut SpaceState, spot: &Spot<'_>, guard: &Guard) -> Done<i64> {
    let node = spot.existing()?;
    // Trash is listed newest first, and so by ids that grow.
    let newest = "SELECT coalesce(max(id), 0) FROM trash WHERE space_id = ?1";
    let entry = tx.new_id_after(|| sql::only(tx, newest, [state.id.0], |row| row.get(0)))?;
    reparent(tx, node, spot.parent()?, state.limbo(), &format!("t{entry}"))?;
    // A file's sizes are at hand; a folder's are found out when somebody asks.
    let sizes = if node.kind == NodeKind::File { Some(sizes_of(tx, node.id.0)?) } else { None };
    let sql = "INSERT INTO trash (id, space_id, node_id, kind, path, deleted_ms, by_id, bytes, version_bytes, nodes) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let values = (
        entry,
        state.id.0,
        node.id.0,
        node_kind_number(node.kind),
        spot.path.to_string(),
        guard.now_ms,
        guard.account.0,
        sizes.map(|sizes| sizes.bytes),
        sizes.map(|sizes| sizes.version_bytes),
        sizes.map(|sizes| sizes.nodes),
    );
    sql::put(tx, sql, values)?;
    Ok(entry)
}

/// Takes a subtree of known sizes, which hangs in the limbo without a trash entry, out of every sum; `release_garbage`
/// removes its rows.
pub(super) fn purge(tx: &Tx<'_>, state: &mut SpaceState, node: i64, sizes: Sizes) -> Done<()> {
    sql::put(tx, "INSERT INTO garbage (node_id) VALUES (?1)", [node])?;
    state.used -= sizes.bytes;
    state.version -= sizes.version_bytes;
    Ok(())
}

/// Moves a node from one key to another.
pub(super) fn reparent(tx: &Tx<'_>, node: &Node, from: i64, to: i64, name: &str) -> Done<()> {
    let sql = "UPDATE node SET parent_id = ?3, name = ?4 WHERE parent_id = ?1 AND name = ?2";
    sql::put(tx, sql, (from, &node.name, to, name))
}
