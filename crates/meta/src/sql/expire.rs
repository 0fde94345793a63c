//! Retention: old versions and trash past their space's bounds go, oldest first, a limited number at a time.
//!
//! Three bounds: age, versions of one file (kept at each commit; looked at here only after the bound was lowered, which sets
//! `sweep`), and bytes of versions and trash together. Before that age versions thin out: see [`super::thin`].

use super::codec::{rows, signed};
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::Done;
use super::query as sql;
use super::seam::Link;
use super::state::SpaceState;
use super::thin::{Crowd, crowd, thin};
use super::trash::{self, keep, measure, purge_entry};
use super::tx::Tx;
use super::versions::drop_version;
use holdfast_base::{Result, SpaceId};

const DAY_MS: i64 = 86_400_000;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn expire(&self, now_ms: i64, limit: usize) -> Result<usize> {
        let spaces = self.0.read(Reading::Scan, due).await?;
        let mut gone = 0;
        for (space, needs_sizes) in spaces {
            if gone >= limit {
                break;
            }
            let measured = if needs_sizes {
                self.0.read(Reading::Scan, move |link| measure(link, space, None)).await?
            } else {
                trash::Measured::default()
            };
            let left = limit - gone;
            let crowd = self.0.read(Reading::Scan, move |link| crowd(link, space, now_ms, left)).await?;
            let work = move |tx: &Tx<'_>| {
                keep(tx, space, &measured)?;
                expire(tx, space, now_ms, crowd.as_ref(), left)
            };
            gone += self.0.write("expire", Scope::Space(space), work).await?;
        }
        Ok(gone)
    }
}

/// Spaces that keep anything at all, and whether the bytes of their trash have to be known.
fn due(link: &dyn Link) -> Done<Vec<(SpaceId, bool)>> {
    let sql = "SELECT space.id, bytes_max IS NOT NULL FROM space JOIN space_sum ON space_id = space.id \
               WHERE EXISTS (SELECT 1 FROM version WHERE version.space_id = space.id) \
               OR EXISTS (SELECT 1 FROM trash WHERE trash.space_id = space.id)";
    sql::all(link, sql, (), |row| Ok((SpaceId(row.get(0)?), row.get(1)?)))
}

fn expire(tx: &Tx<'_>, space: SpaceId, now_ms: i64, crowd: Option<&Crowd>, limit: usize) -> Done<usize> {
    let Some(mut state) = SpaceState::find(tx, space)? else { return Ok(0) };
    let cutoff_ms = now_ms.saturating_sub(i64::from(state.retention.days).saturating_mul(DAY_MS));
    let mut gone = crowd.map_or(Ok(0), |crowd| thin(tx, &mut state, crowd))?;
    if gone < limit {
        gone += by_age(tx, &mut state, cutoff_ms, now_ms, limit - gone)?;
    }
    if gone < limit {
        gone += by_count(tx, &mut state, limit - gone)?;
    }
    if gone < limit {
        gone += by_bytes(tx, &mut state, now_ms, limit - gone)?;
    }
    state.save(tx)?;
    Ok(gone)
}

fn by_age(tx: &Tx<'_>, state: &mut SpaceState, cutoff_ms: i64, now_ms: i64, limit: usize) -> Done<usize> {
    let sql =
        "SELECT node_id, seq FROM version WHERE space_id = ?1 AND superseded_ms <= ?2 ORDER BY superseded_ms LIMIT ?3";
    let versions = sql::all(tx, sql, (state.id.0, cutoff_ms, rows(limit)), |row| Ok((row.get(0)?, row.get(1)?)))?;
    for &(node, seq) in &versions {
        drop_version(tx, state, node, seq)?;
    }
    let sql = "SELECT id FROM trash WHERE space_id = ?1 AND deleted_ms <= ?2 AND NOT EXISTS \
               (SELECT 1 FROM held WHERE held.node_id = trash.node_id AND until_ms > ?4) ORDER BY deleted_ms LIMIT ?3";
    let values = (state.id.0, cutoff_ms, rows(limit - versions.len()), now_ms);
    let entries: Vec<i64> = sql::all(tx, sql, values, |row| row.get(0))?;
    for &entry in &entries {
        purge_entry(tx, state, entry)?;
    }
    Ok(versions.len() + entries.len())
}

fn by_count(tx: &Tx<'_>, state: &mut SpaceState, limit: usize) -> Done<usize> {
    let sql = "SELECT sweep FROM space_sum WHERE space_id = ?1";
    let sweep: bool = sql::only(tx, sql, [state.id.0], |row| row.get(0))?;
    let Some(keep) = state.retention.versions_max.filter(|_| sweep) else { return Ok(0) };
    let sql = "SELECT node_id, seq FROM ( \
                   SELECT node_id, seq, row_number() OVER (PARTITION BY node_id ORDER BY seq DESC) AS place \
                   FROM version WHERE space_id = ?1) AS placed \
               WHERE place > ?2 LIMIT ?3";
    let beyond = sql::all(tx, sql, (state.id.0, keep, rows(limit)), |row| Ok((row.get(0)?, row.get(1)?)))?;
    for &(node, seq) in &beyond {
        drop_version(tx, state, node, seq)?;
    }
    if beyond.len() < limit {
        sql::put(tx, "UPDATE space_sum SET sweep = 0 WHERE space_id = ?1", [state.id.0])?;
    }
    Ok(beyond.len())
}

fn by_bytes(tx: &Tx<'_>, state: &mut SpaceState, now_ms: i64, limit: usize) -> Done<usize> {
    let Some(bytes_max) = state.retention.bytes_max else { return Ok(0) };
    let mut gone = 0;
    let mut kept = trash::kept_bytes(tx, state)?;
    while kept > signed(bytes_max) && gone < limit {
        let sql = "SELECT node_id, seq, superseded_ms FROM version WHERE space_id = ?1 ORDER BY superseded_ms LIMIT 1";
        let version = sql::first(tx, sql, [state.id.0], |row| Ok((row.get(0)?, row.get(1)?, row.get::<i64>(2)?)))?;
        let sql = "SELECT id, deleted_ms FROM trash WHERE space_id = ?1 AND NOT EXISTS \
                   (SELECT 1 FROM held WHERE held.node_id = trash.node_id AND until_ms > ?2) ORDER BY deleted_ms LIMIT 1";
        let entry = sql::first(tx, sql, (state.id.0, now_ms), |row| Ok((row.get(0)?, row.get::<i64>(1)?)))?;
        match (version, entry) {
            (Some((node, seq, at_ms)), entry) if entry.is_none_or(|(_, deleted_ms)| at_ms <= deleted_ms) => {
                let used = state.used;
                drop_version(tx, state, node, seq)?;
                kept -= used - state.used;
            }
            (_, Some((entry, _))) => kept -= purge_entry(tx, state, entry)?,
            _ => break,
        }
        gone += 1;
    }
    Ok(gone)
}
