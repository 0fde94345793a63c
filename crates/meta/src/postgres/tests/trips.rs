//! How often an operation waits for the database, counted on the wire: the figures of docs/design/catalogue-on-postgresql.md.

use super::proxy::Proxy;
use super::{connect, new_database};
use crate::catalogue::Catalogue;
use crate::conformance::{Stage, blocks, claimed, inline, path, written};
use crate::postgres::Options;
use crate::types::{
    Batch, Deferred, Durable, Leave, NewAttributes, NewContent, NewEntry, NodeKind, Posix, Rename, Rewrite, Taken,
    Unlink,
};
use holdfast_base::{ContentId, NodeId, NodeName};
use holdfast_testkit::postgres::PostgresServer;
use std::sync::Arc;
use std::time::Duration;

/// A path four levels deep, so that a walk by single steps would show.
const FILE: &str = "a/b/c/f";

/// A catalogue behind a proxy that counts.
async fn counted() -> (Proxy, Arc<dyn Catalogue>) {
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
    let catalogue = connect(&url, &options).await;
    (proxy, catalogue)
}

/// What a mount does with a file of one name, and what it costs more in a space where others have several, and where this one has two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whether_a_file_has_other_names_is_asked_where_there_are_any() {
    let (proxy, catalogue) = counted().await;
    let stage = Stage::new(&catalogue).await;
    let (space, guard) = (stage.space, stage.guard());
    let root = stage.node("").await.expect("a root").id;
    let posix = Posix { mode: 0o600, ..Posix::default() };
    let name = |name: &str| NodeName::new(name).expect("a good name");
    let leave = Leave { now_ns: 5, held_until_ms: None, forget_after_ms: i64::MAX };
    let mut seen: Vec<Vec<(&str, u64)>> = Vec::new();
    // Two rounds each, of which the first prepares statements: where files have one name, where others have several, and where this one has.
    for round in 0..6 {
        if round == 2 {
            stage.write("other", 5).await;
            stage.link(&path("other"), &path("another"), &guard).await.expect("links");
        }
        let mut now = Vec::new();
        macro_rules! count {
            ($name:literal, $work:expr) => {{
                let before = proxy.trips();
                let done = $work.await.expect($name);
                now.push(($name, proxy.trips() - before));
                done
            }};
        }
        let new = |at| NewEntry { parent: root, name: name(at), kind: NodeKind::File, posix, content: inline(5) };
        let made = count!("make", catalogue.create_entry(space, new("f"), &guard, Durable::Now)).expect("made");
        if round >= 4 {
            stage.link(&path("f"), &path(&format!("second{round}")), &guard).await.expect("links");
        }
        let node = made.node.id;
        count!("entry", catalogue.entry(space, node));
        count!("look up", catalogue.entry_in(space, root, &name("f")));
        count!("list", catalogue.entries(space, root, None, 100));
        let rewrite = Rewrite { node, base: made.node.content, content: inline(6), posix, keep: true };
        count!("save", catalogue.rewrite(space, rewrite, &guard, Durable::Now)).expect("saved");
        let change = NewAttributes { mode: Some(0o640), ctime_ns: 5, ..NewAttributes::default() };
        count!("attributes", catalogue.set_attributes(space, node, change, posix, &guard, Durable::Now));
        let to = (root, name("g"));
        let rename = Rename { from: (root, name("f")), to: to.clone(), taken: Taken::Replace, leave };
        count!("rename", catalogue.rename(space, rename, &guard, Durable::Now));
        catalogue.create_entry(space, new("h"), &guard, Durable::Now).await.expect("makes").expect("made");
        let rename = Rename { from: (root, name("h")), to, taken: Taken::Replace, leave };
        count!("rename over it", catalogue.rename(space, rename, &guard, Durable::Now));
        let unlink = Unlink { parent: root, name: name("g"), folder: false, leave };
        count!("remove", catalogue.unlink(space, unlink, &guard, Durable::Now));
        let new_id = NodeId(catalogue.reserve(1).await.expect("reserves").start);
        let create = Deferred::Create {
            id: new_id,
            new: NewEntry { content: NewContent::Empty, ..new("i") },
            content_id: ContentId(0),
        };
        let batch = |number, change| Batch { journal: [7; 16], changes: vec![(number, change)] };
        count!("make, later", catalogue.apply(space, batch(2 * round + 1, create), &guard, Durable::Now));
        let unlink = Unlink { parent: root, name: name("i"), folder: false, leave };
        let unlink = Deferred::Unlink { unlink, node: new_id, content: None };
        count!("remove, later", catalogue.apply(space, batch(2 * round + 2, unlink), &guard, Durable::Now));
        seen.push(now);
    }
    let figures = seen[1].iter().zip(&seen[3]).zip(&seen[5]);
    let figures: Vec<_> = figures.map(|((one, others), this)| (one.0, one.1, others.1, this.1)).collect();
    for (name, one, others, this) in &figures {
        println!("{one:>3} {others:>3} {this:>3}  {name}");
    }
    let expected = [
        ("make", 4, 4, 4),
        ("entry", 1, 1, 1),
        ("look up", 1, 1, 1),
        ("list", 2, 2, 2),
        ("save", 4, 5, 6),
        ("attributes", 4, 5, 5),
        ("rename", 7, 8, 8),
        ("rename over it", 10, 13, 13),
        ("remove", 6, 7, 7),
        ("make, later", 7, 8, 8),
        ("remove, later", 7, 8, 8),
    ];
    assert_eq!(figures, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_waits_as_often_as_is_written_down() {
    let (proxy, catalogue) = counted().await;
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
