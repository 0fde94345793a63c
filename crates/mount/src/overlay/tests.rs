//! An overlay is what a file would be.

use super::*;
use holdfast_drive::LeftOut;
use proptest::prelude::*;

fn room(pages: usize) -> (tempfile::TempDir, Room) {
    let folder = tempfile::tempdir().expect("a folder");
    let scratch = Scratch::new(folder.path().to_owned(), 1 << 30);
    (folder, Room::new(pages * PAGE_BYTES, scratch))
}

/// A sealed block of a test is its plaintext.
type Sealed = Arc<Vec<u8>>;

fn read(overlay: &Overlay<Sealed>, base: &[u8], range: ByteRange) -> Vec<u8> {
    let mut out = Vec::new();
    for part in overlay.parts(range).expect("reads") {
        match part {
            Part::Bytes(bytes) => out.extend_from_slice(&bytes),
            Part::Base(range) => out.extend_from_slice(&base[range.start as usize..range.end as usize]),
            Part::Ahead(sealed, range) => out.extend_from_slice(&sealed[range]),
            Part::Zeros(count) => out.resize(out.len() + count as usize, 0),
        }
    }
    out
}

fn take_back(overlay: &mut Overlay<Sealed>, range: ByteRange) {
    for (block, sealed) in overlay.sealed_in(range) {
        overlay.put_back(block, &sealed);
    }
}

fn write(overlay: &mut Overlay<Sealed>, base: &[u8], offset: u64, data: &[u8]) {
    take_back(overlay, ByteRange { start: offset, end: offset + data.len() as u64 });
    for (page, range) in overlay.wants(offset, data.len() as u64) {
        overlay.fill(page, base[range.start as usize..range.end as usize].to_vec());
    }
    overlay.write(offset, data).expect("writes");
}

#[derive(Debug, Clone)]
enum Step {
    Write(u64, usize, u8),
    Truncate(u64),
    Read(u64, u64),
    /// A block is begun to be sealed.
    Begin(u64),
    /// Sealing ends: of the first begun or of the last, with a block or without.
    End(bool, bool),
}

fn step() -> impl Strategy<Value = Step> {
    // Offsets near the borders of pages and blocks are where mistakes are.
    let place = prop_oneof![0..3 * BLOCK, (0..50u64).prop_map(|page| page * PAGE), Just(BLOCK), Just(2 * BLOCK)];
    prop_oneof![
        (place.clone(), prop_oneof![0..200usize, Just(PAGE_BYTES), Just(3 * PAGE_BYTES + 1)], any::<u8>())
            .prop_map(|(offset, length, byte)| Step::Write(offset, length, byte)),
        place.clone().prop_map(Step::Truncate),
        (place, 0..5 * PAGE).prop_map(|(offset, length)| Step::Read(offset, length)),
    ]
}

/// Steps of a long file: blocks are whole most of the time, and being sealed.
fn long_step() -> impl Strategy<Value = Step> {
    let place = (0..3u64, prop_oneof![Just(0), Just(1), Just(BLOCK / 2), Just(BLOCK - 7)])
        .prop_map(|(block, within)| block * BLOCK + within);
    prop_oneof![
        3 => (0..3u64, any::<u8>()).prop_map(|(block, byte)| Step::Write(block * BLOCK, BLOCK_BYTES, byte)),
        2 => (place.clone(), 1..3 * PAGE_BYTES, any::<u8>()).prop_map(|(offset, length, byte)| Step::Write(offset, length, byte)),
        1 => place.prop_map(Step::Truncate),
        4 => (0..3u64).prop_map(Step::Begin),
        4 => (any::<bool>(), prop::bool::weighted(0.9)).prop_map(|(first, sealed)| Step::End(first, sealed)),
    ]
}

/// Does steps to an overlay and to the bytes of a file, which are to be the same after each.
fn is_a_file(base_bytes: u64, steps: Vec<Step>, pages: usize) -> std::result::Result<(), TestCaseError> {
    let base: Vec<u8> = (0..base_bytes).map(|at| (at / 7 + at / PAGE) as u8).collect();
    let (_folder, room) = room(pages);
    let mut file = base.clone();
    let mut overlay = Overlay::<Sealed>::new(base.len() as u64, room.clone());
    let mut under_way = std::collections::VecDeque::new();
    for step in steps {
        match step {
            Step::Write(offset, length, byte) => {
                let (start, end) = (offset as usize, offset as usize + length);
                write(&mut overlay, &base, offset, &vec![byte; length]);
                if length > 0 {
                    file.resize(file.len().max(end), 0);
                    file[start..end].fill(byte);
                }
            }
            Step::Begin(block) => {
                if let Some((number, pages)) = overlay.begin_ahead(block) {
                    let plain = pages.concat();
                    prop_assert_eq!(&plain, &file[(block * BLOCK) as usize..((block + 1) * BLOCK) as usize]);
                    under_way.push_back((block, number, Arc::new(plain)));
                }
            }
            Step::End(first, sealed) => {
                let ended = if first { under_way.pop_front() } else { under_way.pop_back() };
                if let Some((block, number, plain)) = ended {
                    overlay.end_ahead(block, number, sealed.then_some(plain));
                }
            }
            Step::Truncate(size) => {
                if size < overlay.size() && !size.is_multiple_of(BLOCK) {
                    take_back(&mut overlay, ByteRange { start: size, end: size + 1 });
                }
                overlay.truncate(size).expect("cuts");
                file.resize(size as usize, 0);
            }
            Step::Read(offset, length) => {
                let range = ByteRange { start: offset, end: offset + length };
                let end = file.len().min((offset + length) as usize);
                prop_assert_eq!(read(&overlay, &base, range), &file[end.min(offset as usize)..end]);
            }
        }
        prop_assert_eq!(overlay.size(), file.len() as u64);
        let sealed = overlay.sealed_in(ByteRange::whole(overlay.size()));
        prop_assert_eq!(sealed.len() as u64, overlay.sealed_blocks);
        prop_assert!(sealed.keys().all(|block| (block + 1) * BLOCK <= overlay.size()));
        // What is not sent is as it was, in whole blocks.
        let body = overlay.body(base.len() as u64, true);
        prop_assert!(body.start.is_multiple_of(BLOCK) && body.end <= overlay.size());
        prop_assert_eq!(&base[..body.start as usize], &file[..body.start as usize]);
        if body.end < overlay.size() {
            prop_assert!(body.end.is_multiple_of(BLOCK) && base.len() == file.len());
            prop_assert_eq!(&base[body.end as usize..], &file[body.end as usize..]);
        }
        prop_assert_eq!(read(&overlay, &base, body), &file[body.start as usize..body.end as usize]);
        // What is left out is as it was, or zeros.
        let LeftOut { stay, zeros } = overlay.left_out(body, true);
        prop_assert_eq!(&overlay.left_out(body, false), &LeftOut { stay: Vec::new(), zeros: zeros.clone() });
        let mut after = body.start;
        for (blocks, stays) in
            stay.into_iter().map(|blocks| (blocks, true)).chain(zeros.into_iter().map(|blocks| (blocks, false)))
        {
            prop_assert!(blocks.start < blocks.end && blocks.start * BLOCK >= after && blocks.end * BLOCK <= body.end);
            after = blocks.end * BLOCK;
            let bytes = (blocks.start * BLOCK) as usize..after as usize;
            if stays {
                prop_assert_eq!(&base[bytes.clone()], &file[bytes]);
            } else {
                prop_assert!(file[bytes].iter().all(|byte| *byte == 0));
            }
        }
        // Spans cover the file, and what they say is so.
        let mut at = 0;
        while at < overlay.size() {
            let (span, end) = overlay.span(at);
            prop_assert!(end > at && end <= overlay.size());
            let part = at as usize..end as usize;
            match span {
                Span::Written => {}
                Span::Base => prop_assert_eq!(&file[part.clone()], &base[part]),
                Span::Zeros => prop_assert!(file[part].iter().all(|byte| *byte == 0)),
            }
            at = end;
        }
    }
    prop_assert_eq!(overlay.is_changed() || file == base, true);
    drop((overlay, under_way));
    prop_assert_eq!(room.used.load(Ordering::Relaxed), 0);
    prop_assert_eq!(room.scratch.used_bytes(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn it_is_what_a_file_would_be(
        base_bytes in prop_oneof![0..3 * BLOCK, Just(0), Just(BLOCK), Just(2 * BLOCK)],
        steps in prop::collection::vec(step(), 1..25),
        pages in prop_oneof![Just(0usize), Just(1_000)],
    ) {
        is_a_file(base_bytes, steps, pages)?;
    }

    #[test]
    fn blocks_that_are_sealed_ahead_change_nothing(
        base_bytes in prop_oneof![Just(0), Just(2 * BLOCK), 0..3 * BLOCK],
        steps in prop::collection::vec(long_step(), 20..50),
    ) {
        is_a_file(base_bytes, steps, 1_000)?;
    }
}

#[test]
fn one_byte_in_a_large_file_sends_one_block() {
    let (_folder, room) = room(100);
    let base = vec![1; 5 * BLOCK_BYTES + 10];
    let mut overlay = Overlay::<Sealed>::new(base.len() as u64, room);
    write(&mut overlay, &base, 3 * BLOCK + 5, b"x");
    assert_eq!(overlay.body(base.len() as u64, true), ByteRange { start: 3 * BLOCK, end: 4 * BLOCK });
    write(&mut overlay, &base, base.len() as u64 + 100, b"");
    assert_eq!(overlay.size(), base.len() as u64, "nothing is written by writing nothing");
    let whole = ByteRange::whole(base.len() as u64);
    assert_eq!(overlay.left_out(whole, true).stay, [0..3, 4..5], "the last block is not whole");
    overlay.truncate(base.len() as u64 + 1).expect("lengthens");
    assert_eq!(overlay.body(base.len() as u64, true), ByteRange { start: 3 * BLOCK, end: overlay.size() });
}
