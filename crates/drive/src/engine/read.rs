//! The read pipeline: from a content's manifest to a stream of authenticated plaintext.
//!
//! Blocks are fetched, decrypted and decompressed into the cache ([`super::cache`]), which also bounds their memory, and handed out in
//! order ([`super::stream`]). Each is authenticated by its id; the ids by their manifest chunk's tag; the size by the content's. A
//! range touches the blocks it overlaps and no other.
//!
//! Reclaim may move a block between the look-up of its place and the read; then it is looked up again.

use super::Shared;
use super::budget::{Buffer, Downloads};
use super::cache::{Open, Want};
use super::copies::Copies;
use super::stream::Outflow;
use super::workers::{INLINE_BYTES_MAX, Tools, with_tools};
use crate::ContentStream;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use holdfast_base::limits::BLOCK_BYTES_MAX;
use holdfast_base::{BlockId, ByteRange, Error, ErrorKind, Result};
use holdfast_meta::{BlockPlace, Content, MANIFEST_CHUNK_BLOCKS, ManifestChunk};
use holdfast_seal::BlockKeys;
use holdfast_seal::block::{RECORD_OVERHEAD_BYTES, record_is_intact};
use std::sync::Arc;

/// Looking a block up again is needed at most once per reclaim that overtakes the read; more misses are damage.
const LOOKUPS_MAX: usize = 4;

/// A content being read.
pub(crate) struct Reading {
    shared: Arc<Shared>,
    keys: Arc<BlockKeys>,
    content: Content,
}

impl Reading {
    /// Checks the content's own tag.
    pub(crate) fn new(shared: Arc<Shared>, keys: Arc<BlockKeys>, content: Content) -> Result<Arc<Self>> {
        if keys.content_tag(&content.nonce, content.size, content.block_bytes) != content.tag {
            return Err(Error::damaged("the catalogue's record of this file's content fails its integrity check"));
        }
        let blocks = content.size.checked_div(u64::from(content.block_bytes)).unwrap_or(0);
        if content.inline.is_none() && (content.block_bytes == 0 || content.blocks < blocks) {
            return Err(Error::damaged("the catalogue's record of this file's content contradicts itself"));
        }
        Ok(Arc::new(Self { shared, keys, content }))
    }

    /// Streams `range`, which must lie within the content.
    pub(crate) async fn stream(self: Arc<Self>, range: ByteRange) -> Result<ContentStream> {
        if range.is_empty() {
            return Ok(stream::empty().boxed());
        }
        if range.end > self.content.size {
            return Err(Error::new(ErrorKind::RangeNotSatisfiable, "the range lies beyond the file's end"));
        }
        if self.content.inline.is_some() {
            let piece = self.inline(range);
            return Ok(stream::once(async { piece }).boxed());
        }
        // The first block is fetched before the answer begins, so that damage there is a status and not a broken body.
        let mut outflow = Outflow::new(self, range);
        let first = outflow.piece().await?;
        Ok(outflow.stream(first))
    }

    /// Asks the cache for block `index`, which has this id.
    pub(crate) fn want(self: &Arc<Self>, id: BlockId, index: u64) -> Want<OpenBlock> {
        let open = OpenBlock { reading: self.clone(), id };
        self.shared.downloads.cache.want((self.content.space, id), self.record_bytes(index), open)
    }

    /// Has it fetched if there is room.
    pub(crate) fn fetch_ahead(self: &Arc<Self>, id: BlockId, index: u64) {
        let open = OpenBlock { reading: self.clone(), id };
        self.shared.downloads.cache.ahead((self.content.space, id), self.record_bytes(index), open);
    }

    /// Where copies for slow readers are made.
    pub(crate) fn copies(&self) -> &Arc<Copies> {
        &self.shared.downloads.copies
    }

    /// Bytes of every block but the last.
    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.content.block_bytes)
    }

    /// Plaintext bytes of block `index`.
    pub(crate) fn length_of(&self, index: u64) -> u64 {
        (self.content.size - index * self.block_bytes()).min(self.block_bytes())
    }

    /// Room for block `index` as it lies in the store or as it is opened.
    pub(super) fn record_bytes(&self, index: u64) -> usize {
        let bytes = usize::try_from(self.length_of(index)).map_or(BLOCK_BYTES_MAX, |bytes| bytes.min(BLOCK_BYTES_MAX));
        bytes + RECORD_OVERHEAD_BYTES
    }

    /// A range of tiny content.
    pub(crate) fn inline(&self, range: ByteRange) -> Result<Bytes> {
        let sealed = self.content.inline.as_deref().unwrap_or_default();
        let plain = with_tools(|tools| tools.opener.open_inline(&self.keys, sealed))?;
        if plain.len() as u64 != self.content.size {
            return Err(Error::damaged("a tiny content has not the size the catalogue states"));
        }
        let (start, end) = (to_usize(range.start)?, to_usize(range.end)?);
        Ok(Bytes::from(plain).slice(start..end))
    }

    /// Reads one block into `buffer`, opened or as the record it is; answers it, where in it that starts, and where it lies.
    async fn fetch(&self, id: BlockId, mut buffer: Buffer, opened: bool) -> Result<(Buffer, usize, BlockPlace)> {
        let mut last = None;
        for _ in 0..LOOKUPS_MAX {
            let places = self.shared.catalogue.block_places(self.content.space, &[id]).await?;
            let Some(place) = places.into_iter().next().flatten() else { break };
            if last.as_ref().is_some_and(|(before, _)| *before == place) {
                break;
            }
            match self.shared.fetch_at(&self.keys, &place, buffer.replace(Vec::new()), opened).await {
                Ok((plain, start)) => {
                    buffer.replace(plain);
                    return Ok((buffer, start, place));
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
                    last = Some((place, error));
                }
                Err(error) => return Err(error),
            }
        }
        self.is_kept().await?;
        let cause = last.map_or_else(|| "the catalogue does not know it".to_owned(), |(_, error)| error.to_string());
        Err(Error::damaged(format!("block {id} cannot be read ({cause}); run `holdfast check --read-data`")))
    }

    /// `NotFound` if the content went while it was read, as an old version does by and by: that something of it is missing is no damage then.
    async fn is_kept(&self) -> Result<()> {
        let kept = self.shared.catalogue.content(self.content.id).await?;
        kept.map(drop).ok_or_else(|| Error::not_found("this content is no longer kept"))
    }
}

impl Shared {
    /// Reads a block from its place and opens it; answers where in the buffer the plaintext starts.
    pub(super) async fn open_block(
        &self,
        keys: &Arc<BlockKeys>,
        at: &BlockPlace,
        mut buffer: Buffer,
    ) -> Result<(Buffer, usize)> {
        let (plain, start) = self.fetch_at(keys, at, buffer.replace(Vec::new()), true).await?;
        buffer.replace(plain);
        Ok((buffer, start))
    }

    /// Reads a block from its place, opened or as the record it is; answers where in it that starts.
    async fn fetch_at(
        &self,
        keys: &Arc<BlockKeys>,
        at: &BlockPlace,
        record: Vec<u8>,
        opened: bool,
    ) -> Result<(Vec<u8>, usize)> {
        let (bytes, raw_bytes) = (at.place.sealed_bytes as usize, at.place.raw_bytes as usize);
        if bytes.max(raw_bytes) > BLOCK_BYTES_MAX + RECORD_OVERHEAD_BYTES {
            return Err(Error::damaged("the catalogue states a block over the limit"));
        }
        let record = self.store.read(at.pack_name, at.place.offset, bytes, record).await?;
        let (keys, id) = (keys.clone(), at.id);
        if !opened {
            let look = move |_: &mut Tools| {
                let is_intact = record_is_intact(keys.space(), id, &record);
                if is_intact { Ok((record, 0)) } else { Err(Error::damaged("it is not as it was written")) }
            };
            return self.workers.run(bytes, look).await;
        }
        // What compressed well is much to decompress though little to read.
        let work = bytes.max(if raw_bytes > 4 * INLINE_BYTES_MAX { raw_bytes } else { 0 });
        self.workers
            .run(work, move |tools| {
                let (plain, start, other) = tools.opener.open(&keys, id, record, std::mem::take(&mut tools.spare))?;
                tools.spare = other;
                Ok((plain, start))
            })
            .await
    }
}

fn to_usize(value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|error| Error::internal("a length is over the machine's").with_source(error))
}

/// One block of a reading, to be opened.
#[derive(Clone)]
pub(crate) struct OpenBlock {
    reading: Arc<Reading>,
    id: BlockId,
}

impl Open for OpenBlock {
    async fn open(self, buffer: Buffer) -> Result<(Buffer, usize)> {
        let (buffer, start, _) = self.reading.fetch(self.id, buffer, true).await?;
        Ok((buffer, start))
    }
}

/// The manifest chunks of one reading: the last one looked at is kept, since blocks are asked for nearly in order.
pub(crate) struct Chunks {
    reading: Arc<Reading>,
    last: tokio::sync::Mutex<Option<Arc<ManifestChunk>>>,
}

impl Chunks {
    pub(crate) fn new(reading: Arc<Reading>) -> Self {
        Self { reading, last: tokio::sync::Mutex::default() }
    }

    pub(crate) async fn block(&self, index: u64) -> Result<BlockId> {
        let (chunk, at) = (index / MANIFEST_CHUNK_BLOCKS as u64, to_usize(index % MANIFEST_CHUNK_BLOCKS as u64)?);
        let mut last = self.last.lock().await;
        let loaded = match last.as_ref().filter(|loaded| loaded.index == chunk) {
            Some(loaded) => loaded.clone(),
            None => self.load(chunk).await?,
        };
        *last = Some(loaded.clone());
        let missing = || Error::damaged("a file's manifest is shorter than the file");
        loaded.blocks.get(at).copied().ok_or_else(missing)
    }

    async fn load(&self, index: u64) -> Result<Arc<ManifestChunk>> {
        let Reading { shared, keys, content } = &*self.reading;
        let Some(chunk) = shared.catalogue.manifest_chunk(content.id, index).await? else {
            self.reading.is_kept().await?;
            return Err(Error::damaged("a part of a file's manifest is missing"));
        };
        if keys.chunk_tag(&content.nonce, index, chunk.blocks.iter().copied()) != chunk.tag {
            return Err(Error::damaged("a file's manifest fails its integrity check"));
        }
        Ok(Arc::new(chunk))
    }
}

impl Reading {
    /// The ids of blocks `range` of the manifest, for a write that keeps them.
    pub(crate) async fn block_ids(self: &Arc<Self>, range: std::ops::Range<u64>) -> Result<Vec<BlockId>> {
        let chunks = Chunks::new(self.clone());
        let mut ids = Vec::new();
        for index in range {
            ids.push(chunks.block(index).await?);
        }
        Ok(ids)
    }

    /// Block `index` as the record that it lies in the store as, with its place.
    pub(super) async fn fetch_record(self: &Arc<Self>, index: u64, buffer: Buffer) -> Result<(Buffer, BlockPlace)> {
        let id = Chunks::new(self.clone()).block(index).await?;
        let (record, _, place) = self.fetch(id, buffer, false).await?;
        Ok((record, place))
    }

    /// So many bytes of a record from its place.
    pub(super) async fn record_piece(&self, at: &BlockPlace, start: usize, bytes: usize) -> Result<Vec<u8>> {
        let read = self.shared.store.read(at.pack_name, at.place.offset + start as u64, bytes, Vec::new()).await;
        read.map_err(|error| match error.kind() {
            // Reclaim may have moved it.
            ErrorKind::NotFound => Error::unavailable("the block lies elsewhere now; try again"),
            _ => error,
        })
    }

    /// The memory of downloads.
    pub(super) fn downloads(&self) -> &Downloads {
        &self.shared.downloads
    }

    /// A part of the manifest, with the tag that proves it.
    pub(crate) async fn manifest(self: &Arc<Self>, index: u64) -> Result<Arc<ManifestChunk>> {
        Chunks::new(self.clone()).load(index).await
    }

    /// The id that a block of zeros has.
    pub(crate) fn id_of_zeros(&self) -> Result<BlockId> {
        Ok(self.keys.id(&vec![0; to_usize(self.block_bytes())?]))
    }

    /// Whether it lies in the catalogue's row.
    pub(crate) const fn is_inline(&self) -> bool {
        self.content.inline.is_some()
    }

    /// The content's size in bytes.
    pub(crate) const fn size(&self) -> u64 {
        self.content.size
    }

    /// Whether it is cut into blocks of the size new content is cut into, so that a write can keep some of them.
    pub(crate) fn has_blocks_of(&self, block_bytes: usize) -> bool {
        self.content.inline.is_none() && self.content.block_bytes as usize == block_bytes
    }
}
