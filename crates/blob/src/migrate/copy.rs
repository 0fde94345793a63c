//! Copying one pack.

use crate::{BlobStore, PackEntry};
use bytes::Bytes;
use holdfast_base::{Error, ErrorKind, PackName, Result};

/// Packs up to this size are put as a whole, which is atomic in every store: half as much again as the drive's own packs.
/// Larger ones are appended in pieces.
pub const PUT_BYTES_MAX: u64 = 96 << 20;

/// Bytes of a large pack, and of a pack read back, in memory at once.
const PIECE_BYTES: usize = 8 << 20;

/// What became of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copied {
    /// Copied, this many bytes.
    Now(u64),
    /// It was there.
    Before,
    /// It was removed from the old store meanwhile.
    Removed,
}

/// Copies a pack unless it is there.
pub(super) async fn copy(
    from: &dyn BlobStore,
    to: &dyn BlobStore,
    pack: PackEntry,
    verify_present: bool,
) -> Result<Copied> {
    let name = pack.name;
    let copied = copy_if_missing(from, to, name, verify_present).await;
    if from.len(name).await?.is_none() {
        // Whatever was made of it is nobody's.
        to.delete(name).await?;
        return Ok(Copied::Removed);
    }
    copied.map_err(|error| error.context(format_args!("copying pack {name}")))
}

async fn copy_if_missing(
    from: &dyn BlobStore,
    to: &dyn BlobStore,
    name: PackName,
    verify_present: bool,
) -> Result<Copied> {
    let bytes = from.len(name).await?.ok_or_else(|| Error::not_found("it is gone"))?;
    match to.len(name).await? {
        // A large one grew in place, so its length alone says too little.
        Some(there) if there == bytes && !verify_present && bytes <= PUT_BYTES_MAX => return Ok(Copied::Before),
        Some(there) if there == bytes && sum(from, name, bytes).await? == sum(to, name, bytes).await? => {
            return Ok(Copied::Before);
        }
        // The rest of a copy that was cut off, or damaged.
        Some(_) => to.delete(name).await?,
        None => {}
    }
    let expected =
        if bytes <= PUT_BYTES_MAX { put(from, to, name, bytes).await? } else { append(from, to, name, bytes).await? };
    let there = to.len(name).await?;
    if there == Some(bytes) && sum(to, name, bytes).await? == expected {
        return Ok(Copied::Now(bytes));
    }
    to.delete(name).await?;
    Err(Error::new(
        ErrorKind::Damaged,
        "what the new store gives back is not what was written to it; it was removed there",
    ))
}

/// The offsets and lengths of a pack's pieces.
fn pieces(bytes: u64) -> impl Iterator<Item = (u64, usize)> {
    let step = PIECE_BYTES as u64;
    (0..bytes.div_ceil(step)).map(move |index| {
        let left = bytes - index * step;
        (index * step, usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES)))
    })
}

async fn sum(store: &dyn BlobStore, name: PackName, bytes: u64) -> Result<blake3::Hash> {
    let (mut hasher, mut buffer) = (blake3::Hasher::new(), Vec::new());
    for (offset, len) in pieces(bytes) {
        buffer = store.read(name, offset, len, buffer).await?;
        hasher.update(&buffer);
    }
    Ok(hasher.finalize())
}

async fn put(from: &dyn BlobStore, to: &dyn BlobStore, name: PackName, bytes: u64) -> Result<blake3::Hash> {
    let (mut hasher, mut parts) = (blake3::Hasher::new(), Vec::new());
    for (offset, len) in pieces(bytes) {
        let piece = from.read(name, offset, len, Vec::new()).await?;
        hasher.update(&piece);
        parts.push(Bytes::from(piece));
    }
    to.put(name, parts).await?;
    Ok(hasher.finalize())
}

async fn append(from: &dyn BlobStore, to: &dyn BlobStore, name: PackName, bytes: u64) -> Result<blake3::Hash> {
    let mut appender = to.append(name).await?;
    let mut hasher = blake3::Hasher::new();
    for (offset, len) in pieces(bytes) {
        let piece = from.read(name, offset, len, Vec::new()).await?;
        hasher.update(&piece);
        appender.append(vec![Bytes::from(piece)]).await?;
    }
    appender.sync().await?;
    Ok(hasher.finalize())
}
