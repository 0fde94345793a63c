//! The body of an answer: nothing, bytes at hand, or a stream.
//!
//! Bytes at hand and streams of known length report an exact size, from which hyper makes `Content-Length`; a small answer
//! is one piece and so one segment. A stream of known length that ends early or runs over is an error, which breaks the
//! connection off: a client never takes a truncated file for a whole one.

use bytes::Bytes;
use futures_util::Stream;
use holdfast_base::{Error, Result};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Content in order, in pieces; an error ends it.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// An answer's body.
pub struct AnswerBody(Inner);

enum Inner {
    Full(Bytes),
    Stream { pieces: Pieces, left: Option<u64> },
    Done,
}

impl AnswerBody {
    /// No body.
    pub const fn empty() -> Self {
        Self(Inner::Done)
    }

    /// Bytes at hand.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(if bytes.is_empty() { Inner::Done } else { Inner::Full(bytes) })
    }

    /// A stream, of `length` bytes if that is known.
    pub fn stream(pieces: impl Stream<Item = Result<Bytes>> + Send + 'static, length: Option<u64>) -> Self {
        Self(Inner::Stream { pieces: Box::pin(pieces), left: length })
    }

    /// Bytes still to come, if that is known.
    pub fn exact_len(&self) -> Option<u64> {
        match &self.0 {
            Inner::Full(bytes) => Some(bytes.len() as u64),
            Inner::Stream { left, .. } => *left,
            Inner::Done => Some(0),
        }
    }
}

impl std::fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerBody").field("exact_len", &self.exact_len()).finish_non_exhaustive()
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        let Inner::Stream { pieces, left } = &mut self.0 else {
            return match std::mem::replace(&mut self.0, Inner::Done) {
                Inner::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                _ => Poll::Ready(None),
            };
        };
        let outcome = match pieces.as_mut().poll_next(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Ok(bytes))) => match account(left, bytes.len() as u64) {
                Ok(()) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Err(error) => Some(Err(error)),
            },
            Poll::Ready(Some(Err(error))) => {
                tracing::error!(?error, "an answer broke off");
                Some(Err(error))
            }
            Poll::Ready(None) if left.is_some_and(|left| left > 0) => {
                Some(Err(Error::internal("a stream ended before its stated length")))
            }
            Poll::Ready(None) => None,
        };
        self.0 = Inner::Done;
        Poll::Ready(outcome)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Done | Inner::Stream { left: Some(0), .. })
    }

    fn size_hint(&self) -> SizeHint {
        self.exact_len().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn account(left: &mut Option<u64>, bytes: u64) -> Result<()> {
    let Some(left) = left else { return Ok(()) };
    *left = left.checked_sub(bytes).ok_or_else(|| Error::internal("a stream ran over its stated length"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use http_body_util::BodyExt;

    fn pieces(of: &[&'static str]) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
        stream::iter(of.iter().map(|piece| Ok(Bytes::from_static(piece.as_bytes()))).collect::<Vec<_>>())
    }

    #[tokio::test]
    async fn a_stream_of_the_stated_length_is_whole() {
        let body = AnswerBody::stream(pieces(&["ab", "c"]), Some(3));
        assert_eq!(body.size_hint().exact(), Some(3));
        assert_eq!(body.collect().await.expect("whole").to_bytes(), "abc");
    }

    #[tokio::test]
    async fn a_stream_of_another_length_is_an_error() {
        for length in [2, 4] {
            assert!(AnswerBody::stream(pieces(&["ab", "c"]), Some(length)).collect().await.is_err(), "{length}");
        }
    }
}
