//! A catalogue goes from database to database and is the same.

use super::tables::TABLES;
use super::{Database, Progress, migrate};
use crate::catalogue::Catalogue;
use crate::conformance::{Stage, blocks, claimed, factors, finish, kind, path, resumable, written};
use crate::postgres::PostgresCatalogue;
use crate::sql::engine::{Engine, Scope};
use crate::sql::query as sql;
use crate::sql::tx::Tx;
use crate::sqlite::SqliteCatalogue;
use crate::types::{Property, PropertyChange, Traffic};
use holdfast_base::ErrorKind;
use holdfast_testkit::postgres::PostgresServer;
use std::collections::BTreeSet;
use std::sync::Arc;
use tempfile::TempDir;

async fn postgres() -> Arc<PostgresCatalogue> {
    let made = tokio::task::spawn_blocking(|| PostgresServer::shared().and_then(PostgresServer::database)).await;
    let url = made.expect("runs").expect("a database");
    Arc::new(PostgresCatalogue::connect(&url, &crate::postgres::Options::default()).await.expect("connects"))
}

fn sqlite(folder: &TempDir, name: &str) -> Arc<SqliteCatalogue> {
    let path = folder.path().join(name);
    Arc::new(SqliteCatalogue::open(&path, &crate::sqlite::Options::default()).expect("opens"))
}

/// Writes some of everything: every table gets rows, but for those that empty themselves.
async fn furnish(catalogue: &Arc<dyn Catalogue>) -> Stage {
    let stage = Stage::new(catalogue).await;
    stage.folder("d").await;
    for number in 0..300 {
        stage.write(&format!("d/f{number}-ä"), number).await;
    }
    stage.write("d/f7-ä", 20).await;
    stage.remove("d/f8-ä").await.expect("removes");
    let property = Property { namespace: "x".repeat(3_000), name: "n".to_owned(), xml: "<n/>".to_owned() };
    let changes = [PropertyChange::Set(property)];
    catalogue.change_properties(stage.space, &path("d"), &changes, &stage.guard()).await.expect("changes");
    let pack = stage.pack(1).await;
    for (at, content) in [("one", vec![written(1, pack), written(2, pack)]), ("two", vec![claimed(2)])] {
        let done = catalogue.commit_file(stage.space, &path(at), blocks(content), 0, &stage.guard()).await;
        done.expect("commits").expect("misses nothing");
    }
    stage.link(&path("d/f10-ä"), &path("linked"), &stage.guard()).await.expect("links");
    let lock = stage.new_lock("t", true, false);
    catalogue.lock(stage.space, &path("d/f9-ä"), lock, &stage.guard()).await.expect("locks");
    for name in 1..=20 {
        let (new, tail) = resumable::begun(&stage, name);
        let content = catalogue.begin_resumable(new).await.expect("begins");
        let claim = catalogue.claim_resumable(content, Some(0), 2).await.expect("claims");
        let kept = catalogue.advance_resumable(claim, None, Some(tail), 9).await;
        kept.expect("keeps").expect("misses nothing");
    }
    factors::furnish(&stage).await;
    catalogue.attempt_failed("ana", 5, 5).await.expect("counts");
    let traffic = Traffic { requests: 1, bytes_in: 2, bytes_out: 3 };
    catalogue.add_traffic(vec![(stage.account.id, traffic)], 5).await.expect("adds");
    stage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalogue_goes_there_and_back() {
    let folder = TempDir::new().expect("a folder");
    let (first, there, back) = (sqlite(&folder, "first"), postgres().await, sqlite(&folder, "back"));
    let stage = furnish(&(Arc::clone(&first) as Arc<dyn Catalogue>)).await;
    let mut tables = BTreeSet::new();
    let mut note = |progress: Progress| {
        tables.insert((progress.table, progress.comparing));
    };
    let one = migrate(Database::Sqlite(&first), Database::Postgres(&there), &mut note).await.expect("copies");
    let two = migrate(Database::Postgres(&there), Database::Sqlite(&back), &mut |_| ()).await.expect("copies");
    assert!(one.copied > 600, "{one:?}");
    assert_eq!(one, two);
    assert_eq!(one.copied, one.compared);
    assert_eq!(tables.iter().filter(|(_, comparing)| *comparing).count(), TABLES.len());
    for catalogue in [there as Arc<dyn Catalogue>, back as Arc<dyn Catalogue>] {
        let copy = Stage { catalogue, account: stage.account.clone(), space: stage.space };
        assert_eq!(copy.tree().await, stage.tree().await);
        let spaces = copy.catalogue.spaces_of(stage.account.id).await.expect("reads");
        assert_eq!(spaces, stage.catalogue.spaces_of(stage.account.id).await.expect("reads"));
        // It is a catalogue like any other: ids go on where they were.
        copy.write("new", 5).await;
        finish(&copy.catalogue).await;
        assert!(copy.search("f7").await.indexing, "nothing is indexed yet, and it says so");
        copy.index_all().await;
        assert_eq!(copy.search_paths("f123").await, ["/d/f123-ä"]);
        finish(&copy.catalogue).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_was_cut_off_goes_on() {
    let folder = TempDir::new().expect("a folder");
    let (first, there) = (sqlite(&folder, "first"), postgres().await);
    let stage = furnish(&(Arc::clone(&first) as Arc<dyn Catalogue>)).await;
    // The caller goes away in the middle of a table.
    let (stop, mut stopped) = tokio::sync::mpsc::unbounded_channel();
    let mut note = move |progress: Progress| {
        if progress.table == "node" && !progress.comparing {
            // Nobody may be listening any more.
            let _ = stop.send(());
        }
    };
    tokio::select! {
        biased;
        _ = stopped.recv() => {}
        done = migrate(Database::Sqlite(&first), Database::Postgres(&there), &mut note) => panic!("it was to stop: {done:?}"),
    }
    let rest = migrate(Database::Sqlite(&first), Database::Postgres(&there), &mut |_| ()).await.expect("goes on");
    assert!(rest.copied < rest.compared, "{rest:?}");
    let copy = Stage { catalogue: there, account: stage.account.clone(), space: stage.space };
    assert_eq!(copy.tree().await, stage.tree().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_in_use_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let (first, there, other) = (sqlite(&folder, "first"), postgres().await, sqlite(&folder, "other"));
    let copy = |from: Arc<SqliteCatalogue>| {
        let there = Arc::clone(&there);
        async move { migrate(Database::Sqlite(&from), Database::Postgres(&there), &mut |_| ()).await }
    };
    assert_eq!(kind(copy(Arc::clone(&first)).await), ErrorKind::NotFound, "an empty source");
    Stage::new(&(Arc::clone(&first) as Arc<dyn Catalogue>)).await;
    Stage::account(&(Arc::clone(&other) as Arc<dyn Catalogue>), "ben").await;
    copy(Arc::clone(&first)).await.expect("copies");
    assert_eq!(kind(copy(Arc::clone(&first)).await), ErrorKind::AlreadyExists, "a finished copy");
    let undo = |tx: &Tx<'_>| sql::put(tx, "UPDATE migration SET finished = 0", ());
    there.write("undo", Scope::Administration, undo).await.expect("writes");
    assert_eq!(kind(copy(Arc::clone(&other)).await), ErrorKind::Conflict, "a part of another copy");
    let forget = |tx: &Tx<'_>| sql::put(tx, "DELETE FROM migration", ());
    there.write("forget", Scope::Administration, forget).await.expect("writes");
    assert_eq!(kind(copy(first).await), ErrorKind::Conflict, "a catalogue in use");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_differs_is_found() {
    let folder = TempDir::new().expect("a folder");
    let (first, there) = (sqlite(&folder, "first"), postgres().await);
    let stage = furnish(&(Arc::clone(&first) as Arc<dyn Catalogue>)).await;
    migrate(Database::Sqlite(&first), Database::Postgres(&there), &mut |_| ()).await.expect("copies");
    let harm = |tx: &Tx<'_>| {
        sql::put(tx, "UPDATE migration SET finished = 0", ())?;
        sql::put(tx, "UPDATE node SET modified_ms = modified_ms + 1 WHERE name = 'one'", ())
    };
    there.write("harm", Scope::Administration, harm).await.expect("writes");
    let new = crate::NewInstance { uid: holdfast_base::Uid([1; 16]), name: "n".into(), version: "1".into() };
    let error = there.join(new).await.expect_err("a copy that is not finished is not served");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("not finished"), "{error}");
    let again = migrate(Database::Sqlite(&first), Database::Postgres(&there), &mut |_| ()).await;
    let error = again.expect_err("is found");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("node"), "{error}");
    drop(stage);
}

/// A column added later must be copied, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_column_of_both_databases_is_copied() {
    let folder = TempDir::new().expect("a folder");
    let ours: BTreeSet<(String, String)> = TABLES
        .iter()
        .flat_map(|table| table.columns.iter().map(|column| (table.name.to_owned(), column.replace('"', ""))))
        .collect();
    let own = [
        "counter",
        "administration",
        "migration",
        "refinery_schema_history",
        "instance",
        "served_level",
        "lease",
        "sample",
        "word",
        "unindexed",
        "reindex",
    ];
    let read = |sql: &'static str| {
        move |tx: &Tx<'_>| sql::all(tx, sql, (), |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?)))
    };
    let in_sqlite = "SELECT tables.name, columns.name FROM sqlite_schema AS tables, pragma_table_xinfo(tables.name) AS columns \
                     WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite_%' AND columns.hidden = 0";
    let in_postgres = "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT) FROM information_schema.columns \
                       WHERE table_schema = current_schema() AND table_name <> 'id_block'";
    let found = [
        sqlite(&folder, "new").write("read", Scope::Alone, read(in_sqlite)).await.expect("reads"),
        postgres().await.write("read", Scope::Alone, read(in_postgres)).await.expect("reads"),
    ];
    for columns in found {
        let theirs: BTreeSet<_> = columns.into_iter().filter(|(table, _)| !own.contains(&table.as_str())).collect();
        assert_eq!(theirs, ours);
    }
}
