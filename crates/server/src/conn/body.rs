//! Bodies on their way through the server.
//!
//! [`RequestBody`] counts bytes, cuts a client off that sends nothing for the stall limit, and when it is dropped unread
//! reads on for a bounded while, so that a client that is still sending sees the answer and not a reset connection.
//! [`ResponseBody`] counts bytes and keeps the request's `Running` mark alive until the last byte is handed over.

use super::watch::Watch;
use crate::limits::{LINGER_BYTES_MAX, LINGER_TIME_MAX};
use bytes::{Buf, Bytes};
use holdfast_base::{Error, ErrorKind};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

/// What goes wrong while an answer is streamed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An answer's body before it is counted.
pub type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

/// Bytes of one request and its answer, for the meter and the log.
#[derive(Debug, Default)]
pub struct Tally {
    /// Body bytes received.
    pub bytes_in: AtomicU64,
    /// Body bytes sent.
    pub bytes_out: AtomicU64,
}

/// A request's body.
pub struct RequestBody {
    /// None once it has ended or failed.
    inner: Option<Incoming>,
    stall: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    progress: Instant,
    tally: Arc<Tally>,
    /// A client that waits for `100 Continue` sends nothing until the body is asked for.
    expects_continue: bool,
    polled: bool,
    /// What still comes in belongs to this request, even after its answer.
    running: Arc<Running>,
    /// Dropped when nothing of the body is read any more.
    over: Option<oneshot::Sender<()>>,
}

impl RequestBody {
    pub(crate) fn new(
        inner: Incoming,
        stall: Duration,
        tally: Arc<Tally>,
        expects_continue: bool,
        running: Arc<Running>,
    ) -> Self {
        let inner = (!inner.is_end_stream()).then_some(inner);
        Self {
            inner,
            stall,
            timer: None,
            progress: Instant::now(),
            tally,
            expects_continue,
            polled: false,
            running,
            over: None,
        }
    }

    /// Tells, by ending, when the body was read to its end or is given up.
    pub(crate) fn over(&mut self) -> oneshot::Receiver<()> {
        let (over, told) = oneshot::channel();
        self.over = Some(over);
        told
    }

    /// Whether the client has been silent for the stall limit; arms the timer that asks again.
    fn stalled(&mut self, cx: &mut Context<'_>) -> bool {
        let deadline = self.progress + self.stall;
        if Instant::now() >= deadline {
            return true;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        while timer.as_mut().poll(cx).is_ready() {
            // Armed before the last progress: look again when the limit can really be over.
            if Instant::now() >= deadline {
                return true;
            }
            timer.as_mut().reset(deadline);
        }
        false
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        let Some(inner) = this.inner.as_mut() else { return Poll::Ready(None) };
        if !this.polled {
            this.polled = true;
            this.progress = Instant::now();
        }
        match Pin::new(inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.progress = Instant::now();
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                this.tally.bytes_in.fetch_add(bytes, Ordering::Relaxed);
                if this.inner.as_ref().is_some_and(Body::is_end_stream) {
                    this.inner = None;
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                this.inner = None;
                Poll::Ready(Some(Err(broken(error))))
            }
            Poll::Ready(None) => {
                this.inner = None;
                Poll::Ready(None)
            }
            Poll::Pending if this.stalled(cx) => {
                this.inner = None;
                let message = format!("the client sent nothing for {} s", this.stall.as_secs());
                Poll::Ready(Some(Err(Error::new(ErrorKind::Timeout, message))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// The client's fault, said in its terms.
fn broken(error: hyper::Error) -> Error {
    let message = if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        "the connection ended before the whole body had come"
    } else if error.is_timeout() {
        "the body came too slowly"
    } else {
        "the body is not what its headers announced"
    };
    Error::invalid(message).with_source(error)
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        if (self.expects_continue && !self.polled) || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (running, over) = (self.running.clone(), self.over.take());
        tokio::spawn(async move {
            let _ = tokio::time::timeout(LINGER_TIME_MAX, discard(inner)).await;
            drop((running, over));
        });
    }
}

/// Reads and drops the rest of a body, up to its bound.
async fn discard(mut body: Incoming) {
    use http_body_util::BodyExt;
    let mut dropped = 0;
    while dropped < LINGER_BYTES_MAX
        && let Some(Ok(frame)) = body.frame().await
    {
        dropped += frame.data_ref().map_or(0, Bytes::len) as u64;
    }
}

/// Marks a request as running, for the connection's timer; ends when it is dropped.
pub(crate) struct Running(Arc<Watch>);

impl Running {
    pub(crate) fn begin(watch: Arc<Watch>) -> Arc<Self> {
        watch.request_begins();
        Arc::new(Self(watch))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.request_ends(Instant::now());
    }
}

/// Something that wants to know when an answer is over, however it ended.
pub trait Finish: Send + 'static {
    /// The answer is over; `whole` is false if it broke off.
    fn finish(&mut self, whole: bool);
}

/// An answer's body on its way out.
pub struct ResponseBody {
    inner: AnyBody,
    tally: Arc<Tally>,
    finish: Option<Box<dyn Finish>>,
    /// Length that was announced, if one was.
    length: Option<u64>,
    running: Option<Arc<Running>>,
}

impl ResponseBody {
    /// Wraps a body; `finish` is told once, at the end or when the body is dropped before it.
    pub fn new(inner: AnyBody, tally: Arc<Tally>, finish: Option<Box<dyn Finish>>) -> Self {
        let length = inner.size_hint().exact();
        let mut body = Self { inner, tally, finish, length, running: None };
        if body.inner.is_end_stream() {
            body.end(true);
        }
        body
    }

    pub(crate) fn running(mut self, running: Arc<Running>) -> Self {
        self.running = Some(running);
        self
    }

    fn end(&mut self, whole: bool) {
        if let Some(mut finish) = self.finish.take() {
            finish.finish(whole);
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Buf::remaining) as u64;
                this.tally.bytes_out.fetch_add(bytes, Ordering::Relaxed);
                if this.inner.is_end_stream() {
                    this.end(true);
                }
            }
            Poll::Ready(Some(Err(error))) => {
                tracing::warn!(%error, "an answer broke off");
                this.end(false);
            }
            Poll::Ready(None) => this.end(true),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // hyper drops a body of known length once it has its last byte, without asking for the end.
        let all_sent = self.length == Some(self.tally.bytes_out.load(Ordering::Relaxed));
        self.end(all_sent || self.inner.is_end_stream());
    }
}
