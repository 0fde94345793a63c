//! Packs as a store may give them back: any bytes, indexes whose hash was computed anew, records with sound heads and debris
//! between them.

use super::input::Input;
use super::record::write_frame;
use holdfast_base::PackName;
use holdfast_seal::block::{FRAME_BYTES, RECORD_OVERHEAD_BYTES, RECORD_PREFIX_BYTES};
use holdfast_seal::pack::{
    ENTRY_BYTES, PACK_HEADER_BYTES, Scan, TRAILER_BYTES, check_header, closing, header, read_index, read_trailer,
};

/// The highest codec there is.
const CODEC_MAX: u8 = 2;

const NAME: PackName = PackName([3; 16]);

/// The first byte chooses what the rest is.
pub fn pack(data: &[u8]) {
    let mut input = Input(data);
    match input.byte() % 4 {
        0 => any_bytes(input.0),
        1 => trailer(input),
        2 => index(input.0),
        _ => records(input),
    }
}

fn any_bytes(pack: &[u8]) {
    assert_eq!(check_header(NAME, pack).is_ok(), pack == header(NAME));
    let end = pack.len().saturating_sub(TRAILER_BYTES);
    if let Some(place) = read_trailer(pack.len() as u64, &pack[end..]) {
        assert_eq!(place.offset + place.bytes as u64, pack.len() as u64);
        assert!(place.bytes >= TRAILER_BYTES && (place.bytes - TRAILER_BYTES).is_multiple_of(ENTRY_BYTES));
    }
    let _ = read_index(NAME, pack);
    scan(pack);
}

/// A trailer for a pack of any size.
fn trailer(mut input: Input<'_>) {
    let pack_bytes = input.u64();
    let mut trailer = input.array::<TRAILER_BYTES>();
    trailer[48..].copy_from_slice(b"HFPIDX\0\x01");
    if let Some(place) = read_trailer(pack_bytes, &trailer) {
        assert_eq!(place.offset.checked_add(place.bytes as u64), Some(pack_bytes));
    }
    // A walk must end whatever the pack's size is said to be.
    let mut walk = Scan::new(pack_bytes);
    assert!(walk.next(&trailer).is_none() && walk.wants().is_none_or(|at| at == PACK_HEADER_BYTES as u64));
}

/// An index with the right hash: the store can compute it as well as anybody.
fn index(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let Some(hashed) = bytes.len().checked_sub(TRAILER_BYTES - 16) else {
        assert!(read_index(NAME, &bytes).is_err());
        return;
    };
    let hash = blake3::Hasher::new().update(&header(NAME)).update(&bytes[..hashed]).finalize();
    bytes[hashed..hashed + 32].copy_from_slice(hash.as_bytes());
    let Ok(entries) = read_index(NAME, &bytes) else { return };
    assert_eq!(entries.len() * ENTRY_BYTES + TRAILER_BYTES, bytes.len());
    assert!(read_index(PackName([4; 16]), &bytes).is_err(), "an index belongs to one pack");
    let again = closing(NAME, 0, &entries).expect("closes");
    assert_eq!(again[..entries.len() * ENTRY_BYTES], bytes[..entries.len() * ENTRY_BYTES]);
}

/// Whole records, debris between them, and cuts.
fn records(mut input: Input<'_>) {
    let mut pack = header(NAME).to_vec();
    // Records there are, and how many of them lie one behind the other from the start.
    let (mut all, mut in_a_row, mut unbroken) = (0, 0, true);
    while !input.is_empty() && pack.len() < 1 << 20 {
        let (kind, bytes) = (input.byte(), input.u16());
        match kind % 4 {
            0 => {
                pack.extend_from_slice(input.take(usize::from(bytes)));
                unbroken = false;
            }
            1 => {
                pack.truncate(pack.len().saturating_sub(usize::from(bytes)).max(PACK_HEADER_BYTES));
                (in_a_row, unbroken) = (0, false);
            }
            _ => {
                let codec = kind >> 2;
                pack.extend(record(codec, bytes));
                unbroken &= codec <= CODEC_MAX;
                all += usize::from(codec <= CODEC_MAX);
                in_a_row += usize::from(unbroken);
            }
        }
    }
    assert!(
        (in_a_row..=all).contains(&scan(&pack)),
        "the walk finds the records up to the first debris, and nothing else"
    );
}

/// A whole record of zeroes with a sound head, but for an odd codec.
fn record(codec: u8, packed_bytes: u16) -> Vec<u8> {
    let mut record = vec![0; RECORD_OVERHEAD_BYTES + usize::from(packed_bytes)];
    let header = &mut record[FRAME_BYTES + 32..RECORD_PREFIX_BYTES];
    header[..3].copy_from_slice(&[1, 1, codec]);
    header[8..10].copy_from_slice(&packed_bytes.to_le_bytes());
    write_frame(&mut record);
    record
}

/// Walks a pack as the rebuild does; answers how many records it found.
fn scan(pack: &[u8]) -> usize {
    let mut walk = Scan::new(pack.len() as u64);
    let mut found = 0;
    while let Some(at) = walk.wants() {
        let at = usize::try_from(at).expect("within the pack");
        let Some(entry) = walk.next(&pack[at..at + RECORD_PREFIX_BYTES]) else { break };
        assert_eq!(entry.offset, at as u64);
        assert_eq!(walk.offset(), entry.offset + u64::from(entry.record_bytes), "the walk goes on behind the record");
        assert!(walk.offset() <= pack.len() as u64 && entry.record_bytes as usize >= RECORD_OVERHEAD_BYTES);
        found += 1;
    }
    found
}
