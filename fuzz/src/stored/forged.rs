//! Blocks made by somebody who has the space's key and means harm: a member whose own client seals. The cipher holds, so
//! lengths, codec and compressed bytes are the forger's. They open or fail; they never take more memory than a block may.

use super::input::Input;
use super::record::{SPACE, SPACE_KEY, block_keys, write_frame};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use holdfast_base::BlockId;
use holdfast_base::limits::BLOCK_BYTES_MAX;
use holdfast_seal::block::{FRAME_BYTES, Opener, RECORD_PREFIX_BYTES, inline_part};

const ID: BlockId = BlockId([5; 32]);
const SALT: [u8; 16] = [6; 16];

/// Codec, stated length, whether version and cipher are the known ones, then the packed bytes.
pub fn forged(data: &[u8]) {
    let mut input = Input(data);
    let (codec, raw_bytes, odd) = (input.byte(), input.u32(), input.byte());
    let record = forge(codec, raw_bytes, odd, input.0);
    let mut opener = Opener::default();
    let inline = opener.open_inline(&block_keys(), inline_part(&record));
    match opener.open(&block_keys(), ID, record, Vec::new()) {
        Ok((buffer, start, other)) => {
            assert_eq!(buffer.len() - start, raw_bytes as usize);
            assert!(buffer.capacity().max(other.capacity()) <= 2 * BLOCK_BYTES_MAX);
            assert_eq!(inline.expect("opens without its frame, too"), buffer[start..]);
        }
        Err(_) => assert!(inline.is_err(), "what fails in a pack fails in the catalogue"),
    }
}

/// A record whose cipher is right, as docs/FORMAT.md has it.
fn forge(codec: u8, raw_bytes: u32, odd: u8, packed: &[u8]) -> Vec<u8> {
    let packed_bytes = u32::try_from(packed.len()).expect("a short input");
    let mut record = vec![0; FRAME_BYTES];
    record.extend(ID.0);
    record.extend([1 + (odd & 1), 1 + (odd >> 1 & 1), codec, odd >> 2]);
    record.extend(raw_bytes.to_le_bytes());
    record.extend(packed_bytes.to_le_bytes());
    record.extend([0; 4]);
    record.extend(SALT);
    record.extend(packed);
    let (head, packed) = record.split_at_mut(RECORD_PREFIX_BYTES);
    let tag = cipher()
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key([0; 12]), Aad::from(&head[FRAME_BYTES..]), packed)
        .expect("seals");
    record.extend(tag.as_ref());
    record.extend([0; 8]);
    write_frame(&mut record);
    record
}

fn cipher() -> LessSafeKey {
    struct KeyBytes;
    impl KeyType for KeyBytes {
        fn len(&self) -> usize {
            32
        }
    }
    let root = Salt::new(HKDF_SHA256, b"holdfast space v1").extract(&SPACE_KEY);
    let mut block_key = [0; 32];
    let info: [&[u8]; 2] = [b"block key", &SPACE.0];
    root.expand(&info, KeyBytes).and_then(|okm| okm.fill(&mut block_key)).expect("expands");
    let info: [&[u8]; 3] = [b"block v1", &ID.0, &SALT];
    let block_key = Prk::new_less_safe(HKDF_SHA256, &block_key);
    LessSafeKey::new(UnboundKey::from(block_key.expand(&info, &AES_256_GCM).expect("expands")))
}
