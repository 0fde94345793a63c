use super::*;
use crate::behind::after::after;
use holdfast_base::SpaceId;
use holdfast_drive::{Leave, NewEntry, Node, NodeKind, Rename, Rewrite, Unlink};

const ROOT: NodeId = NodeId(100);
const LEAVE: Leave = Leave { now_ns: 50_000_000, held_until_ms: None, forget_after_ms: 0 };

fn name(text: &str) -> NodeName {
    NodeName::new(text).expect("a good name")
}

fn inline(size: u64) -> NewContent {
    NewContent::Inline { size, nonce: [0; 16], tag: [0; 16], sealed: vec![1] }
}

/// A view, the changes in it, and what the catalogue has beside it.
#[derive(Default)]
struct Stage {
    view: View,
    there: HashMap<NodeId, Entry>,
}

impl Stage {
    /// What the catalogue has.
    fn put(&mut self, id: i64, parent: NodeId, at: &str, kind: NodeKind) -> NodeId {
        let node = Node {
            id: NodeId(id),
            space: SpaceId(1),
            parent: Some(parent),
            name: at.to_owned(),
            kind,
            content: None,
            size: 0,
            seq: 0,
            created_ms: 0,
            modified_ms: 0,
            has_properties: false,
        };
        self.there.insert(NodeId(id), Entry::new(node, Some(Posix::default())));
        NodeId(id)
    }

    fn add(&mut self, change: &Deferred) {
        let shown = |node: NodeId| self.view.shown(node).or_else(|| self.there.get(&node).cloned());
        let before = (shown(change.node()), change.other().and_then(shown));
        let after = after(change, before, SpaceId(1)).expect("there is something to be changed");
        self.view.add(change, after);
    }

    fn create(&mut self, id: i64, parent: NodeId, at: &str, kind: NodeKind) -> Deferred {
        let posix = Posix::default().at(id * 1_000_000);
        let new = NewEntry { parent, name: name(at), kind, posix, content: NewContent::Empty };
        let change = Deferred::Create { id: NodeId(id), new, content_id: ContentId(0) };
        self.add(&change);
        change
    }

    fn save(&mut self, node: NodeId, content: i64, at: (NodeId, &str)) -> Deferred {
        let rewrite = Rewrite { node, base: None, content: inline(7), posix: Posix::default(), keep: false };
        let change = Deferred::Save { rewrite, content_id: ContentId(content), at: (at.0, name(at.1)) };
        self.add(&change);
        change
    }

    fn unlink(&mut self, node: NodeId, at: (NodeId, &str)) -> Deferred {
        let unlink = Unlink { parent: at.0, name: name(at.1), folder: false, leave: LEAVE };
        let change = Deferred::Unlink { unlink, node, content: None };
        self.add(&change);
        change
    }

    fn rename(
        &mut self,
        node: NodeId,
        (from, to): ((NodeId, &str), (NodeId, &str)),
        other: Option<NodeId>,
        taken: Taken,
    ) -> Deferred {
        let rename = Rename { from: (from.0, name(from.1)), to: (to.0, name(to.1)), taken, leave: LEAVE };
        let change = Deferred::Rename { rename, node, other: other.map(|other| (other, None)) };
        self.add(&change);
        change
    }

    fn child(&self, folder: NodeId, at: &str) -> Option<i64> {
        match self.view.child(folder, at) {
            Child::Is(entry) => {
                assert_eq!((entry.node.parent, entry.node.name.as_str()), (Some(folder), at));
                Some(entry.node.id.0)
            }
            Child::IsNone => Some(0),
            Child::Unknown => None,
        }
    }

    /// Names in a folder with their nodes; 0 for what is gone.
    fn members(&self, folder: NodeId, after: Option<&str>, limit: usize) -> Vec<(String, i64)> {
        let after = after.map(name);
        let members = self.view.members(folder, after.as_ref(), limit).into_iter();
        members.map(|(name, entry)| (name, entry.map_or(0, |entry| entry.node.id.0))).collect()
    }

    /// Nothing is held any more.
    fn is_empty(&self) -> bool {
        let View { nodes, names, contents, unsynced, touched, content_bytes, changes } = &self.view;
        nodes.is_empty()
            && names.is_empty()
            && contents.is_empty()
            && unsynced.is_empty()
            && touched.is_empty()
            && (*content_bytes, *changes) == (0, 0)
    }
}

#[test]
fn what_is_made_renamed_and_removed_is_seen_so_until_each_change_is_done() {
    let mut stage = Stage::default();
    let make = stage.create(1, ROOT, "a", NodeKind::File);
    let save = stage.save(NodeId(1), 9, (ROOT, "a"));
    assert_eq!((stage.child(ROOT, "a"), stage.child(ROOT, "b")), (Some(1), None));
    assert!(stage.view.content(ContentId(9)).is_some());
    let rename = stage.rename(NodeId(1), ((ROOT, "a"), (ROOT, "b")), None, Taken::Refuse);
    assert_eq!((stage.child(ROOT, "a"), stage.child(ROOT, "b")), (Some(0), Some(1)));
    assert_eq!(stage.members(ROOT, None, 9), [("a".to_owned(), 0), ("b".to_owned(), 1)]);
    let unlink = stage.unlink(NodeId(1), (ROOT, "b"));
    assert_eq!((stage.child(ROOT, "a"), stage.child(ROOT, "b")), (Some(0), Some(0)));
    assert!(stage.view.is_gone(NodeId(1)) && stage.view.entry(NodeId(1)).is_none());
    assert!(!stage.view.has_members(ROOT), "what is gone is no member");
    // The name of one that is gone may be another's at once.
    let other = stage.create(2, ROOT, "b", NodeKind::File);
    assert_eq!(stage.child(ROOT, "b"), Some(2));
    for change in [make, save, rename] {
        stage.view.done(&change, None);
        assert_eq!(stage.child(ROOT, "b"), Some(2));
        assert!(stage.view.is_gone(NodeId(1)));
    }
    assert_eq!(stage.child(ROOT, "a"), None, "the catalogue knows");
    stage.view.done(&unlink, None);
    assert_eq!((stage.child(ROOT, "b"), stage.view.is_gone(NodeId(1))), (Some(2), false));
    stage.view.done(&other, None);
    assert!(stage.is_empty());
}

#[test]
fn two_change_places_and_what_is_replaced_is_gone() {
    let mut stage = Stage::default();
    let folder = stage.put(5, ROOT, "d", NodeKind::Folder);
    let (one, two) = (stage.put(1, ROOT, "one", NodeKind::File), stage.put(2, folder, "two", NodeKind::File));
    let places = ((ROOT, "one"), (folder, "two"));
    let swap = stage.rename(one, places, Some(two), Taken::Exchange);
    assert_eq!((stage.child(ROOT, "one"), stage.child(folder, "two")), (Some(2), Some(1)));
    let ctime = |stage: &Stage, node| stage.view.entry(node).and_then(|entry| entry.posix).map(|posix| posix.ctime_ns);
    assert_eq!((ctime(&stage, one), ctime(&stage, two)), (Some(LEAVE.now_ns), Some(LEAVE.now_ns)));
    assert!(stage.view.touched(ROOT).is_some() && stage.view.touched(folder).is_some());
    let replace = stage.rename(two, places, Some(one), Taken::Replace);
    assert_eq!((stage.child(ROOT, "one"), stage.child(folder, "two")), (Some(0), Some(2)));
    assert!(stage.view.is_gone(one) && !stage.view.is_gone(two));
    stage.view.done(&swap, None);
    assert_eq!((stage.child(ROOT, "one"), stage.child(folder, "two")), (Some(0), Some(2)));
    stage.view.done(&replace, None);
    assert!(stage.is_empty());
}

#[test]
fn members_of_a_folder_that_is_new_or_moved_are_found_by_its_number() {
    let mut stage = Stage::default();
    let made = stage.create(1, ROOT, "d", NodeKind::Folder);
    let below = stage.create(2, NodeId(1), "f", NodeKind::File);
    let moved = stage.rename(NodeId(1), ((ROOT, "d"), (ROOT, "e")), None, Taken::Replace);
    assert_eq!((stage.child(NodeId(1), "f"), stage.child(NodeId(1), "g")), (Some(2), Some(0)), "all of it is known");
    assert!(stage.view.has_members(NodeId(1)));
    let gone = stage.unlink(NodeId(2), (NodeId(1), "f"));
    assert!(!stage.view.has_members(NodeId(1)) && stage.view.has_names(NodeId(1)));
    for change in [made, below, moved] {
        stage.view.done(&change, None);
    }
    assert_eq!(stage.child(NodeId(1), "g"), None, "now the catalogue has it");
    stage.view.done(&gone, None);
    assert!(stage.is_empty());
}

#[test]
fn a_saved_file_is_listed_as_it_is_and_under_its_new_name_only() {
    let mut stage = Stage::default();
    let file = stage.put(1, ROOT, "a", NodeKind::File);
    let first = stage.save(file, 9, (ROOT, "a"));
    assert_eq!(stage.members(ROOT, None, 9), [("a".to_owned(), 1)]);
    let rename = stage.rename(file, ((ROOT, "a"), (ROOT, "b")), None, Taken::Replace);
    let second = stage.save(file, 10, (ROOT, "b"));
    stage.view.done(&first, None);
    assert_eq!(stage.members(ROOT, None, 9), [("a".to_owned(), 0), ("b".to_owned(), 1)]);
    stage.view.done(&rename, None);
    assert_eq!(stage.members(ROOT, None, 9), [("b".to_owned(), 1)], "others may have the first by now");
    assert_eq!(stage.view.entry(file).map(|entry| entry.node.size), Some(7));
    stage.view.done(&second, None);
    assert!(stage.is_empty());
}

#[test]
fn what_was_put_beside_goes_on_there_unless_it_was_renamed_since() {
    for renamed in [false, true] {
        let mut stage = Stage::default();
        let make = stage.create(1, ROOT, "f", NodeKind::File);
        let save = stage.save(NodeId(1), 9, (ROOT, "f"));
        let rename = renamed.then(|| stage.rename(NodeId(1), ((ROOT, "f"), (ROOT, "g")), None, Taken::Replace));
        let mut beside = stage.view.entry(NodeId(1)).expect("is there").clone();
        beside.node.name = "f (2)".to_owned();
        stage.view.done(&make, Some(&Applied::Aside(beside)));
        let shown = stage.view.entry(NodeId(1)).expect("is there").node.name.clone();
        if renamed {
            assert_eq!((shown.as_str(), stage.child(ROOT, "f"), stage.child(ROOT, "g")), ("g", Some(0), Some(1)));
        } else {
            assert_eq!((shown.as_str(), stage.child(ROOT, "f")), ("f (2)", None), "the other has the name");
            assert!(stage.members(ROOT, None, 9).is_empty(), "and the catalogue has this one");
        }
        stage.view.done(&save, None);
        if let Some(rename) = rename {
            stage.view.done(&rename, None);
        }
        assert!(stage.is_empty());
    }
}

#[test]
fn pages_go_as_far_as_they_have_members_and_times_follow_what_was_set() {
    let mut stage = Stage::default();
    for id in 1..=6 {
        stage.put(id, ROOT, &format!("f{id}"), NodeKind::File);
        if id % 2 == 0 {
            stage.unlink(NodeId(id), (ROOT, &format!("f{id}")));
        } else {
            stage.save(NodeId(id), 10 + id, (ROOT, &format!("f{id}")));
        }
    }
    let names = |found: Vec<(String, i64)>| found.into_iter().map(|(name, node)| name + &node.to_string()).collect();
    let page: Vec<String> = names(stage.members(ROOT, None, 2));
    assert_eq!(page, ["f11", "f20", "f33"]);
    let page: Vec<String> = names(stage.members(ROOT, Some("f3"), 2));
    assert_eq!(page, ["f40", "f55", "f60"]);
    let folder = stage.put(9, ROOT, "d", NodeKind::Folder);
    stage.create(10, folder, "x", NodeKind::File);
    let mut shown = stage.there[&folder].clone();
    stage.view.show(&mut shown);
    assert_eq!(shown.node.modified_ms, 10);
    let change = holdfast_drive::NewAttributes { mtime_ns: Some(3_000_000), ..Default::default() };
    stage.add(&Deferred::Attributes { node: folder, change, usual: Posix::default() });
    assert_eq!(stage.view.shown(folder).expect("waits").node.modified_ms, 3, "what was set last");
    stage.create(11, folder, "y", NodeKind::File);
    assert_eq!(stage.view.shown(folder).expect("waits").node.modified_ms, 11);
}
