//! Content that is answered before the disk has it: what of it is synced and when, and what the end of the process and faults of the store leave of it.

use crate::ahead::{make, save, tree};
use crate::common::{Rig, body, even_bytes};
use crate::faults::faulty;
use holdfast_base::{ByteRange, ContentId, ErrorKind, NodeName};
use holdfast_blob::layer::Operation;
use holdfast_blob::layer::fault::Fault;
use holdfast_drive::care::reclaim;
use holdfast_drive::{
    Applied, Batch, Deferred, Deferring, Durable, NewContent, Prepared, Rewrite, Save, SaveBody, Unsynced,
};
use holdfast_meta::{Catalogue, PackState};
use std::time::Duration;

const MIB: usize = 1 << 20;

/// A file that is made, and the save of all of it.
async fn new_save(tree: &dyn Deferring, name: &str, size: usize) -> Save {
    let made = make(tree, name).await;
    save(made.node.id, None, ByteRange::whole(size as u64), size)
}

async fn prepare(tree: &dyn Deferring, save: &Save, content: &[u8]) -> Prepared {
    tree.prepare(save, SaveBody::from(body(content))).await.expect("writes")
}

/// Hands a save over; it must be made.
async fn hand_over(tree: &dyn Deferring, number: u64, save: &Save, name: &str, content: NewContent) {
    let content_id = ContentId(tree.reserve(1).await.expect("gives out").start);
    let at = (tree.root(), NodeName::new(name).expect("a name"));
    let rewrite = Rewrite { node: save.node, base: save.base, content, posix: save.posix, keep: save.keep };
    let changes = vec![(number, Deferred::Save { rewrite, content_id, at })];
    let mut answers = tree.apply(Batch { journal: [7; 16], changes }, Durable::Soon).await.expect("applies");
    let Ok(Applied::Made(entry)) = answers.remove(0) else { panic!("it is to be made") };
    assert_eq!((entry.node.content, entry.node.size), (Some(content_id), save.size));
}

async fn read_all(unsynced: &Unsynced) -> Vec<u8> {
    unsynced.read(ByteRange::whole(unsynced.size())).await.expect("reads")
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_read_at_once_synced_when_it_is_asked_for_and_handed_over_then() {
    let (rig, faults) = faulty().await;
    let tree = tree(&rig).await;
    assert!(tree.prepared_bytes_max() > 0);
    for (number, size) in (1_u64..).zip([70_000, MIB - 1, MIB, MIB + 1, 20 * MIB, 63 * MIB + 9]) {
        let (name, content) = (number.to_string(), even_bytes(number, size));
        let save = new_save(&*tree, &name, size).await;
        let (begun, syncs) = (faults.calls(Operation::Begin), faults.calls(Operation::Sync));
        let unsynced = prepare(&*tree, &save, &content).await.unsynced().expect("all of it is new");
        // A pack that is full is synced by itself.
        let full = faults.calls(Operation::Begin) - begun;
        assert!(faults.calls(Operation::Sync) <= syncs + full, "nothing of {size} bytes is to be synced yet");
        assert_eq!(unsynced.size(), size as u64);
        assert!(unsynced.sealed_bytes() > size as u64 && unsynced.sealed_bytes() < size as u64 + 10_000);
        rig.engine.give_memory_back();
        assert!(read_all(&unsynced).await == content);
        for (start, end) in [(0, 0), (5, 9), (size - 1, size), (size / 2, size)] {
            let range = ByteRange { start: start as u64, end: end as u64 };
            assert!(unsynced.read(range).await.expect("reads") == content[start..end]);
        }
        let beyond = ByteRange { start: 0, end: size as u64 + 1 };
        assert_eq!(unsynced.read(beyond).await.expect_err("is longer").kind(), ErrorKind::RangeNotSatisfiable);
        let syncs = faults.calls(Operation::Sync);
        tree.sync(std::slice::from_ref(&unsynced)).await.expect("syncs");
        assert!(faults.calls(Operation::Sync) > syncs || size > 8 * MIB);
        hand_over(&*tree, number, &save, &name, unsynced.content().clone()).await;
        drop(unsynced);
        rig.engine.give_memory_back();
        assert!(rig.get(&name).await.expect("reads") == content);
    }
    let answered = tree.answered([7; 16], vec![1, 6, 7]).await.expect("answers");
    assert_eq!(answered, [true, true, false]);
    assert_eq!(tree.answered([8; 16], vec![1]).await.expect("answers"), [false], "another journal");
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_space_has_already_or_is_tiny_is_saved_at_once_and_equal_content_is_written_once() {
    let rig = Rig::new().await;
    let tree = tree(&rig).await;
    let content = even_bytes(1, 2 * MIB);
    let first = new_save(&*tree, "first", content.len()).await;
    let unsynced = prepare(&*tree, &first, &content).await.unsynced().expect("all of it is new");
    let written = rig.pack_bytes().await;
    // The same again, while that waits.
    let second = new_save(&*tree, "second", content.len()).await;
    let again = prepare(&*tree, &second, &content).await.unsynced().expect("it waits as well");
    assert_eq!(rig.pack_bytes().await, written, "it is written once");
    tree.sync(&[unsynced.clone(), again.clone()]).await.expect("syncs");
    hand_over(&*tree, 1, &first, "first", unsynced.content().clone()).await;
    hand_over(&*tree, 2, &second, "second", again.content().clone()).await;
    drop((unsynced, again));
    // And when the space has it.
    let third = new_save(&*tree, "third", content.len()).await;
    let prepared = prepare(&*tree, &third, &content).await;
    assert!(prepared.unsynced().is_none());
    tree.save_prepared(third, prepared).await.expect("saves");
    let tiny = new_save(&*tree, "tiny", 100).await;
    let prepared = prepare(&*tree, &tiny, &content[..100]).await;
    assert!(prepared.unsynced().is_none());
    tree.save_prepared(tiny, prepared).await.expect("saves");
    for name in ["first", "second", "third"] {
        assert!(rig.get(name).await.expect("reads") == content, "{name}");
    }
    assert!(rig.get("tiny").await.expect("reads") == content[..100]);
    // What nobody hands over is dead.
    let lost = new_save(&*tree, "lost", 5 * MIB).await;
    drop(prepare(&*tree, &lost, &even_bytes(2, 5 * MIB)).await.unsynced().expect("is new"));
    assert!(rig.pack_bytes().await > written + 4 * MIB as u64);
    rig.reclaim().await;
    assert!(rig.pack_bytes().await < written + MIB as u64, "and reclaimed");
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_comes_after_finds_it_as_long_as_packs_are_kept_open() {
    let rig = Rig::new().await;
    let first = tree(&rig).await;
    let content = even_bytes(1, 3 * MIB);
    let wanted = new_save(&*first, "file", content.len()).await;
    let unsynced = prepare(&*first, &wanted, &content).await.unsynced().expect("is new");
    let places = unsynced.content().clone();
    // As a process leaves it that is killed.
    std::mem::forget(unsynced);
    let NewContent::Blocks { runs, .. } = &places else { panic!("it is in blocks") };
    let uid = rig
        .catalogue
        .all_spaces()
        .await
        .expect("lists")
        .into_iter()
        .find(|space| space.name == "ana")
        .expect("is there")
        .uid;
    for _ in 0..2 {
        // One that does something else, and reclaims.
        let engine = rig.next_engine_keeping(true).await;
        reclaim(&engine, true).await.expect("reclaims");
        engine.stop().await.expect("stops");
    }
    let engine = rig.next_engine_keeping(true).await;
    assert!(engine.rescue(holdfast_base::Uid([9; 16]), &places).await.expect("looks").is_none(), "another space's");
    // A place that is none, and one where something else is.
    for wrong in [0_u64, 1 << 40, 33] {
        let mut runs = runs.clone();
        runs[0].blocks[1].written.as_mut().expect("was written").offset = wrong;
        let NewContent::Blocks { size, block_bytes, nonce, tag, .. } = places.clone() else { unreachable!("above") };
        let wrong = NewContent::Blocks { size, block_bytes, nonce, tag, runs };
        assert!(engine.rescue(uid, &wrong).await.expect("looks").is_none());
    }
    let who = std::sync::Arc::new(rig.open_ana().await);
    let next = engine.tree(who, "ana").await.expect("a tree");
    let rescued = next.rescue(&places).await.expect("looks").expect("is there");
    assert!(read_all(&rescued).await == content);
    assert_ne!(rescued.content(), &places, "it is written once more");
    next.sync(std::slice::from_ref(&rescued)).await.expect("syncs");
    hand_over(&*next, 1, &wanted, "file", rescued.content().clone()).await;
    drop(rescued);
    engine.seal_left().await.expect("seals");
    reclaim(&engine, true).await.expect("reclaims");
    assert!(next.rescue(&places).await.expect("looks").is_none(), "the pack is gone");
    engine.give_memory_back();
    assert!(rig.get("file").await.expect("reads") == content);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_ends_after_a_clean_stop_is_told_to_nobody_and_sealed_by_the_next_start() {
    let rig = Rig::new().await;
    let tree = tree(&rig).await;
    let content = even_bytes(1, 3 * MIB);
    let wanted = new_save(&*tree, "file", content.len()).await;
    let unsynced = prepare(&*tree, &wanted, &content).await.unsynced().expect("is new");
    let states = || async {
        let packs = rig.catalogue.packs(None, 100).await.expect("lists");
        packs.iter().map(|pack| pack.state).collect::<Vec<_>>()
    };
    assert_eq!(states().await, [PackState::Open]);
    rig.engine.stop().await.expect("stops");
    // The catalogue may be closed from here on.
    drop(unsynced);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(states().await, [PackState::Open]);
    let next = rig.next_engine_keeping(false).await;
    assert_eq!(states().await, [PackState::Sealed]);
    next.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_fails_is_trusted_no_more_and_its_content_written_once_more() {
    let (rig, faults) = faulty().await;
    let tree = tree(&rig).await;
    let content = even_bytes(1, 3 * MIB);
    let wanted = new_save(&*tree, "file", content.len()).await;
    let unsynced = prepare(&*tree, &wanted, &content).await.unsynced().expect("is new");
    assert!(unsynced.is_sound());
    faults.on(Operation::Sync, 1, Fault::FailBefore(ErrorKind::Unavailable));
    tree.sync(std::slice::from_ref(&unsynced)).await.expect_err("the disk fails");
    assert!(!unsynced.is_sound());
    tree.sync(std::slice::from_ref(&unsynced)).await.expect_err("a sync is not tried again");
    // One that cannot be read any more is lost, and that is told apart from a store that answers nothing.
    faults.always(Operation::Read, Fault::FlipBit(1_000_003));
    assert!(tree.rescue(unsynced.content()).await.expect("looks").is_none());
    faults.clear();
    faults.always(Operation::Read, Fault::FailBefore(ErrorKind::Unavailable));
    tree.rescue(unsynced.content()).await.map(drop).expect_err("nobody knows");
    faults.clear();
    let rescued = tree.rescue(unsynced.content()).await.expect("looks").expect("is there");
    drop(unsynced);
    tree.sync(std::slice::from_ref(&rescued)).await.expect("syncs");
    hand_over(&*tree, 1, &wanted, "file", rescued.content().clone()).await;
    assert!(rig.get("file").await.expect("reads") == content);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_nobody_wrote_are_refused_by_themselves() {
    let rig = Rig::new().await;
    let tree = tree(&rig).await;
    let content = even_bytes(1, 70_000);
    let wanted = new_save(&*tree, "file", content.len()).await;
    let unsynced = prepare(&*tree, &wanted, &content).await.unsynced().expect("is new");
    let mut claimed = unsynced.content().clone();
    let NewContent::Blocks { runs, .. } = &mut claimed else { panic!("it is in blocks") };
    runs[0].blocks[0].written = None;
    let content_id = ContentId(tree.reserve(1).await.expect("gives out").start);
    let at = (tree.root(), NodeName::new("file").expect("a name"));
    let rewrite = Rewrite { node: wanted.node, base: None, content: claimed, posix: wanted.posix, keep: false };
    let changes = vec![(1, Deferred::Save { rewrite, content_id, at })];
    let answers = tree.apply(Batch { journal: [7; 16], changes }, Durable::Soon).await.expect("applies");
    assert_eq!(answers[0].as_ref().expect_err("is refused").kind(), ErrorKind::InvalidInput);
    tree.sync(std::slice::from_ref(&unsynced)).await.expect("syncs");
    hand_over(&*tree, 2, &wanted, "file", unsynced.content().clone()).await;
    assert!(rig.get("file").await.expect("reads") == content);
}
