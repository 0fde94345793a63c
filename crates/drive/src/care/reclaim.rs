//! Giving space back: what nobody refers to is freed, packs that are mostly dead are rewritten, dead packs are deleted.
//!
//! All of it in bounded steps, in an order that survives a crash anywhere: a block is copied and synced before the
//! catalogue points to the copy, and a pack is deleted only when the catalogue has it as dead.

use super::PAGE_ROWS;
use crate::engine::Engine;
use bytes::Bytes;
use holdfast_base::{Error, Result, Uid};
use holdfast_meta::{BlockPlace, MovedBlock, Pack, PackState};
use holdfast_seal::block::record_is_intact;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Rows freed in one catalogue transaction: about a millisecond, so that writers beside it hardly notice.
const STEP_ROWS: usize = 500;
/// Blocks moved per transaction; at most this many MiB are synced at once.
const STEP_BLOCKS: usize = 64;
/// A pack is rewritten when less than half of it is alive: rewriting then costs less than it gives back.
const LIVE_SHARE_MIN: f64 = 0.5;

/// What a reclaim did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReclaimReport {
    /// Old versions and trash entries past their retention.
    pub expired: u64,
    /// Catalogue rows freed.
    pub rows_freed: u64,
    /// Packs rewritten.
    pub packs_rewritten: u64,
    /// Packs deleted.
    pub packs_deleted: u64,
    /// Bytes those had.
    pub bytes_freed: u64,
    /// Bytes copied to save live blocks.
    pub bytes_moved: u64,
}

/// Frees everything that can be freed now. With `close_open_pack` the pack being written is closed first, so that its dead
/// blocks count too.
pub async fn reclaim(engine: &Engine, close_open_pack: bool) -> Result<ReclaimReport> {
    let mut report = ReclaimReport::default();
    let catalogue = engine.catalogue();
    loop {
        let expired = catalogue.expire(engine.shared.clock.now_ms(), STEP_ROWS).await?;
        report.expired += expired as u64;
        if expired == 0 {
            break;
        }
    }
    loop {
        let freed = catalogue.release_garbage(STEP_ROWS).await?;
        report.rows_freed += freed as u64;
        if freed == 0 {
            break;
        }
    }
    if close_open_pack {
        engine.shared.packer.finish().await?;
    }
    delete_dead(engine, &mut report).await?;
    if rewrite_sparse(engine, &mut report).await? > 0 {
        delete_dead(engine, &mut report).await?;
    }
    metrics::counter!("holdfast_reclaim_bytes_freed_total").increment(report.bytes_freed);
    metrics::counter!("holdfast_reclaim_packs_rewritten_total").increment(report.packs_rewritten);
    Ok(report)
}

async fn delete_dead(engine: &Engine, report: &mut ReclaimReport) -> Result<()> {
    loop {
        let dead = engine.catalogue().dead_packs(PAGE_ROWS).await?;
        if dead.is_empty() {
            return Ok(());
        }
        for pack in dead {
            engine.store().delete(pack.name).await?;
            engine.catalogue().forget_pack(pack.id).await?;
            report.packs_deleted += 1;
            report.bytes_freed += pack.total_bytes;
        }
    }
}

async fn rewrite_sparse(engine: &Engine, report: &mut ReclaimReport) -> Result<u64> {
    let spaces = engine.catalogue().all_spaces().await?;
    let uids: HashMap<_, _> = spaces.into_iter().map(|space| (space.id, space.uid)).collect();
    let mut rewritten = 0;
    let mut after = None;
    loop {
        let page = engine.catalogue().packs(after, PAGE_ROWS).await?;
        let Some(last) = page.last() else { return Ok(rewritten) };
        after = Some(last.id);
        for pack in page.iter().filter(|pack| is_sparse(pack)) {
            report.bytes_moved += rewrite(engine, pack, &uids).await?;
            report.packs_rewritten += 1;
            rewritten += 1;
        }
    }
}

fn is_sparse(pack: &Pack) -> bool {
    pack.state == PackState::Sealed
        && pack.live_bytes > 0
        && (pack.live_bytes as f64) < LIVE_SHARE_MIN * pack.total_bytes as f64
}

/// Moves a pack's live blocks to the open pack. A damaged block stays where it is, and its pack with it, for a person to look at.
async fn rewrite(engine: &Engine, pack: &Pack, uids: &HashMap<holdfast_base::SpaceId, Uid>) -> Result<u64> {
    let (mut from, mut moved_bytes) = (0, 0);
    loop {
        let blocks = engine.catalogue().pack_blocks(pack.id, from, STEP_BLOCKS).await?;
        let Some((_, last)) = blocks.last() else { return Ok(moved_bytes) };
        from = last.place.offset + 1;
        let (mut moves, mut leases) = (Vec::new(), Vec::new());
        for (space, at) in blocks {
            let Some(record) = intact_record(engine, pack, uids.get(&space), &at).await? else { continue };
            moved_bytes += record.len() as u64;
            let lease = engine.shared.packer.append(record).await?;
            moves.push(MovedBlock { space, id: at.id, from: at.place, to: lease.place });
            leases.push(lease);
        }
        engine.shared.packer.sync(&leases).await?;
        engine.catalogue().move_blocks(moves).await?;
        // Whoever else has work to do goes first.
        tokio::task::yield_now().await;
    }
}

async fn intact_record(engine: &Engine, pack: &Pack, space: Option<&Uid>, at: &BlockPlace) -> Result<Option<Bytes>> {
    let bytes = at.place.sealed_bytes as usize;
    let read = engine.store().read(pack.name, at.place.offset, bytes, Vec::new()).await;
    let problem = match (read, space) {
        (Ok(record), Some(space)) if record_is_intact(*space, at.id, &record) => return Ok(Some(Bytes::from(record))),
        (Ok(_), _) => Error::damaged("its bytes are not those that were written"),
        (Err(error), _) if error.is_temporary() => return Err(error),
        (Err(error), _) => error,
    };
    tracing::error!(pack = %pack.name, block = %at.id, ?problem, "a damaged block was not moved; run `holdfast check --read-data`");
    Ok(None)
}
