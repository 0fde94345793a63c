//! One connection: HTTP/1.1 or HTTP/2 over a socket, its timer, and its orderly end.
//!
//! hyper parses and frames. Around it: `socket` reports bytes, `watch` judges what it sees, a timer asks it at intervals
//! (one timer a connection, so that 10,000 idle ones cost next to nothing), and [`body`] watches the bodies.
//!
//! Memory of an idle connection: its task (about 2 KiB), and once it has had a request hyper's read and write buffers of
//! 8 KiB each. A buffer grows only while reads fill it, up to [`READ_BYTES_MAX`], for [`FAR_READERS_MAX`]
//! connections, and [`NEAR_READ_BYTES_MAX`] for others.

pub mod body;
mod quick;
mod replaced;
mod socket;
mod watch;

pub use body::{AnyBody, BoxError, Finish, RequestBody, ResponseBody, Tally};
pub use quick::{Ask, Ready};

use crate::limits::{
    FAR_READERS_MAX, HEAD_BYTES_MAX, HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_SEND_BUFFER_BYTES, HTTP2_STREAM_WINDOW_BYTES,
    HTTP2_STREAMS_MAX, Limits, NEAR_READ_BYTES_MAX, PLANE_CONNECTION_WINDOW_BYTES, PLANE_STREAM_WINDOW_BYTES,
    READ_BYTES_MAX,
};
use body::Running;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use replaced::{Lines, Seat};
use socket::Socket;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
use watch::{Verdict, Watch};

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether the connection is TLS.
    pub tls: bool,
}

/// How far the server is with stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Serving.
    Running,
    /// Running requests finish, no new ones are taken.
    Draining,
    /// Connections end now.
    Ending,
}

/// What answers requests. Called in the connection's task; the future is dropped when the client goes away.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(
        self: Arc<Self>,
        peer: Peer,
        tally: Arc<Tally>,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;

    /// Whether [`Self::ready`] is worth asking.
    const HAS_READY: bool = false;

    /// The answer to a plain request, if it lies ready: then [`Self::handle`] would answer just the same.
    fn ready(&self, _peer: Peer, _ask: &Ask<'_>) -> Option<Ready> {
        None
    }

    /// A ready answer was written, or the client went away meanwhile.
    fn answered(&self, _took: Duration, _bytes_out: usize) {}
}

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// HTTP/1.1, or HTTP/2 without having said so.
    Plain,
    /// HTTP/2, as was agreed with TLS.
    Http2,
    /// HTTP/2 over the QUIC plane, which finds out by itself whether the other end is there.
    Plane,
}

/// Serves connections; shared by all of them.
pub(crate) struct Connector<H> {
    http: auto::Builder<TokioExecutor>,
    /// The same for connections that came when [`FAR_READERS_MAX`] others read far.
    http_near: auto::Builder<TokioExecutor>,
    /// The same for the QUIC plane.
    http_plane: auto::Builder<TokioExecutor>,
    far: Semaphore,
    lines: Arc<Lines>,
    handler: Arc<H>,
    limits: Limits,
}

impl<H: Handler> Connector<H> {
    pub(crate) fn new(handler: Arc<H>, limits: Limits) -> Self {
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1().max_buf_size(READ_BYTES_MAX);
        http.http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(limits.idle_timeout() / 2)
            .keep_alive_timeout(limits.head_timeout())
            .max_concurrent_streams(HTTP2_STREAMS_MAX)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(HTTP2_SEND_BUFFER_BYTES);
        let mut http_near = http.clone();
        http_near.http1().max_buf_size(NEAR_READ_BYTES_MAX);
        let mut http_plane = http_near.clone();
        http_plane
            .http2()
            .keep_alive_interval(None)
            .initial_stream_window_size(PLANE_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(PLANE_CONNECTION_WINDOW_BYTES);
        Self {
            http,
            http_near,
            http_plane,
            far: Semaphore::new(FAR_READERS_MAX),
            lines: Arc::default(),
            handler,
            limits,
        }
    }

    /// Serves one connection to its end.
    pub(crate) async fn serve<S>(self: Arc<Self>, stream: S, peer: Peer, line: Line, mut stage: Receiver<Stage>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Looked at after the first poll, so that a request that has come already is answered.
        stage.mark_changed();
        let http2 = line != Line::Plain;
        let watch = Arc::new(Watch::new(http2, Instant::now()));
        let seat = Arc::new(Seat::new(&self.lines));
        let mut socket = Socket::new(stream, watch.clone());
        if H::HAS_READY && !http2 {
            let leaving = AtomicBool::new(false);
            let ended = {
                let quick = pin!(quick::serve(&mut socket, &*self.handler, peer, &watch, &leaving));
                let leave = |_: Pin<&mut _>| leaving.store(true, Ordering::Relaxed);
                self.attend(quick, leave, peer, (&watch, &seat), &mut stage).await
            };
            match ended {
                Some(Ok(Some(read))) => socket.unread(read),
                Some(Ok(None)) | None => return,
                Some(Err(error)) => return tracing::debug!(peer = %peer.address, %error, "connection ended"),
            }
            stage.mark_changed();
        }
        let service = {
            let (connector, watch, seat) = (self.clone(), watch.clone(), seat.clone());
            // It begins here and not when the answer is first polled: hyper may read of the body before that, and those bytes
            // are not of a head.
            service_fn(move |request: Request<Incoming>| {
                seat.hear(request.headers());
                connector.clone().answer(request, peer, Running::begin(watch.clone()))
            })
        };
        let far = self.far.try_acquire();
        let http = match line {
            Line::Plane => &self.http_plane,
            _ if far.is_ok() => &self.http,
            _ => &self.http_near,
        };
        let connection = pin!(http.serve_connection(TokioIo::new(socket), service));
        let leave = |connection: Pin<&mut auto::Connection<'_, _, _, _>>| connection.graceful_shutdown();
        if let Some(Err(error)) = self.attend(connection, leave, peer, (&watch, &seat), &mut stage).await {
            tracing::debug!(peer = %peer.address, %error, "connection ended");
        }
    }

    /// Polls a connection to its end. When the timer says so or the server stops, it is asked to `leave`, or cut: then there is no answer. One whose client
    /// has made another is cut.
    async fn attend<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        leave: impl Fn(Pin<&mut C>),
        peer: Peer,
        (watch, seat): (&Watch, &Seat),
        stage: &mut Receiver<Stage>,
    ) -> Option<C::Output> {
        let tick = self.limits.tick();
        let mut timer = pin!(tokio::time::sleep(tick));
        let mut closing = false;
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => return Some(ended),
                () = timer.as_mut() => {
                    let now = Instant::now();
                    match watch.judge(&self.limits, now) {
                        None => {}
                        // Polled once more, the socket wrapper says why and ends the stream; the next tick is the last.
                        Some(Verdict::SlowHead | Verdict::LargeHead | Verdict::Idle) if !closing => {
                            closing = true;
                            leave(connection.as_mut());
                        }
                        Some(verdict) => {
                            tracing::debug!(peer = %peer.address, ?verdict, "connection cut");
                            return None;
                        }
                    }
                    timer.as_mut().reset(now + tick);
                }
                () = seat.replaced() => {
                    tracing::debug!(peer = %peer.address, "connection cut: its client has made another");
                    return None;
                }
                changed = stage.changed() => {
                    let now = if changed.is_ok() { *stage.borrow_and_update() } else { Stage::Ending };
                    if now == Stage::Ending {
                        return None;
                    }
                    if now == Stage::Draining && !closing {
                        closing = true;
                        leave(connection.as_mut());
                    }
                }
            }
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
        running: Arc<Running>,
    ) -> Result<Response<ResponseBody>, Infallible> {
        let tally = Arc::new(Tally::default());
        let expects_continue = request
            .headers()
            .get(http::header::EXPECT)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let stall = self.limits.stall_timeout();
        let request =
            request.map(|body| RequestBody::new(body, stall, tally.clone(), expects_continue, running.clone()));
        let response = self.handler.clone().handle(peer, tally, request).await;
        Ok(response.map(|body| body.running(running)))
    }
}

#[cfg(test)]
mod tests;
