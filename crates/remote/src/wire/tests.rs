use super::*;
use holdfast_base::{BlockId, ByteRange, ContentId, DrivePath, NodeId, NodeName, SpaceId, Uid};
use holdfast_drive::posix_locks::{Held, Kept, LockAnswer, LockAsk, LockKey, Patience};
use holdfast_drive::{
    Applied, Batch, Bond, Deferred, Durable, Entry, Expect, Leave, NameTaken, NewAttributes, NewContent, NewEntry,
    NewName, NewNode, Node, NodeKind, Posix, Rename, Rewrite, Save, Special, StagedBlock, StagedRun, Taken, Unlink,
    XattrRule,
};
use proptest::prelude::*;

fn name(text: &str) -> NodeName {
    NodeName::new(text).expect("a name")
}

fn posix() -> Posix {
    Posix { special: Special::Link, mode: 0o4755, uid: 1, gid: u32::MAX, ctime_ns: i64::MIN, ..Posix::default() }
}

/// One change of each kind.
fn batch() -> Batch {
    let leave = Leave { now_ns: -1, held_until_ms: None, forget_after_ms: 0 };
    let content = NewContent::Inline { size: 3, nonce: [1; 16], tag: [2; 16], sealed: vec![3; 99] };
    let (parent, name) = (NodeId(7), name("ä"));
    let new =
        NewEntry { parent, name: name.clone(), kind: NodeKind::Folder, posix: posix(), content: NewContent::Empty };
    let rewrite = Rewrite { node: NodeId(i64::MAX), base: Some(ContentId(1)), content, posix: posix(), keep: true };
    let change = NewAttributes { mtime_ns: Some(-1), ctime_ns: 5, ..NewAttributes::default() };
    let unlink = Unlink { parent, name: name.clone(), folder: true, leave };
    let changes = [
        Deferred::Create { id: NodeId(1), new, content_id: ContentId(0) },
        Deferred::Save { rewrite, content_id: ContentId(9), at: (parent, name.clone()) },
        Deferred::Attributes { node: NodeId(1), change, usual: posix() },
        Deferred::Unlink { unlink, node: NodeId(1), content: Some(ContentId(i64::MAX)) },
        Deferred::Rename {
            rename: Rename { from: (parent, name.clone()), to: (NodeId(8), name), taken: Taken::Refuse, leave },
            node: NodeId(2),
            other: Some((NodeId(3), None)),
        },
        Deferred::Passed { node: NodeId(1), folder: parent, now_ns: i64::MIN },
    ];
    Batch { journal: [9; 16], changes: (1..).zip(changes).collect() }
}

/// Where the blocks are on the other machine is not said.
fn batch_with_blocks() -> Batch {
    let blocks = vec![StagedBlock { id: BlockId([7; 32]), written: None }; 3];
    let runs = vec![StagedRun { chunk: 0, first: 0, blocks, tag: [4; 16] }];
    let content = NewContent::Blocks { size: u64::MAX, block_bytes: 1 << 20, nonce: [1; 16], tag: [2; 16], runs };
    let rewrite = Rewrite { node: NodeId(1), base: None, content, posix: posix(), keep: false };
    let save = Deferred::Save { rewrite, content_id: ContentId(9), at: (NodeId(7), name("b")) };
    Batch { journal: [9; 16], changes: vec![(u64::MAX, save)] }
}

/// One of each, with the ends of numbers in it.
fn put() -> Put {
    let path = DrivePath::parse("a/b").expect("a path");
    Put { path, size: 1, modified_ms: -1, expect: Expect::Absent, entry: Bytes::from_static(b"record") }
}

fn begin() -> Begin {
    let path = DrivePath::parse("a/b").expect("a path");
    let name_taken = NameTaken::Replace;
    Begin { path, length: u64::MAX, name_taken, expect_seq: Some(3), modified_ms: i64::MIN, key: "key".into() }
}

fn calls() -> Vec<Call> {
    let leave = Leave { now_ns: -1, held_until_ms: Some(i64::MAX), forget_after_ms: 0 };
    let new = NewNode { parent: NodeId(7), name: name("ä b"), kind: NodeKind::Folder, posix: posix() };
    let save = Save {
        node: NodeId(i64::MAX),
        base: None,
        body: ByteRange { start: 1 << 20, end: 1 << 40 },
        size: u64::MAX,
        posix: posix(),
        keep: true,
        durable: Durable::Soon,
    };
    let change = NewAttributes { mode: Some(0), ctime_ns: 5, ..NewAttributes::default() };
    let unlink = Unlink { parent: NodeId(1), name: name("x"), folder: true, leave };
    let (from, to) = ((NodeId(1), name("a")), (NodeId(2), name("b")));
    vec![
        Call::Hello(),
        Call::Entry(NodeId(-1)),
        Call::Lookup(NodeId(3), name("n")),
        Call::List(NodeId(3), Some(name("n")), 1_000),
        Call::Room(),
        Call::Open(ContentId(4)),
        Call::Read(ContentId(4), ByteRange { start: 0, end: 1 }),
        Call::Create(new, Bytes::from_static(b"target"), Durable::Now),
        Call::Save(save.clone()),
        Call::SetAttributes(NodeId(3), change, posix()),
        Call::Link(NewName { node: NodeId(3), parent: NodeId(1), name: name("l"), now_ns: 7 }, posix()),
        Call::Unlink(unlink),
        Call::Rename(Rename { from, to, taken: Taken::Exchange, leave }),
        Call::Hold(vec![NodeId(1), NodeId(2)], 9),
        Call::LetGo(NodeId(1)),
        Call::Xattrs(NodeId(1)),
        Call::SetXattr(NodeId(1), ("user.x".into(), Some(Bytes::new()), XattrRule::Create), (posix(), 1)),
        Call::Settle(),
        Call::MayChange(),
        Call::Reserve(SpaceId(5), u32::MAX),
        Call::Keys(),
        Call::Apply(SpaceId(5), batch(), Durable::Soon),
        Call::ApplyWith(SpaceId(5), batch_with_blocks(), Durable::Soon),
        Call::Answered(SpaceId(5), [9; 16], vec![1, u64::MAX]),
        Call::Heard(u64::MAX, 7, true),
        Call::Forgot(9),
        Call::SavePart(save.clone(), vec![(0, 2), (3, u64::MAX)], vec![(4, 5)]),
        Call::Extend(save, (ContentId(4), ByteRange { start: 1 << 20, end: 5 << 20 })),
        Call::Locks(),
        Call::Layouts(vec![ContentId(1), ContentId(i64::MAX)]),
        Call::Manifest(ContentId(1), u64::MAX),
        Call::Record(ContentId(1), 7),
        Call::RecordRest(ContentId(1), 7, u64::MAX),
        Call::HasBlocks(vec![BlockId([7; 32])]),
        Call::Finish(Uid([1; 16]), NameTaken::Fail),
        Call::Look(DrivePath::parse("a/b").expect("a path"), u32::MAX),
        Call::Attach(
            u64::MAX,
            vec![
                Kept { key: KEY, whole: Some(u64::MAX), held: vec![] },
                Kept { key: KEY, whole: None, held: vec![HELD; 3] },
            ],
        ),
        Call::AskLock(
            1,
            LockAsk { key: KEY, held: HELD, patience: Patience::Probe, ticket: u64::MAX, wait_ms: u32::MAX },
        ),
        Call::TakeBack(1, 2),
        Call::LeaveOnly(1, KEY, 3, vec![HELD]),
        Call::YieldWhole(1, KEY, 3, vec![]),
        Call::Recalls(1, 2),
        Call::Leave(0),
        Call::PutTagged(put(), vec!["Été".into(), String::new()]),
        Call::BeginTagged(begin(), vec![]),
    ]
}

const KEY: LockKey = LockKey { node: NodeId(i64::MAX), flock: true };
const HELD: Held = Held { owner: u64::MAX, range: ByteRange { start: 0, end: 1 << 63 }, exclusive: true };

#[test]
fn every_answer_about_a_lock_arrives_as_it_was_sent() {
    let busy = [LockAnswer::Busy(None), LockAnswer::Busy(Some(HELD))];
    let others =
        [LockAnswer::Exact, LockAnswer::Whole(u64::MAX), LockAnswer::Free, LockAnswer::Later, LockAnswer::Deadlock];
    for answer in busy.into_iter().chain(others) {
        assert_eq!(whole::<LockAnswer>(&frame(&answer)).expect("reads"), answer);
    }
    // A number where none belongs, none where one does, and one that is no answer's.
    for bad in [(0_u64, Some(1_u64), None::<Held>), (1, None, None), (4, None, Some(HELD)), (6, None, None)] {
        assert!(whole::<LockAnswer>(&frame(&bad)).is_err(), "{bad:?}");
    }
}

#[test]
fn every_operation_arrives_as_it_was_sent() {
    for call in calls() {
        let bytes = frame(&call);
        assert_eq!(whole::<Call>(&bytes).expect("reads"), call);
        // Neither cut off nor with something behind it.
        assert!(message::<Call>(&bytes[LENGTH_BYTES..bytes.len() - 1]).is_err());
        assert!(message::<Call>(&[&bytes[LENGTH_BYTES..], &[0]].concat()).is_err());
    }
}

#[test]
fn the_bytes_of_version_1_stay_what_they_are() {
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    assert_eq!(hex(&frame(&Call::Hello())), "000000028100");
    assert_eq!(hex(&frame(&Call::Lookup(NodeId(300), name("ab")))), "00000008830219012c626162");
    assert_eq!(hex(&frame(&Event::Changed(5))), "00000003820105");
    assert_eq!(hex(&frame(&Event::Past(5))), "00000003820505");
    assert_eq!(hex(&frame(&Event::Asked(7, 5, Some(vec![NodeId(3)])))), "0000000782068307058103");
    assert_eq!(hex(&frame(&Event::Asked(7, 5, None))), "000000068206830705f6");
    let entry = Entry {
        node: Node {
            id: NodeId(2),
            space: SpaceId(1),
            parent: None,
            name: "a".into(),
            kind: NodeKind::File,
            content: Some(ContentId(9)),
            size: 10,
            seq: 3,
            created_ms: 4,
            modified_ms: -1,
            has_properties: false,
        },
        posix: None,
        bond: None,
    };
    assert_eq!(hex(&frame(&entry)), "0000000f828b0201f6616101090a030420f4f6");
    assert_eq!(whole::<Entry>(&frame(&entry)).expect("reads"), entry);
    let linked = Entry { bond: Some(Bond { number: NodeId(7), names: 2 }), ..entry };
    assert_eq!(hex(&frame(&linked)), "00000012838b0201f6616101090a030420f4f6820702");
    assert_eq!(whole::<Entry>(&frame(&linked)).expect("reads"), linked);
}

#[test]
fn what_became_of_each_change_arrives() {
    let refused = Error::new(ErrorKind::NoSpace, "é".repeat(1_000));
    let handed = Handed {
        answers: vec![Ok(Applied::Gone(NodeId(4))), Err(refused), Ok(Applied::Before), Ok(Applied::Late)],
        folders: vec![],
    };
    let read = whole::<Handed>(&frame(&handed)).expect("reads");
    let [Ok(Applied::Gone(NodeId(4))), Err(error), Ok(Applied::Before), Ok(Applied::Late)] = &read.answers[..] else {
        unreachable!("{read:?}")
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.message().len() <= 400, "an answer has many");
}

#[test]
fn errors_arrive_with_kind_and_words_and_those_of_strangers_with_their_status() {
    let kinds = [ErrorKind::NoSpace, ErrorKind::TooManyRequests { retry_after_s: 7 }, ErrorKind::Locked];
    for kind in kinds {
        let error = decode_fault(500, &encode_fault(&Error::new(kind, "why")));
        assert_eq!((error.kind(), error.message()), (kind, "why"));
    }
    let error = decode_fault(502, b"<html>\nBad gateway");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("502: <html> Bad gateway"), "{error}");
    let long = Error::invalid("é".repeat(100_000));
    assert!(encode_fault(&long).len() < 10_000);
}

#[test]
fn a_frame_that_says_it_is_too_long_is_refused_before_it_is_there() {
    let mut buffer = BytesMut::from(&u32::MAX.to_be_bytes()[..]);
    assert_eq!(split(&mut buffer, CALL_BYTES_MAX).expect_err("refused").kind(), ErrorKind::TooLarge);
    let mut buffer = BytesMut::from(&[0, 0, 0, 2, 1][..]);
    assert!(split(&mut buffer, 10).expect("waits").is_none());
    buffer.extend_from_slice(&[2, 3]);
    assert_eq!(split(&mut buffer, 10).expect("splits").as_deref(), Some(&[1, 2][..]));
    assert_eq!(&buffer[..], [3]);
}

#[test]
fn names_and_ranges_that_cannot_be_are_refused() {
    let mut writer = Writer::default();
    writer.array(3);
    writer.unsigned(2);
    writer.signed(1);
    writer.text("../x");
    assert!(message::<Call>(&writer.0).is_err());
    let mut writer = Writer::default();
    writer.array(3);
    writer.unsigned(6);
    writer.signed(1);
    (5_u64, 4_u64).put(&mut writer);
    assert!(message::<Call>(&writer.0).is_err());
}

proptest! {
    #[test]
    fn bytes_nobody_meant_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read_anything(&bytes);
        let framed = [&u32::try_from(bytes.len()).expect("fits").to_be_bytes()[..], &bytes].concat();
        read_anything(&framed);
    }

    #[test]
    fn a_message_with_any_byte_changed_is_refused_or_read_as_another(which in 0..35_usize, at in 0..800_usize, to: u8) {
        let calls = calls();
        let mut bytes = frame(&calls[which % calls.len()]).to_vec();
        let at = at % bytes.len();
        bytes[at] = to;
        read_anything(&bytes);
    }
}
