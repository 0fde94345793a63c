//! Opening, closing, copying.

use super::Place;
use crate::catalogue::Catalogue;
use crate::conformance::{Stage, finish, kind};
use crate::sqlite::{Options, SqliteCatalogue};
use holdfast_base::ErrorKind;
use std::sync::Arc;

fn open_fails(place: &Place) -> ErrorKind {
    kind(SqliteCatalogue::open(&place.path(), &Options::default()))
}

#[tokio::test]
async fn what_was_written_is_there_when_opened_again() {
    let place = Place::new();
    let catalogue = place.open();
    let stage = Stage::new(&(Arc::clone(&catalogue) as Arc<dyn Catalogue>)).await;
    stage.write("f", 5).await;
    let (space, account) = (stage.space, stage.account.clone());
    drop(stage);
    catalogue.close().await.expect("closes");
    let log = place.path().with_extension("db-wal");
    assert!(!log.exists() || log.metadata().expect("is readable").len() == 0, "the log was copied into the file");
    let catalogue: Arc<dyn Catalogue> = place.open();
    let stage = Stage { catalogue, account, space };
    assert_eq!(stage.tree().await, ["f"]);
    finish(&stage.catalogue).await;
}

#[tokio::test]
async fn a_closed_catalogue_is_unavailable() {
    let place = Place::new();
    let catalogue = place.open();
    Arc::clone(&catalogue).close().await.expect("closes");
    assert_eq!(kind(catalogue.ping().await), ErrorKind::Unavailable);
    catalogue.close().await.expect("closing again is harmless");
}

#[tokio::test]
async fn a_catalogue_of_a_newer_program_is_refused_untouched() {
    let place = Place::new();
    place.open().close().await.expect("closes");
    place.raw().pragma_update(None, "user_version", 99).expect("writes");
    assert_eq!(open_fails(&place), ErrorKind::Unsupported);
    let version: i64 = place.raw().query_row("PRAGMA user_version", [], |row| row.get(0)).expect("reads");
    assert_eq!(version, 99);
}

#[tokio::test]
async fn a_catalogue_of_the_first_schema_is_brought_up_to_date() {
    let place = Place::new();
    let catalogue = place.open();
    let stage = Stage::new(&(Arc::clone(&catalogue) as Arc<dyn Catalogue>)).await;
    stage.write("f", 5).await;
    let lock = stage.new_lock("t", true, false);
    catalogue.lock(stage.space, &crate::conformance::path("f"), lock, &stage.guard()).await.expect("locks");
    let (space, account) = (stage.space, stage.account.clone());
    drop(stage);
    catalogue.close().await.expect("closes");
    // Back to what the first program left: its triggers, its number, and no word of what came later.
    let triggers = include_str!("../../../migrations/sqlite/V1__catalogue.sql");
    let triggers =
        &triggers[triggers.find("CREATE TRIGGER").expect("is there")..triggers.rfind("END;").expect("is there") + 4];
    let back = format!(
        "{triggers} DROP TABLE word; DROP TABLE unindexed; DROP TABLE reindex; DROP TABLE migration; DROP TABLE instance; DROP TABLE lease; DROP INDEX pack_open; DROP TABLE resumable; DROP TABLE tail; DROP TABLE visit_download; DROP TABLE visit; DROP TABLE share; \
         DROP TABLE totp; DROP TABLE passkey; DROP TABLE used_ticket; DROP TABLE drive_key; DROP TABLE identity; DROP TABLE space_grant; \
         DROP TABLE audit; DROP TABLE sample; DROP TABLE sample_minute; DROP TABLE capacity; DROP TABLE saved_search; DROP TABLE resumable_tags; \
         DROP TABLE posix; DROP TABLE xattr; DROP TABLE held; DROP TABLE journal; DROP TABLE given; DROP TABLE job; DROP TABLE job_run; DROP TABLE bond; \
         ALTER TABLE upload DROP COLUMN instance_id; ALTER TABLE pack DROP COLUMN instance_id; ALTER TABLE space_sum DROP COLUMN thinned_ms; DELETE FROM refinery_schema_history WHERE version > 1; PRAGMA user_version = 1;"
    );
    place.raw().execute_batch(&back).expect("writes");
    let catalogue: Arc<dyn Catalogue> = place.open();
    let stage = Stage { catalogue, account, space };
    let guard = stage.holding(&["t"]);
    stage.catalogue.unlock(stage.space, &crate::conformance::path("f"), "t", &guard).await.expect("unlocks");
    stage.write("f", 6).await;
    // What was there before is indexed step by step.
    assert!(stage.search("f").await.indexing);
    stage.index_all().await;
    assert_eq!(stage.search_paths("f").await, ["/f"]);
    // A trigger that was left would have counted the lock twice.
    finish(&stage.catalogue).await;
    let version: i64 = place.raw().query_row("PRAGMA user_version", [], |row| row.get(0)).expect("reads");
    assert_eq!(version, 17);
    let space = stage.catalogue.space(space).await.expect("reads").expect("is there");
    assert!(!space.retention.thin, "it was made when every version was kept");
}

#[tokio::test]
async fn another_database_is_refused() {
    let place = Place::new();
    place.raw().execute_batch("CREATE TABLE somebody_elses (id INTEGER)").expect("writes");
    assert_eq!(open_fails(&place), ErrorKind::InvalidInput);
    let place = Place::new();
    std::fs::write(place.path(), "not a database, but long enough to look at: ".repeat(40)).expect("writes");
    assert_eq!(open_fails(&place), ErrorKind::Damaged);
    let place = Place { folder: place.folder };
    std::fs::remove_file(place.path()).expect("removes");
    std::fs::create_dir(place.path()).expect("makes");
    assert_eq!(open_fails(&place), ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_may_write() {
    let place = Place::new();
    let catalogues: [Arc<dyn Catalogue>; 2] = [place.open(), place.open()];
    let first = Stage::new(&catalogues[0]).await;
    let second = Stage { catalogue: Arc::clone(&catalogues[1]), account: first.account.clone(), space: first.space };
    for index in 0..20 {
        let (one, two) = (format!("a{index}"), format!("b{index}"));
        tokio::join!(first.write(&one, 1), second.write(&two, 1));
    }
    assert_eq!((first.tree().await.len(), second.used().await), (40, (40, 0)));
    finish(&catalogues[1]).await;
}

#[tokio::test]
async fn a_snapshot_is_a_catalogue_of_that_moment() {
    let place = Place::new();
    let catalogue = place.open();
    let stage = Stage::new(&(Arc::clone(&catalogue) as Arc<dyn Catalogue>)).await;
    stage.write("before", 5).await;
    let copy = Place::new();
    catalogue.snapshot_to(&copy.path()).await.expect("copies");
    stage.write("after", 5).await;
    assert_eq!(kind(catalogue.snapshot_to(&copy.path()).await), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_dir(copy.folder.path()).expect("reads").count(), 1, "the copy is one file");
    let stage = Stage { catalogue: copy.open(), account: stage.account, space: stage.space };
    assert_eq!(stage.tree().await, ["before"]);
    finish(&stage.catalogue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_short_while_callers_write() {
    let place = Place::new();
    let catalogue: Arc<dyn Catalogue> = place.open();
    let stage = Arc::new(Stage::new(&catalogue).await);
    stage.set_retention(0, None, None).await;
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..8 {
        let stage = Arc::clone(&stage);
        callers.spawn(async move {
            for _ in 0..200 {
                let content = crate::types::NewContent::Inline {
                    size: 100_000,
                    nonce: [1; 16],
                    tag: [2; 16],
                    sealed: vec![3; 100_000],
                };
                let at = crate::conformance::path(&format!("f{caller}"));
                let done = stage.catalogue.commit_file(stage.space, &at, content, 0, &stage.guard()).await;
                done.expect("commits").expect("misses nothing");
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.expect("a caller ends well");
    }
    let log = place.path().with_extension("db-wal").metadata().expect("is there").len();
    assert!(log < 96 << 20, "160 MB were written and the log has {log} bytes");
    finish(&catalogue).await;
}
