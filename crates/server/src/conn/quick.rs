//! What comes before hyper on a connection: requests whose whole answer lies ready are answered from it, bytes for bytes.
//!
//! A page in memory is a few microseconds of work, and as much again goes into a request and an answer as general objects:
//! maps of headers, boxed bodies, counted pointers. So the plainest of requests never become one. [`Ask::read`] takes a
//! `GET` in HTTP/1.1 without a body whose headers are all of a list that changes nothing ([`WITHOUT_EFFECT`]) or that it
//! understands; the handler says whether the answer lies ready ([`Handler::ready`]). Anything else, whatever it is, goes to hyper
//! together with what was read, and so does the connection from then on: what is refused is refused in one place.
//!
//! Both ways lead to the same answers; `cli/tests/all/sites.rs` compares them.

use super::socket::Socket;
use super::watch::Watch;
use super::{Handler, Peer};
use bytes::{Bytes, BytesMut};
use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// Longest head that is looked at: browsers send a kilobyte.
const HEAD_BYTES: usize = 4 << 10;
/// Headers of such a head.
const HEADERS: usize = 32;

/// Headers that no answer to a `GET` depends on here.
const WITHOUT_EFFECT: [&str; 19] = [
    "user-agent",
    "accept",
    "accept-language",
    "accept-charset",
    "cache-control",
    "dnt",
    "forwarded",
    "from",
    "pragma",
    "priority",
    "referer",
    "sec-gpc",
    "upgrade-insecure-requests",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
];
/// Beginnings of such names.
const FAMILIES: [&str; 2] = ["sec-fetch-", "sec-ch-"];

/// A plain `GET`.
#[derive(Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    /// The `Host` header.
    pub host: &'a str,
    /// The path, as it was sent.
    pub path: &'a str,
    /// The `Accept-Encoding` header.
    pub accept_encoding: Option<&'a str>,
}

impl<'a> Ask<'a> {
    /// Reads a head; none if it is not whole, not the last there is, or not of the plainest kind.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        let whole = matches!(head.parse(bytes), Ok(httparse::Status::Complete(length)) if length == bytes.len());
        if !whole || head.method != Some("GET") || head.version != Some(1) {
            return None;
        }
        let path = head.path?.split('?').next().filter(|path| path.starts_with('/') && path.bytes().all(is_plain))?;
        let (mut host, mut accept_encoding) = (None, None);
        for header in head.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("host") && host.is_none() {
                host = Some(std::str::from_utf8(header.value).ok()?);
            } else if is("accept-encoding") && accept_encoding.is_none() {
                accept_encoding = Some(std::str::from_utf8(header.value).ok()?);
            } else if !(is("connection") && header.value.eq_ignore_ascii_case(b"keep-alive")
                || WITHOUT_EFFECT.into_iter().any(is)
                || FAMILIES.into_iter().any(|family| begins_with(header.name, family)))
            {
                return None;
            }
        }
        Some(Self { host: host?, path, accept_encoding })
    }
}

fn begins_with(name: &str, family: &str) -> bool {
    name.get(..family.len()).is_some_and(|start| start.eq_ignore_ascii_case(family))
}

/// Whether a byte may stand in a path as it is (RFC 3986 section 3.3). Clients that send others are hyper's to judge.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:@".contains(&byte)
}

/// An answer that lies ready.
pub struct Ready {
    /// Status line and headers, each with its line end, without `date` and the blank line.
    pub head: Bytes,
    /// The content.
    pub body: Bytes,
    /// The room it takes among the requests that are worked on.
    pub room: OwnedSemaphorePermit,
}

/// Answers requests as long as their answers lie ready. Ends with what was read of a request that is for hyper, or with nothing when
/// the connection is over. After `leaving` is set, no request is waited for and the next goes to hyper.
pub(super) async fn serve<S, H>(
    socket: &mut Socket<S>,
    handler: &H,
    peer: Peer,
    watch: &Watch,
    leaving: &AtomicBool,
) -> io::Result<Option<Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: Handler,
{
    let mut head = BytesMut::with_capacity(HEAD_BYTES);
    loop {
        if read(socket, &mut head, leaving).await? == 0 {
            return Ok(None);
        }
        if !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES && may_become_get(&head) {
            continue;
        }
        let began = Instant::now();
        let ready = match Ask::read(&head) {
            Some(ask) if !leaving.load(Ordering::Relaxed) => handler.ready(peer, &ask),
            _ => None,
        };
        let Some(ready) = ready else { return Ok(Some(head.freeze())) };
        head.clear();
        watch.request_begins();
        let written = write(socket, &ready).await;
        watch.request_ends(Instant::now());
        handler.answered(began.elapsed(), ready.body.len());
        written?;
    }
}

/// Whether what came so far can be the beginning of a plain `GET`; else hyper shall see it without delay.
fn may_become_get(head: &[u8]) -> bool {
    let length = head.len().min(4);
    head[..length] == b"GET "[..length] && !head.windows(4).any(|end| end == b"\r\n\r\n")
}

async fn read<S>(socket: &mut Socket<S>, head: &mut BytesMut, leaving: &AtomicBool) -> io::Result<usize>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let nothing_yet = head.is_empty();
    let mut more = pin!(socket.read_buf(head));
    poll_fn(|cx| {
        if nothing_yet && leaving.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(0));
        }
        more.as_mut().poll(cx)
    })
    .await
}

async fn write<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut Socket<S>, ready: &Ready) -> io::Result<()> {
    let date = date_line();
    let mut slices = [IoSlice::new(&ready.head), IoSlice::new(&date), IoSlice::new(&ready.body)];
    let mut left = &mut slices[..];
    poll_fn(|cx| {
        while !left.is_empty() {
            let written = ready!(Pin::new(&mut *socket).poll_write_vectored(cx, left))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            IoSlice::advance_slices(&mut left, written);
        }
        Pin::new(&mut *socket).poll_flush(cx)
    })
    .await
}

/// Bytes of [`date_line`]: a name, a date of 29 bytes (RFC 9110 section 5.6.7), two line ends.
const DATE_LINE_BYTES: usize = 39;

/// The `date` header and the blank line after it. Made once a second.
fn date_line() -> [u8; DATE_LINE_BYTES] {
    thread_local! {
        static LINE: Cell<(u64, [u8; DATE_LINE_BYTES])> = const { Cell::new((u64::MAX, [0; DATE_LINE_BYTES])) };
    }
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (of_second, line) = LINE.get();
    if of_second == second {
        return line;
    }
    let mut line = [b' '; DATE_LINE_BYTES];
    let text = format!("date: {}\r\n\r\n", httpdate::fmt_http_date(now));
    line.copy_from_slice(text.as_bytes());
    LINE.set((second, line));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(head: &str) -> Option<(String, String, Option<String>)> {
        let ask = Ask::read(head.as_bytes())?;
        Some((ask.host.to_owned(), ask.path.to_owned(), ask.accept_encoding.map(ToOwned::to_owned)))
    }

    #[test]
    fn a_browsers_plain_get_is_read() {
        let head = "GET /a/b%20c?x=1 HTTP/1.1\r\nHost: example.org:80\r\nConnection: keep-alive\r\nSec-Fetch-Mode: navigate\r\n\
                    sec-ch-ua: \"x\"\r\nAccept-Encoding: gzip, zstd\r\nUser-Agent: b\r\n\r\n";
        let expected = ("example.org:80".to_owned(), "/a/b%20c".to_owned(), Some("gzip, zstd".to_owned()));
        assert_eq!(ask(head), Some(expected));
    }

    #[test]
    fn whatever_could_change_the_answer_is_left_to_hyper() {
        let with = |line: &str, header: &str| ask(&format!("{line}\r\nhost: a\r\n{header}\r\n"));
        assert!(with("GET / HTTP/1.1", "").is_some());
        for header in [
            "host: b",
            "cookie: a=b",
            "range: bytes=0-1",
            "if-none-match: *",
            "if-modified-since: x",
            "content-length: 0",
            "transfer-encoding: chunked",
            "connection: close",
            "connection: keep-alive, upgrade",
            "expect: 100-continue",
            "upgrade: h2c",
            "authorization: Basic x",
            "x-unheard-of: 1",
            "accept-encoding: a\r\naccept-encoding: b",
        ] {
            assert_eq!(with("GET / HTTP/1.1", &format!("{header}\r\n")), None, "{header}");
        }
        for line in [
            "HEAD / HTTP/1.1",
            "POST / HTTP/1.1",
            "GET / HTTP/1.0",
            "GET http://a/ HTTP/1.1",
            "GET * HTTP/1.1",
            "GET /\u{e9} HTTP/1.1",
            "GET /a\\b HTTP/1.1",
            "GET /a#b HTTP/1.1",
        ] {
            assert_eq!(with(line, ""), None, "{line}");
        }
        assert_eq!(ask("GET / HTTP/1.1\r\nhost: a\r\n\r\nGET"), None, "more than one request");
        assert_eq!(ask("GET / HTTP/1.1\r\n\r\n"), None, "no host");
        assert_eq!(ask(&format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "via: x\r\n".repeat(HEADERS))), None);
    }

    #[test]
    fn only_the_beginning_of_a_get_is_waited_for() {
        for (head, waits) in [("G", true), ("GET / HT", true), ("P", false), ("PRI * HTTP/2.0\r\n\r\nSM", false)] {
            assert_eq!(may_become_get(head.as_bytes()), waits, "{head}");
        }
        assert!(!may_become_get(b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET /"), "what is pipelined is hyper's");
    }

    #[test]
    fn the_date_is_a_header_and_a_blank_line() {
        let line = date_line();
        let text = std::str::from_utf8(&line).expect("text");
        let date = text.strip_prefix("date: ").and_then(|text| text.strip_suffix("\r\n\r\n")).expect("a header");
        assert!(httpdate::parse_http_date(date).is_ok(), "{date}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Ask::read(&bytes);
        }
    }
}
