//! A backup of a drive in use is whole, costs what changed, and becomes a drive again.

use crate::common::{Rig, at, even_bytes};
use holdfast_base::{ErrorKind, SystemClock};
use holdfast_blob::fs::FsStore;
use holdfast_drive::care::{CheckOptions, backup, check, restore};
use holdfast_drive::engine::{Engine, EngineOptions};
use holdfast_drive::{Conditions, Drive};
use holdfast_meta::sqlite::{Options, SqliteCatalogue};
use std::sync::Arc;

const MIB: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn the_second_backup_copies_only_what_changed() {
    let rig = Rig::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    for file in 0..10 {
        rig.put(&format!("file-{file}"), &even_bytes(file, 2 * MIB)).await.expect("writes");
    }
    let first = backup(&rig.catalogue, &rig.memory, folder.path()).await.expect("backs up");
    assert_eq!((first.check.findings.len(), first.packs_copied), (0, first.packs));
    rig.put("one-more", &even_bytes(99, 100_000)).await.expect("writes");
    let second = backup(&rig.catalogue, &rig.memory, folder.path()).await.expect("backs up");
    assert!(second.check.findings.is_empty() && second.packs_copied < second.packs, "{second:?}");
    for file in 0..10 {
        rig.engine.remove(&rig.ana, &at(&format!("file-{file}")), Conditions::default()).await.expect("removes");
    }
    rig.engine.purge_trash(&rig.ana, "ana", None).await.expect("purges");
    rig.reclaim().await;
    let third = backup(&rig.catalogue, &rig.memory, folder.path()).await.expect("backs up");
    assert!(third.packs_removed > 0 && third.check.findings.is_empty(), "{third:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_drive_has_everything() {
    let rig = Rig::new().await;
    let (saved, made) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    rig.put("big", &even_bytes(1, 20 * MIB)).await.expect("writes");
    rig.put("tiny", b"tiny").await.expect("writes");
    backup(&rig.catalogue, &rig.memory, saved.path()).await.expect("backs up");
    rig.put("big", b"changed after the backup").await.expect("writes");

    let path = made.path().join("catalogue.db");
    let store = Arc::new(FsStore::open(made.path().join("packs")).expect("opens"));
    let report = restore(saved.path(), &path, &*store).await.expect("restores");
    assert!(report.check.findings.is_empty() && report.packs > 0, "{report:?}");
    let again = restore(saved.path(), &path, &*store).await.expect_err("refuses to restore over a drive");
    assert_eq!(again.kind(), ErrorKind::Conflict);

    let catalogue = Arc::new(SqliteCatalogue::open(&path, &Options::default()).expect("opens"));
    let options = EngineOptions::default();
    let engine = Engine::start(catalogue.clone(), store.clone(), Arc::new(SystemClock), options).await.expect("starts");
    for (name, content) in [("big", even_bytes(1, 20 * MIB)), ("tiny", b"tiny".to_vec())] {
        let walk = engine.walk(&rig.ana, &at(name)).await.expect("walks");
        let range = holdfast_base::ByteRange::whole(content.len() as u64);
        let read =
            crate::common::drain(engine.read(&rig.ana, &walk, range).await.expect("reads")).await.expect("reads");
        assert!(read == content, "{name}");
    }
    let checked = check(&*catalogue, &*store, CheckOptions { read_data: true, repair: false }).await.expect("checks");
    assert_eq!(checked.findings, Vec::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_with_something_else_in_it_is_no_place_for_a_backup() {
    let rig = Rig::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("thesis.tex"), "precious").expect("writes");
    let error = backup(&rig.catalogue, &rig.memory, folder.path()).await.expect_err("refuses");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let error = restore(folder.path(), &folder.path().join("c.db"), &rig.memory).await.expect_err("refuses");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
