//! Content that comes.

use super::ExchangeError;
use super::parts::Part;
use bytes::Bytes;
use http_body::{Body, Frame};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// The content of a message, as it comes.
#[derive(Debug)]
pub struct Incoming {
    parts: mpsc::UnboundedReceiver<Result<Held, ExchangeError>>,
    ended: bool,
}

/// Bytes, and the unit they count as.
#[derive(Debug)]
pub(super) struct Held {
    content: Bytes,
    last: bool,
    /// Dropped when the bytes are handed out.
    _unit: crate::quic::Arrived,
}

/// Where the parts of a message are put, in any order.
#[derive(Debug)]
pub(super) struct Inbox {
    next: u32,
    waiting: BTreeMap<u32, Held>,
    to: mpsc::UnboundedSender<Result<Held, ExchangeError>>,
}

impl Inbox {
    pub(super) fn new() -> (Self, Incoming) {
        let (to, parts) = mpsc::unbounded_channel();
        (Self { next: 0, waiting: BTreeMap::new(), to }, Incoming { parts, ended: false })
    }

    /// Takes a part; whether it was the last that comes. What nobody reads is let go.
    pub(super) fn put(&mut self, part: Part) -> bool {
        if part.broken {
            let _ = self.to.send(Err(ExchangeError::Broken));
            return true;
        }
        if part.part >= self.next {
            self.waiting.insert(part.part, Held { content: part.content, last: part.last, _unit: part._unit });
        }
        while let Some(held) = self.waiting.remove(&self.next) {
            self.next += 1;
            let last = held.last;
            let _ = self.to.send(Ok(held));
            if last {
                return true;
            }
        }
        false
    }

    /// The connection is over.
    pub(super) fn fail(&self, error: ExchangeError) {
        let _ = self.to.send(Err(error));
    }
}

impl Incoming {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, ExchangeError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(self.parts.poll_recv(context));
        Poll::Ready(Some(match next {
            Some(Ok(held)) => {
                self.ended = held.last;
                Ok(held.content)
            }
            Some(Err(error)) => {
                self.ended = true;
                Err(error)
            }
            None => {
                self.ended = true;
                Err(ExchangeError::Broken)
            }
        }))
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = ExchangeError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        self.poll(context).map(|next| next.map(|content| content.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}
