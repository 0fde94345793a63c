//! A part of an upload in blocks that the client sealed: nobody here sees what is in them, but for the moment in which it is tested that they are what they
//! are said to be.
//!
//! ```text
//! part  = entry*
//! entry = length(u32, the first byte the highest) ‖ block id(32)      a block that the space has
//!       | length(u32)                             ‖ record            one that it has not; see `seal::block`
//! ```
//! Each block but the upload's last has the full size, and each becomes durable a moment later, whether the part goes on or not. What is
//! less than a block when a part breaks off is thrown away, and sent again.
//!
//! A record is opened, and its plaintext hashed: a member could otherwise put something else under a block's id, which other members' files would
//! come to share. A block that the space is said to have may be freed at that very moment; then the part ends in `Conflict`, and the client asks again what
//! is there.

use super::budget::Buffer;
use super::intake::Intake;
use super::resume_part::Claimed;
use super::target::{Stored, Target};
use super::upload::{StageWhen, Upload};
use bytes::{Bytes, BytesMut};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, Error, Result};
use holdfast_seal::block::{RECORD_OVERHEAD_BYTES, RECORD_PREFIX_BYTES};
use std::sync::Arc;

/// Bytes of an entry's length.
pub const LENGTH_BYTES: usize = 4;
/// Longest entry, without its length.
pub const ENTRY_BYTES_MAX: usize = BLOCK_BYTES + RECORD_OVERHEAD_BYTES;

impl Claimed {
    /// Receives sealed blocks; see [`Self::receive`](super::resume_part).
    pub(super) async fn receive_sealed(self, body: crate::ContentStream) -> Result<()> {
        if self.claim.tail_bytes > 0 {
            return Err(Error::conflict("this upload was begun with plain content, and goes on with that"));
        }
        if self.stored == self.length {
            // All its blocks are here, and whoever continues it wants the file.
            return self.finish_if(true).await;
        }
        let blocks = (self.length - self.stored).div_ceil(BLOCK_BYTES as u64);
        let mut intake = Intake::part(body, blocks * (LENGTH_BYTES + ENTRY_BYTES_MAX) as u64, None);
        let mut upload = self.begin(StageWhen::often()).await?;
        let ended = take_entries(&mut upload, &self.target, &mut intake, sizes(self.length - self.stored)).await;
        // What came before something bad is good.
        let staged = upload.stage_good().await;
        self.finish_if(ended.and_then(|whole| staged.map(|()| whole))?).await
    }
}

/// Plain bytes of the blocks that so many bytes make.
pub(super) fn sizes(bytes: u64) -> impl Iterator<Item = u64> {
    let block_bytes = BLOCK_BYTES as u64;
    (0..bytes.div_ceil(block_bytes)).map(move |index| (bytes - index * block_bytes).min(block_bytes))
}

/// Takes entries of blocks of so many plain bytes each, up to the end of the part; answers whether all were there.
pub(super) async fn take_entries(
    upload: &mut Upload,
    target: &Arc<Target>,
    intake: &mut Intake,
    blocks: impl Iterator<Item = u64>,
) -> Result<bool> {
    for plain_bytes in blocks {
        let Some(length) = upload.meanwhile(entry_length(intake)).await?? else {
            return intake.take_broken().map_or(Ok(false), Err);
        };
        upload.make_way().await?;
        let buffer = upload.next_buffer(length).await?;
        let (entry, _, slow) = upload.meanwhile(target.fill(intake, buffer, length)).await??;
        if entry.bytes() < length {
            return Err(intake.take_broken().unwrap_or_else(cut));
        }
        upload.slow = slow;
        let (entry, expected) = entry.into_work(target).await?;
        upload.take(target.clone().store_sealed(entry, expected, plain_bytes));
    }
    match intake.piece(1).await? {
        Some(_) => Err(Error::invalid("there is more than the upload is to have")),
        None => intake.take_broken().map_or(Ok(true), Err),
    }
}

pub(super) fn cut() -> Error {
    Error::invalid("the part ends within a block")
}

/// The length of the next entry; none where the part ends.
async fn entry_length(intake: &mut Intake) -> Result<Option<usize>> {
    let mut length = BytesMut::with_capacity(LENGTH_BYTES);
    while length.len() < LENGTH_BYTES {
        match intake.piece(LENGTH_BYTES - length.len()).await? {
            Some(piece) => length.extend_from_slice(&piece),
            None if length.is_empty() => return Ok(None),
            None => return Err(intake.take_broken().unwrap_or_else(cut)),
        }
    }
    let length = length.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
    if length != BlockId::BYTES && !(RECORD_OVERHEAD_BYTES..=ENTRY_BYTES_MAX).contains(&length) {
        return Err(Error::invalid(format!("an entry of {length} bytes is neither a block's id nor a record")));
    }
    Ok(Some(length))
}

impl Target {
    /// Takes what a client sent in place of a block of `plain_bytes`; `expected` as in [`Self::identify`].
    pub(super) async fn store_sealed(
        self: Arc<Self>,
        entry: Buffer,
        expected: Option<BlockId>,
        plain_bytes: u64,
    ) -> Result<Stored> {
        let bytes = entry.bytes.len() - RECORD_PREFIX_BYTES;
        if bytes == BlockId::BYTES {
            let id = BlockId::from_slice(&entry.bytes[RECORD_PREFIX_BYTES..])?;
            return self.store_held(id, plain_bytes).await;
        }
        let entry = match expected {
            // It was on the disk meanwhile.
            Some(_) => self.identify(entry, expected).await?.1,
            None => entry,
        };
        let keys = self.keys.clone();
        let look = move |tools: &mut super::workers::Tools| {
            let mut record = std::mem::take(&mut tools.copy);
            record.clear();
            record.extend_from_slice(&entry.bytes[RECORD_PREFIX_BYTES..]);
            let head = holdfast_seal::block::read_record_head(&record);
            let head = head.ok_or_else(|| Error::invalid("what was sent for a block is no sealed block"))?;
            let told = |error: Error| Error::invalid(format!("a block was refused: {}", error.message()));
            let (plain, start, other) =
                tools.opener.open(&keys, head.id, record, std::mem::take(&mut tools.spare)).map_err(told)?;
            let is_right = (plain.len() - start) as u64 == plain_bytes && keys.id(&plain[start..]) == head.id;
            (tools.copy, tools.spare) = (plain, other);
            if is_right { Ok((head.id, entry)) } else { Err(Error::invalid("a block is not what it is said to be")) }
        };
        let (id, entry) = self.shared.workers.run(bytes, look).await?;
        let share_bytes = entry.share_bytes();
        let record: Bytes = entry.into_bytes(RECORD_PREFIX_BYTES..RECORD_PREFIX_BYTES + bytes);
        Ok(Stored::written(id, self.shared.packer.append(record, share_bytes).await?))
    }

    /// A block that the client says the space has.
    async fn store_held(&self, id: BlockId, plain_bytes: u64) -> Result<Stored> {
        let place = self.shared.catalogue.block_places(self.space, &[id]).await?.into_iter().next().flatten();
        match place {
            Some(place) if u64::from(place.place.raw_bytes) == plain_bytes => {
                metrics::counter!("holdfast_blocks_deduplicated_total").increment(1);
                Ok(Stored::known(id))
            }
            Some(_) => Err(Error::invalid("a block has not the size that its place in the file needs")),
            None => Err(Error::conflict("the space has not, or no longer, a block that was not sent")),
        }
    }
}
