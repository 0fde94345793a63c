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
//! An upload that is continued request by request ([`super::resume`]) stages the same way, to a claim that may be taken from it.
//!
//! Until the commit nobody sees anything. A failure at any point, or a client that vanishes, gives the upload up: reservation at once,
//! references and bytes by reclaim.

use super::receive::Received;
use super::target::{COMMIT_ATTEMPTS_MAX, Stored, Target};
use super::upload_runs::{Runs, cut_runs};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ContentId, Error, Result};
use holdfast_meta::{Catalogue, Missing, NewContent, NewUpload, UploadClaim};
use holdfast_seal::Codec;
use holdfast_seal::block::inline_part;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// Blocks of one upload being sealed and written at once: enough for two cores and the disk to be busy together.
const SEALING_BLOCKS_MAX: usize = 6;
/// Content of more blocks than this is staged; up to here the commit's transaction stays short (a millisecond).
const DIRECT_BLOCKS_MAX: usize = 16;
/// Blocks staged together: one sync of 64 MiB costs far less than writing it, one of 1 MiB costs more.
const RUN_BLOCKS: usize = 64;
/// Blocks whose plaintext is kept because the space seemed to have them already; at this many they are staged at once.
const HELD_BLOCKS_MAX: usize = 8;
/// What an upload of unknown length reserves at a time.
const RESERVE_STEP_BYTES: u64 = 64 << 20;
/// Sealed content of at most this is kept in the catalogue: 4 KiB that do not shrink, with id, header and tag.
pub(super) const INLINE_SEALED_BYTES_MAX: usize = 4_096 + 80;
/// Plaintext above this is not even tried: what shrinks to a sixteenth is rare and just as well in a pack.
pub(super) const INLINE_RAW_BYTES_MAX: usize = 64 * 1_024;

/// Content that is stored and durable and waits to be committed.
pub(crate) struct Ready {
    pub(crate) content: NewContent,
    /// Kept until the commit: their packs stay open and their plaintext stays at hand.
    pub(super) stored: Vec<Stored>,
    staged: Option<StagedUpload>,
}

/// An upload registered in the catalogue, given up unless it is kept.
pub(super) struct StagedUpload {
    pub(super) catalogue: Arc<dyn Catalogue>,
    pub(super) to: StagedTo,
    pub(super) reserved: u64,
    /// It was committed, or is not this request's to give up.
    pub(super) kept: bool,
}

/// What runs of blocks are staged to.
#[derive(Clone, Copy)]
pub(super) enum StagedTo {
    /// The upload of one request.
    Own(ContentId),
    /// A resumable one.
    Claimed(UploadClaim),
}

/// When an upload stages what it has.
pub(super) enum StageWhen {
    /// When a run is full.
    Full,
    /// Also when the time has come ([`Stored::stage_every`]), so that little is lost where a connection dies and nobody notices, or the power
    /// goes.
    Often {
        /// When it was staged last.
        since: Instant,
        /// How long that took.
        took: Duration,
    },
    /// Only at its end, when it turned out to be what it was to be; whoever chooses this bounds the upload.
    AtEnd,
    /// Never, and nothing is synced; whoever chooses this bounds the upload as well.
    Never,
}

impl StageWhen {
    /// For an upload that begins now.
    pub(super) fn often() -> Self {
        Self::Often { since: Instant::now(), took: Duration::ZERO }
    }
}

impl StagedTo {
    const fn content(self) -> ContentId {
        match self {
            Self::Own(content) => content,
            Self::Claimed(claim) => claim.content,
        }
    }
}

impl Drop for StagedUpload {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let (catalogue, id) = (self.catalogue.clone(), self.to.content());
        tokio::spawn(async move {
            if let Err(error) = catalogue.abandon_upload(id).await {
                tracing::warn!(upload = %id, ?error, "an upload could not be given up; the next start will");
            }
        });
    }
}

/// An upload on its way.
pub(super) struct Upload {
    target: Arc<Target>,
    /// Being sealed, in order.
    sealing: VecDeque<JoinHandle<Result<Stored>>>,
    /// Sealed, in order, not in the catalogue.
    stored: Vec<Stored>,
    runs: Runs,
    staged: Option<StagedUpload>,
    stage_when: StageWhen,
    /// The run that is being synced and staged; answers how long that took.
    staging: Option<JoinHandle<Result<Duration>>>,
    /// Whether the client was slow with the last block.
    pub(super) slow: bool,
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.sealing.iter().for_each(JoinHandle::abort);
        self.staging.iter().for_each(JoinHandle::abort);
    }
}

impl Upload {
    /// Begins; a body declared long is registered, and its quota reserved, before a byte of it is read.
    pub(super) async fn begin(target: Arc<Target>, declared: Option<u64>) -> Result<Self> {
        let mut upload = Self::of(target.clone(), Runs::new(target.nonce), None, StageWhen::Full);
        upload.target.refuse_without_room(declared.unwrap_or(0)).await?;
        if let Some(bytes) = declared.filter(|bytes| *bytes > (DIRECT_BLOCKS_MAX * BLOCK_BYTES) as u64) {
            upload.register(bytes).await?;
        }
        Ok(upload)
    }

    /// Begins one of which nothing is synced; its blocks are as many as one transaction can take.
    pub(super) async fn unsynced(target: Arc<Target>, bytes: u64) -> Result<Self> {
        target.refuse_without_room(bytes).await?;
        let runs = Runs::new(target.nonce);
        Ok(Self::of(target, runs, None, StageWhen::Never))
    }

    /// One whose manifest stands at `runs`.
    pub(super) fn of(target: Arc<Target>, runs: Runs, staged: Option<StagedUpload>, stage_when: StageWhen) -> Self {
        let (sealing, stored) = (VecDeque::new(), Vec::new());
        Self { target, sealing, stored, runs, staged, stage_when, staging: None, slow: false }
    }

    async fn register(&mut self, reserve_bytes: u64) -> Result<()> {
        let Target { shared, space, nonce, .. } = &*self.target;
        self.target.refuse_without_room(reserve_bytes).await?;
        let block_bytes = u32::try_from(BLOCK_BYTES).unwrap_or(u32::MAX);
        let (instance, now_ms) = (shared.seat.id(), shared.clock.now_ms());
        let new = NewUpload { space: *space, instance, reserve_bytes, block_bytes, nonce: *nonce, now_ms };
        let id = shared.catalogue.begin_upload(new).await?;
        let catalogue = shared.catalogue.clone();
        self.staged = Some(StagedUpload { catalogue, to: StagedTo::Own(id), reserved: reserve_bytes, kept: false });
        Ok(())
    }

    /// Whether nothing was put in yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.stored.is_empty() && self.sealing.is_empty() && self.runs.blocks() == 0
    }

    /// Sees to it that an upload of unknown length has reserved what it received.
    pub(super) async fn reserve_for(&mut self, received: u64, declared: Option<u64>) -> Result<()> {
        if declared.is_some() || received <= (DIRECT_BLOCKS_MAX * BLOCK_BYTES) as u64 {
            return Ok(());
        }
        match &mut self.staged {
            None => self.register(received + RESERVE_STEP_BYTES).await,
            Some(staged) if staged.reserved < received => {
                staged.catalogue.reserve_more(staged.to.content(), RESERVE_STEP_BYTES).await?;
                staged.reserved += RESERVE_STEP_BYTES;
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    /// An empty block. If memory is short, first gives back what this upload holds.
    pub(super) async fn next_block(&mut self, declared: Option<u64>) -> Result<Received> {
        let bytes = declared.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        self.next_buffer(bytes).await
    }

    /// The same for `bytes` bytes.
    pub(super) async fn next_buffer(&mut self, bytes: usize) -> Result<Received> {
        let target = self.target.clone();
        if let Some(block) = target.try_begin_block(bytes, self.slow) {
            return Ok(block);
        }
        self.settle().await?;
        let stages = !matches!(self.stage_when, StageWhen::AtEnd | StageWhen::Never);
        if stages && self.stored.iter().any(|block| block.plain.is_some()) {
            self.stage_stored().await?;
        }
        self.wait_for_staging().await?;
        if let Some(block) = target.try_begin_block(bytes, self.slow) {
            return Ok(block);
        }
        target.begin_block(bytes, self.slow).await
    }

    /// Begins to seal a block; waits for the first of those before it if too many are on their way.
    pub(super) async fn seal(&mut self, block: Received) -> Result<()> {
        self.make_way().await?;
        let (block, expected) = block.into_work(&self.target).await?;
        self.take(self.target.clone().store_block(block, expected));
        Ok(())
    }

    /// Waits until the next block may be on its way, too.
    pub(super) async fn make_way(&mut self) -> Result<()> {
        while self.sealing.len() >= SEALING_BLOCKS_MAX {
            self.settle_one().await?;
        }
        Ok(())
    }

    /// Takes the next block, which is on its way.
    pub(super) fn take(&mut self, storing: impl Future<Output = Result<Stored>> + Send + 'static) {
        self.sealing.push_back(tokio::spawn(storing));
    }

    /// Takes a block that is stored, behind those on their way.
    pub(super) async fn take_stored(&mut self, stored: Stored) -> Result<()> {
        if self.sealing.is_empty() {
            return self.push(stored).await;
        }
        self.make_way().await?;
        self.take(std::future::ready(Ok(stored)));
        Ok(())
    }

    /// Takes the first of those on their way. If it failed, those after it are given up: each would get the place of the one before it.
    async fn settle_one(&mut self) -> Result<()> {
        let Some(sealing) = self.sealing.front_mut() else { return Ok(()) };
        let done = sealing.await.map_err(|error| Error::internal("sealing a block failed").with_source(error));
        self.sealing.pop_front();
        match done.flatten() {
            Ok(stored) => self.push(stored).await,
            Err(error) => {
                self.sealing.drain(..).for_each(|later| later.abort());
                Err(error)
            }
        }
    }

    /// Waits for something of the client's, and stages meanwhile what is due.
    pub(super) async fn meanwhile<T>(&mut self, waiting: impl Future<Output = T>) -> Result<T> {
        let mut waiting = std::pin::pin!(waiting);
        loop {
            tokio::select! {
                biased;
                came = &mut waiting => return Ok(came),
                done = self.step() => done?,
            }
        }
    }

    /// Takes what was sealed, or stages what is due; never ends if there is nothing to do. Safe to cancel.
    async fn step(&mut self) -> Result<()> {
        if !self.sealing.is_empty() {
            return self.settle_one().await;
        }
        if self.stored.is_empty() || !matches!(self.stage_when, StageWhen::Often { .. }) {
            return std::future::pending().await;
        }
        self.wait_for_staging().await?;
        if let (StageWhen::Often { since, took }, Some(last)) = (&self.stage_when, self.stored.last()) {
            sleep_until(*since + last.stage_every(*took)).await;
        }
        self.stage_stored().await
    }

    pub(super) async fn settle(&mut self) -> Result<()> {
        while !self.sealing.is_empty() {
            self.settle_one().await?;
        }
        Ok(())
    }

    /// Blocks so far, those that are staged included.
    pub(super) fn blocks(&self) -> u64 {
        self.runs.blocks() + (self.stored.len() + self.sealing.len()) as u64
    }

    /// Takes the next stored block; hands a run to the catalogue when it is time.
    pub(super) async fn push(&mut self, block: Stored) -> Result<()> {
        self.stored.push(block);
        let held = self.stored.iter().filter(|block| block.plain.is_some()).count();
        let full = self.stored.len() >= RUN_BLOCKS || (held >= HELD_BLOCKS_MAX && self.staged.is_some());
        // Not while those before are being staged: the client would wait for the disk.
        let is_free = self.staging.as_ref().is_none_or(JoinHandle::is_finished);
        if is_free {
            self.wait_for_staging().await?;
        }
        let due = match (&self.stage_when, self.stored.last()) {
            (StageWhen::Often { since, took }, Some(last)) => {
                full || (is_free && since.elapsed() >= last.stage_every(*took))
            }
            (StageWhen::Full, _) => full,
            _ => false,
        };
        if due { self.stage_stored().await } else { Ok(()) }
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
        self.staging = Some(tokio::spawn(self.target.clone().stage(staged.to, stored, runs)));
        if let StageWhen::Often { since, .. } = &mut self.stage_when {
            *since = Instant::now();
        }
        Ok(())
    }

    /// Stages everything there is.
    pub(super) async fn stage_all(&mut self) -> Result<()> {
        self.settle().await?;
        if !self.stored.is_empty() {
            self.stage_stored().await?;
        }
        self.wait_for_staging().await
    }

    /// The same up to the first block that was refused, which is the error.
    pub(super) async fn stage_good(&mut self) -> Result<()> {
        let settled = self.settle().await;
        self.stage_all().await?;
        settled
    }

    async fn wait_for_staging(&mut self) -> Result<()> {
        let Some(staging) = &mut self.staging else { return Ok(()) };
        let done = staging.await.map_err(|error| Error::internal("staging failed").with_source(error));
        self.staging = None;
        let lasted = done??;
        if let StageWhen::Often { took, .. } = &mut self.stage_when {
            *took = lasted;
        }
        Ok(())
    }

    /// Ends a body that fits one buffer: into the catalogue row if it is tiny when sealed, into a pack otherwise.
    pub(super) async fn finish_tiny(mut self, block: Received) -> Result<Ready> {
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
            self.stored.push(Stored::written(id, target.append(record).await?));
            return self.finish(size).await;
        }
        let tag = target.keys.content_tag(&target.nonce, size, 0);
        let content = NewContent::Inline { size, nonce: target.nonce, tag, sealed: sealed.to_vec() };
        Ok(Ready { content, stored: Vec::new(), staged: None })
    }

    /// What was stored, in order, all of it synced.
    pub(super) async fn into_stored(mut self) -> Result<Vec<Stored>> {
        self.settle().await?;
        let stored = std::mem::take(&mut self.stored);
        self.target.sync(&stored).await?;
        Ok(stored)
    }

    /// Makes everything durable, if it is to be, and says what to commit.
    pub(super) async fn finish(mut self, size: u64) -> Result<Ready> {
        self.settle().await?;
        let target = self.target.clone();
        let block_bytes = u32::try_from(BLOCK_BYTES).unwrap_or(u32::MAX);
        let tag = target.keys.content_tag(&target.nonce, size, block_bytes);
        if self.staged.is_some() {
            self.stage_all().await?;
        }
        if let Some(staged) = self.staged.take() {
            let content = NewContent::Staged { content: staged.to.content(), size, tag };
            return Ok(Ready { content, stored: Vec::new(), staged: Some(staged) });
        }
        let stored = std::mem::take(&mut self.stored);
        if !matches!(self.stage_when, StageWhen::Never) {
            target.sync(&stored).await?;
        }
        let runs = cut_runs(&mut self.runs, &target.keys, &stored);
        let content = NewContent::Blocks { size, block_bytes, nonce: target.nonce, tag, runs };
        Ok(Ready { content, stored, staged: None })
    }
}

impl Ready {
    /// A content of one block, made durable.
    pub(super) async fn of_one(target: &Arc<Target>, stored: Stored, size: u64) -> Result<Self> {
        let mut upload = Upload::of(target.clone(), Runs::new(target.nonce), None, StageWhen::Full);
        upload.stored.push(stored);
        upload.finish(size).await
    }

    /// A content of one block, which is written and not synced.
    pub(super) fn written(target: &Target, stored: Stored, size: u64) -> Self {
        let block_bytes = u32::try_from(BLOCK_BYTES).unwrap_or(u32::MAX);
        let tag = target.keys.content_tag(&target.nonce, size, block_bytes);
        let stored = vec![stored];
        let runs = cut_runs(&mut Runs::new(target.nonce), &target.keys, &stored);
        let content = NewContent::Blocks { size, block_bytes, nonce: target.nonce, tag, runs };
        Self { content, stored, staged: None }
    }

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
                        staged.kept = true;
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
