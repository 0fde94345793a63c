//! Taking, renewing, releasing and listing locks.

use super::SqliteCatalogue;
use super::fault::{Done, Fault, refuse};
use super::lock_check::{self, Change};
use super::sql;
use super::state::SpaceState;
use super::tree_write::new_node;
use super::tx::Tx;
use super::walk::{Spot, walk};
use crate::catalogue::{Changed, Guard};
use crate::types::{Lock, NewLock, Node, NodeKind};
use holdfast_base::limits::LOCKS_PER_ACCOUNT_MAX;
use holdfast_base::{AccountId, DrivePath, Error, ErrorKind, NodeId, NodeName, Result, SpaceId};
use rusqlite::Connection;

/// The catalogue locks a file at most so many shared times; a second client needs one, a hostile one stops here.
const LOCKS_PER_NODE_MAX: usize = 100;

impl SqliteCatalogue {
    pub(super) async fn lock_op(
        &self,
        space: SpaceId,
        path: &DrivePath,
        new: NewLock,
        guard: &Guard,
    ) -> Result<(Lock, Changed)> {
        let (path, guard) = (path.clone(), guard.clone());
        self.writer().submit("lock", move |tx| lock(tx, space, &path, new, &guard)).await
    }

    pub(super) async fn refresh_lock_op(
        &self,
        space: SpaceId,
        path: &DrivePath,
        token: &str,
        expires_ms: i64,
        guard: &Guard,
    ) -> Result<Lock> {
        let (path, token, guard) = (path.clone(), token.to_owned(), guard.clone());
        let work = move |tx: &Tx<'_>| {
            let gone = || Error::new(ErrorKind::PreconditionFailed, format!("{path} is not locked with this token"));
            let (mut lock, id) = covering_lock(tx, space, &path, &token, &guard)?.ok_or_else(gone)?;
            if lock.account != guard.account {
                return Err(Fault::Refused(gone()));
            }
            sql::run(tx, "UPDATE node_lock SET expires_ms = ?2 WHERE id = ?1", (id, expires_ms))?;
            lock.expires_ms = expires_ms;
            Ok(lock)
        };
        self.writer().submit("refresh_lock", work).await
    }

    pub(super) async fn unlock_op(&self, space: SpaceId, path: &DrivePath, token: &str, guard: &Guard) -> Result<()> {
        let (path, token, guard) = (path.clone(), token.to_owned(), guard.clone());
        let work = move |tx: &Tx<'_>| {
            let gone = || Error::conflict(format!("{path} is not locked with this token"));
            let (lock, id) = covering_lock(tx, space, &path, &token, &guard)?.ok_or_else(gone)?;
            if lock.account != guard.account {
                return refuse(ErrorKind::Forbidden, format!("{path} was locked by somebody else"));
            }
            sql::run(tx, "DELETE FROM node_lock WHERE id = ?1", [id])?;
            Ok(())
        };
        self.writer().submit("unlock", work).await
    }

    pub(super) fn locks_on_op(&self, space: SpaceId, nodes: &[NodeId], now_ms: i64) -> Result<Vec<Lock>> {
        self.readers().read_snapshot(|connection| {
            let count = sql::first(connection, "SELECT locks FROM space_sum WHERE space_id = ?1", [space.0], |row| {
                row.get::<_, i64>(0)
            })?;
            let mut locks = Vec::new();
            if count.unwrap_or(0) > 0 {
                for node in nodes {
                    locks.extend(live_on(connection, space, node.0, now_ms)?);
                }
            }
            Ok(locks)
        })
    }
}

fn lock(tx: &Tx<'_>, space: SpaceId, path: &DrivePath, new: NewLock, guard: &Guard) -> Done<(Lock, Changed)> {
    let mut state = SpaceState::load(tx, space)?;
    let mut spot = walk(tx, space, state.root, path)?;
    spot.expect(guard.expect)?;
    let created = spot.node.is_none();
    if created {
        let parent = spot.parent()?;
        lock_check::check(tx, &mut state, &spot, Change::Add, guard)?;
        let node = Node {
            id: NodeId(tx.new_id()),
            space,
            parent: Some(NodeId(parent)),
            name: spot.name().to_owned(),
            kind: NodeKind::File,
            content: None,
            size: 0,
            seq: state.next_seq(),
            created_ms: guard.now_ms,
            modified_ms: guard.now_ms,
            has_properties: false,
        };
        new_node(tx, &node)?;
        state.save(tx)?;
        spot.node = Some(node);
    }
    let node = spot.existing()?.clone();
    no_conflict(tx, space, &spot, node.id.0, &new, guard.now_ms)?;
    no_flood(tx, guard.account, node.id.0)?;
    let lock = insert(tx, &spot, &node, new, guard.account)?;
    Ok((lock, Changed { node, created }))
}

/// A new lock and an old one that cover the same thing must both be shared.
fn no_conflict(tx: &Tx<'_>, space: SpaceId, spot: &Spot<'_>, node: i64, new: &NewLock, now_ms: i64) -> Done<()> {
    let conflict = |exclusive: bool| new.exclusive || exclusive;
    let mut locked = live_locks(tx, space, node, now_ms)?.iter().any(|old| conflict(old.exclusive));
    for &folder in &spot.above {
        locked |= live_locks(tx, space, folder, now_ms)?.iter().any(|old| old.deep && conflict(old.exclusive));
    }
    if new.deep {
        let sql = "SELECT max(exclusive) FROM lock_above JOIN node_lock ON id = lock_id \
                   WHERE ancestor_id = ?1 AND expires_ms > ?2";
        let below: Option<bool> = sql::only(tx, sql, (node, now_ms), |row| row.get(0))?;
        locked |= below.is_some_and(conflict);
    }
    if locked { refuse(ErrorKind::Locked, format!("{} is locked already", spot.path)) } else { Ok(()) }
}

fn no_flood(tx: &Tx<'_>, account: AccountId, node: i64) -> Done<()> {
    let count = |sql: &str, id: i64| sql::only(tx, sql, [id], |row| row.get::<_, usize>(0));
    let held = count("SELECT count(*) FROM node_lock WHERE account_id = ?1", account.0)?;
    if held >= LOCKS_PER_ACCOUNT_MAX
        || count("SELECT count(*) FROM node_lock WHERE node_id = ?1", node)? >= LOCKS_PER_NODE_MAX
    {
        let kind = ErrorKind::TooManyRequests { retry_after_s: 60 };
        return refuse(kind, "too many locks are held: release some or let them lapse");
    }
    Ok(())
}

fn insert(tx: &Tx<'_>, spot: &Spot<'_>, node: &Node, new: NewLock, account: AccountId) -> Done<Lock> {
    let id = tx.new_id();
    let sql = "INSERT INTO node_lock (id, token, space_id, node_id, account_id, exclusive, deep, owner_xml, expires_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let row =
        (id, &new.token, node.space.0, node.id.0, account.0, new.exclusive, new.deep, &new.owner_xml, new.expires_ms);
    sql::run(tx, sql, row)?;
    for &folder in &spot.above {
        sql::run(tx, "INSERT INTO lock_above (lock_id, ancestor_id) VALUES (?1, ?2)", (id, folder))?;
    }
    Ok(Lock {
        token: new.token,
        node: node.id,
        path: spot.path.clone(),
        account,
        exclusive: new.exclusive,
        deep: new.deep,
        owner_xml: new.owner_xml,
        expires_ms: new.expires_ms,
    })
}

/// The live lock with this token, if it covers the path, and its row.
fn covering_lock(
    tx: &Tx<'_>,
    space: SpaceId,
    path: &DrivePath,
    token: &str,
    guard: &Guard,
) -> Done<Option<(Lock, i64)>> {
    let state = SpaceState::load(tx, space)?;
    let spot = walk(tx, space, state.root, path)?;
    let node = spot.existing()?.id.0;
    let sql = "SELECT node_id, id FROM node_lock WHERE token = ?1 AND space_id = ?2";
    let Some((root, id)) = sql::first(tx, sql, (token, space.0), |row| Ok((row.get(0)?, row.get(1)?)))? else {
        return Ok(None);
    };
    let covers = |lock: &Lock| root == node || (lock.deep && spot.above.contains(&root));
    let lock = live_on(tx, space, root, guard.now_ms)?.into_iter().find(|lock| lock.token == token);
    Ok(lock.filter(covers).map(|lock| (lock, id)))
}

/// Live locks rooted on a node, with its path.
fn live_on(connection: &Connection, space: SpaceId, node: i64, now_ms: i64) -> Done<Vec<Lock>> {
    let mut locks = live_locks(connection, space, node, now_ms)?;
    if !locks.is_empty() {
        let path = path_of(connection, node)?;
        for lock in &mut locks {
            lock.path.clone_from(&path);
        }
    }
    Ok(locks)
}

/// Live locks rooted on a node; their paths are left empty.
fn live_locks(connection: &Connection, space: SpaceId, node: i64, now_ms: i64) -> Done<Vec<Lock>> {
    let sql = "SELECT token, account_id, exclusive, deep, owner_xml, expires_ms FROM node_lock \
               WHERE node_id = ?1 AND space_id = ?2 AND expires_ms > ?3 ORDER BY id";
    Ok(sql::all(connection, sql, (node, space.0, now_ms), |row| {
        Ok(Lock {
            token: row.get(0)?,
            node: NodeId(node),
            path: DrivePath::root(),
            account: AccountId(row.get(1)?),
            exclusive: row.get(2)?,
            deep: row.get(3)?,
            owner_xml: row.get(4)?,
            expires_ms: row.get(5)?,
        })
    })?)
}

/// The path of a live node.
fn path_of(connection: &Connection, mut node: i64) -> Done<DrivePath> {
    let mut names = Vec::new();
    while let Some((parent, name)) =
        sql::first(connection, "SELECT parent_id, name FROM node WHERE id = ?1", [node], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?
    {
        if parent <= 0 {
            break;
        }
        names.push(NodeName::new(&name)?);
        node = parent;
    }
    names.reverse();
    Ok(DrivePath::from_names(names)?)
}
