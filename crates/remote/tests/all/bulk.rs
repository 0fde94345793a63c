//! Content that goes sealed in both directions, whole and in parts.

use crate::rig::{NAME, Rig, body, bytes, named};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, DrivePath, Error, ErrorKind, Uid};
use holdfast_drive::{Conditions, Content, Drive, Entry, Expect, Location, NameTaken, WriteOptions};
use holdfast_remote::client::{Block, Options, Sending, Space};
use holdfast_remote::wire::{Begin, Put, Seen, Sent};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

const LENGTH: usize = 3 * BLOCK_BYTES + 77_777;

async fn space(rig: &Rig) -> Space {
    connect(rig, &DrivePath::root(), 0).await.0
}

async fn connect(rig: &Rig, path: &DrivePath, contents: usize) -> (Space, Seen) {
    let target = format!("http://{}", rig.address).parse().expect("an address");
    let connected = Space::connect(&Options::new(target), Some(2), &rig.token, (path, contents)).await;
    let (space, seen) = connected.expect("connects");
    (space, seen.expect("was told"))
}

fn path(name: &str) -> DrivePath {
    DrivePath::parse(name).expect("a path")
}

fn begin(name: &str, length: usize) -> Begin {
    Begin {
        path: path(name),
        length: length as u64,
        name_taken: NameTaken::Fail,
        expect_seq: None,
        modified_ms: 1_700_000_000_123,
        key: "a source".into(),
    }
}

async fn entries(space: &Space, content: &[u8]) -> Vec<Sending> {
    let mut entries = Vec::new();
    for plain in content.chunks(BLOCK_BYTES) {
        let block = space.identify(Bytes::copy_from_slice(plain)).await.expect("hashed");
        entries.push(space.seal(block).await.expect("sealed"));
    }
    entries
}

async fn send(space: &Space, begun: &Sent, entries: Vec<Sending>) -> Result<Sent, Error> {
    space.send(begun.upload, begun.offset, stream::iter(entries), || ()).await
}

async fn entry(space: &Space, name: &str) -> Option<Entry> {
    space.lookup(space.root(), &named(name)).await.expect("asked")
}

/// What a content is when it is opened on this side.
async fn read(space: &Space, entry: &Entry) -> Vec<u8> {
    let contents = vec![entry.node.content.expect("has content")];
    let content: Content = space.layouts(contents).await.expect("told").remove(0).expect("is there");
    if content.inline.is_some() {
        return space.open_tiny(&content).expect("opened").into();
    }
    let chunk = space.manifest(&content, 0).await.expect("told");
    let mut plain = Vec::new();
    for (index, id) in (0..).zip(&chunk.blocks) {
        let record = space.record(content.id, index, || ()).await.expect("fetched");
        plain.extend(space.open(*id, record).await.expect("opened"));
    }
    plain
}

/// What the server makes of it.
async fn stored(rig: &Rig, name: &str) -> Vec<u8> {
    let tree = rig.local().await;
    let entry = tree.lookup(tree.root(), &named(name)).await.expect("asked").expect("is there");
    let open = tree.open(entry.node.content.expect("has content")).await.expect("opened");
    open.read(holdfast_base::ByteRange::whole(open.size())).await.expect("read")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sealed_here_is_the_file_there_and_back() {
    let rig = Rig::new().await;
    let space = space(&rig).await;
    let content = bytes(1, LENGTH);
    let begun = space.begin(begin("file", LENGTH), &[]).await.expect("begun");
    let sent = send(&space, &begun, entries(&space, &content).await).await.expect("sent");
    let entry = entry(&space, "file").await.expect("is there");
    assert_eq!(sent.node, Some((entry.node.id, entry.node.seq)));
    assert_eq!((entry.node.size, entry.node.modified_ms), (LENGTH as u64, 1_700_000_000_123));
    assert!(stored(&rig, "file").await == content, "as the server opens it");
    assert!(read(&space, &entry).await == content, "as it is opened here");

    let (at, words) = (Location { space: NAME.into(), path: path("tiny") }, Bytes::from_static(b"a few words"));
    let body = stream::iter([Ok(words)]).boxed();
    rig.engine.write(&rig.who, &at, WriteOptions::default(), body).await.expect("written");
    let tiny = crate::bulk::entry(&space, "tiny").await.expect("is there");
    assert_eq!(read(&space, &tiny).await, b"a few words");
}

/// What is asked for, then names on the way, members, and contents.
type Row = (&'static str, usize, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

#[tokio::test(flavor = "multi_thread")]
async fn what_is_at_a_path_comes_with_the_connection() {
    let rig = Rig::new().await;
    for folder in ["a", "a/b"] {
        let at = Location { space: NAME.into(), path: path(folder) };
        rig.engine.make_folder(&rig.who, &at, Conditions::default()).await.expect("made");
    }
    for name in ["a/b/one", "a/b/two", "a/c"] {
        let (at, words) = (Location { space: NAME.into(), path: path(name) }, Bytes::from(format!("in {name}")));
        let body = stream::iter([Ok(words)]).boxed();
        rig.engine.write(&rig.who, &at, WriteOptions::default(), body).await.expect("written");
    }
    let rows: [Row; 7] = [
        ("", 9, &[""], &["a"], &[]),
        ("a", 9, &["", "a"], &["b", "c"], &["in a/c"]),
        ("a/b", 9, &["", "a", "b"], &["one", "two"], &["in a/b/one", "in a/b/two"]),
        ("a/b", 1, &["", "a", "b"], &["one", "two"], &["in a/b/one"]),
        ("a/b/one", 9, &["", "a", "b", "one"], &[], &["in a/b/one"]),
        ("a/x/y", 9, &["", "a"], &[], &[]),
        ("a/c/y", 9, &["", "a", "c"], &[], &[]),
    ];
    for (asked, most, way, members, contents) in rows {
        let (space, seen) = connect(&rig, &path(asked), most).await;
        let names = |entries: &[Entry]| entries.iter().map(|entry| entry.node.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&seen.way[1..]), way[1..], "{asked}");
        assert_eq!(names(&seen.members), members, "{asked}");
        let opened = seen.contents.iter().map(|content| space.open_tiny(content).expect("opened"));
        assert_eq!(opened.collect::<Vec<_>>(), contents, "{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_broke_off_goes_on_at_a_whole_block() {
    let rig = Rig::new().await;
    let space = space(&rig).await;
    let content = bytes(2, LENGTH);
    let all = entries(&space, &content).await;
    let begun = space.begin(begin("file", LENGTH), &[]).await.expect("begun");
    let (tell, told) = mpsc::channel(4);
    let feed = stream::unfold(told, |mut told| async { told.recv().await.map(|entry: Sending| (entry, told)) });
    let sending = tokio::spawn({
        let space = space.clone();
        async move { space.send(begun.upload, 0, feed, || ()).await }
    });
    for entry in &all[..2] {
        tell.send(entry.clone()).await.expect("listens");
    }
    // What arrived is staged without the part's end.
    let took = crate::until(|| async {
        let again = space.begin(begin("file", LENGTH), &[]).await.expect("found");
        again.upload == begun.upload && again.offset >= BLOCK_BYTES as u64
    });
    drop(tell.send(all[2].clone()).await);
    took.await;
    sending.abort();
    let _ = sending.await;
    drop(tell);
    let again = space.begin(begin("file", LENGTH), &[]).await.expect("found");
    let blocks = usize::try_from(again.offset).expect("small") / BLOCK_BYTES;
    assert_eq!(again.offset % BLOCK_BYTES as u64, 0);
    // The part before may still be staging what it has: then this one is told so, and asks again.
    let mut sent = send(&space, &again, all[blocks..].to_vec()).await;
    while let Err(error) = sent {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let again = space.begin(begin("file", LENGTH), &[]).await.expect("found");
        let blocks = usize::try_from(again.offset).expect("small") / BLOCK_BYTES;
        sent = send(&space, &again, all[blocks..].to_vec()).await;
    }
    assert!(sent.expect("sent").node.is_some());
    assert!(stored(&rig, "file").await == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_record_that_broke_off_only_the_rest_comes_again() {
    let rig = Rig::new().await;
    let space = space(&rig).await;
    let content = bytes(10, LENGTH);
    let begun = space.begin(begin("file", LENGTH), &[]).await.expect("begun");
    send(&space, &begun, entries(&space, &content).await).await.expect("sent");
    let id = entry(&space, "file").await.expect("is there").node.content.expect("has content");
    let whole = space.record(id, 1, || ()).await.expect("fetched");

    let (limit, came) = (304 << 10, Arc::new(AtomicU64::new(0)));
    let hold = async || {
        came.store(0, Ordering::SeqCst);
        rig.harm.bytes.store(limit, Ordering::SeqCst);
        let before = rig.harm.answered.load(Ordering::SeqCst);
        let (space, told) = (space.clone(), came.clone());
        let fetching = tokio::spawn(async move {
            let moved = move || {
                told.fetch_add(1, Ordering::SeqCst);
            };
            space.record(id, 1, moved).await
        });
        let has_begun = async || {
            let answered = rig.harm.answered.load(Ordering::SeqCst) - before;
            answered >= limit && came.load(Ordering::SeqCst) > 0
        };
        crate::until(&has_begun).await;
        rig.harm.bytes.store(0, Ordering::SeqCst);
        (fetching, rig.harm.answered.load(Ordering::SeqCst))
    };
    // Whoever asked gives it up, and asks later.
    let (fetching, before) = hold().await;
    fetching.abort();
    let _ = fetching.await;
    assert!(space.record(id, 1, || ()).await.expect("fetched") == whole);
    let answered = rig.harm.answered.load(Ordering::SeqCst) - before;
    assert!(answered < whole.len() as u64 && answered >= whole.len() as u64 - limit, "{answered}");
    // The connection ends, and it is asked for by the next one.
    let (fetching, before) = hold().await;
    rig.harm.cut.notify_waiters();
    assert!(fetching.await.expect("no panic").expect("fetched") == whole);
    let answered = rig.harm.answered.load(Ordering::SeqCst) - before;
    assert!(answered < whole.len() as u64 && answered >= whole.len() as u64 - limit, "{answered}");
    // Nothing of it is left for a third time.
    let before = rig.harm.answered.load(Ordering::SeqCst);
    assert!(space.record(id, 1, || ()).await.expect("fetched") == whole);
    assert_eq!(rig.harm.answered.load(Ordering::SeqCst) - before, whole.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_for_which_there_is_no_room_comes_in_copies() {
    let rig = Rig::new().await;
    let space = space(&rig).await;
    let content = bytes(11, LENGTH);
    let begun = space.begin(begin("file", LENGTH), &[]).await.expect("begun");
    send(&space, &begun, entries(&space, &content).await).await.expect("sent");
    let id = entry(&space, "file").await.expect("is there").node.content.expect("has content");
    let whole = space.record(id, 1, || ()).await.expect("fetched");

    let ask = async |skip| rig.engine.record(&rig.who, NAME, (id, 1), skip).await;
    let pieces = async |skip| {
        let record = ask(skip).await.expect("answered");
        let pieces: Vec<Bytes> = record.content.map(|piece| piece.expect("read")).collect().await;
        assert_eq!(record.bytes, pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
        pieces
    };
    assert!(pieces(0).await == std::slice::from_ref(&whole));
    // So slow that they have not taken anything.
    let mut slow = Vec::new();
    for _ in 0..12 {
        slow.push(ask(0).await.expect("answered"));
    }
    let copied = pieces(0).await;
    assert!(copied.len() > 3 && copied.concat() == whole, "{}", copied.len());
    for skip in [1, 70_000, whole.len() - 1, whole.len()] {
        assert!(pieces(skip as u64).await.concat() == whole[skip..], "behind {skip}");
    }
    // However slow it is, it gets on.
    let mut slowest = ask(0).await.expect("answered").content;
    assert_eq!(slowest.next().await.expect("more").expect("read"), whole[..64 << 10]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(slowest.next().await.expect("more").expect("read"), whole[64 << 10..68 << 10]);
    drop(slowest);
    let beyond = ask(whole.len() as u64 + 1).await.err().expect("refused");
    assert_eq!(beyond.kind(), ErrorKind::RangeNotSatisfiable);
    assert!(space.record(id, 1, || ()).await.expect("fetched") == whole, "over the line");
    for record in &mut slow {
        let pieces: Vec<_> = record.content.by_ref().map(|piece| piece.expect("read")).collect().await;
        assert!(pieces.concat() == whole);
    }
    drop(slow);
    assert_eq!(pieces(0).await, [whole]);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_the_space_has_are_named_and_not_sent() {
    let rig = Rig::new().await;
    let space = space(&rig).await;
    let content = bytes(3, LENGTH);
    let begun = space.begin(begin("one", LENGTH), &[]).await.expect("begun");
    send(&space, &begun, entries(&space, &content).await).await.expect("sent");

    let mut other = content.clone();
    other[BLOCK_BYTES + 5] ^= 1;
    let mut blocks = Vec::new();
    for plain in other.chunks(BLOCK_BYTES) {
        blocks.push(space.identify(Bytes::copy_from_slice(plain)).await.expect("hashed"));
    }
    let has = space.has_blocks(blocks.iter().map(|block| block.id).collect()).await.expect("told");
    assert_eq!(has, [true, false, true, true]);
    let mut entries = Vec::new();
    for (block, has) in blocks.into_iter().zip(has) {
        entries.push(if has { Sending::held(block.id) } else { space.seal(block).await.expect("sealed") });
    }
    assert!(entries.iter().map(Sending::bytes).sum::<usize>() < BLOCK_BYTES + 1_000);
    let begun = space.begin(begin("two", LENGTH), &[]).await.expect("begun");
    send(&space, &begun, entries).await.expect("sent");
    assert!(stored(&rig, "two").await == other);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_file_goes_over_several_connections_and_what_breaks_off_goes_on_at_a_whole_block() {
    let rig = Rig::new().await;
    let target = format!("http://{}", rig.address).parse().expect("an address");
    let connected = Space::connect(&Options::new(target), Some(4), &rig.token, (&DrivePath::root(), 0)).await;
    let space = connected.expect("connects").0;
    let content = bytes(9, 11 * BLOCK_BYTES + 5);
    let all = entries(&space, &content).await;
    let begun = space.begin(begin("file", content.len()), &[]).await.expect("begun");
    let before = rig.harm.calls.load(Ordering::SeqCst);
    // It ends after some of them.
    let sent = send(&space, &begun, all[..6].to_vec()).await.expect("a part");
    assert_eq!((sent.offset, sent.node), (6 * BLOCK_BYTES as u64, None));
    let calls = rig.harm.calls.load(Ordering::SeqCst) - before;
    assert!((2..=4).contains(&calls), "{calls} requests");
    // A lie in the middle ends all lanes, and what came before it stays.
    let mut lie = all[6..].to_vec();
    lie[2] = Sending::held(BlockId([9; 32]));
    let refused = send(&space, &sent, lie).await.expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    let again = space.begin(begin("file", content.len()), &[]).await.expect("found");
    assert_eq!(again.offset, 8 * BLOCK_BYTES as u64);
    let whole = send(&space, &again, all[8..].to_vec()).await.expect("the rest");
    assert!(whole.node.is_some(), "{whole:?}");
    assert!(stored(&rig, "file").await == content, "as the server opens it");

    // Several files at a time, of which one goes so.
    let files = (0..4_u64).map(|number| {
        let space = space.clone();
        async move {
            let (name, content) = (format!("file {number}"), bytes(number + 20, 5 * BLOCK_BYTES + 77));
            let begun = space.begin(begin(&name, content.len()), &[]).await.expect("begun");
            let sent = send(&space, &begun, entries(&space, &content).await).await.expect("sent");
            assert!(sent.node.is_some());
            (name, content)
        }
    });
    for (name, content) in futures_util::future::join_all(files).await {
        assert!(stored(&rig, &name).await == content, "{name}");
    }
}

/// How many requests a part of some entries is, to its end, and how it ended.
async fn requests(rig: &Rig, space: &Space, name: &str) -> (u64, Result<Sent, Error>) {
    let content = bytes(name.len() as u64, 6 * BLOCK_BYTES);
    let begun = space.begin(begin(name, content.len() + 1), &[]).await.expect("begun");
    let all = entries(space, &content).await;
    let before = rig.harm.calls.load(Ordering::SeqCst);
    let sent = send(space, &begun, all).await;
    (rig.harm.calls.load(Ordering::SeqCst) - before, sent)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_takes_no_others_from_later_parts_and_nodes_that_do_not_join_lanes_have_one() {
    let rig = Rig::new().await;
    let space = space(&rig).await;
    let begun = space.begin(begin("file", LENGTH), &[]).await.expect("begun");
    let mut first = entries(&space, &bytes(3, LENGTH)).await;
    let (to, mut from) = mpsc::channel(1);
    let before = rig.harm.calls.load(Ordering::SeqCst);
    let sending = {
        let (space, begun) = (space.clone(), begun.clone());
        let waiting = stream::poll_fn(move |context| from.poll_recv(context));
        tokio::spawn(async move { space.send(begun.upload, begun.offset, waiting, || ()).await })
    };
    to.send(first.remove(0)).await.expect("it is taken");
    while rig.harm.calls.load(Ordering::SeqCst) < before + 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // That of the second lane, which was made last.
    rig.harm.cut.notify_last();
    let error = sending.await.expect("ran").expect_err("broken off");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let (requests_after, sent) = requests(&rig, &space, "after").await;
    assert_eq!((requests_after, sent.expect("sent").offset), (2, 6 * BLOCK_BYTES as u64));

    let space = {
        rig.harm.is_balanced.store(true, Ordering::SeqCst);
        self::space(&rig).await
    };
    for name in ["one", "second"] {
        let error = requests(&rig, &space, name).await.1.expect_err("they do not meet");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let (requests_then, sent) = requests(&rig, &space, "the third").await;
    assert_eq!((requests_then, sent.expect("sent").offset), (1, 6 * BLOCK_BYTES as u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn lies_about_blocks_are_refused_and_what_came_before_them_is_kept() {
    let rig = Rig::new().await;
    let space = space(&rig).await;
    let content = bytes(4, LENGTH);
    let good = entries(&space, &content).await;
    let identify = |plain: Vec<u8>| space.identify(plain.into());
    let (a, b) =
        (identify(vec![1; BLOCK_BYTES]).await.expect("hashed"), identify(vec![2; BLOCK_BYTES]).await.expect("hashed"));
    let short = identify(vec![1; 100]).await.expect("hashed");
    let other_id = space.seal(Block { id: a.id, plain: b.plain.clone() }).await.expect("sealed");
    let too_short = space.seal(short).await.expect("sealed");
    let nobodys = Sending::held(BlockId([9; 32]));
    for (what, lie, kind) in [
        ("another block's id", other_id, ErrorKind::InvalidInput),
        ("a block that is too short", too_short, ErrorKind::InvalidInput),
        ("a block that nobody has", nobodys, ErrorKind::Conflict),
    ] {
        let begun = space.begin(Begin { key: what.into(), ..begin("file", LENGTH) }, &[]).await.expect("begun");
        let refused = send(&space, &begun, vec![good[0].clone(), lie]).await.expect_err(what);
        assert_eq!(refused.kind(), kind, "{what}: {refused}");
        let again = space.begin(Begin { key: what.into(), ..begin("file", LENGTH) }, &[]).await.expect("found");
        assert_eq!((again.upload, again.offset), (begun.upload, BLOCK_BYTES as u64), "{what}");
        space.abandon(begun.upload).await.expect("given up");
    }
    // Those after it are on their way when it is refused, and get nobody's place but their own.
    let long = bytes(5, 12 * BLOCK_BYTES);
    let begun = space.begin(begin("kept", long.len()), &[]).await.expect("begun");
    send(&space, &begun, entries(&space, &long).await).await.expect("sent");
    let mut lie = vec![good[0].clone(), Sending::held(BlockId([9; 32]))];
    for block in long.chunks(BLOCK_BYTES).skip(2) {
        lie.push(Sending::held(identify(block.to_vec()).await.expect("hashed").id));
    }
    let begun = space.begin(begin("file", long.len()), &[]).await.expect("begun");
    let refused = send(&space, &begun, lie).await.expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    let again = space.begin(begin("file", long.len()), &[]).await.expect("found");
    assert_eq!((again.upload, again.offset), (begun.upload, BLOCK_BYTES as u64));
    space.abandon(begun.upload).await.expect("given up");
    assert_eq!(space.has_blocks(vec![a.id]).await.expect("told"), [false]);
    // More than it is to have.
    let begun = space.begin(begin("file", LENGTH), &[]).await.expect("begun");
    let refused = send(&space, &begun, [good.clone(), vec![good[0].clone()]].concat()).await.expect_err("too much");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(entry(&space, "file").await.is_none());
    // Less is no error, and no file.
    let again = space.begin(begin("file", LENGTH), &[]).await.expect("found");
    let sent = space.send(again.upload, again.offset, stream::empty(), || ()).await.expect("all of it was here");
    assert!(sent.node.is_some(), "{sent:?}");
    assert!(space.send(Uid([7; 16]), 0, stream::empty(), || ()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_one_block_is_one_request_and_expects_what_it_says() {
    let rig = Rig::new().await;
    let space = space(&rig).await;
    let content = bytes(5, 300_000);
    let put = |expect| Put { path: path("file"), size: 300_000, modified_ms: 5, expect, entry: Bytes::new() };
    let entry = entries(&space, &content).await.remove(0);
    let (node, seq) = space.put(put(Expect::Absent), &[], entry.clone(), || ()).await.expect("put");
    let is_there = space.put(put(Expect::Absent), &[], entry.clone(), || ()).await.expect_err("is there");
    assert_eq!(is_there.kind(), ErrorKind::PreconditionFailed);
    assert!(stored(&rig, "file").await == content);
    let (again, _) = space.put(put(Expect::Seq(seq)), &[], entry.clone(), || ()).await.expect("put");
    assert_eq!(again, node);
    let stale = space.put(put(Expect::Seq(seq)), &[], entry, || ()).await.expect_err("another version");
    assert_eq!(stale.kind(), ErrorKind::PreconditionFailed);
    let empty = space.put(Put { size: 0, ..put(Expect::Any) }, &[], Sending::held(BlockId([1; 32])), || ()).await;
    assert_eq!(empty.expect_err("no block").kind(), ErrorKind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_answer_was_lost_is_found_finished_as_long_as_its_file_is_there() {
    let rig = Rig::new().await;
    let space = space(&rig).await;
    let content = bytes(6, LENGTH);
    let begun = space.begin(begin("file", LENGTH), &[]).await.expect("begun");
    let sent = send(&space, &begun, entries(&space, &content).await).await.expect("sent");
    assert_eq!(space.begin(begin("file", LENGTH), &[]).await.expect("found"), sent);
    let at = Location { space: NAME.into(), path: path("file") };
    rig.engine.remove(&rig.who, &at, Conditions::default()).await.expect("removed");
    let anew = space.begin(begin("file", LENGTH), &[]).await.expect("begun");
    assert_eq!((anew.offset, anew.node), (0, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_that_nobody_meant_leave_whole_blocks_or_nothing() {
    let rig = Rig::new().await;
    let space = space(&rig).await;
    let content = bytes(7, LENGTH);
    let mut part = Vec::new();
    for entry in entries(&space, &content).await {
        part.extend(u32::try_from(entry.entry().len()).expect("small").to_be_bytes());
        part.extend_from_slice(entry.entry());
    }
    let places = bytes(8, 3 * 40);
    for (number, place) in places.chunks(3).enumerate() {
        let key = format!("try {number}");
        let begun = space.begin(Begin { key: key.clone(), ..begin("file", LENGTH) }, &[]).await.expect("begun");
        let mut wrong = part.clone();
        // Near the start, where lengths are; or anywhere.
        let anywhere = usize::from(place[0]) * (part.len() / 256) + usize::from(place[1]);
        let at = if number % 2 == 0 { usize::from(place[0]) % 140 } else { anywhere };
        match number % 4 {
            0 | 1 => wrong[at] ^= place[2] | 1,
            2 => wrong.truncate(at),
            _ => drop(wrong.drain(at..(at + 1 + usize::from(place[2])).min(part.len()))),
        }
        let sent = rig.engine.continue_sealed(&rig.who, begun.upload, 0, body(&wrong).stream).await;
        let again = space.begin(Begin { key, ..begin("file", LENGTH) }, &[]).await.expect("found");
        assert!(
            again.node.is_none() && again.offset % BLOCK_BYTES as u64 == 0 && again.offset < LENGTH as u64,
            "{again:?}"
        );
        if let Err(error) = sent {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        space.abandon(begun.upload).await.expect("given up");
    }
    assert!(entry(&space, "file").await.is_none());
}
