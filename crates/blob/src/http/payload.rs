//! A request's body: buffers sent in order, none of them copied. Cheap to clone, so that a request can be sent again.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// What a watched body is sent in: so many bytes are a sign that it moves.
const WATCHED_BYTES: usize = 64 << 10;

/// The bytes of a request.
#[derive(Clone, Default)]
pub struct Payload {
    parts: VecDeque<Bytes>,
    bytes: u64,
    moved: Option<Arc<dyn Fn(u64) + Send + Sync>>,
    /// What comes later, if not all is here.
    more: Option<Arc<Mutex<mpsc::Receiver<Bytes>>>>,
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

impl Payload {
    /// No bytes.
    pub const fn empty() -> Self {
        Self { parts: VecDeque::new(), bytes: 0, moved: None, more: None }
    }

    /// So many bytes that come piece by piece, once: a request with them cannot be sent again. Fewer break the connection.
    pub fn coming(bytes: u64, pieces: mpsc::Receiver<Bytes>) -> Self {
        Self { parts: VecDeque::new(), bytes, moved: None, more: Some(Arc::new(Mutex::new(pieces))) }
    }

    /// Whether a request with it can be sent again.
    pub const fn is_here(&self) -> bool {
        self.more.is_none()
    }

    /// Tells of each few bytes that the connection takes how many they are.
    #[must_use]
    pub fn watched(mut self, moved: Arc<dyn Fn(u64) + Send + Sync>) -> Self {
        self.moved = Some(moved);
        self
    }

    /// How many bytes are still to be sent.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl FromIterator<Bytes> for Payload {
    fn from_iter<I: IntoIterator<Item = Bytes>>(parts: I) -> Self {
        let parts: VecDeque<Bytes> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        Self { parts, bytes, moved: None, more: None }
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

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.parts.is_empty()
            && self.bytes > 0
            && let Some(more) = self.more.clone()
            && let Some(piece) = ready!(more.lock().poll_recv(context))
        {
            self.parts.push_back(piece);
        }
        let mut next = self.parts.pop_front();
        if let (Some(part), Some(moved)) = (&mut next, self.moved.clone()) {
            if part.len() > WATCHED_BYTES {
                let rest = part.split_off(WATCHED_BYTES);
                self.parts.push_front(rest);
            }
            moved(part.len() as u64);
        }
        if let Some(part) = &next {
            self.bytes = self.bytes.saturating_sub(part.len() as u64);
        }
        Poll::Ready(next.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty() && (self.more.is_none() || self.bytes == 0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}
