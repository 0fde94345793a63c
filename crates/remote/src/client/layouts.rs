//! Reading by sealed blocks, where there is a cache on the disk: the server hands out what lies in its store, and it is opened, and kept, here.
//!
//! What a content is made of is asked once, and kept with its blocks: the tags say that it was said by somebody with the space's key. A content never changes
//! under its number, but a server that was put back to a backup gives numbers away that it gave before. So after each time the server was away, those that are
//! known are compared with it ([`Layouts::look_again`]): one question about the greatest, since numbers are given in order.

use super::Shared;
use super::disk::{Disk, Name};
use crate::wire::{Call, Opened};
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, ContentId, Error, Result};
use holdfast_drive::engine::sealed::LAYOUTS_MAX;
use holdfast_drive::{Content, MANIFEST_CHUNK_BLOCKS, ManifestChunk};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Contents that are remembered; with a tiny content or a part of a manifest each, 32 MiB. At this many all are forgotten.
const KNOWN_MAX: usize = 4_096;
/// Questions about contents after the server was away; if none of them finds one that is as it was, all are forgotten.
const LOOKS_MAX: usize = 16;

/// What is known of contents, and where it is kept.
pub(super) struct Layouts {
    pub(super) disk: Arc<Disk>,
    known: Mutex<HashMap<ContentId, Arc<Layout>>>,
    /// What is on the disk is of this server.
    compared: AtomicBool,
    comparing: tokio::sync::Mutex<()>,
}

/// A content.
pub(super) struct Layout {
    pub(super) content: Content,
    /// All of it, if it is tiny.
    inline: Option<Bytes>,
    /// The part of the manifest that was used last.
    chunk: Mutex<Option<Arc<ManifestChunk>>>,
}

impl Layout {
    fn new(disk: &Disk, content: Content) -> Result<Self> {
        disk.sealing().look_at(&content)?;
        let inline = content.inline.is_some().then(|| disk.sealing().open_inline(&content)).transpose()?;
        if inline.is_none()
            && (content.block_bytes == 0 || content.size > content.blocks * u64::from(content.block_bytes))
        {
            return Err(Error::damaged("a file's content has fewer blocks than bytes"));
        }
        Ok(Self { content, inline, chunk: Mutex::default() })
    }

    /// As the server says it to whoever asks less.
    pub(super) fn facts(&self) -> Opened {
        let grain = self.inline.is_none() && self.content.block_bytes as usize == BLOCK_BYTES;
        Opened { size: self.content.size, grain: grain.then_some(BLOCK_BYTES as u64) }
    }

    /// Bytes of each block but the last.
    pub(super) fn piece(&self) -> u64 {
        if self.inline.is_some() { self.content.size.max(1) } else { u64::from(self.content.block_bytes) }
    }

    fn length_of(&self, index: u64) -> u64 {
        self.content.size.saturating_sub(index * self.piece()).min(self.piece())
    }
}

/// Where a block is in a manifest.
pub(super) fn place(index: u64) -> (u64, usize) {
    let each = MANIFEST_CHUNK_BLOCKS as u64;
    (index / each, usize::try_from(index % each).unwrap_or(usize::MAX))
}

impl Layouts {
    pub(super) fn new(disk: Arc<Disk>) -> Self {
        Self {
            disk,
            known: Mutex::default(),
            compared: AtomicBool::new(false),
            comparing: tokio::sync::Mutex::default(),
        }
    }

    /// The server was away: it may be another by now.
    pub(super) fn doubt(&self) {
        self.compared.store(false, Ordering::Release);
        self.known.lock().clear();
    }

    /// Forgets what is known of a content.
    pub(super) fn forget(&self, content: Option<ContentId>) {
        let mut known = self.known.lock();
        match content {
            Some(content) => drop(known.remove(&content)),
            None => known.clear(),
        }
    }

    /// What a content is made of.
    pub(super) async fn layout(&self, shared: &Shared, id: ContentId) -> Result<Arc<Layout>> {
        if let Some(known) = self.known.lock().get(&id) {
            return Ok(known.clone());
        }
        let kept = self.on_disk(id).await;
        let layout = match kept {
            Some(kept) if self.is_compared(shared).await? => kept,
            // It may be gone after that.
            Some(_) | None => match self.on_disk(id).await {
                Some(kept) => kept,
                None => self.ask(shared, id).await?,
            },
        };
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(id, layout.clone());
        Ok(layout)
    }

    async fn on_disk(&self, id: ContentId) -> Option<Arc<Layout>> {
        let name = Name::Content(id);
        if !self.disk.has(name) {
            return None;
        }
        let disk = self.disk.clone();
        let found = off(move || {
            let content = disk.find::<Content>(name).filter(|content| content.id == id)?;
            Layout::new(&disk, content).ok()
        });
        found.await.ok().flatten().map(Arc::new)
    }

    async fn ask(&self, shared: &Shared, id: ContentId) -> Result<Arc<Layout>> {
        let mut found: Vec<Option<Content>> = shared.link.ask(&Call::Layouts(vec![id])).await?;
        let content = found.pop().flatten().filter(|content| content.id == id && found.is_empty());
        let content = content.ok_or_else(|| Error::not_found("this content is no longer kept"))?;
        let layout = Arc::new(Layout::new(&self.disk, content)?);
        let kept = layout.clone();
        self.disk.later(move |disk| disk.keep(Name::Content(id), &kept.content, false));
        Ok(layout)
    }

    /// Whether what is on the disk was of this server already when it was looked at; while the server is away, it is as good as it gets.
    async fn is_compared(&self, shared: &Shared) -> Result<bool> {
        if self.compared.load(Ordering::Acquire) || shared.link.is_away() {
            return Ok(true);
        }
        match self.look_again(shared).await {
            Ok(()) => Ok(false),
            Err(_) if shared.link.is_away() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Forgets the contents of which the server knows something else than what is here.
    pub(super) async fn look_again(&self, shared: &Shared) -> Result<()> {
        let _one = self.comparing.lock().await;
        if self.compared.load(Ordering::Acquire) {
            return Ok(());
        }
        let disk = self.disk.clone();
        let all = off(move || disk.contents()).await?;
        let mut doubtful = Vec::new();
        for some in all.chunks(LAYOUTS_MAX).take(LOOKS_MAX) {
            let answer: Vec<Option<Content>> = shared.link.ask(&Call::Layouts(some.to_vec())).await?;
            if answer.len() != some.len() {
                return Err(Error::damaged("the server answered another question than was asked"));
            }
            let (disk, asked) = (self.disk.clone(), some.to_vec());
            let same = off(move || {
                let is_same = |(id, theirs): (&ContentId, &Option<Content>)| {
                    theirs.is_some() && disk.find::<Content>(Name::Content(*id)) == *theirs
                };
                asked.iter().zip(&answer).position(is_same)
            });
            match same.await? {
                Some(at) => {
                    doubtful.extend_from_slice(&some[..at]);
                    return self.settle_doubt(doubtful).await;
                }
                None => doubtful.extend_from_slice(some),
            }
        }
        self.settle_doubt(all).await
    }

    async fn settle_doubt(&self, gone: Vec<ContentId>) -> Result<()> {
        let disk = self.disk.clone();
        self.known.lock().clear();
        off(move || gone.into_iter().for_each(|content| disk.forget(Name::Content(content), true))).await?;
        self.compared.store(true, Ordering::Release);
        Ok(())
    }

    /// A part of a content's manifest, from the disk or the server.
    pub(super) async fn chunk(&self, shared: &Shared, layout: &Layout, number: u64) -> Result<Arc<ManifestChunk>> {
        if let Some(known) = layout.chunk.lock().as_ref().filter(|known| known.index == number) {
            return Ok(known.clone());
        }
        let (disk, name, content) =
            (self.disk.clone(), Name::Manifest(layout.content.id, number), layout.content.clone());
        let kept = off(move || {
            let kept = disk.find::<ManifestChunk>(name)?;
            // Of another content that had this number: there is nothing wrong with the disk.
            (kept.index == number && disk.sealing().look_at_chunk(&content, &kept).is_ok()).then_some(kept)
        });
        let chunk = if let Some(kept) = kept.await? {
            Arc::new(kept)
        } else {
            let found: ManifestChunk = shared.link.ask(&Call::Manifest(layout.content.id, number)).await?;
            if found.index != number {
                return Err(Error::damaged("the server answered another question than was asked"));
            }
            self.disk.sealing().look_at_chunk(&layout.content, &found)?;
            let found = Arc::new(found);
            let kept = found.clone();
            self.disk.later(move |disk| disk.keep(name, &*kept, false));
            found
        };
        *layout.chunk.lock() = Some(chunk.clone());
        Ok(chunk)
    }

    /// Lets go of a content and its blocks, or of everything; of what is pinned only if that is said.
    pub(super) async fn let_go(&self, content: Option<ContentId>, pinned_too: bool) {
        self.forget(content);
        let disk = self.disk.clone();
        let work = move || {
            let Some(content) = content else {
                return disk.names().into_iter().for_each(|(name, _)| disk.forget(name, pinned_too));
            };
            let Some(known) = disk.find::<Content>(Name::Content(content)) else { return };
            for number in 0..known.blocks.div_ceil(MANIFEST_CHUNK_BLOCKS as u64) {
                let name = Name::Manifest(content, number);
                let chunk = disk.find::<ManifestChunk>(name);
                let blocks = chunk.into_iter().flat_map(|chunk| chunk.blocks).map(Name::Block);
                blocks.chain([name]).for_each(|name| disk.forget(name, pinned_too));
            }
            disk.forget(Name::Content(content), pinned_too);
        };
        let _ = off(work).await;
    }

    /// The id of a block of a content.
    pub(super) async fn id_of(&self, shared: &Shared, layout: &Layout, index: u64) -> Result<BlockId> {
        let (number, at) = place(index);
        let chunk = self.chunk(shared, layout, number).await?;
        chunk.blocks.get(at).copied().ok_or_else(|| Error::damaged("a file's manifest is shorter than the file"))
    }

    /// A block of a content, from the disk or the server.
    pub(super) async fn block(&self, shared: &Shared, layout: &Layout, index: u64) -> Result<Bytes> {
        if let Some(inline) = &layout.inline {
            return Ok(inline.clone());
        }
        let id = self.id_of(shared, layout, index).await?;
        let disk = self.disk.clone();
        let plain = if let Some(plain) = off(move || disk.block(id)).await? {
            plain
        } else {
            let (record, plain) = self.fetch(shared, layout.content.id, index, id).await?;
            self.disk.later(move |disk| disk.keep_block(id, &record, false));
            plain
        };
        if plain.len() as u64 == layout.length_of(index) {
            Ok(plain)
        } else {
            Err(Error::damaged("a block of a file has another length than the file says"))
        }
    }

    /// A block from the server: its record, and what is in it.
    pub(super) async fn fetch(
        &self,
        shared: &Shared,
        content: ContentId,
        index: u64,
        id: BlockId,
    ) -> Result<(Bytes, Bytes)> {
        let record = shared.link.fetch(&Call::Record(content, index)).await?;
        let (disk, sealed) = (self.disk.clone(), record.clone());
        let plain = off(move || disk.sealing().open_block(id, sealed)).await??;
        Ok((record, plain))
    }
}

/// Reads, hashes and opens where nobody who serves a socket waits for it.
pub(super) async fn off<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::internal("a task was lost").with_source(error))
}
