//! Taking and giving back references on blocks, with the packs' and the space's sums beside them.
//!
//! A block row exists as long as something refers to it and no longer; its pack's live bytes and the space's stored bytes
//! count it for exactly that time.

use super::codec::signed;
use super::fault::{Done, Fault, refuse};
use super::sql;
use super::state::SpaceState;
use super::tx::Tx;
use crate::catalogue::Missing;
use crate::types::{MANIFEST_CHUNK_BLOCKS, Place, StagedRun};
use holdfast_base::limits::BLOCK_BYTES_MAX;
use holdfast_base::{BlockId, Error, ErrorKind, SpaceId};

/// Appends a run to the manifest of `content`, which has `blocks` so far, and takes a reference on each block. Nothing may
/// be kept if this fails; a claim that does not hold fails as [`Fault::Missing`] once every claim of the run was tested.
pub(super) fn append_run(tx: &Tx<'_>, space: &mut SpaceState, content: i64, blocks: u64, run: &StagedRun) -> Done<()> {
    let chunk_blocks = MANIFEST_CHUNK_BLOCKS as u64;
    let fits = run.first + run.blocks.len() <= MANIFEST_CHUNK_BLOCKS && !run.blocks.is_empty();
    if !fits || (blocks / chunk_blocks, blocks % chunk_blocks) != (run.chunk, run.first as u64) {
        return refuse(ErrorKind::InvalidInput, "the blocks of an upload must be appended in order, chunk by chunk");
    }
    let mut missing = Vec::new();
    let mut live = Vec::new();
    for (index, block) in run.blocks.iter().enumerate() {
        let sql = "UPDATE block SET refs = refs + 1 WHERE space_id = ?1 AND id = ?2";
        if sql::run(tx, sql, (space.id.0, &block.id.0))? == 1 {
            continue;
        }
        match block.written {
            Some(place) => insert(tx, space, block.id, place, &mut live)?,
            None => missing.push((run.chunk, run.first + index)),
        }
    }
    if !missing.is_empty() {
        return Err(Fault::Missing(Missing(missing)));
    }
    for (pack, bytes) in live {
        add_live(tx, pack, bytes)?;
    }
    let ids: Vec<u8> = run.blocks.iter().flat_map(|block| block.id.0).collect();
    let sql = if run.first == 0 {
        "INSERT INTO manifest (content_id, chunk, tag, blocks) VALUES (?1, ?2, ?3, ?4)"
    } else {
        "UPDATE manifest SET tag = ?3, blocks = CAST(blocks || ?4 AS BLOB) WHERE content_id = ?1 AND chunk = ?2"
    };
    if sql::run(tx, sql, (content, signed(run.chunk), &run.tag, &ids))? == 0 {
        return Err(Error::damaged("a manifest has a hole; run holdfast check").into());
    }
    Ok(())
}

fn insert(tx: &Tx<'_>, space: &mut SpaceState, id: BlockId, place: Place, live: &mut Vec<(i64, i64)>) -> Done<()> {
    if place.raw_bytes as usize > BLOCK_BYTES_MAX {
        return refuse(ErrorKind::TooLarge, "a block is larger than any reader accepts");
    }
    let sql = "INSERT INTO block (space_id, id, refs, pack_id, offset, sealed_bytes, raw_bytes) \
               VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6)";
    let row = (space.id.0, &id.0, place.pack.0, signed(place.offset), place.sealed_bytes, place.raw_bytes);
    sql::run(tx, sql, row)?;
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

/// Adds to a pack's live bytes. Nothing can come alive in a pack that is dead or gone.
pub(super) fn add_live(tx: &Tx<'_>, pack: i64, bytes: i64) -> Done<()> {
    let sql = "UPDATE pack SET live_bytes = live_bytes + ?2 WHERE id = ?1 AND (state <> 2 OR ?2 <= 0)";
    if sql::run(tx, sql, (pack, bytes))? == 0 && bytes > 0 {
        return refuse(ErrorKind::Conflict, "the pack these blocks were written to is gone: write them again");
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

/// Gives back one reference on a block; the last one removes its row. A block that is not there was reported by `check`.
pub(super) fn release(tx: &Tx<'_>, space: SpaceId, id: &[u8], freed: &mut Freed) -> Done<()> {
    let sql = "SELECT refs, pack_id, sealed_bytes, raw_bytes FROM block WHERE space_id = ?1 AND id = ?2";
    let row = sql::first(tx, sql, (space.0, id), |row| {
        Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?))
    })?;
    let Some((refs, pack, sealed, raw)) = row else { return Ok(()) };
    if refs > 1 {
        sql::run(tx, "UPDATE block SET refs = refs - 1 WHERE space_id = ?1 AND id = ?2", (space.0, id))?;
        return Ok(());
    }
    sql::run(tx, "DELETE FROM block WHERE space_id = ?1 AND id = ?2", (space.0, id))?;
    freed.raw += raw;
    freed.sealed += sealed;
    add_to(&mut freed.live, pack, -sealed);
    Ok(())
}
