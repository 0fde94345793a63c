//! Promises about whole packs and reads.

use super::{append, assert_fails, assert_holds, begin, content, name, parts, put, read};
use crate::BlobStore;
use futures_util::future::join_all;
use holdfast_base::ErrorKind;

/// What was put is there, all of it and any part of it.
pub async fn a_put_pack_reads_back_whole_and_in_parts(store: &dyn BlobStore) {
    let bytes = content(1, 300_000);
    store.put(name(1, 1), parts(&bytes, 777)).await.expect("puts");
    assert_holds(store, name(1, 1), &bytes).await;
    for (offset, len) in [(0, 1), (1, 0), (4_095, 2), (65_536, 131_072), (299_999, 1), (300_000, 0)] {
        assert_eq!(read(store, name(1, 1), offset, len).await, bytes[offset..offset + len], "{len} bytes at {offset}");
    }
}

/// Emptiness is a length like any other.
pub async fn a_pack_of_no_bytes_is_a_pack(store: &dyn BlobStore) {
    store.put(name(1, 1), Vec::new()).await.expect("puts");
    store.put(name(1, 2), vec![bytes::Bytes::new()]).await.expect("puts");
    assert_holds(store, name(1, 1), b"").await;
    assert_holds(store, name(1, 2), b"").await;
}

/// Packs are immutable: no second put or append changes one.
pub async fn a_name_is_taken_once(store: &dyn BlobStore) {
    put(store, name(1, 1), b"first").await;
    assert_fails(store.put(name(1, 1), parts(b"second", 9)).await, ErrorKind::AlreadyExists);
    assert_fails(store.append(name(1, 1)).await.map(drop), ErrorKind::AlreadyExists);
    assert_holds(store, name(1, 1), b"first").await;
}

/// A put is atomic: whoever wins, a reader sees nothing or the winner's bytes, and never a mixture.
pub async fn of_many_puts_of_one_name_one_wins_whole(store: &dyn BlobStore) {
    let contents: Vec<_> = (0..8).map(|seed| content(seed + 1, 200_000)).collect();
    let watch = async {
        for _ in 0..50 {
            if let Ok(seen) = store.read(name(1, 1), 0, 200_000, Vec::new()).await {
                assert!(contents.contains(&seen), "a reader saw a mixture");
            }
        }
    };
    let puts = join_all(contents.iter().map(|bytes| store.put(name(1, 1), parts(bytes, 10_000))));
    let (results, ()) = tokio::join!(puts, watch);
    let winners: Vec<_> = (0..results.len()).filter(|index| results[*index].is_ok()).collect();
    let [winner] = winners[..] else { panic!("one put must win, not {winners:?}") };
    for result in results.into_iter().filter(Result::is_err) {
        assert_fails(result, ErrorKind::AlreadyExists);
    }
    assert_holds(store, name(1, 1), &contents[winner]).await;
}

/// Far more than any buffer, and not a round number.
pub async fn a_large_pack_reads_back(store: &dyn BlobStore) {
    let bytes = content(3, (24 << 20) + 123);
    put(store, name(1, 1), &bytes).await;
    assert_holds(store, name(1, 1), &bytes).await;
    let mut appender = begin(store, name(1, 2)).await;
    append(&mut appender, &bytes).await;
    appender.sync().await.expect("syncs");
    assert_holds(store, name(1, 2), &bytes).await;
}

/// A missing pack is told apart from a damaged one.
pub async fn a_missing_pack_is_not_found(store: &dyn BlobStore) {
    assert_fails(store.read(name(1, 1), 0, 1, Vec::new()).await, ErrorKind::NotFound);
    assert_fails(store.read(name(1, 1), 0, 0, Vec::new()).await, ErrorKind::NotFound);
    assert_eq!(store.len(name(1, 1)).await.expect("answers"), None);
}

/// A read is exact or an error, never short.
pub async fn a_pack_too_short_is_damaged(store: &dyn BlobStore) {
    put(store, name(1, 1), b"12345").await;
    for (offset, len) in [(0, 6), (5, 1), (4, 2), (6, 1), (1 << 40, 1)] {
        assert_fails(store.read(name(1, 1), offset, len, Vec::new()).await, ErrorKind::Damaged);
        // The second time the pack may come from a cache.
        assert_fails(store.read(name(1, 1), offset, len, Vec::new()).await, ErrorKind::Damaged);
    }
    assert_eq!(read(store, name(1, 1), 0, 5).await, b"12345", "a failed read spoils nothing");
}

/// An offset from a damaged reference is an error like any other.
pub async fn a_place_no_pack_has_is_damaged(store: &dyn BlobStore) {
    put(store, name(1, 1), b"12345").await;
    for offset in [u64::MAX, u64::MAX - 1, i64::MAX as u64, i64::MAX as u64 + 1] {
        assert_fails(store.read(name(1, 1), offset, 1, Vec::new()).await, ErrorKind::Damaged);
    }
    assert_eq!(read(store, name(1, 1), 0, 5).await, b"12345");
}

/// Pooled buffers: longer, shorter, or with other content.
pub async fn a_buffer_that_comes_back_holds_the_answer_alone(store: &dyn BlobStore) {
    put(store, name(1, 1), b"12345").await;
    let mut buffer = vec![0xff; 100];
    for (offset, len) in [(0, 5), (1, 2), (2, 3), (0, 0), (4, 1)] {
        buffer = store.read(name(1, 1), offset, len, buffer).await.expect("reads");
        let offset = usize::try_from(offset).expect("small");
        assert_eq!(buffer, b"12345"[offset..offset + len]);
    }
}

/// Removing what is there, and what is not.
pub async fn removing_is_for_good_and_can_be_repeated(store: &dyn BlobStore) {
    put(store, name(1, 1), b"x").await;
    put(store, name(1, 2), b"y").await;
    for _ in 0..2 {
        store.delete(name(1, 1)).await.expect("removes");
        assert_eq!(store.len(name(1, 1)).await.expect("answers"), None);
    }
    assert_holds(store, name(1, 2), b"y").await;
}

/// A removed pack is gone for readers too, and its name could be used again.
pub async fn a_removed_pack_is_not_read_from_a_cache(store: &dyn BlobStore) {
    for round in [b"one", b"two"] {
        put(store, name(1, 1), round).await;
        assert_eq!(read(store, name(1, 1), 0, 3).await, round);
        store.delete(name(1, 1)).await.expect("removes");
        assert_fails(store.read(name(1, 1), 0, 3, Vec::new()).await, ErrorKind::NotFound);
    }
}

/// A store that tells its room tells sense.
pub async fn room_is_no_more_than_there_is(store: &dyn BlobStore) {
    if let Some(room) = store.room().await.expect("answers") {
        assert!(room.free_bytes <= room.total_bytes, "{room:?}");
    }
}
