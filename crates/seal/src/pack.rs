//! Packs: many records in one object, closed by an index that lets the catalogue be rebuilt from packs alone.
//!
//! ```text
//! pack     = magic "HFPACK" 0 1 ‖ pack name(16) ‖ 0(8) ‖ record … ‖ index ‖ trailer
//! index    = entry …, entry = space uid(16) ‖ block id(32) ‖ offset(u64) ‖ record bytes(u32) ‖ raw bytes(u32)
//! trailer  = index offset(u64) ‖ entries(u32) ‖ 0(4) ‖ BLAKE3 of header, index and the 16 bytes before(32) ‖ magic "HFPIDX" 0 1
//! ```
//! A pack that was not closed (a crash) has no trailer. Its records are found by walking from frame to frame; the walk
//! ends at the first bytes that are not a whole record with a right check.

use crate::block::{RECORD_PREFIX_BYTES, RecordHead, read_record_head};
use holdfast_base::{BlockId, Error, PackName, Result, Uid};

const PACK_MAGIC: [u8; 8] = *b"HFPACK\0\x01";
const INDEX_MAGIC: [u8; 8] = *b"HFPIDX\0\x01";
/// Bytes before the first record.
pub const PACK_HEADER_BYTES: usize = 32;
/// Bytes of an index entry.
pub const ENTRY_BYTES: usize = 64;
/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = 56;
/// More entries than any pack holds (a pack of one-byte files of 64 MiB holds half a million): a trailer that states more is
/// damage, not an allocation.
const ENTRIES_MAX: u32 = 1 << 22;

/// Where one record lies in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackEntry {
    /// The block's space.
    pub space: Uid,
    /// The block.
    pub id: BlockId,
    /// First byte of its record.
    pub offset: u64,
    /// Bytes of its record.
    pub record_bytes: u32,
    /// Bytes of its plaintext.
    pub raw_bytes: u32,
}

impl PackEntry {
    fn lies_before(&self, end: u64) -> bool {
        self.offset >= PACK_HEADER_BYTES as u64
            && self.offset.checked_add(u64::from(self.record_bytes)).is_some_and(|record_end| record_end <= end)
    }
}

/// The first bytes of a pack.
pub fn header(name: PackName) -> [u8; PACK_HEADER_BYTES] {
    let mut header = [0; PACK_HEADER_BYTES];
    header[..8].copy_from_slice(&PACK_MAGIC);
    header[8..24].copy_from_slice(&name.0);
    header
}

/// Checks that a pack's first bytes are its header.
pub fn check_header(name: PackName, bytes: &[u8]) -> Result<()> {
    if bytes == header(name) { Ok(()) } else { Err(Error::damaged(format!("pack {name}: its header is not its own"))) }
}

/// The bytes that close a pack: index and trailer. `index_offset` is the pack's length so far.
pub fn closing(name: PackName, index_offset: u64, entries: &[PackEntry]) -> Result<Vec<u8>> {
    let count = u32::try_from(entries.len()).ok().filter(|count| *count <= ENTRIES_MAX);
    let count = count.ok_or_else(|| Error::internal("a pack has too many records"))?;
    let mut out = Vec::with_capacity(entries.len() * ENTRY_BYTES + TRAILER_BYTES);
    for entry in entries {
        out.extend_from_slice(&entry.space.0);
        out.extend_from_slice(&entry.id.0);
        out.extend_from_slice(&entry.offset.to_le_bytes());
        out.extend_from_slice(&entry.record_bytes.to_le_bytes());
        out.extend_from_slice(&entry.raw_bytes.to_le_bytes());
    }
    out.extend_from_slice(&index_offset.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let hash = blake3::Hasher::new().update(&header(name)).update(&out).finalize();
    out.extend_from_slice(hash.as_bytes());
    out.extend_from_slice(&INDEX_MAGIC);
    Ok(out)
}

/// Where a closed pack's index lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexPlace {
    /// First byte of the index.
    pub offset: u64,
    /// Bytes from there to the pack's end.
    pub bytes: usize,
}

/// Reads a pack's last [`TRAILER_BYTES`] bytes; none if the pack was not closed.
pub fn read_trailer(pack_bytes: u64, trailer: &[u8]) -> Option<IndexPlace> {
    if trailer.len() != TRAILER_BYTES || trailer[48..] != INDEX_MAGIC {
        return None;
    }
    let offset = u64::from_le_bytes(trailer[..8].try_into().ok()?);
    (offset >= PACK_HEADER_BYTES as u64).then_some(())?;
    let count = u32::from_le_bytes(trailer[8..12].try_into().ok()?);
    let bytes = (count <= ENTRIES_MAX).then_some(count as usize * ENTRY_BYTES + TRAILER_BYTES)?;
    (offset.checked_add(bytes as u64) == Some(pack_bytes)).then_some(IndexPlace { offset, bytes })
}

/// Reads the bytes [`read_trailer`] pointed to: the index, checked against its hash.
pub fn read_index(name: PackName, closing: &[u8]) -> Result<Vec<PackEntry>> {
    let bad = || Error::damaged(format!("pack {name}: its index fails its check"));
    let index_bytes =
        closing.len().checked_sub(TRAILER_BYTES).filter(|bytes| bytes % ENTRY_BYTES == 0).ok_or_else(bad)?;
    let hashed = index_bytes + 16;
    let hash = blake3::Hasher::new().update(&header(name)).update(&closing[..hashed]).finalize();
    if closing[hashed..hashed + 32] != *hash.as_bytes() {
        return Err(bad());
    }
    let index_offset = u64::from_le_bytes(closing[index_bytes..index_bytes + 8].try_into().map_err(|_| bad())?);
    let entry = |bytes| read_entry(bytes).filter(|entry| entry.lies_before(index_offset)).ok_or_else(bad);
    closing[..index_bytes].chunks_exact(ENTRY_BYTES).map(entry).collect()
}

fn read_entry(bytes: &[u8]) -> Option<PackEntry> {
    Some(PackEntry {
        space: Uid::from_slice(&bytes[..16]).ok()?,
        id: BlockId::from_slice(&bytes[16..48]).ok()?,
        offset: u64::from_le_bytes(bytes[48..56].try_into().ok()?),
        record_bytes: u32::from_le_bytes(bytes[56..60].try_into().ok()?),
        raw_bytes: u32::from_le_bytes(bytes[60..64].try_into().ok()?),
    })
}

/// Walks the records of a pack that has no index. Feed it heads with [`Scan::next`] until it answers none.
#[derive(Debug)]
pub struct Scan {
    offset: u64,
    pack_bytes: u64,
}

impl Scan {
    /// Begins at the first record of a pack of `pack_bytes` bytes.
    pub const fn new(pack_bytes: u64) -> Self {
        Self { offset: PACK_HEADER_BYTES as u64, pack_bytes }
    }

    /// Where the next head of [`RECORD_PREFIX_BYTES`] bytes is to be read; none at the end.
    pub const fn wants(&self) -> Option<u64> {
        if self.offset + RECORD_PREFIX_BYTES as u64 <= self.pack_bytes { Some(self.offset) } else { None }
    }

    /// Takes the head that was wanted; none ends the walk.
    pub fn next(&mut self, head: &[u8]) -> Option<PackEntry> {
        let RecordHead { record_bytes, space, id, raw_bytes } = read_record_head(head)?;
        let entry = PackEntry { space, id, offset: self.offset, record_bytes, raw_bytes };
        let end = self.offset + u64::from(record_bytes);
        (end <= self.pack_bytes).then_some(())?;
        self.offset = end;
        Some(entry)
    }

    /// Where the walk stands: the length of the pack's sound part.
    pub const fn offset(&self) -> u64 {
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockKeys, Sealer};
    use crate::{Codec, SpaceKey};

    const NAME: PackName = PackName([3; 16]);

    fn pack(blocks: usize) -> (Vec<u8>, Vec<PackEntry>) {
        let keys = BlockKeys::derive(Uid([1; 16]), &SpaceKey::from_bytes([1; 32]));
        let mut pack = header(NAME).to_vec();
        let mut entries = Vec::new();
        for number in 0..blocks {
            let plain = format!("block {number}");
            let id = keys.id(plain.as_bytes());
            let buffer = [&[0; RECORD_PREFIX_BYTES], plain.as_bytes()].concat();
            let (record, _) = Sealer::default().seal(&keys, id, Codec::Zstd(1), buffer, Vec::new()).expect("seals");
            entries.push(PackEntry {
                space: Uid([1; 16]),
                id,
                offset: pack.len() as u64,
                record_bytes: u32::try_from(record.len()).expect("small"),
                raw_bytes: u32::try_from(plain.len()).expect("small"),
            });
            pack.extend_from_slice(&record);
        }
        (pack, entries)
    }

    fn scan(pack: &[u8]) -> Vec<PackEntry> {
        let mut scan = Scan::new(pack.len() as u64);
        std::iter::from_fn(|| {
            let at = usize::try_from(scan.wants()?).expect("small");
            scan.next(&pack[at..at + RECORD_PREFIX_BYTES])
        })
        .collect()
    }

    #[test]
    fn a_closed_pack_tells_its_index() {
        let (mut pack, entries) = pack(5);
        let closing = closing(NAME, pack.len() as u64, &entries).expect("closes");
        pack.extend_from_slice(&closing);
        let place = read_trailer(pack.len() as u64, &pack[pack.len() - TRAILER_BYTES..]).expect("has a trailer");
        let index = &pack[usize::try_from(place.offset).expect("small")..];
        assert_eq!(index.len(), place.bytes);
        assert_eq!(read_index(NAME, index).expect("reads"), entries);
        assert!(read_index(PackName([4; 16]), index).is_err(), "an index is bound to its pack");
        for at in 0..index.len() - 8 {
            let mut flipped = index.to_vec();
            flipped[at] ^= 1;
            assert!(read_index(NAME, &flipped).is_err(), "byte {at}");
        }
        check_header(NAME, &pack[..PACK_HEADER_BYTES]).expect("has its header");
    }

    #[test]
    fn a_pack_that_was_cut_is_walked_to_the_last_whole_record() {
        let (pack, entries) = pack(4);
        assert_eq!(scan(&pack), entries);
        for end in PACK_HEADER_BYTES..pack.len() {
            let whole =
                entries.iter().filter(|entry| entry.offset + u64::from(entry.record_bytes) <= end as u64).count();
            assert_eq!(scan(&pack[..end]), entries[..whole]);
        }
    }

    #[test]
    fn debris_has_no_trailer() {
        assert_eq!(read_trailer(1_000, &[0; TRAILER_BYTES]), None);
        let mut liar = [0xff; TRAILER_BYTES];
        liar[48..].copy_from_slice(&INDEX_MAGIC);
        assert_eq!(read_trailer(u64::MAX, &liar), None);
        assert!(read_index(NAME, &[0; 10]).is_err());
    }
}
