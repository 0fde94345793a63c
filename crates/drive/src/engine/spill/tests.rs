use super::*;
use futures_util::FutureExt;
use holdfast_base::Uid;
use holdfast_seal::SpaceKey;
use proptest::prelude::*;

struct Scratch {
    spill: Spill,
    keys: BlockKeys,
    uploads: Uploads,
    workers: Workers,
    folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            spill: Spill::new(folder.path().join("scratch")),
            keys: BlockKeys::derive(Uid([1; 16]), &SpaceKey::from_bytes([2; 32])),
            uploads: Uploads::new(8 << 20),
            workers: Workers::start(1).expect("starts"),
            folder,
        }
    }

    async fn begin(&self) -> SetAside {
        self.spill.begin(&self.keys).await.expect("a slot")
    }

    async fn read_back(&self, aside: SetAside) -> (Vec<u8>, BlockId) {
        let (buffer, id) = aside.read_back(&self.uploads, &self.workers).await.expect("reads");
        (buffer.bytes[RECORD_PREFIX_BYTES..].to_vec(), id)
    }

    /// Waits until all slots are given back, which threads of the runtime do.
    async fn settle(&self) {
        while self.spill.slots().used > 0 {
            tokio::task::yield_now().await;
        }
    }

    fn file(&self) -> Arc<File> {
        self.spill.slots().file.clone().expect("is open")
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime")
}

/// Text that is found again wherever it stands.
fn recognisable(bytes: usize, seed: usize) -> Vec<u8> {
    (0..).flat_map(|line| format!("recognisable {seed} line {line}\n").into_bytes()).take(bytes).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn blocks_set_aside_in_turns_come_back_whole_and_given_up_ones_leave_nothing(
        turns in prop::collection::vec((0_usize..6, 0_usize..60_000, 0_u8..12), 1..60),
    ) {
        runtime().block_on(async {
            let scratch = Scratch::new();
            let mut blocks: Vec<Option<(SetAside, Vec<u8>)>> = (0..6).map(|_| None).collect();
            for (turn, (block, bytes, what)) in turns.into_iter().enumerate() {
                let (aside, mut plain) = match blocks[block].take() {
                    Some(begun) => begun,
                    None => (scratch.begin().await, Vec::new()),
                };
                match what {
                    // Read back, given up, given up in the middle of a write, or else goes on.
                    0 => {
                        let (back, id) = scratch.read_back(aside).await;
                        assert!(back == plain);
                        assert_eq!(id, scratch.keys.id(&plain));
                    }
                    1 => drop(aside),
                    2 => drop(aside.append(Bytes::from(recognisable(bytes, turn))).now_or_never()),
                    _ => {
                        let piece = recognisable(bytes.min(BLOCK_BYTES - plain.len()), turn);
                        plain.extend_from_slice(&piece);
                        let aside = aside.append(Bytes::from(piece)).await.expect("writes");
                        assert_eq!(aside.bytes(), plain.len());
                        blocks[block] = Some((aside, plain));
                    }
                }
            }
            for (aside, plain) in blocks.into_iter().flatten() {
                assert!(scratch.read_back(aside).await.0 == plain);
            }
            scratch.settle().await;
            assert_eq!(scratch.spill.bytes_to_come(), 0);
            assert!(scratch.spill.slots().file.is_none(), "the file is closed when the last slot is given back");
        });
    }
}

#[tokio::test]
async fn the_file_has_no_name_no_plaintext_and_nothing_of_a_slot_that_was_given_back() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    let content = recognisable(BLOCK_BYTES, 1);
    let aside = scratch.begin().await.append(Bytes::from(content.clone())).await.expect("writes");
    let other = scratch.begin().await.append(Bytes::from_static(b"keeps the file open")).await.expect("writes");
    let folder = scratch.folder.path().join("scratch");
    assert_eq!(std::fs::read_dir(&folder).expect("reads").count(), 0);
    assert_eq!(std::fs::metadata(&folder).expect("is there").mode() & 0o777, 0o700);

    let file = scratch.file();
    let mut raw = vec![0; BLOCK_BYTES];
    file.read_exact_at(&mut raw, 0).expect("reads");
    assert!(content.windows(32).step_by(4_099).all(|piece| raw.windows(32).all(|other| piece != other)));
    drop(aside);
    while scratch.spill.slots().used > 1 {
        tokio::task::yield_now().await;
    }
    file.read_exact_at(&mut raw, 0).expect("reads");
    assert!(raw.iter().all(|byte| *byte == 0), "the bytes of a slot that was given back are gone");
    drop(other);
    scratch.settle().await;
}

#[tokio::test]
async fn the_lowest_free_slot_is_taken_and_other_bytes_than_were_written_have_another_id() {
    let scratch = Scratch::new();
    let piece = Bytes::from(recognisable(10_000, 2));
    let first = scratch.begin().await;
    let second = scratch.begin().await.append(piece.clone()).await.expect("writes");
    assert_eq!((first.slot.number, second.slot.number), (0, 1));
    drop(first);
    while scratch.spill.slots().used > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(scratch.begin().await.slot.number, 0);
    let (file, at) = (scratch.file(), SLOT_BYTES as u64 + 5_000);
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("reads");
    file.write_all_at(&[!byte[0]], at).expect("writes");
    let (back, id) = scratch.read_back(second).await;
    assert!(back != piece);
    assert_ne!(id, scratch.keys.id(&back));
}

#[tokio::test]
async fn slots_are_bounded_and_the_memory_of_a_block_set_aside_is_small() {
    let scratch = Scratch::new();
    let mut held = Vec::new();
    for _ in 0..SLOTS_MAX {
        held.push(scratch.begin().await);
    }
    let refused = scratch.spill.begin(&scratch.keys).await.err().expect("is refused");
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let some = held.pop().expect("many").append(Bytes::from(vec![1; 1_000])).await.expect("writes");
    assert_eq!(scratch.spill.bytes_to_come(), u64::from(SLOTS_MAX) * SLOT_BYTES as u64 - 1_000);
    drop(some);
    // Beside it there is the hash state, which is boxed.
    assert!(size_of::<SetAside>() + size_of::<blake3::Hasher>() < 2_300, "{}", size_of::<SetAside>());
    held.clear();
    scratch.settle().await;
    drop(scratch.begin().await);
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_an_error_with_its_name() {
    let scratch = Scratch::new();
    std::fs::write(scratch.folder.path().join("scratch"), "a file is in the way").expect("writes");
    let error = scratch.spill.begin(&scratch.keys).await.err().expect("fails");
    assert!(error.message().contains("scratch"), "{error}");
    assert_eq!(scratch.spill.slots().used, 0);
}
