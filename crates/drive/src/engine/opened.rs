//! A content that a mount reads: see [`OpenContent`].

use super::read::{Chunks, Reading};
use crate::OpenContent;
use async_trait::async_trait;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, ByteRange, ContentId, Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A content being read by a mount.
pub(super) struct Opened {
    id: ContentId,
    reading: Arc<Reading>,
    chunks: Chunks,
    /// The id of a block of zeros, once somebody looked for holes in the space.
    zeros: Arc<OnceLock<BlockId>>,
    /// Where the last read ended: one that goes on from there has the next block fetched.
    read_to: AtomicU64,
}

#[async_trait]
impl OpenContent for Opened {
    fn id(&self) -> ContentId {
        self.id
    }

    fn size(&self) -> u64 {
        self.reading.size()
    }

    fn grain(&self) -> Option<u64> {
        self.reading.has_blocks_of(BLOCK_BYTES).then_some(BLOCK_BYTES as u64)
    }

    async fn is_hole(&self, index: u64) -> Result<bool> {
        // The end of a file is a block of another length, with another id.
        if self.grain().is_none() || self.reading.length_of(index) < BLOCK_BYTES as u64 {
            return Ok(false);
        }
        let zeros = if let Some(zeros) = self.zeros.get() {
            *zeros
        } else {
            let zeros = self.reading.id_of_zeros()?;
            *self.zeros.get_or_init(|| zeros)
        };
        Ok(self.chunks.block(index).await? == zeros)
    }

    async fn read(&self, range: ByteRange) -> Result<Vec<u8>> {
        if range.end > self.reading.size() {
            return Err(Error::new(ErrorKind::RangeNotSatisfiable, "the range lies beyond the file's end"));
        }
        if self.reading.is_inline() {
            return Ok(self.reading.inline(range)?.to_vec());
        }
        let goes_on = self.read_to.swap(range.end, Ordering::Relaxed) == range.start;
        let mut out = Vec::with_capacity(usize::try_from(range.len()).unwrap_or(0));
        let mut at = range.start;
        while at < range.end {
            at += self.part(at, range.end, goes_on, &mut out).await?;
        }
        Ok(out)
    }
}

impl Opened {
    pub(super) fn new(id: ContentId, reading: Arc<Reading>, zeros: Arc<OnceLock<BlockId>>) -> Self {
        let chunks = Chunks::new(reading.clone());
        Self { id, reading, chunks, zeros, read_to: AtomicU64::new(0) }
    }

    /// Appends what of one block lies from `at` to `end`; answers how much that is.
    async fn part(&self, at: u64, end: u64, goes_on: bool, out: &mut Vec<u8>) -> Result<u64> {
        let block_bytes = self.reading.block_bytes();
        let (index, start) = (at / block_bytes, at % block_bytes);
        let id = self.chunks.block(index).await?;
        let want = self.reading.want(id, index);
        if goes_on && (index + 1) * block_bytes < self.reading.size() {
            // What is wrong with a later block is said when it is its turn.
            if let Ok(next) = self.chunks.block(index + 1).await {
                self.reading.fetch_ahead(next, index + 1);
            }
        }
        let mut claim = want.claim().await?;
        let length = self.reading.length_of(index);
        if claim.plain().len() as u64 != length {
            return Err(Error::damaged(format!("block {id} has not the length its place in the file asks for")));
        }
        let to = (end - index * block_bytes).min(length);
        let whole = |value: u64| usize::try_from(value).map_err(|_| Error::internal("a length is over the machine's"));
        out.extend_from_slice(&claim.plain()[whole(start)?..whole(to)?]);
        if to == length && goes_on {
            claim.done();
        }
        Ok(to - start)
    }
}
