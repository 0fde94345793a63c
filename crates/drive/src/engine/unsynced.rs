//! Content that a mount answers before the disk has it: its blocks are in packs, in the system's cache, and neither synced nor known to the catalogue.
//!
//! The end of the process does not undo it, if a journal says where the blocks are; a power cut may. So it is made of steps that a mount takes apart
//! ([`crate::Deferring`]): the blocks are written ([`Prepared`]), their places go into the journal, and a moment later they are synced and handed to the
//! catalogue. A lease on each pack keeps it open until then. After the end of the process the pack is open still ([`Engine::start`] leaves it so, if
//! journals wait): whoever goes through the journal looks at each record, which has a sum, and writes it once more, since nobody knows what of the
//! pack is on the disk ([`Engine::rescue`]). A record that is not whole is what a power cut left, and what was answered with it was never made.

use super::Engine;
use super::ahead::SealedAhead;
use super::packer::PackLease;
use super::target::Target;
use super::upload::Ready;
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::{BLOCK_BYTES, BLOCK_BYTES_MAX};
use holdfast_base::{ByteRange, Error, ErrorKind, PackId, PackName, Result, Uid};
use holdfast_meta::{NewContent, Place, StagedBlock};
use holdfast_seal::block::{RECORD_OVERHEAD_BYTES, record_is_intact};
use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::ops::Range;
use std::sync::Arc;

/// A whole content that is written, and not synced.
pub struct Prepared(pub(super) PreparedAs);

pub(super) enum PreparedAs {
    /// Its blocks are in packs.
    Packed(Arc<Target>, Ready),
    /// They are where a client keeps them.
    Spooled(Unsynced),
}

/// What the journal may answer for: its blocks stay where they are until the last clone is gone.
#[derive(Clone)]
pub struct Unsynced(Arc<Parts>);

struct Parts {
    content: NewContent,
    size: u64,
    sealed_bytes: u64,
    blocks: Blocks,
}

enum Blocks {
    /// One for each block of the content, in order.
    Packed(Vec<SealedAhead>),
    Spooled(Arc<dyn Spooled>),
}

/// Blocks of a content that a client keeps on its own machine until the server has them.
#[async_trait]
pub trait Spooled: Send + Sync {
    /// A part of the plaintext of block `index`.
    async fn read(&self, index: usize, range: Range<usize>) -> Result<Vec<u8>>;
    /// Whether it could be read, as far as that was tried.
    fn is_sound(&self) -> bool;
    /// Nobody will ask for it after a restart: it may go with the last clone. Without this it stays.
    fn let_go(&self);
}

/// Blocks that were written once more, and their leases.
pub struct Rescued {
    /// The content, with the new places.
    pub content: NewContent,
    leases: Vec<PackLease>,
}

impl Debug for Unsynced {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unsynced").field(&self.0.content).finish()
    }
}

impl Prepared {
    /// The same as something that is answered before the disk has it; none if it has to be saved at once: it is tiny, the space has blocks of it already,
    /// which might be gone by then, or the store keeps in memory what it has not synced.
    pub fn unsynced(&self) -> Option<Unsynced> {
        let (target, ready) = match &self.0 {
            PreparedAs::Packed(target, ready) => (target, ready),
            PreparedAs::Spooled(unsynced) => return Some(unsynced.clone()),
        };
        let mut own = HashMap::new();
        let mut blocks = Vec::with_capacity(ready.stored.len());
        for stored in &ready.stored {
            if let Some(lease) = &stored.lease {
                if lease.sync_ends_pack() {
                    return None;
                }
                own.entry(stored.id).or_insert_with(|| SealedAhead::new(target, stored.id, lease.clone()));
            }
            blocks.push(own.get(&stored.id)?.clone());
        }
        Unsynced::of(ready.content.clone(), Blocks::Packed(blocks))
    }

    /// What a client keeps.
    pub const fn spooled(unsynced: Unsynced) -> Self {
        Self(PreparedAs::Spooled(unsynced))
    }
}

impl Unsynced {
    /// A content of which a client keeps the blocks; none if it has none.
    pub fn spooled(content: NewContent, blocks: Arc<dyn Spooled>) -> Option<Self> {
        Self::of(content, Blocks::Spooled(blocks))
    }

    fn of(content: NewContent, blocks: Blocks) -> Option<Self> {
        let NewContent::Blocks { size, runs, .. } = &content else { return None };
        let written = runs.iter().flat_map(|run| &run.blocks).filter_map(|block| block.written);
        let sealed_bytes = written.map(|place| u64::from(place.sealed_bytes)).sum();
        let size = *size;
        Some(Self(Arc::new(Parts { content, size, sealed_bytes, blocks })))
    }

    /// What is handed to the catalogue when it is synced.
    pub fn content(&self) -> &NewContent {
        &self.0.content
    }

    /// Plaintext bytes.
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// Bytes that were written for it.
    pub fn sealed_bytes(&self) -> u64 {
        self.0.sealed_bytes
    }

    /// Whether it can be synced still: not once a write or a sync of one of its packs failed, or where it could not be read.
    pub fn is_sound(&self) -> bool {
        match &self.0.blocks {
            Blocks::Packed(blocks) => blocks.iter().all(SealedAhead::is_sound),
            Blocks::Spooled(blocks) => blocks.is_sound(),
        }
    }

    /// It is handed over, or was never answered for: nobody will look for it after a restart.
    pub fn let_go(&self) {
        match &self.0.blocks {
            Blocks::Packed(_) => {}
            Blocks::Spooled(blocks) => blocks.let_go(),
        }
    }

    /// A part of its plaintext, which must lie within it.
    pub async fn read(&self, range: ByteRange) -> Result<Vec<u8>> {
        let beyond = || Error::new(ErrorKind::RangeNotSatisfiable, "the range lies beyond the file's end");
        if range.end > self.size() {
            return Err(beyond());
        }
        let (block_bytes, mut at, mut out) = (BLOCK_BYTES as u64, range.start, Vec::new());
        while at < range.end {
            let (index, end) = (at / block_bytes, range.end.min((at / block_bytes + 1) * block_bytes));
            let whole = |value: u64| usize::try_from(value).map_err(|_| beyond());
            let start = index * block_bytes;
            let (index, within) = (whole(index)?, whole(at - start)?..whole(end - start)?);
            let part = match &self.0.blocks {
                Blocks::Packed(blocks) => blocks.get(index).ok_or_else(beyond)?.read(within).await?,
                Blocks::Spooled(blocks) => blocks.read(index, within).await?,
            };
            out.extend_from_slice(&part);
            at = end;
        }
        Ok(out)
    }
}

impl Engine {
    /// Makes contents durable, so that they may be handed to the catalogue.
    pub(super) async fn sync_unsynced(&self, contents: &[Unsynced]) -> Result<()> {
        let packed = contents.iter().flat_map(|content| match &content.0.blocks {
            Blocks::Packed(blocks) => blocks.as_slice(),
            Blocks::Spooled(_) => &[],
        });
        let leases: Vec<PackLease> = packed.map(|block| block.lease().clone()).collect();
        self.shared.packer.sync(&leases).await
    }

    /// Writes the blocks of a content of this space, of which a journal says where they are, once more; none if they are not all there as they were
    /// written.
    pub async fn rescue(&self, space: Uid, content: &NewContent) -> Result<Option<Rescued>> {
        let (mut content, mut leases) = (content.clone(), Vec::new());
        let NewContent::Blocks { runs, .. } = &mut content else { return Ok(None) };
        let mut names = HashMap::new();
        for StagedBlock { id, written } in runs.iter_mut().flat_map(|run| &mut run.blocks) {
            let Some(place) = written else { continue };
            let Some(record) = self.written_record(&mut names, *place).await? else { return Ok(None) };
            if !record_is_intact(space, *id, &record) {
                return Ok(None);
            }
            let lease = self.shared.packer.append(Bytes::from(record), 0).await?;
            *place = lease.place;
            leases.push(lease);
        }
        Ok(Some(Rescued { content, leases }))
    }

    /// Makes what was written once more durable.
    pub async fn sync_rescued(&self, rescued: &[Rescued]) -> Result<()> {
        let leases: Vec<PackLease> = rescued.iter().flat_map(|rescued| rescued.leases.iter().cloned()).collect();
        self.shared.packer.sync(&leases).await
    }

    async fn written_record(
        &self,
        names: &mut HashMap<PackId, Option<PackName>>,
        place: Place,
    ) -> Result<Option<Vec<u8>>> {
        let bytes = place.sealed_bytes as usize;
        if bytes > BLOCK_BYTES_MAX + RECORD_OVERHEAD_BYTES {
            return Ok(None);
        }
        let name = if let Some(name) = names.get(&place.pack) {
            *name
        } else {
            let from = PackId(place.pack.0.saturating_sub(1));
            let found = self.shared.catalogue.packs(Some(from), 1).await?;
            let name = found.first().filter(|pack| pack.id == place.pack).map(|pack| pack.name);
            *names.entry(place.pack).or_insert(name)
        };
        let Some(name) = name else { return Ok(None) };
        match self.shared.store.read(name, place.offset, bytes, Vec::new()).await {
            Ok(record) => Ok(Some(record)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Rescued {
    /// The same as what a mount answers for, in the space of `target`.
    pub(super) fn unsynced(self, target: &Target) -> Option<Unsynced> {
        let mut own = HashMap::new();
        let mut leases = self.leases.into_iter();
        let NewContent::Blocks { runs, .. } = &self.content else { return None };
        let mut blocks = Vec::new();
        for StagedBlock { id, written } in runs.iter().flat_map(|run| &run.blocks) {
            if written.is_some() {
                own.insert(*id, SealedAhead::new(target, *id, leases.next()?));
            }
            blocks.push(own.get(id)?.clone());
        }
        Unsynced::of(self.content, Blocks::Packed(blocks))
    }
}
