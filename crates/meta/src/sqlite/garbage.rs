//! Removing the rows of what is gone already, step by step.
//!
//! Purged subtrees hang in the space's limbo and are listed in `garbage`: members that are files go with their versions; members
//! that are folders become entries of their own, so no step is deeper than one folder. Contents without references are
//! listed in `spent`: their manifest goes chunk by chunk, and with it the references on blocks. A step is one operation of
//! the writer of at most [`STEP_ROWS`] rows, so that other writers get their turn in between.

use super::SqliteCatalogue;
use super::blocks::{Freed, add_live, release};
use super::contents;
use super::fault::Done;
use super::sql;
use super::tx::Tx;
use holdfast_base::{BlockId, ContentId, Result, SpaceId};

/// Rows of one step: some 10 ms of the writer at most.
const STEP_ROWS: usize = 256;

/// Free pages that the file keeps, 4 MiB: the next burst needs them again; and pages cut in one step.
const FREE_PAGES_KEPT: i64 = 1_024;
const CUT_PAGES: i64 = 1_024;

impl SqliteCatalogue {
    pub(super) async fn release_garbage_op(&self, limit: usize) -> Result<usize> {
        let mut released = 0;
        while released < limit {
            let step = (limit - released).min(STEP_ROWS);
            let something = self.readers().read(|connection| {
                let sql = "SELECT EXISTS (SELECT 1 FROM garbage) OR EXISTS (SELECT 1 FROM spent)";
                Ok(sql::only(connection, sql, [], |row| row.get::<_, bool>(0))?)
            })?;
            if !something {
                self.shrink().await?;
                break;
            }
            released += self.writer().submit("release_garbage", move |tx| step_once(tx, step)).await?;
        }
        Ok(released)
    }

    /// Gives pages back to the file system, if there are many that nothing uses.
    async fn shrink(&self) -> Result<()> {
        let free = |connection: &rusqlite::Connection| {
            Ok(sql::only(connection, "PRAGMA freelist_count", [], |row| row.get::<_, i64>(0))?)
        };
        let mut any = false;
        loop {
            let surplus = self.readers().read(free)? - FREE_PAGES_KEPT;
            if surplus <= 0 {
                break;
            }
            any = true;
            let pages = surplus.min(CUT_PAGES);
            let cut = move |tx: &Tx<'_>| {
                let mut statement = tx.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
                let mut rows = statement.query([])?;
                while rows.next()?.is_some() {}
                Ok(())
            };
            self.writer().submit("shrink", cut).await?;
        }
        if any {
            // So much is gone that what the writer remembers of it is ballast.
            let forget = |tx: &Tx<'_>| Ok(tx.execute_batch("PRAGMA shrink_memory")?);
            self.writer().submit("shrink", forget).await?;
        }
        Ok(())
    }
}

fn step_once(tx: &Tx<'_>, limit: usize) -> Done<usize> {
    let mut touched = 0;
    while touched < limit {
        let root = sql::first(tx, "SELECT node_id FROM garbage LIMIT 1", [], |row| row.get(0))?;
        let Some(root) = root else { break };
        touched += node_step(tx, root, limit - touched)?;
    }
    while touched < limit {
        let content = sql::first(tx, "SELECT content_id FROM spent LIMIT 1", [], |row| Ok(ContentId(row.get(0)?)))?;
        let Some(content) = content else { break };
        touched += content_step(tx, content)?;
    }
    Ok(touched)
}

/// A node on its way out.
struct Leaving {
    id: i64,
    kind: i64,
    content: Option<ContentId>,
    has_properties: bool,
}

fn leaving(row: &rusqlite::Row<'_>) -> rusqlite::Result<Leaving> {
    Ok(Leaving {
        id: row.get(0)?,
        kind: row.get(1)?,
        content: row.get::<_, Option<i64>>(2)?.map(ContentId),
        has_properties: row.get(3)?,
    })
}

/// Takes up to `limit` members out of a purged node, or the node itself when it has none left.
fn node_step(tx: &Tx<'_>, root: i64, limit: usize) -> Done<usize> {
    let sql = "SELECT id, kind, content_id, has_properties FROM node WHERE parent_id = ?1 LIMIT ?2";
    let members = sql::all(tx, sql, (root, limit), leaving)?;
    for member in &members {
        if member.kind == 0 {
            let sql = "UPDATE node SET parent_id = -space_id, name = 'g' || id WHERE id = ?1";
            sql::run(tx, sql, [member.id])?;
            sql::run(tx, "INSERT OR IGNORE INTO garbage (node_id) VALUES (?1)", [member.id])?;
        } else {
            remove_node(tx, member)?;
        }
    }
    let mut touched = members.len();
    if touched < limit {
        let sql = "SELECT id, kind, content_id, has_properties FROM node WHERE id = ?1";
        if let Some(node) = sql::first(tx, sql, [root], leaving)? {
            remove_node(tx, &node)?;
        }
        sql::run(tx, "DELETE FROM garbage WHERE node_id = ?1", [root])?;
        touched += 1;
    }
    Ok(touched)
}

fn remove_node(tx: &Tx<'_>, node: &Leaving) -> Done<()> {
    contents::release(tx, node.content)?;
    if node.kind == 1 {
        let sql = "SELECT content_id FROM version WHERE node_id = ?1";
        let versions: Vec<Option<i64>> = sql::all(tx, sql, [node.id], |row| row.get(0))?;
        for content in &versions {
            contents::release(tx, content.map(ContentId))?;
        }
        if !versions.is_empty() {
            sql::run(tx, "DELETE FROM version WHERE node_id = ?1", [node.id])?;
        }
    }
    if node.has_properties {
        sql::run(tx, "DELETE FROM property WHERE node_id = ?1", [node.id])?;
    }
    sql::run(tx, "DELETE FROM node WHERE id = ?1", [node.id])?;
    Ok(())
}

/// Gives back the references of a content's last manifest chunk, or removes the content when none is left.
fn content_step(tx: &Tx<'_>, content: ContentId) -> Done<usize> {
    let sql = "SELECT space_id, chunk, manifest.blocks FROM manifest JOIN content ON id = content_id WHERE content_id = ?1 \
               ORDER BY chunk DESC LIMIT 1";
    let chunk = sql::first(tx, sql, [content.0], |row| {
        Ok((SpaceId(row.get(0)?), row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
    })?;
    let Some((space, chunk, blocks)) = chunk else {
        sql::run(tx, "DELETE FROM content WHERE id = ?1", [content.0])?;
        sql::run(tx, "DELETE FROM spent WHERE content_id = ?1", [content.0])?;
        return Ok(1);
    };
    let mut freed = Freed::default();
    for id in blocks.chunks_exact(BlockId::BYTES) {
        release(tx, space, id, &mut freed)?;
    }
    for &(pack, bytes) in &freed.live {
        add_live(tx, pack, bytes)?;
    }
    let sql = "UPDATE space_sum SET raw_bytes = raw_bytes - ?2, sealed_bytes = sealed_bytes - ?3 WHERE space_id = ?1";
    sql::run(tx, sql, (space.0, freed.raw, freed.sealed))?;
    sql::run(tx, "DELETE FROM manifest WHERE content_id = ?1 AND chunk = ?2", (content.0, chunk))?;
    Ok(1 + blocks.len() / BlockId::BYTES)
}
