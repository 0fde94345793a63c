//! Removals and renames that a mount answered before they came here.

use super::deferred::{Mount, NOW_NS, name};
use crate::catalogue::Catalogue;
use crate::types::{Applied, Deferred, Leave, NodeKind, Rename, Taken, Unlink};
use holdfast_base::{ContentId, Error, ErrorKind, NodeId, Result};
use std::sync::Arc;

/// Leaves without a trace.
const LEAVE: Leave = Leave { now_ns: NOW_NS + 50, held_until_ms: None, forget_after_ms: 0 };

type Place<'p> = (NodeId, &'p str);

fn unlink(node: NodeId, content: Option<ContentId>, at: Place<'_>, folder: bool) -> Deferred {
    Deferred::Unlink { unlink: Unlink { parent: at.0, name: name(at.1), folder, leave: LEAVE }, node, content }
}

fn rename(
    node: NodeId,
    (from, to): (Place<'_>, Place<'_>),
    other: Option<(NodeId, Option<ContentId>)>,
    taken: Taken,
) -> Deferred {
    let rename = Rename { from: (from.0, name(from.1)), to: (to.0, name(to.1)), taken, leave: LEAVE };
    Deferred::Rename { rename, node, other }
}

fn kinds(answers: &[Result<Applied>]) -> Vec<String> {
    let kind = |answer: &Result<Applied>| match answer {
        Ok(Applied::Made(entry)) => format!("made {}", entry.node.name),
        Ok(Applied::Aside(entry)) => format!("aside {}", entry.node.name),
        Ok(Applied::Gone(_)) => "gone".to_owned(),
        Ok(Applied::Before) => "before".to_owned(),
        Ok(Applied::Late) => "late".to_owned(),
        Err(error) => format!("{:?}", error.kind()),
    };
    answers.iter().map(kind).collect()
}

pub async fn renames_and_removals_come_in_their_order_and_once(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let root = mount.root;
    let (folder, make_folder) = mount.create(root, "d", NodeKind::Folder);
    let (one, make_one) = mount.create(folder, "one", NodeKind::File);
    let (content, save_one) = mount.save(one, None, 5, (folder, "one"));
    let (two, make_two) = mount.create(root, "two", NodeKind::File);
    let (three, make_three) = mount.create(root, "one", NodeKind::File);
    let changes: Vec<(u64, Deferred)> = (1..)
        .zip([
            make_folder,
            make_one,
            save_one,
            make_two,
            rename(folder, ((root, "d"), (root, "e")), None, Taken::Replace),
            rename(one, ((folder, "one"), (root, "one")), None, Taken::Refuse),
            rename(one, ((root, "one"), (root, "two")), Some((two, None)), Taken::Exchange),
            unlink(two, None, (root, "one"), false),
            make_three,
            rename(one, ((root, "two"), (root, "one")), Some((three, None)), Taken::Replace),
            unlink(folder, None, (root, "e"), true),
            Deferred::Passed { node: NodeId(1), folder: root, now_ns: NOW_NS + 70 },
        ])
        .collect();
    let answers = mount.apply(changes.clone()).await;
    let expected = [
        "made d", "made one", "made one", "made two", "made e", "made one", "made two", "gone", "made one", "made one",
        "gone", "gone",
    ];
    assert_eq!(kinds(&answers), expected);
    assert_eq!(mount.stage.tree().await, ["one"]);
    assert_eq!(mount.entry(one).await.node.content, Some(content));
    assert_eq!(mount.entry(one).await.posix.map(|posix| posix.ctime_ns), Some(LEAVE.now_ns));
    assert_eq!(mount.entry(root).await.node.modified_ms, (NOW_NS + 70).div_euclid(1_000_000));
    assert_eq!(mount.stage.used().await, (5, 0), "what was made and removed within a moment leaves nothing");
    assert!(mount.apply(changes).await.iter().all(|answer| matches!(answer, Ok(Applied::Before))));
    assert_eq!(mount.stage.tree().await, ["one"]);
}

pub async fn what_others_did_to_names_meanwhile_is_never_undone(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (root, stage) = (mount.root, &mount.stage);
    let mut number = 0;
    let mut one = async |change: Deferred| {
        number += 1;
        kinds(&mount.apply(vec![(number, change)]).await).remove(0)
    };
    let seen = async |at: &str| {
        let node = stage.node(at).await.expect(at);
        (node.id, node.content)
    };
    let write = async |at: &str| {
        stage.write(at, 3).await;
        seen(at).await
    };
    // A removal of what was changed, moved, replaced, removed.
    let (changed, content) = write("changed").await;
    write("changed").await;
    assert_eq!(one(unlink(changed, content, (root, "changed"), false)).await, "late");
    let (moved, content) = write("moved").await;
    stage.relocate("moved", "moved away", false).await.expect("moves");
    assert_eq!(one(unlink(moved, content, (root, "moved"), false)).await, "late");
    write("moved").await;
    assert_eq!(one(unlink(moved, content, (root, "moved"), false)).await, "late");
    let (gone, content) = write("gone").await;
    stage.remove("gone").await.expect("removes");
    assert_eq!(one(unlink(gone, content, (root, "gone"), false)).await, "late");
    let full = stage.folder("full").await.id;
    write("full/x").await;
    assert_eq!(one(unlink(full, None, (root, "full"), true)).await, "late");
    assert_eq!(stage.tree().await, ["changed", "full/", "full/x", "moved", "moved away"]);
    // A rename to where another is, to what was changed, to a folder that has members by now.
    let (mine, _) = write("mine").await;
    let to = |name| ((root, "mine"), (root, name));
    assert_eq!(one(rename(mine, to("changed"), None, Taken::Replace)).await, "aside changed (2)");
    let (mine, _) = write("mine").await;
    assert_eq!(one(rename(mine, to("changed"), Some((changed, None)), Taken::Replace)).await, "aside changed (3)");
    let empty = stage.folder("empty").await.id;
    assert_eq!(
        one(rename(empty, ((root, "empty"), (root, "full")), Some((full, None)), Taken::Replace)).await,
        "aside full (2)"
    );
    // It was moved: it goes from there. To where it is: done. What it was to replace is gone: that is all right.
    stage.relocate("full (2)", "full/deep", false).await.expect("moves");
    let away = ((root, "full (2)"), (root, "top"));
    assert_eq!(one(rename(empty, away, Some((gone, None)), Taken::Replace)).await, "made top");
    assert_eq!(one(rename(empty, away, None, Taken::Refuse)).await, "made top");
    // Into itself by now, into a folder that was removed, of what was removed.
    stage.relocate("full", "top/full", false).await.expect("moves");
    assert_eq!(one(rename(empty, ((root, "top"), (full, "in")), None, Taken::Replace)).await, "aside top");
    let removed = stage.folder("removed").await.id;
    stage.remove("removed").await.expect("removes");
    assert_eq!(
        one(rename(moved, ((root, "moved away"), (removed, "x")), None, Taken::Replace)).await,
        "aside moved away"
    );
    assert_eq!(one(rename(gone, ((root, "gone"), (root, "back")), None, Taken::Replace)).await, "late");
    // Two change places only where they were.
    let (a, b) = (write("a").await, write("b").await);
    stage.relocate("b", "c", false).await.expect("moves");
    assert_eq!(one(rename(a.0, ((root, "a"), (root, "b")), Some(b), Taken::Exchange)).await, "aside a");
    assert_eq!(one(rename(a.0, ((root, "a"), (root, "c")), Some(b), Taken::Exchange)).await, "made c");
    assert_eq!((seen("a").await, seen("c").await), (b, a));
    let tree = stage.tree().await;
    let expected =
        ["a", "c", "changed", "changed (2)", "changed (3)", "moved", "moved away", "top/", "top/full/", "top/full/x"];
    assert_eq!(tree, expected);
}

pub async fn what_a_lock_refuses_comes_again_and_what_needs_it_waits(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (root, stage) = (mount.root, &mount.stage);
    stage.write("f", 3).await;
    let (folder, file) = (stage.folder("d").await.id, stage.node("f").await.expect("is there"));
    stage.write("d/g", 3).await;
    let below = stage.node("d/g").await.expect("is there");
    assert_eq!(catalogue.standing(stage.space).await.expect("reads").map(|standing| standing.locks), Some(0));
    for (at, token) in [("f", "one"), ("d/g", "two")] {
        let lock = stage.new_lock(token, true, false);
        catalogue.lock(stage.space, &super::stage::path(at), lock, &stage.guard()).await.expect("locks");
    }
    let standing = catalogue.standing(stage.space).await.expect("reads").expect("is there");
    assert_eq!(standing.locks, 2);
    let (other, make_other) = mount.create(root, "h", NodeKind::File);
    let changes: Vec<(u64, Deferred)> = (1..)
        .zip([
            rename(file.id, ((root, "f"), (root, "moved")), None, Taken::Replace),
            mount.create(root, "f", NodeKind::File).1,
            make_other,
            rename(other, ((root, "h"), (root, "i")), None, Taken::Replace),
            unlink(below.id, below.content, (folder, "g"), false),
            unlink(folder, None, (root, "d"), true),
        ])
        .collect();
    let expected = ["Locked", "Unavailable", "made h", "made i", "Locked", "Unavailable"];
    assert_eq!(kinds(&mount.apply(changes.clone()).await), expected);
    assert_eq!(stage.tree().await, ["d/", "d/g", "f", "i"]);
    for (at, token) in [("f", "one"), ("d/g", "two")] {
        let unlocked = catalogue.unlock(stage.space, &super::stage::path(at), token, &stage.guard()).await;
        unlocked.expect("unlocks");
    }
    let answers = mount.apply(changes).await;
    assert_eq!(kinds(&answers), ["made moved", "made f", "before", "before", "gone", "gone"]);
    assert_eq!(stage.tree().await, ["f", "i", "moved"]);
    let after = catalogue.standing(stage.space).await.expect("reads").expect("is there");
    assert!(after.seq > standing.seq, "each change counts");
    assert!(answers.iter().all(|answer| answer.as_ref().err().map(Error::kind) != Some(ErrorKind::Locked)));
}
