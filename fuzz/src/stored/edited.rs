//! A block sealed, changed on the disk, and opened: an error or the same bytes, whatever the codec and the content.

use super::input::Input;
use super::record::{SPACE, block_keys};
use holdfast_base::BlockId;
use holdfast_seal::block::{Opener, RECORD_PREFIX_BYTES, Sealer, inline_part, record_is_intact};
use holdfast_seal::{BlockKeys, Codec};

/// Most plaintext: enough for the compressor's probe to sample in several places.
const PLAIN_BYTES_MAX: usize = 64 * 1_024;
const SUM_BYTES: usize = 8;

/// Codec, edits, then a pattern that is repeated to make up the content.
pub fn edited(data: &[u8]) {
    let mut input = Input(data);
    let codec = match input.byte() % 4 {
        0 => Codec::None,
        1 => Codec::Lz4,
        _ => Codec::Zstd(i8::try_from(input.byte() % 4).unwrap_or_default()),
    };
    let repeats = usize::from(input.byte()) + 1;
    let edits: Vec<(u8, u16, u8)> = (0..input.byte() % 5).map(|_| (input.byte(), input.u16(), input.byte())).collect();
    let plain: Vec<u8> = input.0.iter().copied().cycle().take(PLAIN_BYTES_MAX.min(input.0.len() * repeats)).collect();

    let keys = block_keys();
    let (id, record) = seal(&keys, codec, &plain);
    assert!(record_is_intact(SPACE, id, &record));
    // One opener for all, as a worker has it: what failed before must not be seen in what comes after.
    let mut opener = Opener::default();
    assert_eq!(opener.open_inline(&keys, inline_part(&record)).expect("opens"), plain);

    let mut changed = record.clone();
    for edit in edits {
        apply(edit, &mut changed);
    }
    assert_eq!(record_is_intact(SPACE, id, &changed), changed == record);
    if let Ok(opened) = open(&mut opener, &keys, id, &changed) {
        assert_eq!(opened, plain);
        // Only the sum, which is for those without a key, is of no concern to those with one.
        let sealed = record.len() - SUM_BYTES;
        assert!(changed.len() == record.len() && changed[..sealed] == record[..sealed], "a change went unnoticed");
    }
    if let Ok(opened) = opener.open_inline(&keys, &changed) {
        assert_eq!(opened, plain);
    }
    assert_eq!(open(&mut opener, &keys, id, &record).expect("opens"), plain);
}

fn seal(keys: &BlockKeys, codec: Codec, plain: &[u8]) -> (BlockId, Vec<u8>) {
    let mut buffer = vec![0; RECORD_PREFIX_BYTES];
    buffer.extend_from_slice(plain);
    let id = keys.id(plain);
    let (record, _) = Sealer::default().seal(keys, id, codec, buffer, Vec::new()).expect("seals");
    (id, record)
}

fn open(opener: &mut Opener, keys: &BlockKeys, id: BlockId, record: &[u8]) -> holdfast_base::Result<Vec<u8>> {
    let (mut buffer, start, _) = opener.open(keys, id, record.to_vec(), Vec::new())?;
    Ok(buffer.split_off(start))
}

/// Flips bits, cuts, lengthens, moves bytes.
fn apply((kind, at, value): (u8, u16, u8), bytes: &mut Vec<u8>) {
    let at = usize::from(at) % bytes.len().max(1);
    match kind % 4 {
        0 if !bytes.is_empty() => bytes[at] ^= value,
        1 => bytes.truncate(at),
        2 => bytes.extend(std::iter::repeat_n(value, usize::from(value))),
        _ => bytes.rotate_left(at),
    }
}
