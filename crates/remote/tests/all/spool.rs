//! Content that was answered first and waits on this side until the server has it.

use crate::rig::{NAME, Rig, body, bytes, leave, named, new_file, posix};
use crate::save;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_base::{BlockId, ByteRange, ContentId, Error, ErrorKind, NodeId};
use holdfast_blob::layer::Operation;
use holdfast_blob::layer::fault::Fault;
use holdfast_drive::engine::MountName;
use holdfast_drive::{
    Applied, Batch, Deferred, Deferring, Durable, LeftOut, NewAttributes, NewContent, NewEntry, NodeKind, Place,
    Rewrite, SaveBody, Tree, Unlink, Unsynced,
};
use holdfast_remote::client::Remote;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const MIB: usize = 1 << 20;

async fn spooling(rig: &Rig, folder: &Path) -> Remote {
    let mut remote = rig.deferring().await;
    remote.spool_in(folder).await.expect("has a spool");
    remote
}

/// A file's content in the spool.
async fn put(remote: &Remote, content: &[u8]) -> Unsynced {
    let save = save(NodeId(1), None, content.len() as u64, posix());
    let prepared = remote.prepare(&save, body(content)).await.expect("is put there");
    prepared.unsynced().expect("may be answered first")
}

async fn whole(unsynced: &Unsynced) -> Vec<u8> {
    unsynced.read(ByteRange::whole(unsynced.size())).await.expect("reads")
}

async fn on_the_server(tree: &dyn Tree, content: ContentId) -> Vec<u8> {
    let open = tree.open(content).await.expect("opens");
    open.read(ByteRange::whole(open.size())).await.expect("reads")
}

/// Files that are made with contents, as a batch whose first number is this.
async fn batch_of(remote: &Remote, first: u64, contents: &[NewContent]) -> (Vec<ContentId>, Batch) {
    let numbers = remote.reserve(2_000).await.expect("reserves");
    let (mut changes, mut ids) = (Vec::new(), Vec::new());
    for ((index, content), id) in (0..).zip(contents).zip(numbers.step_by(2)) {
        let (name, content_id) = (named(&format!("f{}", first + index)), ContentId(id + 1));
        let (parent, content) = (remote.root(), content.clone());
        let new =
            NewEntry { parent, name: name.clone(), kind: NodeKind::File, posix: posix(), content: NewContent::Empty };
        changes.push(Deferred::Create { id: NodeId(id), new, content_id: ContentId(0) });
        let rewrite = Rewrite { node: NodeId(id), base: None, content, posix: posix(), keep: false };
        changes.push(Deferred::Save { rewrite, content_id, at: (parent, name) });
        ids.push(content_id);
    }
    (ids, Batch { journal: [9; 16], changes: (first..).zip(changes).collect() })
}

fn blocks_of(content: &NewContent) -> Vec<(BlockId, Place)> {
    let NewContent::Blocks { runs, .. } = content else { return Vec::new() };
    let blocks = runs.iter().flat_map(|run| &run.blocks);
    blocks.map(|block| (block.id, block.written.expect("it is in the spool"))).collect()
}

/// What follows a batch with this content.
fn entries(folder: &Path, content: &NewContent) -> Vec<u8> {
    let mut all = Vec::new();
    for (_, place) in blocks_of(content) {
        let stored = fs::read(folder.join(format!("spool-{:010}", place.pack.0))).expect("reads");
        let start = usize::try_from(place.offset).expect("fits");
        all.extend_from_slice(&place.sealed_bytes.to_be_bytes());
        all.extend_from_slice(&stored[start..start + place.sealed_bytes as usize]);
    }
    all
}

/// What lies there, the newest last.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder).expect("lists").map(|entry| entry.expect("lists").path()).collect();
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_read_here_handed_over_with_its_change_and_gone_then() {
    let (rig, folder) = (Rig::new().await, tempfile::tempdir().expect("a folder"));
    let (remote, local) = (spooling(&rig, folder.path()).await, rig.local().await);
    let plain: Vec<Vec<u8>> =
        (1..).zip([70_000, MIB - 1, MIB, MIB + 1, 4 * MIB, 16 * MIB]).map(|(seed, size)| bytes(seed, size)).collect();
    // One that shrinks to nearly nothing, and one that the space has already.
    let plain = [plain.as_slice(), &[vec![7; 3 * MIB], bytes(4, MIB + 1)]].concat();
    let mut unsynced = Vec::new();
    for plain in &plain {
        let one = put(&remote, plain).await;
        assert!(whole(&one).await == *plain);
        let (start, end) = (plain.len() as u64 / 3, plain.len() as u64 / 2);
        let part = one.read(ByteRange { start, end }).await.expect("reads");
        assert!(part == plain[plain.len() / 3..plain.len() / 2]);
        let beyond = ByteRange { start: 0, end: plain.len() as u64 + 1 };
        assert_eq!(one.read(beyond).await.expect_err("beyond").kind(), ErrorKind::RangeNotSatisfiable);
        unsynced.push(one);
    }
    // Zeros are not sent where they are known to be some.
    let save = save(NodeId(1), None, 3 * MIB as u64, posix());
    let left_out = LeftOut { zeros: vec![0..1, 2..3], ..LeftOut::default() };
    let holes = remote.prepare(&save, SaveBody { left_out, ..body(&plain[2]) }).await.expect("is put there");
    unsynced.push(holes.unsynced().expect("may be answered first"));
    let plain = [plain.as_slice(), &[[vec![0; MIB], plain[2].clone(), vec![0; MIB]].concat()]].concat();
    drop(holes);
    assert!(!files(folder.path()).is_empty());
    let stored = fs::read(&files(folder.path())[0]).expect("reads");
    assert!(!stored[..MIB].windows(64).any(|window| window == &plain[0][..64]), "it lies there sealed");
    let contents: Vec<NewContent> = unsynced.iter().map(|one| one.content().clone()).collect();
    let (ids, batch) = batch_of(&remote, 1, &contents).await;
    remote.sync(&unsynced).await.expect("nothing is to be done");
    // However often its answer is lost.
    rig.harm.swallow.store(2, Ordering::SeqCst);
    let answers = remote.apply(batch, Durable::Soon).await.expect("hands over");
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Applied::Made(_) | Applied::Before))), "{answers:?}");
    for (id, plain) in ids.iter().zip(&plain) {
        assert!(on_the_server(&*local, *id).await == *plain);
        assert!(on_the_server(&remote, *id).await == *plain);
    }
    // What is open is read still.
    let open = unsynced[0].clone();
    unsynced.iter().for_each(Unsynced::let_go);
    drop(unsynced);
    assert!(whole(&open).await == plain[0]);
    drop(open);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_saved_at_once_after_all_leaves_nothing() {
    let (rig, folder) = (Rig::new().await, tempfile::tempdir().expect("a folder"));
    let (remote, plain) = (spooling(&rig, folder.path()).await, bytes(1, 2 * MIB + 5));
    let file = remote.create(new_file(remote.root(), "f"), Bytes::new(), Durable::Now).await.expect("made");
    let save = save(file.node.id, None, plain.len() as u64, posix());
    let prepared = remote.prepare(&save, body(&plain)).await.expect("is put there");
    let saved = remote.save_prepared(save.clone(), prepared).await.expect("saves");
    assert!(on_the_server(&remote, saved.node.content.expect("has one")).await == plain);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
    // A body that breaks off is no content, and one that is longer or shorter than it was said to be is not either.
    let broken = || futures_util::stream::iter([Ok(Bytes::from_static(b"x")), Err(Error::unavailable("ended"))]);
    let broken = SaveBody::from(broken().boxed());
    for (what, body) in
        [("broken", broken), ("shorter", body(&plain[1..])), ("longer", body(&[&plain[..], &[1]].concat()))]
    {
        assert!(remote.prepare(&save, body).await.is_err(), "{what}");
    }
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_mount_finds_what_was_named_and_nothing_that_was_not_written() {
    let (rig, folder) = (Rig::new().await, tempfile::tempdir().expect("a folder"));
    let remote = spooling(&rig, folder.path()).await;
    let plain = [bytes(1, 3 * MIB), bytes(2, 70_000), bytes(3, 20 * MIB)];
    let mut contents = Vec::new();
    for plain in &plain {
        let one = put(&remote, plain).await;
        contents.push(one.content().clone());
        // As if the process had ended here.
        std::mem::forget(one);
    }
    drop(remote);
    let before = files(folder.path()).len();
    assert!(before > 1, "the third begins another file");
    let remote = spooling(&rig, folder.path()).await;
    let kept = remote.rescue(&contents[0]).await.expect("looks").expect("is there");
    assert!(whole(&kept).await == plain[0]);
    remote.forget_left().expect("forgets");
    assert!(whole(&kept).await == plain[0]);
    assert!(files(folder.path()).len() < before);
    assert!(remote.rescue(&contents[2]).await.expect("looks").is_none(), "nobody kept it");
    let (ids, batch) = batch_of(&remote, 1, &contents[..1]).await;
    let answers = remote.apply(batch, Durable::Soon).await.expect("hands over");
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Applied::Made(_)))), "{answers:?}");
    assert!(on_the_server(&remote, ids[0]).await == plain[0]);
    // The catalogue knows which it has, so that nobody looks for their content, and no other journal's.
    assert_eq!(remote.answered([9; 16], vec![1, 2, 3]).await.expect("asks"), [true, true, false]);
    assert_eq!(rig.local().await.answered([9; 16], vec![1]).await.expect("asks"), [false]);
    kept.let_go();
    drop(kept);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());

    // What cannot be sent is told, and looked at before it is sent again.
    let one = put(&remote, &plain[1]).await;
    let file = files(folder.path()).pop().expect("one");
    let stored = fs::read(&file).expect("reads");
    let (ids, again) = batch_of(&remote, 3, &[one.content().clone()]).await;
    for spoilt in [&stored[..stored.len() / 2], &[&[7], &stored[1..]].concat()] {
        fs::write(&file, spoilt).expect("writes");
        assert!(remote.apply(again.clone(), Durable::Soon).await.is_err());
        assert!(!one.is_sound());
        assert!(remote.rescue(one.content()).await.expect("looks").is_none());
    }
    fs::write(&file, &stored).expect("writes");
    let kept = remote.rescue(one.content()).await.expect("looks").expect("is there after all");
    assert!(remote.apply(again, Durable::Soon).await.expect("hands over").iter().all(Result::is_ok));
    assert!(on_the_server(&remote, ids[0]).await == plain[1]);
    [&one, &kept].into_iter().for_each(Unsynced::let_go);
    drop((one, kept));
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());

    // What a power cut or a bad disk leaves.
    for (what, spoil) in [("a bit", 0), ("the end", 1), ("all", 2)] {
        let one = put(&remote, &plain[0]).await;
        let file = files(folder.path()).pop().expect("one");
        let mut stored = fs::read(&file).expect("reads");
        let content = one.content().clone();
        assert!(remote.rescue(&content).await.expect("looks").is_some(), "{what}");
        match spoil {
            0 => stored[MIB] ^= 1,
            1 => stored.truncate(stored.len() - 1),
            _ => stored.clear(),
        }
        fs::write(&file, &stored).expect("writes");
        assert!(remote.rescue(&content).await.expect("looks").is_none(), "{what}");
        one.let_go();
    }
}

async fn hand_over(far: &dyn Deferring, batch: Batch, entries: &[u8]) -> Result<Vec<Result<Applied, Error>>, Error> {
    let pieces: Vec<_> = entries.chunks(50_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    far.apply_with(batch, stream::iter(pieces).boxed(), Durable::Soon).await
}

/// Of the change that has blocks.
fn refusal(answers: Result<Vec<Result<Applied, Error>>, Error>) -> Option<Error> {
    answers.expect("answers each").into_iter().nth(1)?.err()
}

/// A content in a spool, and the server to whom it is handed by whoever likes.
struct Stage {
    rig: Rig,
    folder: tempfile::TempDir,
    remote: Remote,
    local: Arc<dyn Deferring>,
    far: Arc<dyn Deferring>,
    one: Unsynced,
}

impl Stage {
    async fn new() -> Self {
        let (rig, folder) = (Rig::new().await, tempfile::tempdir().expect("a folder"));
        let (remote, local) = (spooling(&rig, folder.path()).await, rig.local().await);
        let far = rig
            .engine
            .far_tree(rig.who.clone(), NAME, MountName { voice: 0, bonds: true, number: 0 })
            .await
            .expect("opens");
        let one = put(&remote, &bytes(1, 3 * MIB)).await;
        Self { rig, folder, remote, local, far, one }
    }
}

/// What a client of ours never hands over.
#[tokio::test(flavor = "multi_thread")]
async fn lies_about_blocks_are_refused() {
    let Stage { rig: _rig, folder, remote, local, far, one } = Stage::new().await;
    let sound = one.content().clone();
    let change = |with: &dyn Fn(&mut NewContent)| {
        let mut content = sound.clone();
        with(&mut content);
        content
    };
    let blocks = |content: &mut NewContent, with: &dyn Fn(&mut Vec<holdfast_drive::StagedBlock>)| {
        let NewContent::Blocks { runs, .. } = content else { unreachable!("it is in blocks") };
        with(&mut runs[0].blocks);
    };
    let sized = |size: u64| {
        change(&move |content| {
            let NewContent::Blocks { size: of, .. } = content else { unreachable!("it is in blocks") };
            *of = size;
        })
    };
    let mut first = 1;
    for (what, content) in [
        ("a byte less", sized(3 * MIB as u64 - 1)),
        ("a byte more", sized(3 * MIB as u64 + 1)),
        ("nothing", sized(0)),
        ("more than goes into a batch", sized(65 << 20)),
        ("far too much", sized(u64::MAX)),
        ("another order", change(&|content| blocks(content, &|blocks| blocks.swap(0, 1)))),
        ("a block less", change(&|content| blocks(content, &|blocks| blocks.truncate(2)))),
        ("the first again", change(&|content| blocks(content, &|blocks| blocks[1] = blocks[0]))),
        ("another's record", change(&|content| blocks(content, &|blocks| blocks[1].written = blocks[0].written))),
        (
            "half a record",
            change(&|content| {
                blocks(content, &|blocks| {
                    if let Some(place) = &mut blocks[1].written {
                        place.sealed_bytes /= 2;
                    }
                });
            }),
        ),
        (
            "another tag",
            change(&|content| {
                let NewContent::Blocks { tag, .. } = content else { unreachable!("it is in blocks") };
                tag[3] ^= 1;
            }),
        ),
        (
            "another tag of its part",
            change(&|content| {
                let NewContent::Blocks { runs, .. } = content else { unreachable!("it is in blocks") };
                runs[0].tag[3] ^= 1;
            }),
        ),
    ] {
        let entries = entries(folder.path(), &content);
        let (_, batch) = batch_of(&remote, first, &[content]).await;
        first += 2;
        let error = refusal(hand_over(&*far, batch, &entries).await).expect(what);
        assert!(matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::TooLarge), "{what}: {error}");
    }
    for entry in local.list(local.root(), None, 100).await.expect("lists") {
        assert_eq!(entry.node.content, None, "{}", entry.node.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_come_with_a_batch_as_it_should_is_refused() {
    let Stage { rig: _rig, folder, remote, local, far, one } = Stage::new().await;
    let sound = one.content();
    let mut first = 1;
    let right = entries(folder.path(), sound);
    for (what, entries) in [
        ("a byte more", [&right[..], &[0]].concat()),
        ("all of it twice", [&right[..], &right[..]].concat()),
        ("a length that none has", [&[0xff; 4], &right[4..]].concat()),
        ("noise", bytes(5, right.len())),
        ("the block's id in its place", {
            let (id, _) = blocks_of(sound)[0];
            let rest = 4 + blocks_of(sound)[0].1.sealed_bytes as usize;
            [&32_u32.to_be_bytes(), &id.0[..], &right[rest..]].concat()
        }),
    ] {
        let (_, batch) = batch_of(&remote, first, std::slice::from_ref(sound)).await;
        first += 2;
        let error = refusal(hand_over(&*far, batch, &entries).await).expect(what);
        assert!(
            matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::TooLarge | ErrorKind::Conflict),
            "{what}: {error}"
        );
    }
    // And without what belongs to it.
    let (_, bare) = batch_of(&remote, first, std::slice::from_ref(sound)).await;
    first += 2;
    let answers = far.apply(bare, Durable::Soon).await.expect("answers each");
    assert_eq!(answers[1].as_ref().expect_err("has none").kind(), ErrorKind::InvalidInput);
    for entry in local.list(local.root(), None, 100).await.expect("lists") {
        assert_eq!(entry.node.content, None, "{}", entry.node.name);
    }
    let (ids, batch) = batch_of(&remote, first, std::slice::from_ref(sound)).await;
    assert!(remote.apply(batch, Durable::Soon).await.expect("hands over").iter().all(Result::is_ok));
    assert!(on_the_server(&*local, ids[0]).await == bytes(1, 3 * MIB));
}

/// What was answered later is not to be there without what was answered before: the machine that has the rest may lose it.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_batch_that_breaks_off_nothing_is_made() {
    let Stage { rig: _rig, folder, remote, local, far, one } = Stage::new().await;
    let right = entries(folder.path(), one.content());
    let (ids, Batch { journal, mut changes }) = batch_of(&remote, 1, std::slice::from_ref(one.content())).await;
    let later = NewEntry {
        parent: local.root(),
        name: named("later"),
        kind: NodeKind::File,
        posix: posix(),
        content: NewContent::Empty,
    };
    let id = NodeId(remote.reserve(1).await.expect("reserves").start);
    changes.push((3, Deferred::Create { id, new: later, content_id: ContentId(0) }));
    let batch = Batch { journal, changes };
    for came in [0, 3, right.len() / 2, right.len() - 1] {
        for breaks in [false, true] {
            let mut pieces: Vec<_> =
                right[..came].chunks(50_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            if breaks {
                pieces.push(Err(Error::invalid("the connection broke")));
            }
            let answers = far.apply_with(batch.clone(), stream::iter(pieces).boxed(), Durable::Soon).await;
            assert_eq!(answers.expect_err("it is not whole").kind(), ErrorKind::InvalidInput, "{came} {breaks}");
            assert_eq!(local.list(local.root(), None, 100).await.expect("lists"), [], "{came} {breaks}");
        }
    }
    let answers = hand_over(&*far, batch, &right).await.expect("answers each");
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Applied::Made(_)))), "{answers:?}");
    assert!(on_the_server(&*local, ids[0]).await == bytes(1, 3 * MIB));
}

/// Where a full store refuses a file, what makes room is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_what_has_blocks_and_what_comes_after_it_and_nothing_else() {
    let Stage { rig, folder: _folder, remote, local, far: _far, one } = Stage::new().await;
    let old = local.create(new_file(local.root(), "old"), Bytes::new(), Durable::Now).await.expect("made").node.id;
    let (ids, Batch { journal, mut changes }) = batch_of(&remote, 1, std::slice::from_ref(one.content())).await;
    let made = changes[0].1.node();
    let change = NewAttributes { mode: Some(0o600), ctime_ns: posix().ctime_ns, ..NewAttributes::default() };
    changes.push((3, Deferred::Attributes { node: made, change, usual: posix() }));
    let unlink = Unlink { parent: local.root(), name: named("old"), folder: false, leave: leave() };
    changes.push((4, Deferred::Unlink { unlink, node: old, content: None }));
    let batch = Batch { journal, changes };
    rig.faults.always(Operation::Append, Fault::FailBefore(ErrorKind::NoSpace));
    let answers = remote.apply(batch.clone(), Durable::Soon).await.expect("answers each");
    let kinds: Vec<_> = answers.iter().map(|answer| answer.as_ref().err().map(Error::kind)).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::NoSpace), Some(ErrorKind::Unavailable), None], "{answers:?}");
    assert_eq!(local.lookup(local.root(), &named("old")).await.expect("looks"), None);
    rig.faults.clear();
    let answers = remote.apply(batch, Durable::Soon).await.expect("answers each");
    assert!(
        matches!(answers[..], [Ok(Applied::Before), Ok(Applied::Made(_)), Ok(Applied::Made(_)), Ok(Applied::Before)]),
        "{answers:?}"
    );
    assert!(on_the_server(&*local, ids[0]).await == bytes(1, 3 * MIB));
    assert_eq!(local.entry(made).await.expect("looks").expect("there").posix.expect("has some").mode, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_server_is_not_asked_to_take_what_it_cannot() {
    let (rig, folder) = (Rig::new().await, tempfile::tempdir().expect("a folder"));
    for (knows_below, spools) in [(43, false), (0, true)] {
        rig.harm.knows_below.store(knows_below, Ordering::SeqCst);
        let remote = spooling(&rig, folder.path()).await;
        assert_eq!(remote.prepared_bytes_max() > 0, spools);
    }
    assert_eq!(rig.deferring().await.prepared_bytes_max(), 0, "without a folder there is none");
}
