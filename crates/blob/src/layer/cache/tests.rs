//! What only a cache promises; what every store promises, with a cache before it.

use super::*;
use crate::layer::fault::{Fault, Faults, Gate};
use crate::layer::{Layered, Operation};
use crate::memory::MemoryStore;
use futures_util::future::join_all;
use holdfast_base::ErrorKind;
use log::CACHE_BYTES_MIN;
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

const NAME: PackName = PackName([3; 16]);
const SMALL: CacheOptions = CacheOptions { bytes_max: CACHE_BYTES_MIN };

/// A cache before a store that counts its calls.
struct Rig {
    folder: TempDir,
    cached: Arc<Cached>,
    faults: Arc<Faults>,
    inner: Arc<dyn BlobStore>,
}

impl Rig {
    fn new() -> Self {
        let faults = Arc::new(Faults::default());
        let inner: Arc<dyn BlobStore> = Arc::new(Layered::sharing(Arc::new(MemoryStore::new()), Arc::clone(&faults)));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cached = Arc::new(Cached::open(Arc::clone(&inner), folder.path(), SMALL).expect("opens"));
        Self { folder, cached, faults, inner }
    }

    async fn put(&self, name: PackName, bytes: Vec<u8>) {
        self.inner.put(name, vec![Bytes::from(bytes)]).await.expect("puts");
    }

    async fn read(&self, name: PackName, offset: u64, len: usize) -> Vec<u8> {
        let read = self.cached.read(name, offset, len, vec![9; 5]).await.expect("reads");
        self.cached.settle().await;
        read
    }

    fn reads(&self) -> u64 {
        self.faults.calls(Operation::Read)
    }

    /// The same cache after a stop and a start.
    fn reopen(mut self) -> Self {
        self.cached = Arc::new(
            Cached::open(Arc::clone(&self.inner), &self.folder.path().join("elsewhere"), SMALL).expect("opens"),
        );
        self.cached = Arc::new(Cached::open(Arc::clone(&self.inner), self.folder.path(), SMALL).expect("opens"));
        self
    }

    fn files(&self) -> Vec<std::path::PathBuf> {
        let entries =
            std::fs::read_dir(self.folder.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
        let mut files: Vec<_> =
            entries.filter(|path| path.extension().is_some_and(|ending| ending == "cache")).collect();
        files.sort();
        files
    }
}

#[tokio::test]
async fn a_range_is_fetched_once_and_survives_a_restart() {
    let rig = Rig::new();
    rig.put(NAME, b"0123456789".to_vec()).await;
    for _ in 0..3 {
        assert_eq!(rig.read(NAME, 2, 3).await, b"234");
    }
    assert_eq!(rig.reads(), 1);
    let rig = rig.reopen();
    assert_eq!(rig.read(NAME, 2, 3).await, b"234");
    assert_eq!(rig.reads(), 1);
    assert_eq!(rig.read(NAME, 2, 4).await, b"2345", "another range is another entry");
    assert_eq!(rig.reads(), 2);
}

#[tokio::test]
async fn a_damaged_entry_is_dropped_and_fetched_anew() {
    let rig = Rig::new();
    rig.put(NAME, vec![7; 1_000]).await;
    rig.read(NAME, 0, 1_000).await;
    let file = std::fs::OpenOptions::new().write(true).open(&rig.files()[0]).expect("opens");
    file.write_all_at(b"x", 500).expect("writes");
    assert_eq!(rig.read(NAME, 0, 1_000).await, vec![7; 1_000]);
    assert_eq!(rig.read(NAME, 0, 1_000).await, vec![7; 1_000]);
    assert_eq!(rig.reads(), 2, "dropped once, kept again");
}

#[tokio::test]
async fn whatever_a_crash_left_of_a_file_does_no_harm() {
    for cut in [0, 1, 47, 48, 49, 500, 1_000] {
        let rig = Rig::new();
        rig.put(NAME, (0..=255).cycle().take(3_000).collect()).await;
        let expected = rig.inner.read(NAME, 1_000, 1_000, Vec::new()).await.expect("reads");
        rig.read(NAME, 1_000, 1_000).await;
        let file = std::fs::OpenOptions::new().write(true).open(&rig.files()[0]).expect("opens");
        file.set_len(cut).expect("cuts");
        let rig = rig.reopen();
        for _ in 0..2 {
            assert_eq!(rig.read(NAME, 1_000, 1_000).await, expected, "cut at {cut}");
        }
    }
}

#[tokio::test]
async fn a_removed_pack_stays_forgotten_after_a_restart() {
    let rig = Rig::new();
    rig.put(NAME, b"old".to_vec()).await;
    rig.read(NAME, 0, 3).await;
    rig.cached.delete_many(&[NAME]).await.expect("removes");
    let gone = rig.cached.read(NAME, 0, 3, Vec::new()).await;
    assert_eq!(gone.expect_err("removed").kind(), ErrorKind::NotFound);
    let rig = rig.reopen();
    assert_eq!(rig.cached.read(NAME, 0, 3, Vec::new()).await.expect_err("removed").kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_range_read_while_its_pack_is_removed_is_not_kept() {
    let rig = Rig::new();
    rig.put(NAME, b"old".to_vec()).await;
    let key = Key::of(NAME, 0, 3).expect("a range");
    let before = rig.cached.log.removals();
    rig.cached.delete(NAME).await.expect("removes");
    rig.cached.log.insert(key, b"old", before).expect("writes");
    assert!(rig.cached.log.find(key).is_none());
}

#[tokio::test]
async fn of_many_who_miss_one_fetches_and_if_it_fails_another_does() {
    let rig = Rig::new();
    rig.put(NAME, b"abc".to_vec()).await;
    let gate = Arc::new(Gate::default());
    rig.faults.on(Operation::Read, 1, Fault::Wait(Arc::clone(&gate)));
    rig.faults.on(Operation::Read, 1, Fault::FailAfter(ErrorKind::Unavailable));
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let cached = Arc::clone(&rig.cached);
            tokio::spawn(async move { cached.read(NAME, 0, 3, Vec::new()).await })
        })
        .collect();
    gate.wait_for_arrival().await;
    gate.open();
    let results: Vec<_> = join_all(readers).await.into_iter().map(|reader| reader.expect("ends")).collect();
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1, "only the one who led");
    assert!(results.iter().flatten().all(|bytes| bytes == b"abc"));
    rig.cached.settle().await;
    assert_eq!(rig.reads(), 2, "one that failed and one for the rest");
}

#[tokio::test]
async fn the_cache_stays_below_its_limit_and_keeps_what_is_used() {
    let rig = Rig::new();
    let block = 256 << 10;
    let count = 3 * usize::try_from(CACHE_BYTES_MIN).expect("small") / block;
    rig.put(NAME, vec![1; block * count]).await;
    for index in 0..count {
        rig.read(NAME, (index * block) as u64, block).await;
        rig.read(NAME, 0, block).await;
        assert!(rig.cached.log.bytes() <= CACHE_BYTES_MIN);
    }
    let on_disk: u64 = rig.files().iter().map(|path| path.metadata().expect("a file").len()).sum();
    assert!(on_disk <= CACHE_BYTES_MIN, "{on_disk} bytes on the disk");
    assert_eq!(rig.reads(), count as u64, "the first block was fetched once and stayed");
}

#[test]
fn a_limit_that_was_lowered_holds_from_the_next_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let large = CacheOptions { bytes_max: 4 * CACHE_BYTES_MIN };
    let log = Log::open(folder.path(), large).expect("opens");
    let bytes = vec![1; 1 << 20];
    for index in 0..100 {
        log.insert(Key::of(NAME, index << 20, bytes.len()).expect("a range"), &bytes, 0).expect("writes");
    }
    assert!(log.bytes() > CACHE_BYTES_MIN);
    drop(log);
    let log = Log::open(folder.path(), SMALL).expect("opens");
    assert!(log.bytes() <= CACHE_BYTES_MIN && log.find(Key::of(NAME, 99 << 20, 1 << 20).expect("a range")).is_some());
    for index in 0..100 {
        log.insert(Key::of(NAME, index << 20, bytes.len()).expect("a range"), &bytes, 0).expect("writes");
        assert!(log.bytes() <= CACHE_BYTES_MIN);
    }
}

#[test]
fn a_folder_belongs_to_one_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let first = Log::open(folder.path(), SMALL).expect("opens");
    assert_eq!(Log::open(folder.path(), SMALL).expect_err("taken").kind(), ErrorKind::Conflict);
    drop(first);
    Log::open(folder.path(), SMALL).expect("opens");
}

mod conformance {
    use super::*;

    crate::conformance_suite!(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inner: Arc<dyn BlobStore> = Arc::new(MemoryStore::new());
        let cached = Cached::open(inner, folder.path(), SMALL).expect("opens");
        (folder, cached)
    });
}
