//! Giving space back: what nobody refers to is freed, packs that are mostly dead are rewritten, dead packs are deleted.
//!
//! All of it in bounded steps, in an order that survives a crash anywhere: a block is copied and synced before the
//! catalogue points to the copy, and a pack is deleted only when the catalogue has it as dead.

use super::PAGE_ROWS;
use crate::engine::{Engine, PackLease};
use bytes::Bytes;
use holdfast_base::{Error, Result, Uid};
use holdfast_meta::{BlockPlace, MovedBlock, Pack, PackState};
use holdfast_seal::block::record_is_intact;
use holdfast_seal::pack::{ENTRY_BYTES, PACK_HEADER_BYTES, TRAILER_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Rows freed in one catalogue transaction: about a millisecond, so that writers beside it hardly notice.
const STEP_ROWS: usize = 500;
/// Blocks looked up at once.
const STEP_BLOCKS: usize = 64;
/// Blocks moved in one transaction at most, some tens of milliseconds; and at most half a pack of bytes.
const STEP_BLOCKS_MAX: usize = 512;
/// A pack of less than one part in so many of what a pack can be is small: a store where each sync ends a pack makes many, and each is
/// an object to keep and to list. A copy of several is not small again, so each byte is copied for this once.
const SMALL_PARTS: u64 = 4;
/// A pack is rewritten when less than half of it is alive: rewriting then costs less than it gives back.
const LIVE_SHARE_MIN: f64 = 0.5;

/// What a reclaim did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReclaimReport {
    /// Old versions, trash entries and unfinished uploads past their time.
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
        let expired = catalogue.expire_resumables(engine.shared.clock.now_ms(), STEP_ROWS).await?;
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
        let names: Vec<_> = dead.iter().map(|pack| pack.name).collect();
        engine.store().delete_many(&names).await?;
        for pack in dead {
            engine.catalogue().forget_pack(pack.id).await?;
            report.packs_deleted += 1;
            report.bytes_freed += pack.total_bytes;
        }
    }
}

/// Rewrites packs that are mostly dead, and packs too small to stay, if together they make one that is not.
async fn rewrite_sparse(engine: &Engine, report: &mut ReclaimReport) -> Result<u64> {
    let spaces = engine.catalogue().all_spaces().await?;
    let uids: HashMap<_, _> = spaces.into_iter().map(|space| (space.id, space.uid)).collect();
    let small_bytes = engine.shared.pack_bytes / SMALL_PARTS;
    let (mut sparse, mut small, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = engine.catalogue().packs(after, PAGE_ROWS).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for pack in page.into_iter().filter(|pack| pack.state == PackState::Sealed && pack.live_bytes > 0) {
            if is_sparse(engine, &pack).await? {
                sparse.push(pack);
            } else if pack.total_bytes < small_bytes {
                small.push(pack);
            }
        }
    }
    if small.iter().chain(&sparse).map(|pack| pack.live_bytes).sum::<u64>() >= small_bytes {
        sparse.append(&mut small);
    }
    let mut moving = Moving { engine, moves: Vec::new(), leases: Vec::new(), bytes: 0 };
    for pack in &sparse {
        report.bytes_moved += moving.take(pack, &uids).await?;
    }
    moving.settle().await?;
    report.packs_rewritten += sparse.len() as u64;
    Ok(sparse.len() as u64)
}

/// Whether a copy of what is alive is less than half as large. Of small records it is their places in the pack's index that make the most of it, and a copy
/// has those as well: without them counted, such a pack would be copied again and again.
async fn is_sparse(engine: &Engine, pack: &Pack) -> Result<bool> {
    let is_less = |bytes: u64| (bytes as f64) < LIVE_SHARE_MIN * pack.total_bytes as f64;
    let (mut copy_bytes, mut from) = (pack.live_bytes + (PACK_HEADER_BYTES + TRAILER_BYTES) as u64, 0);
    while is_less(copy_bytes) {
        let blocks = engine.catalogue().pack_blocks(pack.id, from, STEP_BLOCKS).await?;
        let Some((_, last)) = blocks.last() else { return Ok(true) };
        from = last.place.offset + 1;
        copy_bytes += (blocks.len() * ENTRY_BYTES) as u64;
    }
    Ok(false)
}

/// Blocks on their way to the open pack; of several packs at a time, since where a sync ends a pack the copies would be as small as the
/// packs they come from.
struct Moving<'e> {
    engine: &'e Engine,
    moves: Vec<MovedBlock>,
    leases: Vec<PackLease>,
    bytes: u64,
}

impl Moving<'_> {
    /// Copies a pack's live blocks. A damaged block stays where it is, and its pack with it, for a person to look at.
    async fn take(&mut self, pack: &Pack, uids: &HashMap<holdfast_base::SpaceId, Uid>) -> Result<u64> {
        let (mut from, mut copied_bytes) = (0, 0);
        loop {
            let blocks = self.engine.catalogue().pack_blocks(pack.id, from, STEP_BLOCKS).await?;
            let Some((_, last)) = blocks.last() else { return Ok(copied_bytes) };
            from = last.place.offset + 1;
            for (space, at) in blocks {
                let Some(record) = intact_record(self.engine, pack, uids.get(&space), &at).await? else { continue };
                copied_bytes += record.len() as u64;
                self.bytes += record.len() as u64;
                let lease = self.engine.shared.packer.append(record, 0).await?;
                self.moves.push(MovedBlock { space, id: at.id, from: at.place, to: lease.place });
                self.leases.push(lease);
            }
            if self.moves.len() >= STEP_BLOCKS_MAX || self.bytes >= self.engine.shared.pack_bytes / 2 {
                self.settle().await?;
            }
            // Whoever else has work to do goes first.
            tokio::task::yield_now().await;
        }
    }

    /// Makes the copies durable and points the catalogue to them.
    async fn settle(&mut self) -> Result<()> {
        self.engine.shared.packer.sync(&self.leases).await?;
        self.engine.catalogue().move_blocks(std::mem::take(&mut self.moves)).await?;
        self.leases.clear();
        self.bytes = 0;
        Ok(())
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
