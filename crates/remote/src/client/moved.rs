//! A body of which it is seen that it moves.

use super::link::Body;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use holdfast_base::Result;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::time::Instant;

/// A body goes in such pieces where it is looked whether it moves.
pub(super) const PIECE_BYTES: usize = 16 << 10;

/// When anything of a body went last.
#[derive(Clone)]
pub(super) struct Moved(Arc<Mutex<Instant>>);

impl Moved {
    /// Nothing has gone before now.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn note(&self) {
        *self.0.lock() = Instant::now();
    }

    pub(super) fn last(&self) -> Instant {
        *self.0.lock()
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
        let noted = stream::iter([Ok(frame)]).chain(pieces).inspect(move |_| moved.note());
        StreamBody::new(noted.map(|piece| piece.map(Frame::data))).boxed_unsync()
    }
}
