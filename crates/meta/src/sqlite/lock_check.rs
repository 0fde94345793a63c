//! Whether locks allow a change (RFC 4918 sections 6 and 7).
//!
//! A lock on a node protects its content and properties; a lock on a folder also protects the list of its members; a deep lock
//! does so for everything below. A protected thing may be changed by who submits the token of *one* of the locks that
//! cover it and holds that lock (more than one can only be when all are shared). A space without locks pays one comparison.
//!
//! Locks on things below a folder are found through `lock_above`, which lists every ancestor of each locked node.

use super::fault::{Done, refuse};
use super::sql;
use super::state::SpaceState;
use super::tx::Tx;
use super::walk::Spot;
use crate::catalogue::Guard;
use holdfast_base::{AccountId, ErrorKind};

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
    let lapsed =
        sql::run(tx, "DELETE FROM node_lock WHERE space_id = ?1 AND expires_ms <= ?2", (space.id.0, guard.now_ms))?;
    // Cascades are not counted, so this is the number of locks; the trigger did the same to the table.
    space.locks -= i64::try_from(lapsed).unwrap_or(space.locks);
    if space.locks == 0 {
        return Ok(());
    }
    let above = deep_above(tx, spot)?;
    if change != Change::Add
        && let Some(node) = &spot.node
    {
        allow(spot, guard, above.iter().chain(&on_node(tx, node.id.0)?))?;
    }
    if change != Change::Modify
        && let Some(&parent) = spot.above.last()
    {
        allow(spot, guard, above.iter().chain(on_node(tx, parent)?.iter().filter(|lock| !lock.deep)))?;
    }
    if change == Change::Remove
        && let Some(node) = &spot.node
    {
        allow_below(tx, spot, node.id.0, guard, &above)?;
    }
    Ok(())
}

/// Whether one of `locks`, if there are any, was submitted by its holder.
fn allow<'l>(spot: &Spot<'_>, guard: &Guard, locks: impl Iterator<Item = &'l Covering>) -> Done<()> {
    let mut any = false;
    for lock in locks {
        if lock.account == guard.account && guard.tokens.contains(&lock.token) {
            return Ok(());
        }
        any = true;
    }
    if any { refuse(ErrorKind::Locked, format!("{} is locked", spot.path)) } else { Ok(()) }
}

/// Each locked node below must be allowed by one of its own locks, or by a deep lock above it.
fn allow_below(tx: &Tx<'_>, spot: &Spot<'_>, node: i64, guard: &Guard, above: &[Covering]) -> Done<()> {
    let mut below = locks_below(tx, node)?;
    below.sort_by_key(|lock| lock.node);
    let own = on_node(tx, node)?;
    for group in below.chunk_by(|left, right| left.node == right.node) {
        let deep_own = own.iter().filter(|lock| lock.deep);
        allow(spot, guard, group.iter().chain(deep_own).chain(above))
            .map_err(|_| super::fault::Fault::Refused(locked_below(spot)))?;
    }
    Ok(())
}

fn locked_below(spot: &Spot<'_>) -> holdfast_base::Error {
    holdfast_base::Error::new(ErrorKind::Locked, format!("something in {} is locked", spot.path))
}

/// Deep locks on the folders above.
fn deep_above(tx: &Tx<'_>, spot: &Spot<'_>) -> Done<Vec<Covering>> {
    let mut locks = Vec::new();
    for &folder in &spot.above {
        locks.extend(on_node(tx, folder)?.into_iter().filter(|lock| lock.deep));
    }
    Ok(locks)
}

fn on_node(tx: &Tx<'_>, node: i64) -> Done<Vec<Covering>> {
    Ok(sql::all(tx, "SELECT node_id, token, account_id, deep FROM node_lock WHERE node_id = ?1", [node], covering)?)
}

fn locks_below(tx: &Tx<'_>, node: i64) -> Done<Vec<Covering>> {
    let sql = "SELECT node_id, token, account_id, deep FROM lock_above JOIN node_lock ON id = lock_id \
               WHERE ancestor_id = ?1";
    Ok(sql::all(tx, sql, [node], covering)?)
}

fn covering(row: &rusqlite::Row<'_>) -> rusqlite::Result<Covering> {
    Ok(Covering { node: row.get(0)?, token: row.get(1)?, account: AccountId(row.get(2)?), deep: row.get(3)? })
}

/// Ends every lock on a node and below it; part of removing or moving it.
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
