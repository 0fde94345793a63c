//! Pieces of one file that came and were not written yet: a try that ends leaves them to the next one.
//!
//! While a try runs, a piece has its room in the budget of all files. Between tries nobody waits for room that a file has which itself waits for its network;
//! so a piece then gives it back for room that is never waited for ([`Shelf::put_aside`]), or is dropped and read again.

use super::run::permits_for;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Content, and the room it takes.
pub(super) struct Piece {
    bytes: Bytes,
    is_aside: bool,
    _room: OwnedSemaphorePermit,
}

/// The pieces, by where they begin.
#[derive(Default)]
pub(super) struct Shelf(Mutex<BTreeMap<u64, Piece>>);

impl Shelf {
    /// Drops what lies before this, which is written, or was begun anew.
    pub(super) fn begin_at(&self, start: u64) {
        self.0.lock().retain(|at, _| *at >= start);
    }

    /// Where the first piece from here on begins, and where it ends.
    pub(super) fn next(&self, from: u64) -> Option<(u64, u64)> {
        self.0.lock().range(from..).next().map(|(at, piece)| (*at, at + piece.bytes.len() as u64))
    }

    pub(super) fn put(&self, at: u64, bytes: Bytes, room: OwnedSemaphorePermit) {
        self.0.lock().insert(at, Piece { bytes, is_aside: false, _room: room });
    }

    pub(super) fn get(&self, at: u64) -> Option<Bytes> {
        self.0.lock().get(&at).map(|piece| piece.bytes.clone())
    }

    /// It was written.
    pub(super) fn remove(&self, at: u64) {
        self.0.lock().remove(&at);
    }

    /// All of it is of no use any more.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Keeps what there is room for, from the file's start on, and gives back all other room.
    pub(super) fn put_aside(&self, kept: &Arc<Semaphore>) {
        self.0.lock().retain(|_, piece| {
            if !piece.is_aside {
                let room = Arc::clone(kept).try_acquire_many_owned(permits_for(piece.bytes.len() as u64));
                let Ok(room) = room else { return false };
                *piece = Piece { bytes: piece.bytes.clone(), is_aside: true, _room: room };
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::PERMIT_BYTES;
    use super::*;

    fn room(of: &Arc<Semaphore>) -> OwnedSemaphorePermit {
        Arc::clone(of).try_acquire_many_owned(1).expect("room")
    }

    #[test]
    fn between_tries_pieces_have_room_of_their_own_and_those_without_are_dropped() {
        let (budget, kept) = (Arc::new(Semaphore::new(4)), Arc::new(Semaphore::new(2)));
        let (shelf, piece) = (Shelf::default(), PERMIT_BYTES);
        let bytes = Bytes::from(vec![7; usize::try_from(piece).expect("small")]);
        (1..4).for_each(|at| shelf.put(at * piece, bytes.clone(), room(&budget)));
        shelf.put_aside(&kept);
        assert_eq!((budget.available_permits(), kept.available_permits()), (4, 0));
        assert_eq!(shelf.next(0), Some((piece, 2 * piece)));
        assert!(shelf.get(2 * piece).is_some() && shelf.get(3 * piece).is_none());
        // Another try writes one, and breaks off as well.
        shelf.remove(piece);
        shelf.put(3 * piece, bytes, room(&budget));
        shelf.put_aside(&kept);
        assert_eq!((budget.available_permits(), kept.available_permits()), (4, 0));
        // One that begins behind the first has no use for it.
        shelf.begin_at(3 * piece);
        assert_eq!((shelf.next(0), kept.available_permits()), (Some((3 * piece, 4 * piece)), 1));
        shelf.clear();
        assert_eq!(kept.available_permits(), 2);
    }
}
