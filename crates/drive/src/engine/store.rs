//! A body that comes at once, with what is around it: blocks before and after it, and those within it that are not sent.

use super::intake::Intake;
use super::target::{Stored, Target};
use super::upload::{INLINE_RAW_BYTES_MAX, Ready, Upload};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a content has beside the body that is stored.
#[derive(Default)]
pub(crate) struct Around {
    /// Whole blocks before it.
    pub(crate) before: Vec<BlockId>,
    /// Whole blocks within it that are not in its stream, by their number in it: that goes on behind them.
    pub(crate) within: BTreeMap<u64, Within>,
    /// Blocks after it, and their plaintext length.
    pub(crate) after: (Vec<BlockId>, u64),
}

/// Whole blocks within a body that are not in its stream.
pub(crate) enum Within {
    /// One that is stored.
    Stored(Stored),
    /// Those that the space has.
    Known(Vec<BlockId>),
    /// The one before, so many times more.
    Same(BlockId, u64),
}

impl Within {
    /// How many.
    pub(crate) const fn blocks(&self) -> u64 {
        match self {
            Self::Stored(_) => 1,
            Self::Known(ids) => ids.len() as u64,
            Self::Same(_, times) => *times,
        }
    }
}

impl Target {
    /// Stores a body with what is around it, each block of which is whole but for the last of all. A body of `declared` bytes is reserved for before it
    /// is read.
    pub(crate) async fn store(
        self: &Arc<Self>,
        intake: Intake,
        declared: Option<u64>,
        around: Around,
    ) -> Result<Ready> {
        let upload = Upload::begin(self.clone(), declared).await?;
        self.store_in(upload, intake, declared, around).await
    }

    /// The same for a body of so many bytes, few enough for one transaction; nothing of it is synced.
    pub(super) async fn write(self: &Arc<Self>, intake: Intake, bytes: u64, around: Around) -> Result<Ready> {
        let upload = Upload::unsynced(self.clone(), bytes).await?;
        self.store_in(upload, intake, Some(bytes), around).await
    }

    async fn store_in(
        self: &Arc<Self>,
        mut upload: Upload,
        mut intake: Intake,
        declared: Option<u64>,
        around: Around,
    ) -> Result<Ready> {
        let Around { before, mut within, after: (after, after_bytes) } = around;
        let known = before.len() as u64 + within.values().map(Within::blocks).sum::<u64>();
        let known_bytes = known * BLOCK_BYTES as u64 + after_bytes;
        for id in before {
            upload.push(Stored::known(id)).await?;
        }
        let (mut index, mut more) = (0, true);
        loop {
            if let Some(here) = within.remove(&index) {
                index += here.blocks();
                upload.take_within(here).await?;
                continue;
            }
            if !more {
                break;
            }
            let first = upload.is_fresh();
            let block = upload.next_block(declared.filter(|_| first)).await?;
            let (block, goes_on, slow) = self.fill(&mut intake, block, BLOCK_BYTES).await?;
            let whole = first && !goes_on && within.is_empty() && after.is_empty();
            if whole && block.bytes() <= INLINE_RAW_BYTES_MAX {
                return upload.finish_tiny(block).await;
            }
            if !within.is_empty() && !block.bytes().is_multiple_of(BLOCK_BYTES) {
                return Err(Error::invalid("a body ends within a block before one that is not sent"));
            }
            if block.bytes() > 0 {
                upload.seal(block).await?;
                index += 1;
            }
            (more, upload.slow) = (goes_on, slow);
            if more {
                upload.reserve_for(intake.received(), declared).await?;
            }
        }
        if !within.is_empty() {
            return Err(Error::invalid("a block is not sent that is beyond the body, or named twice"));
        }
        upload.settle().await?;
        for id in after {
            upload.push(Stored::known(id)).await?;
        }
        upload.finish(intake.received() + known_bytes).await
    }
}

impl Upload {
    /// Takes blocks that are not in the stream, behind those on their way.
    async fn take_within(&mut self, within: Within) -> Result<()> {
        match within {
            Within::Stored(stored) => self.take_stored(stored).await?,
            Within::Known(ids) => {
                for id in ids {
                    self.take_stored(Stored::known(id)).await?;
                }
            }
            Within::Same(id, times) => {
                for _ in 0..times {
                    self.take_stored(Stored::known(id)).await?;
                }
            }
        }
        Ok(())
    }
}
