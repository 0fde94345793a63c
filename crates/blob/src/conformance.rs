//! What any store must do, as tests: one function for each promise, and [`crate::conformance_suite`] to run them all.
//!
//! A store's tests say how to make an empty one; the answer keeps alive whatever the store needs (a folder, a server):
//!
//! ```
//! mod memory {
//!     holdfast_blob::conformance_suite!(|| ((), holdfast_blob::memory::MemoryStore::new()));
//! }
//! ```
//!
//! The suite tells the two sorts of stores apart by [`crate::Appender::sync_ends_pack`]. What a crash leaves cannot be
//! tested through the trait; each back end has tests of its own for that. A failed promise is a panic.

mod appends;
mod lists;
mod model;
mod whole;

pub use appends::*;
pub use lists::*;
pub use model::*;
pub use whole::*;

use crate::{Appender, BlobStore};
use bytes::Bytes;
use holdfast_base::{ErrorKind, PackName, Result};

/// Makes one test for each promise. Takes an expression that makes a pair: what must stay alive, and an empty store.
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr) => {
        $crate::conformance_suite! { @tests $make;
            a_put_pack_reads_back_whole_and_in_parts;
            a_pack_of_no_bytes_is_a_pack;
            a_name_is_taken_once;
            of_many_puts_of_one_name_one_wins_whole;
            a_large_pack_reads_back;
            a_missing_pack_is_not_found;
            a_pack_too_short_is_damaged;
            a_place_no_pack_has_is_damaged;
            a_buffer_that_comes_back_holds_the_answer_alone;
            appended_bytes_are_readable_before_any_sync;
            offsets_count_every_byte_appended;
            many_small_parts_keep_their_order;
            a_sync_answers_while_appends_go_on_or_ends_the_pack;
            syncs_beside_each_other_all_answer;
            an_appended_name_is_taken_from_the_start;
            appenders_beside_each_other_do_not_mix;
            an_appender_outlives_the_removal_of_its_pack;
            removing_is_for_good_and_can_be_repeated;
            a_removed_pack_is_not_read_from_a_cache;
            a_list_is_in_name_order_and_pages_without_gaps;
            a_list_shows_growing_packs;
            room_is_no_more_than_there_is;
            random_operations_match_a_model;
        }
    };
    (@tests $make:expr; $($promise:ident;)*) => {
        $(#[::tokio::test]
        async fn $promise() {
            let (_alive, store) = ($make)();
            $crate::conformance::$promise(&store).await;
        })*
    };
}

/// A name that starts with `first` and differs for each `number`.
fn name(first: u8, number: u64) -> PackName {
    let mut bytes = [first; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    PackName(bytes)
}

/// `len` bytes that differ for each `seed` and have no short period, so that a shifted copy is noticed.
fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        // Marsaglia's xorshift64 (Journal of Statistical Software 8(14), 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| next()).collect();
    bytes.truncate(len);
    bytes
}

/// Cuts bytes into parts of up to `part_len`.
fn parts(bytes: &[u8], part_len: usize) -> Vec<Bytes> {
    bytes.chunks(part_len.max(1)).map(Bytes::copy_from_slice).collect()
}

async fn put(store: &dyn BlobStore, name: PackName, bytes: &[u8]) {
    store.put(name, parts(bytes, 1 << 20)).await.expect("a put of a new name succeeds");
}

async fn begin(store: &dyn BlobStore, name: PackName) -> Box<dyn Appender> {
    store.append(name).await.expect("a pack of a new name begins")
}

async fn append(appender: &mut Box<dyn Appender>, bytes: &[u8]) -> u64 {
    appender.append(parts(bytes, 4_096)).await.expect("an append succeeds")
}

async fn read(store: &dyn BlobStore, name: PackName, offset: usize, len: usize) -> Vec<u8> {
    store.read(name, offset as u64, len, Vec::new()).await.expect("a read of what is there succeeds")
}

async fn assert_holds(store: &dyn BlobStore, name: PackName, bytes: &[u8]) {
    assert_eq!(store.len(name).await.expect("answers"), Some(bytes.len() as u64), "length of pack {name}");
    // Not assert_eq: nobody reads a megabyte of differences.
    assert!(read(store, name, 0, bytes.len()).await == bytes, "content of pack {name}");
}

#[track_caller]
fn assert_fails<T>(result: Result<T>, kind: ErrorKind) {
    assert_eq!(result.err().expect("this must fail").kind(), kind);
}
