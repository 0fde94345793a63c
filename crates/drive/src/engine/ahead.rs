//! Blocks that a mount seals while the file is still being written, before the save that names them, and those of a save that the disk does not have yet ([`super::unsynced`]).
//!
//! Such a block is in a pack and nowhere else: the catalogue learns of it by the save. Until then a lease keeps its pack open, so that nobody takes it
//! for dead; if the save never comes, it is dead when the lease is gone, and reclaimed like any block of an upload that was given up. Blocks of the same
//! content are written once: a table knows those that wait.
//!
//! Nothing is reserved for it. Whoever seals ahead looks now and then whether the space has room for what the save will ask for.

use super::Shared;
use super::budget::{Buffer, share_bytes};
use super::cache::Open;
use super::packer::PackLease;
use super::store::Within;
use super::target::{Stored, Target};
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, Error, Result, SpaceId};
use holdfast_meta::BlockPlace;
use holdfast_seal::BlockKeys;
use holdfast_seal::block::{RECORD_OVERHEAD_BYTES, RECORD_PREFIX_BYTES};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Debug, Formatter};
use std::ops::Range;
use std::sync::{Arc, Weak};

/// Blocks that wait for their save, by what is in them.
#[derive(Default)]
pub(super) struct Waiting(Mutex<HashMap<(SpaceId, BlockId), Weak<Block>>>);

/// A block that was sealed and written before the save that it is a part of. Its pack keeps it until the last clone is gone.
#[derive(Clone)]
pub struct SealedAhead(Arc<Block>);

struct Block {
    shared: Arc<Shared>,
    keys: Arc<BlockKeys>,
    space: SpaceId,
    id: BlockId,
    lease: PackLease,
}

impl Waiting {
    fn get(&self, space: SpaceId, id: BlockId) -> Option<SealedAhead> {
        self.0.lock().get(&(space, id)).and_then(Weak::upgrade).map(SealedAhead)
    }

    fn add(&self, block: &Arc<Block>) {
        self.0.lock().insert((block.space, block.id), Arc::downgrade(block));
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut waiting = self.shared.ahead.0.lock();
        let key = (self.space, self.id);
        // Another of the same content may have taken its place.
        if waiting.get(&key).is_some_and(|block| block.strong_count() == 0) {
            waiting.remove(&key);
        }
    }
}

impl Debug for SealedAhead {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SealedAhead").field(&self.0.id).finish()
    }
}

impl PartialEq for SealedAhead {
    fn eq(&self, other: &Self) -> bool {
        (self.0.space, self.0.id) == (other.0.space, other.0.id)
    }
}

impl Eq for SealedAhead {}

impl SealedAhead {
    /// A block that was just written.
    pub(super) fn new(target: &Target, id: BlockId, lease: PackLease) -> Self {
        let Target { shared, keys, space, .. } = target;
        let block = Arc::new(Block { shared: shared.clone(), keys: keys.clone(), space: *space, id, lease });
        shared.ahead.add(&block);
        Self(block)
    }

    pub(super) fn lease(&self) -> &PackLease {
        &self.0.lease
    }

    /// A part of its plaintext.
    pub async fn read(&self, range: Range<usize>) -> Result<Vec<u8>> {
        let block = &self.0;
        let cache = &block.shared.downloads.cache;
        let claim =
            cache.want((block.space, block.id), BLOCK_BYTES + RECORD_OVERHEAD_BYTES, self.clone()).claim().await?;
        let part = claim.plain().get(range).map(<[u8]>::to_vec);
        part.ok_or_else(|| Error::damaged("a block has not the length that it was sealed with"))
    }

    /// Whether a save may name it: not once a write or a sync of its pack failed, though it may still be read then.
    pub fn is_sound(&self) -> bool {
        !self.0.lease.has_failed()
    }
}

impl Open for SealedAhead {
    async fn open(self, buffer: Buffer) -> Result<(Buffer, usize)> {
        let Block { shared, keys, id, lease, .. } = &*self.0;
        let at = BlockPlace { id: *id, pack_name: lease.pack_name(), place: lease.place };
        shared.open_block(keys, &at, buffer).await
    }
}

impl Target {
    /// Seals and writes a whole block; none if the space has it already.
    pub(super) async fn seal_ahead(&self, parts: Vec<Bytes>) -> Result<Option<SealedAhead>> {
        if parts.iter().map(Bytes::len).sum::<usize>() != BLOCK_BYTES {
            return Err(Error::internal("only a whole block is sealed ahead of its save"));
        }
        self.refuse_without_room(BLOCK_BYTES as u64).await?;
        let bytes = BLOCK_BYTES + RECORD_PREFIX_BYTES;
        let hold = self.shared.uploads.working.take(share_bytes(bytes)).await;
        let mut buffer = self.shared.uploads.pool.buffer(bytes, hold);
        buffer.bytes.clear();
        buffer.bytes.resize(RECORD_PREFIX_BYTES, 0);
        for part in &parts {
            buffer.bytes.extend_from_slice(part);
        }
        drop(parts);
        let (id, buffer) = self.identify(buffer, None).await?;
        if let Some(waiting) = self.waiting(id) {
            return Ok(Some(waiting));
        }
        if self.has(id).await? {
            return Ok(None);
        }
        let record = self.seal_block(id, buffer).await?;
        Ok(Some(SealedAhead::new(self, id, self.append(record).await?)))
    }

    /// A block that is written already and waits to be named.
    pub(super) fn waiting(&self, id: BlockId) -> Option<SealedAhead> {
        self.shared.ahead.get(self.space, id).filter(SealedAhead::is_sound)
    }

    /// What was sealed ahead of a save, for the save, by number of the block in what is sent from byte `start` of the file on.
    pub(super) fn sealed(&self, ahead: BTreeMap<u64, SealedAhead>, start: u64) -> Result<BTreeMap<u64, Within>> {
        let stored = |(index, SealedAhead(block)): (u64, SealedAhead)| {
            let index = index.checked_sub(start / BLOCK_BYTES as u64).filter(|_| block.space == self.space);
            let index = index.ok_or_else(|| Error::internal("a block was sealed ahead for another save"))?;
            Ok((index, Within::Stored(Stored::written(block.id, block.lease.clone()))))
        };
        ahead.into_iter().map(stored).collect()
    }
}
