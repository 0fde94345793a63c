//! The write pipeline: from a body to a committed version.
//!
//! Blocks are gathered one after the other and sealed side by side ([`SEALING_BLOCKS_MAX`] of one upload at once): hash, look
//! whether the space has the block already, compress, encrypt, append to a pack. What becomes of them depends on their number:
//!
//! - *tiny* content goes sealed into the catalogue row and touches no pack;
//! - *a few* blocks are synced and then enter the catalogue in the transaction that commits the file;
//! - *many* are staged: every [`RUN_BLOCKS`] blocks a run is synced and enters the manifest of an upload that nothing refers to yet,
//!   while the body goes on; the commit then costs the same for a gigabyte as for a terabyte.
//!
//! A block the space has already is not written. Its plaintext is kept until the catalogue has taken a reference on it, since
//! the block may be freed at that very moment; if it was, the plaintext is sealed after all ([`Missing`]). That may last as long as the
//! client takes to send the rest, so it counts as received, and is set aside on the disk where memory is scarce ([`super::receive`]).
//!
//! A block is received in client-bound memory or on the disk, and moves to working memory when it is whole: nobody who waits for that
//! waits for a client.
//!
//! Until the commit nobody sees anything. A failure at any point, or a client that vanishes, gives the upload up: reservation at once,
//! references and bytes by reclaim.

use super::access::Entered;
use super::budget::{Buffer, share_bytes};
use super::intake::Intake;
use super::packer::PackLease;
use super::receive::Received;
use super::upload_runs::{Runs, cut_runs};
use super::workers::Tools;
use super::{Engine, Shared};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, ContentId, Error, ErrorKind, Result, SpaceId};
use holdfast_meta::{Catalogue, Compression, Missing, NewContent, NewUpload, StagedRun};
use holdfast_seal::block::{RECORD_PREFIX_BYTES, inline_part};
use holdfast_seal::{BlockKeys, Codec};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Blocks of one upload being sealed and written at once: enough for two cores and the disk to be busy together.
const SEALING_BLOCKS_MAX: usize = 6;
/// Content of more blocks than this is staged; up to here the commit's transaction stays short (a millisecond).
const DIRECT_BLOCKS_MAX: usize = 16;
/// Blocks staged together: one sync of 64 MiB costs far less than writing it, one of 1 MiB costs more.
const RUN_BLOCKS: usize = 64;
/// Blocks whose plaintext is kept because the space seemed to have them already; at this many they are staged at once.
const HELD_BLOCKS_MAX: usize = 8;
/// Room that uploads leave on the store's disk, which most often is the catalogue's too: its log may grow by this much before it is
/// folded into the database, and deleting has to work on a full disk.
const SPARE_ROOM_BYTES: u64 = 32 << 20;
/// What an upload of unknown length reserves at a time.
const RESERVE_STEP_BYTES: u64 = 64 << 20;
/// Sealed content of at most this is kept in the catalogue: 4 KiB that do not shrink, with id, header and tag.
const INLINE_SEALED_BYTES_MAX: usize = 4_096 + 80;
/// Plaintext above this is not even tried: what shrinks to a sixteenth is rare and just as well in a pack.
const INLINE_RAW_BYTES_MAX: usize = 64 * 1_024;
/// Attempts to commit while blocks vanish in between; more than two would need two reclaims within one commit.
const COMMIT_ATTEMPTS_MAX: usize = 3;

/// A block that is stored or about to be claimed.
pub(crate) struct Stored {
    pub(crate) id: BlockId,
    /// Where it was written; none if the space had it.
    pub(crate) lease: Option<PackLease>,
    /// Its plaintext, while it is only claimed.
    plain: Option<Received>,
}

impl Stored {
    /// A block the present version of the same file holds; nothing of it is in memory.
    pub(crate) const fn known(id: BlockId) -> Self {
        Self { id, lease: None, plain: None }
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

/// Content that is stored and durable and waits to be committed.
pub(crate) struct Ready {
    pub(crate) content: NewContent,
    /// Kept until the commit: their packs stay open and their plaintext stays at hand.
    stored: Vec<Stored>,
    staged: Option<StagedUpload>,
}

/// An upload registered in the catalogue, given up unless committed.
struct StagedUpload {
    catalogue: Arc<dyn Catalogue>,
    id: ContentId,
    reserved: u64,
    committed: bool,
}

impl Drop for StagedUpload {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        let (catalogue, id) = (self.catalogue.clone(), self.id);
        tokio::spawn(async move {
            if let Err(error) = catalogue.abandon_upload(id).await {
                tracing::warn!(upload = %id, ?error, "an upload could not be given up; the next start will");
            }
        });
    }
}

impl Engine {
    pub(crate) fn target(&self, entered: &Entered, keys: Arc<BlockKeys>) -> Result<Arc<Target>> {
        Ok(Arc::new(Target {
            shared: self.shared.clone(),
            space: entered.space.id,
            keys,
            codec: match entered.space.compression {
                Compression::None => Codec::None,
                Compression::Lz4 => Codec::Lz4,
                Compression::Zstd(level) => Codec::Zstd(level),
            },
            nonce: holdfast_seal::keys::random_bytes()?,
        }))
    }
}

impl Target {
    /// Stores a body, after the blocks `before` and before the blocks `after` (a partial write), each of which is whole but for
    /// the last of all. `after_bytes` is the plaintext length of `after`.
    pub(crate) async fn store(
        self: &Arc<Self>,
        mut intake: Intake,
        declared: Option<u64>,
        before: Vec<BlockId>,
        after: (Vec<BlockId>, u64),
    ) -> Result<Ready> {
        let mut upload = Upload::begin(self.clone(), declared).await?;
        let before_bytes = before.len() as u64 * BLOCK_BYTES as u64;
        for id in before {
            upload.push(Stored::known(id)).await?;
        }
        let block = upload.next_block(declared).await?;
        let (first, mut more, mut slow) = self.fill(&mut intake, block).await?;
        let whole = !more && upload.is_fresh() && after.0.is_empty();
        if whole && first.bytes() <= INLINE_RAW_BYTES_MAX {
            return upload.finish_tiny(first).await;
        }
        let mut block = first;
        loop {
            if block.bytes() > 0 {
                upload.seal(block).await?;
            }
            if !more {
                break;
            }
            upload.slow = slow;
            upload.reserve_for(intake.received(), declared).await?;
            block = upload.next_block(None).await?;
            (block, more, slow) = self.fill(&mut intake, block).await?;
        }
        upload.settle().await?;
        for id in after.0 {
            upload.push(Stored::known(id)).await?;
        }
        upload.finish(before_bytes + intake.received() + after.1).await
    }

    /// Refuses what the disk has no room for, so that room is left for the catalogue.
    pub(crate) async fn refuse_without_room(&self, bytes: u64) -> Result<()> {
        match self.shared.store.room().await? {
            Some(room) if room.free_bytes < bytes.saturating_add(SPARE_ROOM_BYTES) => Err(Error::new(
                ErrorKind::NoSpace,
                "the drive's disk has no room for this; deleting and emptying the trash make some",
            )),
            _ => Ok(()),
        }
    }

    /// Hashes a block, looks it up, and seals and appends it unless the space has it. `expected` is its id where the block was out of our
    /// hands since that was computed.
    async fn store_block(self: Arc<Self>, block: Buffer, expected: Option<BlockId>) -> Result<Stored> {
        let (id, block) = self.identify(block, expected).await?;
        if self.shared.catalogue.block_places(self.space, &[id]).await?.first().is_some_and(Option::is_some) {
            metrics::counter!("holdfast_blocks_deduplicated_total").increment(1);
            return Ok(Stored { id, lease: None, plain: Some(self.keep(block).await?) });
        }
        let record = self.seal_block(id, block).await?;
        let lease = self.append(record).await?;
        Ok(Stored { id, lease: Some(lease), plain: None })
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

    async fn identify(&self, block: Buffer, expected: Option<BlockId>) -> Result<(BlockId, Buffer)> {
        let (keys, bytes) = (self.keys.clone(), block.bytes.len());
        let hash = move |_: &mut Tools| Ok((keys.id(&block.bytes[RECORD_PREFIX_BYTES..]), block));
        let (id, block) = self.shared.workers.run(bytes, hash).await?;
        if expected.is_some_and(|expected| expected != id) {
            return Err(Error::unavailable("the disk gave back other bytes than were set aside on it; try again"));
        }
        Ok((id, block))
    }

    async fn seal_block(&self, id: BlockId, mut block: Buffer) -> Result<Buffer> {
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

    async fn append(&self, record: Buffer) -> Result<PackLease> {
        let (bytes, share_bytes) = (record.bytes.len(), record.share_bytes());
        self.shared.packer.append(record.into_bytes(0..bytes), share_bytes).await
    }

    /// Writes the blocks the catalogue turned out not to have, from their plaintext, and makes them durable.
    async fn write_missing(&self, runs: &mut [StagedRun], stored: &mut [Stored], missing: &Missing) -> Result<()> {
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

    async fn sync(&self, stored: &[Stored]) -> Result<()> {
        let leases: Vec<PackLease> = stored.iter().filter_map(|block| block.lease.clone()).collect();
        self.shared.packer.sync(&leases).await
    }

    /// Syncs blocks and appends them, as runs, to the upload's manifest.
    async fn stage(
        self: Arc<Self>,
        upload: ContentId,
        mut stored: Vec<Stored>,
        mut runs: Vec<StagedRun>,
    ) -> Result<()> {
        self.sync(&stored).await?;
        let mut rest = stored.as_mut_slice();
        for run in &mut runs {
            let (blocks, after) = rest.split_at_mut(run.blocks.len());
            let mut attempts = 0;
            while let Err(missing) = self.shared.catalogue.stage(upload, run.clone()).await? {
                attempts += 1;
                if attempts == COMMIT_ATTEMPTS_MAX {
                    return Err(Error::unavailable("blocks keep vanishing while they are claimed; try again"));
                }
                self.write_missing(std::slice::from_mut(run), blocks, &missing).await?;
            }
            rest = after;
        }
        Ok(())
    }
}

/// An upload on its way.
struct Upload {
    target: Arc<Target>,
    /// Being sealed, in order.
    sealing: VecDeque<JoinHandle<Result<Stored>>>,
    /// Sealed, in order, not in the catalogue.
    stored: Vec<Stored>,
    runs: Runs,
    staged: Option<StagedUpload>,
    /// The run that is being synced and staged.
    staging: Option<JoinHandle<Result<()>>>,
    /// Whether the client was slow with the last block.
    slow: bool,
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.sealing.iter().for_each(JoinHandle::abort);
        self.staging.iter().for_each(JoinHandle::abort);
    }
}

impl Upload {
    /// Begins; a body declared long is registered, and its quota reserved, before a byte of it is read.
    async fn begin(target: Arc<Target>, declared: Option<u64>) -> Result<Self> {
        let mut upload = Self {
            runs: Runs::new(target.nonce),
            target,
            sealing: VecDeque::new(),
            stored: Vec::new(),
            staged: None,
            staging: None,
            slow: false,
        };
        upload.target.refuse_without_room(declared.unwrap_or(0)).await?;
        if let Some(bytes) = declared.filter(|bytes| *bytes > (DIRECT_BLOCKS_MAX * BLOCK_BYTES) as u64) {
            upload.register(bytes).await?;
        }
        Ok(upload)
    }

    async fn register(&mut self, reserve_bytes: u64) -> Result<()> {
        let Target { shared, space, nonce, .. } = &*self.target;
        self.target.refuse_without_room(reserve_bytes).await?;
        let block_bytes = u32::try_from(BLOCK_BYTES).unwrap_or(u32::MAX);
        let (instance, now_ms) = (shared.seat.id(), shared.clock.now_ms());
        let new = NewUpload { space: *space, instance, reserve_bytes, block_bytes, nonce: *nonce, now_ms };
        let id = shared.catalogue.begin_upload(new).await?;
        let catalogue = shared.catalogue.clone();
        self.staged = Some(StagedUpload { catalogue, id, reserved: reserve_bytes, committed: false });
        Ok(())
    }

    /// Whether nothing was put in yet.
    fn is_fresh(&self) -> bool {
        self.stored.is_empty() && self.sealing.is_empty() && self.runs.blocks() == 0
    }

    /// Sees to it that an upload of unknown length has reserved what it received.
    async fn reserve_for(&mut self, received: u64, declared: Option<u64>) -> Result<()> {
        if declared.is_some() || received <= (DIRECT_BLOCKS_MAX * BLOCK_BYTES) as u64 {
            return Ok(());
        }
        match &mut self.staged {
            None => self.register(received + RESERVE_STEP_BYTES).await,
            Some(staged) if staged.reserved < received => {
                staged.catalogue.reserve_more(staged.id, RESERVE_STEP_BYTES).await?;
                staged.reserved += RESERVE_STEP_BYTES;
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    /// An empty block. If memory is short, first gives back what this upload holds.
    async fn next_block(&mut self, declared: Option<u64>) -> Result<Received> {
        let bytes = declared.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        let target = self.target.clone();
        if let Some(block) = target.try_begin_block(bytes, self.slow) {
            return Ok(block);
        }
        self.settle().await?;
        if self.stored.iter().any(|block| block.plain.is_some()) {
            self.stage_stored().await?;
        }
        self.wait_for_staging().await?;
        if let Some(block) = target.try_begin_block(bytes, self.slow) {
            return Ok(block);
        }
        target.begin_block(bytes, self.slow).await
    }

    /// Begins to seal a block; waits for the first of those before it if too many are on their way.
    async fn seal(&mut self, block: Received) -> Result<()> {
        while self.sealing.len() >= SEALING_BLOCKS_MAX {
            self.settle_one().await?;
        }
        let (block, expected) = block.into_work(&self.target).await?;
        self.sealing.push_back(tokio::spawn(self.target.clone().store_block(block, expected)));
        Ok(())
    }

    async fn settle_one(&mut self) -> Result<()> {
        let Some(sealing) = self.sealing.front_mut() else { return Ok(()) };
        let done = sealing.await.map_err(|error| Error::internal("sealing a block failed").with_source(error));
        self.sealing.pop_front();
        self.push(done??).await
    }

    async fn settle(&mut self) -> Result<()> {
        while !self.sealing.is_empty() {
            self.settle_one().await?;
        }
        Ok(())
    }

    /// Takes the next stored block; hands a run to the catalogue when it is time.
    async fn push(&mut self, block: Stored) -> Result<()> {
        self.stored.push(block);
        let held = self.stored.iter().filter(|block| block.plain.is_some()).count();
        if self.stored.len() < RUN_BLOCKS && (held < HELD_BLOCKS_MAX || self.staged.is_none()) {
            return Ok(());
        }
        self.stage_stored().await
    }

    async fn stage_stored(&mut self) -> Result<()> {
        if self.staged.is_none() {
            // It was to be committed without being registered; it reserves what it holds.
            self.register(self.stored.len() as u64 * BLOCK_BYTES as u64).await?;
        }
        self.wait_for_staging().await?;
        let Some(staged) = &self.staged else { return Err(Error::internal("nothing to stage to")) };
        let stored = std::mem::take(&mut self.stored);
        let runs = cut_runs(&mut self.runs, &self.target.keys, &stored);
        self.staging = Some(tokio::spawn(self.target.clone().stage(staged.id, stored, runs)));
        Ok(())
    }

    async fn wait_for_staging(&mut self) -> Result<()> {
        let Some(staging) = &mut self.staging else { return Ok(()) };
        let done = staging.await.map_err(|error| Error::internal("staging failed").with_source(error));
        self.staging = None;
        done?
    }

    /// Ends a body that fits one buffer: into the catalogue row if it is tiny when sealed, into a pack otherwise.
    async fn finish_tiny(mut self, block: Received) -> Result<Ready> {
        let size = block.bytes() as u64;
        if size == 0 {
            return Ok(Ready { content: NewContent::Empty, stored: Vec::new(), staged: None });
        }
        let target = self.target.clone();
        if block.bytes() > INLINE_SEALED_BYTES_MAX && target.codec == Codec::None {
            // It cannot become tiny, so it goes the way of any block.
            self.seal(block).await?;
            return self.finish(size).await;
        }
        let (block, expected) = block.into_work(&target).await?;
        let (id, block) = target.identify(block, expected).await?;
        let record = target.seal_block(id, block).await?;
        let sealed = inline_part(&record.bytes);
        if sealed.len() > INLINE_SEALED_BYTES_MAX {
            let lease = target.append(record).await?;
            self.stored.push(Stored { id, lease: Some(lease), plain: None });
            return self.finish(size).await;
        }
        let tag = target.keys.content_tag(&target.nonce, size, 0);
        let content = NewContent::Inline { size, nonce: target.nonce, tag, sealed: sealed.to_vec() };
        Ok(Ready { content, stored: Vec::new(), staged: None })
    }

    /// Makes everything durable and says what to commit.
    async fn finish(mut self, size: u64) -> Result<Ready> {
        self.settle().await?;
        let target = self.target.clone();
        let block_bytes = u32::try_from(BLOCK_BYTES).unwrap_or(u32::MAX);
        let tag = target.keys.content_tag(&target.nonce, size, block_bytes);
        if self.staged.is_some() {
            if !self.stored.is_empty() {
                self.stage_stored().await?;
            }
            self.wait_for_staging().await?;
        }
        if let Some(staged) = self.staged.take() {
            let content = NewContent::Staged { content: staged.id, size, tag };
            return Ok(Ready { content, stored: Vec::new(), staged: Some(staged) });
        }
        let stored = std::mem::take(&mut self.stored);
        target.sync(&stored).await?;
        let runs = cut_runs(&mut self.runs, &target.keys, &stored);
        let content = NewContent::Blocks { size, block_bytes, nonce: target.nonce, tag, runs };
        Ok(Ready { content, stored, staged: None })
    }
}

impl Ready {
    /// Commits by `commit`, writing blocks that vanished meanwhile from their plaintext.
    pub(crate) async fn commit<T, F, R>(mut self, target: &Target, commit: F) -> Result<T>
    where
        F: Fn(NewContent) -> R,
        R: Future<Output = Result<std::result::Result<T, Missing>>>,
    {
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            match commit(self.content.clone()).await? {
                Ok(done) => {
                    if let Some(staged) = &mut self.staged {
                        staged.committed = true;
                    }
                    return Ok(done);
                }
                Err(missing) => match &mut self.content {
                    NewContent::Blocks { runs, .. } => target.write_missing(runs, &mut self.stored, &missing).await?,
                    _ => return Err(Error::internal("the catalogue misses blocks of a content without any")),
                },
            }
        }
        Err(Error::unavailable("blocks keep vanishing while they are claimed; try again"))
    }
}
