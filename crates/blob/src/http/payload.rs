//! A request's body: buffers sent in order, none of them copied. Cheap to clone, so that a request can be sent again.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The bytes of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Payload {
    parts: VecDeque<Bytes>,
    bytes: u64,
}

impl Payload {
    /// No bytes.
    pub(crate) const fn empty() -> Self {
        Self { parts: VecDeque::new(), bytes: 0 }
    }

    /// How many bytes are still to be sent.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl FromIterator<Bytes> for Payload {
    fn from_iter<I: IntoIterator<Item = Bytes>>(parts: I) -> Self {
        let parts: VecDeque<Bytes> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        Self { parts, bytes }
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        Self::from_iter([Bytes::from(text)])
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.parts.pop_front();
        if let Some(part) = &next {
            self.bytes -= part.len() as u64;
        }
        Poll::Ready(next.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}
