//! Files with several names.

use super::posix::{LEAVE, Mount, NOW_NS, USUAL, name};
use super::stage::{Stage, inline, kind, path};
use crate::catalogue::{Catalogue, Guard};
use crate::types::{
    Applied, Batch, Deferred, Durable, Entry, FILE_NAMES_MAX, Leave, NewAttributes, NewContent, NewSpace, NodeKind,
    Posix, PropertyChange, Rewrite, Taken, Through, XattrRule,
};
use holdfast_base::{ContentId, ErrorKind, NodeId, Uid};
use std::sync::Arc;

/// What a name of the root is a name of: the file's number, how many names it has, content and size.
async fn seen(mount: &Mount, at: &str) -> (NodeId, u32, Option<ContentId>, u64) {
    let entry = mount.at(at).await;
    (entry.number(), entry.names(), entry.node.content, entry.node.size)
}

pub async fn names_of_a_file_change_together(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (space, guard) = (mount.stage.space, mount.stage.guard());
    let a = mount.file(mount.root, "a", 5).await;
    let mut changes = catalogue.changes();
    let b = mount.link(a.node.id, mount.root, "b").await.expect("links");
    let told = changes.recv().await.expect("is told");
    assert_eq!(told.by, 0, "whoever asked has to look again, too");
    assert_ne!(b.node.id, a.node.id, "a name is a node");
    assert_eq!((b.number(), b.names(), b.node.content), (a.node.id, 2, a.node.content));
    assert_eq!(b.attributes(&USUAL), Posix { ctime_ns: NOW_NS + 3, ..a.attributes(&USUAL) });
    assert_eq!(mount.at("a").await.posix, b.posix, "that it has two is under both");
    assert_eq!(mount.stage.used().await, (10, 0), "each name counts");
    let c = mount.link(b.node.id, mount.root, "c").await.expect("links");
    assert_eq!((c.number(), c.names()), (a.node.id, 3));
    // By the number, by that of a name, and by another face.
    let saved = mount.rewrite(&mount.at("b").await, 6, true).await.expect("rewrites");
    assert_eq!((saved.names(), saved.number()), (3, a.node.id));
    for at in ["a", "b", "c"] {
        assert_eq!(seen(&mount, at).await, (a.node.id, 3, saved.node.content, 6));
        assert_eq!(mount.at(at).await.posix, saved.posix);
        assert_eq!(catalogue.versions(mount.at(at).await.node.id).await.expect("reads").len(), 1);
    }
    assert_eq!(mount.stage.used().await, (33, 15));
    let written = mount.stage.write("c", 7).await.node;
    for at in ["a", "b", "c"] {
        let entry = mount.at(at).await;
        assert_eq!((entry.node.content, entry.node.seq, entry.node.modified_ms), (written.content, written.seq, 2_000));
    }
    assert_eq!(mount.stage.used().await, (3 * 7 + 3 * 11, 3 * 11));
    let current = mount.at("a").await;
    mount.rewrite(&current, 0, false).await.expect("rewrites");
    assert_eq!(mount.stage.used().await, (3 * 11, 3 * 11), "what was there for a moment goes under all names");
    let change =
        NewAttributes { mode: Some(0o4711), mtime_ns: Some(77_000_000_001), ctime_ns: 5, ..Default::default() };
    catalogue.set_attributes(space, c.node.id, change, USUAL, &guard, Durable::Now).await.expect("changes");
    let value = Some(b"v".to_vec());
    let xattr = ("user.x".to_owned(), value, XattrRule::Any);
    catalogue.set_xattr(space, b.node.id, xattr, (USUAL, 6), &guard).await.expect("sets");
    for at in ["a", "b", "c"] {
        let entry = mount.at(at).await;
        let posix = entry.attributes(&USUAL);
        assert_eq!((posix.mode, posix.mtime_ns, posix.ctime_ns, posix.xattrs), (0o4711, 77_000_000_001, 6, 1));
        assert_eq!(catalogue.xattrs(entry.node.id).await.expect("reads"), [("user.x".to_owned(), b"v".to_vec())]);
    }
    let later = [PropertyChange::Modified(99_000)];
    catalogue.change_properties(space, &path("b"), &later, &guard).await.expect("changes");
    assert_eq!(mount.at("c").await.attributes(&USUAL).mtime_ns, 99_000_000_000);
    mount.stage.tag("b", &["mine"], &[]).await.expect("tags");
    assert!(!mount.at("a").await.node.has_properties, "tags are of a name");
    let copy = mount.stage.copy("b", "copy", false).await.expect("copies").node;
    let copy = mount.entry(copy.id).await.expect("is there");
    assert_eq!((copy.number(), copy.names()), (copy.node.id, 1), "a copy is a file of its own");
}

pub async fn a_file_keeps_its_number_and_a_name_that_goes_is_another_file(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let a = mount.file(mount.root, "a", 5).await;
    let number = a.node.id;
    let b = mount.link(number, mount.root, "b").await.expect("links");
    mount.stage.tag("a", &["first"], &[]).await.expect("tags");
    mount.rewrite(&a, 6, true).await.expect("rewrites");
    let removed = mount.unlink(mount.root, "a", false, LEAVE).await.expect("removes");
    assert_eq!(removed, number);
    let left = mount.at("b").await;
    assert_eq!((left.number(), left.names(), left.node.id), (number, 1, b.node.id));
    assert_eq!(left.attributes(&USUAL).ctime_ns, LEAVE.now_ns, "it lost a name");
    assert_eq!(mount.entry(number).await, Some(left.clone()), "and is found as before");
    assert_eq!(mount.entry(b.node.id).await, Some(left.clone()));
    mount.rewrite(&left, 7, true).await.expect("by its node");
    let by_number = mount.entry(number).await.expect("is there");
    let node = Entry { node: crate::types::Node { id: number, ..by_number.node.clone() }, ..by_number };
    mount.rewrite(&node, 8, true).await.expect("by its number");
    assert_eq!(seen(&mount, "b").await.3, 8);
    let entry = catalogue.trash(mount.stage.space, None, 9).await.expect("reads").remove(0);
    assert_eq!(entry.bytes, 11, "with its version");
    let restored =
        catalogue.restore_trash(mount.stage.space, entry.id, None, &mount.stage.guard()).await.expect("puts back");
    let restored = mount.entry(restored.id).await.expect("is there");
    assert_eq!((restored.node.size, restored.names()), (6, 1), "as it was");
    assert_ne!(restored.number(), number, "it is a file of its own");
    assert!(restored.node.has_properties);
    assert_eq!(catalogue.versions(restored.node.id).await.expect("reads").len(), 1);
    assert_eq!(mount.stage.search_paths("first").await, ["/a"]);
    mount.rewrite(&restored, 9, true).await.expect("rewrites");
    assert_eq!(seen(&mount, "b").await.3, 8);
    // And again, with what had left once.
    let c = mount.link(restored.node.id, mount.root, "c").await.expect("links");
    assert_eq!((c.number(), c.names()), (restored.number(), 2));
    let d = mount.link(number, mount.root, "d").await.expect("links");
    assert_eq!((d.number(), d.names()), (number, 2));
    mount.unlink(mount.root, "b", false, LEAVE).await.expect("removes");
    assert_eq!(seen(&mount, "d").await.0, number);
    // What is the last and has its own number is like any.
    mount.unlink(mount.root, "c", false, LEAVE).await.expect("removes");
    assert_eq!(mount.at("a").await.bond, None);
    // Whoever is in the trash as the last of its file comes back as that.
    mount.unlink(mount.root, "d", false, LEAVE).await.expect("removes");
    assert_eq!(mount.entry(number).await, None);
    let entry = catalogue.trash(mount.stage.space, None, 9).await.expect("reads").remove(0);
    catalogue.restore_trash(mount.stage.space, entry.id, None, &mount.stage.guard()).await.expect("puts back");
    assert_eq!(seen(&mount, "d").await.0, number);
    for at in ["a", "d"] {
        mount.stage.remove(at).await.expect("removes");
    }
    catalogue.purge_trash(mount.stage.space, None).await.expect("purges");
    mount.stage.release_all().await;
    assert_eq!(mount.stage.used().await, (0, 0));
    assert!(catalogue.all_contents(None, 9).await.expect("reads").is_empty());
}

pub async fn a_link_is_refused_where_it_must_be(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (root, folder) = (mount.root, mount.folder(mount.root, "d").await);
    let file = mount.file(root, "f", 5).await.node.id;
    assert_eq!(kind(mount.link(folder, root, "x").await), ErrorKind::WrongKind);
    assert_eq!(kind(mount.link(file, root, "d").await), ErrorKind::AlreadyExists);
    assert_eq!(kind(mount.link(file, file, "x").await), ErrorKind::WrongKind);
    assert_eq!(kind(mount.link(NodeId(file.0 + 1_000_000), root, "x").await), ErrorKind::NotFound);
    mount.unlink(root, "d", true, LEAVE).await.expect("removes");
    assert_eq!(kind(mount.link(file, folder, "x").await), ErrorKind::NotFound);
    mount.stage.set_quota(Some(9)).await;
    assert_eq!(kind(mount.link(file, root, "x").await), ErrorKind::NoSpace);
    mount.stage.set_quota(None).await;
    let link = crate::types::NewName { node: file, parent: root, name: name("x"), now_ns: 1 };
    let through = Through { share: 1, space: mount.stage.space, base: path("d"), writes: true };
    let guard = Guard { through: vec![through], ..mount.stage.guard() };
    assert!(catalogue.link(mount.stage.space, link, USUAL, &guard, Durable::Now).await.is_err(), "not through a share");
    assert_eq!(mount.at("f").await.bond, None, "nothing of it happened");
    for number in 1..FILE_NAMES_MAX {
        let names = mount.link(file, root, &format!("f{number}")).await.expect("links").names();
        assert_eq!(names, number + 1);
    }
    assert_eq!(kind(mount.link(file, root, "x").await), ErrorKind::TooLarge);
    let all = mount.rewrite(&mount.at("f").await, 3, true).await.expect("rewrites").names();
    assert_eq!(all, FILE_NAMES_MAX);
    let names = u64::from(FILE_NAMES_MAX);
    assert_eq!(mount.stage.used().await, (names * 8, names * 5));
}

pub async fn a_lock_on_one_name_is_one_on_all(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (stage, root) = (&mount.stage, mount.root);
    let folder = mount.folder(root, "d").await;
    let a = mount.file(root, "a", 5).await;
    mount.link(a.node.id, folder, "b").await.expect("links");
    catalogue.lock(stage.space, &path("a"), stage.new_lock("t", true, false), &stage.guard()).await.expect("locks");
    assert_eq!(kind(stage.try_write("d/b", 6, &stage.guard()).await), ErrorKind::Locked);
    assert_eq!(kind(mount.rewrite(&a, 6, true).await), ErrorKind::Locked);
    let other = stage.new_lock("u", true, false);
    assert_eq!(kind(catalogue.lock(stage.space, &path("d/b"), other, &stage.guard()).await), ErrorKind::Locked);
    stage.try_write("d/b", 6, &stage.holding(&["t"])).await.expect("who holds it may");
    catalogue.unlock(stage.space, &path("a"), "t", &stage.guard()).await.expect("unlocks");
    // And one on the folder of another name.
    catalogue.lock(stage.space, &path("d"), stage.new_lock("v", true, true), &stage.guard()).await.expect("locks");
    assert_eq!(kind(stage.try_write("a", 7, &stage.guard()).await), ErrorKind::Locked);
    stage.try_write("a", 7, &stage.holding(&["v"])).await.expect("who holds it may");
    assert_eq!(kind(mount.link(a.node.id, root, "c").await), ErrorKind::Locked, "nor does it get a name");
    stage.relocate("a", "e", false).await.expect("a name of its own goes where it likes");
    stage.remove("e").await.expect("and goes");
    assert_eq!(stage.node("d/b").await.expect("is there").size, 7);
}

pub async fn a_folder_that_goes_takes_its_names_out(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (stage, root) = (&mount.stage, mount.root);
    let folder = mount.folder(root, "d").await;
    let below = mount.folder(folder, "e").await;
    let first = mount.file(below, "first", 5).await.node.id;
    mount.link(first, root, "stays").await.expect("links");
    let inside = mount.file(below, "x", 3).await.node.id;
    mount.link(inside, folder, "y").await.expect("links");
    stage.remove("d").await.expect("removes");
    assert_eq!(seen(&mount, "stays").await.0, first);
    assert_eq!(seen(&mount, "stays").await.1, 1);
    stage.write("stays", 6).await;
    let entry = catalogue.trash(stage.space, None, 9).await.expect("reads").remove(0);
    catalogue.restore_trash(stage.space, entry.id, None, &stage.guard()).await.expect("puts back");
    assert_eq!(stage.tree().await, ["d/", "d/e/", "d/e/first", "d/e/x", "d/y", "stays"]);
    assert_eq!(stage.node("d/e/first").await.expect("is there").size, 5);
    stage.write("d/y", 4).await;
    assert_eq!(stage.node("d/e/x").await.expect("is there").size, 3, "what was removed together comes back as two");
    // What keeps nothing lets them go all the same.
    stage.set_retention(0, None, None).await;
    let again = stage.node("d/e/first").await.expect("is there").id;
    mount.link(again, root, "also").await.expect("links");
    stage.remove("d").await.expect("removes");
    stage.release_all().await;
    assert_eq!(seen(&mount, "also").await.1, 1);
    assert_eq!(seen(&mount, "also").await.0, again);
    assert_eq!(stage.used().await.0, 11 + 5, "stays with its version, and also");
    // And so in a space with many names.
    let folder = mount.folder(root, "d").await;
    let below = mount.folder(folder, "e").await;
    for file in ["many", "more", "most"] {
        let number = mount.file(root, file, 1).await.node.id;
        for other in 1..FILE_NAMES_MAX {
            mount.link(number, below, &format!("{file}{other}")).await.expect("links");
        }
    }
    stage.remove("d").await.expect("removes");
    for file in ["many", "more", "most"] {
        assert_eq!(seen(&mount, file).await.1, 1);
    }
}

pub async fn an_old_version_comes_back_under_all_names(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let stage = &mount.stage;
    let a = mount.file(mount.root, "a", 5).await;
    mount.rewrite(&a, 6, true).await.expect("rewrites");
    mount.link(a.node.id, mount.root, "b").await.expect("links");
    let linked = mount.at("a").await;
    mount.rewrite(&linked, 7, true).await.expect("rewrites");
    assert_eq!(stage.used().await, (2 * 7 + 2 * 6 + 5, 2 * 6 + 5));
    let versions = catalogue.versions(a.node.id).await.expect("reads");
    assert_eq!(versions.iter().map(|version| version.size).collect::<Vec<_>>(), [6, 5]);
    // Both have it.
    catalogue.restore_version(stage.space, &path("a"), versions[0].seq, &stage.guard()).await.expect("restores");
    assert_eq!((seen(&mount, "a").await, seen(&mount, "b").await.3), (seen(&mount, "b").await, 6));
    assert_eq!(stage.used().await, (2 * 7 + 2 * 6 + 5, 2 * 7 + 5), "no more bytes");
    // Of the time before it was linked, one has it.
    let versions = catalogue.versions(a.node.id).await.expect("reads");
    let oldest = versions.iter().find(|version| version.size == 5).expect("is there").seq;
    catalogue.restore_version(stage.space, &path("a"), oldest, &stage.guard()).await.expect("restores");
    assert_eq!((seen(&mount, "a").await, seen(&mount, "b").await.3), (seen(&mount, "b").await, 5));
    assert_eq!(stage.used().await, (2 * (7 + 6 + 5), 2 * (7 + 6)));
}

pub async fn names_of_one_file_are_renamed_as_posix_has_it(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let root = mount.root;
    let a = mount.file(root, "a", 5).await;
    mount.link(a.node.id, root, "b").await.expect("links");
    for taken in [Taken::Replace, Taken::Exchange] {
        let done = mount.rename((root, "a"), (root, "b"), taken).await.expect("nothing happens");
        assert_eq!((done.entry.node.name.as_str(), done.other), ("a", None));
    }
    assert_eq!(kind(mount.rename((root, "a"), (root, "b"), Taken::Refuse).await), ErrorKind::AlreadyExists);
    assert_eq!(mount.stage.tree().await, ["a", "b"]);
    mount.rename((root, "a"), (root, "c"), Taken::Replace).await.expect("renames");
    assert_eq!(mount.at("b").await.attributes(&USUAL).ctime_ns, LEAVE.now_ns, "it is the file's");
    let other = mount.file(root, "other", 6).await;
    let done = mount.rename((root, "other"), (root, "b"), Taken::Replace).await.expect("replaces");
    let replaced = done.other.expect("was there");
    assert_eq!((done.entry.number(), replaced.number(), replaced.names()), (other.node.id, a.node.id, 2));
    assert_eq!((seen(&mount, "c").await.0, seen(&mount, "c").await.1), (a.node.id, 1));
    mount.link(a.node.id, root, "d").await.expect("links");
    mount.rename((root, "c"), (root, "b"), Taken::Exchange).await.expect("exchanges");
    assert_eq!((seen(&mount, "b").await.0, seen(&mount, "b").await.1), (a.node.id, 2));
    // Other faces move and copy names, and replace them.
    mount.stage.relocate("b", "d", true).await.expect("moves over the other name");
    assert_eq!((seen(&mount, "d").await.0, seen(&mount, "d").await.1), (a.node.id, 1));
    mount.link(a.node.id, root, "e").await.expect("links");
    mount.stage.copy("c", "e", true).await.expect("copies over a name");
    assert_eq!((seen(&mount, "e").await.3, seen(&mount, "d").await.3), (6, 5));
}

pub async fn a_file_is_held_by_its_last_name(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (stage, root) = (&mount.stage, mount.root);
    stage.set_retention(0, None, None).await;
    let held = Leave { held_until_ms: Some(50_000), ..LEAVE };
    let a = mount.file(root, "a", 5).await.node.id;
    let b = mount.link(a, root, "b").await.expect("links").node.id;
    mount.unlink(root, "a", false, held).await.expect("removes");
    assert_eq!(stage.used().await, (5, 0), "who has it open has the other name");
    assert_eq!(mount.unlink(root, "b", false, held).await.expect("removes"), b);
    assert_eq!((mount.entry(a).await, stage.used().await), (None, (5, 0)));
    catalogue.hold(stage.space, vec![a], 60_000).await.expect("holds");
    assert_eq!(catalogue.expire(59_000, 10).await.expect("expires"), 0);
    catalogue.let_go(stage.space, a).await.expect("lets go, by the file's number");
    assert_eq!(stage.used().await, (0, 0));
    stage.release_all().await;
}

pub async fn a_space_that_goes_takes_its_bonds_with_it(catalogue: &Arc<dyn Catalogue>) {
    let stage = Stage::new(catalogue).await;
    let new = NewSpace {
        uid: Uid([7; 16]),
        name: "lab".to_owned(),
        owner: stage.account.id,
        wrapped_key: vec![1],
        quota_bytes: None,
        now_ms: 1,
    };
    let space = catalogue.create_space(new).await.expect("makes").id;
    let lab = Stage { catalogue: Arc::clone(catalogue), account: stage.account.clone(), space };
    lab.folder("d").await;
    lab.write("a", 5).await;
    for to in ["b", "d/c"] {
        lab.link(&path("a"), &path(to), &lab.guard()).await.expect("links");
    }
    catalogue.remove_space(space, 2_000).await.expect("removes");
    loop {
        super::finish(catalogue).await;
        if catalogue.release_garbage(1).await.expect("releases") == 0 {
            break;
        }
    }
    assert!(catalogue.all_contents(None, 9).await.expect("reads").is_empty());
}

pub async fn what_a_mount_answered_finds_the_file_by_any_number(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (stage, root) = (&mount.stage, mount.root);
    let a = mount.file(root, "a", 5).await;
    let b = mount.link(a.node.id, root, "b").await.expect("links");
    mount.unlink(root, "a", false, LEAVE).await.expect("removes");
    let numbers = catalogue.reserve(4).await.expect("reserves");
    let content_id = ContentId(numbers.start);
    let posix = USUAL.at(NOW_NS + 9);
    let rewrite = Rewrite { node: a.node.id, base: a.node.content, content: inline(6), posix, keep: true };
    let save = Deferred::Save { rewrite, content_id, at: (root, name("a")) };
    let change = NewAttributes { mode: Some(0o600), ctime_ns: NOW_NS + 10, ..NewAttributes::default() };
    let attributes = Deferred::Attributes { node: a.node.id, change, usual: USUAL };
    let new = crate::types::NewEntry {
        parent: root,
        name: name("a"),
        kind: NodeKind::File,
        posix,
        content: NewContent::Empty,
    };
    let again = Deferred::Create { id: a.node.id, new, content_id: ContentId(0) };
    let unlink = crate::types::Unlink { parent: root, name: name("b"), folder: false, leave: LEAVE };
    let late = Deferred::Unlink { unlink, node: a.node.id, content: Some(content_id) };
    let rename =
        crate::types::Rename { from: (root, name("a")), to: (root, name("z")), taken: Taken::Replace, leave: LEAVE };
    let gone = Deferred::Rename { rename, node: a.node.id, other: None };
    let changes = vec![(1, save), (2, attributes), (3, again), (4, late), (5, gone)];
    let batch = Batch { journal: [7; 16], changes };
    let answers = catalogue.apply(stage.space, batch, &stage.guard(), Durable::Now).await.expect("applies");
    let answers: Vec<Applied> = answers.into_iter().map(|answer| answer.expect("is made")).collect();
    let made = |answer: &Applied| matches!(answer, Applied::Made(entry) if entry.node.id == b.node.id && entry.node.content == Some(content_id));
    assert!(answers[..3].iter().all(made), "{answers:#?}");
    assert_eq!(answers[3], Applied::Late, "that name is another node");
    assert_eq!(answers[4], Applied::Late, "that name is gone, and others stay where they are");
    assert_eq!(mount.stage.tree().await, ["b"]);
    assert_eq!(mount.at("b").await.attributes(&USUAL).mode, 0o600);
}
