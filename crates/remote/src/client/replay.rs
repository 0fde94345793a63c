//! The content of a save, kept while it is sent, so that it can be sent again on another connection.

use super::REPEATED_BYTES_MAX;
use super::link::Body;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use holdfast_base::{Error, Result};
use holdfast_drive::ContentStream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A content that can be sent more than once.
pub(super) struct Replay(Arc<Mutex<Sent>>);

struct Sent {
    rest: ContentStream,
    kept: Vec<Bytes>,
    keeps: bool,
    /// Something was taken and not kept.
    gone: bool,
    /// What went wrong where the content comes from, which ends the save.
    error: Option<Error>,
    tries: u64,
}

impl Replay {
    /// A content of `length` bytes.
    pub(super) fn new(content: ContentStream, length: u64) -> Self {
        let keeps = length <= REPEATED_BYTES_MAX;
        Self(Arc::new(Mutex::new(Sent { rest: content, kept: Vec::new(), keeps, gone: false, error: None, tries: 0 })))
    }

    /// A body with a frame before it; none if the content is no longer whole. A body that was made before this ends.
    pub(super) fn body(&self, frame: Bytes) -> Option<Body> {
        let this_try = {
            let mut sent = self.0.lock();
            sent.tries += 1;
            if sent.gone || sent.error.is_some() {
                return None;
            }
            sent.tries
        };
        let first = stream::iter([Ok(frame)]);
        let body = first.chain(self.pieces(this_try)).map(|piece| piece.map(Frame::data));
        Some(StreamBody::new(body).boxed_unsync())
    }

    /// What went wrong where the content comes from.
    pub(super) fn error(&self) -> Option<Error> {
        self.0.lock().error.take()
    }

    fn pieces(&self, this_try: u64) -> impl Stream<Item = Result<Bytes>> + Send + use<> {
        let (sent, mut next) = (self.0.clone(), 0);
        stream::poll_fn(move |cx| {
            let mut sent = sent.lock();
            if sent.tries != this_try {
                return Poll::Ready(Some(Err(Error::unavailable("the save goes on elsewhere"))));
            }
            let piece = match sent.kept.get(next) {
                Some(piece) => Poll::Ready(Some(Ok(piece.clone()))),
                None => sent.next(cx),
            };
            // One that is not there yet is still the next.
            if matches!(piece, Poll::Ready(Some(_))) {
                next += 1;
            }
            piece
        })
    }
}

impl Sent {
    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        let polled = self.rest.poll_next_unpin(cx);
        if let Poll::Ready(Some(piece)) = &polled {
            match piece {
                Ok(bytes) if self.keeps => self.kept.push(bytes.clone()),
                Ok(_) => self.gone = true,
                Err(_) => {}
            }
        }
        polled.map(|piece| {
            piece.map(|piece| {
                piece.map_err(|error| {
                    let told = Error::new(error.kind(), error.message());
                    self.error = Some(error);
                    told
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(pieces: &[&'static str]) -> ContentStream {
        stream::iter(pieces.iter().map(|piece| Ok(Bytes::from_static(piece.as_bytes()))).collect::<Vec<_>>()).boxed()
    }

    async fn take(body: &mut Body) -> Option<String> {
        let frame = body.frame().await?.ok()?;
        frame.into_data().ok().map(|data| String::from_utf8_lossy(&data).into_owned())
    }

    #[tokio::test]
    async fn a_save_that_broke_off_is_sent_whole_again() {
        let replay = Replay::new(content(&["a", "b", "c"]), 3);
        let mut first = replay.body(Bytes::from_static(b"[")).expect("a body");
        assert_eq!([take(&mut first).await, take(&mut first).await], [Some("[".into()), Some("a".into())]);
        let mut second = replay.body(Bytes::from_static(b"[")).expect("a body");
        assert_eq!(take(&mut first).await, None, "the first sends nothing more");
        let mut whole = String::new();
        while let Some(piece) = take(&mut second).await {
            whole += &piece;
        }
        assert_eq!(whole, "[abc");
    }

    #[tokio::test]
    async fn what_is_too_large_to_keep_is_sent_once() {
        let replay = Replay::new(content(&["a", "b"]), REPEATED_BYTES_MAX + 1);
        let mut first = replay.body(Bytes::new()).expect("a body");
        let mut again = replay.body(Bytes::new()).expect("nothing was taken yet");
        assert!(take(&mut first).await.is_some(), "the frame");
        take(&mut again).await.expect("frame");
        take(&mut again).await.expect("a");
        assert!(replay.body(Bytes::new()).is_none());
    }

    #[tokio::test]
    async fn what_cannot_be_read_here_is_told_as_it_is() {
        let failing = stream::iter([Err(Error::damaged("a block"))]).boxed();
        let replay = Replay::new(failing, 1);
        let mut body = replay.body(Bytes::new()).expect("a body");
        take(&mut body).await.expect("frame");
        assert_eq!(take(&mut body).await, None);
        assert!(replay.body(Bytes::new()).is_none());
        assert_eq!(replay.error().expect("kept").message(), "a block");
    }
}
