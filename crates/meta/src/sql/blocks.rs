//! Taking and giving back references on blocks, with the packs' and the space's sums beside them.
//!
//! A block row exists as long as something refers to it and no longer; its pack's live bytes and the space's stored bytes
//! count it for exactly that time.

use super::codec::signed;
use super::fault::{Done, refuse};
use super::query as sql;
use super::seam::{Dialect, Link, Value};
use super::state::SpaceState;
use super::tx::Tx;
use crate::catalogue::Missing;
use crate::types::{MANIFEST_CHUNK_BLOCKS, Place, StagedRun};
use holdfast_base::limits::BLOCK_BYTES_MAX;
use holdfast_base::{BlockId, Error, ErrorKind, SpaceId};
use std::collections::HashSet;

/// Appends a run to the manifest of `content`, which has `blocks` so far, and takes a reference on each block. Nothing may
/// be kept if this fails; a claim that does not hold fails as [`super::fault::Fault::Missing`] once every claim of the run was tested.
pub(super) fn append_run(tx: &Tx<'_>, space: &mut SpaceState, content: i64, blocks: u64, run: &StagedRun) -> Done<()> {
    let chunk_blocks = MANIFEST_CHUNK_BLOCKS as u64;
    let fits = run.first + run.blocks.len() <= MANIFEST_CHUNK_BLOCKS && !run.blocks.is_empty();
    if !fits || (blocks / chunk_blocks, blocks % chunk_blocks) != (run.chunk, run.first as u64) {
        return refuse(ErrorKind::InvalidInput, "the blocks of an upload must be appended in order, chunk by chunk");
    }
    take(tx, space, run)?;
    let ids: Vec<u8> = run.blocks.iter().flat_map(|block| block.id.0).collect();
    let sql = match (run.first, tx.dialect()) {
        (0, _) => "INSERT INTO manifest (content_id, chunk, tag, blocks) VALUES (?1, ?2, ?3, ?4)",
        (_, Dialect::Sqlite) => {
            "UPDATE manifest SET tag = ?3, blocks = CAST(blocks || ?4 AS BLOB) WHERE content_id = ?1 AND chunk = ?2"
        }
        (_, Dialect::Postgres) => {
            "UPDATE manifest SET tag = ?3, blocks = blocks || ?4 WHERE content_id = ?1 AND chunk = ?2"
        }
    };
    if sql::run(tx, sql, (content, signed(run.chunk), &run.tag, &ids))? == 0 {
        return Err(Error::damaged("a manifest has a hole; run holdfast check").into());
    }
    Ok(())
}

/// Takes a reference on each block of a run; rows are made for those that were written and are not there yet.
fn take(tx: &Tx<'_>, space: &mut SpaceState, run: &StagedRun) -> Done<()> {
    let more = "UPDATE block SET refs = refs + 1 WHERE space_id = ?1 AND id = ?2";
    let keys: Vec<Value<'_>> =
        run.blocks.iter().flat_map(|block| [Value::Integer(space.id.0), Value::Blob(&block.id.0)]).collect();
    let counts = tx.run_many(more, 2, &keys)?;
    let (mut missing, mut live, mut made) = (Vec::new(), Vec::new(), HashSet::new());
    for (index, block) in run.blocks.iter().enumerate().filter(|(index, _)| counts.get(*index) != Some(&1)) {
        match block.written {
            _ if made.contains(&block.id) => sql::put(tx, more, (space.id.0, &block.id.0))?,
            Some(place) => {
                insert(tx, space, block.id, place, &mut live)?;
                made.insert(block.id);
            }
            None => missing.push((run.chunk, run.first + index)),
        }
    }
    if !missing.is_empty() {
        return Err(Missing(missing).into());
    }
    add_all_live(tx, &mut live)
}

fn insert(tx: &Tx<'_>, space: &mut SpaceState, id: BlockId, place: Place, live: &mut Vec<(i64, i64)>) -> Done<()> {
    if place.raw_bytes as usize > BLOCK_BYTES_MAX {
        return refuse(ErrorKind::TooLarge, "a block is larger than any reader accepts");
    }
    let sql = "INSERT INTO block (space_id, id, refs, pack_id, \"offset\", sealed_bytes, raw_bytes) \
               VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6)";
    let row = (space.id.0, &id.0, place.pack.0, signed(place.offset), place.sealed_bytes, place.raw_bytes);
    sql::put(tx, sql, row)?;
    space.raw += i64::from(place.raw_bytes);
    space.sealed += i64::from(place.sealed_bytes);
    add_to(live, place.pack.0, i64::from(place.sealed_bytes));
    Ok(())
}

/// Sums per pack, so that a run writes each pack's row once. A run touches one or two packs.
pub(super) fn add_to(live: &mut Vec<(i64, i64)>, pack: i64, bytes: i64) {
    match live.iter_mut().find(|(other, _)| *other == pack) {
        Some((_, sum)) => *sum += bytes,
        None => live.push((pack, bytes)),
    }
}

/// Adds to the live bytes of packs, in the order of their ids, in which everybody locks them.
pub(super) fn add_all_live(tx: &Tx<'_>, live: &mut [(i64, i64)]) -> Done<()> {
    live.sort_unstable();
    live.iter().try_for_each(|&(pack, bytes)| add_live(tx, pack, bytes))
}

/// Adds to a pack's live bytes. Blocks only come alive in an open pack: one that is not was taken from whoever wrote it, who was
/// given up meanwhile ([`super::instances`]).
fn add_live(tx: &Tx<'_>, pack: i64, bytes: i64) -> Done<()> {
    let sql =
        "UPDATE pack SET live_bytes = live_bytes + ?2 WHERE id = ?1 AND (state = 0 AND instance_id >= 0 OR ?2 <= 0)";
    if sql::run(tx, sql, (pack, bytes))? == 0 && bytes > 0 {
        return refuse(
            ErrorKind::Unavailable,
            "the pack these blocks were written to was closed by another node; try again",
        );
    }
    Ok(())
}

/// What giving back references freed.
#[derive(Debug, Default)]
pub(super) struct Freed {
    pub(super) raw: i64,
    pub(super) sealed: i64,
    pub(super) live: Vec<(i64, i64)>,
}

/// Gives back one reference on each of these blocks; the last one removes a block's row. A block that is not there was reported
/// by `check`.
pub(super) fn release(tx: &Tx<'_>, space: SpaceId, ids: &[u8], freed: &mut Freed) -> Done<()> {
    let ids = ids.chunks_exact(BlockId::BYTES);
    let keys: Vec<Value<'_>> = ids.flat_map(|id| [Value::Integer(space.0), Value::Blob(id)]).collect();
    let fewer = "UPDATE block SET refs = refs - 1 WHERE space_id = ?1 AND id = ?2 AND refs > 1";
    let counts = tx.run_many(fewer, 2, &keys)?;
    let last = keys.chunks_exact(2).zip(counts).filter(|(_, count)| *count == 0);
    let last: Vec<Value<'_>> = last.flat_map(|(key, _)| key).copied().collect();
    let gone = "DELETE FROM block WHERE space_id = ?1 AND id = ?2 RETURNING pack_id, sealed_bytes, raw_bytes";
    tx.query_many(gone, 2, &last, &mut |_, row| {
        let (pack, sealed, raw): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        freed.raw += raw;
        freed.sealed += sealed;
        add_to(&mut freed.live, pack, -sealed);
        Ok(())
    })
}
