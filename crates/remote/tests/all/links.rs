//! Files of several names, from a server.

use super::rig::{Rig, body, bytes, leave, named, new_file, posix};
use super::{save, until};
use bytes::Bytes;
use holdfast_drive::{Durable, NewAttributes, NewName, Tree, Unlink};
use std::sync::atomic::Ordering;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_under_one_name_is_not_believed_when_the_file_changed_under_another() {
    let rig = Rig::new().await;
    let (remote, other) = (rig.remote().await, rig.remote().await);
    let root = remote.root();
    let a = remote.create(new_file(root, "a"), Bytes::new(), Durable::Now).await.expect("made");
    let name = |name: &str| NewName { node: a.node.id, parent: root, name: named(name), now_ns: posix().ctime_ns };
    remote.link(name("b"), posix()).await.expect("linked");
    for round in 0..20_u32 {
        // Known under every name, here and there.
        for tree in [&remote, &other] {
            let names = tree.list(root, None, 10).await.expect("listed");
            assert!(names.iter().all(|entry| entry.number() == a.node.id && entry.names() == 2), "{names:?}");
        }
        let was = remote.entry(a.node.id).await.expect("asked").expect("there");
        let content = bytes(round.into(), 3_000);
        let saved = save(a.node.id, was.node.content, 3_000, posix());
        let saved = remote.save(saved, body(&content)).await.expect("saved");
        let found = remote.lookup(root, &named("b")).await.expect("asked").expect("there");
        assert_eq!(found.node.content, saved.node.content, "at once where it was changed");
        let change = NewAttributes { mode: Some(0o600 + round), ctime_ns: 5, ..NewAttributes::default() };
        remote.set_attributes(found.node.id, change, posix()).await.expect("changed");
        let found = remote.lookup(root, &named("a")).await.expect("asked").expect("there");
        assert_eq!(found.posix.expect("has some").mode, 0o600 + round);
        until(|| async {
            let found = other.lookup(root, &named("b")).await.expect("asked").expect("there");
            found.node.content == saved.node.content && found.posix.expect("has some").mode == 0o600 + round
        })
        .await;
    }
    // The name by which it was known goes; it is found by its number.
    let unlink = Unlink { parent: root, name: named("a"), folder: false, leave: leave() };
    remote.unlink(unlink).await.expect("removed");
    for tree in [&remote, &other] {
        until(|| async {
            let found = tree.entry(a.node.id).await.expect("asked").expect("there");
            found.node.name == "b" && found.names() == 1
        })
        .await;
    }
    // It is remembered, too, once the stream of changes has told this mount as well that its change was of more than one name.
    let asked = || async {
        let before = rig.harm.calls.load(Ordering::SeqCst);
        for _ in 0..20 {
            assert_eq!(remote.entry(a.node.id).await.expect("asked").expect("there").node.name, "b");
        }
        rig.harm.calls.load(Ordering::SeqCst) - before
    };
    until(|| async { asked().await == 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_knows_nothing_of_names_sees_a_file_for_each() {
    let rig = Rig::new().await;
    let local = rig.local().await;
    rig.harm.is_older.store(true, Ordering::SeqCst);
    let older = rig.remote().await;
    let root = local.root();
    let a = local.create(new_file(root, "a"), Bytes::new(), Durable::Now).await.expect("made");
    let link = NewName { node: a.node.id, parent: root, name: named("b"), now_ns: 7 };
    let b = local.link(link, posix()).await.expect("linked");
    let names = older.list(root, None, 10).await.expect("listed");
    let numbers: Vec<_> = names.iter().map(|entry| (entry.number(), entry.names())).collect();
    assert_eq!(numbers, [(a.node.id, 1), (b.node.id, 1)]);
    // What it changes is changed under both, and it is told.
    let saved = older.save(save(b.node.id, None, 3_000, posix()), body(&bytes(1, 3_000))).await.expect("saved");
    assert_eq!((saved.bond, saved.node.id), (None, b.node.id));
    until(|| async { older.entry(a.node.id).await.expect("asked").expect("there").node.content == saved.node.content })
        .await;
    let unlink = Unlink { parent: root, name: named("a"), folder: false, leave: leave() };
    older.unlink(unlink).await.expect("removed");
    assert_eq!(older.entry(b.node.id).await.expect("asked").expect("there").node.content, saved.node.content);
}
