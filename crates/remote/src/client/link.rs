//! Calls over a connection, and what is tried again on the next one ([`super::dial`]).

use super::Options;
use super::came::Came;
use super::dial::{Dial, Made};
use super::moved::{Motion, Moved};
use super::voice::Voice;
use crate::wire::{self, ANSWER_BYTES_MAX, Call, MEDIA_TYPE, Value};
use bytes::{Bytes, BytesMut};
use holdfast_auth::Secret;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_seal::keys::random_bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// First pause after a connection could not be made; it doubles.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A refusal of the credential is told again for so long without asking: sign-in counts attempts.
const REFUSED_FOR: Duration = Duration::from_secs(2);
/// Silence after which the server counts as away: its stream of changes gives a sign of life each second.
const GONE: Duration = Duration::from_secs(5);
/// A program that did nothing for so long was stopped, and heard nothing because of that.
const STOPPED: Duration = Duration::from_secs(3);
/// Between two looks whether a body or an answer moves.
const LOOK: Duration = Duration::from_millis(500);
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
    /// See [`Made::died`].
    died: Arc<AtomicBool>,
    /// How it is told from others ([`wire::LINE`]).
    name: (u128, u64),
    pause: Duration,
    not_before: Option<Instant>,
}

pub(super) struct Link {
    dial: Dial,
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
    /// When this program did anything last, if that is looked at.
    awake: Mutex<Option<Instant>>,
    voice: Arc<Voice>,
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
        let dial = Dial::new(options, tls)?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.expose()))
            .map_err(|_| Error::invalid("the app token has characters that no token has"))?;
        authorization.set_sensitive(true);
        let query =
            options.space.as_ref().map(|space| format!("?space={}", utf8_percent_encode(space, NON_ALPHANUMERIC)));
        let uri = |path: &str| {
            let text = format!("{}{path}{}", dial.target, query.as_deref().unwrap_or_default());
            text.parse::<Uri>().map_err(|_| Error::invalid(format!("{text} is no address")))
        };
        let (call, events) = (uri(wire::CALL)?, uri(wire::EVENTS)?);
        let (line, refused) = (tokio::sync::Mutex::default(), Mutex::default());
        let (deadline, patience, while_heard) = (options.deadline, options.patience, options.while_heard);
        let (away, heard, awake) = (AtomicBool::new(false), Mutex::new(Instant::now()), Mutex::default());
        Ok(Self {
            dial,
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
            awake,
            voice,
        })
    }

    /// Longest that an operation takes.
    pub(super) const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Asks without trying again.
    pub(super) async fn ask_once<T: Value>(&self, call: &Call) -> Result<T> {
        let tried = timeout(self.deadline, self.try_call(full(wire::frame(call)), &as_it_is)).await;
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
        self.send_for((lost, bytes, &Moved::new()), body, |status, bytes| read(status, &bytes), as_it_is).await
    }

    /// The same; an attempt is waited for as long as any of the body goes within the deadline of an operation: as it does, it is noted in `moved`.
    pub(super) async fn send_moving<T: Value>(
        &self,
        (bytes, moved): (u64, &Moved),
        body: impl Fn() -> Option<Body>,
    ) -> Outcome<T> {
        let how = (Lost::Repeat, bytes, moved);
        self.send_for(how, body, |status, bytes| read(status, &bytes), as_it_is).await
    }

    async fn send_for<T>(
        &self,
        (lost, bytes, moved): (Lost, u64, &Moved),
        body: impl Fn() -> Option<Body>,
        read: impl Fn(StatusCode, Bytes) -> Result<T>,
        came: impl Fn(StatusCode, Bytes) -> Bytes,
    ) -> Outcome<T> {
        let deadline = Instant::now() + self.deadline + Duration::from_secs(bytes / BYTES_A_SECOND);
        let came = |status, piece: Bytes| {
            moved.note_bytes(piece.len());
            came(status, piece)
        };
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
            let error = match self.within((deadline, moved), self.try_call(body, &came)).await {
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

    /// Waits until the deadline, or for as long as something moves: anything that comes from the server, if that is what it is to do, or of the body or the answer.
    async fn within<T>(&self, (deadline, moved): (Instant, &Moved), work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut motion, mut until) = (std::pin::pin!(work), Motion::new(moved), deadline);
        loop {
            let look = Instant::now() + LOOK;
            if let Ok(done) = timeout_at(look.min(until), work.as_mut()).await {
                return Some(done);
            }
            until = deadline.max(motion.last(self.dial.carried()) + self.deadline);
            if self.while_heard {
                until = until.max(*self.heard.lock() + self.patience);
            }
            if until <= Instant::now() {
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

    /// This program goes on. Said every second, so that the time for which it was stopped is none of the server's silence.
    pub(super) fn is_awake(&self) {
        if self.was_stopped() {
            self.hear();
        }
        *self.awake.lock() = Some(Instant::now());
    }

    fn was_stopped(&self) -> bool {
        self.awake.lock().is_some_and(|awake| awake.elapsed() >= STOPPED)
    }

    fn silence(&self) -> Duration {
        if self.was_stopped() { Duration::ZERO } else { self.heard.lock().elapsed() }
    }

    /// Waits until the server was silent for so long that it counts as away.
    pub(super) async fn gone(&self) {
        while let Some(left) = GONE.checked_sub(self.silence()).filter(|left| !left.is_zero()) {
            tokio::time::sleep(left).await;
        }
    }

    fn late(&self) -> Error {
        let seconds = self.deadline.as_secs();
        Error::new(ErrorKind::Timeout, format!("{} did not answer within {seconds} s", self.dial.target))
    }

    /// `came` is given each piece of the answer, and gives back what is to be of its body here.
    async fn try_call(
        &self,
        body: Body,
        came: &impl Fn(StatusCode, Bytes) -> Bytes,
    ) -> Result<(StatusCode, Bytes), Broke> {
        let request = self.request(Method::POST, &self.call, body).map_err(Broke::unsent)?;
        let answer = self.exchange(request).await?;
        let status = answer.status();
        let (mut frames, mut body) = (Limited::new(answer.into_body(), ANSWER_BYTES_MAX), BytesMut::new());
        while let Some(frame) = frames.frame().await {
            let frame =
                frame.map_err(|error| Broke { sent: true, error: self.broken("its answer broke off", error) })?;
            self.hear();
            if let Ok(piece) = frame.into_data() {
                body.extend_from_slice(&came(status, piece));
            }
        }
        self.hear();
        Ok((status, body.freeze()))
    }

    /// A call with a body of any length, which takes as long as it takes, tried once. Whoever sends watches that it moves.
    pub(super) async fn stream<T: Value>(&self, body: Body) -> Result<T> {
        let (status, body) = self.try_call(body, &as_it_is).await.map_err(|broke| broke.error)?;
        read(status, &body)
    }

    /// A call whose answer is bytes and no message, tried again like others.
    pub(super) async fn fetch(&self, call: &Call) -> Result<Bytes> {
        let frame = wire::frame(call);
        self.send_for((Lost::Repeat, 0, &Moved::new()), || Some(full(frame.clone())), raw, as_it_is).await.result
    }

    /// The same, not tried again, with `moved` told how long each piece of it is.
    pub(super) async fn fetch_once(&self, call: &Call, moved: impl Fn(u64)) -> Result<Bytes> {
        let tell = |_, piece: Bytes| {
            moved(piece.len() as u64);
            piece
        };
        let (status, body) = self.try_call(full(wire::frame(call)), &tell).await.map_err(|broke| broke.error)?;
        raw(status, body)
    }

    /// Fetches what is missing of such an answer, and adds it to what came as it comes: what breaks off, or is given up, goes on there. `call` says what to
    /// ask for behind so many bytes.
    pub(super) async fn fetch_rest(
        &self,
        call: impl Fn(u64) -> Call,
        came: &Came<'_>,
        moved: impl Fn(u64),
    ) -> Result<()> {
        let body = || Some(full(wire::frame(&call(came.len()))));
        let keep = |status, piece: Bytes| {
            moved(piece.len() as u64);
            if status != StatusCode::OK {
                return piece;
            }
            came.add(&piece);
            Bytes::new()
        };
        self.send_for((Lost::Repeat, 0, &Moved::new()), body, raw, keep).await.result.map(drop)
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
        let request = request.header(wire::MOUNT, self.voice.now()).header(wire::BONDS, "1");
        let request = request.header(wire::BELIEVER, self.voice.stays());
        request.body(body).map_err(|error| Error::internal("a request could not be made").with_source(error))
    }

    async fn exchange(&self, mut request: Request<Body>) -> Result<http::Response<Incoming>, Broke> {
        let (mut sender, (line, number)) = self.sender().await.map_err(Broke::unsent)?;
        if let Ok(value) = HeaderValue::try_from(format!("{line:032x}-{number}")) {
            request.headers_mut().insert(wire::LINE, value);
        }
        sender.ready().await.map_err(|error| Broke::unsent(self.broken("the connection ended", error)))?;
        sender.try_send_request(request).await.map_err(|mut error| {
            let sent = error.take_message().is_none();
            Broke { sent, error: self.broken("the connection ended", error.into_error()) }
        })
    }

    fn broken(&self, why: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::unavailable(format!("{}: {why}", self.dial.target)).with_source(error)
    }

    /// The connection of now, or a new one, and its name. Whoever comes first makes it, the others wait for that.
    async fn sender(&self) -> Result<(SendRequest<Body>, (u128, u64))> {
        let mut line = self.line.lock().await;
        if let Some(sender) = line.sender.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok((sender.clone(), line.name));
        }
        line.sender = None;
        if let Some(not_before) = line.not_before {
            sleep_until(not_before).await;
        }
        // In a box, since it is large and seldom.
        match Box::pin(self.dial.connect()).await {
            Ok(Made { sender, died }) => {
                let (known, number) = line.name;
                // One that was only told to make no more requests may still be answering some.
                let name = if line.died.load(Ordering::Acquire) {
                    (known, number + 1)
                } else {
                    (u128::from_le_bytes(random_bytes()?), 1)
                };
                *line = Line { sender: Some(sender.clone()), died, name, ..Line::default() };
                Ok((sender, name))
            }
            Err(error) => {
                line.pause = (line.pause * 2).clamp(PAUSE, PAUSE_MAX);
                line.not_before = Some(Instant::now() + line.pause);
                Err(error)
            }
        }
    }

    /// What is known of its connection.
    pub(super) const fn dial(&self) -> &Dial {
        &self.dial
    }
}

pub(super) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// All of an answer is wanted when it is whole.
fn as_it_is(_: StatusCode, piece: Bytes) -> Bytes {
    piece
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
