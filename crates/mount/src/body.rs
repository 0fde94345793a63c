//! What a save of a file sends: what was written, and of the rest what cannot be named.

use crate::core::Core;
use crate::meter::waits_for;
use crate::overlay::{Overlay, Part};
use crate::under_way::Wait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use holdfast_drive::{LeftOut, OpenContent, SaveBody};
use std::sync::Arc;

/// Bytes of what is saved that are put together at a time.
pub(crate) const PIECE_BYTES: u64 = BLOCK_BYTES as u64;

/// A range of the old content; none of it is there if it went while it was open.
pub(crate) async fn read_base(base: Option<&Arc<dyn OpenContent>>, range: ByteRange) -> Result<Vec<u8>> {
    let base = base.ok_or_else(no_longer_kept)?;
    waits_for(Wait::Read, base.read(range)).await.map_err(of_base)
}

/// What became of the old content: the file is there, so that it is not found means that somebody else changed the file and no version of it was kept.
pub(crate) fn of_base(error: Error) -> Error {
    if error.kind() == ErrorKind::NotFound { no_longer_kept().with_source(error) } else { error }
}

/// That it is so, of which nothing can be put together any more.
const NO_LONGER_KEPT: &str = "the file was changed elsewhere, and what it was before is no longer kept";

fn no_longer_kept() -> Error {
    Error::new(ErrorKind::PreconditionFailed, NO_LONGER_KEPT)
}

/// Whether something failed because the old content is gone.
pub(crate) fn is_no_longer_kept(error: &Error) -> bool {
    error.message() == NO_LONGER_KEPT
}

/// Adds a part to what was read.
pub(crate) async fn append(out: &mut Vec<u8>, base: Option<&Arc<dyn OpenContent>>, part: Part) -> Result<()> {
    match part {
        Part::Bytes(bytes) => out.extend_from_slice(&bytes),
        Part::Zeros(count) => out.resize(out.len() + usize::try_from(count).unwrap_or(0), 0),
        Part::Base(range) => out.extend_from_slice(&read_base(base, range).await?),
        Part::Ahead(block, range) => out.extend_from_slice(&waits_for(Wait::Read, block.read(range)).await?),
    }
    Ok(())
}

/// What a save of a range of the file sends to be the file's next content.
pub(crate) fn next_body(
    core: &Core,
    overlay: &Overlay,
    base: Option<Arc<dyn OpenContent>>,
    range: ByteRange,
) -> SaveBody {
    let of_blocks = base.as_ref().is_some_and(|base| base.grain() == Some(PIECE_BYTES));
    let left_out = if core.tree.leaves_out() { overlay.left_out(range, of_blocks) } else { LeftOut::default() };
    save_body(overlay.clone(), base, (range, left_out))
}

/// A range of the file as it is now, which begins where a block does, without what is left out.
pub(crate) fn save_body(
    overlay: Overlay,
    base: Option<Arc<dyn OpenContent>>,
    (range, left_out): (ByteRange, LeftOut),
) -> SaveBody {
    let ahead = overlay.sealed_in(range);
    let mut starts = Vec::new();
    let mut at = range.start;
    // Nothing of the old content lies behind where it ends.
    for left in left_out.stay.iter().chain(&left_out.zeros).chain([&(u64::MAX..u64::MAX)]) {
        let end = range.end.min(left.start.saturating_mul(PIECE_BYTES));
        starts.extend((at..end).step_by(BLOCK_BYTES).filter(|start| !ahead.contains_key(&(start / PIECE_BYTES))));
        at = left.end.saturating_mul(PIECE_BYTES);
    }
    let pieces = stream::iter(starts).map(move |start| {
        let parts = overlay.parts(ByteRange { start, end: (start + PIECE_BYTES).min(range.end) })?;
        Ok::<_, Error>(stream::iter(parts).map(Ok))
    });
    // Pages go as they are: whoever takes them copies them to where they are sealed.
    let stream = pieces.try_flatten().and_then(move |part| {
        let base = base.clone();
        async move {
            if let Part::Bytes(bytes) = part {
                return Ok(bytes);
            }
            let mut out = Vec::new();
            append(&mut out, base.as_ref(), part).await?;
            Ok(Bytes::from(out))
        }
    });
    SaveBody { stream: stream.boxed(), ahead, left_out }
}
