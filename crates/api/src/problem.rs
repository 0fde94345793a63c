//! Errors as problem details (RFC 9457).

use crate::routes::QuestionBody;
use axum::response::{IntoResponse, Response};
use holdfast_base::{Error, ErrorKind};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

/// What a page is told that is not signed in (RFC 9110 wants a challenge): a scheme no browser opens a dialog for.
pub const SESSION_CHALLENGE: HeaderValue = HeaderValue::from_static("Session realm=\"Holdfast\"");

/// What is wrong, for a program and for a person.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// `about:blank`: the status says all there is to know about the kind; or a name of ours, where a page goes on by it.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is wrong and what to do.
    detail: String,
    /// With `urn:holdfast:second-factor`: what the account wants besides the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    second_factor: Option<Box<SecondFactorBody>>,
}

/// The second factors an account has, of which one is wanted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SecondFactorBody {
    /// One-time codes.
    pub(crate) codes: bool,
    /// A question to its passkeys, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) passkey: Option<QuestionBody>,
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
        let mut response = Problem::of(&error).into_response();
        match error.kind() {
            ErrorKind::TooManyRequests { retry_after_s } => {
                response.headers_mut().insert(RETRY_AFTER, retry_after_s.into());
            }
            ErrorKind::Unauthenticated => {
                response.headers_mut().insert(WWW_AUTHENTICATE, SESSION_CHALLENGE);
            }
            _ => {}
        }
        response
    }
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: String) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Self { kind: "about:blank", title, status: status.as_u16(), detail, second_factor: None }
    }

    /// The password is right, and more is wanted.
    pub(crate) fn second_factor(wanted: SecondFactorBody) -> Response {
        let detail = "the password is right; this account also wants a second factor".to_owned();
        let problem = Self {
            kind: "urn:holdfast:second-factor",
            second_factor: Some(Box::new(wanted)),
            ..Self::new(StatusCode::UNAUTHORIZED, detail)
        };
        let mut response = problem.into_response();
        response.headers_mut().insert(WWW_AUTHENTICATE, SESSION_CHALLENGE);
        response
    }

    /// What a client is told of an error; one that is ours is logged.
    pub(crate) fn of(error: &Error) -> Self {
        if matches!(error.kind(), ErrorKind::Internal | ErrorKind::Damaged | ErrorKind::Unavailable) {
            tracing::error!(?error, "an API request failed");
        }
        let status = match error.kind() {
            // WebDAV says 405 where something exists; a JSON client expects 409.
            ErrorKind::AlreadyExists | ErrorKind::WrongKind => StatusCode::CONFLICT,
            kind => StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        };
        Self::new(status, error.message().to_owned())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(self)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

/// Answers what no route answers.
pub(crate) async fn no_route() -> Response {
    let detail = "there is no such address; /api/v1/openapi.json lists those that exist";
    Problem::new(StatusCode::NOT_FOUND, detail.into()).into_response()
}

/// Answers a method that an address does not have.
pub(crate) async fn no_method() -> Response {
    let detail = "this address does not have this method; /api/v1/openapi.json lists those it has";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail.into()).into_response()
}
