//! How often an operation waits for the database, counted on the wire: the figures of docs/design/catalogue-on-postgresql.md.

use super::proxy::Proxy;
use super::{connect, new_database};
use crate::catalogue::Catalogue;
use crate::conformance::{Stage, blocks, claimed, inline, path, written};
use crate::postgres::Options;
use holdfast_testkit::postgres::PostgresServer;
use std::sync::Arc;
use std::time::Duration;

/// A path four levels deep, so that a walk by single steps would show.
const FILE: &str = "a/b/c/f";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_waits_as_often_as_is_written_down() {
    let server = PostgresServer::shared().expect("runs");
    let proxy = Proxy::start(server.address());
    let url = proxy.url(&new_database().await, server.address());
    // One connection of each kind, and a feed that keeps quiet.
    let options = Options {
        readers: 1,
        scanners: 1,
        lanes: 1,
        notify: false,
        poll_every: Duration::from_hours(1),
        ..Options::default()
    };
    let catalogue: Arc<dyn Catalogue> = connect(&url, &options).await;
    let stage = Stage::new(&catalogue).await;
    for folder in ["a", "a/b", "a/b/c"] {
        stage.folder(folder).await;
    }
    let pack = stage.pack(1).await;
    let mut seen = Vec::new();
    // The first round prepares statements, which costs round trips once a connection.
    for round in 0..3u8 {
        seen.clear();
        macro_rules! count {
            ($name:literal, $work:expr) => {{
                let before = proxy.trips();
                let _ = $work.await.expect($name);
                seen.push(($name, proxy.trips() - before));
            }};
        }
        let (space, guard) = (stage.space, stage.guard());
        let many = |first: u8| (first..first + 16).map(|name| written(name, pack)).collect();
        count!("find", catalogue.find(space, &path("a/b/c"), false));
        count!("write a new small file", catalogue.commit_file(space, &path(FILE), inline(5), 0, &guard));
        count!("find with content", catalogue.find(space, &path(FILE), true));
        count!("overwrite it", catalogue.commit_file(space, &path(FILE), inline(6), 0, &guard));
        count!(
            "write a file of 16 new blocks",
            catalogue.commit_file(space, &path("b"), blocks(many(round * 16)), 0, &guard)
        );
        let known = (0..16).map(|name| claimed(round * 16 + name)).collect();
        count!("write a file of 16 known blocks", catalogue.commit_file(space, &path("c"), blocks(known), 0, &guard));
        count!("make a folder", catalogue.make_folder(space, &path("a/new"), &guard));
        count!("move a folder", stage.relocate("a/new", "a/newer", false));
        count!("copy a file", stage.copy(FILE, "copy", false));
        count!("remove a folder", stage.remove("a/newer"));
        for at in [FILE, "b", "c", "copy"] {
            count!("remove a file", stage.remove(at));
        }
        catalogue.purge_trash(space, None).await.expect("purges");
        stage.release_all().await;
    }
    seen.dedup();
    for (name, trips) in &seen {
        println!("{trips:>3}  {name}");
    }
    let expected = [
        ("find", 1),
        ("write a new small file", 3),
        ("find with content", 1),
        ("overwrite it", 3),
        ("write a file of 16 new blocks", 6),
        ("write a file of 16 known blocks", 5),
        ("make a folder", 3),
        ("move a folder", 4),
        ("copy a file", 5),
        ("remove a folder", 4),
        ("remove a file", 5),
    ];
    assert_eq!(seen, expected);
}
