//! Changes and marks as bytes, and bytes that nobody meant.

use super::*;
use proptest::prelude::*;

fn name() -> NodeName {
    NodeName::new("näme.txt").expect("a good name")
}

fn changes() -> Vec<Deferred> {
    let posix = Posix { special: Special::Fifo, mode: 0o4755, uid: 1, gid: 2, rdev: 3, xattrs: 4, ..Posix::default() };
    let content = NewContent::Inline { size: 9, nonce: [1; 16], tag: [2; 16], sealed: vec![3; 77] };
    let new = NewEntry { parent: NodeId(5), name: name(), kind: NodeKind::Folder, posix, content: NewContent::Empty };
    let rewrite = Rewrite { node: NodeId(6), base: Some(ContentId(7)), content, posix: posix.at(-8), keep: true };
    let place = Place { pack: PackId(23), offset: 24, sealed_bytes: 25, raw_bytes: 26 };
    let block = |id, written| StagedBlock { id: BlockId([id; 32]), written };
    let runs =
        vec![StagedRun { chunk: 1, first: 2, blocks: vec![block(3, Some(place)), block(3, None)], tag: [4; 16] }];
    let blocks = NewContent::Blocks { size: 27, block_bytes: 28, nonce: [29; 16], tag: [30; 16], runs };
    let large = Rewrite { content: blocks, ..rewrite.clone() };
    let change = NewAttributes { mode: Some(1), mtime_ns: Some(-1), ctime_ns: i64::MAX, ..NewAttributes::default() };
    let leave = Leave { now_ns: 1, held_until_ms: Some(2), forget_after_ms: 3 };
    vec![
        Deferred::Create { id: NodeId(i64::MAX), new, content_id: ContentId(0) },
        Deferred::Save { rewrite, content_id: ContentId(11), at: (NodeId(12), name()) },
        Deferred::Save { rewrite: large, content_id: ContentId(12), at: (NodeId(13), name()) },
        Deferred::Attributes { node: NodeId(13), change, usual: posix },
        Deferred::Unlink {
            unlink: Unlink { parent: NodeId(14), name: name(), folder: true, leave },
            node: NodeId(15),
            content: Some(ContentId(16)),
        },
        Deferred::Rename {
            rename: Rename {
                from: (NodeId(17), name()),
                to: (NodeId(18), name()),
                taken: Taken::Exchange,
                leave: Leave { held_until_ms: None, ..leave },
            },
            node: NodeId(19),
            other: Some((NodeId(20), None)),
        },
        Deferred::Passed { node: NodeId(21), folder: NodeId(22), now_ns: -1 },
    ]
}

#[test]
fn what_is_written_is_read_back() {
    let mut bytes = Vec::new();
    for (number, change) in (1..).zip(changes()) {
        write(&mut bytes, number, &change).expect("writes");
    }
    let mut rest = bytes.as_slice();
    for (number, change) in (1..).zip(changes()) {
        let (read, length) = read(rest).expect("reads");
        assert_eq!(read, Frame::Change(number, change));
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
    let mark = Mark { seq: Some(-7), synced: 8 };
    write_mark(&mut bytes, 9, mark).expect("writes");
    let start = bytes.len() - HEAD_BYTES - 8 - 1 - 9 - 8;
    assert_eq!(read(&bytes[start..]), Some((Frame::Mark(9, mark), bytes.len() - start)));
}

#[test]
fn a_frame_that_is_cut_or_changed_anywhere_is_none() {
    for change in changes() {
        let mut bytes = Vec::new();
        write(&mut bytes, 3, &change).expect("writes");
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_none(), "cut at {end}");
        }
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert!(read(&bytes).is_none(), "changed at {at}");
            bytes[at] ^= 0x10;
        }
    }
}

proptest! {
    #[test]
    fn any_body_with_a_sound_sum_is_read_or_refused_without_a_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = u32::try_from(body.len()).expect("short").to_le_bytes().to_vec();
        bytes.extend_from_slice(&xxh3_64(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        read_anything(&bytes);
        read_anything(&body);
    }
}
