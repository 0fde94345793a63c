//! Nodes by number, with the attributes that a mount keeps.

use super::stage::{Stage, inline, kind};
use crate::catalogue::Catalogue;
use crate::types::{
    Durable, Entry, Leave, NewAttributes, NewContent, NewEntry, NewName, NodeKind, Posix, Rename, Rewrite, Special,
    Taken, Unlink, XATTRS_BYTES_MAX, XattrRule,
};
use holdfast_base::{ErrorKind, NodeId, NodeName, Result};
use std::sync::Arc;

pub(super) const NOW_NS: i64 = 2_000_123_456;
pub(super) const USUAL: Posix = Posix {
    special: Special::None,
    mode: 0o640,
    uid: 7,
    gid: 8,
    rdev: 0,
    atime_ns: 0,
    mtime_ns: 0,
    ctime_ns: 0,
    xattrs: 0,
};
/// Leaves as the space keeps things.
pub(super) const LEAVE: Leave = Leave { now_ns: NOW_NS + 5, held_until_ms: None, forget_after_ms: i64::MAX };

pub(super) fn name(text: &str) -> NodeName {
    NodeName::new(text).expect("a good name")
}

/// What a mount does, shortly.
pub(super) struct Mount {
    pub(super) stage: Stage,
    pub(super) root: NodeId,
}

impl Mount {
    pub(super) async fn new(catalogue: &Arc<dyn Catalogue>) -> Self {
        let stage = Stage::new(catalogue).await;
        let root = stage.node("").await.expect("a root").id;
        Self { stage, root }
    }

    pub(super) async fn try_make(
        &self,
        parent: NodeId,
        at: &str,
        kind: NodeKind,
        content: NewContent,
    ) -> Result<Entry> {
        let posix = USUAL.at(NOW_NS);
        let new = NewEntry { parent, name: name(at), kind, posix, content };
        let made = self.stage.catalogue.create_entry(self.stage.space, new, &self.stage.guard(), Durable::Soon).await?;
        Ok(made.expect("misses no blocks"))
    }

    pub(super) async fn file(&self, parent: NodeId, at: &str, bytes: u64) -> Entry {
        let content = if bytes == 0 { NewContent::Empty } else { inline(bytes) };
        self.try_make(parent, at, NodeKind::File, content).await.expect(at)
    }

    pub(super) async fn folder(&self, parent: NodeId, at: &str) -> NodeId {
        self.try_make(parent, at, NodeKind::Folder, NewContent::Empty).await.expect(at).node.id
    }

    pub(super) async fn link(&self, node: NodeId, parent: NodeId, at: &str) -> Result<Entry> {
        let link = NewName { node, parent, name: name(at), now_ns: NOW_NS + 3 };
        self.stage.catalogue.link(self.stage.space, link, USUAL, &self.stage.guard(), Durable::Soon).await
    }

    /// A member of the root.
    pub(super) async fn at(&self, at: &str) -> Entry {
        let found = self.stage.catalogue.entry_in(self.stage.space, self.root, &name(at)).await.expect("reads");
        found.expect(at)
    }

    pub(super) async fn unlink(&self, parent: NodeId, at: &str, folder: bool, leave: Leave) -> Result<NodeId> {
        let unlink = Unlink { parent, name: name(at), folder, leave };
        self.stage.catalogue.unlink(self.stage.space, unlink, &self.stage.guard(), Durable::Soon).await
    }

    pub(super) async fn rename(
        &self,
        from: (NodeId, &str),
        to: (NodeId, &str),
        taken: Taken,
    ) -> Result<crate::types::Renamed> {
        let rename = Rename { from: (from.0, name(from.1)), to: (to.0, name(to.1)), taken, leave: LEAVE };
        self.stage.catalogue.rename(self.stage.space, rename, &self.stage.guard(), Durable::Soon).await
    }

    pub(super) async fn entry(&self, node: NodeId) -> Option<Entry> {
        self.stage.catalogue.entry(self.stage.space, node).await.expect("reads")
    }

    pub(super) async fn rewrite(&self, entry: &Entry, bytes: u64, keep: bool) -> Result<Entry> {
        let posix = Posix { mtime_ns: NOW_NS + 9, ctime_ns: NOW_NS + 9, ..USUAL };
        let rewrite = Rewrite { node: entry.node.id, base: entry.node.content, content: inline(bytes), posix, keep };
        let guard = self.stage.guard();
        let done = self.stage.catalogue.rewrite(self.stage.space, rewrite, &guard, Durable::Now).await?;
        Ok(done.expect("misses no blocks"))
    }
}

pub async fn a_node_is_made_with_its_attributes_and_content(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let folder = mount.folder(mount.root, "d").await;
    let made = mount.file(folder, "f", 5).await;
    assert_eq!(mount.entry(made.node.id).await, Some(made.clone()));
    let found = catalogue.entry_in(mount.stage.space, folder, &name("f")).await.expect("reads");
    assert_eq!(found, Some(made.clone()));
    assert_eq!(made.attributes(&Posix::default()).mtime_ns, NOW_NS, "to the nanosecond");
    assert_eq!((made.node.size, made.node.modified_ms), (5, 2_000));
    assert_eq!(mount.stage.tree().await, ["d/", "d/f"]);
    assert_eq!(mount.stage.used().await, (5, 0));
    let again = mount.try_make(folder, "f", NodeKind::File, NewContent::Empty).await;
    assert_eq!(kind(again), ErrorKind::AlreadyExists);
    let below_a_file = mount.try_make(made.node.id, "x", NodeKind::File, NewContent::Empty).await;
    assert_eq!(kind(below_a_file), ErrorKind::WrongKind);
    catalogue.settle().await.expect("syncs");
    let elsewhere = holdfast_base::SpaceId(mount.stage.space.0 + 1_000);
    assert_eq!(catalogue.entry(elsewhere, folder).await.expect("reads"), None);
}

pub async fn members_come_in_pages_with_their_attributes(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    for at in ["a", "b", "c"] {
        mount.file(mount.root, at, 1).await;
    }
    // This one came another way, and has no attributes of its own.
    mount.stage.write("d", 1).await;
    let page = |after: Option<NodeName>, limit| {
        let (catalogue, space, root) = (catalogue.clone(), mount.stage.space, mount.root);
        async move {
            let page = catalogue.entries(space, root, after.as_ref(), limit).await.expect("reads");
            page.into_iter().map(|entry| (entry.node.name, entry.posix.is_some())).collect::<Vec<_>>()
        }
    };
    assert_eq!(page(None, 2).await, [("a".to_owned(), true), ("b".to_owned(), true)]);
    assert_eq!(page(Some(name("b")), 100).await, [("c".to_owned(), true), ("d".to_owned(), false)]);
}

pub async fn attributes_change_and_hold_until_another_face_writes(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let file = mount.file(mount.root, "f", 5).await;
    let (space, guard) = (mount.stage.space, mount.stage.guard());
    let change = NewAttributes {
        mode: Some(0o4755),
        gid: Some(99),
        mtime_ns: Some(77_000_000_001),
        ctime_ns: 88_000_000_002,
        ..NewAttributes::default()
    };
    let changed =
        catalogue.set_attributes(space, file.node.id, change, USUAL, &guard, Durable::Now).await.expect("changes");
    let posix = changed.attributes(&USUAL);
    assert_eq!((posix.mode, posix.uid, posix.gid, posix.mtime_ns), (0o4755, 7, 99, 77_000_000_001));
    assert_eq!((changed.node.seq, changed.node.modified_ms), (file.node.seq, 77_000), "the entity tag stays");
    assert_eq!(mount.entry(file.node.id).await, Some(changed));
    let written = mount.stage.try_write("f", 6, &mount.stage.guard_at(99_000)).await.expect("writes").node;
    assert_eq!(written.id, file.node.id);
    let posix = mount.entry(file.node.id).await.expect("is there").attributes(&USUAL);
    assert_eq!((posix.mode, posix.mtime_ns, posix.ctime_ns), (0o4755, 99_000_000_000, 99_000_000_000));
    let copy = mount.stage.copy("f", "g", false).await.expect("copies").node;
    assert_eq!(mount.entry(copy.id).await.expect("is there").attributes(&USUAL).mode, 0o4755);
}

pub async fn a_link_is_a_file_to_others_and_becomes_one_when_they_write(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let posix = Posix { special: Special::Link, mode: 0o777, ..USUAL.at(NOW_NS) };
    let new = NewEntry { parent: mount.root, name: name("l"), kind: NodeKind::File, posix, content: inline(9) };
    let guard = mount.stage.guard();
    let made = catalogue.create_entry(mount.stage.space, new, &guard, Durable::Now).await.expect("makes").expect("all");
    let node = mount.stage.node("l").await.expect("is there");
    assert_eq!((node.kind, node.size), (NodeKind::File, 9));
    mount.stage.relocate("l", "m", false).await.expect("moves");
    let special = |entry: Option<Entry>| entry.expect("is there").posix.expect("has attributes").special;
    assert_eq!(special(mount.entry(made.node.id).await), Special::Link);
    mount.stage.write("m", 20).await;
    assert_eq!(special(mount.entry(made.node.id).await), Special::None, "new bytes are no target");
}

pub async fn a_file_is_rewritten_only_from_what_it_is(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let first = mount.file(mount.root, "f", 5).await;
    let second = mount.rewrite(&first, 6, true).await.expect("rewrites");
    assert_eq!(mount.stage.used().await, (11, 5));
    assert_eq!(second.attributes(&USUAL).mtime_ns, NOW_NS + 9);
    let third = mount.rewrite(&second, 7, false).await.expect("rewrites");
    assert_eq!(mount.stage.used().await, (12, 5), "what was there for a moment is not kept");
    assert_eq!(kind(mount.rewrite(&second, 8, true).await), ErrorKind::PreconditionFailed);
    mount.stage.relocate("f", "g", false).await.expect("moves");
    mount.rewrite(&third, 8, true).await.expect("another name is the same file");
    mount.stage.remove("g").await.expect("removes");
    assert_eq!(kind(mount.rewrite(&third, 8, true).await), ErrorKind::NotFound);
}

pub async fn names_go_as_posix_has_it(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let folder = mount.folder(mount.root, "d").await;
    mount.file(folder, "f", 5).await;
    assert_eq!(kind(mount.unlink(mount.root, "d", true, LEAVE).await), ErrorKind::Conflict);
    assert_eq!(kind(mount.unlink(mount.root, "d", false, LEAVE).await), ErrorKind::WrongKind);
    assert_eq!(kind(mount.unlink(folder, "f", true, LEAVE).await), ErrorKind::WrongKind);
    assert_eq!(kind(mount.unlink(folder, "g", false, LEAVE).await), ErrorKind::NotFound);
    mount.unlink(folder, "f", false, LEAVE).await.expect("removes");
    assert_eq!(catalogue.trash(mount.stage.space, None, 10).await.expect("reads").len(), 1, "what has bytes is kept");
    mount.unlink(mount.root, "d", true, LEAVE).await.expect("removes");
    let in_a_folder_that_is_gone = mount.try_make(folder, "x", NodeKind::File, NewContent::Empty).await;
    assert_eq!(kind(in_a_folder_that_is_gone), ErrorKind::NotFound);
    assert_eq!(mount.entry(folder).await, None);
    mount.file(mount.root, "brief", 5).await;
    let brief = Leave { forget_after_ms: 1_000, ..LEAVE };
    mount.unlink(mount.root, "brief", false, brief).await.expect("removes");
    mount.file(mount.root, "empty", 0).await;
    mount.unlink(mount.root, "empty", false, LEAVE).await.expect("removes");
    assert_eq!(catalogue.trash(mount.stage.space, None, 10).await.expect("reads").len(), 2, "these leave no trace");
    assert_eq!(mount.stage.used().await, (5, 0));
    while catalogue.release_garbage(100).await.expect("releases") > 0 {}
}

pub async fn a_rename_replaces_refuses_or_exchanges(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let root = mount.root;
    let (one, two) = (mount.folder(root, "one").await, mount.folder(root, "two").await);
    let (first, second) = (mount.file(one, "f", 5).await, mount.file(two, "f", 6).await);
    assert_eq!(kind(mount.rename((one, "f"), (two, "f"), Taken::Refuse).await), ErrorKind::AlreadyExists);
    assert_eq!(kind(mount.rename((one, "f"), (two, "x"), Taken::Exchange).await), ErrorKind::NotFound);
    assert_eq!(kind(mount.rename((one, "f"), (root, "two"), Taken::Replace).await), ErrorKind::WrongKind);
    assert_eq!(kind(mount.rename((root, "one"), (root, "two"), Taken::Replace).await), ErrorKind::Conflict);
    assert_eq!(kind(mount.rename((root, "one"), (one, "x"), Taken::Replace).await), ErrorKind::InvalidInput);
    assert_eq!(kind(mount.rename((one, "f"), (root, "one"), Taken::Exchange).await), ErrorKind::InvalidInput);
    mount.rename((one, "f"), (one, "f"), Taken::Replace).await.expect("nothing happens");
    let done = mount.rename((one, "f"), (two, "f"), Taken::Exchange).await.expect("exchanges");
    assert_eq!(done.other.map(|other| other.node.id), Some(second.node.id));
    assert_eq!(done.entry.node.parent, Some(two));
    assert_eq!(done.entry.attributes(&USUAL).ctime_ns, LEAVE.now_ns);
    assert_eq!(mount.entry(second.node.id).await.expect("is there").node.parent, Some(one));
    let done = mount.rename((one, "f"), (two, "f"), Taken::Replace).await.expect("replaces");
    assert_eq!((done.entry.node.id, done.other.map(|it| it.node.id)), (second.node.id, Some(first.node.id)));
    assert_eq!(mount.stage.tree().await, ["one/", "two/", "two/f"]);
    mount.rename((root, "two"), (root, "one"), Taken::Replace).await.expect("an empty folder may be replaced");
    assert_eq!(mount.stage.tree().await, ["one/", "one/f"]);
    assert_eq!(mount.stage.used().await, (11, 0), "what was replaced is in the trash");
}

pub async fn what_is_open_stays_until_it_is_let_go(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    mount.stage.set_retention(0, None, None).await;
    let held = Leave { held_until_ms: Some(50_000), ..LEAVE };
    for at in ["closed", "crashed"] {
        mount.file(mount.root, at, 5).await;
    }
    let closed = mount.unlink(mount.root, "closed", false, held).await.expect("removes");
    let crashed = mount.unlink(mount.root, "crashed", false, held).await.expect("removes");
    assert_eq!(mount.entry(closed).await, None, "it has no name");
    assert_eq!(catalogue.expire(49_000, 10).await.expect("expires"), 0);
    assert_eq!(mount.stage.used().await, (10, 0));
    catalogue.hold(mount.stage.space, vec![crashed], 60_000).await.expect("holds");
    catalogue.let_go(mount.stage.space, closed).await.expect("lets go");
    assert_eq!(mount.stage.used().await, (5, 0));
    catalogue.let_go(mount.stage.space, closed).await.expect("again is harmless");
    assert_eq!(catalogue.expire(59_000, 10).await.expect("expires"), 0);
    assert_eq!(catalogue.expire(61_000, 10).await.expect("expires"), 1);
    while catalogue.release_garbage(100).await.expect("releases") > 0 {}
    assert_eq!(mount.stage.used().await, (0, 0));
}

pub async fn extended_attributes_are_set_by_rule_and_bounded(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let node = mount.file(mount.root, "f", 5).await.node.id;
    let set = |name: &str, value: Option<Vec<u8>>, rule| {
        let (catalogue, space, guard) = (catalogue.clone(), mount.stage.space, mount.stage.guard());
        let change = (name.to_owned(), value, rule);
        async move { catalogue.set_xattr(space, node, change, (USUAL, NOW_NS), &guard).await }
    };
    let value = || Some(b"\0\xff".to_vec());
    assert_eq!(kind(set("user.a", value(), XattrRule::Replace).await), ErrorKind::NotFound);
    set("user.a", value(), XattrRule::Create).await.expect("sets");
    assert_eq!(kind(set("user.a", value(), XattrRule::Create).await), ErrorKind::AlreadyExists);
    let entry = set("user.b", Some(Vec::new()), XattrRule::Any).await.expect("sets");
    assert_eq!(entry.posix.map(|posix| posix.xattrs), Some(2));
    let big = Some(vec![1; XATTRS_BYTES_MAX]);
    assert_eq!(kind(set("user.c", big, XattrRule::Any).await), ErrorKind::TooLarge);
    let all = catalogue.xattrs(node).await.expect("reads");
    assert_eq!(all, [("user.a".to_owned(), b"\0\xff".to_vec()), ("user.b".to_owned(), Vec::new())]);
    set("user.a", None, XattrRule::Any).await.expect("removes");
    assert_eq!(kind(set("user.a", None, XattrRule::Any).await), ErrorKind::NotFound);
    let copy = mount.stage.copy("f", "g", false).await.expect("copies").node.id;
    assert_eq!(catalogue.xattrs(copy).await.expect("reads").len(), 1);
    mount.stage.set_retention(0, None, None).await;
    mount.stage.remove("f").await.expect("removes");
    while catalogue.release_garbage(100).await.expect("releases") > 0 {}
    assert_eq!(catalogue.xattrs(node).await.expect("reads"), []);
}
