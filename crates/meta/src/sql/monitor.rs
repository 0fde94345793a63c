//! What nodes say of themselves, and sums over the whole drive.

use super::codec::{rows, signed, unsigned};
use super::engine::{Engine, Ops, Scope};
use super::fault::Done;
use super::query as sql;
use super::seam::Link;
use super::tx::Tx;
use crate::cluster::InstanceId;
use crate::types::{Capacity, Pressure, Sample};
use holdfast_base::Result;

const HOUR_MS: i64 = 3_600_000;
/// Hours of capacities that are kept: a year.
const HOURS_KEPT: i64 = 366 * 24;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn put_sample(
        &self,
        instance: InstanceId,
        now: Sample,
        minute: Option<Sample>,
        kept_ms: i64,
    ) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            let sql = "INSERT INTO sample (instance_id, at_ms, figures) VALUES (?1, ?2, ?3) ON CONFLICT (instance_id) DO UPDATE SET \
                       at_ms = excluded.at_ms, figures = excluded.figures";
            sql::put(tx, sql, (instance.0, now.at_ms, &now.figures))?;
            let Some(minute) = &minute else { return Ok(()) };
            let sql = "INSERT INTO sample_minute (at_ms, node, figures) VALUES (?1, ?2, ?3) ON CONFLICT (at_ms, node) DO UPDATE SET \
                       figures = excluded.figures";
            sql::put(tx, sql, (minute.at_ms, &minute.node, &minute.figures))?;
            sql::put(tx, "DELETE FROM sample_minute WHERE at_ms < ?1", [minute.at_ms.saturating_sub(kept_ms)])?;
            sql::put(tx, "DELETE FROM sample WHERE instance_id NOT IN (SELECT id FROM instance)", ())
        };
        self.0.write("put_sample", Scope::Alone, work).await
    }

    pub(super) async fn put_capacity(&self, now: Capacity) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            let hour = now.at_ms.div_euclid(HOUR_MS);
            let sql = "INSERT INTO capacity (hour, packs, total_bytes, live_bytes, used_bytes, free_bytes) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (hour) DO UPDATE SET packs = excluded.packs, \
                       total_bytes = excluded.total_bytes, live_bytes = excluded.live_bytes, \
                       used_bytes = excluded.used_bytes, free_bytes = excluded.free_bytes";
            let sums = (signed(now.packs), signed(now.total_bytes), signed(now.live_bytes), signed(now.used_bytes));
            sql::put(tx, sql, (hour, sums.0, sums.1, sums.2, sums.3, now.free_bytes.map(signed)))?;
            sql::put(tx, "DELETE FROM capacity WHERE hour < ?1", [hour - HOURS_KEPT])
        };
        self.0.write("put_capacity", Scope::Alone, work).await
    }
}

/// What each node that is there last said.
pub(super) fn samples(link: &dyn Link) -> Done<Vec<Sample>> {
    let sql = "SELECT instance.name, sample.at_ms, sample.figures FROM sample JOIN instance ON instance.id = instance_id ORDER BY 1";
    sql::all(link, sql, (), sample)
}

/// Minutes of all nodes from a time on, the oldest first.
pub(super) fn minutes(link: &dyn Link, from_ms: i64, limit: usize) -> Done<Vec<Sample>> {
    let sql = "SELECT node, at_ms, figures FROM sample_minute WHERE at_ms >= ?1 ORDER BY at_ms, node LIMIT ?2";
    sql::all(link, sql, (from_ms, rows(limit)), sample)
}

fn sample(row: &super::seam::Row<'_>) -> Done<Sample> {
    Ok(Sample { node: row.get(0)?, at_ms: row.get(1)?, figures: row.get(2)? })
}

/// Capacities from a time on, the oldest first.
pub(super) fn capacities(link: &dyn Link, from_ms: i64) -> Done<Vec<Capacity>> {
    let sql = "SELECT hour, packs, total_bytes, live_bytes, used_bytes, free_bytes FROM capacity WHERE hour >= ?1 ORDER BY hour";
    sql::all(link, sql, [from_ms.div_euclid(HOUR_MS)], |row| {
        let sum = |column| row.get(column).map(unsigned);
        Ok(Capacity {
            at_ms: row.get::<i64>(0)?.saturating_mul(HOUR_MS),
            packs: sum(1)?,
            total_bytes: sum(2)?,
            live_bytes: sum(3)?,
            used_bytes: sum(4)?,
            free_bytes: row.get::<Option<i64>>(5)?.map(unsigned),
        })
    })
}

/// Counts no further than this: more is a lot.
const COUNTED_MAX: i64 = 100_000;

/// What waits, what is held, and what is stored.
pub(super) fn pressure(link: &dyn Link) -> Done<Pressure> {
    // Sums of PostgreSQL are numeric unless they are cast.
    let sql = "SELECT CAST(coalesce(sum(locks), 0) AS BIGINT), CAST(coalesce(sum(reserved_bytes), 0) AS BIGINT), \
               CAST(coalesce(sum(used_bytes), 0) AS BIGINT) FROM space_sum";
    let number = |row: &super::seam::Row<'_>, column| row.get::<i64>(column).map(unsigned);
    let spaces = sql::only(link, sql, (), |row| Ok((number(row, 0)?, number(row, 1)?, number(row, 2)?)))?;
    let sql = "SELECT count(*), CAST(coalesce(sum(CASE WHEN state = 0 THEN 1 ELSE 0 END), 0) AS BIGINT), \
               CAST(coalesce(sum(total_bytes), 0) AS BIGINT), CAST(coalesce(sum(live_bytes), 0) AS BIGINT) FROM pack";
    let packs =
        sql::only(link, sql, (), |row| Ok((number(row, 0)?, number(row, 1)?, number(row, 2)?, number(row, 3)?)))?;
    let count = |rows_of: &str| {
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {rows_of} LIMIT ?1) AS counted");
        sql::only(link, &sql, [COUNTED_MAX], |row| number(row, 0))
    };
    Ok(Pressure {
        locks: spaces.0,
        uploads: count("upload")?,
        resumable: count("resumable WHERE node_id IS NULL")?,
        reserved_bytes: spaces.1,
        packs: packs.0,
        packs_open: packs.1,
        total_bytes: packs.2,
        live_bytes: packs.3,
        used_bytes: spaces.2,
        garbage: count("garbage")?,
        words: count("unindexed")?,
    })
}
