//! A content on its way out: pieces in order, with what the reader's pace and the memory there is allow.
//!
//! Each piece comes from one block, which is wanted from the cache, and with it the blocks after it if the reader is fast. A
//! fast reader gets a slice of the block, a slow one (or any, while too many slices are out) a copy, and between two copies nothing
//! of the block is held for it: the block may go and be fetched again.

use super::copies::Copying;
use super::pace::Pace;
use super::read::{Chunks, Reading};
use crate::ContentStream;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_base::{BlockId, ByteRange, Error, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use tokio::time::Instant;

/// A slice keeps the whole block in memory, so it is worth at least one part in this many of it; less is copied.
const SLICE_PARTS_MAX: usize = 4;

/// A content being sent.
pub(crate) struct Outflow {
    reading: Arc<Reading>,
    chunks: Chunks,
    /// Bytes still to come.
    left: ByteRange,
    /// Ids of the blocks from that of `left.start` on, as far as they were looked up.
    ids: VecDeque<BlockId>,
    pace: Pace,
    copying: Option<Copying>,
}

impl Outflow {
    /// `range` of a content that lies in blocks.
    pub(crate) fn new(reading: Arc<Reading>, range: ByteRange) -> Self {
        let chunks = Chunks::new(reading.clone());
        Self { reading, chunks, left: range, ids: VecDeque::new(), pace: Pace::default(), copying: None }
    }

    /// `first`, and then what is left.
    pub(crate) fn stream(self, first: Bytes) -> ContentStream {
        let first = stream::once(async { Ok(first) });
        if self.left.is_empty() {
            return first.boxed();
        }
        let rest = stream::try_unfold(self, |mut outflow| async move {
            Ok(if outflow.left.is_empty() { None } else { Some((outflow.piece().await?, outflow)) })
        });
        first.chain(rest).boxed()
    }

    /// The next piece; only while some are left.
    pub(crate) async fn piece(&mut self) -> Result<Bytes> {
        if let Some(copying) = &mut self.copying {
            copying.wait().await;
        }
        self.pace.took(Instant::now());
        let block_bytes = self.reading.block_bytes();
        let index = self.left.start / block_bytes;
        let id = self.id(index, 0).await?;
        let want = self.reading.want(id, index);
        self.fetch_ahead(index).await;
        let mut claim = want.claim().await?;
        let length = self.reading.length_of(index);
        if claim.plain().len() as u64 != length {
            return Err(Error::damaged(format!("block {id} has not the length its place in the file asks for")));
        }
        let start = index * block_bytes;
        let range = to_usize(self.left.start - start)?..to_usize((self.left.end - start).min(length))?;
        if range.end as u64 == length && self.pace.is_fast() {
            claim.done();
        }
        let piece = match self.slice(claim, range.clone()) {
            Ok(slice) => slice,
            Err(claim) => {
                let copying = self.copying.get_or_insert_with(|| self.reading.copies().join());
                copying.copy(&claim.plain()[range], self.pace.copy_bytes())
            }
        };
        self.advance(piece.len() as u64);
        Ok(piece)
    }

    /// A slice of the block, if it is worth it and may be had.
    fn slice(&mut self, claim: super::cache::Claim, range: Range<usize>) -> Result<Bytes, super::cache::Claim> {
        if !self.pace.is_fast() || range.len() * SLICE_PARTS_MAX < claim.plain().len() {
            return Err(claim);
        }
        let slice = claim.pin(range)?;
        self.copying = None;
        Ok(slice)
    }

    fn advance(&mut self, bytes: u64) {
        let (block_bytes, before) = (self.reading.block_bytes(), self.left.start);
        self.left.start += bytes;
        if self.left.start / block_bytes > before / block_bytes {
            self.ids.pop_front();
        }
        self.pace.gave(usize::try_from(bytes).unwrap_or(usize::MAX), Instant::now());
    }

    /// The id of block `first + further`, where `first` is the block of `left.start`.
    async fn id(&mut self, first: u64, further: usize) -> Result<BlockId> {
        while self.ids.len() <= further {
            self.ids.push_back(self.chunks.block(first + self.ids.len() as u64).await?);
        }
        Ok(self.ids[further])
    }

    /// Has the blocks after block `index` fetched, as many as the pace asks for.
    async fn fetch_ahead(&mut self, index: u64) {
        let blocks_left = self.left.end.div_ceil(self.reading.block_bytes()) - index - 1;
        for further in 1..=self.pace.ahead_blocks().min(blocks_left) {
            // What is wrong with a later block is said when it is its turn.
            let Ok(id) = self.id(index, usize::try_from(further).unwrap_or(usize::MAX)).await else { return };
            self.reading.fetch_ahead(id, index + further);
        }
    }
}

fn to_usize(value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|error| Error::internal("a length is over the machine's").with_source(error))
}
