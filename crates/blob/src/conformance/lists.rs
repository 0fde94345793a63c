//! Promises about lists.

use super::{append, begin, name, put};
use crate::{BlobStore, PackEntry};
use holdfast_base::PackName;

async fn list(store: &dyn BlobStore, after: Option<PackName>, limit: usize) -> Vec<PackEntry> {
    store.list(after, limit).await.expect("lists")
}

/// Pages of any size make up the whole list, wherever in the space of names the packs are.
pub async fn a_list_is_in_name_order_and_pages_without_gaps(store: &dyn BlobStore) {
    assert!(list(store, None, 10).await.is_empty());
    let mut expected = Vec::new();
    for (index, first) in [0x00, 0x01, 0x0f, 0x10, 0x7f, 0x80, 0xff].into_iter().enumerate() {
        // Out of order within each folder.
        for number in [3, u64::MAX, 0] {
            put(store, name(first, number), &vec![1; index]).await;
            expected.push(PackEntry { name: name(first, number), bytes: index as u64 });
        }
    }
    expected.sort_unstable_by_key(|entry| entry.name);
    assert_eq!(list(store, None, 1_000).await, expected);
    for limit in [1, 2, 4, 21] {
        let mut paged = Vec::new();
        loop {
            let page = list(store, paged.last().map(|entry: &PackEntry| entry.name), limit).await;
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit);
            paged.extend(page);
        }
        assert_eq!(paged, expected, "in pages of {limit}");
    }
    assert!(list(store, None, 0).await.is_empty());
    // The name to go on after may have been removed meanwhile, or never have been.
    assert_eq!(list(store, Some(name(0x10, 7)), 1).await, [PackEntry { name: name(0x10, u64::MAX), bytes: 3 }]);
    assert!(list(store, Some(PackName([0xff; 16])), 1).await.is_empty());
}

/// A pack that grows is listed with its length so far, so that orphans of a crash are found.
pub async fn a_list_shows_growing_packs(store: &dyn BlobStore) {
    let mut appender = begin(store, name(3, 1)).await;
    append(&mut appender, b"12345").await;
    appender.sync().await.expect("syncs");
    assert_eq!(list(store, None, 10).await, [PackEntry { name: name(3, 1), bytes: 5 }]);
    store.delete(name(3, 1)).await.expect("removes");
    assert!(list(store, None, 10).await.is_empty());
}
