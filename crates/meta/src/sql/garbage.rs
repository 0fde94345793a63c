//! Removing the rows of what is gone already, step by step.
//!
//! Purged subtrees hang in the space's limbo and are listed in `garbage`: members that are files go with their versions; members
//! that are folders become entries of their own, so no step is deeper than one folder. Contents without references are
//! listed in `spent`: their manifest goes chunk by chunk, and with it the references on blocks. A step is one operation of
//! at most [`STEP_ROWS`] rows, so that other writers get their turn in between, and stays in one space, whose row it locks: what
//! it removes may be shared with files that live. What is left of a removed space is locked by administration.

use super::blocks::{Freed, add_all_live, release};
use super::bonds;
use super::contents;
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::Done;
use super::posix;
use super::query as sql;
use super::seam::{Link, Row, Value};
use super::shares;
use super::tx::Tx;
use holdfast_base::{BlockId, ContentId, Result, SpaceId};

/// Rows of one step: some 10 ms of the writer at most.
const STEP_ROWS: usize = 256;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn release_garbage(&self, limit: usize) -> Result<usize> {
        let mut released = 0;
        while released < limit {
            let step = (limit - released).min(STEP_ROWS);
            let Some(space) = self.0.read(Reading::Point, next_space).await? else {
                self.0.shrink().await?;
                break;
            };
            let work = move |tx: &Tx<'_>| step_once(tx, space, step);
            released += self.0.write("release_garbage", Scope::Space(space), work).await?;
        }
        Ok(released)
    }
}

/// The space of some garbage; 0 if only the entry is left of it.
fn next_space(link: &dyn Link) -> Done<Option<SpaceId>> {
    let sql = "SELECT coalesce((SELECT space_id FROM node WHERE id = node_id), 0) FROM \
                   (SELECT node_id FROM garbage ORDER BY node_id LIMIT 1) AS entry \
               UNION ALL SELECT coalesce((SELECT space_id FROM content WHERE id = content_id), 0) FROM \
                   (SELECT content_id FROM spent ORDER BY content_id LIMIT 1) AS entry";
    sql::first(link, sql, (), |row| Ok(SpaceId(row.get(0)?)))
}

fn step_once(tx: &Tx<'_>, space: SpaceId, limit: usize) -> Done<usize> {
    let sql = "SELECT 1 FROM space_sum WHERE space_id = ?1";
    if sql::first(tx, sql, [space.0], |_| Ok(()))?.is_none() {
        tx.lock_administration()?;
    }
    let mut touched = 0;
    while touched < limit {
        let sql = "SELECT node_id, coalesce((SELECT space_id FROM node WHERE id = node_id), 0) FROM garbage \
                   ORDER BY node_id LIMIT 1";
        let root: Option<(i64, i64)> = sql::first(tx, sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((root, _)) = root.filter(|(_, of)| *of == space.0) else { break };
        touched += node_step(tx, space, root, limit - touched)?;
    }
    if touched > 0 {
        shares::end_lost(tx, space)?;
    }
    let mut freed = Freed::default();
    while touched < limit {
        let sql = "SELECT content_id, coalesce((SELECT space_id FROM content WHERE id = content_id), 0) FROM spent \
                   ORDER BY content_id LIMIT 1";
        let content: Option<(i64, i64)> = sql::first(tx, sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((content, _)) = content.filter(|(_, of)| *of == space.0) else { break };
        touched += content_step(tx, space, ContentId(content), &mut freed)?;
    }
    if freed.raw != 0 || freed.sealed != 0 {
        let sql =
            "UPDATE space_sum SET raw_bytes = raw_bytes - ?2, sealed_bytes = sealed_bytes - ?3 WHERE space_id = ?1";
        sql::put(tx, sql, (space.0, freed.raw, freed.sealed))?;
    }
    add_all_live(tx, &mut freed.live)?;
    Ok(touched)
}

/// A node on its way out.
struct Leaving {
    id: i64,
    kind: i64,
    content: Option<ContentId>,
    has_properties: bool,
}

fn leaving(row: &Row<'_>) -> Done<Leaving> {
    Ok(Leaving {
        id: row.get(0)?,
        kind: row.get(1)?,
        content: row.get::<Option<i64>>(2)?.map(ContentId),
        has_properties: row.get(3)?,
    })
}

/// Takes up to `limit` members out of a purged node, or the node itself when it has none left.
fn node_step(tx: &Tx<'_>, space: SpaceId, root: i64, limit: usize) -> Done<usize> {
    let sql = "SELECT id, kind, content_id, has_properties FROM node WHERE parent_id = ?1 LIMIT ?2";
    let members = sql::all(tx, sql, (root, super::codec::rows(limit)), leaving)?;
    remove_files(tx, space, members.iter().filter(|member| member.kind == 1))?;
    for folder in members.iter().filter(|member| member.kind == 0) {
        let sql = "UPDATE node SET parent_id = -space_id, name = 'g' || CAST(id AS TEXT) WHERE id = ?1";
        sql::put(tx, sql, [folder.id])?;
        sql::put(tx, "INSERT INTO garbage (node_id) VALUES (?1) ON CONFLICT DO NOTHING", [folder.id])?;
    }
    let mut touched = members.len();
    if touched < limit {
        let sql = "SELECT id, kind, content_id, has_properties FROM node WHERE id = ?1";
        let node = sql::first(tx, sql, [root], leaving)?;
        remove_files(tx, space, node.iter())?;
        sql::put(tx, "DELETE FROM garbage WHERE node_id = ?1", [root])?;
        touched += 1;
    }
    Ok(touched)
}

/// Removes nodes that have no members (any more), with their versions, properties, words and references.
fn remove_files<'l>(tx: &Tx<'_>, space: SpaceId, nodes: impl Iterator<Item = &'l Leaving> + Clone) -> Done<()> {
    let mut unused: Vec<ContentId> = nodes.clone().filter_map(|node| node.content).collect();
    let files: Vec<Value<'_>> =
        nodes.clone().filter(|node| node.kind == 1).map(|node| Value::Integer(node.id)).collect();
    let sql = "DELETE FROM version WHERE node_id = ?1 RETURNING content_id";
    tx.query_many(sql, 1, &files, &mut |_, row| {
        unused.extend(row.get::<Option<i64>>(0)?.map(ContentId));
        Ok(())
    })?;
    contents::release(tx, unused)?;
    if bonds::has_any(tx, space)? {
        for node in nodes.clone() {
            sql::put(tx, "DELETE FROM bond WHERE node_id = ?1", [node.id])?;
        }
    }
    for node in nodes {
        if node.has_properties {
            sql::put(tx, "DELETE FROM property WHERE node_id = ?1", [node.id])?;
        }
        posix::forget(tx, node.id)?;
        sql::put(tx, "DELETE FROM word WHERE node_id = ?1", [node.id])?;
        sql::put(tx, "DELETE FROM unindexed WHERE space_id = ?1 AND node_id = ?2", (space.0, node.id))?;
        sql::put(tx, "DELETE FROM node WHERE id = ?1", [node.id])?;
    }
    Ok(())
}

/// Gives back the references of a content's last manifest chunk, or removes the content when none is left.
fn content_step(tx: &Tx<'_>, space: SpaceId, content: ContentId, freed: &mut Freed) -> Done<usize> {
    let sql = "SELECT chunk, blocks FROM manifest WHERE content_id = ?1 ORDER BY chunk DESC LIMIT 1";
    let chunk = sql::first(tx, sql, [content.0], |row| Ok((row.get::<i64>(0)?, row.get::<Vec<u8>>(1)?)))?;
    let Some((chunk, blocks)) = chunk else {
        sql::put(tx, "DELETE FROM content WHERE id = ?1", [content.0])?;
        sql::put(tx, "DELETE FROM spent WHERE content_id = ?1", [content.0])?;
        return Ok(1);
    };
    release(tx, space, &blocks, freed)?;
    sql::put(tx, "DELETE FROM manifest WHERE content_id = ?1 AND chunk = ?2", (content.0, chunk))?;
    Ok(1 + blocks.len() / BlockId::BYTES)
}
