//! Operations that fail, connections that are cut, a server that goes away.

use super::proxy::{Commit, Proxy};
use super::{connect, new_database};
use crate::catalogue::Catalogue;
use crate::conformance::{Stage, finish, kind};
use crate::postgres::{Options, PostgresCatalogue};
use crate::sql::engine::{Engine, Scope};
use crate::sql::fault::{Done, refuse};
use crate::sql::query as sql;
use crate::sql::tx::Tx;
use holdfast_base::{ErrorKind, Result, SpaceId};
use holdfast_testkit::postgres::{Durability, PostgresServer};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Counts sign-in failures under a key, and then ends as told. All of them are of one space, and so of one batch.
async fn half_done(catalogue: &PostgresCatalogue, key: &'static str, end: fn(&Tx<'_>) -> Done<()>) -> Result<()> {
    let work = move |tx: &Tx<'_>| {
        sql::put(tx, "INSERT INTO attempt (key, failures, last_ms) VALUES (?1, 1, 1)", [key])?;
        end(tx)
    };
    catalogue.write("half_done", Scope::Space(SpaceId(1)), work).await
}

/// A statement that breaks a rule and whose answer nobody waits for.
fn break_a_rule(tx: &Tx<'_>) -> Done<()> {
    sql::put(tx, "INSERT INTO upload (content_id, space_id, reserved_bytes, created_ms) VALUES (1, 1, ?1, 1)", [-1i64])
}

fn ask(tx: &Tx<'_>) -> Done<()> {
    sql::only(tx, "SELECT count(*) FROM attempt", (), |_| Ok(()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_fails_in_the_middle_leaves_nothing_and_harms_nobody() {
    let catalogue = connect(&new_database().await, &Options::default()).await;
    let (good, refused, broken, late, asked, last) = tokio::join!(
        half_done(&catalogue, "good", |_| Ok(())),
        half_done(&catalogue, "refused", |_| refuse(ErrorKind::Conflict, "no")),
        half_done(&catalogue, "broken", |_| panic!("a defect, for the test")),
        half_done(&catalogue, "late", break_a_rule),
        half_done(&catalogue, "asked", |tx| break_a_rule(tx).and_then(|()| ask(tx))),
        half_done(&catalogue, "last", ask),
    );
    good.expect("is kept");
    last.expect("is kept");
    let ends = [kind(refused), kind(broken), kind(late), kind(asked)];
    assert_eq!(ends, [ErrorKind::Conflict, ErrorKind::Internal, ErrorKind::Internal, ErrorKind::Internal]);
    for (key, failures) in [("good", 1), ("refused", 0), ("broken", 0), ("late", 0), ("asked", 0), ("last", 1)] {
        assert_eq!(catalogue.attempts(key).await.expect("reads").failures, failures, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_an_answer_says_that_it_may_have_been_made() {
    let server = PostgresServer::shared().expect("runs");
    let url = new_database().await;
    let proxy = Proxy::start(server.address());
    let catalogue: Arc<dyn Catalogue> = connect(&proxy.url(&url, server.address()), &Options::default()).await;
    let stage = Stage::new(&catalogue).await;
    for (commit, name, made) in [(Commit::LosesItsAnswer, "made", true), (Commit::IsLost, "lost", false)] {
        proxy.next_commit(commit);
        let error = stage.try_write(name, 5, &stage.guard()).await.expect_err("nobody knows");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains("may or may not have been made"), "{error}");
        assert_eq!(stage.node(name).await.is_some(), made, "{name}");
        stage.write("after", 5).await;
    }
    finish(&catalogue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_are_made_again_and_nobody_notices() {
    let server = PostgresServer::shared().expect("runs");
    let url = new_database().await;
    let catalogue: Arc<dyn Catalogue> = connect(&url, &Options::default()).await;
    let stage = Stage::new(&catalogue).await;
    for number in 0..4 {
        stage.write(&format!("f{number}"), 5).await;
        // So that all connections there may be lie idle: each of them is dead afterwards.
        let reads = (0..64).map(|_| stage.node("f0"));
        assert!(futures_util::future::join_all(reads).await.iter().all(Option::is_some));
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let cut = server.sql(url.rsplit_once('/').expect("a path").1, cut).expect("cuts");
        assert_ne!(cut, "0");
        assert!(stage.node(&format!("f{number}")).await.is_some());
    }
    finish(&catalogue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_down_is_unavailable_until_it_is_back() {
    let mut server = PostgresServer::start(Durability::Logic).expect("starts");
    let url = server.database().expect("makes");
    let options = Options { patience: Duration::from_millis(100), ..Options::default() };
    let catalogue: Arc<dyn Catalogue> = connect(&url, &options).await;
    let stage = Stage::new(&catalogue).await;
    stage.write("f", 5).await;
    server.crash().expect("crashes");
    for _ in 0..3 {
        assert_eq!(kind(stage.try_write("g", 5, &stage.guard()).await), ErrorKind::Unavailable);
        assert_eq!(kind(catalogue.space(stage.space).await), ErrorKind::Unavailable);
        assert_eq!(kind(catalogue.ping().await), ErrorKind::Unavailable);
    }
    server.resume().expect("starts");
    // It is tried again after a pause; nothing has to be done for that.
    while let Err(error) = catalogue.ping().await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.tree().await, ["f"]);
    stage.write("g", 5).await;
    finish(&catalogue).await;
}

/// Takes ids in a space, and ends as told.
async fn take_ids(catalogue: &PostgresCatalogue, space: i64, end: fn() -> Done<()>) -> (Vec<i64>, Result<()>) {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let ids = taken.clone();
    let work = move |tx: &Tx<'_>| {
        ask(tx)?;
        let some = (0..3).map(|_| tx.new_id()).collect::<Done<Vec<i64>>>()?;
        *ids.lock() = some;
        end()
    };
    let ended = catalogue.write("take_ids", Scope::Space(SpaceId(space)), work).await;
    let taken = taken.lock().clone();
    (taken, ended)
}

/// Which a database does that did not sync what it gave out: here because nobody committed after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_that_a_crashed_database_gives_out_again_are_used_once() {
    let quiet = ["fsync=on", "wal_writer_delay=10s", "bgwriter_delay=10s"].map(str::to_owned);
    let mut server = PostgresServer::start_with(&quiet, &[]).expect("starts");
    let url = server.database().expect("makes");
    let catalogue = connect(&url, &Options::default()).await;
    // Whatever is given out after it is written down anew.
    server.sql("postgres", "CHECKPOINT").expect("is made");
    let (before, refused) = take_ids(&catalogue, 1, || refuse(ErrorKind::Conflict, "no")).await;
    assert_eq!(kind(refused), ErrorKind::Conflict);
    server.crash().expect("crashes");
    server.resume().expect("starts");
    let mut used = Vec::new();
    for space in [2, 1, 2, 1] {
        let (taken, done) = take_ids(&catalogue, space, || Ok(())).await;
        done.expect("is made");
        used.extend(taken);
    }
    assert_eq!(used.first(), before.first(), "the database gave out again what it had given");
    let once: HashSet<i64> = used.iter().copied().collect();
    assert_eq!(once.len(), used.len(), "{used:?}");
}

/// Crashes in the middle of writing.
const CRASHES: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_under_load_loses_nothing_acknowledged() {
    let mut server = PostgresServer::start(Durability::Disk).expect("starts");
    let url = server.database().expect("makes");
    let catalogue: Arc<dyn Catalogue> = connect(&url, &Options::default()).await;
    let stage = Arc::new(Stage::new(&catalogue).await);
    let going_on = Arc::new(AtomicBool::new(true));
    let (progress, mut made) = tokio::sync::mpsc::unbounded_channel();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..6 {
        let (stage, going_on, progress) = (Arc::clone(&stage), Arc::clone(&going_on), progress.clone());
        writers.spawn(async move {
            let mut kept = Vec::new();
            for number in 0.. {
                if !going_on.load(Ordering::Relaxed) {
                    break;
                }
                let at = format!("f{writer}-{number}");
                match stage.try_write(&at, 7, &stage.guard()).await {
                    Ok(_) => {
                        kept.push(at);
                        // The other end counts and may have counted enough.
                        let _ = progress.send(());
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
                }
            }
            kept
        });
    }
    for _ in 0..CRASHES {
        for _ in 0..100 {
            made.recv().await.expect("goes on");
        }
        server = tokio::task::spawn_blocking(move || {
            server.crash().and_then(|()| server.resume()).expect("starts again");
            server
        })
        .await
        .expect("runs");
        while made.try_recv().is_ok() {}
    }
    made.recv().await.expect("goes on after the last crash");
    going_on.store(false, Ordering::Relaxed);
    let mut kept = Vec::new();
    while let Some(writer) = writers.join_next().await {
        kept.extend(writer.expect("a writer ends well"));
    }
    let tree = stage.tree().await;
    assert!(kept.len() > 100 * CRASHES);
    for at in &kept {
        assert!(tree.binary_search(at).is_ok(), "{at} was acknowledged and is gone");
    }
    finish(&catalogue).await;
}
