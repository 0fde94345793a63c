//! Refusals: a status, what is wrong for a person, and the RFC's precondition code for a program.
//!
//! The body is XML for the methods of WebDAV (`DAV:error` with the code, RFC 4918 section 16, and a `message` element that
//! clients such as rclone show) and plain text for GET. It never says more than the error's message, which by the rule of
//! [`holdfast_base::Error`] holds nothing of another space.

use crate::DavBody;
use crate::limits::RETRY_AFTER_UNAVAILABLE_S;
use crate::multistatus::push_href;
use crate::xml::escape::push_text;
use holdfast_base::{Error, ErrorKind};
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Response, StatusCode};

/// The methods of this face, for `Allow`.
pub(crate) const METHODS: &str =
    "OPTIONS, GET, HEAD, PUT, DELETE, MKCOL, COPY, MOVE, PROPFIND, PROPPATCH, LOCK, UNLOCK";

/// A precondition or postcondition code (RFC 4918 section 16, RFC 4331 section 6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Code {
    LockTokenSubmitted(Vec<String>),
    NoConflictingLock(Vec<String>),
    LockTokenMatchesRequestUri,
    PropfindFiniteDepth,
    QuotaNotExceeded,
}

impl Code {
    /// The element's name and the hrefs in it.
    const fn element(&self) -> (&'static str, &[String]) {
        match self {
            Self::LockTokenSubmitted(hrefs) => ("D:lock-token-submitted", hrefs.as_slice()),
            Self::NoConflictingLock(hrefs) => ("D:no-conflicting-lock", hrefs.as_slice()),
            Self::LockTokenMatchesRequestUri => ("D:lock-token-matches-request-uri", &[]),
            Self::PropfindFiniteDepth => ("D:propfind-finite-depth", &[]),
            Self::QuotaNotExceeded => ("D:quota-not-exceeded", &[]),
        }
    }
}

/// A refusal.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    pub(crate) code: Option<Code>,
    /// For 416: the file's size.
    pub(crate) size: Option<u64>,
    retry_after_s: Option<u32>,
}

pub(crate) type Answer = Result<Response<DavBody>, Fault>;

impl Fault {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), code: None, size: None, retry_after_s: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    pub(crate) fn precondition_failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, message)
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is nothing at this address")
    }

    /// With a precondition code.
    pub(crate) fn with(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// An error about the path of a request or header: too long is 414 there, not 413.
    pub(crate) fn of_path(error: Error) -> Self {
        let too_long = error.kind() == ErrorKind::TooLarge;
        let mut fault = Self::from(error);
        if too_long {
            fault.status = StatusCode::URI_TOO_LONG;
        }
        fault
    }

    /// The response that says so.
    pub(crate) fn into_response(self, method: &Method) -> Response<DavBody> {
        let plain = matches!(*method, Method::GET | Method::HEAD);
        let (kind, text) = if plain {
            ("text/plain; charset=utf-8", format!("{}\n", self.message))
        } else {
            ("application/xml; charset=utf-8", self.xml())
        };
        let length = text.len();
        let body = if *method == Method::HEAD { DavBody::empty() } else { DavBody::full(text) };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CONTENT_LENGTH, length.into());
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static(METHODS));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(size) = self.size
            && let Ok(value) = HeaderValue::try_from(format!("bytes */{size}"))
        {
            headers.insert(CONTENT_RANGE, value);
        }
        response
    }

    fn xml(&self) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\">");
        if let Some((name, hrefs)) = self.code.as_ref().map(Code::element) {
            out.extend(["<", name, ">"]);
            for href in hrefs {
                push_href(&mut out, href);
            }
            out.extend(["</", name, ">"]);
        }
        out.push_str("<h:message xmlns:h=\"urn:holdfast\">");
        push_text(&mut out, &self.message);
        out.push_str("</h:message></D:error>\n");
        out
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let kind = error.kind();
        let status = StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() && kind != ErrorKind::NoSpace {
            tracing::error!(?error, "a WebDAV request failed");
        }
        let mut fault = Self::new(status, error.message());
        match kind {
            ErrorKind::NoSpace => fault.code = Some(Code::QuotaNotExceeded),
            ErrorKind::TooManyRequests { retry_after_s } => fault.retry_after_s = Some(retry_after_s),
            ErrorKind::Unavailable => fault.retry_after_s = Some(RETRY_AFTER_UNAVAILABLE_S),
            _ => {}
        }
        fault
    }
}
