//! One connection in the event loop: it does what can be done without waiting, and says so when it can do no more.
//!
//! Limits: one request at a time (no pipelining), a head or chunk line of at most [`HEAD_BYTES_MAX`], and
//! [`READS_MAX`] reads before another connection has its turn.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::plan::{Expect, Method};
use super::tally::{ErrorClass, Failure};
use crate::http::{BodyReader, Endpoint, Framing, HttpError, Piece, Stream, is_tick, parse_head};

/// Longest head of an answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Reads of one buffer before other connections have their turn.
const READS_MAX: usize = 32;

/// What is asked, and what must come back.
pub(super) struct Exchange<'p> {
    pub(super) message: &'p [u8],
    pub(super) method: Method,
    pub(super) expect: &'p Expect,
    /// Whether anybody wants to know what the server calls itself.
    pub(super) ask_server: bool,
}

/// How far it got.
pub(super) enum Advance {
    /// The socket has nothing now.
    Blocked,
    /// There is more to do, but others are waiting too.
    Again,
    /// The answer is complete.
    Complete(Reply),
}

/// What became of sending.
enum Sent {
    Whole,
    Blocked,
    /// The server does not want the rest.
    Refused,
}

/// A complete answer.
pub(super) struct Reply {
    pub(super) content_bytes: u64,
    /// Whether the connection can carry the next request.
    pub(super) keep: bool,
    /// Whether the server closed the connection although its answer did not say so.
    pub(super) dropped: bool,
    /// What the server calls itself, if that was asked.
    pub(super) server: Option<String>,
    /// What is wrong with it, if anything.
    pub(super) verdict: Result<(), Failure>,
}

/// An answer whose head has been read.
struct Answer {
    status: u16,
    keep: bool,
    /// The length its head states.
    announced: Option<u64>,
    server: Option<String>,
    body: BodyReader,
    /// Where its content first differs from what was expected.
    differs_at: Option<u64>,
}

/// See the module.
pub(super) struct Link {
    stream: Stream,
    address: SocketAddr,
    opened: Instant,
    connecting: bool,
    /// How long it took to come up, TLS included.
    established: Option<Duration>,
    /// Whether it has carried an answer: only then can it have gone stale between two requests.
    used: bool,
    sent: usize,
    /// Whether a byte of the answer has come.
    heard: bool,
    /// Whether the server will send no more than what the socket holds now.
    hung_up: bool,
    pending: Vec<u8>,
    answer: Option<Answer>,
}

impl Link {
    /// Begins to connect.
    pub(super) fn open(endpoint: &Endpoint, address: SocketAddr, now: Instant) -> Result<Self, Failure> {
        let tcp = begin_connect(address).map_err(|error| connect_failure(address, error))?;
        Ok(Self {
            stream: endpoint.wrap(tcp)?,
            address,
            opened: now,
            connecting: true,
            established: None,
            used: false,
            sent: 0,
            heard: false,
            hung_up: false,
            pending: Vec::new(),
            answer: None,
        })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        self.stream.tcp()
    }

    /// Makes it ready for a new request.
    pub(super) fn begin(&mut self) {
        (self.sent, self.heard, self.answer) = (0, false, None);
        self.pending.clear();
    }

    /// Whether the failure just seen means that the server had closed a kept connection, so that one new try on a new one is
    /// right (RFC 9112 section 9.3.1).
    pub(super) fn was_stale(&self) -> bool {
        self.used && !self.heard
    }

    /// How long it took to come up; told once.
    pub(super) fn take_established(&mut self) -> Option<Duration> {
        self.established.take()
    }

    /// Since when it has been trying to connect, if it still is.
    pub(super) fn connecting_since(&self) -> Option<Instant> {
        (self.connecting || self.stream.is_handshaking()).then_some(self.opened)
    }

    /// Notes that the peer has closed its side.
    pub(super) fn note_hang_up(&mut self) {
        self.hung_up = true;
    }

    /// Does all that can be done now. `settled`: an event said that the socket can be written to or has failed.
    ///
    /// What was sent whole in this call is not read for: an answer that comes from now on makes an event of its own, so the
    /// attempt would only cost a system call.
    pub(super) fn advance(
        &mut self,
        exchange: &Exchange<'_>,
        settled: bool,
        buffer: &mut [u8],
    ) -> Result<Advance, Failure> {
        if self.connecting {
            if !settled {
                return Ok(Advance::Blocked);
            }
            socket_error(self.socket())
                .and_then(|result| result)
                .map_err(|error| connect_failure(self.address, error.into()))?;
            self.connecting = false;
        }
        let untouched = self.sent == 0;
        match self.send(exchange.message)? {
            Sent::Blocked => Ok(Advance::Blocked),
            Sent::Whole if untouched => Ok(Advance::Blocked),
            Sent::Whole | Sent::Refused => self.receive(exchange, buffer),
        }
    }

    /// Sends what is left of the request.
    fn send(&mut self, message: &[u8]) -> Result<Sent, Failure> {
        while self.sent < message.len() {
            match self.stream.write(&message[self.sent..]) {
                Ok(count) => {
                    if self.sent == 0 && !self.used {
                        self.established = Some(self.opened.elapsed());
                    }
                    self.sent += count;
                }
                Err(error) if is_tick(&error) => return Ok(Sent::Blocked),
                Err(error) if self.stream.is_handshaking() => return Err(tls_failure(&error)),
                // The server may have refused the body before it read it all: its answer tells more.
                Err(error) if is_reset(&error) => {
                    self.sent = message.len();
                    return Ok(Sent::Refused);
                }
                Err(error) => return Err(HttpError::Io { phase: "sending", source: error }.into()),
            }
        }
        Ok(Sent::Whole)
    }

    fn receive(&mut self, exchange: &Exchange<'_>, buffer: &mut [u8]) -> Result<Advance, Failure> {
        for _ in 0..READS_MAX {
            match self.stream.read(buffer) {
                Ok(0) => return self.at_end(exchange),
                Ok(count) => {
                    self.heard = true;
                    if let Some(reply) = self.feed(&buffer[..count], exchange)? {
                        return Ok(Advance::Complete(reply));
                    }
                    // A plain socket that gave less than it was asked for is empty (epoll(7)); TLS keeps records back.
                    // After a hang-up no event will come, so the end has to be read.
                    if count < buffer.len() && !self.hung_up && matches!(self.stream, Stream::Plain(_)) {
                        return Ok(Advance::Blocked);
                    }
                }
                Err(error) if is_tick(&error) => return Ok(Advance::Blocked),
                Err(error) if self.stream.is_handshaking() || error.kind() == io::ErrorKind::InvalidData => {
                    return Err(tls_failure(&error));
                }
                Err(error) => return Err(HttpError::Io { phase: "waiting for the answer", source: error }.into()),
            }
        }
        Ok(Advance::Again)
    }

    /// The server will send no more.
    fn at_end(&mut self, exchange: &Exchange<'_>) -> Result<Advance, Failure> {
        if self.stream.is_handshaking() {
            let message = "the server closed the connection during the handshake".to_owned();
            return Err(HttpError::Tls(message).into());
        }
        let Some(answer) = self.answer.take() else {
            return Err(if self.heard {
                HttpError::Malformed("the connection closed inside the headers".to_owned()).into()
            } else {
                HttpError::ClosedBeforeAnswer.into()
            });
        };
        answer.body.finish()?;
        Ok(Advance::Complete(answer.reply(exchange, false, false)))
    }

    /// Takes in bytes of the answer; what cannot be understood yet is kept for the next time.
    fn feed(&mut self, bytes: &[u8], exchange: &Exchange<'_>) -> Result<Option<Reply>, Failure> {
        let mut kept = std::mem::take(&mut self.pending);
        if kept.is_empty() {
            let (used, complete) = self.digest(bytes, exchange)?;
            if complete {
                return Ok(self.complete(exchange, used == bytes.len()));
            }
            kept.extend_from_slice(&bytes[used..]);
        } else {
            kept.extend_from_slice(bytes);
            let (used, complete) = self.digest(&kept, exchange)?;
            if complete {
                return Ok(self.complete(exchange, used == kept.len()));
            }
            kept.drain(..used);
        }
        if kept.len() > HEAD_BYTES_MAX {
            let message = format!("a header or chunk line is longer than {HEAD_BYTES_MAX} bytes");
            return Err(HttpError::Malformed(message).into());
        }
        self.pending = kept;
        Ok(None)
    }

    fn complete(&mut self, exchange: &Exchange<'_>, exact: bool) -> Option<Reply> {
        self.used = true;
        let hung_up = self.hung_up;
        self.answer.take().map(|answer| answer.reply(exchange, exact, hung_up))
    }

    /// Reads head and body out of `bytes`; gives how many were understood, and whether the answer is complete.
    fn digest(&mut self, bytes: &[u8], exchange: &Exchange<'_>) -> Result<(usize, bool), Failure> {
        let mut at = 0;
        loop {
            let Some(answer) = &mut self.answer else {
                let Some((head, length)) = parse_head(&bytes[at..])? else { return Ok((at, false)) };
                at += length;
                if !head.is_interim() {
                    let framing = head.framing_for(exchange.method.name());
                    self.answer = Some(Answer {
                        status: head.status,
                        keep: head.keep && framing != Framing::UntilClose,
                        announced: if let Framing::Length(length) = head.framing { Some(length) } else { None },
                        server: head.server.filter(|_| exchange.ask_server).map(str::to_owned),
                        body: BodyReader::new(framing),
                        differs_at: None,
                    });
                }
                continue;
            };
            let before = answer.body.got();
            match answer.body.next(&bytes[at..])? {
                Piece::Content(count) => {
                    answer.look_at(&bytes[at..at + count], before, exchange.expect)?;
                    at += count;
                }
                Piece::Framing(count) => at += count,
                Piece::More => return Ok((at, false)),
                Piece::End => return Ok((at, true)),
            }
        }
    }
}

impl Answer {
    /// Compares a piece of content that begins at `offset`.
    fn look_at(&mut self, content: &[u8], offset: u64, expect: &Expect) -> Result<(), Failure> {
        if self.body.got() > expect.bytes_max {
            let message = format!("the answer has more than {} bytes, the limit", expect.bytes_max);
            return Err(Failure { class: ErrorClass::Length, message });
        }
        let Some(right) = expect.content.as_deref().filter(|_| self.differs_at.is_none()) else { return Ok(()) };
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(right.len());
        let right = &right[from..right.len().min(from.saturating_add(content.len()))];
        if content != right {
            let same = content.iter().zip(right).take_while(|(one, two)| one == two).count();
            self.differs_at = Some(offset + same as u64);
        }
        Ok(())
    }

    /// `exact`: nothing came behind it.
    fn reply(self, exchange: &Exchange<'_>, exact: bool, hung_up: bool) -> Reply {
        let keep = self.keep && exact;
        Reply {
            content_bytes: self.body.got(),
            keep: keep && !hung_up,
            dropped: keep && hung_up,
            verdict: self.verdict(exchange),
            server: self.server,
        }
    }

    fn verdict(&self, exchange: &Exchange<'_>) -> Result<(), Failure> {
        let Expect { statuses, bytes, content, .. } = exchange.expect;
        if !statuses.iter().any(|good| good.contains(&self.status)) {
            return Err(Failure { class: ErrorClass::Status, message: format!("status {}", self.status) });
        }
        let length = if exchange.method == Method::Head { self.announced.unwrap_or(0) } else { self.body.got() };
        let wanted = bytes.or(content.as_ref().map(|content| content.len() as u64));
        if let Some(wanted) = wanted.filter(|&wanted| wanted != length) {
            let message = format!("{length} bytes came, expected {wanted}");
            return Err(Failure { class: ErrorClass::Length, message });
        }
        match self.differs_at {
            Some(at) => Err(Failure { class: ErrorClass::Content, message: format!("content differs at byte {at}") }),
            None => Ok(()),
        }
    }
}

fn begin_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let tcp = TcpStream::from(socket);
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

fn connect_failure(address: SocketAddr, source: io::Error) -> Failure {
    let full = source.raw_os_error() == Some(Errno::ADDRNOTAVAIL.raw_os_error());
    let mut failure = Failure::from(HttpError::Connect { address: address.to_string(), source });
    if full {
        failure
            .message
            .push_str(" (this machine has no free port: too many connections were closed in the last minute)");
    }
    failure
}

fn tls_failure(error: &io::Error) -> Failure {
    HttpError::Tls(error.to_string()).into()
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}
