//! A content of a drive, being read: blocks as they lie in the store, opened here.

use crate::Content;
use crate::signs;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, ByteRange, Error, ErrorKind, Result};
use holdfast_drive::ManifestChunk;
use holdfast_remote::client::Space;
use std::sync::Arc;

/// Blocks ahead: 100 Mbit/s for 2.7 s.
const AHEAD: usize = 32;

/// The content.
pub(super) struct DriveContent(Option<Reading>);

struct Reading {
    space: Space,
    content: holdfast_drive::Content,
    /// All of it, if it is tiny.
    tiny: Option<Bytes>,
    /// The part of the manifest that was looked at last.
    chunk: tokio::sync::Mutex<Option<Arc<ManifestChunk>>>,
}

impl DriveContent {
    pub(super) const fn empty() -> Self {
        Self(None)
    }

    pub(super) fn of(space: Space, content: holdfast_drive::Content) -> Result<Self> {
        let tiny = content.inline.is_some().then(|| space.open_tiny(&content)).transpose()?;
        if tiny.is_none() && content.block_bytes == 0 {
            return Err(Error::damaged("the server says of a content that its blocks are empty"));
        }
        Ok(Self(Some(Reading { space, content, tiny, chunk: tokio::sync::Mutex::default() })))
    }
}

impl Reading {
    /// The id of a block.
    async fn id(&self, index: u64) -> Result<BlockId> {
        let per_chunk = holdfast_drive::MANIFEST_CHUNK_BLOCKS as u64;
        let (chunk, at) = (index / per_chunk, usize::try_from(index % per_chunk).unwrap_or(usize::MAX));
        // Who comes first asks; the others wait for that.
        let mut last = self.chunk.lock().await;
        let found = match last.as_ref().filter(|last| last.index == chunk) {
            Some(found) => found.clone(),
            None => Arc::new(self.space.manifest(&self.content, chunk).await?),
        };
        *last = Some(found.clone());
        found.blocks.get(at).copied().ok_or_else(|| Error::damaged("a file's manifest is shorter than the file"))
    }

    async fn record(&self, index: u64) -> Result<Bytes> {
        let signs = signs::current();
        self.space.record(self.content.id, index, move || signs.alive()).await
    }

    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        if let Some(tiny) = &self.tiny {
            let cut = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(tiny.len());
            return Ok(tiny.slice(cut(range.start)..cut(range.end)));
        }
        let block = u64::from(self.content.block_bytes);
        let mut whole = BytesMut::new();
        for index in range.start / block..range.end.div_ceil(block) {
            // Which block it is to be is asked meanwhile.
            let (id, record) = tokio::try_join!(self.id(index), self.record(index))?;
            let plain = match self.space.open(id, record).await {
                // It may have been put together from two answers, and sealed anew in between.
                Err(_) => self.space.open(id, self.record(index).await?).await?,
                Ok(plain) => plain,
            };
            if plain.len() as u64 != block.min(self.content.size - index * block) {
                return Err(Error::damaged("a block has not the length that its place in the file needs"));
            }
            let cut = |at: u64| usize::try_from(at.saturating_sub(index * block).min(plain.len() as u64)).unwrap_or(0);
            let part = plain.slice(cut(range.start)..cut(range.end));
            if part.len() as u64 == range.len() {
                return Ok(part);
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    }
}

#[async_trait]
impl Content for DriveContent {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        match &self.0 {
            Some(reading) if range.end <= reading.content.size => reading.read(range).await,
            None if range.is_empty() => Ok(Bytes::new()),
            _ => Err(Error::new(ErrorKind::RangeNotSatisfiable, "the range lies beyond the file's end")),
        }
    }

    fn grain(&self) -> u64 {
        self.0.as_ref().map_or(BLOCK_BYTES as u64, |reading| u64::from(reading.content.block_bytes).max(1 << 16))
    }

    fn ahead(&self) -> usize {
        AHEAD
    }

    async fn is_still(&self) -> Result<bool> {
        // A content never becomes another one.
        Ok(true)
    }
}
