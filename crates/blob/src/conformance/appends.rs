//! Promises about packs that grow.

use super::{append, assert_fails, assert_holds, begin, content, name, parts, put, read};
use crate::BlobStore;
use bytes::Bytes;
use futures_util::future::join_all;
use holdfast_base::ErrorKind;

/// A reader may follow a writer closely.
pub async fn appended_bytes_are_readable_before_any_sync(store: &dyn BlobStore) {
    let mut appender = begin(store, name(2, 1)).await;
    assert_holds(store, name(2, 1), b"").await;
    for (piece, whole) in [("ab", "ab"), ("", "ab"), ("cde", "abcde")] {
        append(&mut appender, piece.as_bytes()).await;
        assert_holds(store, name(2, 1), whole.as_bytes()).await;
    }
    assert_fails(store.read(name(2, 1), 0, 6, Vec::new()).await, ErrorKind::Damaged);
}

/// An append answers where its first byte went.
pub async fn offsets_count_every_byte_appended(store: &dyn BlobStore) {
    let mut appender = begin(store, name(2, 1)).await;
    let mut whole = Vec::new();
    // Around the sizes where a store may change its way of writing.
    for len in [1, 0, 4_096, 65_535, 65_536, 65_537, 1 << 20, 3] {
        let piece = content(len as u64 + 1, len);
        assert_eq!(append(&mut appender, &piece).await, whole.len() as u64);
        whole.extend_from_slice(&piece);
    }
    appender.sync().await.expect("syncs");
    assert_holds(store, name(2, 1), &whole).await;
}

/// More parts than one system call takes, some of them empty.
pub async fn many_small_parts_keep_their_order(store: &dyn BlobStore) {
    let bytes = content(5, 20_000);
    let mut scattered = parts(&bytes, 7);
    scattered.insert(1_500, Bytes::new());
    scattered.push(Bytes::new());
    let mut appender = begin(store, name(2, 1)).await;
    assert_eq!(appender.append(scattered.clone()).await.expect("appends"), 0);
    assert_eq!(appender.append(scattered.clone()).await.expect("appends"), 20_000);
    assert_eq!(read(store, name(2, 1), 20_000, 20_000).await, bytes);
    store.put(name(2, 2), scattered).await.expect("puts");
    assert_holds(store, name(2, 2), &bytes).await;
}

/// The future of a sync is independent of its appender, even outliving it; where a sync ends a pack, later appends fail
/// and change nothing.
pub async fn a_sync_answers_while_appends_go_on_or_ends_the_pack(store: &dyn BlobStore) {
    let mut appender = begin(store, name(2, 1)).await;
    append(&mut appender, b"first").await;
    let sync = appender.sync();
    if appender.sync_ends_pack() {
        sync.await.expect("syncs");
        assert!(appender.append(parts(b"late", 9)).await.is_err());
        assert_holds(store, name(2, 1), b"first").await;
    } else {
        assert_eq!(append(&mut appender, b"second").await, 5);
        let later_sync = appender.sync();
        drop(appender);
        later_sync.await.expect("syncs after its appender is gone");
        sync.await.expect("syncs");
        assert_holds(store, name(2, 1), b"firstsecond").await;
    }
}

/// Group commit may lap itself.
pub async fn syncs_beside_each_other_all_answer(store: &dyn BlobStore) {
    let mut appender = begin(store, name(2, 1)).await;
    let mut syncs = Vec::new();
    for _ in 0..10 {
        append(&mut appender, &content(1, 1_000)).await;
        if !appender.sync_ends_pack() {
            syncs.push(tokio::spawn(appender.sync()));
        }
    }
    syncs.push(tokio::spawn(appender.sync()));
    for sync in join_all(syncs).await {
        sync.expect("ends").expect("syncs");
    }
    assert_eq!(store.len(name(2, 1)).await.expect("answers"), Some(10_000));
}

/// Two writers never share a pack.
pub async fn an_appended_name_is_taken_from_the_start(store: &dyn BlobStore) {
    let mut appender = begin(store, name(2, 1)).await;
    assert_fails(store.append(name(2, 1)).await.map(drop), ErrorKind::AlreadyExists);
    assert_fails(store.put(name(2, 1), parts(b"other", 9)).await, ErrorKind::AlreadyExists);
    append(&mut appender, b"mine").await;
    appender.sync().await.expect("syncs");
    assert_holds(store, name(2, 1), b"mine").await;
}

/// Packs grow side by side.
pub async fn appenders_beside_each_other_do_not_mix(store: &dyn BlobStore) {
    let write = async |number: u64| {
        let mut appender = begin(store, name(2, number)).await;
        let mut whole = Vec::new();
        for round in 0..10 {
            let piece = content(number * 100 + round, 30_000);
            assert_eq!(append(&mut appender, &piece).await, whole.len() as u64);
            whole.extend_from_slice(&piece);
        }
        appender.sync().await.expect("syncs");
        assert_holds(store, name(2, number), &whole).await;
    };
    join_all((0..8).map(write)).await;
}

/// A pack removed under its writer stays removed, and the writer does no harm to a new pack of its name.
pub async fn an_appender_outlives_the_removal_of_its_pack(store: &dyn BlobStore) {
    let mut appender = begin(store, name(2, 1)).await;
    append(&mut appender, b"old").await;
    store.delete(name(2, 1)).await.expect("removes");
    assert_eq!(store.len(name(2, 1)).await.expect("answers"), None);
    put(store, name(2, 1), b"new").await;
    // Whether these succeed is the store's affair.
    let _ = appender.append(parts(b"more", 9)).await;
    let _ = appender.sync().await;
    assert_holds(store, name(2, 1), b"new").await;
}
