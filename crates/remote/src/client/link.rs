//! The connection, and what is tried again on the next one.

use super::voice::Voice;
use super::{Network, Options, Plane, Target};
use crate::wire::{self, ANSWER_BYTES_MAX, Call, MEDIA_TYPE, Value};
use bytes::{Bytes, BytesMut};
use holdfast_auth::Secret;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_plane::Statistics;
use holdfast_plane::quic::{self, EndpointError, Settings};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use socket2::SockRef;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_rustls::TlsConnector;

/// Longest that a connection takes to be made: one to a machine that is off must not use up an operation's time.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The same over QUIC, which is for networks where handshakes take long: at 64 % loss, 6 s at the median.
const CONNECT_TIME_QUIC: Duration = Duration::from_mins(1);
/// First pause after a connection could not be made; it doubles.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time between pings.
const PING_EVERY: Duration = Duration::from_secs(3);
/// A refusal of the credential is told again for so long without asking: sign-in counts attempts.
const REFUSED_FOR: Duration = Duration::from_secs(2);
/// Bytes of one answer that may be under way, and of all: sixteen blocks ahead.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
/// See [`STREAM_WINDOW_BYTES`].
const WINDOW_BYTES: u32 = 32 << 20;
/// The same windows over QUIC: 100 Mbit/s for 2.5 s, or with two thirds of it lost.
const PLANE_STREAM_WINDOW_BYTES: u32 = 32 << 20;
/// See [`PLANE_STREAM_WINDOW_BYTES`].
const PLANE_WINDOW_BYTES: u32 = 48 << 20;
/// Silence after which the server counts as away: its stream of changes gives a sign of life each second.
const GONE: Duration = Duration::from_secs(5);
/// Bytes that the kernel has and has not sent.
const UNSENT_BYTES: u32 = 256 << 10;
/// Bytes that moving content gets a second for.
const BYTES_A_SECOND: u64 = 128 << 10;

/// A request's body; an error of it ends the request.
pub(super) type Body = UnsyncBoxBody<Bytes, Error>;

/// A request that got no answer.
struct Broke {
    /// Whether the server may have got it.
    sent: bool,
    error: Error,
}

impl Broke {
    fn unsent(error: Error) -> Self {
        Self { sent: false, error }
    }
}

/// How an operation ended.
pub(super) struct Outcome<T> {
    pub(super) result: Result<T>,
    /// An earlier try got no answer, so it may have been done by that.
    pub(super) unknown: bool,
}

impl<T> Outcome<T> {
    /// Whether it was done once, or refused and not done.
    pub(super) fn is_certain(&self) -> bool {
        let doubt = [ErrorKind::Timeout, ErrorKind::Unavailable, ErrorKind::Damaged, ErrorKind::Internal];
        !self.unknown && self.result.as_ref().err().is_none_or(|error| !doubt.contains(&error.kind()))
    }
}

/// What is to be done about a request without an answer that the server may have got.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// It is sent again.
    Repeat,
    /// Whoever asked looks what became of it.
    Tell,
}

#[derive(Default)]
struct Line {
    sender: Option<SendRequest<Body>>,
    pause: Duration,
    not_before: Option<Instant>,
}

pub(super) struct Link {
    target: Target,
    tls: Option<TlsConnector>,
    /// Over QUIC, and whom to believe there.
    quic: Option<rustls::ClientConfig>,
    authorization: HeaderValue,
    call: Uri,
    events: Uri,
    deadline: Duration,
    /// See [`Options::patience`].
    patience: Duration,
    /// See [`Options::while_heard`].
    while_heard: bool,
    line: tokio::sync::Mutex<Line>,
    refused: Mutex<Option<(Instant, String)>>,
    /// The last operation that came to an end had no answer within its time.
    away: AtomicBool,
    /// When anything came from the server last.
    heard: Mutex<Instant>,
    /// What the plane of QUIC sees, of the last connection; or how long TCP took to connect.
    network: Mutex<Option<Watched>>,
    voice: Arc<Voice>,
}

/// Where a connection's network is looked at.
enum Watched {
    Tcp(Duration),
    Quic(watch::Receiver<Statistics>),
}

impl Link {
    pub(super) fn new(options: &Options, token: &Secret, voice: Arc<Voice>) -> Result<Self> {
        Self::with(options, options.tls()?, token, voice)
    }

    /// One of several with the same TLS.
    pub(super) fn with(
        options: &Options,
        tls: Option<Arc<rustls::ClientConfig>>,
        token: &Secret,
        voice: Arc<Voice>,
    ) -> Result<Self> {
        let target = options.target.clone();
        let quic = tls.as_deref().filter(|_| options.plane == Plane::Quic).cloned();
        if options.plane == Plane::Quic && quic.is_none() {
            return Err(Error::invalid("the QUIC plane is encrypted: the address begins with https://"));
        }
        let tls = tls.map(TlsConnector::from);
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.expose()))
            .map_err(|_| Error::invalid("the app token has characters that no token has"))?;
        authorization.set_sensitive(true);
        let query =
            options.space.as_ref().map(|space| format!("?space={}", utf8_percent_encode(space, NON_ALPHANUMERIC)));
        let uri = |path: &str| {
            let text = format!("{target}{path}{}", query.as_deref().unwrap_or_default());
            text.parse::<Uri>().map_err(|_| Error::invalid(format!("{text} is no address")))
        };
        let (call, events) = (uri(wire::CALL)?, uri(wire::EVENTS)?);
        let (line, refused) = (tokio::sync::Mutex::default(), Mutex::default());
        let (deadline, patience, while_heard) = (options.deadline, options.patience, options.while_heard);
        let (away, heard) = (AtomicBool::new(false), Mutex::new(Instant::now()));
        Ok(Self {
            target,
            tls,
            quic,
            authorization,
            call,
            events,
            deadline,
            patience,
            while_heard,
            line,
            refused,
            away,
            heard,
            network: Mutex::default(),
            voice,
        })
    }

    /// Longest that an operation takes.
    pub(super) const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Asks without trying again.
    pub(super) async fn ask_once<T: Value>(&self, call: &Call) -> Result<T> {
        let tried = timeout(self.deadline, self.try_call(full(wire::frame(call)), &|_| ())).await;
        let (status, body) = tried.map_err(|_| self.late())?.map_err(|broke| broke.error)?;
        read(status, &body)
    }

    /// Asks what can be asked twice.
    pub(super) async fn ask<T: Value>(&self, call: &Call) -> Result<T> {
        self.call(call, Lost::Repeat).await.result
    }

    /// An operation.
    pub(super) async fn call<T: Value>(&self, call: &Call, lost: Lost) -> Outcome<T> {
        let frame = wire::frame(call);
        self.send(lost, 0, || Some(full(frame.clone()))).await
    }

    /// An operation with a body that is made for each try, as long as it can be; for `bytes` of content there is more time.
    pub(super) async fn send<T: Value>(&self, lost: Lost, bytes: u64, body: impl Fn() -> Option<Body>) -> Outcome<T> {
        self.send_for(lost, bytes, body, |status, bytes| read(status, &bytes), |_| ()).await
    }

    async fn send_for<T>(
        &self,
        lost: Lost,
        bytes: u64,
        body: impl Fn() -> Option<Body>,
        read: impl Fn(StatusCode, Bytes) -> Result<T>,
        moved: impl Fn(u64),
    ) -> Outcome<T> {
        let deadline = Instant::now() + self.deadline + Duration::from_secs(bytes / BYTES_A_SECOND);
        let (mut unknown, mut pause) = (false, PAUSE);
        let result = loop {
            if let Some((_, message)) = self.refused.lock().as_ref().filter(|(at, _)| at.elapsed() < REFUSED_FOR) {
                break Err(Error::new(ErrorKind::Unauthenticated, message.clone()));
            }
            let Some(body) = body() else {
                break Err(Error::unavailable(
                    "the connection ended while a large file was saved; it is kept for the next try",
                ));
            };
            let error = match self.within(deadline, self.try_call(body, &moved)).await {
                None => break Err(self.late()),
                Some(Ok((status, body))) => match read(status, body) {
                    // Nothing was done, or a store or database was away in the middle of it.
                    Err(error) if error.is_temporary() => {
                        unknown |= error.kind() == ErrorKind::Unavailable;
                        if unknown && lost == Lost::Tell {
                            break Err(error);
                        }
                        error
                    }
                    Err(error) if error.kind() == ErrorKind::Unauthenticated => {
                        tracing::error!(%error, "the server no longer accepts the app token");
                        *self.refused.lock() = Some((Instant::now(), error.message().to_owned()));
                        break Err(error);
                    }
                    result => break result,
                },
                Some(Err(broke)) => {
                    unknown |= broke.sent;
                    if broke.sent && lost == Lost::Tell {
                        break Err(broke.error);
                    }
                    broke.error
                }
            };
            tracing::debug!(%error, "an operation is tried again");
            metrics::counter!("holdfast_remote_tried_again_total").increment(1);
            sleep_until((Instant::now() + pause).min(deadline)).await;
            pause = (2 * pause).min(PAUSE_MAX);
            if Instant::now() >= deadline {
                break Err(self.late().with_source(error));
            }
        };
        match result.as_ref().map_err(Error::kind) {
            Err(ErrorKind::Timeout) => self.away.store(true, Ordering::Relaxed),
            Err(ErrorKind::Unavailable) => {}
            _ => self.away.store(false, Ordering::Relaxed),
        }
        Outcome { result, unknown }
    }

    /// Waits until the deadline, or for as long as anything comes from the server, if that is what it is to do.
    async fn within<T>(&self, deadline: Instant, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut until) = (std::pin::pin!(work), deadline);
        loop {
            if let Ok(done) = timeout_at(until, work.as_mut()).await {
                return Some(done);
            }
            until = *self.heard.lock() + self.patience;
            if !self.while_heard || until <= Instant::now() {
                return None;
            }
        }
    }

    /// Whether the server is not to be reached at present, as far as anybody found out.
    pub(super) fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed) || self.silence() >= GONE
    }

    /// Nobody was there when this began.
    pub(super) fn is_away_from_the_start(&self) {
        self.away.store(true, Ordering::Relaxed);
    }

    /// Something came from the server.
    pub(super) fn hear(&self) {
        *self.heard.lock() = Instant::now();
    }

    fn silence(&self) -> Duration {
        self.heard.lock().elapsed()
    }

    /// Waits until the server was silent for so long that it counts as away.
    pub(super) async fn gone(&self) {
        while let Some(left) = GONE.checked_sub(self.silence()).filter(|left| !left.is_zero()) {
            tokio::time::sleep(left).await;
        }
    }

    fn late(&self) -> Error {
        let seconds = self.deadline.as_secs();
        Error::new(ErrorKind::Timeout, format!("{} did not answer within {seconds} s", self.target))
    }

    async fn try_call(&self, body: Body, moved: &impl Fn(u64)) -> Result<(StatusCode, Bytes), Broke> {
        let request = self.request(Method::POST, &self.call, body).map_err(Broke::unsent)?;
        let answer = self.exchange(request).await?;
        let status = answer.status();
        let (mut frames, mut body) = (Limited::new(answer.into_body(), ANSWER_BYTES_MAX), BytesMut::new());
        while let Some(frame) = frames.frame().await {
            let frame =
                frame.map_err(|error| Broke { sent: true, error: self.broken("its answer broke off", error) })?;
            self.hear();
            if let Ok(piece) = frame.into_data() {
                moved(piece.len() as u64);
                body.extend_from_slice(&piece);
            }
        }
        self.hear();
        Ok((status, body.freeze()))
    }

    /// A call with a body of any length, which takes as long as it takes, tried once. Whoever sends watches that it moves.
    pub(super) async fn stream<T: Value>(&self, body: Body) -> Result<T> {
        let (status, body) = self.try_call(body, &|_| ()).await.map_err(|broke| broke.error)?;
        read(status, &body)
    }

    /// A call whose answer is bytes and no message, with `moved` told how long each piece of it is; tried again like others.
    pub(super) async fn fetch(&self, call: &Call, moved: impl Fn(u64)) -> Result<Bytes> {
        let frame = wire::frame(call);
        self.send_for(Lost::Repeat, 0, || Some(full(frame.clone())), raw, moved).await.result
    }

    /// The same, not tried again.
    pub(super) async fn fetch_once(&self, call: &Call, moved: impl Fn(u64)) -> Result<Bytes> {
        let (status, body) = self.try_call(full(wire::frame(call)), &moved).await.map_err(|broke| broke.error)?;
        raw(status, body)
    }

    /// Asks who is there, once.
    pub(super) async fn ask_hello(&self) -> Result<()> {
        self.ask_once::<wire::Hello>(&Call::Hello()).await.map(drop)
    }

    /// Opens the stream of changes; also answers by which number this mount named itself for it.
    pub(super) async fn listen(&self) -> Result<(Incoming, u64)> {
        let voice = self.voice.now();
        let request = self.request(Method::GET, &self.events, full(Bytes::new()))?;
        let answer = timeout(self.deadline, self.exchange(request)).await.map_err(|_| self.late())?;
        let answer = answer.map_err(|broke| broke.error)?;
        self.away.store(false, Ordering::Relaxed);
        self.hear();
        if answer.status() == StatusCode::OK {
            return Ok((answer.into_body(), voice));
        }
        let status = answer.status();
        let body = timeout(self.deadline, Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect()).await;
        let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Err(wire::decode_fault(status.as_u16(), &body))
    }

    fn request(&self, method: Method, uri: &Uri, body: Body) -> Result<Request<Body>> {
        let request = Request::builder().method(method).uri(uri.clone());
        let request = request.header(AUTHORIZATION, self.authorization.clone()).header(CONTENT_TYPE, MEDIA_TYPE);
        let request = request.header(wire::MOUNT, self.voice.now());
        request.body(body).map_err(|error| Error::internal("a request could not be made").with_source(error))
    }

    async fn exchange(&self, request: Request<Body>) -> Result<http::Response<Incoming>, Broke> {
        let mut sender = self.sender().await.map_err(Broke::unsent)?;
        sender.ready().await.map_err(|error| Broke::unsent(self.broken("the connection ended", error)))?;
        sender.try_send_request(request).await.map_err(|mut error| {
            let sent = error.take_message().is_none();
            Broke { sent, error: self.broken("the connection ended", error.into_error()) }
        })
    }

    fn broken(&self, why: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::unavailable(format!("{}: {why}", self.target)).with_source(error)
    }

    /// The connection of now, or a new one. Whoever comes first makes it, the others wait for that.
    async fn sender(&self) -> Result<SendRequest<Body>> {
        let mut line = self.line.lock().await;
        if let Some(sender) = line.sender.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        line.sender = None;
        if let Some(not_before) = line.not_before {
            sleep_until(not_before).await;
        }
        let time = if self.quic.is_some() { CONNECT_TIME_QUIC } else { CONNECT_TIME.max(self.patience) };
        // In a box, since it is large and seldom.
        let made = timeout(time, Box::pin(self.connect())).await;
        let made = made.unwrap_or_else(|_| Err(Error::unavailable(format!("{} does not answer", self.target))));
        match made {
            Ok(sender) => {
                *line = Line { sender: Some(sender.clone()), ..Line::default() };
                Ok(sender)
            }
            Err(error) => {
                line.pause = (line.pause * 2).clamp(PAUSE, PAUSE_MAX);
                line.not_before = Some(Instant::now() + line.pause);
                Err(error)
            }
        }
    }

    /// How the network is, as far as it is known.
    pub(super) fn network(&self) -> Option<Network> {
        Some(match self.network.lock().as_ref()? {
            Watched::Tcp(rtt) => Network { plane: Plane::Tcp, rtt: *rtt, lost: None, connections: 1 },
            Watched::Quic(seen) => {
                let seen = *seen.borrow();
                let rtt = Duration::try_from_secs_f64(seen.rtt_us / 1e6).unwrap_or_default();
                Network { plane: Plane::Quic, rtt, lost: Some(seen.loss.max(seen.loss_in)), connections: 1 }
            }
        })
    }

    async fn connect(&self) -> Result<SendRequest<Body>> {
        let away = |error: std::io::Error| Error::unavailable(format!("{} cannot be reached: {error}", self.target));
        if let Some(tls) = &self.quic {
            let mut found =
                tokio::net::lookup_host((self.target.host.as_str(), self.target.port)).await.map_err(away)?;
            let to = found.next().ok_or_else(|| Error::unavailable(format!("{} has no address", self.target)))?;
            return self.connect_quic(to, tls).await;
        }
        let began = Instant::now();
        let socket = TcpStream::connect((self.target.host.as_str(), self.target.port)).await.map_err(away)?;
        *self.network.lock() = Some(Watched::Tcp(began.elapsed()));
        socket.set_nodelay(true).map_err(away)?;
        // What is asked for must not wait behind megabytes of content in the kernel.
        SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES).map_err(away)?;
        metrics::counter!("holdfast_remote_connections_total").increment(1);
        let Some(tls) = &self.tls else { return self.speak(socket).await };
        let secured = tls.connect(self.target.server_name()?, socket).await.map_err(|error| {
            let is_ours = error
                .get_ref()
                .is_some_and(|cause| matches!(cause.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))));
            if is_ours {
                let why = format!("{}: its certificate is not trusted ({error}); --ca names one that is", self.target);
                return Error::new(ErrorKind::Forbidden, why);
            }
            Error::unavailable(format!("{}: no TLS: {error}", self.target))
        })?;
        if secured.get_ref().1.alpn_protocol() != Some(b"h2") {
            let message = format!("{} does not speak HTTP/2, which a mount needs", self.target);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.speak(secured).await
    }

    async fn connect_quic(&self, to: SocketAddr, tls: &rustls::ClientConfig) -> Result<SendRequest<Body>> {
        let anywhere: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let failed = |error: EndpointError| {
            let why = error.to_string();
            let kind = if why.contains("certificate") { ErrorKind::Forbidden } else { ErrorKind::Unavailable };
            Error::new(kind, format!("{}: {why}", self.target))
        };
        let from = quic::endpoint((anywhere, 0).into(), None).map_err(failed)?;
        metrics::counter!("holdfast_remote_connections_total").increment(1);
        let plane = quic::connect(&from, to, &self.target.host, tls, Settings::default()).await.map_err(failed)?;
        *self.network.lock() = Some(Watched::Quic(plane.watch()));
        self.speak(plane.into_stream()).await
    }

    async fn speak<S>(&self, socket: S) -> Result<SendRequest<Body>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut http2 = Builder::new(TokioExecutor::new());
        http2.timer(TokioTimer::new());
        if self.quic.is_some() {
            // A ping would wait behind all that was sent; the plane itself finds out who is gone.
            http2
                .initial_stream_window_size(PLANE_STREAM_WINDOW_BYTES)
                .initial_connection_window_size(PLANE_WINDOW_BYTES);
        } else {
            http2
                .keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(self.patience)
                .keep_alive_while_idle(true)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES);
        }
        let made = http2.handshake(TokioIo::new(socket)).await;
        let (sender, connection) = made.map_err(|error| self.broken("it does not speak HTTP/2", error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection ended");
            }
        });
        Ok(sender)
    }
}

pub(super) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn raw(status: StatusCode, body: Bytes) -> Result<Bytes> {
    if status == StatusCode::OK { Ok(body) } else { Err(wire::decode_fault(status.as_u16(), &body)) }
}

fn read<T: Value>(status: StatusCode, body: &[u8]) -> Result<T> {
    if status != StatusCode::OK {
        return Err(wire::decode_fault(status.as_u16(), body));
    }
    wire::whole(body).map_err(|error| Error::damaged(format!("the server's answer cannot be read: {error}")))
}
