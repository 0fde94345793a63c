//! One part of an upload: from a body to blocks that are staged, and a tail.
//!
//! The pipeline is that of every upload ([`super::upload`]). The first block begins with the tail of the part before. While the body
//! goes on, full blocks are staged in runs, and every now and then ([`StageWhen::Often`]). At its end, or where it breaks off, the rest is staged too and what is less than a block is sealed as the tail. A part
//! with a digest is staged only when that was compared.
//!
//! Reading the tail takes working memory, which is asked for when the block it goes to has its own; see [`super::budget`].

use super::budget::BUFFER_BYTES;
use super::intake::Intake;
use super::receive::Received;
use super::resume::{expiry, remembered};
use super::target::{Stored, Target};
use super::upload::{INLINE_RAW_BYTES_MAX, INLINE_SEALED_BYTES_MAX, StageWhen, StagedTo, StagedUpload, Upload};
use super::upload_runs::Runs;
use super::workers::Tools;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{AccountId, BlockId, Error, ErrorKind, Result};
use holdfast_meta::{Changed, Expect, Guard, MANIFEST_CHUNK_BLOCKS, NameTaken, NewContent, Tail, Through, UploadClaim};
use holdfast_seal::block::{FRAME_BYTES, inline_part};
use std::sync::Arc;

/// Uploads given up where one is found to be over; the job sees to the rest.
const EXPIRED_AT_ONCE: usize = 100;
/// Buffers of a block that opening a tail takes: the sealed one, the one it is opened in, the plaintext.
const TAIL_BUFFERS: usize = 3;

/// An upload that this request continues, unless another takes the claim.
pub(super) struct Claimed {
    pub(super) target: Arc<Target>,
    pub(super) claim: UploadClaim,
    pub(super) account: AccountId,
    /// What it comes in through.
    pub(super) through: Vec<Through>,
    /// Bytes of the whole upload.
    pub(super) length: u64,
    /// Bytes of it that are stored.
    pub(super) stored: u64,
}

/// A sealed block that is not in a pack.
struct Sealed {
    id: BlockId,
    plain_bytes: u32,
    record: Bytes,
    /// Of the memory for uploads, while `record` is there.
    share_bytes: usize,
    /// What the catalogue keeps of it.
    part: Bytes,
}

impl Claimed {
    /// Receives a part. What it answers is durable, and an error leaves at least what was durable before.
    pub(super) async fn receive(self, mut intake: Intake) -> Result<()> {
        if self.stored == self.length {
            return self.receive_last_byte(intake).await;
        }
        let when = if intake.is_checked() { StageWhen::AtEnd } else { StageWhen::often() };
        let mut upload = self.begin(when).await?;
        let left = |intake: &Intake| self.length - self.stored - intake.received();
        let block = upload.next_block(Some(u64::from(self.claim.tail_bytes) + left(&intake))).await?;
        let mut block = self.take_up_tail(block).await?;
        let rest = loop {
            let (filled, more, slow) = upload.meanwhile(self.target.fill(&mut intake, block, BLOCK_BYTES)).await??;
            if filled.bytes() < BLOCK_BYTES {
                break Some(filled).filter(|rest| rest.bytes() > 0);
            }
            upload.seal(filled).await?;
            if !more {
                break None;
            }
            upload.slow = slow;
            block = upload.next_block(Some(left(&intake))).await?;
        };
        let broken = intake.take_broken();
        if intake.received() > 0 {
            self.end(upload, rest, left(&intake) == 0, broken.is_none()).await?;
        }
        broken.map_or(Ok(()), Err)
    }

    /// The one byte that is sent again to make the file of an upload that has all.
    pub(super) async fn receive_last_byte(self, mut intake: Intake) -> Result<()> {
        while intake.piece(1).await?.is_some() {}
        match intake.take_broken() {
            Some(error) => Err(error),
            None if intake.received() == 0 => Ok(()),
            None => self.finish_stored(None).await.map(drop),
        }
    }

    /// The pipeline, standing where the upload stands.
    pub(super) async fn begin(&self, when: StageWhen) -> Result<Upload> {
        let (shared, claim) = (&self.target.shared, self.claim);
        let (chunk, in_chunk) =
            (claim.blocks / MANIFEST_CHUNK_BLOCKS as u64, claim.blocks % MANIFEST_CHUNK_BLOCKS as u64);
        let mut ids = Vec::new();
        if in_chunk > 0 {
            let found = shared.catalogue.manifest_chunk(claim.content, chunk).await?.ok_or_else(overtaken)?;
            if found.blocks.len() as u64 != in_chunk {
                return Err(overtaken());
            }
            // What is continued gets a new tag, so it must have had one.
            if self.target.keys.chunk_tag(&claim.nonce, chunk, found.blocks.iter().copied()) != found.tag {
                return Err(Error::damaged("the manifest of an upload was changed"));
            }
            ids = found.blocks;
        }
        let runs = Runs::after(claim.nonce, claim.blocks, ids);
        let catalogue = shared.catalogue.clone();
        let to = StagedTo::Claimed(claim);
        let staged = StagedUpload { catalogue, to, reserved: self.length, kept: true };
        Ok(Upload::of(self.target.clone(), runs, Some(staged), when))
    }

    /// Puts the plaintext of the tail into a block that is empty.
    async fn take_up_tail(&self, block: Received) -> Result<Received> {
        if self.claim.tail_bytes == 0 {
            return Ok(block);
        }
        let _working = self.target.shared.uploads.working.take(TAIL_BUFFERS * BUFFER_BYTES).await;
        let tail = self.tail().await?;
        let (keys, sealed) = (self.target.keys.clone(), tail.sealed);
        let open = move |tools: &mut Tools| tools.opener.open_inline(&keys, &sealed);
        let plain = self.target.shared.workers.run(tail.bytes as usize, open).await?;
        if plain.len() != tail.bytes as usize {
            return Err(Error::damaged("the tail of an upload has not the length the catalogue states"));
        }
        block.append(plain.into()).await
    }

    /// The tail, which must be that of this upload at this place.
    async fn tail(&self) -> Result<Tail> {
        let claim = self.claim;
        let tail = self.target.shared.catalogue.resumable_tail(claim.content).await?.ok_or_else(overtaken)?;
        if tail.bytes != claim.tail_bytes {
            return Err(overtaken());
        }
        let id = tail.sealed.get(..BlockId::BYTES).map(BlockId::from_slice).transpose()?;
        let tag = id.map(|id| self.target.keys.tail_tag(&claim.nonce, claim.blocks, id));
        if tag != Some(tail.tag) {
            return Err(Error::damaged("the tail of an upload was changed"));
        }
        Ok(tail)
    }

    /// Makes durable what arrived, and the file if that was all and the client has `ended_well`.
    async fn end(&self, mut upload: Upload, rest: Option<Received>, whole: bool, ended_well: bool) -> Result<()> {
        let small = |rest: &Received| upload.blocks() == 0 && rest.bytes() <= INLINE_RAW_BYTES_MAX;
        let tail = match rest {
            Some(rest) if whole && !small(&rest) => {
                upload.seal(rest).await?;
                None
            }
            rest => rest,
        };
        // Before the tail is sealed: whoever has working memory must not wait for more of it.
        upload.stage_all().await?;
        let Some(tail) = tail else { return self.finish_if(whole && ended_well).await };
        let (blocks, sealed) = (upload.blocks(), self.seal(tail).await?);
        if whole && sealed.part.len() > INLINE_SEALED_BYTES_MAX {
            return self.end_with(upload, sealed, ended_well).await;
        }
        let tag = self.target.keys.tail_tag(&self.claim.nonce, blocks, sealed.id);
        let tail = Tail { bytes: sealed.plain_bytes, tag, sealed: sealed.part };
        if !(whole && ended_well) {
            return self.keep(tail).await;
        }
        match self.finish(self.inline(&tail), None).await {
            Ok(_) => Ok(()),
            Err(refused) => {
                self.keep(tail).await?;
                Err(refused)
            }
        }
    }

    /// Ends with a block that might have been tiny and is not.
    async fn end_with(&self, mut upload: Upload, sealed: Sealed, ended_well: bool) -> Result<()> {
        let lease = self.target.shared.packer.append(sealed.record, sealed.share_bytes).await?;
        upload.push(Stored::written(sealed.id, lease)).await?;
        upload.stage_all().await?;
        self.finish_if(ended_well).await
    }

    /// Keeps what is less than a block.
    async fn keep(&self, tail: Tail) -> Result<()> {
        let shared = &self.target.shared;
        let expires_ms = expiry(shared.clock.now_ms());
        let kept = shared.catalogue.advance_resumable(self.claim, None, Some(tail), expires_ms).await?;
        kept.map_err(|_| Error::internal("the catalogue misses blocks of a tail"))
    }

    pub(super) async fn finish_if(&self, now: bool) -> Result<()> {
        if now {
            self.finish(self.staged(), None).await?;
        }
        Ok(())
    }

    /// Makes the file of an upload that has all bytes.
    pub(super) async fn finish_stored(&self, name_taken: Option<NameTaken>) -> Result<Changed> {
        let content = match self.length {
            0 => NewContent::Empty,
            _ if self.claim.tail_bytes > 0 => self.inline(&self.tail().await?),
            _ => self.staged(),
        };
        self.finish(content, name_taken).await
    }

    fn staged(&self) -> NewContent {
        let (size, block_bytes) = (self.length, u32::try_from(BLOCK_BYTES).unwrap_or(u32::MAX));
        let tag = self.target.keys.content_tag(&self.claim.nonce, size, block_bytes);
        NewContent::Staged { content: self.claim.content, size, tag }
    }

    /// Content that is so small that its tail is what the catalogue keeps of it.
    fn inline(&self, tail: &Tail) -> NewContent {
        let (size, nonce) = (self.length, self.claim.nonce);
        let tag = self.target.keys.content_tag(&nonce, size, 0);
        NewContent::Inline { size, nonce, tag, sealed: tail.sealed.to_vec() }
    }

    async fn finish(&self, content: NewContent, name_taken: Option<NameTaken>) -> Result<Changed> {
        let shared = &self.target.shared;
        let now_ms = shared.clock.now_ms();
        let guard = Guard {
            account: self.account,
            expect: Expect::Any,
            tokens: Vec::new(),
            through: self.through.clone(),
            now_ms,
            mount: 0,
        };
        let ended =
            shared.catalogue.finish_resumable(self.claim, content, name_taken, remembered(now_ms), &guard).await;
        if ended.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            // If what it came in through is over, nobody can continue it: what it holds is given back now.
            shared.catalogue.expire_resumables(now_ms, EXPIRED_AT_ONCE).await?;
        }
        ended
    }

    async fn seal(&self, block: Received) -> Result<Sealed> {
        let target = &self.target;
        let plain_bytes = u32::try_from(block.bytes()).unwrap_or(u32::MAX);
        let (block, expected) = block.into_work(target).await?;
        let (id, block) = target.identify(block, expected).await?;
        let sealed = target.seal_block(id, block).await?;
        let (record_bytes, part_bytes) = (sealed.bytes.len(), inline_part(&sealed.bytes).len());
        let share_bytes = sealed.share_bytes();
        let record = sealed.into_bytes(0..record_bytes);
        let part = record.slice(FRAME_BYTES..FRAME_BYTES + part_bytes);
        Ok(Sealed { id, plain_bytes, record, share_bytes, part })
    }
}

fn overtaken() -> Error {
    Error::conflict("another request continues this upload")
}
