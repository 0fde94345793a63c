//! A pack's frame: its header, and the index that closes it. Reads need neither; a rebuild of the catalogue does.
//!
//! A pack that a crash left open has no sound index, and no flaw either. The catalogue tells the two apart: recovery seals such a
//! pack at the end of its records, a closed one at its last byte.

use holdfast_base::{Error, ErrorKind, PackName, Result};
use holdfast_blob::BlobStore;
use holdfast_seal::block::RECORD_PREFIX_BYTES;
use holdfast_seal::pack::{self, PACK_HEADER_BYTES, Scan, TRAILER_BYTES};

/// What a pack's ends say.
#[derive(Debug)]
pub(crate) enum Frame {
    /// Closed: header and index are as they were written.
    Closed,
    /// The header is, and there is no sound index. The records, as far as they follow each other, end here.
    Open {
        /// Bytes from the pack's begin to the end of its last record.
        records_end: u64,
    },
    /// The header is not.
    Headless(Error),
}

/// Looks at the frame of a pack of so many bytes.
pub(crate) async fn look(store: &dyn BlobStore, name: PackName, bytes: u64) -> Result<Frame> {
    if bytes < PACK_HEADER_BYTES as u64 {
        return Ok(Frame::Headless(Error::damaged(format!("pack {name} ends within its header"))));
    }
    let header = store.read(name, 0, PACK_HEADER_BYTES, Vec::new()).await?;
    if let Err(error) = pack::check_header(name, &header) {
        return Ok(Frame::Headless(error));
    }
    if has_index(store, name, bytes).await? {
        return Ok(Frame::Closed);
    }
    let mut scan = Scan::new(bytes);
    while let Some(at) = scan.wants() {
        let head = store.read(name, at, RECORD_PREFIX_BYTES, Vec::new()).await?;
        if scan.next(&head).is_none() {
            break;
        }
    }
    Ok(Frame::Open { records_end: scan.offset() })
}

async fn has_index(store: &dyn BlobStore, name: PackName, bytes: u64) -> Result<bool> {
    let Some(at) = bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(false) };
    let trailer = store.read(name, at, TRAILER_BYTES, Vec::new()).await?;
    let Some(place) = pack::read_trailer(bytes, &trailer) else { return Ok(false) };
    match pack::read_index(name, &store.read(name, place.offset, place.bytes, Vec::new()).await?) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(false),
        Err(error) => Err(error),
    }
}
