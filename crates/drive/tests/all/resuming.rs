//! Uploads that are continued request by request: what was told is kept, through broken bodies, other writers and restarts.

use crate::common::{Rig, at, body, drain, even_bytes, sign_up, text};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use holdfast_base::{ByteRange, Error, ErrorKind, Result, Uid};
use holdfast_blob::layer::fault::{Fault, Faults, Gate};
use holdfast_blob::layer::{Layered, Operation};
use holdfast_blob::memory::MemoryStore;
use holdfast_drive::engine::Engine;
use holdfast_drive::{
    CHECKED_PART_BYTES_MAX, ContentStream, DigestAlgorithm, Drive, NameTaken, UploadPart, UploadRequest, UploadView,
};
use holdfast_meta::{Catalogue, Tail};
use std::sync::Arc;

const MIB: usize = 1 << 20;
const DAY_MS: i64 = 24 * 3_600_000;

fn request(path: &str, length: usize) -> UploadRequest {
    UploadRequest {
        at: at(path),
        length: length as u64,
        name_taken: NameTaken::Fail,
        expect_seq: None,
        modified_ms: None,
        metadata: String::new(),
        tags: Vec::new(),
    }
}

async fn begin(rig: &Rig, path: &str, length: usize) -> UploadView {
    rig.engine.begin_upload(&rig.ana, request(path, length)).await.expect("begins")
}

/// Sends a part that ends well.
async fn send(engine: &Engine, rig: &Rig, id: Uid, offset: usize, content: &[u8]) -> Result<UploadView> {
    let part = UploadPart { offset: offset as u64, length: Some(content.len() as u64), digest: None };
    engine.continue_upload(&rig.ana, id, part, body(content)).await
}

/// Sends a part of unknown length.
async fn stream_part(rig: &Rig, id: Uid, offset: u64, body: ContentStream) -> Result<UploadView> {
    rig.engine.continue_upload(&rig.ana, id, UploadPart { offset, ..UploadPart::default() }, body).await
}

async fn stands(rig: &Rig, id: Uid) -> u64 {
    rig.engine.upload(&rig.ana, id).await.expect("is there").offset
}

/// A body that ends in an error.
fn broken(content: &[u8]) -> ContentStream {
    body(content).chain(stream::once(async { Err(Error::new(ErrorKind::Timeout, "the client vanished")) })).boxed()
}

fn kind<T>(result: Result<T>) -> ErrorKind {
    result.err().expect("is refused").kind()
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_any_size_make_the_file() {
    let rig = Rig::new().await;
    let sizes = [1, 100, 4_096, 5_000, 70_000, MIB - 1, MIB, MIB + 1, 3 * MIB, 17 * MIB + 5, 70 * MIB + 12_345];
    for (number, size) in sizes.into_iter().enumerate() {
        for (kind, content) in [("even", even_bytes(number as u64, size)), ("text", text(number as u64, size))] {
            for parts in [1, 2, 7] {
                let path = format!("{kind}-{size}-{parts}");
                let upload = begin(&rig, &path, size).await;
                let mut view = upload.clone();
                for part in content.chunks(size.div_ceil(parts)) {
                    let offset = usize::try_from(view.offset).expect("fits");
                    view = send(&rig.engine, &rig, upload.id, offset, part).await.expect("continues");
                    assert_eq!(view.offset, (offset + part.len()) as u64);
                }
                assert!(view.node.is_some() && !view.waits, "{path}");
                assert!(rig.get(&path).await.expect("reads") == content, "{path}");
            }
        }
    }
    assert_eq!(rig.usage().await.reserved_bytes, 0);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_beyond_a_chunk_of_its_manifest() {
    let rig = Rig::new().await;
    // More than 256 blocks. Zeros: every block is the same, so this is about the manifest.
    let (size, first) = (515 * MIB + 7, 300 * MIB + 1_000);
    let upload = begin(&rig, "zeros", size).await;
    let zeros = |bytes: usize| {
        let block = Bytes::from(vec![0; MIB]);
        let pieces = (0..bytes.div_ceil(MIB)).map(move |at| Ok(block.slice(..MIB.min(bytes - at * MIB))));
        stream::iter(pieces).boxed()
    };
    let view = stream_part(&rig, upload.id, 0, zeros(first)).await.expect("continues");
    assert_eq!(view.offset, first as u64);
    let view = stream_part(&rig, upload.id, view.offset, zeros(size - first)).await.expect("continues");
    assert!(view.node.is_some());
    let end = rig.get_range("zeros", ByteRange { start: (size - 9) as u64, end: size as u64 }).await;
    assert_eq!(end.expect("reads"), [0; 9]);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_counts_as_far_as_it_came() {
    let rig = Rig::new().await;
    let content = even_bytes(1, 40 * MIB);
    let upload = begin(&rig, "file", content.len()).await;
    let mut offset = 0;
    for end in [100, 70_000, 3 * MIB + 1, 3 * MIB + 2, 20 * MIB, 39 * MIB + 5] {
        let refused = stream_part(&rig, upload.id, offset as u64, broken(&content[offset..end])).await;
        assert_eq!(kind(refused), ErrorKind::Timeout);
        assert_eq!(stands(&rig, upload.id).await, end as u64);
        rig.assert_sound().await;
        offset = end;
    }
    // Everything came and then it broke: nobody asked for the file yet.
    let refused = stream_part(&rig, upload.id, offset as u64, broken(&content[offset..])).await;
    assert_eq!(kind(refused), ErrorKind::Timeout);
    let view = rig.engine.upload(&rig.ana, upload.id).await.expect("is there");
    assert_eq!((view.offset, view.waits), (content.len() as u64 - 1, true));
    send(&rig.engine, &rig, upload.id, content.len() - 1, &content[content.len() - 1..]).await.expect("ends");
    assert!(rig.get("file").await.expect("reads") == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrived_is_kept_when_nobody_waits_for_the_answer() {
    let rig = Rig::new().await;
    let content = even_bytes(1, 5 * MIB + 77);
    let upload = begin(&rig, "file", content.len()).await;
    let (pieces, received) = tokio::sync::mpsc::channel::<Result<Bytes>>(1);
    let received = stream::unfold(received, |mut pieces| async { pieces.recv().await.map(|piece| (piece, pieces)) });
    {
        let request = stream_part(&rig, upload.id, 0, received.boxed());
        let mut request = std::pin::pin!(request);
        for piece in content[..3 * MIB + 9].chunks(77_777) {
            let sent = pieces.send(Ok(Bytes::copy_from_slice(piece)));
            tokio::select! {
                done = &mut request => panic!("it was to wait: {done:?}"),
                sent = sent => sent.expect("is taken"),
            }
        }
    }
    // The connection is gone, and with it the request; its body ends.
    drop(pieces);
    while stands(&rig, upload.id).await < (3 * MIB + 9) as u64 {
        tokio::task::yield_now().await;
    }
    send(&rig.engine, &rig, upload.id, 3 * MIB + 9, &content[3 * MIB + 9..]).await.expect("ends");
    assert!(rig.get("file").await.expect("reads") == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_request_takes_over_and_the_earlier_one_breaks_nothing() {
    let rig = Rig::new().await;
    let content = even_bytes(1, 100 * MIB);
    let upload = begin(&rig, "file", content.len()).await;
    send(&rig.engine, &rig, upload.id, 0, &content[..500]).await.expect("continues");
    // A connection that is dead and does not know it: some bytes, and then nothing for ever.
    let dead = body(&content[500..3 * MIB]).chain(stream::pending()).boxed();
    let mut dead = Box::pin(stream_part(&rig, upload.id, 500, dead));
    while rig.pack_bytes().await < 2 * MIB as u64 {
        assert!(dead.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(kind(send(&rig.engine, &rig, upload.id, 499, b"x").await), ErrorKind::Conflict);
    // Where all of that took long, what the dead one sent was staged, or is at this moment.
    let view = loop {
        let at = usize::try_from(stands(&rig, upload.id).await).expect("fits");
        match send(&rig.engine, &rig, upload.id, at, &content[at..90 * MIB]).await {
            Err(error) if error.kind() == ErrorKind::Conflict && stands(&rig, upload.id).await > at as u64 => {}
            view => break view.expect("takes over"),
        }
    };
    assert_eq!(view.offset, 90 * MIB as u64);
    drop(dead);

    // One that goes on after it was overtaken is told so when it stages.
    let lively = body(&content[90 * MIB..99 * MIB]);
    let mut lively = lively.boxed();
    let first = lively.next().await.expect("a piece").expect("reads");
    let (go, told) = tokio::sync::oneshot::channel::<()>();
    let rest = stream::once(async {
        told.await.ok();
        Ok(Bytes::new())
    })
    .chain(lively);
    let slow = stream::once(async move { Ok(first) }).chain(rest).boxed();
    let mut slow = Box::pin(stream_part(&rig, upload.id, view.offset, slow));
    for _ in 0..1_000 {
        assert!(slow.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    send(&rig.engine, &rig, upload.id, 90 * MIB, &content[90 * MIB..90 * MIB + 5]).await.expect("takes over");
    go.send(()).expect("is heard");
    assert_eq!(kind(slow.await), ErrorKind::Conflict);
    assert_eq!(stands(&rig, upload.id).await, 90 * MIB as u64 + 5);
    send(&rig.engine, &rig, upload.id, 90 * MIB + 5, &content[90 * MIB + 5..]).await.expect("ends");
    assert!(rig.get("file").await.expect("reads") == content);
    rig.reclaim().await;
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_with_a_digest_counts_whole_or_not_at_all() {
    let rig = Rig::new().await;
    let content = text(1, 20 * MIB);
    // Known blocks are claimed, and their plaintext waits with them.
    rig.put("known", &content).await.expect("writes");
    let upload = begin(&rig, "file", content.len()).await;
    let part = |offset: u64, digest: Vec<u8>| UploadPart {
        offset,
        length: None,
        digest: Some((DigestAlgorithm::Blake3, digest)),
    };
    let first = &content[..10 * MIB + 3];
    let digest = blake3::hash(first).as_bytes().to_vec();
    let refused = rig.engine.continue_upload(&rig.ana, upload.id, part(0, vec![0; 32]), body(first)).await;
    assert_eq!(kind(refused), ErrorKind::WrongChecksum);
    let refused = rig.engine.continue_upload(&rig.ana, upload.id, part(0, digest.clone()), broken(first)).await;
    assert_eq!(kind(refused), ErrorKind::Timeout);
    assert_eq!(stands(&rig, upload.id).await, 0);
    let view = rig.engine.continue_upload(&rig.ana, upload.id, part(0, digest), body(first)).await.expect("counts");
    let rest = &content[first.len()..];
    let digest = blake3::hash(rest).as_bytes().to_vec();
    let refused = rig.engine.continue_upload(&rig.ana, upload.id, part(view.offset, vec![1; 32]), body(rest)).await;
    assert_eq!(kind(refused), ErrorKind::WrongChecksum);
    assert_eq!(stands(&rig, upload.id).await, first.len() as u64);
    rig.engine.continue_upload(&rig.ana, upload.id, part(view.offset, digest), body(rest)).await.expect("ends");
    assert!(rig.get("file").await.expect("reads") == content);
    let large = begin(&rig, "large", 1 << 30).await;
    let too_long = UploadPart { length: Some(CHECKED_PART_BYTES_MAX + 1), ..part(0, vec![0; 32]) };
    let refused = rig.engine.continue_upload(&rig.ana, large.id, too_long, body(b"")).await;
    assert_eq!(kind(refused), ErrorKind::TooLarge);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_longer_than_the_upload_is_refused() {
    let rig = Rig::new().await;
    let upload = begin(&rig, "file", 100_000).await;
    assert_eq!(kind(send(&rig.engine, &rig, upload.id, 0, &vec![7; 100_001]).await), ErrorKind::TooLarge);
    assert_eq!(stands(&rig, upload.id).await, 0);
    let refused = stream_part(&rig, upload.id, 0, body(&vec![7; 200_000])).await;
    assert_eq!(kind(refused), ErrorKind::TooLarge);
    assert_eq!(rig.engine.walk(&rig.ana, &at("file")).await.expect("walks").node(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_name_was_taken_waits_with_all_its_bytes() {
    let rig = Rig::new().await;
    for (size, kind_of) in [(10, "tiny"), (MIB, "block"), (20 * MIB + 3, "large")] {
        let content = even_bytes(size as u64, size);
        let path = format!("{kind_of}.bin");
        let upload = begin(&rig, &path, size).await;
        rig.put(&path, b"somebody else's").await.expect("writes");
        assert_eq!(kind(send(&rig.engine, &rig, upload.id, 0, &content).await), ErrorKind::AlreadyExists);
        for _ in 0..2 {
            let view = rig.engine.upload(&rig.ana, upload.id).await.expect("waits");
            assert_eq!((view.offset, view.waits, view.node), (size as u64 - 1, true, None));
            rig.assert_sound().await;
            let again = send(&rig.engine, &rig, upload.id, size - 1, &content[size - 1..]).await;
            assert_eq!(kind(again), ErrorKind::AlreadyExists);
        }
        assert_eq!(kind(rig.engine.finish_upload(&rig.ana, upload.id, None).await), ErrorKind::AlreadyExists);
        let keep_both = Some(NameTaken::KeepBoth);
        let view = rig.engine.finish_upload(&rig.ana, upload.id, keep_both).await.expect("ends");
        assert_eq!(view.at, at(&format!("{kind_of} (2).bin")));
        assert!(rig.get(&format!("{kind_of} (2).bin")).await.expect("reads") == content);
        assert_eq!(rig.get(&path).await.expect("reads"), b"somebody else's");
        let again = rig.engine.finish_upload(&rig.ana, upload.id, keep_both).await.expect("answers the same");
        assert_eq!(again.node, view.node);
    }
    let unfinished = begin(&rig, "unfinished", 10).await;
    assert_eq!(kind(rig.engine.finish_upload(&rig.ana, unfinished.id, None).await), ErrorKind::Conflict);
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_bound_to_be_refused_is_refused_at_the_start() {
    let rig = Rig::new().await;
    let node = rig.put("file", b"there").await.expect("writes").node;
    let begin = |request| rig.engine.begin_upload(&rig.ana, request);
    assert_eq!(kind(begin(request("file", 5)).await), ErrorKind::AlreadyExists);
    assert_eq!(kind(begin(request("no/file", 5)).await), ErrorKind::Conflict);
    assert_eq!(kind(begin(request("", 5)).await), ErrorKind::WrongKind);
    let replace = UploadRequest { name_taken: NameTaken::Replace, ..request("file", 5) };
    let other = UploadRequest { expect_seq: Some(node.seq + 1), ..replace.clone() };
    assert_eq!(kind(begin(other).await), ErrorKind::PreconditionFailed);
    begin(UploadRequest { expect_seq: Some(node.seq), ..replace }).await.expect("begins");
    begin(UploadRequest { name_taken: NameTaken::KeepBoth, ..request("file", 5) }).await.expect("begins");
    let huge = UploadRequest { length: u64::MAX, ..request("huge", 5) };
    assert_eq!(kind(begin(huge).await), ErrorKind::TooLarge);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_no_bytes_is_there_at_once() {
    let rig = Rig::new().await;
    let view = begin(&rig, "empty", 0).await;
    assert!(view.node.is_some() && view.offset == 0);
    assert_eq!(rig.get("empty").await.expect("reads"), b"");
    let none = rig.engine.uploads(&rig.ana).await.expect("lists");
    assert!(none.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_did_not_hear_the_last_answer_asks_again() {
    let rig = Rig::new().await;
    let upload = begin(&rig, "file", 5).await;
    let node = send(&rig.engine, &rig, upload.id, 0, b"12345").await.expect("ends").node;
    let view = rig.engine.upload(&rig.ana, upload.id).await.expect("is remembered");
    assert_eq!((view.offset, view.node), (5, node));
    assert_eq!(send(&rig.engine, &rig, upload.id, 5, b"").await.expect("is whole").node, node);
    assert_eq!(kind(send(&rig.engine, &rig, upload.id, 0, b"12345").await), ErrorKind::Conflict);
    rig.engine.abandon_upload(&rig.ana, upload.id).await.expect("forgets it");
    assert_eq!(kind(rig.engine.upload(&rig.ana, upload.id).await), ErrorKind::NotFound);
    assert_eq!(rig.get("file").await.expect("the file stays"), b"12345");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_given_up_a_week_after_its_last_byte() {
    let rig = Rig::new().await;
    let content = even_bytes(1, 5 * MIB);
    let upload = begin(&rig, "file", content.len()).await;
    rig.clock.advance(7 * DAY_MS - 1);
    send(&rig.engine, &rig, upload.id, 0, &content[..4 * MIB + 9]).await.expect("continues");
    rig.clock.advance(7 * DAY_MS - 1);
    rig.reclaim().await;
    assert_eq!(rig.engine.uploads(&rig.ana).await.expect("lists").len(), 1);
    assert_eq!(rig.usage().await.reserved_bytes, content.len() as u64);
    rig.clock.advance(1);
    assert_eq!(kind(send(&rig.engine, &rig, upload.id, 4 * MIB + 9, b"x").await), ErrorKind::NotFound);
    assert!(rig.engine.uploads(&rig.ana).await.expect("lists").is_empty());
    rig.reclaim().await;
    assert_eq!((rig.usage().await.reserved_bytes, rig.pack_bytes().await), (0, 0));
    let upload = begin(&rig, "file", content.len()).await;
    send(&rig.engine, &rig, upload.id, 0, &content[..2 * MIB + 9]).await.expect("continues");
    rig.engine.abandon_upload(&rig.ana, upload.id).await.expect("gives up");
    rig.reclaim().await;
    assert_eq!((rig.usage().await.reserved_bytes, rig.pack_bytes().await), (0, 0));
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_its_account_s_alone() {
    let rig = Rig::new().await;
    let ben = sign_up(&rig.accounts, "ben").await;
    let upload = begin(&rig, "file", 5).await;
    assert_eq!(kind(rig.engine.upload(&ben, upload.id).await), ErrorKind::NotFound);
    assert_eq!(kind(rig.engine.abandon_upload(&ben, upload.id).await), ErrorKind::NotFound);
    let part = UploadPart::default();
    assert_eq!(kind(rig.engine.continue_upload(&ben, upload.id, part, body(b"12345")).await), ErrorKind::NotFound);
    assert_eq!(kind(rig.engine.begin_upload(&ben, request("file2", 5)).await), ErrorKind::NotFound);
    assert!(rig.engine.uploads(&ben).await.expect("lists").is_empty());
    let mut reading = sign_up(&rig.accounts, "cas").await;
    reading.scope.read_only = true;
    let own = UploadRequest { at: crate::common::at_space("cas", "f"), ..request("f", 5) };
    assert_eq!(kind(rig.engine.begin_upload(&reading, own).await), ErrorKind::Forbidden);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_tail_is_damage_and_never_other_bytes() {
    let rig = Rig::new().await;
    let (one, two) = (begin(&rig, "one", 5_000).await, begin(&rig, "two", 5_000).await);
    let (mine, other) = (even_bytes(1, 5_000), even_bytes(2, 5_000));
    send(&rig.engine, &rig, one.id, 0, &mine[..4_000]).await.expect("continues");
    send(&rig.engine, &rig, two.id, 0, &other[..4_000]).await.expect("continues");
    let now_ms = 1_700_000_000_000;
    let row = async |id| rig.catalogue.resumable(id, now_ms).await.expect("reads").expect("is there").content;
    let (first, second) = (row(one.id).await, row(two.id).await);
    let tail = rig.catalogue.resumable_tail(first).await.expect("reads").expect("has one");
    let theirs = rig.catalogue.resumable_tail(second).await.expect("reads").expect("has one");
    let mut flipped = tail.sealed.to_vec();
    flipped[200] ^= 1;
    let flipped = Tail { sealed: flipped.into(), ..tail.clone() };
    let mixed = Tail { sealed: theirs.sealed.clone(), ..tail };
    for forged in [flipped, mixed, theirs] {
        let claim = rig.catalogue.claim_resumable(first, None, now_ms).await.expect("claims");
        let expires_ms = now_ms + DAY_MS;
        let kept = rig.catalogue.advance_resumable(claim, None, Some(forged), expires_ms).await;
        kept.expect("keeps").expect("misses nothing");
        assert_eq!(kind(send(&rig.engine, &rig, one.id, 4_000, &mine[4_000..]).await), ErrorKind::Damaged);
    }
}

/// The process ends while the store is at any step, another one goes on from what was told, and the first wakes up again.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_in_another_process_after_any_step() {
    let mut stopped = 0;
    for operation in [Operation::Begin, Operation::Append, Operation::Sync] {
        for nth in 1..=6 {
            let (memory, faults) = (MemoryStore::new(), Arc::new(Faults::default()));
            let store = Layered::sharing(Arc::new(memory.clone()), faults.clone());
            let rig = Rig::with_store(memory, Arc::new(store)).await;
            let content = even_bytes(nth, 90 * MIB + 12_345);
            let upload = begin(&rig, "file", content.len()).await;
            send(&rig.engine, &rig, upload.id, 0, &content[..MIB + 7]).await.expect("continues");
            let gate = Arc::new(Gate::default());
            faults.on(operation, nth, Fault::Wait(gate.clone()));
            let first = send(&rig.engine, &rig, upload.id, MIB + 7, &content[MIB + 7..]);
            let mut first = Box::pin(first);
            let done = tokio::select! {
                done = &mut first => Some(done),
                () = gate.wait_for_arrival() => None,
            };
            if done.is_some() {
                continue;
            }
            stopped += 1;
            let next = rig.next_engine().await;
            let told = next.upload(&rig.ana, upload.id).await.expect("is there");
            assert!(told.offset > MIB as u64, "what was told is kept");
            let offset = usize::try_from(told.offset).expect("fits");
            let middle = (offset + 3 * MIB).min(content.len() - 1);
            send(&next, &rig, upload.id, offset, &content[offset..middle]).await.expect("goes on");
            gate.open();
            assert_eq!(kind(first.await), ErrorKind::Conflict);
            send(&next, &rig, upload.id, middle, &content[middle..]).await.expect("ends");
            let walk = next.walk(&rig.ana, &at("file")).await.expect("walks");
            let whole = next.read(&rig.ana, &walk, ByteRange::whole(content.len() as u64)).await.expect("opens");
            assert!(drain(whole).await.expect("reads") == content, "{operation:?} {nth}");
            rig.assert_sound().await;
        }
    }
    assert!(stopped > 10, "{stopped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_uploads_at_once_share_little_memory() {
    let memory = MemoryStore::new();
    let rig = Rig::with_uploads(memory.clone(), Arc::new(memory), 6 * MIB).await;
    let content: Vec<Vec<u8>> = (0..24).map(|number| even_bytes(number, 5 * MIB + 1)).collect();
    let uploads = content.iter().enumerate().map(async |(number, content)| {
        let upload = begin(&rig, &format!("file{number}"), content.len()).await;
        let mut offset = 0;
        // Parts that begin and end within a block, so that each opens a tail and seals one.
        for part in content.chunks(3 * MIB / 2) {
            send(&rig.engine, &rig, upload.id, offset, part).await.expect("continues");
            offset += part.len();
        }
    });
    futures_util::future::join_all(uploads).await;
    for (number, content) in content.iter().enumerate() {
        assert!(rig.get(&format!("file{number}")).await.expect("reads") == *content);
    }
    rig.assert_sound().await;
}
