//! A body or an answer of which it is seen that it moves.

use super::link::Body;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use holdfast_base::Result;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::time::Instant;

/// A body goes in such pieces where it is looked whether it moves; less of an answer does not count, so that nobody holds an operation with single bytes.
const PIECE_BYTES: usize = 16 << 10;
/// What of a body may be on its way when all of it was taken: in HTTP/2, in the kernel or the plane, and in the network.
const BEHIND_BYTES: u64 = 4 << 20;

/// When anything of a body or an answer went last.
#[derive(Clone)]
pub(super) struct Moved(Arc<Mutex<(Instant, usize)>>);

impl Moved {
    /// Nothing has gone before now.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new((Instant::now(), 0))))
    }

    /// So many bytes of an answer came.
    pub(super) fn note_bytes(&self, bytes: usize) {
        let (last, since) = &mut *self.0.lock();
        *since += bytes;
        if *since >= PIECE_BYTES {
            (*last, *since) = (Instant::now(), 0);
        }
    }

    fn last(&self) -> Instant {
        self.0.lock().0
    }

    /// A body of a frame and what follows it. It goes in pieces that are small enough for it to be seen on slow networks that it moves.
    pub(super) fn body(&self, frame: Bytes, rest: impl Stream<Item = Result<Bytes>> + Send + 'static) -> Body {
        let moved = self.clone();
        let pieces = rest.flat_map(|piece| {
            let pieces: Vec<Result<Bytes>> = match piece {
                Ok(whole) => {
                    let starts = (0..whole.len()).step_by(PIECE_BYTES);
                    starts.map(|start| Ok(whole.slice(start..whole.len().min(start + PIECE_BYTES)))).collect()
                }
                Err(error) => vec![Err(error)],
            };
            stream::iter(pieces)
        });
        let noted = stream::iter([Ok(frame)]).chain(pieces).inspect(move |_| moved.note_bytes(PIECE_BYTES));
        StreamBody::new(noted.map(|piece| piece.map(Frame::data))).boxed_unsync()
    }
}

/// An attempt to send a body and to get its answer.
pub(super) struct Motion<'a> {
    moved: &'a Moved,
    /// When anything of it went that was noticed.
    taken: Instant,
    /// What the connection had carried when that was, or when a piece more had arrived.
    carried: u64,
    /// Bytes that the connection may carry for it still: what is more is of other requests.
    behind: u64,
    last: Instant,
}

impl<'a> Motion<'a> {
    pub(super) fn new(moved: &'a Moved) -> Self {
        Self { moved, taken: moved.last(), carried: 0, behind: 0, last: moved.last() }
    }

    /// When it moved last: when something of the body was taken, or, once all of it was, arrived, or something of the answer came. `carried` is what the other end has of the connection.
    pub(super) fn last(&mut self, carried: u64) -> Instant {
        let taken = self.moved.last();
        if taken > self.taken {
            *self = Self { taken, carried, behind: BEHIND_BYTES, last: taken, moved: self.moved };
        }
        // A new connection has carried less.
        let arrived = carried.saturating_sub(self.carried);
        if arrived >= PIECE_BYTES as u64 && arrived <= self.behind {
            (self.carried, self.behind, self.last) = (carried, self.behind - arrived, Instant::now());
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn second() -> Instant {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Instant::now()
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_moves_while_it_is_taken_or_arrives_and_not_by_what_others_send() {
        let (moved, began) = (Moved::new(), Instant::now());
        let mut motion = Motion::new(&moved);
        second().await;
        assert_eq!(motion.last(10 << 20), began, "of others, before anything of it was taken");
        let taken = second().await;
        moved.note_bytes(PIECE_BYTES);
        assert_eq!(motion.last(10 << 20), taken);
        second().await;
        assert_eq!(motion.last((10 << 20) + 100), taken, "less than a piece");
        let arrived = second().await;
        assert_eq!(motion.last((10 << 20) + PIECE_BYTES as u64), arrived);
        second().await;
        assert_eq!(motion.last((11 << 20) + BEHIND_BYTES), arrived, "more than what may have been on its way");
        moved.note_bytes(PIECE_BYTES - 1);
        assert_eq!(motion.last(0), arrived, "less than a piece of the answer");
        let came = second().await;
        moved.note_bytes(1);
        assert_eq!(motion.last(0), came, "by a new connection, which has carried nothing");
    }
}
