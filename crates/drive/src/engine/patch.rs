//! Replacing a range of a file (a partial PUT): a new version that keeps every block the range does not touch.
//!
//! The blocks at the range's edges are put together anew from old and new bytes; those before and after are
//! claimed by id, without being read or written.

use super::read::Reading;
use crate::{ContentStream, Patch};
use futures_util::StreamExt;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, ByteRange, Error, ErrorKind, Result};
use std::sync::Arc;

/// A body that, between kept blocks, makes the new version.
pub(crate) struct Patched {
    pub(crate) before: Vec<BlockId>,
    pub(crate) body: ContentStream,
    pub(crate) body_bytes: u64,
    pub(crate) after: Vec<BlockId>,
    pub(crate) after_bytes: u64,
}

/// Lays `length` bytes of `body` over the file from `patch.start` on. `old` is none for an empty or absent file.
pub(crate) async fn lay_over(
    old: Option<Arc<Reading>>,
    patch: Patch,
    length: u64,
    body: ContentStream,
) -> Result<Patched> {
    let size = old.as_ref().map_or(0, |old| old.size());
    let end = patch.start.checked_add(length).ok_or_else(|| Error::invalid("the range ends beyond any file"))?;
    let new_size = end.max(size);
    if patch.start > size {
        return Err(Error::new(
            ErrorKind::RangeNotSatisfiable,
            format!("the file has {size} bytes; a part cannot be written from byte {} on", patch.start),
        ));
    }
    if patch.total.is_some_and(|total| total != new_size) {
        return Err(Error::new(
            ErrorKind::PreconditionFailed,
            format!("the file would have {new_size} bytes afterwards, which is not the total that was stated"),
        ));
    }
    let Some(old) = old else {
        return Ok(Patched { before: Vec::new(), body, body_bytes: length, after: Vec::new(), after_bytes: 0 });
    };
    let block = BLOCK_BYTES as u64;
    let cut = old.has_blocks_of(BLOCK_BYTES);
    let from = if cut { patch.start / block * block } else { 0 };
    // Where the old bytes after the range stop being copied and begin to be kept.
    let tail_end = if cut && end < size { end.next_multiple_of(block).min(size) } else { size };
    let before = old.block_ids(0..from / block).await?;
    let lead = old.clone().stream(ByteRange { start: from, end: patch.start }).await?;
    let trail = ByteRange { start: end.min(tail_end), end: tail_end };
    let rest = old.clone().stream(trail).await?;
    let (after, after_bytes) = if tail_end < size {
        (old.block_ids(tail_end / block..size.div_ceil(block)).await?, size - tail_end)
    } else {
        (Vec::new(), 0)
    };
    let body_bytes = (patch.start - from) + length + trail.len();
    Ok(Patched { before, body: lead.chain(body).chain(rest).boxed(), body_bytes, after, after_bytes })
}
