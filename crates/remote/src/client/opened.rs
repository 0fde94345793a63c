//! A content that is being read: blocks from memory or the server, and more of them ahead of who reads on.

use super::Shared;
use super::layouts::Layout;
use crate::wire::{Call, Opened};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, ContentId, Error, ErrorKind, Result};
use holdfast_drive::OpenContent;
use parking_lot::Mutex;
use std::sync::Arc;

/// Blocks that are fetched ahead at most.
const AHEAD_MAX: u64 = 16;
/// What is read is cut into this.
const PIECE: u64 = BLOCK_BYTES as u64;
/// A read that begins so near to where the last ended reads on: the kernel has several under way, in any order.
const NEAR: u64 = 2 * PIECE;

pub(super) struct RemoteContent {
    pub(super) shared: Arc<Shared>,
    pub(super) id: ContentId,
    pub(super) facts: Opened,
    /// What it is made of, where it is read by sealed blocks.
    pub(super) layout: Option<Arc<Layout>>,
    pub(super) reading: Mutex<Progress>,
}

/// Where reading is.
#[derive(Default)]
pub(super) struct Progress {
    read_to: u64,
    ahead: u64,
}

impl Progress {
    /// Notes a read; answers how many blocks to fetch beyond it.
    fn note(&mut self, range: ByteRange) -> u64 {
        let goes_on = range.start.abs_diff(self.read_to) <= NEAR && range.end > self.read_to;
        if range.end > self.read_to || !goes_on {
            self.read_to = range.end;
        }
        // One that begins at the start has not gone on yet, and small files end here.
        self.ahead = if goes_on { (self.ahead * 2).clamp(1, AHEAD_MAX) } else { 0 };
        self.ahead
    }
}

#[async_trait]
impl OpenContent for RemoteContent {
    fn id(&self) -> ContentId {
        self.id
    }

    fn size(&self) -> u64 {
        self.facts.size
    }

    fn grain(&self) -> Option<u64> {
        self.facts.grain
    }

    async fn read(&self, range: ByteRange) -> Result<Vec<u8>> {
        if range.end > self.facts.size {
            return Err(Error::new(ErrorKind::RangeNotSatisfiable, "the range lies beyond the file's end"));
        }
        let ahead = self.reading.lock().note(range);
        let piece = self.piece();
        let (first, last) = (range.start / piece, range.end.div_ceil(piece));
        for number in first..(last + ahead).min(self.facts.size.div_ceil(piece)) {
            // What is read now as well, so that all of it is under way at once.
            if number > first && !self.shared.blocks.has((self.id, number)) {
                self.fetch_ahead(number);
            }
        }
        let mut out = Vec::with_capacity(usize::try_from(range.len()).unwrap_or(0));
        for number in first..last {
            let block = self.of().block(number).await?;
            let at = |position: u64| usize::try_from(position.saturating_sub(number * piece)).unwrap_or(usize::MAX);
            out.extend_from_slice(&block[at(range.start).min(block.len())..at(range.end).min(block.len())]);
        }
        Ok(out)
    }
}

impl RemoteContent {
    fn piece(&self) -> u64 {
        self.layout.as_ref().map_or(PIECE, |layout| layout.piece())
    }

    fn of(&self) -> Blocks {
        let (shared, layout) = (self.shared.clone(), self.layout.clone());
        Blocks { shared, id: self.id, size: self.facts.size, layout }
    }

    fn fetch_ahead(&self, number: u64) {
        let of = self.of();
        tokio::spawn(async move {
            // What is wrong with it is said when it is its turn.
            let _ = of.block(number).await;
        });
    }
}

/// The blocks of a content.
struct Blocks {
    shared: Arc<Shared>,
    id: ContentId,
    size: u64,
    layout: Option<Arc<Layout>>,
}

impl Blocks {
    /// A block, from memory, from the disk or from the server.
    async fn block(&self, number: u64) -> Result<Bytes> {
        let Self { shared, id, size, layout } = self;
        let fetch = || async {
            if let (Some(layout), Some(layouts)) = (layout, shared.layouts.get()) {
                return layouts.block(shared, layout, number).await;
            }
            let start = number * PIECE;
            let range = ByteRange { start, end: (start + PIECE).min(*size) };
            let found: Bytes = shared.link.ask(&Call::Read(*id, range)).await?;
            if found.len() as u64 != range.len() {
                return Err(Error::damaged("the server sent another part of the file than was asked for"));
            }
            Ok(found)
        };
        shared.blocks.get((*id, number), fetch).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_on_gets_more_ahead_and_who_jumps_nothing() {
        let mut progress = Progress::default();
        let ahead: Vec<u64> = (0..7)
            .map(|number| progress.note(ByteRange { start: number * PIECE, end: (number + 1) * PIECE }))
            .collect();
        assert_eq!(ahead, [1, 2, 4, 8, 16, 16, 16]);
        assert_eq!(progress.note(ByteRange { start: 100 * PIECE, end: 100 * PIECE + 10 }), 0);
        assert_eq!(progress.note(ByteRange { start: 5 * PIECE, end: 5 * PIECE + 10 }), 0);
        assert_eq!(progress.note(ByteRange { start: 5 * PIECE + 10, end: 5 * PIECE + 20 }), 1);
    }
}
