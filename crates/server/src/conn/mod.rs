//! One connection: HTTP/1.1 or HTTP/2 over a socket, its timer, and its orderly end.
//!
//! hyper parses and frames. Around it: `socket` reports bytes, `watch` judges what it sees, a timer asks it at intervals
//! (one timer a connection, so that 10,000 idle ones cost next to nothing), and [`body`] watches the bodies.
//!
//! Memory of an idle connection: its task (about 2 KiB), and once it has had a request hyper's read and write buffers of
//! 8 KiB each. A buffer grows only while reads fill it, up to [`READ_BYTES_MAX`].

pub mod body;
mod socket;
mod watch;

pub use body::{AnyBody, BoxError, Finish, RequestBody, ResponseBody, Tally};

use crate::limits::{
    HEAD_BYTES_MAX, HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_SEND_BUFFER_BYTES, HTTP2_STREAM_WINDOW_BYTES,
    HTTP2_STREAMS_MAX, Limits, READ_BYTES_MAX,
};
use body::Running;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use socket::Socket;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
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
}

/// Serves connections; shared by all of them.
pub(crate) struct Connector<H> {
    http: auto::Builder<TokioExecutor>,
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
        Self { http, handler, limits }
    }

    /// Serves one connection to its end.
    pub(crate) async fn serve<S>(self: Arc<Self>, stream: S, peer: Peer, http2: bool, mut stage: Receiver<Stage>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let watch = Arc::new(Watch::new(http2, Instant::now()));
        let service = {
            let (connector, watch) = (self.clone(), watch.clone());
            // It begins here and not when the answer is first polled: hyper may read of the body before that, and those bytes
            // are not of a head.
            service_fn(move |request| connector.clone().answer(request, peer, Running::begin(watch.clone())))
        };
        let socket = TokioIo::new(Socket::new(stream, watch.clone()));
        let mut connection = pin!(self.http.serve_connection(socket, service));
        let tick = self.limits.tick();
        let mut timer = pin!(tokio::time::sleep(tick));
        let mut closing = *stage.borrow() != Stage::Running;
        if closing {
            connection.as_mut().graceful_shutdown();
        }
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(peer = %peer.address, %error, "connection ended");
                    }
                    return;
                }
                () = timer.as_mut() => {
                    let now = Instant::now();
                    match watch.judge(&self.limits, now) {
                        None => {}
                        // Polled once more, the socket wrapper says why and ends the stream; the next tick is the last.
                        Some(Verdict::SlowHead | Verdict::LargeHead | Verdict::Idle) if !closing => {
                            closing = true;
                            connection.as_mut().graceful_shutdown();
                        }
                        Some(verdict) => {
                            tracing::debug!(peer = %peer.address, ?verdict, "connection cut");
                            return;
                        }
                    }
                    timer.as_mut().reset(now + tick);
                }
                changed = stage.changed() => {
                    let now = if changed.is_ok() { *stage.borrow_and_update() } else { Stage::Ending };
                    if now == Stage::Ending {
                        return;
                    }
                    if now == Stage::Draining && !closing {
                        closing = true;
                        connection.as_mut().graceful_shutdown();
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
