//! Errors as problem details (RFC 9457).

use axum::response::{IntoResponse, Response};
use holdfast_base::{Error, ErrorKind};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

/// What is wrong, for a program and for a person.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// `about:blank`: the status says all there is to know about the kind.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is wrong and what to do.
    detail: String,
}

/// An error on its way out.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Error);

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let error = self.0;
        if matches!(error.kind(), ErrorKind::Internal | ErrorKind::Damaged | ErrorKind::Unavailable) {
            tracing::error!(?error, "an API request failed");
        }
        let status = match error.kind() {
            // WebDAV says 405 where something exists; a JSON client expects 409.
            ErrorKind::AlreadyExists | ErrorKind::WrongKind => StatusCode::CONFLICT,
            kind => StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        };
        let mut response = problem(status, error.message().to_owned());
        if let ErrorKind::TooManyRequests { retry_after_s } = error.kind() {
            response.headers_mut().insert(RETRY_AFTER, retry_after_s.into());
        }
        response
    }
}

pub(crate) fn problem(status: StatusCode, detail: String) -> Response {
    let title = status.canonical_reason().unwrap_or("Error");
    let body = Problem { kind: "about:blank", title, status: status.as_u16(), detail };
    let mut response = (status, axum::Json(body)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

/// Answers what no route answers.
pub(crate) async fn no_route() -> Response {
    problem(StatusCode::NOT_FOUND, "there is no such address; /api/v1/openapi.json lists those that exist".into())
}

/// Answers a method that an address does not have.
pub(crate) async fn no_method() -> Response {
    let detail = "this address does not have this method; /api/v1/openapi.json lists those it has";
    problem(StatusCode::METHOD_NOT_ALLOWED, detail.into())
}
