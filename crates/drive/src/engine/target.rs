//! Where an upload goes: a space with its keys, and the life of one block there: hashed, looked up, sealed, appended, synced, in the manifest.

use super::access::Entered;
use super::budget::{Buffer, share_bytes};
use super::packer::PackLease;
use super::receive::Received;
use super::resume::expiry;
use super::small::codec_of;
use super::upload::StagedTo;
use super::workers::Tools;
use super::{Engine, Shared};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, Error, ErrorKind, Result, SpaceId};
use holdfast_meta::{Missing, StagedRun};
use holdfast_seal::block::RECORD_PREFIX_BYTES;
use holdfast_seal::{BlockKeys, Codec};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long blocks of a resumable upload wait at most to be staged with others: at 250 MiB/s that is as many as are staged at once anyway.
const STAGE_EVERY_MAX: Duration = Duration::from_millis(250);
/// They wait this many times what staging took last: so a disk is at it for a quarter of the time, and a fast one loses next to nothing.
const STAGE_PAUSE: u32 = 4;
/// The same where each sync makes an object.
const STAGE_EVERY_OBJECT: Duration = Duration::from_secs(10);
/// Room that uploads leave on the store's disk, which most often is the catalogue's too: its log may grow by this much before it is
/// folded into the database, and deleting has to work on a full disk.
const SPARE_ROOM_BYTES: u64 = 32 << 20;
/// Attempts to commit while blocks vanish in between; more than two would need two reclaims within one commit.
pub(super) const COMMIT_ATTEMPTS_MAX: usize = 3;

/// A block that is stored or about to be claimed.
pub(crate) struct Stored {
    pub(crate) id: BlockId,
    /// Where it was written; none if the space had it.
    pub(crate) lease: Option<PackLease>,
    /// Its plaintext, while it is only claimed.
    pub(super) plain: Option<Received>,
}

impl Stored {
    /// A block that was written.
    pub(crate) const fn written(id: BlockId, lease: PackLease) -> Self {
        Self { id, lease: Some(lease), plain: None }
    }

    /// A block the present version of the same file holds; nothing of it is in memory.
    pub(crate) const fn known(id: BlockId) -> Self {
        Self { id, lease: None, plain: None }
    }

    /// How long it may wait for others to be staged with, after the staging before, which took this long, began.
    pub(super) fn stage_every(&self, took: Duration) -> Duration {
        if self.lease.as_ref().is_some_and(PackLease::sync_ends_pack) {
            STAGE_EVERY_OBJECT
        } else {
            (took * STAGE_PAUSE).min(STAGE_EVERY_MAX)
        }
    }
}

/// What an upload needs to know of its space.
pub(crate) struct Target {
    pub(crate) shared: Arc<Shared>,
    pub(crate) space: SpaceId,
    pub(crate) keys: Arc<BlockKeys>,
    pub(crate) codec: Codec,
    pub(crate) nonce: [u8; 16],
}

impl Engine {
    pub(crate) fn target(&self, entered: &Entered, keys: Arc<BlockKeys>) -> Result<Arc<Target>> {
        Ok(self.target_of(entered, keys, holdfast_seal::keys::random_bytes()?))
    }

    /// For a content that has its nonce.
    pub(crate) fn target_of(&self, entered: &Entered, keys: Arc<BlockKeys>, nonce: [u8; 16]) -> Arc<Target> {
        Arc::new(Target {
            shared: self.shared.clone(),
            space: entered.space.id,
            keys,
            codec: codec_of(entered.space.compression),
            nonce,
        })
    }
}

impl Shared {
    /// Refuses what the disk has no room for, so that room is left for the catalogue.
    pub(crate) async fn refuse_without_room(&self, bytes: u64) -> Result<()> {
        match self.store.room().await? {
            Some(room) if room.free_bytes < bytes.saturating_add(SPARE_ROOM_BYTES) => Err(Error::new(
                ErrorKind::NoSpace,
                "the drive's disk has no room for this; deleting and emptying the trash make some",
            )),
            _ => Ok(()),
        }
    }
}

impl Target {
    /// See [`Shared::refuse_without_room`].
    pub(crate) async fn refuse_without_room(&self, bytes: u64) -> Result<()> {
        self.shared.refuse_without_room(bytes).await
    }

    /// Hashes a block, looks it up, and seals and appends it unless the space has it. `expected` is its id where the block was out of our
    /// hands since that was computed.
    pub(super) async fn store_block(self: Arc<Self>, block: Buffer, expected: Option<BlockId>) -> Result<Stored> {
        let (id, block) = self.identify(block, expected).await?;
        if let Some(waiting) = self.waiting(id) {
            return Ok(Stored::written(id, waiting.lease().clone()));
        }
        if self.has(id).await? {
            metrics::counter!("holdfast_blocks_deduplicated_total").increment(1);
            return Ok(Stored { id, lease: None, plain: Some(self.keep(block).await?) });
        }
        let record = self.seal_block(id, block).await?;
        Ok(Stored::written(id, self.append(record).await?))
    }

    /// Stores a block of zeros.
    pub(super) async fn store_zeros(self: Arc<Self>) -> Result<Stored> {
        let bytes = RECORD_PREFIX_BYTES + BLOCK_BYTES;
        let hold = self.shared.uploads.working.take(share_bytes(bytes)).await;
        let mut block = self.shared.uploads.pool.buffer(bytes, hold);
        block.bytes.clear();
        block.bytes.resize(bytes, 0);
        self.store_block(block, None).await
    }

    /// Whether the space has a block already.
    pub(super) async fn has(&self, id: BlockId) -> Result<bool> {
        let places = self.shared.catalogue.block_places(self.space, &[id]).await?;
        Ok(places.first().is_some_and(Option::is_some))
    }

    /// Keeps the plaintext of a block that is only claimed: half of the memory for receiving is for that, and then the disk.
    async fn keep(&self, mut block: Buffer) -> Result<Received> {
        let receiving = &self.shared.uploads.receiving;
        let hold = if receiving.is_crowded() { None } else { receiving.try_take(share_bytes(block.bytes.capacity())) };
        match hold {
            Some(hold) => {
                block.rehold(hold);
                Ok(Received::Memory(block))
            }
            None => Ok(Received::Aside(Box::new(self.set_aside(block).await?))),
        }
    }

    pub(super) async fn identify(&self, block: Buffer, expected: Option<BlockId>) -> Result<(BlockId, Buffer)> {
        let (keys, bytes) = (self.keys.clone(), block.bytes.len());
        let hash = move |_: &mut Tools| Ok((keys.id(&block.bytes[RECORD_PREFIX_BYTES..]), block));
        let (id, block) = self.shared.workers.run(bytes, hash).await?;
        if expected.is_some_and(|expected| expected != id) {
            return Err(Error::unavailable("the disk gave back other bytes than were set aside on it; try again"));
        }
        Ok((id, block))
    }

    pub(super) async fn seal_block(&self, id: BlockId, mut block: Buffer) -> Result<Buffer> {
        let (keys, codec) = (self.keys.clone(), self.codec);
        self.shared
            .workers
            .run(block.bytes.len(), move |tools| {
                let (plain, spare) = (block.replace(Vec::new()), std::mem::take(&mut tools.spare));
                let (record, other) = tools.sealer.seal(&keys, id, codec, plain, spare)?;
                block.replace(record);
                tools.spare = other;
                Ok(block)
            })
            .await
    }

    pub(super) async fn append(&self, record: Buffer) -> Result<PackLease> {
        let (bytes, share_bytes) = (record.bytes.len(), record.share_bytes());
        self.shared.packer.append(record.into_bytes(0..bytes), share_bytes).await
    }

    /// Writes the blocks the catalogue turned out not to have, from their plaintext, and makes them durable.
    pub(super) async fn write_missing(
        &self,
        runs: &mut [StagedRun],
        stored: &mut [Stored],
        missing: &Missing,
    ) -> Result<()> {
        for (chunk, at) in &missing.0 {
            let mut position = 0;
            let run = runs.iter_mut().find(|run| {
                let found = run.chunk == *chunk && (run.first..run.first + run.blocks.len()).contains(at);
                position += if found { at - run.first } else { run.blocks.len() };
                found
            });
            let (Some(run), Some(block)) = (run, stored.get_mut(position)) else {
                return Err(Error::internal("the catalogue misses a block nobody claimed"));
            };
            let plain = block.plain.take().ok_or_else(|| {
                Error::new(ErrorKind::Conflict, "the file changed while a part of it was being replaced; try again")
            })?;
            let (plain, expected) = plain.into_work(self).await?;
            let (id, plain) = self.identify(plain, expected.or(Some(block.id))).await?;
            let record = self.seal_block(id, plain).await?;
            let lease = self.append(record).await?;
            run.blocks[at - run.first].written = Some(lease.place);
            block.lease = Some(lease);
        }
        self.sync(stored).await
    }

    pub(super) async fn sync(&self, stored: &[Stored]) -> Result<()> {
        let leases: Vec<PackLease> = stored.iter().filter_map(|block| block.lease.clone()).collect();
        self.shared.packer.sync(&leases).await
    }

    /// Syncs blocks and appends them, as runs, to the upload's manifest; answers how long that took.
    pub(super) async fn stage(
        self: Arc<Self>,
        to: StagedTo,
        mut stored: Vec<Stored>,
        mut runs: Vec<StagedRun>,
    ) -> Result<Duration> {
        let started = Instant::now();
        self.sync(&stored).await?;
        let mut rest = stored.as_mut_slice();
        for run in &mut runs {
            let (blocks, after) = rest.split_at_mut(run.blocks.len());
            let mut attempts = 0;
            while let Err(missing) = self.append_run(to, run).await? {
                attempts += 1;
                if attempts == COMMIT_ATTEMPTS_MAX {
                    return Err(Error::unavailable("blocks keep vanishing while they are claimed; try again"));
                }
                self.write_missing(std::slice::from_mut(run), blocks, &missing).await?;
            }
            rest = after;
        }
        Ok(started.elapsed())
    }

    async fn append_run(&self, to: StagedTo, run: &StagedRun) -> Result<std::result::Result<(), Missing>> {
        let (catalogue, run) = (&self.shared.catalogue, run.clone());
        match to {
            StagedTo::Own(content) => catalogue.stage(content, run).await,
            StagedTo::Claimed(claim) => {
                let expires_ms = expiry(self.shared.clock.now_ms());
                catalogue.advance_resumable(claim, Some(run), None, expires_ms).await
            }
        }
    }
}
