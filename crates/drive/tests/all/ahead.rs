//! Blocks that are sealed ahead of the save that names them: what the save makes of them, and what becomes of those that no save names.

use crate::common::{PASSWORD, Rig, at, body, even_bytes, text};
use crate::faults::faulty;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_auth::Secret;
use holdfast_auth::accounts::Proof;
use holdfast_base::{ByteRange, ContentId, ErrorKind, NodeId, NodeName};
use holdfast_blob::layer::Operation;
use holdfast_blob::layer::fault::Fault;
use holdfast_drive::{
    Deferring, Drive, Durable, Entry, LeftOut, NewNode, NodeKind, Posix, Save, SaveBody, SealedAhead, Tree,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const MIB: usize = 1 << 20;

pub(crate) async fn tree(rig: &Rig) -> Arc<dyn Deferring> {
    let password = Secret::new(PASSWORD);
    let ana = rig.accounts.open("ana", Proof::Password(&password)).await.expect("opens");
    rig.engine.tree(Arc::new(ana), "ana").await.expect("a tree")
}

pub(crate) async fn make(tree: &dyn Tree, name: &str) -> Entry {
    let posix = Posix { mode: 0o644, ..Posix::default() };
    let name = NodeName::new(name).expect("a name");
    let new = NewNode { parent: tree.root(), name, kind: NodeKind::File, posix };
    tree.create(new, Bytes::new(), Durable::Soon).await.expect("made")
}

pub(crate) fn save(node: NodeId, base: Option<ContentId>, body: ByteRange, size: usize) -> Save {
    Save { node, base, body, size: size as u64, posix: Posix::default(), keep: false, durable: Durable::Now }
}

/// A block in parts, as pages are.
fn parts(content: &[u8]) -> Vec<Bytes> {
    content.chunks(64 << 10).map(Bytes::copy_from_slice).collect()
}

async fn seal(tree: &dyn Tree, content: &[u8]) -> SealedAhead {
    tree.seal_ahead(parts(content)).await.expect("sealed").expect("the space has it not")
}

/// What a save of `content` sends if these blocks of it were sealed ahead.
fn rest(content: &[u8], ahead: &BTreeMap<u64, SealedAhead>) -> SaveBody {
    let blocks = content.chunks(MIB).zip(0_u64..).filter(|(_, index)| !ahead.contains_key(index));
    let pieces: Vec<_> = blocks.map(|(block, _)| Ok(Bytes::copy_from_slice(block))).collect();
    SaveBody { stream: stream::iter(pieces).boxed(), ahead: ahead.clone(), left_out: LeftOut::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_takes_what_was_sealed_ahead_wherever_it_lies() {
    let rig = Rig::new().await;
    let tree = tree(&rig).await;
    assert!(tree.seals_here());
    let (mut round, mut all_bytes) = (0, 0);
    // None, the first, the last whole one, some in the middle, all; in contents that end with a block and behind one.
    for (blocks, tail) in [(3, 0), (5, 17), (20, 0), (70, 1_000)] {
        for which in [vec![], vec![0], vec![blocks - 1], vec![1, 2], (0..blocks).collect::<Vec<u64>>()] {
            round += 1;
            let size = usize::try_from(blocks).expect("small") * MIB + tail;
            let content = even_bytes(round, size);
            let made = make(&*tree, &round.to_string()).await;
            let mut ahead = BTreeMap::new();
            for index in which {
                let start = usize::try_from(index).expect("small") * MIB;
                ahead.insert(index, seal(&*tree, &content[start..start + MIB]).await);
            }
            let whole = save(made.node.id, None, ByteRange::whole(size as u64), size);
            let saved = tree.save(whole, rest(&content, &ahead)).await.expect("saved");
            drop(ahead);
            assert_eq!(saved.node.size, size as u64);
            all_bytes += size as u64;
            rig.engine.give_memory_back();
            assert!(rig.get(&round.to_string()).await.expect("reads") == content, "round {round}");
        }
    }
    let pack_bytes = rig.pack_bytes().await;
    assert!(pack_bytes < all_bytes + all_bytes / 100, "{pack_bytes} bytes were written of {all_bytes}");
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_read_before_it_is_saved_and_equal_blocks_are_one() {
    let rig = Rig::new().await;
    let tree = tree(&rig).await;
    let content = text(1, MIB);
    let (one, other) = (seal(&*tree, &content).await, seal(&*tree, &content).await);
    let written = rig.pack_bytes().await;
    assert_eq!(one, other);
    for range in [0..MIB, 0..1, 77_777..300_000, MIB - 1..MIB, 5..5] {
        rig.engine.give_memory_back();
        assert!(one.read(range.clone()).await.expect("reads") == content[range]);
    }
    assert_eq!(one.read(0..MIB + 1).await.expect_err("is longer").kind(), ErrorKind::Damaged);
    // Two files of it, one after the other, each with it twice.
    let twice = [content.clone(), content.clone()].concat();
    for name in ["a", "b"] {
        let made = make(&*tree, name).await;
        let ahead = BTreeMap::from([(0, one.clone()), (1, other.clone())]);
        let save = save(made.node.id, None, ByteRange::whole(2 * MIB as u64), 2 * MIB);
        tree.save(save, rest(&twice, &ahead)).await.expect("saved");
        assert!(rig.get(name).await.expect("reads") == twice);
    }
    assert_eq!(rig.pack_bytes().await, written, "equal blocks are written once");
    // Now that the space has it, it is not sealed again.
    drop((one, other));
    assert_eq!(tree.seal_ahead(parts(&content)).await.expect("answers"), None);
    // Each file has its own reference.
    rig.engine.remove(&rig.ana, &at("a"), holdfast_drive::Conditions::default()).await.expect("removes");
    rig.engine.purge_trash(&rig.ana, "ana", None).await.expect("purges");
    rig.reclaim().await;
    rig.engine.give_memory_back();
    assert!(rig.get("b").await.expect("reads") == twice);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_in_the_middle_of_a_file_goes_between_those_that_stay() {
    let rig = Rig::new().await;
    let tree = tree(&rig).await;
    let mut content = even_bytes(1, 6 * MIB + 5);
    rig.put("file", &content).await.expect("writes");
    let name = NodeName::new("file").expect("a name");
    let before = tree.lookup(tree.root(), &name).await.expect("looks").expect("is there").node;
    content[2 * MIB..5 * MIB].copy_from_slice(&even_bytes(2, 3 * MIB));
    let ahead = BTreeMap::from([(3, seal(&*tree, &content[3 * MIB..4 * MIB]).await)]);
    let range = ByteRange { start: 2 * MIB as u64, end: 5 * MIB as u64 };
    let sent = [&content[2 * MIB..3 * MIB], &content[4 * MIB..5 * MIB]].concat();
    let save = save(before.id, before.content, range, content.len());
    tree.save(save, SaveBody { stream: body(&sent), ahead, left_out: LeftOut::default() }).await.expect("saved");
    assert!(rig.get("file").await.expect("reads") == content);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_stay_are_not_sent_again() {
    let rig = Rig::new().await;
    let tree = tree(&rig).await;
    for (round, tail) in [(1, 0), (2, 5)] {
        let path = round.to_string();
        let mut content = even_bytes(round, 90 * MIB + tail);
        rig.put(&path, &content).await.expect("writes");
        let name = NodeName::new(&path).expect("a name");
        let before = tree.lookup(tree.root(), &name).await.expect("looks").expect("is there").node;
        // Blocks 3, 40 and 80, the middle one sealed before; more behind the end.
        for block in [3, 40, 80] {
            content[block * MIB + 7..block * MIB + 1_000].fill(9);
        }
        content.extend_from_slice(&even_bytes(100 + round, 2 * MIB));
        let ahead = BTreeMap::from([(40, seal(&*tree, &content[40 * MIB..41 * MIB]).await)]);
        let range = ByteRange { start: 3 * MIB as u64, end: content.len() as u64 };
        let sent = [&content[3 * MIB..4 * MIB], &content[80 * MIB..81 * MIB], &content[90 * MIB..]].concat();
        let written = rig.pack_bytes().await;
        let body = SaveBody {
            stream: body(&sent),
            ahead,
            left_out: LeftOut { stay: vec![4..40, 41..80, 81..90], ..LeftOut::default() },
        };
        tree.save(save(before.id, before.content, range, content.len()), body).await.expect("saved");
        assert!(rig.pack_bytes().await < written + 6 * MIB as u64, "round {round}");
        rig.engine.give_memory_back();
        assert!(rig.get(&path).await.expect("reads") == content, "round {round}");
    }
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zeros_are_not_sent_and_stored_once() {
    let rig = Rig::new().await;
    let tree = tree(&rig).await;
    for (round, blocks) in [(1, 300), (2, 3), (3, 1)] {
        let name = format!("{round}");
        let made = make(&*tree, &name).await;
        let (size, tail) = (blocks * MIB + 5, even_bytes(round, 5));
        let (sent, zeros) = match blocks {
            1 => (tail.clone(), std::iter::once(0..1).collect()),
            // One in the middle that was written.
            _ => ([&even_bytes(9, MIB)[..], &tail].concat(), vec![0..1, 2..blocks as u64]),
        };
        let written = rig.pack_bytes().await;
        let left_out = LeftOut { zeros, ..LeftOut::default() };
        let save = save(made.node.id, None, ByteRange::whole(size as u64), size);
        let saved =
            tree.save(save, SaveBody { stream: body(&sent), ahead: BTreeMap::new(), left_out }).await.expect("saved");
        assert!(rig.pack_bytes().await < written + 2 * MIB as u64, "round {round}");
        rig.engine.give_memory_back();
        let mut content = vec![0; blocks * MIB];
        if blocks > 1 {
            content[MIB..2 * MIB].copy_from_slice(&even_bytes(9, MIB));
        }
        content.extend_from_slice(&tail);
        assert!(rig.get(&name).await.expect("reads") == content, "round {round}");
        let open = tree.open(saved.node.content.expect("has one")).await.expect("opens");
        assert!(open.is_hole(0).await.expect("looks"), "round {round}");
    }
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_save_names_is_freed_and_what_waits_is_not() {
    let rig = Rig::new().await;
    let tree = tree(&rig).await;
    let (given_up, waits) = (even_bytes(1, MIB), even_bytes(2, MIB));
    // A pack of their own for each: packs of the rig have 8 MiB.
    let mut filler = 10;
    let mut fill = async |tree: &Arc<dyn Deferring>| {
        for _ in 0..8 {
            filler += 1;
            drop(seal(&**tree, &even_bytes(filler, MIB)).await);
        }
    };
    drop(seal(&*tree, &given_up).await);
    fill(&tree).await;
    let waiting = seal(&*tree, &waits).await;
    fill(&tree).await;
    let before = rig.pack_bytes().await;
    rig.reclaim().await;
    let after = rig.pack_bytes().await;
    assert!(after < before - 6 * MIB as u64, "{before} bytes before, {after} after");
    rig.engine.give_memory_back();
    assert!(waiting.read(0..MIB).await.expect("is there") == waits);
    let made = make(&*tree, "file").await;
    let save = save(made.node.id, None, ByteRange::whole(MIB as u64), MIB);
    tree.save(save, rest(&waits, &BTreeMap::from([(0, waiting)]))).await.expect("saved");
    rig.reclaim().await;
    rig.engine.give_memory_back();
    assert!(rig.get("file").await.expect("reads") == waits);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_fails_is_told_and_its_blocks_can_be_sealed_again() {
    let (rig, faults) = faulty().await;
    let tree = tree(&rig).await;
    let content = even_bytes(1, 2 * MIB);
    let made = make(&*tree, "file").await;
    let whole = || save(made.node.id, None, ByteRange::whole(2 * MIB as u64), 2 * MIB);
    let block = seal(&*tree, &content[..MIB]).await;
    let ahead = BTreeMap::from([(0, block.clone())]);
    faults.always(Operation::Sync, Fault::FailBefore(ErrorKind::Unavailable));
    let error = tree.save(whole(), rest(&content, &ahead)).await.expect_err("its pack fails");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    faults.clear();
    assert!(!block.is_sound());
    // It does not help that the disk works again: nobody knows what is on it.
    tree.save(whole(), rest(&content, &ahead)).await.expect_err("the pack is not trusted any more");
    rig.engine.give_memory_back();
    assert!(block.read(0..MIB).await.expect("reads what can be read") == content[..MIB]);
    let again = seal(&*tree, &content[..MIB]).await;
    assert!(again.is_sound());
    tree.save(whole(), rest(&content, &BTreeMap::from([(0, again)]))).await.expect("saved");
    drop((block, ahead));
    assert!(rig.get("file").await.expect("reads") == content);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused() {
    let rig = Rig::new().await;
    let tree = tree(&rig).await;
    let content = even_bytes(1, 3 * MIB + 9);
    for wrong in [0, 1, MIB - 1, MIB + 1] {
        tree.seal_ahead(parts(&content[..wrong])).await.expect_err("is no block");
    }
    let made = make(&*tree, "file").await;
    let size = content.len();
    let whole = || save(made.node.id, None, ByteRange::whole(size as u64), size);
    let block = seal(&*tree, &content[MIB..2 * MIB]).await;
    // Where the file does not reach, before the bytes it is to be between, and where a body ends within the block before.
    let beyond = SaveBody {
        stream: body(&content[..2 * MIB + 9]),
        ahead: BTreeMap::from([(7, block.clone())]),
        left_out: LeftOut::default(),
    };
    tree.save(whole(), beyond).await.expect_err("the file does not reach that far");
    let short = SaveBody {
        stream: body(&content[..MIB / 2]),
        ahead: BTreeMap::from([(1, block.clone())]),
        left_out: LeftOut::default(),
    };
    tree.save(whole(), short).await.expect_err("the body ends too early");
    let long =
        SaveBody { stream: body(&content), ahead: BTreeMap::from([(1, block.clone())]), left_out: LeftOut::default() };
    tree.save(whole(), long).await.expect_err("the body has the block as well");
    let before = Save { body: ByteRange { start: 2 * MIB as u64, end: size as u64 }, ..whole() };
    let outside = SaveBody {
        stream: body(&content[2 * MIB..]),
        ahead: BTreeMap::from([(1, block.clone())]),
        left_out: LeftOut::default(),
    };
    tree.save(before, outside).await.expect_err("the block lies before what is saved");
    let without = |stay: Vec<Range<u64>>, zeros: Vec<Range<u64>>| SaveBody {
        stream: body(&content[MIB..]),
        ahead: BTreeMap::new(),
        left_out: LeftOut { stay, zeros },
    };
    let one = |range: Range<u64>| std::iter::once(range).collect::<Vec<_>>();
    let wrong = [
        (one(0..1), vec![], "the file has no block that could stay"),
        (vec![], vec![0..1, 0..1], "a block is named twice"),
        (vec![], vec![0..2, 1..3], "a block is in two ranges"),
        (vec![], vec![1..2, 0..1], "they are not in order"),
        (vec![], one(3..4), "the file's last block is not whole"),
        (vec![], one(1..1), "there is nothing in it"),
        (vec![], one(Range { start: 2, end: 1 }), "it ends before it begins"),
        (vec![], one(0..u64::MAX), "no file is that long"),
        (vec![], one(u64::MAX - 1..u64::MAX), "no file is that long"),
    ];
    for (stay, zeros, why) in wrong {
        let error = tree.save(whole(), without(stay, zeros)).await.expect_err(why);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{why}: {error}");
    }
    assert_eq!(rig.get("file").await.expect("reads"), b"", "nothing changed");
    rig.memory.set_capacity(Some(rig.pack_bytes().await));
    let full = tree.seal_ahead(parts(&even_bytes(9, MIB))).await.expect_err("the store is full");
    assert_eq!(full.kind(), ErrorKind::NoSpace);
    rig.memory.set_capacity(None);
    tree.save(whole(), rest(&content, &BTreeMap::from([(1, block)]))).await.expect("saved");
    assert!(rig.get("file").await.expect("reads") == content);
}
