//! Blocks of a long file are sealed while it is still being written.
//!
//! A block is begun when the file was written on for [`LAG_BLOCKS`] behind it: whoever writes one after the other is past it then. It is sealed beside
//! what is written, its memory is given back, and `close` or `fsync` have only the rest to seal. A file that is shorter than that, or written here and
//! there, is sealed by its save as ever. What is sealed and then written to again was sealed in vain; a file of which that is so more than
//! [`IN_VAIN_MAX`] times is a database or the like, and is left alone until it is saved.
//!
//! Whatever goes wrong here is told by the save, which seals what is not sealed.

use crate::core::Core;
use crate::file::State;
use crate::meter::waits_for;
use crate::under_way::Wait;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, Error, Result};
use holdfast_drive::SealedAhead;
use std::collections::VecDeque;
use tokio::task::JoinHandle;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Blocks between the end of what was written and the one that is sealed: headers that are put right at last are mostly in files shorter than this.
const LAG_BLOCKS: u64 = 4;
/// Blocks of one file under way: as many as a save has. With more, whoever writes waits.
const UNDER_WAY_MAX: usize = 6;
/// Blocks sealed in vain before a file is left alone.
const IN_VAIN_MAX: u32 = 8;
/// Blocks between two looks at the space's room.
const ROOM_EVERY: u64 = 64;

/// Blocks of one file that are being sealed.
#[derive(Default)]
pub(crate) struct Sealing {
    /// In the order in which they were begun.
    under_way: VecDeque<UnderWay>,
    begun: u64,
    in_vain: u32,
    /// None is begun any more.
    stopped: bool,
}

struct UnderWay {
    block: u64,
    number: u64,
    task: JoinHandle<Result<Option<SealedAhead>>>,
}

impl State {
    /// Begins to seal what a write of bytes `from..to` has left behind.
    pub(crate) async fn seal_behind(&mut self, core: &Core, from: u64, to: u64) {
        if self.sealing.stopped || !core.tree.seals_here() {
            return;
        }
        for ended in from / BLOCK..to / BLOCK {
            let Some(block) = ended.checked_sub(LAG_BLOCKS) else { continue };
            let Some((number, pages)) = self.overlay.begin_ahead(block) else { continue };
            if self.sealing.begun.is_multiple_of(ROOM_EVERY) && !self.has_room(core).await {
                self.sealing.stopped = true;
                self.overlay.end_ahead(block, number, None);
                return;
            }
            self.sealing.begun += 1;
            let tree = core.tree.clone();
            let task = tokio::spawn(async move { tree.seal_ahead(pages).await });
            self.sealing.under_way.push_back(UnderWay { block, number, task });
            self.take_sealed(UNDER_WAY_MAX).await;
        }
    }

    /// Whether the space has room for what waits to be saved; what it has not is refused by the save, and should not fill the disk before.
    async fn has_room(&self, core: &Core) -> bool {
        let room = core.tree.room().await;
        room.is_ok_and(|room| room.free_bytes.is_none_or(|free| free >= self.overlay.written_bytes()))
    }

    /// Takes what is sealed, and waits until no more than `most` are under way.
    async fn take_sealed(&mut self, most: usize) {
        while let Some(first) = self.sealing.under_way.front_mut() {
            if !first.task.is_finished() && self.sealing.under_way.len() <= most {
                return;
            }
            let Some(UnderWay { block, number, task }) = self.sealing.under_way.front_mut() else { return };
            let (block, number) = (*block, *number);
            let sealed = match waits_for(Wait::Sealed, task).await {
                Ok(sealed) => sealed,
                Err(error) => Err(Error::internal("sealing a block failed").with_source(error)),
            };
            self.sealing.under_way.pop_front();
            let sealed = sealed.unwrap_or_else(|error| {
                tracing::debug!(%error, "a block could not be sealed before its file is saved");
                self.sealing.stopped = true;
                None
            });
            if sealed.is_some() {
                metrics::counter!("holdfast_mount_sealed_ahead_total").increment(1);
            }
            if !self.overlay.end_ahead(block, number, sealed) {
                self.in_vain();
            }
        }
    }

    fn in_vain(&mut self) {
        metrics::counter!("holdfast_mount_sealed_in_vain_total").increment(1);
        self.sealing.in_vain += 1;
        self.sealing.stopped |= self.sealing.in_vain > IN_VAIN_MAX;
    }

    /// Has sealed blocks that a range reaches into in memory again, to be written to.
    pub(crate) async fn take_back(&mut self, range: ByteRange) -> Result<()> {
        for (block, sealed) in self.overlay.sealed_in(range) {
            self.put_back(block, &sealed).await?;
            self.in_vain();
        }
        Ok(())
    }

    async fn put_back(&mut self, block: u64, sealed: &SealedAhead) -> Result<()> {
        let plain = waits_for(Wait::Read, sealed.read(0..BLOCK_BYTES)).await?;
        self.overlay.put_back(block, &plain);
        Ok(())
    }

    /// Nothing is under way any more, and what is sealed may be named by a save: what lies in a pack that failed is read from it as long as that goes, and
    /// is sealed again by the save.
    pub(crate) async fn settle_ahead(&mut self) -> Result<()> {
        self.take_sealed(0).await;
        for (block, sealed) in self.overlay.sealed_in(ByteRange::whole(self.overlay.size())) {
            if !sealed.is_sound() {
                self.put_back(block, &sealed).await?;
            }
        }
        Ok(())
    }
}
