//! Taking, renewing, releasing and listing locks.

use super::bonds;
use super::codec::rows;
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::{Done, refuse};
use super::lock_check::{self, Change, locked};
use super::query::{self as sql, in_lists_after};
use super::seam::{Link, Row, Value};
use super::state::SpaceState;
use super::tree_write::new_node;
use super::tx::Tx;
use super::walk::{Spot, walk};
use crate::catalogue::{Changed, Guard};
use crate::types::{Lock, NewLock, Node, NodeKind};
use holdfast_base::limits::{LOCKS_PER_ACCOUNT_MAX, PATH_DEPTH_MAX};
use holdfast_base::{AccountId, DrivePath, Error, ErrorKind, NodeId, NodeName, Result, SpaceId};

/// The catalogue locks a file at most so many shared times; a second client needs one, a hostile one stops here.
const LOCKS_PER_NODE_MAX: usize = 100;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn lock(
        &self,
        space: SpaceId,
        path: &DrivePath,
        new: NewLock,
        guard: &Guard,
    ) -> Result<(Lock, Changed)> {
        let (path, guard) = (path.clone(), guard.clone());
        self.0.write("lock", Scope::Space(space), move |tx| lock(tx, space, &path, &new, &guard)).await
    }

    pub(super) async fn refresh_lock(
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
            let state = SpaceState::load_for(tx, space, &guard)?;
            let (mut lock, id) = covering_lock(tx, &state, &path, &token, &guard)?.ok_or_else(gone)?;
            if lock.account != guard.account {
                return Err(gone().into());
            }
            sql::put(tx, "UPDATE node_lock SET expires_ms = ?2 WHERE id = ?1", (id, expires_ms))?;
            lock.expires_ms = expires_ms;
            Ok(lock)
        };
        self.0.write("refresh_lock", Scope::Space(space), work).await
    }

    pub(super) async fn unlock(&self, space: SpaceId, path: &DrivePath, token: &str, guard: &Guard) -> Result<()> {
        let (path, token, guard) = (path.clone(), token.to_owned(), guard.clone());
        let work = move |tx: &Tx<'_>| {
            let gone = || Error::conflict(format!("{path} is not locked with this token"));
            let mut state = SpaceState::load_for(tx, space, &guard)?;
            let (lock, id) = covering_lock(tx, &state, &path, &token, &guard)?.ok_or_else(gone)?;
            if lock.account != guard.account {
                return refuse(ErrorKind::Forbidden, format!("{path} was locked by somebody else"));
            }
            sql::put(tx, "DELETE FROM node_lock WHERE id = ?1", [id])?;
            state.locks -= 1;
            state.save(tx)
        };
        self.0.write("unlock", Scope::Space(space), work).await
    }

    pub(super) async fn locks_on(&self, space: SpaceId, nodes: &[NodeId], now_ms: i64) -> Result<Vec<Lock>> {
        let nodes: Vec<i64> = nodes.iter().map(|node| node.0).collect();
        let read = move |link: &dyn Link| {
            // Most spaces have none, and then this is one row whatever the number of nodes.
            let sql = "SELECT locks FROM space_sum WHERE space_id = ?1";
            let count: Option<i64> = sql::first(link, sql, [space.0], |row| row.get(0))?;
            if count.unwrap_or(0) == 0 { Ok(Vec::new()) } else { live_on(link, space, &nodes, now_ms) }
        };
        self.0.read(Reading::Snapshot, read).await
    }
}

fn lock(tx: &Tx<'_>, space: SpaceId, path: &DrivePath, new: &NewLock, guard: &Guard) -> Done<(Lock, Changed)> {
    let mut state = SpaceState::load_for(tx, space, guard)?;
    let mut spot = walk(tx, space, state.root, path)?;
    spot.expect(guard.expect)?;
    let created = spot.node.is_none();
    if created {
        let parent = spot.parent()?;
        lock_check::check(tx, &mut state, &spot, Change::Add, guard)?;
        let node = Node {
            id: NodeId(tx.new_id()?),
            space,
            parent: Some(NodeId(parent)),
            name: spot.name().to_owned(),
            kind: NodeKind::File,
            content: None,
            size: 0,
            seq: state.next_seq_in([NodeId(parent)]),
            created_ms: guard.now_ms,
            modified_ms: guard.now_ms,
            has_properties: false,
        };
        new_node(tx, &node)?;
        spot.node = Some(node);
    }
    let node = spot.existing()?.clone();
    if state.locks > 0 {
        no_conflict(tx, space, &spot, node.id.0, new, guard.now_ms)?;
        // A lock on another name of the file is one on this.
        for other in bonds::other_names(tx, &state, node.id)? {
            no_conflict(tx, space, &other.spot(), other.node.id.0, new, guard.now_ms)?;
        }
    }
    no_flood(tx, guard.account, node.id.0)?;
    let lock = insert(tx, &spot, &node, new, guard.account)?;
    state.locks += 1;
    state.save(tx)?;
    Ok((lock, Changed { node, created }))
}

/// A new lock and an old one that cover the same thing must both be shared.
fn no_conflict(tx: &Tx<'_>, space: SpaceId, spot: &Spot<'_>, node: i64, new: &NewLock, now_ms: i64) -> Done<()> {
    let mut covering = Vec::new();
    let mut nodes = spot.above.clone();
    nodes.push(node);
    in_lists_after(&[Value::Integer(space.0), Value::Integer(now_ms)], &nodes, |list, params| {
        let sql = format!(
            "SELECT node_id, exclusive, deep FROM node_lock WHERE space_id = ?1 AND expires_ms > ?2 AND node_id IN ({list})"
        );
        let read = |row: &Row<'_>| Ok((row.get::<i64>(0)?, row.get::<bool>(1)?, row.get::<bool>(2)?));
        covering.extend(sql::all(tx, &sql, params, read)?);
        Ok(())
    })?;
    let covers = |root: i64, deep: bool| root == node || deep;
    let conflict =
        covering.iter().find(|(root, exclusive, deep)| covers(*root, *deep) && (new.exclusive || *exclusive));
    if let Some(&(root, ..)) = conflict {
        return locked(tx, spot, root);
    }
    if new.deep {
        let sql = "SELECT node_id FROM lock_above JOIN node_lock ON id = lock_id \
                   WHERE ancestor_id = ?1 AND expires_ms > ?2 AND (exclusive = 1 OR ?3 = 1) LIMIT 1";
        if let Some(root) = sql::first(tx, sql, (node, now_ms, new.exclusive), |row| row.get::<i64>(0))? {
            return locked(tx, spot, root);
        }
    }
    Ok(())
}

/// The bound holds for one node at a time: an account that locks on two at the same moment may pass it by a few.
fn no_flood(tx: &Tx<'_>, account: AccountId, node: i64) -> Done<()> {
    let sql = "SELECT (SELECT count(*) FROM node_lock WHERE account_id = ?1), \
               (SELECT count(*) FROM node_lock WHERE node_id = ?2)";
    let (held, here): (usize, usize) = sql::only(tx, sql, (account.0, node), |row| Ok((row.get(0)?, row.get(1)?)))?;
    if held >= LOCKS_PER_ACCOUNT_MAX || here >= LOCKS_PER_NODE_MAX {
        let kind = ErrorKind::TooManyRequests { retry_after_s: 60 };
        return refuse(kind, "too many locks are held: release some or let them lapse");
    }
    Ok(())
}

fn insert(tx: &Tx<'_>, spot: &Spot<'_>, node: &Node, new: &NewLock, account: AccountId) -> Done<Lock> {
    let id = tx.new_id()?;
    let sql = "INSERT INTO node_lock (id, token, space_id, node_id, account_id, exclusive, deep, owner_xml, expires_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let row =
        (id, &new.token, node.space.0, node.id.0, account.0, new.exclusive, new.deep, &new.owner_xml, new.expires_ms);
    sql::put(tx, sql, row)?;
    for &folder in &spot.above {
        sql::put(tx, "INSERT INTO lock_above (lock_id, ancestor_id) VALUES (?1, ?2)", (id, folder))?;
    }
    Ok(Lock {
        token: new.token.clone(),
        node: node.id,
        path: spot.path.clone(),
        account,
        exclusive: new.exclusive,
        deep: new.deep,
        owner_xml: new.owner_xml.clone(),
        expires_ms: new.expires_ms,
    })
}

/// The live lock with this token, if it covers the path, and its row.
fn covering_lock(
    tx: &Tx<'_>,
    state: &SpaceState,
    path: &DrivePath,
    token: &str,
    guard: &Guard,
) -> Done<Option<(Lock, i64)>> {
    let spot = walk(tx, state.id, state.root, path)?;
    let node = spot.existing()?.id.0;
    let sql = "SELECT node_id, id FROM node_lock WHERE token = ?1 AND space_id = ?2";
    let found = sql::first(tx, sql, (token, state.id.0), |row| Ok((row.get::<i64>(0)?, row.get(1)?)))?;
    let Some((root, id)) = found else { return Ok(None) };
    let covers = |lock: &Lock| root == node || (lock.deep && spot.above.contains(&root));
    let lock = live_on(tx, state.id, &[root], guard.now_ms)?.into_iter().find(|lock| lock.token == token);
    Ok(lock.filter(covers).map(|lock| (lock, id)))
}

/// Live locks rooted on nodes, with the paths of their roots: one query, which answers a row for each name of each path.
fn live_on(link: &dyn Link, space: SpaceId, nodes: &[i64], now_ms: i64) -> Done<Vec<Lock>> {
    let before = [Value::Integer(space.0), Value::Integer(now_ms), Value::Integer(rows(PATH_DEPTH_MAX))];
    let mut named: Vec<(i64, Lock, Option<String>)> = Vec::new();
    in_lists_after(&before, nodes, |list, params| {
        let sql = format!(
            "WITH RECURSIVE up (lock_id, level, parent_id, name) AS ( \
                 SELECT node_lock.id, CAST(0 AS BIGINT), parent_id, name FROM node_lock JOIN node ON node.id = node_id \
                 WHERE node_lock.space_id = ?1 AND expires_ms > ?2 AND node_id IN ({list}) \
                 UNION ALL SELECT up.lock_id, level + 1, node.parent_id, node.name FROM up \
                 JOIN node ON node.id = up.parent_id WHERE up.parent_id > 0 AND level < ?3) \
             SELECT node_lock.id, token, node_id, account_id, exclusive, deep, owner_xml, expires_ms, \
                 CASE WHEN up.parent_id > 0 THEN up.name END \
             FROM up JOIN node_lock ON node_lock.id = up.lock_id ORDER BY node_lock.id, level DESC"
        );
        named.extend(sql::all(link, &sql, params, |row| Ok((row.get(0)?, lock_of(row)?, row.get(8)?)))?);
        Ok(())
    })?;
    let mut locks = Vec::new();
    for group in named.chunk_by(|left, right| left.0 == right.0) {
        let path = group.iter().filter_map(|(_, _, name)| name.as_deref()).map(NodeName::new);
        let path = DrivePath::from_names(path.collect::<Result<_>>()?)?;
        locks.extend(group.first().map(|(_, lock, _)| Lock { path, ..lock.clone() }));
    }
    Ok(locks)
}

/// A lock without its path.
fn lock_of(row: &Row<'_>) -> Done<Lock> {
    Ok(Lock {
        token: row.get(1)?,
        node: NodeId(row.get(2)?),
        path: DrivePath::root(),
        account: AccountId(row.get(3)?),
        exclusive: row.get(4)?,
        deep: row.get(5)?,
        owner_xml: row.get(6)?,
        expires_ms: row.get(7)?,
    })
}
