//! Who serves the drive: instances, what each has under way, and leases for what only one may do at a time.
//!
//! An instance is a row from [`join`](Ops::join) until it leaves or is given up. Uploads and open packs carry its number, and those
//! whose number is nobody's are orphans: given up, and answered to be sealed. An instance that sleeps through its own end
//! can do no harm when it wakes: its uploads are gone, its packs take no new blocks ([`super::blocks`]),
//! and what it begins is an orphan from the start.
//!
//! **Levels.** Two versions of the program may serve beside each other, and the one before knows nothing of what the one after keeps. What it would
//! spoil is not begun while a node of it is there ([`end_older`]): from then on its level is served no more, and a node of it that was asleep and given up
//! cannot join again.
//!
//! Times are the database's: the clocks of the machines need not agree.

use super::codec::{self, pack_columns, signed};
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::{Done, refuse};
use super::query as sql;
use super::seam::{Dialect, Link};
use super::tx::Tx;
use super::uploads::abandon;
use crate::cluster::{Cluster, Instance, InstanceId, Joined, Lease, NewInstance};
use crate::types::Pack;
use holdfast_base::{ContentId, ErrorKind, Result, SpaceId};

/// The instance of an open pack that was given up: from then on it takes no new blocks, though its end is yet to be found.
const GIVEN_UP: i64 = -1;
/// What this program knows, as it says when it joins: 1 is hard links.
const LEVEL: i64 = 1;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn join(&self, new: NewInstance) -> Result<Joined> {
        self.0.write("join", Scope::Administration, move |tx| join(tx, &new)).await
    }

    pub(super) async fn beat(&self, id: InstanceId, addresses: &str) -> Result<bool> {
        let addresses = addresses.to_owned();
        let work = move |tx: &Tx<'_>| {
            let sql = format!("UPDATE instance SET addresses = ?2, seen_ms = {} WHERE id = ?1", now(tx));
            Ok(sql::run(tx, &sql, (id.0, addresses.as_str()))? == 1)
        };
        self.0.write("beat", Scope::Alone, work).await
    }

    pub(super) async fn leave(&self, id: InstanceId) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            // The row stays: fences never start again.
            sql::put(tx, "UPDATE lease SET expires_ms = 0 WHERE instance_id = ?1", [id.0])?;
            sql::put(tx, "DELETE FROM instance WHERE id = ?1", [id.0])
        };
        self.0.write("leave", Scope::Alone, work).await
    }

    pub(super) async fn give_up(&self, unseen_ms: u64) -> Result<Vec<Pack>> {
        let anything = move |link: &dyn Link| {
            let sql = format!(
                "SELECT EXISTS (SELECT 1 FROM instance WHERE seen_ms < {} - ?1) \
                     OR EXISTS (SELECT 1 FROM upload WHERE instance_id >= 0 \
                         AND NOT EXISTS (SELECT 1 FROM instance WHERE id = instance_id)) \
                     OR EXISTS (SELECT 1 FROM pack WHERE state = 0 AND NOT EXISTS \
                         (SELECT 1 FROM instance WHERE instance.id = pack.instance_id))",
                now(link)
            );
            sql::only(link, &sql, [signed(unseen_ms)], |row| row.get::<bool>(0))
        };
        if !self.0.read(Reading::Point, anything).await? {
            return Ok(Vec::new());
        }
        let work = move |tx: &Tx<'_>| {
            let sql = format!("DELETE FROM instance WHERE seen_ms < {} - ?1", now(tx));
            sql::put(tx, &sql, [signed(unseen_ms)])?;
            orphans(tx)
        };
        self.0.write("give_up", Scope::Administration, work).await
    }

    pub(super) async fn cluster(&self) -> Result<Cluster> {
        let read = |link: &dyn Link| {
            let now_ms = sql::only(link, &format!("SELECT {}", now(link)), (), |row| row.get(0))?;
            let sql = "SELECT id, uid, name, addresses, version, started_ms, seen_ms FROM instance ORDER BY name, id";
            let instances = sql::all(link, sql, (), |row| {
                Ok(Instance {
                    id: InstanceId(row.get(0)?),
                    uid: holdfast_base::Uid(row.get(1)?),
                    name: row.get(2)?,
                    addresses: row.get::<String>(3)?.split_whitespace().map(str::to_owned).collect(),
                    version: row.get(4)?,
                    started_ms: row.get(5)?,
                    seen_ms: row.get(6)?,
                })
            })?;
            let sql = "SELECT name, instance_id, fence, expires_ms FROM lease ORDER BY name";
            let leases = sql::all(link, sql, (), |row| {
                Ok(Lease {
                    name: row.get(0)?,
                    holder: InstanceId(row.get(1)?),
                    fence: row.get(2)?,
                    expires_ms: row.get(3)?,
                })
            })?;
            let packs_open = sql::only(link, "SELECT count(*) FROM pack WHERE state = 0", (), |row| row.get(0))?;
            Ok(Cluster { now_ms, instances, leases, packs_open })
        };
        self.0.read(Reading::Snapshot, read).await
    }

    pub(super) async fn take_lease(&self, name: &'static str, holder: InstanceId, ttl_ms: u64) -> Result<Option<u64>> {
        let work = move |tx: &Tx<'_>| {
            let now = now(tx);
            // An instance that was given up takes nothing, and its lease is free at once.
            let sql = format!(
                "INSERT INTO lease (name, instance_id, fence, expires_ms) \
                 SELECT ?1, id, 1, {now} + ?3 FROM instance WHERE id = ?2 \
                 ON CONFLICT (name) DO UPDATE SET \
                     fence = lease.fence + CASE WHEN lease.instance_id = excluded.instance_id THEN 0 ELSE 1 END, \
                     instance_id = excluded.instance_id, expires_ms = excluded.expires_ms \
                 WHERE lease.instance_id = excluded.instance_id OR lease.expires_ms < {now} \
                     OR NOT EXISTS (SELECT 1 FROM instance WHERE id = lease.instance_id) \
                 RETURNING fence"
            );
            sql::first(tx, &sql, (name, holder.0, signed(ttl_ms)), |row| row.get(0))
        };
        self.0.write("take_lease", Scope::Alone, work).await
    }
}

/// Milliseconds since 1970 by the database's clock, as an expression.
pub(super) fn now(link: &dyn Link) -> &'static str {
    match link.dialect() {
        Dialect::Sqlite => "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)",
        Dialect::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    }
}

fn join(tx: &Tx<'_>, new: &NewInstance) -> Done<Joined> {
    if sql::first(tx, "SELECT 1 FROM migration WHERE finished = 0", (), |_| Ok(()))?.is_some() {
        return refuse(
            ErrorKind::Conflict,
            "this catalogue is a copy that was not finished: run `holdfast migrate-catalogue` again",
        );
    }
    // Whoever was here before has ended: this one holds its data directory, which to SQLite is the drive.
    match tx.dialect() {
        Dialect::Sqlite => sql::put(tx, "DELETE FROM instance", ())?,
        Dialect::Postgres => sql::put(tx, "DELETE FROM instance WHERE uid = ?1", [&new.uid.0])?,
    }
    let left = orphans(tx)?;
    let id = tx.new_id()?;
    let sql = format!(
        "INSERT INTO instance (id, uid, name, addresses, version, started_ms, seen_ms, level) \
         SELECT ?1, ?2, ?3, '', ?4, at, at, CAST(?5 AS BIGINT) FROM (SELECT {} AS at) AS clock",
        now(tx)
    );
    sql::put(tx, &sql, (id, &new.uid.0, new.name.as_str(), new.version.as_str(), LEVEL))?;
    Ok(Joined { id: InstanceId(id), left })
}

/// Programs of a level below this one's serve no more: `Unsupported` while one of them does.
pub(super) fn end_older(tx: &Tx<'_>) -> Done<()> {
    if tx.dialect() == Dialect::Sqlite {
        // One process, which holds the data directory; a program of before does not open what this one has opened.
        return Ok(());
    }
    let served = "SELECT 1 FROM served_level WHERE id < ?1 LIMIT 1";
    if sql::first(tx, served, [LEVEL], |_| Ok(()))?.is_none() {
        return Ok(());
    }
    let sql = "SELECT name FROM instance WHERE level < ?1 ORDER BY name LIMIT 1";
    if let Some(name) = sql::first(tx, sql, [LEVEL], |row| row.get::<String>(0))? {
        let message = format!(
            "the node {name} runs an older program, which would spoil this: it can be done when all nodes are of this version"
        );
        return refuse(ErrorKind::Unsupported, message);
    }
    // One that joins at this moment refers to what this removes: one of the two fails.
    sql::put(tx, "DELETE FROM served_level WHERE id < ?1", [LEVEL])
}

/// Gives up every upload that is nobody's (a resumable one, of number [`RESUMABLE`](super::resumable::RESUMABLE), has its time), and answers the open packs that are nobody's.
fn orphans(tx: &Tx<'_>) -> Done<Vec<Pack>> {
    let sql = "SELECT space_id, content_id FROM upload WHERE instance_id >= 0 AND NOT EXISTS \
               (SELECT 1 FROM instance WHERE id = instance_id) ORDER BY space_id, content_id";
    let uploads: Vec<(i64, i64)> = sql::all(tx, sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (space, upload) in uploads {
        tx.lock_space(SpaceId(space))?;
        abandon(tx, ContentId(upload))?;
    }
    let sql = "UPDATE pack SET instance_id = ?1 WHERE state = 0 AND NOT EXISTS \
               (SELECT 1 FROM instance WHERE instance.id = pack.instance_id)";
    sql::put(tx, sql, [GIVEN_UP])?;
    let sql = concat!("SELECT ", pack_columns!(), " FROM pack WHERE state = 0 AND instance_id = ?1 ORDER BY id");
    sql::all(tx, sql, [GIVEN_UP], codec::pack)
}
