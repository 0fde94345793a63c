use super::*;
use crate::test_data::{even_bytes, text};
use holdfast_base::ErrorKind;

fn keys(seed: u8) -> BlockKeys {
    BlockKeys::derive(Uid([seed; 16]), &SpaceKey::from_bytes([seed; 32]))
}

fn buffer(plain: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; RECORD_PREFIX_BYTES];
    buffer.extend_from_slice(plain);
    buffer
}

fn seal(keys: &BlockKeys, plain: &[u8]) -> (BlockId, Vec<u8>) {
    let id = keys.id(plain);
    let (record, _) = Sealer::default().seal(keys, id, Codec::Zstd(1), buffer(plain), Vec::new()).expect("seals");
    (id, record)
}

fn open(keys: &BlockKeys, id: BlockId, record: Vec<u8>) -> Result<Vec<u8>> {
    let (buffer, start, _) = Opener::default().open(keys, id, record, Vec::new())?;
    Ok(buffer[start..].to_vec())
}

#[test]
fn what_is_sealed_opens_to_the_same_bytes() {
    for plain in [Vec::new(), b"x".to_vec(), text(3_000), even_bytes(5_000), text(1 << 20), even_bytes(1 << 20)] {
        let (id, record) = seal(&keys(1), &plain);
        let head = read_record_head(&record).expect("has a head");
        assert_eq!((head.id, head.record_bytes as usize, head.raw_bytes as usize), (id, record.len(), plain.len()));
        assert_eq!(open(&keys(1), id, record.clone()).expect("opens"), plain);
        let inline = Opener::default().open_inline(&keys(1), inline_part(&record)).expect("opens without its frame");
        assert_eq!(inline, plain);
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    let (id, record) = seal(&keys(1), &text(600));
    assert!(record_is_intact(Uid([1; 16]), id, &record));
    for at in 0..record.len() {
        let mut flipped = record.clone();
        flipped[at] ^= 0x40;
        assert!(!record_is_intact(Uid([1; 16]), id, &flipped), "byte {at}");
        // The sum serves those without a key; whoever opens a block has its tag.
        if at < record.len() - SUM_BYTES {
            assert_eq!(open(&keys(1), id, flipped).expect_err("notices").kind(), ErrorKind::Damaged, "byte {at}");
        }
    }
}

#[test]
fn a_record_cut_anywhere_is_refused() {
    let (id, record) = seal(&keys(1), &text(600));
    for end in 0..record.len() {
        assert!(open(&keys(1), id, record[..end].to_vec()).is_err());
    }
    let tiny = inline_part(&record);
    for end in 0..tiny.len() {
        assert!(Opener::default().open_inline(&keys(1), &tiny[..end]).is_err());
    }
}

#[test]
fn another_space_can_neither_open_nor_recognise_a_block() {
    let plain = text(600);
    let (id, record) = seal(&keys(1), &plain);
    assert_ne!(keys(2).id(&plain), id);
    assert!(open(&keys(2), id, record).is_err());
}

#[test]
fn one_block_cannot_stand_in_for_another() {
    let (_, first) = seal(&keys(1), b"first");
    let (second, _) = seal(&keys(1), b"second");
    assert!(open(&keys(1), second, first).is_err());
}

#[test]
fn sealing_the_same_block_twice_gives_different_bytes() {
    let (_, once) = seal(&keys(1), &text(600));
    let (_, again) = seal(&keys(1), &text(600));
    assert_ne!(once[RECORD_PREFIX_BYTES..], again[RECORD_PREFIX_BYTES..]);
}

#[test]
fn the_plaintext_is_not_in_the_record() {
    let plain = even_bytes(4_096);
    let (_, record) = seal(&keys(1), &plain);
    assert!(!record.windows(16).any(|window| plain.windows(16).step_by(16).any(|needle| needle == window)));
}

/// A record sealed by the first version of the format: later versions must go on opening it.
#[test]
fn a_record_of_format_version_1_opens() {
    let record = include_bytes!("../../golden/block-v1.bin").to_vec();
    let id = keys(9).id(b"Holdfast golden block, version 1. Holdfast golden block, version 1.");
    assert_eq!(
        open(&keys(9), id, record).expect("opens"),
        b"Holdfast golden block, version 1. Holdfast golden block, version 1."
    );
}
