//! The trash of a space: listing, putting back, purging.
//!
//! What lies below a deleted folder is summed up when somebody asks for it, not at the delete. The sums are kept in the entry;
//! `versions_dropped` of the space says whether one that was computed on a reading connection still holds when it
//! reaches the writer. Purging takes the sums out of the space's usage at once and leaves the rows to `release_garbage`.

use super::codec::{self, unsigned};
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::{Done, refuse};
use super::index::note;
use super::lock_check::{self, Change};
use super::query as sql;
use super::remove;
use super::seam::{self, Link};
use super::state::SpaceState;
use super::subtree::{Sizes, sizes_of};
use super::tx::Tx;
use super::walk::walk;
use crate::catalogue::Guard;
use crate::types::{Node, TrashEntry};
use holdfast_base::{AccountId, DrivePath, Error, ErrorKind, NodeId, Result, SpaceId};

/// Sums of trash entries computed on a reading connection, valid while the space's count of dropped versions is the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    versions_dropped: i64,
    entries: Vec<(i64, Sizes)>,
}

/// An entry without its sums being known.
struct Row {
    entry: TrashEntry,
    sizes: Option<Sizes>,
}

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn trash(&self, space: SpaceId, before: Option<i64>, limit: usize) -> Result<Vec<TrashEntry>> {
        let listed = self.0.read(Reading::Scan, move |link| list(link, space, before, limit)).await?;
        let (entries, measured) = listed;
        if !measured.entries.is_empty() {
            self.0.write("measure_trash", Scope::Space(space), move |tx| keep(tx, space, &measured)).await?;
        }
        Ok(entries)
    }

    pub(super) async fn restore_trash(
        &self,
        space: SpaceId,
        entry: i64,
        to: Option<&DrivePath>,
        guard: &Guard,
    ) -> Result<Node> {
        let (to, guard) = (to.cloned(), guard.clone());
        self.0
            .write("restore_trash", Scope::Space(space), move |tx| restore(tx, space, entry, to.as_ref(), &guard))
            .await
    }

    pub(super) async fn purge_trash(&self, space: SpaceId, entry: Option<i64>) -> Result<u64> {
        // Summing up may take a while for a large tree, so it is done before the writer is asked.
        let measured = self.0.read(Reading::Scan, move |link| measure(link, space, entry)).await?;
        let work = move |tx: &Tx<'_>| {
            keep(tx, space, &measured)?;
            purge(tx, space, entry)
        };
        self.0.write("purge_trash", Scope::Space(space), work).await
    }
}

fn read_entry(row: &seam::Row<'_>) -> Done<Row> {
    let bytes: Option<i64> = row.get(6)?;
    let sizes = match bytes {
        Some(bytes) => Some(Sizes { bytes, version_bytes: row.get(7)?, nodes: row.get(8)? }),
        None => None,
    };
    let known = sizes.unwrap_or_default();
    Ok(Row {
        entry: TrashEntry {
            id: row.get(0)?,
            node: NodeId(row.get(1)?),
            kind: codec::node_kind(row, 2)?,
            path: row.get(3)?,
            deleted_ms: row.get(4)?,
            by: AccountId(row.get(5)?),
            bytes: unsigned(known.bytes),
            nodes: unsigned(known.nodes),
        },
        sizes,
    })
}

fn list(link: &dyn Link, space: SpaceId, before: Option<i64>, limit: usize) -> Done<(Vec<TrashEntry>, Measured)> {
    let sql = "SELECT id, node_id, kind, path, deleted_ms, by_id, bytes, version_bytes, nodes FROM trash \
               WHERE space_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
    let rows = sql::all(link, sql, (space.0, before.unwrap_or(i64::MAX), codec::rows(limit)), read_entry)?;
    let mut measured = Measured { versions_dropped: dropped(link, space)?, entries: Vec::new() };
    let mut entries = Vec::with_capacity(rows.len());
    for Row { mut entry, sizes } in rows {
        if sizes.is_none() {
            let sizes = sizes_of(link, entry.node.0)?;
            (entry.bytes, entry.nodes) = (unsigned(sizes.bytes), unsigned(sizes.nodes));
            measured.entries.push((entry.id, sizes));
        }
        entries.push(entry);
    }
    Ok((entries, measured))
}

/// Sums up one entry, or every entry of the space, that was not summed up yet.
pub(super) fn measure(link: &dyn Link, space: SpaceId, entry: Option<i64>) -> Done<Measured> {
    let (first, last) = entry.map_or((0, i64::MAX), |entry| (entry, entry));
    let sql = "SELECT id, node_id FROM trash WHERE space_id = ?1 AND bytes IS NULL AND id BETWEEN ?2 AND ?3";
    let unknown: Vec<(i64, i64)> = sql::all(link, sql, (space.0, first, last), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let versions_dropped = dropped(link, space)?;
    let entries = unknown.into_iter().map(|(id, node)| Ok((id, sizes_of(link, node)?))).collect::<Done<_>>()?;
    Ok(Measured { versions_dropped, entries })
}

fn dropped(link: &dyn Link, space: SpaceId) -> Done<i64> {
    let sql = "SELECT versions_dropped FROM space_sum WHERE space_id = ?1";
    Ok(sql::first(link, sql, [space.0], |row| row.get(0))?.unwrap_or(0))
}

/// Writes sums down, unless a version went meanwhile.
pub(super) fn keep(tx: &Tx<'_>, space: SpaceId, measured: &Measured) -> Done<()> {
    if measured.entries.is_empty() || dropped(tx, space)? != measured.versions_dropped {
        return Ok(());
    }
    for (entry, sizes) in &measured.entries {
        let sql = "UPDATE trash SET bytes = ?2, version_bytes = ?3, nodes = ?4 WHERE id = ?1";
        sql::put(tx, sql, (entry, sizes.bytes, sizes.version_bytes, sizes.nodes))?;
    }
    Ok(())
}

fn restore(tx: &Tx<'_>, space: SpaceId, entry: i64, to: Option<&DrivePath>, guard: &Guard) -> Done<Node> {
    let mut state = SpaceState::load_for(tx, space, guard)?;
    let sql = "SELECT node_id, path FROM trash WHERE id = ?1 AND space_id = ?2";
    let row = sql::first(tx, sql, (entry, space.0), |row| Ok((row.get::<i64>(0)?, row.get::<String>(1)?)))?;
    let (node, path) = row.ok_or_else(no_entry)?;
    let path = match to {
        Some(path) => path.clone(),
        None => DrivePath::parse(&path)?,
    };
    let spot = walk(tx, space, state.root, &path)?;
    let parent = spot.parent()?;
    if spot.node.is_some() {
        return refuse(ErrorKind::AlreadyExists, format!("{path} exists already: choose another name"));
    }
    lock_check::check(tx, &mut state, &spot, Change::Add, guard)?;
    sql::put(tx, "DELETE FROM trash WHERE id = ?1", [entry])?;
    let sql = "UPDATE node SET parent_id = ?2, name = ?3, seq = ?4 WHERE id = ?1";
    sql::put(tx, sql, (node, parent, spot.name(), state.next_seq()))?;
    note(tx, space, node)?;
    state.save(tx)?;
    let restored = super::chain::child(tx, parent, spot.name())?;
    restored.ok_or_else(|| Error::damaged("a trash entry has no node; run holdfast check").into())
}

fn no_entry() -> Error {
    Error::not_found("there is no such entry in the trash")
}

fn purge(tx: &Tx<'_>, space: SpaceId, entry: Option<i64>) -> Done<u64> {
    let mut state = SpaceState::load(tx, space)?;
    let bytes = match entry {
        Some(entry) => {
            let sql = "SELECT 1 FROM trash WHERE id = ?1 AND space_id = ?2";
            sql::first(tx, sql, (entry, space.0), |_| Ok(()))?.ok_or_else(no_entry)?;
            purge_entry(tx, &mut state, entry)?
        }
        None => purge_all(tx, &mut state)?,
    };
    state.save(tx)?;
    Ok(unsigned(bytes))
}

/// Purges every entry, by a few statements and not one by one: the trash may be long.
fn purge_all(tx: &Tx<'_>, state: &mut SpaceState) -> Done<i64> {
    let sql = "SELECT id FROM trash WHERE space_id = ?1 AND bytes IS NULL";
    let unmeasured: Vec<i64> = sql::all(tx, sql, [state.id.0], |row| row.get(0))?;
    let mut purged = 0;
    for entry in unmeasured {
        purged += purge_entry(tx, state, entry)?;
    }
    let sql = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT), CAST(coalesce(sum(version_bytes), 0) AS BIGINT) FROM trash WHERE space_id = ?1";
    let (bytes, version_bytes): (i64, i64) = sql::only(tx, sql, [state.id.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    sql::put(tx, "INSERT INTO garbage (node_id) SELECT node_id FROM trash WHERE space_id = ?1", [state.id.0])?;
    sql::put(tx, "DELETE FROM trash WHERE space_id = ?1", [state.id.0])?;
    state.used -= bytes;
    state.version -= version_bytes;
    Ok(purged + bytes)
}

/// Purges one entry and answers its bytes. The caller saves the state.
pub(super) fn purge_entry(tx: &Tx<'_>, state: &mut SpaceState, entry: i64) -> Done<i64> {
    let sql = "SELECT id, node_id, kind, path, deleted_ms, by_id, bytes, version_bytes, nodes FROM trash WHERE id = ?1";
    let Row { entry, sizes } = sql::first(tx, sql, [entry], read_entry)?.ok_or_else(no_entry)?;
    let sizes = match sizes {
        Some(sizes) => sizes,
        None => sizes_of(tx, entry.node.0)?,
    };
    sql::put(tx, "DELETE FROM trash WHERE id = ?1", [entry.id])?;
    remove::purge(tx, state, entry.node.0, sizes)?;
    Ok(sizes.bytes)
}

/// Bytes of the space's old versions and trash together, what is not summed up yet left out.
pub(super) fn kept_bytes(tx: &Tx<'_>, state: &SpaceState) -> Done<i64> {
    let sql = "SELECT CAST(coalesce(sum(bytes - version_bytes), 0) AS BIGINT) FROM trash WHERE space_id = ?1";
    let current: i64 = sql::only(tx, sql, [state.id.0], |row| row.get(0))?;
    Ok(state.version + current)
}
