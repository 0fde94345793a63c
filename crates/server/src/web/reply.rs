//! Small answers the server gives itself.

use crate::conn::AnyBody;
use bytes::Bytes;
use holdfast_base::{Error, ErrorKind};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};

/// The challenge of RFC 7617 with its charset parameter, so that clients send names and passwords as UTF-8.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"Holdfast\", charset=\"UTF-8\"");

/// A whole body at hand: it leaves in one segment with its head.
pub(crate) fn full(bytes: impl Into<Bytes>) -> AnyBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An answer of one content type.
pub(crate) fn of(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Response<AnyBody> {
    let mut answer = Response::new(full(bytes));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// Plain text.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<AnyBody> {
    of(status, "text/plain; charset=utf-8", text)
}

/// Adds a header.
pub(crate) fn with(mut answer: Response<AnyBody>, name: HeaderName, value: HeaderValue) -> Response<AnyBody> {
    answer.headers_mut().insert(name, value);
    answer
}

/// An error as plain text, or as problem details (RFC 9457) where the caller is a program.
pub(crate) fn error(error: &Error, problem: bool) -> Response<AnyBody> {
    let status = StatusCode::from_u16(error.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let answer = if problem {
        let title = status.canonical_reason().unwrap_or("Error");
        let details = serde_json::json!({ "type": "about:blank", "title": title, "status": status.as_u16(),
            "detail": error.message() });
        of(status, "application/problem+json", details.to_string())
    } else {
        text(status, format!("{}\n", error.message()))
    };
    match error.kind() {
        ErrorKind::Unauthenticated => with(answer, WWW_AUTHENTICATE, CHALLENGE),
        ErrorKind::TooManyRequests { retry_after_s } => with(answer, RETRY_AFTER, retry_after_s.into()),
        ErrorKind::Unavailable => with(answer, RETRY_AFTER, HeaderValue::from_static("5")),
        _ => answer,
    }
}
