//! Bytes in the place of a block, made by somebody without the key: nothing but what was sealed may open.

use holdfast_base::limits::BLOCK_BYTES_MAX;
use holdfast_base::{BlockId, Uid};
use holdfast_seal::block::{
    FRAME_BYTES, Opener, RECORD_OVERHEAD_BYTES, RECORD_PREFIX_BYTES, inline_part, read_record_head, record_is_intact,
};
use holdfast_seal::{BlockKeys, SpaceKey};

/// The space of every block here.
pub(super) const SPACE: Uid = Uid([9; 16]);

/// That space's data key.
pub(super) const SPACE_KEY: [u8; 32] = [9; 32];

const ID_END: usize = FRAME_BYTES + BlockId::BYTES;
const SUM_BYTES: usize = 8;

pub(super) fn block_keys() -> BlockKeys {
    BlockKeys::derive(SPACE, &SpaceKey::from_bytes(SPACE_KEY))
}

/// The bytes as they are, and with everything put right that needs no key.
pub fn record(data: &[u8]) {
    let keys = block_keys();
    look(&keys, data);
    if let Ok(plain) = Opener::default().open_inline(&keys, data) {
        assert_eq!(keys.id(&plain).0, data[..BlockId::BYTES]);
    }
    if data.len() >= RECORD_OVERHEAD_BYTES {
        let mut repaired = data.to_vec();
        let packed_bytes = u32::try_from(data.len() - RECORD_OVERHEAD_BYTES).expect("a short input");
        repaired[ID_END + 8..ID_END + 12].copy_from_slice(&packed_bytes.to_le_bytes());
        write_frame(&mut repaired);
        let head = look(&keys, &repaired);
        assert_eq!(record_is_intact(SPACE, id_of(&repaired), &repaired), head);
    }
}

/// Reads a record in every way; answers whether it has a head.
fn look(keys: &BlockKeys, record: &[u8]) -> bool {
    let head = read_record_head(record);
    if let Some(head) = head {
        assert!(head.record_bytes as usize >= RECORD_OVERHEAD_BYTES && head.raw_bytes as usize <= BLOCK_BYTES_MAX);
    }
    let id = id_of(record);
    let intact = record_is_intact(SPACE, id, record);
    assert!(!intact || head.is_some_and(|head| head.record_bytes as usize == record.len()));
    if let Ok((buffer, start, _)) = Opener::default().open(keys, id, record.to_vec(), Vec::new()) {
        assert_eq!(keys.id(&buffer[start..]), id);
        let inline =
            Opener::default().open_inline(keys, inline_part(record)).expect("the same block without its frame");
        assert_eq!(inline, buffer[start..]);
    }
    head.is_some()
}

fn id_of(record: &[u8]) -> BlockId {
    record.get(FRAME_BYTES..ID_END).map_or(BlockId([0; 32]), |id| BlockId::from_slice(id).expect("32 bytes"))
}

/// Writes the frame and the sum that anybody can compute, around a record that has room for both.
pub(super) fn write_frame(record: &mut [u8]) {
    let record_bytes = u32::try_from(record.len()).expect("a short record");
    record[..4].copy_from_slice(b"HFBK");
    record[4..8].copy_from_slice(&record_bytes.to_le_bytes());
    record[16..FRAME_BYTES].copy_from_slice(&SPACE.0);
    let check = *blake3::Hasher::new().update(&record[..8]).update(&record[16..ID_END]).finalize().as_bytes();
    record[8..16].copy_from_slice(&check[..8]);
    let body_bytes = record.len() - SUM_BYTES;
    let sum = xxhash_rust::xxh3::xxh3_64(&record[..body_bytes]);
    record[body_bytes..].copy_from_slice(&sum.to_le_bytes());
    debug_assert!(record.len() >= RECORD_PREFIX_BYTES);
}
