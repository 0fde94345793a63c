//! Records whose answers broke off: what came of them is kept, and only the rest is asked for when they are wanted again.
//!
//! All blocks that a reader has asked for come side by side, so when a connection ends, much came of each of them and few are whole. Nobody trusts what is
//! kept here: a record that was put together from two answers is proved by its tag and its block's id like any other.

use crate::wire::ANSWER_BYTES_MAX;
use bytes::{Bytes, BytesMut};
use holdfast_base::{ContentId, Error, ErrorKind};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Bytes of records that nobody asks for at present: as many as a transfer has under way, so that all of them may break off at once.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A block of a content.
type Which = (ContentId, u64);

/// What broke off, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Broken(Mutex<VecDeque<(Which, BytesMut)>>);

impl Broken {
    /// What came of a block's record so far. It is kept again when this is dropped, unless it was [taken](Came::take).
    pub(super) fn of(&self, which: Which) -> Came<'_> {
        let mut kept = self.0.lock();
        let at = kept.iter().position(|(other, _)| *other == which);
        let bytes = at.and_then(|at| kept.remove(at)).map(|(_, bytes)| bytes).unwrap_or_default();
        Came { broken: self, which, bytes: Mutex::new(bytes) }
    }

    fn keep(&self, which: Which, bytes: BytesMut) {
        let mut kept = self.0.lock();
        kept.push_back((which, bytes));
        let mut sum: usize = kept.iter().map(|(_, bytes)| bytes.capacity()).sum();
        while sum > KEPT_BYTES_MAX
            && let Some((_, bytes)) = kept.pop_front()
        {
            sum -= bytes.capacity();
        }
    }
}

/// What came of a record.
#[derive(Debug)]
pub(super) struct Came<'b> {
    broken: &'b Broken,
    which: Which,
    bytes: Mutex<BytesMut>,
}

impl Came<'_> {
    pub(super) fn len(&self) -> u64 {
        self.bytes.lock().len() as u64
    }

    pub(super) fn add(&self, piece: &[u8]) {
        let mut bytes = self.bytes.lock();
        // No record is so long; what is not kept is missing when it is opened.
        if bytes.len() + piece.len() <= ANSWER_BYTES_MAX {
            bytes.extend_from_slice(piece);
        }
    }

    /// All of it.
    pub(super) fn take(self) -> Bytes {
        std::mem::take(&mut *self.bytes.lock()).freeze()
    }

    /// Begins anew if the server has nothing behind what came, or does not know the question; answers whether it did.
    pub(super) fn is_refused(&self, error: &Error) -> bool {
        let refused = matches!(error.kind(), ErrorKind::RangeNotSatisfiable | ErrorKind::InvalidInput);
        let mut bytes = self.bytes.lock();
        let begins_anew = refused && !bytes.is_empty();
        if begins_anew {
            bytes.clear();
        }
        begins_anew
    }
}

impl Drop for Came<'_> {
    fn drop(&mut self) {
        let bytes = std::mem::take(self.bytes.get_mut());
        if !bytes.is_empty() {
            self.broken.keep(self.which, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(index: u64) -> Which {
        (ContentId(7), index)
    }

    #[test]
    fn what_was_not_taken_is_there_the_next_time_and_goes_on() {
        let broken = Broken::default();
        broken.of(block(1)).add(b"ab");
        broken.of(block(2)).add(b"x");
        let came = broken.of(block(1));
        assert_eq!(came.len(), 2);
        came.add(b"c");
        assert_eq!(came.take(), "abc");
        assert_eq!((broken.of(block(1)).len(), broken.of(block(2)).len()), (0, 1), "what was taken is not kept");
    }

    #[test]
    fn a_server_that_has_nothing_behind_it_is_asked_for_all() {
        let (broken, none) = (Broken::default(), Error::new(ErrorKind::RangeNotSatisfiable, "nothing there"));
        let came = broken.of(block(1));
        assert!(!came.is_refused(&none), "all was asked for");
        came.add(b"abc");
        assert!(!came.is_refused(&Error::unavailable("away")) && came.len() == 3);
        assert!(came.is_refused(&none) && came.len() == 0);
    }

    #[test]
    fn no_more_is_kept_than_the_limit_and_what_is_oldest_goes_first() {
        let (broken, half) = (Broken::default(), vec![0; ANSWER_BYTES_MAX / 2]);
        for index in 0..1_000 {
            broken.of(block(index)).add(&half);
        }
        let kept = broken.0.lock().iter().map(|(which, bytes)| (which.1, bytes.capacity())).collect::<Vec<_>>();
        let sum: usize = kept.iter().map(|(_, bytes)| bytes).sum();
        assert!(sum <= KEPT_BYTES_MAX && sum > KEPT_BYTES_MAX / 2, "{sum}");
        assert_eq!(kept.last().map(|(index, _)| *index), Some(999));
        // Nobody fills more than an answer has.
        let came = broken.of(block(1));
        (0..3).for_each(|_| came.add(&half));
        assert_eq!(came.len(), ANSWER_BYTES_MAX as u64);
    }
}
