//! Changes that were answered first: what the server makes of them, and what it refuses.

use crate::rig::{NAME, Rig, body, named, new_file, posix};
use crate::{save, until};
use bytes::Bytes;
use holdfast_base::{ByteRange, ContentId, ErrorKind, NodeId};
use holdfast_drive::{
    Applied, BATCH_CHANGES_MAX, Batch, Deferred, Deferring, Durable, Leave, NewAttributes, NewContent, NewEntry,
    NodeKind, Rename, Rewrite, Taken, Tree, Unlink,
};
use holdfast_remote::client::Remote;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// A mount's journal, as far as a batch shows it.
struct Journal {
    id: [u8; 16],
    next: u64,
    numbers: Range<i64>,
}

impl Journal {
    async fn new(tree: &dyn Deferring) -> Self {
        Self { id: [7; 16], next: 1, numbers: tree.reserve(1_000).await.expect("reserves") }
    }

    fn number(&mut self) -> i64 {
        self.numbers.next().expect("there are more")
    }

    fn create(&mut self, parent: NodeId, name: &str, kind: NodeKind) -> (NodeId, Deferred) {
        let id = NodeId(self.number());
        let new = NewEntry { parent, name: named(name), kind, posix: posix(), content: NewContent::Empty };
        (id, Deferred::Create { id, new, content_id: ContentId(0) })
    }

    fn save(&mut self, node: NodeId, content: NewContent, at: (NodeId, &str)) -> (ContentId, Deferred) {
        let content_id = ContentId(self.number());
        let rewrite = Rewrite { node, base: None, content, posix: posix(), keep: false };
        (content_id, Deferred::Save { rewrite, content_id, at: (at.0, named(at.1)) })
    }

    fn batch(&mut self, changes: Vec<Deferred>) -> Batch {
        let changes = changes.into_iter().map(|change| {
            self.next += 1;
            (self.next - 1, change)
        });
        Batch { journal: self.id, changes: changes.collect() }
    }
}

async fn read(tree: &dyn Tree, content: ContentId) -> Vec<u8> {
    let open = tree.open(content).await.expect("opens");
    open.read(ByteRange::whole(open.size())).await.expect("reads")
}

/// Waits until what is known is believed.
async fn listening(rig: &Rig, remote: &Remote) {
    let root = remote.root();
    until(|| async {
        remote.entry(root).await.expect("asked");
        let before = rig.harm.calls.load(Ordering::SeqCst);
        remote.entry(root).await.expect("asked");
        rig.harm.calls.load(Ordering::SeqCst) == before
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_handed_over_by_one_request_and_known_after_it() {
    let rig = Rig::new().await;
    let (remote, local) = (rig.deferring().await, rig.local().await);
    listening(&rig, &remote).await;
    remote.may_change().await.expect("may");
    let mut journal = Journal::new(&remote).await;
    let root = remote.root();
    let (folder, make_folder) = journal.create(root, "d", NodeKind::Folder);
    let (mut changes, mut files) = (vec![make_folder], Vec::new());
    for number in 0..100 {
        let (name, plain) = (format!("f{number}"), vec![number; 40 * usize::from(number)]);
        let (file, make) = journal.create(folder, &name, NodeKind::File);
        let sealed = remote.seal_small(&plain).expect("seals").small().expect("is small");
        assert_eq!(remote.open_small(&sealed).expect("opens"), plain);
        let (content, save) = journal.save(file, sealed, (folder, &name));
        changes.extend([make, save]);
        files.push((name, file, content, plain));
    }
    let change = NewAttributes { mode: Some(0o600), ctime_ns: posix().ctime_ns, ..NewAttributes::default() };
    changes.push(Deferred::Attributes { node: files[1].1, change, usual: posix() });
    let before = rig.harm.calls.load(Ordering::SeqCst);
    let answers = remote.apply(journal.batch(changes), Durable::Soon).await.expect("hands over");
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Applied::Made(_)))), "{answers:?}");
    assert_eq!(rig.harm.calls.load(Ordering::SeqCst) - before, 1);
    for (name, file, content, plain) in &files {
        let there = local.lookup(folder, &named(name)).await.expect("asked").expect("is there");
        assert_eq!((there.node.id, there.node.size), (*file, plain.len() as u64));
        if !plain.is_empty() {
            assert_eq!(there.node.content, Some(*content));
            assert_eq!(&read(&*local, *content).await, plain, "the server opens what this side sealed");
        }
        assert_eq!(remote.entry(*file).await.expect("asked").as_ref(), Some(&there));
        assert_eq!(remote.lookup(folder, &named(name)).await.expect("asked").as_ref(), Some(&there));
        assert_eq!(remote.lookup(folder, &named(&format!("{name}-not"))).await.expect("asked"), None);
    }
    for node in [folder, root] {
        assert_eq!(remote.entry(node).await.expect("asked"), local.entry(node).await.expect("asked"));
    }
    // The stream of changes may have been opened anew meanwhile; then some are asked again, once.
    let asked = rig.harm.calls.load(Ordering::SeqCst) - before;
    assert!(asked < 10, "{asked} requests for 301 questions");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_renamed_and_removed_is_known_after_it_and_locks_are_asked_for_once_a_second() {
    let rig = Rig::new().await;
    let (remote, local) = (rig.deferring().await, rig.local().await);
    listening(&rig, &remote).await;
    remote.may_change().await.expect("may");
    assert!(!remote.has_locks().await.expect("asks"));
    assert_eq!(remote.seq().await.expect("asks"), None);
    let mut journal = Journal::new(&remote).await;
    let root = remote.root();
    let leave = Leave { now_ns: posix().ctime_ns + 5, held_until_ms: None, forget_after_ms: 0 };
    let rename = |node, (from, to), other, taken| {
        let rename = Rename { from: (root, named(from)), to: (root, named(to)), taken, leave };
        Deferred::Rename { rename, node, other }
    };
    let (one, make_one) = journal.create(root, "one", NodeKind::File);
    let (two, make_two) = journal.create(root, "two", NodeKind::File);
    let (three, make_three) = journal.create(root, "three", NodeKind::File);
    let (four, make_four) = journal.create(root, "one", NodeKind::File);
    let unlink = Unlink { parent: root, name: named("three"), folder: false, leave };
    let changes = vec![
        make_one,
        make_two,
        make_three,
        rename(one, ("one", "moved"), None, Taken::Refuse),
        make_four,
        rename(two, ("two", "moved"), Some((one, None)), Taken::Replace),
        Deferred::Unlink { unlink, node: three, content: None },
        Deferred::Passed { node: NodeId(journal.number()), folder: root, now_ns: leave.now_ns + 1 },
    ];
    let batch = journal.batch(changes);
    let answers = remote.apply(batch.clone(), Durable::Soon).await.expect("hands over");
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Applied::Made(_) | Applied::Gone(_)))), "{answers:?}");
    let before = rig.harm.calls.load(Ordering::SeqCst);
    for (name, expected) in [("one", Some(four)), ("two", None), ("three", None), ("moved", Some(two))] {
        let found = remote.lookup(root, &named(name)).await.expect("asked");
        assert_eq!(found.as_ref().map(|entry| entry.node.id), expected, "{name}");
        assert_eq!(found, local.lookup(root, &named(name)).await.expect("asked"));
    }
    assert_eq!(remote.entry(root).await.expect("asked"), local.entry(root).await.expect("asked"));
    assert!(!remote.has_locks().await.expect("asks"));
    // The stream of changes may have been opened anew meanwhile; then some are asked again, once.
    assert!(rig.harm.calls.load(Ordering::SeqCst) - before <= 6, "names that are free are known to be");
    for gone in [one, three] {
        assert_eq!(remote.entry(gone).await.expect("asked"), None);
    }
    // Two change places, with an answer that is lost.
    rig.harm.swallow.store(1, Ordering::SeqCst);
    let swap = rename(two, ("moved", "one"), Some((four, None)), Taken::Exchange);
    remote.apply(journal.batch(vec![swap]), Durable::Soon).await.expect("hands over");
    for (name, expected) in [("one", two), ("moved", four)] {
        let found = remote.lookup(root, &named(name)).await.expect("asked");
        assert_eq!(found.map(|entry| entry.node.id), Some(expected));
    }
    let again = remote.apply(batch, Durable::Soon).await.expect("hands over");
    assert!(again.iter().all(|answer| matches!(answer, Ok(Applied::Before))), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn own_changes_are_known_and_those_of_others_are_seen() {
    let rig = Rig::new().await;
    let (one, other, local) = (rig.remote().await, rig.remote().await, rig.local().await);
    listening(&rig, &one).await;
    let root = one.root();
    let asked = || rig.harm.calls.load(Ordering::SeqCst);
    let mut quiet = 0;
    for round in 0..20 {
        let (name, known) = (named(&format!("f{round}")), named(&format!("k{round}")));
        local.create(new_file(root, known.as_str()), Bytes::new(), Durable::Now).await.expect("made");
        until(|| async { one.lookup(root, &known).await.expect("asked").is_some() }).await;
        // Its event comes a moment later, and has everything asked for again.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        one.lookup(root, &known).await.expect("asked");
        one.entry(root).await.expect("asked");
        let made = one.create(new_file(root, name.as_str()), Bytes::new(), Durable::Now).await.expect("made");
        let saved = one.save(save(made.node.id, None, 5, posix()), body(b"hello")).await.expect("saved");
        let change = NewAttributes { mode: Some(0o600), ctime_ns: 5, ..NewAttributes::default() };
        let changed = one.set_attributes(made.node.id, change, posix()).await.expect("changed");
        assert_eq!(changed.node.content, saved.node.content);
        // Their events come a moment later, and change nothing.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let before = asked();
        assert_eq!(one.lookup(root, &name).await.expect("asked").as_ref(), Some(&changed));
        assert_eq!(one.entry(made.node.id).await.expect("asked"), Some(changed));
        let there = one.lookup(root, &known).await.expect("asked").expect("there");
        let above = one.entry(root).await.expect("asked");
        quiet += u32::from(asked() == before);
        assert_eq!(above, local.entry(root).await.expect("asked"), "the folder's times are known, too");
        assert_eq!(Some(there), local.lookup(root, &known).await.expect("asked"));
        // What another client makes of the same file is seen.
        let change = NewAttributes { mode: Some(0o611), ctime_ns: 6, ..NewAttributes::default() };
        other.set_attributes(made.node.id, change, posix()).await.expect("changed");
        let is_seen = || async {
            let seen = one.entry(made.node.id).await.expect("asked").expect("there");
            seen.posix.expect("has some").mode == 0o611
        };
        until(is_seen).await;
    }
    assert!(quiet >= 15, "only {quiet} of 20 rounds asked nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_answer_is_lost_is_done_once() {
    let rig = Rig::new().await;
    let (remote, local) = (rig.deferring().await, rig.local().await);
    let mut journal = Journal::new(&remote).await;
    let root = remote.root();
    rig.harm.swallow.store(u64::MAX, Ordering::SeqCst);
    for round in 0..6_u8 {
        let name = format!("f{round}");
        // Somebody has one of the names already.
        if round == 3 {
            local.create(new_file(root, &name), Bytes::new(), Durable::Now).await.expect("made");
        }
        let (file, make) = journal.create(root, &name, NodeKind::File);
        let sealed = remote.seal_small(&[round; 9]).expect("seals").small().expect("is small");
        let (content, save) = journal.save(file, sealed, (root, &name));
        let answers = remote.apply(journal.batch(vec![make, save]), Durable::Soon).await.expect("hands over");
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let aside = answers.iter().any(|answer| matches!(answer, Ok(Applied::Aside(_))));
        assert_eq!(
            aside,
            round == 3,
            "that it is beside another is told, however often the answer was lost: {answers:?}"
        );
        assert_eq!(read(&*local, content).await, [round; 9]);
    }
    let names = local.list(root, None, 100).await.expect("listed");
    let names: Vec<&str> = names.iter().map(|entry| entry.node.name.as_str()).collect();
    assert_eq!(names, ["f0", "f1", "f2", "f3", "f3 (2)", "f4", "f5"]);
    assert!(rig.harm.swallowed.load(Ordering::SeqCst) > 6, "answers were lost");
}

/// What a client of ours never hands over.
#[tokio::test(flavor = "multi_thread")]
async fn lies_are_refused_one_by_one_and_take_nothing_from_others() {
    let rig = Rig::new().await;
    let (remote, local) = (rig.deferring().await, rig.local().await);
    let mut journal = Journal::new(&remote).await;
    let (root, mine) = (remote.root(), journal.numbers.clone());
    let theirs = Journal::new(&*local).await.numbers;
    let there = local.create(new_file(root, "there"), Bytes::new(), Durable::Now).await.expect("made").node.id;
    let sealed = remote.seal_small(b"hello").expect("seals").small().expect("is small");
    let NewContent::Inline { nonce, tag, sealed: bytes, .. } = sealed.clone() else { unreachable!("it is inline") };
    let lie = |size| NewContent::Inline { size, nonce, tag, sealed: bytes.clone() };
    let (first, make) = journal.create(root, "first", NodeKind::File);
    let (_, save_first) = journal.save(first, sealed.clone(), (root, "first"));
    let with = |id: i64, name: &str, content: NewContent, content_id: i64| {
        let new = NewEntry { parent: root, name: named(name), kind: NodeKind::File, posix: posix(), content };
        Deferred::Create { id: NodeId(id), new, content_id: ContentId(content_id) }
    };
    let (number, more) = (mine.end - 1, mine.end - 2);
    let changes = vec![
        make,
        with(theirs.start, "of others", NewContent::Empty, 0),
        with(mine.end + 1_000_000, "of nobody", NewContent::Empty, 0),
        with(there.0, "of a file", NewContent::Empty, 0),
        with(-1, "negative", NewContent::Empty, 0),
        with(number, "a content of others", sealed.clone(), theirs.start),
        with(number, "larger", lie(6), more),
        with(number, "smaller", lie(1), more),
        with(number, "nothing", lie(0), more),
        with(number, "huge", lie(u64::MAX), more),
        save_first,
    ];
    let (count, kinds) = (changes.len(), |answer: &Result<Applied, holdfast_base::Error>| {
        answer.as_ref().err().map(holdfast_base::Error::kind)
    });
    let answers = remote.apply(journal.batch(changes), Durable::Soon).await.expect("answers each");
    for (at, answer) in answers.iter().enumerate() {
        let refused = (at != 0 && at != count - 1).then_some(ErrorKind::InvalidInput);
        assert_eq!(kinds(answer), refused, "{at}: {answer:?}");
    }
    let names = local.list(root, None, 100).await.expect("listed");
    assert_eq!(names.iter().map(|entry| entry.node.name.as_str()).collect::<Vec<_>>(), ["first", "there"]);
    // Another's journal of the same name is another journal.
    let (_, change) = Journal { numbers: theirs, ..Journal::new(&remote).await }.create(root, "local", NodeKind::File);
    let batch = Batch { journal: journal.id, changes: vec![(1, change)] };
    let answers = local.apply(batch, Durable::Soon).await.expect("applies");
    assert!(matches!(answers[..], [Ok(Applied::Made(_))]), "{answers:?}");
    let many = vec![with(number, "x", NewContent::Empty, 0); BATCH_CHANGES_MAX + 1];
    assert_eq!(
        remote.apply(journal.batch(many), Durable::Soon).await.expect_err("too many").kind(),
        ErrorKind::TooLarge
    );
    // Keys are for whoever comes with a token of its own, and are opened by that alone.
    let mut other = rig.remote().await;
    let wrong = holdfast_auth::Secret::new(rig.token.expose().replace(|c: char| c.is_ascii_digit(), "a"));
    assert!(other.take_keys(&wrong).await.is_err());
    let handed = rig.engine.handed_keys(&rig.who, NAME).await.expect("hands out");
    assert!(!handed.slot.is_empty() && !handed.wrapped.is_empty());
}
