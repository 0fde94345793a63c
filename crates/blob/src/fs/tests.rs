//! What only a store on a file system promises.

use super::*;
use holdfast_base::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::task::{Context, Waker};
use tempfile::TempDir;

const NAME: PackName = PackName([0xab; 16]);

fn open() -> (TempDir, FsStore) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FsStore::open(folder.path().join("above/packs")).expect("opens");
    (folder, store)
}

fn bytes(text: &'static str) -> Vec<Bytes> {
    vec![Bytes::from_static(text.as_bytes())]
}

#[tokio::test]
async fn opening_again_finds_every_pack() {
    let (folder, store) = open();
    store.put(NAME, bytes("whole")).await.expect("puts");
    let mut appender = store.append(PackName([1; 16])).await.expect("begins");
    appender.append(bytes("grown")).await.expect("appends");
    appender.sync().await.expect("syncs");
    drop((appender, store));
    let store = FsStore::open(folder.path().join("above/packs")).expect("opens again");
    assert_eq!(store.read(NAME, 0, 5, Vec::new()).await.expect("reads"), b"whole");
    assert_eq!(store.read(PackName([1; 16]), 0, 5, Vec::new()).await.expect("reads"), b"grown");
}

#[tokio::test]
async fn leftovers_of_a_crash_are_removed_at_open_and_never_listed() {
    let (folder, store) = open();
    let root = folder.path().join("above/packs");
    let leftover = root.join("tmp").join(format!("{NAME}.0"));
    std::fs::write(&leftover, "half").expect("writes");
    std::fs::write(root.join("ab/notes.txt"), "not ours").expect("writes");
    assert!(store.list(None, 10).await.expect("lists").is_empty());
    drop(store);
    FsStore::open(&root).expect("opens again");
    assert!(!leftover.exists());
    assert!(root.join("ab/notes.txt").exists(), "only what we made is ours to remove");
}

#[tokio::test]
async fn folders_and_files_are_for_their_owner_alone() {
    let (folder, store) = open();
    store.put(NAME, bytes("x")).await.expect("puts");
    store.append(PackName([1; 16])).await.expect("begins");
    let root = folder.path().join("above/packs");
    let mode = |path: &str| std::fs::metadata(root.join(path)).expect(path).permissions().mode() & 0o777;
    assert_eq!([mode(""), mode("ab"), mode("tmp")], [0o700; 3]);
    assert_eq!([mode(&format!("ab/{NAME}.pack")), mode(&format!("01/{}.pack", PackName([1; 16])))], [0o600; 2]);
}

#[tokio::test]
async fn a_put_leaves_nothing_aside_whether_it_succeeds_or_fails() {
    let (folder, store) = open();
    store.put(NAME, bytes("first")).await.expect("puts");
    let again = store.put(NAME, bytes("second")).await.expect_err("exists");
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let aside = std::fs::read_dir(folder.path().join("above/packs/tmp")).expect("reads");
    assert_eq!(aside.count(), 0);
}

#[tokio::test]
async fn a_deleted_pack_is_no_longer_held_open() {
    let (_folder, store) = open();
    store.put(NAME, bytes("x")).await.expect("puts");
    store.read(NAME, 0, 1, Vec::new()).await.expect("reads");
    assert!(store.open_files.get(NAME).is_some(), "a read keeps the file open");
    store.delete(NAME).await.expect("deletes");
    assert!(store.open_files.get(NAME).is_none());
    assert_eq!(store.read(NAME, 0, 1, Vec::new()).await.expect_err("gone").kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn no_more_files_are_kept_open_than_the_limit() {
    let (_folder, mut store) = open();
    store.open_files = Arc::new(OpenFiles::new(2));
    for byte in 0..5 {
        store.put(PackName([byte; 16]), bytes("x")).await.expect("puts");
        store.read(PackName([byte; 16]), 0, 1, Vec::new()).await.expect("reads");
    }
    let open = (0..5).filter(|byte| store.open_files.get(PackName([*byte; 16])).is_some()).count();
    assert_eq!(open, 2);
}

#[tokio::test]
async fn a_file_system_without_reads_from_its_cache_alone_is_read_all_the_same() {
    let (_folder, store) = open();
    store.put(NAME, bytes("whole")).await.expect("puts");
    store.page_cache.give_up();
    for _ in 0..2 {
        assert_eq!(store.read(NAME, 1, 3, Vec::new()).await.expect("reads"), b"hol");
    }
}

#[tokio::test]
async fn an_abandoned_append_finishes_the_pack() {
    let (_folder, store) = open();
    let mut appender = store.append(NAME).await.expect("begins");
    let large = Bytes::from(vec![1; usize::try_from(INLINE_APPEND_BYTES).expect("fits")]);
    {
        let mut append = appender.append(vec![large]);
        let polled = append.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        // On a machine where the write ends at once there is nothing to abandon.
        if polled.is_ready() {
            return;
        }
    }
    assert_eq!(appender.append(bytes("x")).await.expect_err("torn").kind(), ErrorKind::Unavailable);
    assert_eq!(appender.sync().await.expect_err("torn").kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn long_appends_are_sent_to_the_disk_early_and_read_back_whole() {
    let (_folder, store) = open();
    let mut appender = store.append(NAME).await.expect("begins");
    let part = Bytes::from(vec![7; 1 << 20]);
    let parts = 2 * WRITEBACK_BYTES / part.len() as u64 + 1;
    for index in 0..parts {
        assert_eq!(appender.append(vec![part.clone()]).await.expect("appends"), index * part.len() as u64);
    }
    appender.sync().await.expect("syncs");
    assert_eq!(store.len(NAME).await.expect("answers"), Some(parts * part.len() as u64));
    assert_eq!(store.read(NAME, (parts - 1) << 20, 1 << 20, Vec::new()).await.expect("reads"), part);
}

mod conformance {
    crate::conformance_suite!(super::open);
}
