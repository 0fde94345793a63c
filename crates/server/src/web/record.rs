//! What is remembered of a request until its answer has left: for the access log, the metrics and the account's meter.

use crate::conn::{Finish, Tally};
use crate::meter::Meter;
use crate::monitor::{self, Ended, Monitor};
use crate::telemetry::AccessLog;
use holdfast_api::figures::Bytes;
use holdfast_base::AccountId;
use http::{HeaderMap, Method, StatusCode};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;

/// Longest request id taken over from a trusted proxy.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// Makes ids of requests: a random part of the process and a count.
pub(crate) struct RequestIds {
    process: u32,
    count: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new() -> Self {
        let mut bytes = [0u8; 4];
        // Without randomness the ids of two processes may meet; they are for reading logs, so that is bearable.
        let _ = aws_lc_rs::rand::fill(&mut bytes);
        Self { process: u32::from_ne_bytes(bytes), count: AtomicU64::new(0) }
    }

    /// The id a trusted proxy gave, if it is harmless in a log and a header; else a new one.
    pub(crate) fn next(&self, headers: &HeaderMap, trusted: bool) -> String {
        let given = trusted.then(|| headers.get("x-request-id")).flatten().and_then(|value| value.to_str().ok());
        let harmless = |id: &&str| {
            !id.is_empty()
                && id.len() <= REQUEST_ID_BYTES_MAX
                && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
        };
        given.filter(harmless).map_or_else(
            || format!("{:08x}-{:x}", self.process, self.count.fetch_add(1, Ordering::Relaxed)),
            ToOwned::to_owned,
        )
    }
}

/// Which part of the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    Dav,
    Api,
    Wire,
    Page,
    Site,
}

impl Face {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dav => "dav",
            Self::Api => "api",
            Self::Wire => "wire",
            Self::Page => "page",
            Self::Site => "site",
        }
    }
}

/// The operation for metrics: a method we know, so that a client cannot make new time series.
fn operation(method: &Method) -> &'static str {
    const KNOWN: [&str; 17] = [
        "GET",
        "HEAD",
        "PUT",
        "POST",
        "PATCH",
        "DELETE",
        "OPTIONS",
        "MKCOL",
        "COPY",
        "MOVE",
        "PROPFIND",
        "PROPPATCH",
        "LOCK",
        "UNLOCK",
        "REPORT",
        "SEARCH",
        "TRACE",
    ];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

/// One request, from its head to the end of its answer.
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) face: Face,
    pub(crate) client: IpAddr,
    pub(crate) account: Option<(AccountId, String)>,
    pub(crate) status: StatusCode,
    method: Method,
    path: String,
    began: Instant,
    tally: Arc<Tally>,
    meter: Arc<Meter>,
    monitor: Monitor,
    program: String,
    log: AccessLog,
    _running: Option<OwnedSemaphorePermit>,
}

impl Record {
    pub(crate) fn begin<B>(
        request: &http::Request<B>,
        (id, face, client): (String, Face, IpAddr),
        tally: Arc<Tally>,
        (meter, monitor): (Arc<Meter>, Monitor),
        log: AccessLog,
        running: Option<OwnedSemaphorePermit>,
    ) -> Self {
        metrics::gauge!("holdfast_requests_in_flight").increment(1);
        monitor.begins();
        Self {
            id,
            face,
            client,
            account: None,
            status: StatusCode::INTERNAL_SERVER_ERROR,
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            began: Instant::now(),
            tally,
            meter,
            program: monitor::client(client, request.headers()),
            monitor,
            log,
            _running: running,
        }
    }

    /// Failures an operator may want to know of; wrong names, stale entity tags and first tries without a password are not.
    fn remarkable(&self) -> bool {
        self.status.is_server_error() || matches!(self.status.as_u16(), 403 | 408 | 413 | 429 | 431)
    }
}

impl Finish for Record {
    fn finish(&mut self, whole: bool) {
        let bytes_in = self.tally.bytes_in.load(Ordering::Relaxed);
        let bytes_out = self.tally.bytes_out.load(Ordering::Relaxed);
        let took = self.began.elapsed();
        let operation = operation(&self.method);
        metrics::gauge!("holdfast_requests_in_flight").decrement(1);
        metrics::histogram!("holdfast_request_seconds", "face" => self.face.name(), "operation" => operation,
            "status" => class(self.status))
        .record(took);
        metrics::counter!("holdfast_request_bytes_total", "operation" => operation).increment(bytes_in);
        metrics::counter!("holdfast_response_bytes_total", "operation" => operation).increment(bytes_out);
        self.monitor.ended(Ended {
            kind: self.monitor.kind(self.face.name(), operation, &self.path),
            took,
            well: !self.status.is_server_error(),
            account: self.account.as_ref().map(|(_, name)| name.as_str()),
            client: std::mem::take(&mut self.program),
            bytes: Bytes { requests: 1, bytes_in, bytes_out },
        });
        if let Some((account, _)) = &self.account {
            self.meter.add(*account, bytes_in, bytes_out);
        }
        let wanted = match self.log {
            AccessLog::Off => false,
            AccessLog::Errors => self.remarkable() || !whole,
            AccessLog::All => true,
        };
        if wanted {
            tracing::info!(
                target: "holdfast::access",
                id = %self.id, method = %self.method, path = %self.path, status = self.status.as_u16(), bytes_in, bytes_out,
                ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX), whole, client = %self.client,
                account = self.account.as_ref().map_or("-", |(_, name)| name), "request"
            );
        }
    }
}

pub(crate) const fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        100..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        _ => "5xx",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_from_outside_is_taken_only_from_a_trusted_proxy_and_only_if_harmless() {
        let ids = RequestIds::new();
        let given = |value: &str| {
            let value = value.parse().expect("header");
            std::iter::once((http::HeaderName::from_static("x-request-id"), value)).collect::<HeaderMap>()
        };
        assert_eq!(ids.next(&given("abc-1"), true), "abc-1");
        assert_ne!(ids.next(&given("abc-1"), false), "abc-1");
        assert_ne!(ids.next(&given("a b"), true), "a b");
        assert_ne!(ids.next(&HeaderMap::new(), true), ids.next(&HeaderMap::new(), true));
    }

    #[test]
    fn methods_nobody_knows_share_one_operation() {
        assert_eq!(operation(&Method::from_bytes(b"BREW").expect("method")), "other");
        assert_eq!(operation(&Method::from_bytes(b"PROPFIND").expect("method")), "PROPFIND");
    }
}
