//! Whether locks allow a change (RFC 4918 sections 6 and 7).
//!
//! A lock on a node protects its content and properties; a lock on a folder also protects the list of its members; a deep lock
//! does so for everything below. A protected thing may be changed by who submits the token of *one* of the locks that
//! cover it and holds that lock (more than one can only be when all are shared). A space without locks pays one comparison.
//!
//! A lock on one name of a file is one on all: whoever changes the file is looked at under each of its names, with the folders those are in.
//!
//! Locks on things below a folder are found through `lock_above`, which lists every ancestor of each locked node.

use super::bonds;
use super::fault::{Done, refuse};
use super::query::{self as sql, in_lists};
use super::seam::Row;
use super::state::SpaceState;
use super::tx::Tx;
use super::walk::{Spot, path_of};
use crate::catalogue::Guard;
use holdfast_base::{AccountId, ErrorKind, SpaceId};

/// What an operation does to the node it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Changes content or properties.
    Modify,
    /// Adds a member to a folder.
    Add,
    /// Takes a member, with everything below it, out of a folder.
    Remove,
}

struct Covering {
    node: i64,
    token: String,
    account: AccountId,
    deep: bool,
}

/// `Locked` unless the guard may make this change here. Removes lapsed locks of the space on the way.
pub(super) fn check(tx: &Tx<'_>, space: &mut SpaceState, spot: &Spot<'_>, change: Change, guard: &Guard) -> Done<()> {
    if space.locks == 0 {
        return Ok(());
    }
    let sql = "DELETE FROM node_lock WHERE space_id = ?1 AND expires_ms <= ?2";
    // Cascades are not counted, so this is the number of locks.
    let lapsed = sql::run(tx, sql, (space.id.0, guard.now_ms))?;
    space.locks -= i64::try_from(lapsed).unwrap_or(space.locks);
    if space.locks == 0 {
        return Ok(());
    }
    check_one(tx, spot, change, guard)?;
    if change == Change::Modify
        && let Some(node) = &spot.node
    {
        for other in bonds::other_names(tx, space, node.id)? {
            check_one(tx, &other.spot(), change, guard)?;
        }
    }
    Ok(())
}

/// The same under one name, with locks that have not lapsed.
fn check_one(tx: &Tx<'_>, spot: &Spot<'_>, change: Change, guard: &Guard) -> Done<()> {
    let mut nodes = spot.above.clone();
    nodes.extend(spot.node.as_ref().map(|node| node.id.0));
    let locks = on_nodes(tx, &nodes)?;
    let on = |id: i64| locks.iter().filter(move |lock| lock.node == id);
    let above: Vec<&Covering> = spot.above.iter().flat_map(|&folder| on(folder)).filter(|lock| lock.deep).collect();
    let above = || above.iter().copied();
    if change != Change::Add
        && let Some(node) = &spot.node
    {
        allow(tx, spot, guard, above().chain(on(node.id.0)))?;
    }
    if change != Change::Modify
        && let Some(&parent) = spot.above.last()
    {
        allow(tx, spot, guard, above().chain(on(parent).filter(|lock| !lock.deep)))?;
    }
    if change == Change::Remove
        && let Some(node) = &spot.node
    {
        let deep_own = || on(node.id.0).filter(|lock| lock.deep);
        allow_below(tx, spot, node.id.0, guard, &|| above().chain(deep_own()).collect())?;
    }
    Ok(())
}

/// Whether one of `locks`, if there are any, was submitted by its holder.
fn allow<'l>(tx: &Tx<'_>, spot: &Spot<'_>, guard: &Guard, locks: impl Iterator<Item = &'l Covering>) -> Done<()> {
    let mut blocking = None;
    for lock in locks {
        if lock.account == guard.account && guard.tokens.contains(&lock.token) {
            return Ok(());
        }
        blocking = blocking.or(Some(lock.node));
    }
    blocking.map_or(Ok(()), |node| locked(tx, spot, node))
}

/// Each locked node below must be allowed by one of its own locks, or by a deep lock above it.
fn allow_below<'l>(
    tx: &Tx<'_>,
    spot: &Spot<'_>,
    node: i64,
    guard: &Guard,
    covering: &dyn Fn() -> Vec<&'l Covering>,
) -> Done<()> {
    let mut below = locks_below(tx, node)?;
    below.sort_by_key(|lock| lock.node);
    for group in below.chunk_by(|left, right| left.node == right.node) {
        allow(tx, spot, guard, group.iter().chain(covering()))?;
    }
    Ok(())
}

/// The refusal that names the lock's root.
pub(super) fn locked<T>(tx: &Tx<'_>, spot: &Spot<'_>, root: i64) -> Done<T> {
    let (path, root) = (spot.path, path_of(tx, root)?);
    let message =
        if root == *path { format!("{path} is locked") } else { format!("{path} is locked by a lock on {root}") };
    refuse(ErrorKind::Locked, message)
}

fn on_nodes(tx: &Tx<'_>, nodes: &[i64]) -> Done<Vec<Covering>> {
    let mut locks = Vec::new();
    in_lists(nodes, |list, ids| {
        let sql = format!("SELECT node_id, token, account_id, deep FROM node_lock WHERE node_id IN ({list})");
        locks.extend(sql::all(tx, &sql, ids, covering)?);
        Ok(())
    })?;
    Ok(locks)
}

fn locks_below(tx: &Tx<'_>, node: i64) -> Done<Vec<Covering>> {
    let sql = "SELECT node_id, token, account_id, deep FROM lock_above JOIN node_lock ON id = lock_id \
               WHERE ancestor_id = ?1";
    sql::all(tx, sql, [node], covering)
}

fn covering(row: &Row<'_>) -> Done<Covering> {
    Ok(Covering { node: row.get(0)?, token: row.get(1)?, account: AccountId(row.get(2)?), deep: row.get(3)? })
}

/// Ends every lock on a node and below it; part of removing or moving it. The caller saves the state.
pub(super) fn end_locks(tx: &Tx<'_>, space: &mut SpaceState, node: i64) -> Done<()> {
    if space.locks == 0 {
        return Ok(());
    }
    let sql =
        "DELETE FROM node_lock WHERE node_id = ?1 OR id IN (SELECT lock_id FROM lock_above WHERE ancestor_id = ?1)";
    let ended = sql::run(tx, sql, [node])?;
    space.locks -= i64::try_from(ended).unwrap_or(space.locks);
    Ok(())
}

/// Ends every lock an account holds in a space.
pub(super) fn end_locks_of(tx: &Tx<'_>, space: SpaceId, account: AccountId) -> Done<()> {
    tx.lock_space(space)?;
    let sql = "DELETE FROM node_lock WHERE space_id = ?1 AND account_id = ?2";
    let ended = i64::try_from(sql::run(tx, sql, (space.0, account.0))?).unwrap_or(0);
    if ended == 0 {
        return Ok(());
    }
    sql::put(tx, "UPDATE space_sum SET locks = locks - ?2 WHERE space_id = ?1", (space.0, ended))
}
