//! Pieces of blocks copied for readers that get no slice of the block itself: small, bounded in all, and never waited for.
//!
//! A reader has one copy at a time and asks for the next when it is gone. All copies together are a region of the download budget; a copy is as
//! large as its reader's pace asks for, at most [`COPY_BYTES_MAX`], and at most an even share of the region among the readers that
//! copy. If there is still no room, it has [`COPY_BYTES_MIN`] and comes on top of the region: that much a request costs
//! anyway, as its connection's buffers do, and it keeps every reader moving whatever the others hold.

use super::budget::{Hold, Meter, Region};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Large enough that looking the block up between two copies costs nothing beside making them.
pub(super) const COPY_BYTES_MAX: usize = 256 * 1_024;
/// A page, and the unit of the region.
pub(super) const COPY_BYTES_MIN: usize = 4 * 1_024;

/// A reader that has not let go of a copy for so long is taken for one that keeps them.
const KEEPS_AFTER: Duration = Duration::from_secs(1);

/// The copies of all readers.
pub(crate) struct Copies {
    region: Region,
    readers: AtomicUsize,
}

/// A reader that copies; it leaves when this is dropped.
pub(crate) struct Copying {
    copies: Arc<Copies>,
    /// Told when the copy that is out is gone.
    gone: Arc<Notify>,
    out: bool,
    /// The reader keeps what it is given (it collects a whole body, say); waiting for it would never end.
    keeps: bool,
}

/// A copy that is out.
struct Copy {
    bytes: Vec<u8>,
    _hold: Option<Hold>,
    gone: Arc<Notify>,
}

impl Copies {
    /// Copies of up to `bytes` in all.
    pub(crate) fn new(meter: &Arc<Meter>, bytes: usize) -> Arc<Self> {
        let region = Region::client_bound(meter, bytes, COPY_BYTES_MIN);
        Arc::new(Self { region, readers: AtomicUsize::new(0) })
    }

    /// A reader begins to copy.
    pub(crate) fn join(self: &Arc<Self>) -> Copying {
        self.readers.fetch_add(1, Ordering::Relaxed);
        Copying { copies: self.clone(), gone: Arc::default(), out: false, keeps: false }
    }

    /// Room for a copy of about `wanted` bytes, and how many they are.
    fn room(&self, wanted: usize) -> (usize, Option<Hold>) {
        let even = self.region.bytes() / self.readers.load(Ordering::Relaxed).max(1);
        let mut bytes = wanted.min(even).clamp(COPY_BYTES_MIN, COPY_BYTES_MAX);
        loop {
            let hold = self.region.try_take(bytes);
            if hold.is_some() || bytes == COPY_BYTES_MIN {
                return (bytes, hold);
            }
            bytes = (bytes / 2).max(COPY_BYTES_MIN);
        }
    }
}

impl Copying {
    /// Waits until the copy that is out is gone, unless the reader keeps what it is given. A socket's queue that is given more while
    /// it is full has a limit of its own (hyper: 16 pieces).
    pub(crate) async fn wait(&mut self) {
        if self.out && !self.keeps {
            self.keeps = timeout(KEEPS_AFTER, self.gone.notified()).await.is_err();
        }
        self.out = false;
    }

    /// Copies the start of `plain`, about `wanted` bytes of it. Only when none is out.
    pub(crate) fn copy(&mut self, plain: &[u8], wanted: usize) -> Bytes {
        let (bytes, hold) = self.copies.room(wanted.min(plain.len()));
        let bytes = plain[..bytes.min(plain.len())].to_vec();
        self.out = true;
        Bytes::from_owner(Copy { bytes, _hold: hold, gone: self.gone.clone() })
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.copies.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for Copy {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.gone.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn copies(bytes: usize) -> Arc<Copies> {
        Copies::new(&Meter::new("test", bytes), bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_keeps_what_it_is_given_is_waited_for_once() {
        let (copies, plain) = (copies(1 << 20), vec![7; 1 << 20]);
        let mut reader = copies.join();
        let first = reader.copy(&plain, 1 << 16);
        reader.wait().await;
        let second = reader.copy(&plain, 1 << 16);
        assert!(reader.wait().now_or_never().is_some());
        assert_eq!((first.len(), second.len()), (1 << 16, 1 << 16));
    }

    #[tokio::test]
    async fn a_reader_waits_for_its_own_copy_and_for_nobody_else_s() {
        let (copies, plain) = (copies(1 << 20), vec![7; 1 << 20]);
        let (mut first, mut second) = (copies.join(), copies.join());
        let out = first.copy(&plain, 1 << 16);
        assert_eq!(out.len(), 1 << 16);
        assert!(first.wait().now_or_never().is_none());
        assert!(second.wait().now_or_never().is_some());
        let part = out.slice(5..6);
        drop(out);
        assert!(first.wait().now_or_never().is_none(), "a part of it is still out");
        drop(part);
        assert!(first.wait().now_or_never().is_some());
        assert!(first.wait().now_or_never().is_some(), "none is out");
    }

    #[test]
    fn many_readers_share_the_region_evenly_and_one_that_finds_no_room_gets_a_page() {
        let (copies, plain) = (copies(1 << 20), vec![7; 1 << 20]);
        let mut alone = copies.join();
        let large = alone.copy(&plain, usize::MAX);
        assert_eq!(large.len(), COPY_BYTES_MAX);
        let mut readers: Vec<_> = (0..1_000).map(|_| copies.join()).collect();
        let out: Vec<_> = readers.iter_mut().map(|reader| reader.copy(&plain, usize::MAX)).collect();
        assert!(out.iter().all(|copy| copy.len() == COPY_BYTES_MIN));
        assert_eq!(copies.region.free_bytes(), 0);
        drop((out, large));
        assert_eq!(copies.region.free_bytes(), 1 << 20);
        drop(readers);
        assert_eq!(copies.readers.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_short_rest_is_copied_as_it_is() {
        let copies = copies(1 << 20);
        assert_eq!(copies.join().copy(b"rest", 1 << 20), b"rest"[..]);
    }
}
