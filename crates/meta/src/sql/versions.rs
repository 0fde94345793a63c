//! Old versions of files.
//!
//! What was overwritten becomes a row in `version`, named by the `seq` the node had, and keeps its reference on the content.
//! Three things are not kept: anything in a space whose retention is 0 days, empty content (clients that lock before they
//! write make a lot of it), and what is beyond the space's `versions_max`, which goes with the commit that passes it.
//!
//! Making an old version current *moves* it: its row goes and the version it replaces becomes one, so usage stays as it
//! was and restoring works in a space that is full.

use super::bonds;
use super::codec::{self, signed};
use super::contents::{self, Bytes};
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::Done;
use super::lock_check::{self, Change};
use super::query as sql;
use super::seam::Link;
use super::state::SpaceState;
use super::subtree::{Home, home_of};
use super::tree_write::set_content;
use super::tx::Tx;
use super::walk::walk;
use crate::catalogue::Guard;
use crate::types::{Node, Version};
use holdfast_base::{ContentId, DrivePath, Error, NodeId, Result, SpaceId};

/// Versions beyond `versions_max` that one commit removes at most: one is the rule; more only after the bound was lowered.
const PRUNED_PER_COMMIT: usize = 16;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn versions(&self, node: NodeId) -> Result<Vec<Version>> {
        let read = move |link: &dyn Link| {
            let sql = "SELECT seq, content_id, size, modified_ms, superseded_ms, by_id FROM version \
                       WHERE node_id = ?1 ORDER BY seq DESC";
            sql::all(link, sql, [node.0], codec::version)
        };
        self.0.read(Reading::Point, read).await
    }

    pub(super) async fn restore_version(
        &self,
        space: SpaceId,
        path: &DrivePath,
        seq: i64,
        guard: &Guard,
    ) -> Result<Node> {
        let (path, guard) = (path.clone(), guard.clone());
        self.0.write("restore_version", Scope::Space(space), move |tx| restore(tx, space, &path, seq, &guard)).await
    }

    pub(super) async fn remove_version(&self, node: NodeId, seq: i64) -> Result<()> {
        let find = move |link: &dyn Link| {
            let sql = "SELECT space_id FROM version WHERE node_id = ?1 AND seq = ?2";
            sql::first(link, sql, (node.0, seq), |row| Ok(SpaceId(row.get(0)?)))
        };
        let space = self.0.read(Reading::Point, find).await?.ok_or_else(no_version)?;
        let work = move |tx: &Tx<'_>| {
            let mut state = SpaceState::load(tx, space)?;
            drop_version(tx, &mut state, node.0, seq)?;
            state.save(tx)
        };
        self.0.write("remove_version", Scope::Space(space), work).await
    }
}

fn no_version() -> Error {
    Error::not_found("there is no such version")
}

/// Makes the content of `old` an old version, or lets it go. The caller has counted the new content and writes the node.
pub(super) fn supersede(tx: &Tx<'_>, state: &mut SpaceState, old: &Node, guard: &Guard) -> Done<()> {
    let retention = state.retention;
    if retention.days == 0 || retention.versions_max == Some(0) || old.size == 0 {
        return let_go(tx, state, old);
    }
    let sql = "INSERT INTO version (node_id, seq, space_id, content_id, size, modified_ms, superseded_ms, by_id) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let content = old.content.map(|content| content.0);
    let size = signed(old.size);
    sql::put(tx, sql, (old.id.0, old.seq, old.space.0, content, size, old.modified_ms, guard.now_ms, guard.account.0))?;
    state.version += size;
    if let Some(keep) = retention.versions_max {
        prune(tx, state, old.id.0, keep)?;
    }
    Ok(())
}

/// Lets the content of `old` go without making it an old version. The caller has counted the new content and writes the node.
pub(super) fn let_go(tx: &Tx<'_>, state: &mut SpaceState, old: &Node) -> Done<()> {
    contents::release(tx, old.content)?;
    state.used -= signed(old.size);
    Ok(())
}

/// Removes what is beyond the newest `keep` versions of a file.
fn prune(tx: &Tx<'_>, state: &mut SpaceState, node: i64, keep: u32) -> Done<()> {
    let sql = "SELECT seq FROM version WHERE node_id = ?1 ORDER BY seq DESC LIMIT ?3 OFFSET ?2";
    let beyond: Vec<i64> = sql::all(tx, sql, (node, keep, codec::rows(PRUNED_PER_COMMIT)), |row| row.get(0))?;
    for seq in beyond {
        drop_version(tx, state, node, seq)?;
    }
    Ok(())
}

/// Removes one version for good. Versions of files in the trash count there, too; those of purged files count nowhere.
pub(super) fn drop_version(tx: &Tx<'_>, state: &mut SpaceState, node: i64, seq: i64) -> Done<()> {
    let sql = "DELETE FROM version WHERE node_id = ?1 AND seq = ?2 RETURNING content_id, size";
    let row = sql::first(tx, sql, (node, seq), |row| Ok((row.get::<Option<i64>>(0)?, row.get::<i64>(1)?)))?;
    let (content, size) = row.ok_or_else(no_version)?;
    contents::release(tx, content.map(ContentId))?;
    state.versions_dropped += 1;
    match home_of(tx, node)? {
        Home::Purged => return Ok(()),
        Home::Trash(entry) => {
            let sql = "UPDATE trash SET bytes = bytes - ?2, version_bytes = version_bytes - ?2 WHERE id = ?1";
            sql::put(tx, sql, (entry, size))?;
        }
        Home::Live => {}
    }
    state.used -= size;
    state.version -= size;
    Ok(())
}

fn restore(tx: &Tx<'_>, space: SpaceId, path: &DrivePath, seq: i64, guard: &Guard) -> Done<Node> {
    let mut state = SpaceState::load_for(tx, space, guard)?;
    let spot = walk(tx, space, state.root, path)?;
    spot.expect(guard.expect)?;
    let old = spot.existing()?;
    lock_check::check(tx, &mut state, &spot, Change::Modify, guard)?;
    let sql = "SELECT content_id, size, modified_ms FROM version WHERE node_id = ?1 AND seq = ?2";
    let found = sql::first(tx, sql, (old.id.0, seq), |row| {
        let bytes = Bytes { content: row.get::<Option<i64>>(0)?.map(ContentId), size: row.get(1)? };
        Ok((bytes, row.get::<i64>(2)?))
    })?;
    let (bytes, modified_ms) = found.ok_or_else(no_version)?;
    // The row's reference passes to the node; its bytes are no longer an old version's.
    sql::put(tx, "DELETE FROM version WHERE node_id = ?1 AND seq = ?2", (old.id.0, seq))?;
    state.version -= signed(bytes.size);
    supersede(tx, &mut state, old, guard)?;
    let node = Node { content: bytes.content, size: bytes.size, seq: state.next_seq(), modified_ms, ..old.clone() };
    set_content(tx, &node)?;
    restore_others(tx, &mut state, &node, guard)?;
    state.save(tx)?;
    Ok(node)
}

/// Gives the other names of a file the version that was made current under one of them: their own of it, as far as they have it.
fn restore_others(tx: &Tx<'_>, state: &mut SpaceState, now: &Node, guard: &Guard) -> Done<()> {
    let others = bonds::others(tx, state, now.id)?;
    for old in &others {
        let sql = "SELECT seq FROM version WHERE node_id = ?1 AND content_id = ?2 ORDER BY seq DESC LIMIT 1";
        let content = now.content.map(|content| content.0);
        let own = sql::first(tx, sql, (old.id.0, content), |row| row.get::<i64>(0))?;
        if let Some(seq) = own {
            sql::put(tx, "DELETE FROM version WHERE node_id = ?1 AND seq = ?2", (old.id.0, seq))?;
            state.version -= signed(now.size);
        } else {
            contents::add_refs(tx, now.content.into_iter())?;
            state.used += signed(now.size);
        }
        supersede(tx, state, old, guard)?;
        bonds::follow_one(tx, now, old)?;
    }
    if !others.is_empty() {
        state.is_of_more();
    }
    Ok(())
}
