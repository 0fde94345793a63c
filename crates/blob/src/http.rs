//! The HTTP client that the object stores share: HTTP/1.1, plain or over rustls, with a bound on everything.
//!
//! - A connection, an answer's head and each piece of an answer's body have a time limit ([`Times`]); the head's limit
//!   grows with the bytes sent, at the slowest rate worth waiting for. A call that is abandoned closes its connection.
//! - Bodies are sent from the caller's buffers and read into the caller's buffer; texts have a size limit.
//! - No redirects are followed: a signed request is for one host, and a token is not handed to another.
//! - No proxy of the environment is used: a store inside one's own network must not be asked for elsewhere by accident.
//!
//! HTTP/2 is left out on purpose: packs are few and large, and one connection for each of them keeps the streams from
//! sharing one window.

mod answer;
mod payload;
mod tls;

pub use answer::{Answer, ERROR_TEXT_BYTES_MAX};
pub use payload::Payload;
pub use tls::Trust;

use holdfast_base::{Error, ErrorKind, Result};
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;

/// Connections kept open for the next call. More calls than this at once open new ones, which are closed afterwards.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// Servers and the boxes before them close idle connections after a minute or more (nginx: 75 s); ours go first, so that a
/// call seldom meets one that is just being closed.
const IDLE_TIME_MAX: Duration = Duration::from_secs(20);

/// What a connection reads ahead of us. hyper's own bound is 400 KiB, which a connection keeps while it is idle: with as many calls as
/// there may be at once, more than all uploads have.
const READ_BUFFER_BYTES: usize = 64 << 10;

/// How long to wait for a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// For a connection to be made.
    pub connect: Duration,
    /// From the end of a request to the head of its answer.
    pub answer: Duration,
    /// For the next piece of an answer's body.
    pub stall: Duration,
    /// The slowest rate at which a request's body may be taken, in bytes a second.
    pub bytes_per_second_min: u64,
}

impl Default for Times {
    /// Half of what the layer `timeout` gives a call, so that a call that met a dead peer can be tried once more inside
    /// it; the slowest rate is that layer's.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(15),
            stall: Duration::from_secs(15),
            bytes_per_second_min: 256 << 10,
        }
    }
}

impl Times {
    /// For callers that watch for silence themselves, by what [`Payload::watched`] and [`Answer::next`] tell: nothing but making a connection
    /// has a limit of its own.
    pub const fn unlimited() -> Self {
        let never = Duration::from_hours(24 * 365);
        Self { connect: Duration::from_secs(20), answer: never, stall: never, bytes_per_second_min: 256 << 10 }
    }
}

/// A client with its pool of connections.
pub struct Client {
    pool: Pool<HttpsConnector<HttpConnector>, Payload>,
    times: Times,
}

impl Client {
    /// A client that believes in the certificates of `trust`.
    pub fn new(trust: &Trust, times: Times) -> Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(times.connect));
        tcp.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(trust.config()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .http1_max_buf_size(READ_BUFFER_BYTES)
            .build(connector);
        Ok(Self { pool, times })
    }

    /// Sends a request and waits for the head of its answer, whatever its status.
    pub async fn send(&self, mut request: Request<Payload>) -> Result<Answer> {
        if matches!(*request.method(), Method::PUT | Method::POST) {
            // hyper leaves it out when there is no body, and Swift insists.
            let length = HeaderValue::from(request.body().bytes());
            request.headers_mut().insert(CONTENT_LENGTH, length);
        }
        let host = host_of(request.uri());
        let limit = self.answer_limit(request.body().bytes());
        match tokio::time::timeout(limit, self.pool.request(request)).await {
            Ok(Ok(answer)) => Ok(Answer::new(answer, self.times.stall, host)),
            Ok(Err(error)) => Err(unreachable(&host, &error)),
            Err(_) => {
                let message = format!("{host} did not answer within {} seconds", limit.as_secs());
                Err(Error::new(ErrorKind::Timeout, message))
            }
        }
    }

    fn answer_limit(&self, body_bytes: u64) -> Duration {
        self.times.answer + Duration::from_secs(body_bytes / self.times.bytes_per_second_min.max(1))
    }
}

fn host_of(uri: &Uri) -> String {
    uri.authority().map_or_else(|| "the store".to_owned(), ToString::to_string)
}

fn unreachable(host: &str, error: &hyper_util::client::legacy::Error) -> Error {
    let causes = causes(error);
    if causes.contains("certificate") {
        // It will not be accepted later either.
        let message = format!(
            "the certificate of {host} is not accepted; if it is signed by an authority of your own, name its file (ca_file, --ca)"
        );
        return Error::forbidden(message).with_source(causes);
    }
    let message = if error.is_connect() {
        format!("{host} cannot be reached")
    } else {
        format!("the connection to {host} broke before it had answered")
    };
    Error::unavailable(message).with_source(causes)
}

/// An error with all its causes, for the log.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// Refuses plain HTTP to other machines unless it is asked for: it shows tokens to the network, and lets it change
/// lists and lengths (content is sealed).
pub fn check_scheme(url: &Uri, plain_http: bool) -> Result<()> {
    let host = url.host().unwrap_or_default();
    let loopback = host == "localhost"
        || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if loopback || plain_http => Ok(()),
        Some("http") => Err(Error::invalid(format!(
            "{host} is another machine and plain http shows your credentials to the network: use https, or say plain_http=true"
        ))),
        _ => Err(Error::invalid(format!("{url} must begin with https:// (or http:// on this machine)"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine_unless_asked_for() {
        let check = |url: &'static str, plain| check_scheme(&Uri::from_static(url), plain).is_ok();
        for url in ["https://example.org/x", "http://127.0.0.1:80/x", "http://localhost/x", "http://[::1]:8333/"] {
            assert!(check(url, false), "{url}");
        }
        for url in ["http://example.org/", "http://192.168.1.1/", "http://127.0.0.1.example.org/"] {
            assert!(!check(url, false) && check(url, true), "{url}");
        }
        assert!(!check("ftp://localhost/", true));
    }
}
