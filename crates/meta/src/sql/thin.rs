//! Old versions thin out as they age: a program that saves every second must not fill a drive with what nobody will ask for.
//!
//! The older a version, the wider the time of which one is kept ([`STEPS`]): of those that were superseded in one stretch the first, which is
//! what the file was when the stretch began. So at every full hour (or five minutes, or ten seconds) that is young enough, what a file was
//! then is kept exactly (what was superseded at that very moment was it no more); the last of each stretch would not do, as it may have been the file for a moment only, and the one before it for
//! years. Stretches are counted from the epoch and each is divided by the one before it, so what a wider one keeps a narrower one kept.
//!
//! `space_sum.thinned_ms` says until when this was done, and is null where every version is kept: each version is looked at once for every
//! step it passes, and compared with the one before it.

use super::codec::rows;
use super::fault::Done;
use super::query as sql;
use super::seam::Link;
use super::state::SpaceState;
use super::tx::Tx;
use super::versions::drop_version;
use holdfast_base::SpaceId;

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// How old versions are, and the stretches of which one is kept then: after ten minutes, in which whoever reads a version can go on with it, of
/// each ten seconds; after an hour of each five minutes; after a day of each hour; after thirty of each day.
const STEPS: [(i64, i64); 4] =
    [(10 * MINUTE_MS, 10 * SECOND_MS), (HOUR_MS, 5 * MINUTE_MS), (DAY_MS, HOUR_MS), (30 * DAY_MS, DAY_MS)];

/// Versions of a space that go, since and until when all were looked at then.
#[derive(Debug, Clone)]
pub(super) struct Crowd {
    versions: Vec<(i64, i64)>,
    since_ms: i64,
    until_ms: i64,
}

/// Looks for versions that go, without keeping writers waiting: until there are `limit`, or a few more. None where every version is kept.
pub(super) fn crowd(link: &dyn Link, space: SpaceId, now_ms: i64, limit: usize) -> Done<Option<Crowd>> {
    let sql = "SELECT thinned_ms FROM space_sum WHERE space_id = ?1";
    let thinned = sql::first(link, sql, [space.0], |row| row.get::<Option<i64>>(0))?;
    let Some(since_ms) = thinned.flatten() else { return Ok(None) };
    // A clock that was ahead is no reason to wait until it is right again.
    let mut crowd = Crowd { versions: Vec::new(), since_ms, until_ms: since_ms.min(now_ms) };
    while crowd.until_ms < now_ms && crowd.versions.len() < limit {
        let until_ms = reach(link, space, crowd.until_ms, now_ms, limit)?;
        for (age_ms, stretch_ms) in STEPS {
            let sql = "SELECT node_id, seq FROM version \
                       WHERE space_id = ?1 AND superseded_ms > ?2 AND superseded_ms <= ?3 AND (superseded_ms - 1) / ?4 = \
                           (SELECT (older.superseded_ms - 1) / ?4 FROM version AS older \
                            WHERE older.node_id = version.node_id AND older.seq < version.seq ORDER BY older.seq DESC LIMIT 1)";
            let values = (space.0, crowd.until_ms - age_ms, until_ms - age_ms, stretch_ms);
            crowd.versions.extend(sql::all(link, sql, values, |row| Ok((row.get(0)?, row.get(1)?)))?);
        }
        crowd.until_ms = until_ms;
    }
    Ok(Some(crowd))
}

/// How far one look goes: over `limit` versions of each step, and all that were superseded in the same millisecond as the last.
fn reach(link: &dyn Link, space: SpaceId, from_ms: i64, now_ms: i64, limit: usize) -> Done<i64> {
    let mut until_ms = now_ms;
    for (age_ms, _) in STEPS {
        let sql = "SELECT superseded_ms FROM version WHERE space_id = ?1 AND superseded_ms > ?2 AND superseded_ms <= ?3 \
                   ORDER BY superseded_ms LIMIT 1 OFFSET ?4";
        let values = (space.0, from_ms - age_ms, until_ms - age_ms, rows(limit));
        if let Some(at_ms) = sql::first(link, sql, values, |row| row.get::<i64>(0))? {
            until_ms = at_ms + age_ms;
        }
    }
    Ok(until_ms)
}

/// Removes what was found, but for what somebody removed or restored meanwhile; nothing if the space was told meanwhile to keep it.
pub(super) fn thin(tx: &Tx<'_>, state: &mut SpaceState, crowd: &Crowd) -> Done<usize> {
    let sql = "UPDATE space_sum SET thinned_ms = ?3 WHERE space_id = ?1 AND thinned_ms = ?2";
    if sql::run(tx, sql, (state.id.0, crowd.since_ms, crowd.until_ms))? == 0 {
        return Ok(0);
    }
    let mut gone = 0;
    for &(node, seq) in &crowd.versions {
        let sql = "SELECT 1 FROM version WHERE node_id = ?1 AND seq = ?2 AND space_id = ?3";
        if sql::first(tx, sql, (node, seq, state.id.0), |_| Ok(()))?.is_some() {
            drop_version(tx, state, node, seq)?;
            gone += 1;
        }
    }
    Ok(gone)
}
