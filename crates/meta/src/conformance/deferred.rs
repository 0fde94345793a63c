//! Changes that a mount answered before they came here.

use super::stage::{BLOCK, Stage, block, blocks, claimed, inline, kind, written};
use crate::catalogue::Catalogue;
use crate::types::{
    Applied, BATCH_CHANGES_MAX, Batch, Deferred, Durable, Entry, GIVEN_MS, Leave, NewAttributes, NewContent, NewEntry,
    NodeKind, Posix, Rewrite, Unlink,
};
use holdfast_base::{ContentId, Error, ErrorKind, NodeId, NodeName, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub(super) const NOW_NS: i64 = 3_000_000_123;

pub(super) fn name(text: &str) -> NodeName {
    NodeName::new(text).expect("a good name")
}

fn posix(now_ns: i64) -> Posix {
    Posix { mode: 0o640, uid: 7, gid: 8, ..Posix::default() }.at(now_ns)
}

/// A mount that answers first.
pub(super) struct Mount {
    pub(super) stage: Stage,
    pub(super) root: NodeId,
    next: AtomicI64,
    end: i64,
}

impl Mount {
    pub(super) async fn new(catalogue: &Arc<dyn Catalogue>) -> Self {
        let stage = Stage::new(catalogue).await;
        let root = stage.node("").await.expect("a root").id;
        let numbers = catalogue.reserve(64).await.expect("gives out");
        Self { stage, root, next: AtomicI64::new(numbers.start), end: numbers.end }
    }

    fn number(&self) -> i64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(number < self.end);
        number
    }

    pub(super) fn create(&self, parent: NodeId, at: &str, kind: NodeKind) -> (NodeId, Deferred) {
        let id = NodeId(self.number());
        let new = NewEntry { parent, name: name(at), kind, posix: posix(NOW_NS), content: NewContent::Empty };
        (id, Deferred::Create { id, new, content_id: ContentId(0) })
    }

    pub(super) fn save(
        &self,
        node: NodeId,
        base: Option<ContentId>,
        bytes: u64,
        at: (NodeId, &str),
    ) -> (ContentId, Deferred) {
        let content_id = ContentId(self.number());
        let rewrite = Rewrite { node, base, content: inline(bytes), posix: posix(NOW_NS + 1), keep: true };
        (content_id, Deferred::Save { rewrite, content_id, at: (at.0, name(at.1)) })
    }

    pub(super) async fn apply(&self, changes: Vec<(u64, Deferred)>) -> Vec<Result<Applied>> {
        let batch = Batch { journal: [3; 16], changes };
        let guard = self.stage.guard();
        self.stage.catalogue.apply(self.stage.space, batch, &guard, Durable::Soon).await.expect("applies")
    }

    pub(super) async fn entry(&self, node: NodeId) -> Entry {
        let found = self.stage.catalogue.entry(self.stage.space, node).await.expect("reads");
        found.expect("is there")
    }
}

pub async fn what_is_made_and_written_in_one_batch_is_there_once(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (folder, make_folder) = mount.create(mount.root, "d", NodeKind::Folder);
    let (file, make_file) = mount.create(folder, "f", NodeKind::File);
    let (other, make_other) = mount.create(folder, "g", NodeKind::File);
    let (content, save) = mount.save(file, None, 5, (folder, "f"));
    let changes = vec![(1, make_folder), (2, make_file), (3, make_other), (4, save)];
    let answers = mount.apply(changes).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Applied::Made(_)))), "{answers:?}");
    assert_eq!(mount.stage.tree().await, ["d/", "d/f", "d/g"]);
    let entry = mount.entry(file).await;
    assert_eq!((entry.node.content, entry.node.size, entry.node.modified_ms), (Some(content), 5, 3_000));
    assert_eq!(entry.posix, Some(posix(NOW_NS + 1)));
    assert_eq!(mount.entry(other).await.node.size, 0);
    assert_eq!(mount.stage.used().await, (5, 0));
    // What comes later is made of what came before, by numbers that were known all along.
    let (_, again) = mount.save(file, Some(content), 6, (folder, "f"));
    assert!(matches!(&mount.apply(vec![(5, again)]).await[..], [Ok(Applied::Made(entry))] if entry.node.size == 6));
    assert_eq!(mount.stage.used().await, (11, 5), "the first is an old version");
    let (_, one_more) = mount.save(file, None, 1, (folder, "f"));
    let batch = Batch { journal: [3; 16], changes: vec![(6, one_more); BATCH_CHANGES_MAX + 1] };
    let refused = catalogue.apply(mount.stage.space, batch, &mount.stage.guard(), Durable::Soon).await;
    assert_eq!(kind(refused), ErrorKind::TooLarge);
}

pub async fn content_in_blocks_is_made_by_its_number(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let pack = mount.stage.pack(7).await;
    let saves = |node, base, at, content| {
        let (content_id, Deferred::Save { rewrite, at, .. }) = mount.save(node, base, 1, (mount.root, at)) else {
            unreachable!("a save was asked for")
        };
        (content_id, Deferred::Save { rewrite: Rewrite { content, ..rewrite }, content_id, at })
    };
    let (file, make_file) = mount.create(mount.root, "f", NodeKind::File);
    let (other, make_other) = mount.create(mount.root, "g", NodeKind::File);
    // A block twice, and the same one in another file that waited beside it.
    let (content, save) = saves(file, None, "f", blocks(vec![written(1, pack), written(2, pack), claimed(1)]));
    let (_, save_other) = saves(other, None, "g", blocks(vec![written(2, pack)]));
    let answers = mount.apply(vec![(1, make_file), (2, make_other), (3, save.clone()), (4, save_other)]).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Applied::Made(_)))), "{answers:?}");
    let entry = mount.entry(file).await;
    assert_eq!((entry.node.content, entry.node.size), (Some(content), 3 * u64::from(BLOCK)));
    let found = catalogue.content(content).await.expect("reads").expect("is there");
    assert_eq!((found.blocks, found.block_bytes), (3, BLOCK));
    let ids = [block(1), block(2), block(3)];
    let places = catalogue.block_places(mount.stage.space, &ids).await.expect("reads");
    assert_eq!(places.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(mount.stage.used().await.0, 4 * u64::from(BLOCK));
    // A block that nobody wrote is refused by itself.
    let (_, lost) = saves(file, Some(content), "f", blocks(vec![written(4, pack), claimed(3)]));
    let (_, well) = saves(other, entry_content(&mount, other).await, "g", blocks(vec![claimed(1)]));
    let answers = mount.apply(vec![(5, lost), (6, well)]).await;
    let kinds: Vec<_> = answers.iter().map(|answer| answer.as_ref().map(drop).map_err(Error::kind)).collect();
    assert_eq!(kinds, [Err(ErrorKind::InvalidInput), Ok(())]);
    assert_eq!(mount.entry(file).await.node.content, Some(content));
    let answered = |journal, numbers: &[u64]| catalogue.answered(mount.stage.space, journal, numbers.to_vec());
    assert_eq!(answered([3; 16], &[1, 3, 5, 6, 7]).await.expect("answers"), [true, true, false, true, false]);
    assert_eq!(answered([4; 16], &[1]).await.expect("answers"), [false]);
    assert_eq!(answered([3; 16], &[]).await.expect("answers"), []);
    assert!(matches!(&mount.apply(vec![(3, save)]).await[..], [Ok(Applied::Before)]));
}

async fn entry_content(mount: &Mount, node: NodeId) -> Option<ContentId> {
    mount.entry(node).await.node.content
}

pub async fn going_through_a_journal_again_changes_nothing(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (file, make) = mount.create(mount.root, "f", NodeKind::File);
    let (_, save) = mount.save(file, None, 5, (mount.root, "f"));
    mount.apply(vec![(1, make.clone())]).await;
    mount.apply(vec![(2, save.clone())]).await;
    let before = mount.entry(file).await;
    for again in [vec![(1, make.clone()), (2, save.clone())], vec![(2, save.clone())]] {
        assert!(mount.apply(again).await.iter().all(|answer| matches!(answer, Ok(Applied::Before))));
    }
    // Nor if nobody knows of the journal any more.
    let batch = Batch { journal: [4; 16], changes: vec![(1, make.clone()), (2, save.clone())] };
    let guard = mount.stage.guard();
    catalogue.apply(mount.stage.space, batch, &guard, Durable::Now).await.expect("applies");
    assert_eq!(mount.entry(file).await, before);
    assert_eq!(mount.stage.used().await, (5, 0));
    // After the file was renamed, replaced or removed, what was done stays undone.
    mount.stage.remove("f").await.expect("removes");
    assert!(matches!(mount.apply(vec![(1, make), (2, save)]).await[..], [Ok(Applied::Before), Ok(Applied::Before)]));
    assert!(mount.stage.tree().await.is_empty());
}

pub async fn one_refusal_spoils_nothing_else(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    mount.stage.set_quota(Some(10)).await;
    let (small, make_small) = mount.create(mount.root, "small", NodeKind::File);
    let (large, make_large) = mount.create(mount.root, "large", NodeKind::File);
    let (folder, make_folder) = mount.create(mount.root, "folder", NodeKind::Folder);
    let (_, save_small) = mount.save(small, None, 4, (mount.root, "small"));
    let (first, save_large) = mount.save(large, None, 40, (mount.root, "large"));
    let (_, save_large_again) = mount.save(large, Some(first), 2, (mount.root, "large"));
    let attributes = |node| Deferred::Attributes {
        node,
        change: NewAttributes { mode: Some(0o600), ctime_ns: NOW_NS + 2, ..NewAttributes::default() },
        usual: Posix::default(),
    };
    let changes = vec![
        (1, make_small),
        (2, make_large),
        (3, save_large),
        (4, save_small),
        (5, save_large_again),
        (6, make_folder),
        (7, attributes(NodeId(mount.number()))),
        (8, attributes(small)),
    ];
    let answers = mount.apply(changes).await;
    let refused: Vec<_> = answers.into_iter().map(|answer| answer.err().map(|error| error.kind())).collect();
    let full = Some(ErrorKind::NoSpace);
    let expected = [None, full, full, None, Some(ErrorKind::Unavailable), None, Some(ErrorKind::NotFound), None];
    assert_eq!(refused, expected, "what comes after a refusal waits with it");
    assert_eq!(mount.stage.tree().await, ["folder/", "small"]);
    assert_eq!(mount.stage.used().await, (4, 0));
    assert_eq!(mount.entry(small).await.posix.map(|posix| posix.mode), Some(0o600));
    assert_eq!(mount.entry(folder).await.node.kind, NodeKind::Folder);
    let (_, forged) = mount.create(mount.root, "forged", NodeKind::File);
    let Deferred::Create { new, content_id, .. } = forged else { unreachable!() };
    let forged = Deferred::Create { id: NodeId(i64::MAX - 1), new, content_id };
    assert_eq!(kind(mount.apply(vec![(9, forged)]).await.remove(0)), ErrorKind::InvalidInput);
}

pub async fn what_was_refused_may_come_again(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    mount.stage.set_quota(Some(10)).await;
    let (file, make) = mount.create(mount.root, "f", NodeKind::File);
    let (_, save) = mount.save(file, None, 40, (mount.root, "f"));
    let (_, other) = mount.create(mount.root, "g", NodeKind::File);
    let changes = vec![(1, make), (2, save), (3, other)];
    assert!(matches!(mount.apply(changes.clone()).await[..], [Err(_), Err(_), Ok(Applied::Made(_))]));
    assert!(matches!(mount.apply(changes.clone()).await[..], [Err(_), Err(_), Ok(Applied::Before)]));
    mount.stage.set_quota(None).await;
    assert!(matches!(
        mount.apply(changes.clone()).await[..],
        [Ok(Applied::Made(_)), Ok(Applied::Made(_)), Ok(Applied::Before)]
    ));
    assert!(mount.apply(changes).await.iter().all(|answer| matches!(answer, Ok(Applied::Before))));
    assert_eq!(mount.entry(file).await.node.size, 40);
    assert_eq!(mount.stage.used().await, (40, 0));
    // So may what was left out.
    let ((_, fourth), (_, fifth)) =
        (mount.create(mount.root, "h", NodeKind::File), mount.create(mount.root, "i", NodeKind::File));
    assert!(matches!(mount.apply(vec![(5, fifth.clone())]).await[..], [Ok(Applied::Made(_))]));
    let answers = mount.apply(vec![(4, fourth), (5, fifth)]).await;
    assert!(matches!(answers[..], [Ok(Applied::Made(_)), Ok(Applied::Before)]));
    let far = mount.create(mount.root, "j", NodeKind::File).1;
    let batch = Batch { journal: [3; 16], changes: vec![(u64::MAX, far)] };
    let refused = catalogue.apply(mount.stage.space, batch, &mount.stage.guard(), Durable::Soon).await;
    assert_eq!(kind(refused), ErrorKind::InvalidInput);
}

pub async fn what_others_did_meanwhile_is_kept_beside(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let root = mount.root;
    let aside = |answer: &Result<Applied>| match answer {
        Ok(Applied::Aside(entry)) => entry.node.name.clone(),
        other => panic!("{other:?}"),
    };
    // The name was taken.
    mount.stage.write("f.txt", 1).await;
    let (file, make) = mount.create(root, "f.txt", NodeKind::File);
    let (content, save) = mount.save(file, None, 5, (root, "f.txt"));
    let answers = mount.apply(vec![(1, make), (2, save)]).await;
    assert_eq!((aside(&answers[0]), aside(&answers[1])), ("f (2).txt".to_owned(), "f (2).txt".to_owned()));
    assert_eq!(mount.entry(file).await.node.size, 5, "by its own number");
    // The file was changed.
    mount.stage.write("f (2).txt", 7).await;
    let (_, save) = mount.save(file, Some(content), 9, (root, "f (2).txt"));
    assert_eq!(aside(&mount.apply(vec![(3, save)]).await[0]), "f (2) (2).txt");
    assert_eq!(
        (mount.entry(file).await.node.size, mount.stage.node("f (2) (2).txt").await.expect("is there").size),
        (7, 9)
    );
    // The file was removed.
    let (_, save) = mount.save(file, Some(content), 11, (root, "f (2).txt"));
    mount.stage.remove("f (2).txt").await.expect("removes");
    assert_eq!(aside(&mount.apply(vec![(4, save)]).await[0]), "f (2) (3).txt");
    // The folder was removed.
    let folder = mount.stage.folder("d").await.id;
    mount.stage.remove("d").await.expect("removes");
    let (lost, make) = mount.create(folder, "lost", NodeKind::Folder);
    let (_, below) = mount.create(lost, "below", NodeKind::File);
    let answers = mount.apply(vec![(5, make), (6, below)]).await;
    assert_eq!(aside(&answers[0]), "lost");
    assert!(matches!(answers[1], Ok(Applied::Made(_))));
    assert!(mount.stage.tree().await.contains(&"lost/below".to_owned()));
}

pub async fn times_of_folders_and_attributes_come_in_order(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (folder, make_folder) = mount.create(mount.root, "d", NodeKind::Folder);
    let (file, make_file) = mount.create(folder, "f", NodeKind::File);
    let times = |node| Deferred::Attributes {
        node,
        change: NewAttributes { mtime_ns: Some(77), ctime_ns: NOW_NS + 9, ..NewAttributes::default() },
        usual: Posix::default(),
    };
    let (_, save) = mount.save(file, None, 5, (folder, "f"));
    // What was set after the file was made in it is what the folder has; what was set before the file was written is not.
    mount.apply(vec![(1, make_folder), (2, make_file), (3, times(folder)), (4, times(file)), (5, save)]).await;
    assert_eq!(mount.entry(folder).await.posix.map(|posix| posix.mtime_ns), Some(77));
    assert_eq!(mount.entry(file).await.posix.map(|posix| posix.mtime_ns), Some(NOW_NS + 1));
    let leave = Leave { now_ns: NOW_NS + 50, held_until_ms: None, forget_after_ms: i64::MAX };
    let content = mount.entry(file).await.node.content;
    let unlink = |node| {
        let unlink = Unlink { parent: folder, name: name("f"), folder: false, leave };
        Deferred::Unlink { unlink, node, content }
    };
    let answers = mount.apply(vec![(6, unlink(folder)), (7, unlink(file))]).await;
    assert!(matches!(answers[0], Ok(Applied::Late)), "it is another node");
    assert!(matches!(answers[1], Ok(Applied::Gone(node)) if node == file));
    assert_eq!(mount.entry(folder).await.posix.map(|posix| posix.mtime_ns), Some(NOW_NS + 50));
}

pub async fn numbers_that_were_given_are_remembered(catalogue: &Arc<dyn Catalogue>) {
    let stage = Stage::new(catalogue).await;
    let (bo, _) = Stage::account(catalogue, "bo").await;
    let (space, ana) = (stage.space, stage.account.id);
    let given =
        async |account, numbers: &[i64]| catalogue.given(space, account, numbers.to_vec()).await.expect("looks");
    let one = catalogue.give(space, ana, 100, 1_000).await.expect("gives");
    let two = catalogue.give(space, ana, 5, 2_000).await.expect("gives");
    let folder = stage.folder("d").await.id.0;
    let three = catalogue.give(space, ana, 5, 3_000).await.expect("gives");
    let asked = [one.start, one.end - 1, two.start, three.end - 1, folder, one.start - 1, three.end, i64::MAX, -1];
    assert_eq!(given(ana, &asked).await, [true, true, true, true, false, false, false, false, false]);
    assert_eq!(given(bo.id, &asked[..4]).await, [false; 4], "to nobody else");
    // They are forgotten when others are given a long time after.
    let late = catalogue.give(space, bo.id, 1, 3_001 + GIVEN_MS).await.expect("gives");
    assert_eq!(given(ana, &asked[..4]).await, [false; 4]);
    assert_eq!(given(bo.id, &[late.start]).await, [true]);
}

pub async fn a_folder_has_no_content(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let (_, make) = mount.create(mount.root, "d", NodeKind::Folder);
    let Deferred::Create { id, new, .. } = make else { unreachable!("it makes a folder") };
    let new = NewEntry { content: inline(5), ..new };
    let answers = mount.apply(vec![(1, Deferred::Create { id, new, content_id: ContentId(mount.number()) })]).await;
    assert_eq!(answers[0].as_ref().err().map(holdfast_base::Error::kind), Some(ErrorKind::InvalidInput));
    assert!(mount.stage.tree().await.is_empty());
}

pub async fn numbers_are_given_out_once(catalogue: &Arc<dyn Catalogue>) {
    let mount = Mount::new(catalogue).await;
    let mut given: Vec<i64> = Vec::new();
    for count in [1, 100, 5_000, 0] {
        let range = catalogue.reserve(count).await.expect("gives out");
        assert!(!range.is_empty() && range.end - range.start <= i64::from(count.max(1)));
        given.extend(range);
        given.push(mount.stage.folder(&format!("d{count}")).await.id.0);
    }
    let all = given.len();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), all);
}
