//! Migrations that succeed, that are cut off, and that meet a drive in use.

use super::*;
use crate::layer::fault::{Fault, Faults, Gate};
use crate::layer::{Layered, Operation};
use crate::memory::MemoryStore;
use bytes::Bytes;
use holdfast_base::ErrorKind;
use std::sync::Arc;

fn name(number: u8) -> PackName {
    PackName([number; 16])
}

fn content(number: u8) -> Vec<u8> {
    let bytes = (0..=u8::MAX).cycle().map(|byte| byte.wrapping_mul(number).wrapping_add(number));
    bytes.take(10_000 + usize::from(number)).collect()
}

async fn filled(packs: u8) -> MemoryStore {
    let store = MemoryStore::new();
    for number in 0..packs {
        store.put(name(number), vec![Bytes::from(content(number))]).await.expect("puts");
    }
    store
}

async fn assert_same(from: &dyn BlobStore, to: &dyn BlobStore) {
    let listed = from.list(None, 10_000).await.expect("lists");
    assert_eq!(to.list(None, 10_000).await.expect("lists"), listed);
    for pack in listed {
        let len = usize::try_from(pack.bytes).expect("small");
        let read = async |store: &dyn BlobStore| store.read(pack.name, 0, len, Vec::new()).await.expect("reads");
        assert!(read(from).await == read(to).await, "pack {}", pack.name);
    }
}

#[tokio::test]
async fn everything_is_copied_once_and_told() {
    let (from, to) = (filled(100).await, MemoryStore::like_an_object_store());
    let mut told = 0;
    let done = migrate(&from, &to, MigrateOptions::default(), |_| told += 1).await.expect("migrates");
    assert_eq!((done.copied, done.present, told), (100, 0, 100));
    assert_same(&from, &to).await;
    let again = migrate(&from, &to, MigrateOptions::default(), |_| ()).await.expect("migrates");
    assert_eq!((again.copied, again.present), (0, 100));
}

#[tokio::test]
async fn one_that_was_cut_off_goes_on_and_mends_what_was_cut() {
    let (from, to) = (filled(50).await, MemoryStore::new());
    let faults = Arc::new(Faults::default());
    let failing = Layered::sharing(Arc::new(to.clone()), Arc::clone(&faults));
    faults.on(Operation::Put, 20, Fault::FailBefore(ErrorKind::Unavailable));
    assert!(migrate(&from, &failing, MigrateOptions::default(), |_| ()).await.is_err());
    // Half a pack, as an append that was cut off leaves it in a folder.
    to.put(name(40), vec![Bytes::from_static(b"half")]).await.expect("puts");
    let done = migrate(&from, &failing, MigrateOptions::default(), |_| ()).await.expect("migrates");
    assert!(done.present >= 18 && done.copied >= 29, "{done:?}");
    assert_same(&from, &to).await;
}

#[tokio::test]
async fn a_copy_that_reads_back_changed_is_an_error_and_is_removed() {
    let (from, to) = (filled(3).await, MemoryStore::new());
    let faults = Arc::new(Faults::default());
    let failing = Layered::sharing(Arc::new(to.clone()), Arc::clone(&faults));
    faults.on(Operation::Read, 2, Fault::FlipBit(12_345));
    let options = MigrateOptions { packs_at_once: 1, ..MigrateOptions::default() };
    let error = migrate(&from, &failing, options, |_| ()).await.expect_err("a bit was flipped");
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert_eq!(to.len(name(1)).await.expect("answers"), None, "what is not right is not there");
    migrate(&from, &failing, options, |_| ()).await.expect("migrates");
    assert_same(&from, &to).await;
}

#[tokio::test]
async fn packs_that_are_there_are_compared_if_asked_for() {
    let (from, to) = (filled(5).await, filled(5).await);
    assert!(to.flip_bit(name(2), 77));
    let options = MigrateOptions { verify_present: true, ..MigrateOptions::default() };
    let done = migrate(&from, &to, options, |_| ()).await.expect("migrates");
    assert_eq!((done.copied, done.present), (1, 4));
    assert_same(&from, &to).await;
}

#[tokio::test]
async fn a_pack_removed_while_it_is_copied_is_in_neither_store() {
    // The removal comes before the copy is written, or after it.
    for operation in [Operation::Put, Operation::Read] {
        let (from, to) = (filled(1).await, MemoryStore::new());
        let faults = Arc::new(Faults::default());
        let slow = Layered::sharing(Arc::new(to.clone()), Arc::clone(&faults));
        let gate = Arc::new(Gate::default());
        faults.on(operation, 1, Fault::Wait(Arc::clone(&gate)));
        let drive = Migrating::new(Arc::new(from.clone()), Arc::new(to.clone()));
        let remove = async {
            gate.wait_for_arrival().await;
            drive.delete(name(0)).await.expect("removes");
            gate.open();
        };
        let (done, ()) = tokio::join!(migrate(&from, &slow, MigrateOptions::default(), |_| ()), remove);
        assert_eq!(done.expect("migrates").removed, 1);
        assert_eq!(drive.len(name(0)).await.expect("answers"), None);
        assert_eq!(to.len(name(0)).await.expect("answers"), None);
    }
}

#[tokio::test]
async fn a_drive_on_its_way_reads_from_either_store_and_writes_to_the_new() {
    let (from, to) = (filled(2).await, MemoryStore::new());
    let drive = Migrating::new(Arc::new(from.clone()), Arc::new(to.clone()));
    drive.put(name(9), vec![Bytes::from_static(b"new")]).await.expect("puts");
    assert_eq!(from.len(name(9)).await.expect("answers"), None);
    assert_eq!(drive.read(name(1), 0, 10_001, Vec::new()).await.expect("reads"), content(1));
    assert_eq!(drive.list(None, 10).await.expect("lists").len(), 3);
    let taken = drive.put(name(1), Vec::new()).await;
    assert_eq!(taken.expect_err("in the old store").kind(), ErrorKind::AlreadyExists);
    migrate(&from, &to, MigrateOptions::default(), |_| ()).await.expect("migrates");
    assert_eq!(to.list(None, 10).await.expect("lists").len(), 3);
}

mod conformance {
    use super::*;

    crate::conformance_suite!(|| {
        let (from, to) = (MemoryStore::new(), MemoryStore::like_an_object_store());
        ((), Migrating::new(Arc::new(from), Arc::new(to)))
    });
}
