//! Both ends against each other: a client and a server's face over a real engine, with a connection that is cut between them.

mod bulk;
mod deferring;
mod links;
mod rig;
mod spool;

use bytes::Bytes;
use holdfast_base::{ByteRange, ErrorKind, NodeId};
use holdfast_drive::{
    Durable, LeftOut, NewAttributes, NewName, Posix, Rename, Save, SaveBody, Taken, Tree, Unlink, XattrRule,
};
use http_body_util::{BodyExt, Full};
use rig::{Rig, body, bytes, leave, named, new_file, posix};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Waits until something that others do is seen, and answers how long that took.
pub(crate) async fn until<F: Future<Output = bool>>(seen: impl Fn() -> F) -> Duration {
    let began = Instant::now();
    while !seen().await {
        assert!(began.elapsed() < Duration::from_secs(10), "it is not seen");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    began.elapsed()
}

pub(crate) fn save(node: NodeId, base: Option<holdfast_base::ContentId>, size: u64, posix: Posix) -> Save {
    Save { node, base, body: ByteRange::whole(size), size, posix, keep: false, durable: Durable::Now }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_leaves_out_what_the_server_has_and_zeros() {
    let rig = Rig::new().await;
    let remote = rig.remote().await;
    let (made, mut content) = (
        remote.create(new_file(remote.root(), "a"), Bytes::new(), Durable::Now).await.expect("made"),
        bytes(1, 4 << 20),
    );
    let saved = remote.save(save(made.node.id, None, 4 << 20, posix()), body(&content)).await.expect("saved");
    content[2 << 20..3 << 20].fill(7);
    content.resize(9 << 20, 0);
    content.extend_from_slice(b"end");
    let whole = || Save { base: saved.node.content, ..save(made.node.id, None, content.len() as u64, posix()) };
    let sent = || [&content[2 << 20..3 << 20], b"end"].concat();
    let one = |range: Range<u64>| std::iter::once(range).collect::<Vec<_>>();
    let part =
        |stay: Vec<Range<u64>>, zeros: Vec<Range<u64>>| SaveBody { left_out: LeftOut { stay, zeros }, ..body(&sent()) };
    for (stay, zeros) in
        [(vec![0..2, 3..5], one(5..9)), (vec![0..2, 3..4], one(4..10)), (vec![0..2, 3..4], one(0..u64::MAX))]
    {
        let error = remote.save(whole(), part(stay, zeros)).await.expect_err("makes no sense");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let many =
        remote.save(whole(), part(vec![0..1; LeftOut::RANGES_MAX + 1], Vec::new())).await.expect_err("are too many");
    assert_eq!(many.kind(), ErrorKind::TooLarge);
    assert!(remote.leaves_out());

    // A server that knows nothing of it takes the whole.
    rig.harm.knows_below.store(47, Ordering::SeqCst);
    let older = remote.save(whole(), part(vec![0..2, 3..4], one(4..9))).await.expect_err("is older");
    assert_eq!((older.kind(), remote.leaves_out()), (ErrorKind::Unsupported, false));
    rig.harm.knows_below.store(0, Ordering::SeqCst);

    let saved = remote.save(whole(), part(vec![0..2, 3..4], one(4..9))).await.expect("saved");
    let open = remote.open(saved.node.content.expect("has content")).await.expect("opened");
    assert!(open.read(ByteRange::whole(content.len() as u64)).await.expect("read") == content);
    let local = rig.local().await.open(open.id()).await.expect("opened");
    assert!(local.is_hole(8).await.expect("looked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_does_over_the_network_what_it_does_here() {
    let rig = Rig::new().await;
    let (remote, local) = (rig.remote().await, rig.local().await);
    let root = remote.root();
    assert_eq!(root, local.root());
    let made = remote.create(new_file(root, "a"), Bytes::new(), Durable::Now).await.expect("made");
    assert_eq!(local.lookup(root, &named("a")).await.expect("asked").as_ref(), Some(&made));
    let taken = remote.create(new_file(root, "a"), Bytes::new(), Durable::Now).await.expect_err("taken");
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);

    let content = bytes(1, 3_500_000);
    let saved = remote.save(save(made.node.id, None, 3_500_000, posix()), body(&content)).await.expect("saved");
    let open = remote.open(saved.node.content.expect("has content")).await.expect("opened");
    assert_eq!((open.size(), open.grain()), (3_500_000, Some(1 << 20)));
    assert!(open.read(ByteRange::whole(3_500_000)).await.expect("read") == content);
    assert_eq!(
        open.read(ByteRange { start: 1_048_570, end: 1_048_590 }).await.expect("read"),
        content[1_048_570..1_048_590]
    );
    assert!(open.read(ByteRange { start: 0, end: 3_500_001 }).await.is_err());
    // The blocks before and after stay.
    let part = Save {
        body: ByteRange { start: 1 << 20, end: 2 << 20 },
        base: saved.node.content,
        ..save(made.node.id, None, 3_500_000, posix())
    };
    let saved = remote.save(part.clone(), body(&vec![7; 1 << 20])).await.expect("saved");
    let open = remote.open(saved.node.content.expect("has content")).await.expect("opened");
    assert!(open.read(ByteRange { start: 1 << 20, end: 2 << 20 }).await.expect("read") == vec![7; 1 << 20]);
    assert_eq!(open.read(ByteRange { start: 0, end: 9 }).await.expect("read"), content[..9]);
    let stale = remote.save(part, body(&vec![8; 1 << 20])).await.expect_err("of an old content");
    assert_eq!(stale.kind(), ErrorKind::PreconditionFailed);

    let change = NewAttributes { mode: Some(0o600), ctime_ns: 5, ..NewAttributes::default() };
    let changed = remote.set_attributes(made.node.id, change, posix()).await.expect("changed");
    assert_eq!(changed.posix.expect("has some").mode, 0o600);
    let value = Some(b"\0\xff".to_vec());
    let xattr = ("user.x".to_owned(), value.clone(), XattrRule::Create);
    remote.set_xattr(made.node.id, xattr, (posix(), 1)).await.expect("set");
    assert_eq!(remote.xattrs(made.node.id).await.expect("read"), [("user.x".to_owned(), b"\0\xff".to_vec())]);

    let rename = Rename { from: (root, named("a")), to: (root, named("b")), taken: Taken::Refuse, leave: leave() };
    assert_eq!(remote.rename(rename).await.expect("renamed").entry.node.id, made.node.id);
    let names = remote.list(root, None, 10).await.expect("listed");
    assert_eq!(names.iter().map(|entry| entry.node.name.as_str()).collect::<Vec<_>>(), ["b"]);
    remote.hold(vec![made.node.id], i64::MAX).await.expect("held");
    remote.let_go(made.node.id).await.expect("let go");
    remote.settle().await.expect("settled");
    assert!(remote.room().await.expect("told").used_bytes > 3_000_000);
    let unlink = Unlink { parent: root, name: named("b"), folder: false, leave: leave() };
    assert_eq!(remote.unlink(unlink).await.expect("removed"), made.node.id);
    assert_eq!(remote.lookup(root, &named("b")).await.expect("asked"), None);
}

/// Every operation with its answer swallowed and its connection cut, some of them twice.
#[tokio::test(flavor = "multi_thread")]
async fn an_operation_whose_answer_is_lost_is_done_once() {
    let rig = Rig::new().await;
    let (remote, local) = (rig.remote().await, rig.local().await);
    let root = remote.root();
    rig.harm.swallow.store(u64::MAX, Ordering::SeqCst);
    for round in 0..6 {
        let (one, two) = (named(&format!("one{round}")), named(&format!("two{round}")));
        let a = remote.create(new_file(root, one.as_str()), Bytes::new(), Durable::Now).await.expect("made");
        let b = remote.create(new_file(root, two.as_str()), Bytes::new(), Durable::Now).await.expect("made");
        let content = bytes(round, 300_000);
        let saved = remote.save(save(a.node.id, None, 300_000, posix()), body(&content)).await.expect("saved");
        // Made longer by zeros that are left out, and cut off again.
        let longer = Save { base: saved.node.content, ..save(a.node.id, None, 3 << 20, posix()) };
        let first = [&content[..], &vec![0; (1 << 20) - 300_000]].concat();
        let left_out = LeftOut { zeros: std::iter::once(1..3).collect(), ..LeftOut::default() };
        let longer = remote.save(longer, SaveBody { left_out, ..body(&first) }).await.expect("saved");
        let open = local.open(longer.node.content.expect("has content")).await.expect("opened");
        let whole = open.read(ByteRange::whole(3 << 20)).await.expect("read");
        assert!(whole[..1 << 20] == first && whole[1 << 20..].iter().all(|byte| *byte == 0));
        let cut = Save { base: longer.node.content, ..save(a.node.id, None, 300_000, posix()) };
        let saved = remote.save(cut, body(&content)).await.expect("saved");
        let change = NewAttributes { mode: Some(0o640), ctime_ns: 5, ..NewAttributes::default() };
        remote.set_attributes(a.node.id, change, posix()).await.expect("changed");
        let xattr = ("user.x".to_owned(), Some(vec![1]), XattrRule::Create);
        remote.set_xattr(a.node.id, xattr, (posix(), 1)).await.expect("set");
        let third = named(&format!("three{round}"));
        let link = NewName { node: a.node.id, parent: root, name: third.clone(), now_ns: posix().ctime_ns };
        let linked = remote.link(link.clone(), posix()).await.expect("linked");
        assert_eq!((linked.number(), linked.names()), (a.node.id, 2));
        let taken = remote.link(NewName { now_ns: posix().ctime_ns, ..link }, posix()).await.expect_err("taken");
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        let unlink = Unlink { parent: root, name: third, folder: false, leave: leave() };
        remote.unlink(unlink).await.expect("removed");
        let rename = |taken| Rename { from: (root, one.clone()), to: (root, two.clone()), taken, leave: leave() };
        // An exchange that is done twice is undone.
        let done = remote.rename(rename(Taken::Exchange)).await.expect("exchanged");
        assert_eq!(done.entry.node.id, a.node.id);
        assert_eq!(local.lookup(root, &two).await.expect("asked").expect("there").node.id, a.node.id);
        let done = remote.rename(rename(Taken::Replace)).await.expect("replaced");
        assert_eq!(done.entry.node.id, b.node.id);
        let unlink = Unlink { parent: root, name: two.clone(), folder: false, leave: leave() };
        remote.unlink(unlink).await.expect("removed");
        let left = local.list(root, None, 10).await.expect("listed");
        assert!(left.is_empty(), "{left:?}");
        assert!(saved.node.content.is_some());
        // What is really there, or not, is told as it is, however often the answer was lost.
        let made = remote.create(new_file(root, "kept"), Bytes::new(), Durable::Now).await.expect("made");
        let taken = remote.create(new_file(root, "kept"), Bytes::new(), Durable::Now).await.expect_err("taken");
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        let unlink = Unlink { parent: root, name: named("kept"), folder: false, leave: leave() };
        assert_eq!(remote.unlink(unlink).await.expect("removed"), made.node.id);
    }
    assert!(rig.harm.swallowed.load(Ordering::SeqCst) > 60, "answers were lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_seen_by_another_client_and_nothing_is_asked_while_there_is_none() {
    let rig = Rig::new().await;
    let (one, other) = (rig.remote().await, rig.remote().await);
    let root = one.root();
    // Until the stream of changes is there, everything is asked.
    let asked = || async {
        other.entry(root).await.expect("asked");
        let before = rig.harm.calls.load(Ordering::SeqCst);
        other.entry(root).await.expect("asked");
        rig.harm.calls.load(Ordering::SeqCst) == before
    };
    until(asked).await;
    let mut took = Vec::new();
    for number in 0..20 {
        let name = named(&format!("f{number}"));
        assert_eq!(other.lookup(root, &name).await.expect("asked"), None);
        let made = one.create(new_file(root, name.as_str()), Bytes::new(), Durable::Now).await.expect("made");
        took.push(until(|| async { other.lookup(root, &name).await.expect("asked").is_some() }).await);
        let before = other.lookup(root, &name).await.expect("asked").expect("there");
        assert_eq!(before.node.content, None);
        one.save(save(made.node.id, None, 5, posix()), body(b"hello")).await.expect("saved");
        took.push(
            until(|| async { other.entry(made.node.id).await.expect("asked").expect("there").node.size == 5 }).await,
        );
    }
    took.sort();
    println!("seen after {:?} (median), {:?} (most)", took[took.len() / 2], took[took.len() - 1]);
    // Changes of other spaces are none of this one.
    let quiet = rig.harm.calls.load(Ordering::SeqCst);
    for _ in 0..100 {
        other.entry(root).await.expect("asked");
    }
    assert!(rig.harm.calls.load(Ordering::SeqCst) - quiet <= 2, "what is known is not asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_silent_ends_operations_and_not_reading_what_is_here() {
    let rig = Rig::new().await;
    let remote = rig.remote_within(Duration::from_secs(2)).await;
    let root = remote.root();
    let made = remote.create(new_file(root, "a"), Bytes::new(), Durable::Now).await.expect("made");
    let content = bytes(3, 2_000_000);
    let saved = remote.save(save(made.node.id, None, 2_000_000, posix()), body(&content)).await.expect("saved");
    let open = remote.open(saved.node.content.expect("some")).await.expect("opened");
    open.read(ByteRange::whole(2_000_000)).await.expect("read");
    rig.harm.silent.store(1, Ordering::SeqCst);
    let began = Instant::now();
    let late = remote.room().await.expect_err("nobody answers");
    assert_eq!(late.kind(), ErrorKind::Timeout, "{late}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let late = remote.create(new_file(root, "b"), Bytes::new(), Durable::Now).await.expect_err("nobody answers");
    assert_eq!(late.kind(), ErrorKind::Timeout, "{late}");
    assert!(open.read(ByteRange::whole(2_000_000)).await.expect("read from memory") == content);
    rig.harm.silent.store(0, Ordering::SeqCst);
    let healed = until(|| async { remote.room().await.is_ok() }).await;
    println!("healed after {healed:?}");
}

/// Longer than the deadline by far, and by less than a piece within it.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_slowly_is_waited_for_and_one_that_trickles_is_not() {
    let rig = Rig::new().await;
    let remote = rig.remote_within(Duration::from_secs(2)).await;
    let made = remote.create(new_file(remote.root(), "a"), Bytes::new(), Durable::Now).await.expect("made");
    let content = bytes(7, 10 << 20);
    let saved = remote.save(save(made.node.id, None, 10 << 20, posix()), body(&content)).await.expect("saved");
    let open = remote.open(saved.node.content.expect("some")).await.expect("opened");
    rig.harm.pace_ms.store(50, Ordering::SeqCst);
    let began = Instant::now();
    let block = ByteRange::whole(1 << 20);
    assert!(open.read(block).await.expect("read") == content[..1 << 20]);
    assert!(began.elapsed() > Duration::from_secs(4), "{:?}", began.elapsed());
    rig.harm.pace_ms.store(1_500, Ordering::SeqCst);
    let began = Instant::now();
    // Far behind what was asked for ahead.
    let block = ByteRange { start: 8 << 20, end: 9 << 20 };
    let late = open.read(block).await.map(|read| read.len()).expect_err("8 KiB in 1.5 s");
    assert_eq!(late.kind(), ErrorKind::Timeout, "{late}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_on_has_blocks_fetched_ahead() {
    let rig = Rig::new().await;
    let remote = rig.remote().await;
    let made = remote.create(new_file(remote.root(), "a"), Bytes::new(), Durable::Now).await.expect("made");
    let size = 12 << 20;
    let content = bytes(5, size);
    let saved = remote.save(save(made.node.id, None, size as u64, posix()), body(&content)).await.expect("saved");
    let open = remote.open(saved.node.content.expect("some")).await.expect("opened");
    let before = rig.harm.calls.load(Ordering::SeqCst);
    for at in (0..size as u64).step_by(128 << 10) {
        let piece = open.read(ByteRange { start: at, end: at + (128 << 10) }).await.expect("read");
        let at = usize::try_from(at).expect("fits");
        assert!(piece == content[at..at + (128 << 10)]);
    }
    assert_eq!(rig.harm.calls.load(Ordering::SeqCst) - before, 12, "each block once");
}

/// What no client of ours sends is refused with words, and the next call is answered.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_are_refused_and_do_no_harm() {
    let rig = Rig::new().await;
    let ask = async |method: &str, path: &str, body: Vec<u8>| {
        let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
        let request = http::Request::builder().method(method).uri(path).body(body).expect("a request");
        rig.face.handle(rig.who.clone(), request).await.status().as_u16()
    };
    let hello = b"\0\0\0\x02\x81\x00".to_vec();
    assert_eq!(ask("POST", "/wire/v1/call", hello.clone()).await, 200);
    for (status, path, bytes) in [
        (404, "/wire/v2/call", hello.clone()),
        (404, "/wire", hello.clone()),
        (404, "/wire/v1/call?space=nobody", hello.clone()),
        (400, "/wire/v1/call?space=a&x=1", hello.clone()),
        (400, "/wire/v1/call", Vec::new()),
        (400, "/wire/v1/call", b"\0\0\0\x02\x81".to_vec()),
        (400, "/wire/v1/call", b"\0\0\0\0".to_vec()),
        (400, "/wire/v1/call", b"\0\0\0\x02\x81\x18".to_vec()),
        (400, "/wire/v1/call", b"\0\0\0\x03\x81\x18\xff".to_vec()),
        (400, "/wire/v1/call", b"\0\0\0\x02\x81\x00trailing".to_vec()),
        (413, "/wire/v1/call", b"\xff\xff\xff\xffx".to_vec()),
        // Reading 16 EiB, and more than a block.
        (413, "/wire/v1/call", b"\0\0\0\x0e\x83\x06\x01\x82\x00\x1b\xff\xff\xff\xff\xff\xff\xff\xff".to_vec()),
        (404, "/wire/v1/call", b"\0\0\0\x06\x83\x06\x01\x82\x00\x01".to_vec()),
    ] {
        assert_eq!(ask("POST", path, bytes.clone()).await, status, "{path} {bytes:x?}");
    }
    assert_eq!(ask("GET", "/wire/v1/call", Vec::new()).await, 405);
    assert_eq!(ask("POST", "/wire/v1/events", Vec::new()).await, 405);
    assert_eq!(ask("POST", "/wire/v1/call", hello).await, 200);
}
