//! What is written is read back, whole and in ranges, and nothing else is left behind.

use crate::common::{Rig, at, at_space, body, drain, even_bytes, sign_up, text};
use futures_util::{FutureExt, StreamExt};
use holdfast_base::{ByteRange, ErrorKind};
use holdfast_blob::BlobStore;
use holdfast_blob::layer::fault::{Fault, Faults, Gate};
use holdfast_blob::layer::{Layered, Operation};
use holdfast_blob::memory::MemoryStore;
use holdfast_drive::{Conditions, DigestAlgorithm, Drive, Expect, Patch, Transfer, WriteOptions};
use holdfast_meta::{Catalogue, Role};
use std::sync::Arc;
use std::time::Duration;

const MIB: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn content_of_every_size_comes_back() {
    let rig = Rig::new().await;
    for size in [0, 1, 100, 4_096, 4_097, 70_000, MIB - 1, MIB, MIB + 1, 16 * MIB, 16 * MIB + 1, 70 * MIB + 12_345] {
        for (kind, content) in [("even", even_bytes(1, size)), ("text", text(1, size))] {
            let path = format!("{kind}-{size}");
            let changed = rig.put(&path, &content).await.expect("writes");
            assert_eq!((changed.created, changed.node.size), (true, size as u64), "{path}");
            assert!(rig.get(&path).await.expect("reads") == content, "{path}");
        }
    }
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_range_comes_back() {
    let rig = Rig::new().await;
    let size = 5 * MIB + 777;
    let content = text(2, size);
    rig.put("file", &content).await.expect("writes");
    rig.put("tiny", b"0123456789").await.expect("writes");
    for (start, end) in
        [(0, 1), (0, size), (MIB - 1, MIB + 1), (MIB, 2 * MIB), (size - 1, size), (3, 4 * MIB + 5), (7, 7)]
    {
        let range = ByteRange { start: start as u64, end: end as u64 };
        assert!(rig.get_range("file", range).await.expect("reads") == content[start..end], "{start}..{end}");
    }
    assert_eq!(rig.get_range("tiny", ByteRange { start: 3, end: 5 }).await.expect("reads"), b"34");
    let beyond = ByteRange { start: 0, end: size as u64 + 1 };
    assert_eq!(rig.get_range("file", beyond).await.expect_err("beyond").kind(), ErrorKind::RangeNotSatisfiable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_is_of_use_to_its_own_session_only() {
    let mut rig = Rig::new().await;
    rig.put("file", b"content").await.expect("writes");
    let ben = sign_up(&rig.accounts, "ben").await;
    let walk = rig.engine.walk(&rig.ana, &at("file")).await.expect("walks");
    let whole = ByteRange::whole(7);
    assert_eq!(drain(rig.engine.read(&rig.ana, &walk, whole).await.expect("opens")).await.expect("reads"), b"content");
    let refused = rig.engine.read(&ben, &walk, whole).await.err().expect("refused");
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    rig.ana.scope.space = Some(rig.engine.space(&ben, "ben").await.expect("sees its home").root.space);
    let refused = rig.engine.read(&rig.ana, &walk, whole).await.err().expect("refused");
    assert_eq!(refused.kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_blocks_of_a_space_are_stored_once() {
    let rig = Rig::new().await;
    for (index, size) in [3 * MIB, 40 * MIB].into_iter().enumerate() {
        let content = even_bytes(index as u64, size);
        rig.put(&format!("{size}-a"), &content).await.expect("writes");
        let before = rig.usage().await;
        rig.put(&format!("{size}-b"), &content).await.expect("writes");
        let after = rig.usage().await;
        assert_eq!(after.stored_sealed_bytes, before.stored_sealed_bytes);
        assert_eq!(after.used_bytes, before.used_bytes + size as u64, "quota counts what the user sees");
        assert!(rig.get(&format!("{size}-b")).await.expect("reads") == content);
    }
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_the_wrong_length_or_checksum_changes_nothing() {
    let rig = Rig::new().await;
    rig.put("file", b"before").await.expect("writes");
    for size in [10, 3 * MIB, 30 * MIB] {
        let content = even_bytes(9, size);
        for declared in [size as u64 - 1, size as u64 + 1] {
            let options = WriteOptions { length: Some(declared), ..WriteOptions::default() };
            let error = rig.engine.write(&rig.ana, &at("file"), options, body(&content)).await.expect_err("refuses");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        let digests = vec![(DigestAlgorithm::Sha256, vec![0; 32])];
        let options = WriteOptions { digests, ..WriteOptions::default() };
        rig.engine.write(&rig.ana, &at("file"), options, body(&content)).await.expect_err("refuses");
        let broken = body(&content).take(5).chain(futures_util::stream::once(async {
            Err(holdfast_base::Error::new(ErrorKind::Timeout, "the client vanished"))
        }));
        let error = rig.engine.write(&rig.ana, &at("file"), WriteOptions::default(), broken.boxed()).await;
        if size > 400_000 {
            assert_eq!(error.expect_err("refuses").kind(), ErrorKind::Timeout);
        }
    }
    assert_eq!(rig.engine.versions(&rig.ana, &at("file")).await.expect("lists").len(), 0);
    assert_eq!(rig.get("file").await.expect("reads"), b"before");
    settle(&rig).await;
    assert_eq!(rig.usage().await.used_bytes, 6);
    rig.reclaim().await;
    assert_eq!(rig.pack_bytes().await, 0);
    rig.assert_sound().await;
}

/// Waits until uploads that were given up are out of the catalogue.
async fn settle(rig: &Rig) {
    while rig.usage().await.reserved_bytes > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_dropped_half_way_leaves_nothing() {
    let rig = Rig::new().await;
    let content = even_bytes(3, 100 * MIB);
    let endless = body(&content).chain(futures_util::stream::pending()).boxed();
    let options = WriteOptions { length: Some(200 * MIB as u64), ..WriteOptions::default() };
    let at_file = at("file");
    let mut write = Box::pin(rig.engine.write(&rig.ana, &at_file, options, endless));
    while rig.pack_bytes().await < 90 * MIB as u64 {
        assert!(write.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.usage().await.reserved_bytes, 200 * MIB as u64);
    drop(write);
    settle(&rig).await;
    assert!(rig.get("file").await.is_err());
    // Blocks that were still being sealed may reach their pack after the upload is gone.
    while rig.pack_bytes().await > 0 {
        rig.reclaim().await;
    }
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_file_can_be_replaced() {
    let rig = Rig::new().await;
    let mut model: Vec<u8> = Vec::new();
    let parts = [
        (0, 10),
        (5, 20),
        (0, 3 * MIB + 5),
        (MIB, MIB),
        (MIB - 3, 6),
        (3 * MIB + 5, 17),
        (100, 2 * MIB),
        (7, 30 * MIB),
        (31, 1),
    ];
    for (number, (start, length)) in parts.into_iter().enumerate() {
        let part = even_bytes(number as u64, length);
        let options = WriteOptions {
            length: Some(length as u64),
            patch: Some(Patch { start: start as u64, total: None }),
            ..WriteOptions::default()
        };
        rig.engine.write(&rig.ana, &at("file"), options, body(&part)).await.expect("writes");
        model.resize(model.len().max(start + length), 0);
        model[start..start + length].copy_from_slice(&part);
        assert!(rig.get("file").await.expect("reads") == model, "after part {number}");
    }
    let hole = Some(Patch { start: model.len() as u64 + 1, total: None });
    let options = WriteOptions { length: Some(1), patch: hole, ..WriteOptions::default() };
    let error = rig.engine.write(&rig.ana, &at("file"), options, body(b"x")).await.expect_err("refuses a hole");
    assert_eq!(error.kind(), ErrorKind::RangeNotSatisfiable);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replacing_a_part_stores_only_what_changed() {
    let rig = Rig::new().await;
    rig.put("file", &even_bytes(1, 40 * MIB)).await.expect("writes");
    let before = rig.usage().await.stored_raw_bytes;
    let patch = Some(Patch { start: 20 * MIB as u64 + 5, total: None });
    let options = WriteOptions { length: Some(10), patch, ..WriteOptions::default() };
    rig.engine.write(&rig.ana, &at("file"), options, body(b"0123456789")).await.expect("writes");
    assert_eq!(rig.usage().await.stored_raw_bytes, before + MIB as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_gives_all_space_back() {
    let rig = Rig::new().await;
    for round in 0..3 {
        for file in 0..30 {
            rig.put(&format!("file-{file}"), &even_bytes(file, 300_000)).await.expect("writes");
        }
        for file in 0..30 {
            rig.engine.remove(&rig.ana, &at(&format!("file-{file}")), Conditions::default()).await.expect("removes");
        }
        assert!(rig.usage().await.used_bytes > 0, "trash counts");
        rig.engine.purge_trash(&rig.ana, "ana", None).await.expect("purges");
        rig.reclaim().await;
        assert_eq!((rig.usage().await, rig.pack_bytes().await), (holdfast_drive::Usage::default(), 0), "round {round}");
    }
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sparse_pack_is_rewritten_under_a_reader() {
    let rig = Rig::new().await;
    for file in 0..12 {
        rig.put(&format!("file-{file}"), &even_bytes(file, 2 * MIB)).await.expect("writes");
    }
    let walk = rig.engine.walk(&rig.ana, &at("file-0")).await.expect("walks");
    let mut reader = rig.engine.read(&rig.ana, &walk, ByteRange::whole(2 * MIB as u64)).await.expect("begins");
    let first = reader.next().await.expect("has a piece").expect("reads");
    for file in 1..12 {
        rig.engine.remove(&rig.ana, &at(&format!("file-{file}")), Conditions::default()).await.expect("removes");
    }
    rig.engine.purge_trash(&rig.ana, "ana", None).await.expect("purges");
    let report = rig.reclaim().await;
    assert!(report.packs_rewritten > 0, "{report:?}");
    let rest = drain(reader).await.expect("reads on");
    assert!([&first[..], &rest].concat() == even_bytes(0, 2 * MIB));
    assert!(rig.get("file-0").await.expect("reads") == even_bytes(0, 2 * MIB));
    rig.assert_sound().await;
}

/// A program that saves every two seconds for fifty minutes.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_saved_all_the_time_takes_no_more_room_than_the_versions_that_stay() {
    const BYTES: usize = 20_000;
    let rig = Rig::new().await;
    let saves = 25 * 60_u64;
    for number in 0..saves {
        rig.put("file", &even_bytes(number, BYTES)).await.expect("writes");
        rig.clock.advance(2_000);
        if number % 30 == 29 {
            rig.reclaim().await;
        }
    }
    let versions = rig.engine.versions(&rig.ana, &at("file")).await.expect("lists");
    // Of each ten seconds one but for the last ten minutes, of which each is there; and what lies across their ends.
    let expected = 240 + 300;
    assert!(versions.len().abs_diff(expected) <= 3, "{} versions", versions.len());
    let mut found = std::collections::BTreeSet::new();
    for version in &versions {
        let walk = rig.engine.walk_version(&rig.ana, &at("file"), version.seq).await.expect("walks");
        let stream = rig.engine.read(&rig.ana, &walk, ByteRange::whole(BYTES as u64)).await.expect("begins");
        let content = drain(stream).await.expect("reads");
        found.insert((0..saves).find(|number| content[..64] == even_bytes(*number, 64)).expect("was saved"));
    }
    assert_eq!(found.len(), versions.len(), "each is another");
    assert!((saves - 290..saves - 1).all(|number| found.contains(&number)), "the last ten minutes are whole");
    let marks = (1..240).filter(|mark| found.contains(&(mark * 5 - 1)) || found.contains(&(mark * 5))).count();
    assert_eq!(marks, 239, "what it was at each ten seconds is there");
    // Packs that are half alive stay as they are.
    let least = (versions.len() * BYTES) as u64;
    assert!((least..3 * least).contains(&rig.pack_bytes().await), "{} of {least}", rig.pack_bytes().await);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_of_small_records_is_not_copied_again_and_again() {
    let rig = Rig::new().await;
    // Zeros, of which a few bytes are left.
    rig.put("file", &vec![0; 300_000]).await.expect("writes");
    rig.reclaim().await;
    let packs = rig.memory_packs().await;
    assert_eq!(packs.len(), 1);
    for _ in 0..2 {
        assert_eq!(rig.reclaim().await, holdfast_drive::care::ReclaimReport::default());
        assert_eq!(rig.memory_packs().await, packs);
    }
    // What dies of it is given back all the same.
    for number in 1..20_u8 {
        rig.put(&format!("file-{number}"), &vec![number; 300_000]).await.expect("writes");
    }
    rig.reclaim().await;
    for number in 1..20 {
        rig.engine.remove(&rig.ana, &at(&format!("file-{number}")), Conditions::default()).await.expect("removes");
    }
    rig.engine.purge_trash(&rig.ana, "ana", None).await.expect("purges");
    let report = rig.reclaim().await;
    assert!(report.packs_rewritten + report.packs_deleted > 0, "{report:?}");
    assert_eq!(rig.get("file").await.expect("reads"), vec![0; 300_000]);
    rig.assert_sound().await;
}

/// Of a version that goes while it is read, the reader gets no other bytes, and nobody is sent to look for damage.
#[tokio::test(flavor = "multi_thread")]
async fn a_content_that_goes_while_it_is_read_is_not_called_damaged() {
    let rig = Rig::new().await;
    rig.put("file", &even_bytes(1, 20 * MIB)).await.expect("writes");
    let walk = rig.engine.walk(&rig.ana, &at("file")).await.expect("walks");
    let range = ByteRange::whole(20 * MIB as u64);
    let mut reader = rig.engine.read(&rig.ana, &walk, range).await.expect("begins");
    let first = reader.next().await.expect("has a piece").expect("reads");
    rig.engine.remove(&rig.ana, &at("file"), Conditions::default()).await.expect("removes");
    rig.engine.purge_trash(&rig.ana, "ana", None).await.expect("purges");
    rig.reclaim().await;
    rig.engine.give_memory_back();
    let (mut found, mut end) = (first.to_vec(), None);
    while let Some(piece) = reader.next().await {
        match piece {
            Ok(piece) => found.extend_from_slice(&piece),
            Err(error) => end = Some(error.kind()),
        }
    }
    assert_eq!(end, Some(ErrorKind::NotFound));
    assert!(even_bytes(1, 20 * MIB).starts_with(&found));
    let again = rig.engine.read(&rig.ana, &walk, range).await.map(drop).expect_err("is gone");
    assert_eq!(again.kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_noticed_by_readers_and_by_check() {
    let rig = Rig::new().await;
    rig.put("file", &even_bytes(1, 100_000)).await.expect("writes");
    let pack = rig.memory_packs().await[0];
    for bit in [8 * 40, 8 * 60, 8 * 100, 8 * 50_000, 8 * 100_100] {
        rig.memory.flip_bit(pack, bit);
        rig.engine.give_memory_back();
        let error = rig.get("file").await.map(|content| content.len()).expect_err("notices");
        assert_eq!(error.kind(), ErrorKind::Damaged, "bit {bit}");
        let options = holdfast_drive::care::CheckOptions { read_data: true, repair: false };
        let report = holdfast_drive::care::check(&*rig.catalogue, &rig.memory, options).await.expect("checks");
        assert!(report.has_loss(), "bit {bit}");
        rig.memory.flip_bit(pack, bit);
    }
    rig.assert_sound().await;
}

impl Rig {
    async fn memory_packs(&self) -> Vec<holdfast_base::PackName> {
        use holdfast_blob::BlobStore;
        self.memory.list(None, 100).await.expect("lists").into_iter().map(|entry| entry.name).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_fit_is_refused_before_its_body_is_read() {
    let rig = Rig::new().await;
    let account = rig.ana.account;
    let change = holdfast_meta::AccountChange { quota_bytes: Some(Some(50 * MIB as u64)), ..Default::default() };
    rig.catalogue.change_account(account, change).await.expect("changes");
    let options = WriteOptions { length: Some(1 << 40), ..WriteOptions::default() };
    let never = futures_util::stream::pending().boxed();
    let error = rig.engine.write(&rig.ana, &at("huge"), options, never).await.expect_err("refuses");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    rig.put("fits", &even_bytes(1, 49 * MIB)).await.expect("writes");
    let error = rig.engine.write(&rig.ana, &at("more"), WriteOptions::default(), body(&even_bytes(2, 20 * MIB))).await;
    assert_eq!(error.expect_err("refuses").kind(), ErrorKind::NoSpace);
    rig.engine.remove(&rig.ana, &at("fits"), Conditions::default()).await.expect("removing works when full");
    settle(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn preconditions_and_locks_are_tested_before_and_at_the_commit() {
    let rig = Rig::new().await;
    let seq = rig.put("file", b"one").await.expect("writes").node.seq;
    let with =
        |expect| WriteOptions { conditions: Conditions { expect, tokens: Vec::new() }, ..WriteOptions::default() };
    for expect in [Expect::Absent, Expect::Seq(seq + 1)] {
        let never = futures_util::stream::pending().boxed();
        let error = rig.engine.write(&rig.ana, &at("file"), with(expect), never).await.expect_err("refuses");
        assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
    }
    rig.engine.write(&rig.ana, &at("file"), with(Expect::Seq(seq)), body(b"two")).await.expect("writes");
    let error = rig.engine.write(&rig.ana, &at("no/such/folder"), WriteOptions::default(), body(b"x")).await;
    assert_eq!(error.expect_err("refuses").kind(), ErrorKind::Conflict);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_moves_between_spaces_and_is_sealed_anew() {
    let rig = Rig::new().await;
    let ben = sign_up(&rig.accounts, "ben").await;
    rig.accounts.create_space(&rig.ana, "lab", None).await.expect("makes");
    rig.accounts.add_member(&rig.ana, "lab", "ben", Role::Reader).await.expect("adds");
    rig.engine.make_folder(&rig.ana, &at("tree"), Conditions::default()).await.expect("makes");
    rig.put("tree/a", &even_bytes(1, 2 * MIB)).await.expect("writes");
    rig.put("tree/b", b"tiny").await.expect("writes");
    let transfer = Transfer {
        from: at("tree"),
        to: at_space("lab", "here"),
        copy: false,
        overwrite: false,
        deep: true,
        source_expect: Expect::Any,
        tags: Vec::new(),
    };
    rig.engine.relocate(&rig.ana, &transfer, Conditions::default()).await.expect("moves");
    assert!(rig.get("tree/a").await.is_err(), "it is gone from where it was");
    let walk = rig.engine.walk(&ben, &at_space("lab", "here/a")).await.expect("a member walks");
    let stream = rig.engine.read(&ben, &walk, ByteRange::whole(2 * MIB as u64)).await.expect("a member reads");
    assert!(drain(stream).await.expect("reads") == even_bytes(1, 2 * MIB));
    let write = rig.engine.write(&ben, &at_space("lab", "x"), WriteOptions::default(), body(b"x")).await;
    assert_eq!(write.expect_err("a reader may not write").kind(), ErrorKind::Forbidden);
    let foreign = rig.engine.walk(&ben, &at("tree")).await.expect_err("not a member");
    assert_eq!(foreign.kind(), ErrorKind::NotFound);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_at_once_never_wait_for_each_other() {
    let rig = Rig::new().await;
    let content = even_bytes(1, 60 * MIB);
    rig.put("known", &content).await.expect("writes");
    // Twelve uploads whose every block is known already, and twelve downloads: each alone could hold a good part of a budget.
    let uploads = (0..12).map(|number| {
        let (rig, content) = (&rig, &content);
        async move { rig.put(&format!("again-{number}"), content).await.map(|_| ()) }
    });
    futures_util::future::try_join_all(uploads).await.expect("all are written");
    let downloads = (0..12).map(|number| {
        let (rig, content) = (&rig, &content);
        async move { assert!(rig.get(&format!("again-{number}")).await.expect("reads") == *content) }
    });
    futures_util::future::join_all(downloads).await;
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn packs_too_small_to_stay_become_larger_ones() {
    let rig = Rig::new().await;
    let content = |number: u64| even_bytes(number, 700_000);
    for number in 0..20 {
        rig.put(&format!("file-{number}"), &content(number)).await.expect("writes");
        // Each is closed with one file in it, as a store does where a sync ends a pack.
        rig.reclaim().await;
    }
    let packs = rig.memory.list(None, 1_000).await.expect("lists");
    let small: Vec<u64> = packs.iter().map(|pack| pack.bytes).filter(|bytes| *bytes < 2 << 20).collect();
    assert!(small.len() <= 3 && packs.len() <= 10, "{packs:?}");
    for number in 0..20 {
        assert!(rig.get(&format!("file-{number}")).await.expect("reads") == content(number));
    }
    rig.assert_sound().await;
}

/// A block that shrinks to a few bytes keeps the memory of a whole one until its pack is an object, and of such records a pack never gets full.
#[tokio::test]
async fn uploads_that_shrink_do_not_wait_for_each_other_where_packs_lie_in_memory_until_their_sync() {
    let memory = MemoryStore::like_an_object_store();
    let rig = Rig::with_store(memory.clone(), Arc::new(memory)).await;
    // Together more blocks than the memory for uploads has room for; none has so many that they are staged, and their pack synced, before.
    let content = |number: u8| (0..12_u8).flat_map(|block| vec![number * 12 + block; MIB]).collect::<Vec<_>>();
    let uploads = (0..8).map(|number| {
        let rig = &rig;
        async move { rig.put(&format!("file{number}"), &content(number)).await.map(drop) }
    });
    let done = tokio::time::timeout(Duration::from_mins(1), futures_util::future::try_join_all(uploads)).await;
    done.expect("no upload waits for ever").expect("stored");
    for number in 0..8 {
        assert!(rig.get(&format!("file{number}")).await.expect("reads") == content(number), "file{number}");
    }
    rig.assert_sound().await;
}

/// Where a sync makes an object, uploads that come while two are being made share the next one, and what is begun ahead leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_wait_for_a_slow_object_store_share_an_object() {
    let (memory, faults, gate) =
        (MemoryStore::like_an_object_store(), Arc::new(Faults::default()), Arc::new(Gate::default()));
    let store = Layered::sharing(Arc::new(memory.clone()), faults.clone());
    let rig = Arc::new(Rig::with_store(memory, Arc::new(store)).await);
    faults.always(Operation::Sync, Fault::Wait(gate.clone()));
    let upload = |number: u64| {
        let rig = rig.clone();
        tokio::spawn(async move { rig.put(&format!("file{number}"), &even_bytes(number, 16 << 10)).await.map(drop) })
    };
    let mut uploads = Vec::new();
    for number in 0..2 {
        uploads.push(upload(number));
        gate.wait_for_arrival().await;
    }
    uploads.extend((2..42).map(upload));
    // Long enough for all of them to be written, and for a third sync to begin if it could.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(faults.calls(Operation::Sync), 2, "the third waits");
    gate.open();
    for upload in uploads {
        upload.await.expect("ends").expect("stored");
    }
    let objects = rig.memory.list(None, 100).await.expect("lists").len();
    assert!((3..=5).contains(&objects), "{objects} objects for 42 uploads");
    for number in 0..42 {
        assert!(
            rig.get(&format!("file{number}")).await.expect("reads") == even_bytes(number, 16 << 10),
            "file{number}"
        );
    }
    rig.reclaim().await;
    let packs = rig.catalogue.packs(None, 100).await.expect("lists");
    assert_eq!(packs.len(), rig.memory.list(None, 100).await.expect("lists").len(), "no pack without an object");
    rig.assert_sound().await;
}
