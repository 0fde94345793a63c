//! Requests into values, with our own words when they do not fit.

use crate::cookie::Visitor;
use crate::problem::Failure;
use axum::extract::{FromRequest, FromRequestParts, Request};
use holdfast_auth::Session;
use holdfast_base::{Error, ErrorKind};
use holdfast_drive::Location;
use http::request::Parts;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The signed-in caller.
pub(crate) struct Caller(pub(crate) Arc<Session>);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        let session = parts.extensions.get::<Arc<Session>>().cloned();
        session.map(Self).ok_or_else(|| Failure(Error::new(ErrorKind::Unauthenticated, "sign in first")))
    }
}

/// The client's address and connection.
pub(crate) struct From(pub(crate) Visitor);

impl<S: Send + Sync> FromRequestParts<S> for From {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        let visitor = parts.extensions.get().copied();
        visitor.map(Self).ok_or_else(|| Failure(Error::internal("the server in front did not say who is asking")))
    }
}

impl Caller {
    /// For what only administrators may do.
    pub(crate) fn require_admin(&self) -> Result<&Session, Failure> {
        if self.0.admin {
            Ok(&self.0)
        } else {
            Err(Failure(Error::forbidden("only an administrator of the drive can do this")))
        }
    }
}

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        match axum::Json::<T>::from_request(request, state).await {
            Ok(axum::Json(value)) => Ok(Self(value)),
            Err(rejection) => Err(refused(rejection.status(), rejection.body_text())),
        }
    }
}

/// A form.
pub(crate) struct Form<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Form<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        match axum::Form::<T>::from_request(request, state).await {
            Ok(axum::Form(value)) => Ok(Self(value)),
            Err(rejection) => Err(refused(rejection.status(), rejection.body_text())),
        }
    }
}

/// A body that does not fit.
fn refused(status: http::StatusCode, why: String) -> Failure {
    let too_large = status == http::StatusCode::PAYLOAD_TOO_LARGE;
    Failure(Error::new(if too_large { ErrorKind::TooLarge } else { ErrorKind::InvalidInput }, why))
}

/// A query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match axum::extract::Query::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(Failure(Error::invalid(rejection.body_text()))),
        }
    }
}

/// A place named by the path of the URL: the route's own name, then a space and a path in it.
pub(crate) struct At(pub(crate) Location);

impl<S: Send + Sync> FromRequestParts<S> for At {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        let path = parts.uri.path();
        let path = path.strip_prefix(crate::PREFIX).unwrap_or(path);
        // The router has found the route by the first segment.
        let rest = path.trim_start_matches('/').split_once('/').map_or("", |(_, rest)| rest);
        let place = holdfast_http::place(rest)?;
        let (space, path) = place.ok_or_else(|| Error::invalid("the address names no space"))?;
        Ok(Self(Location { space, path }))
    }
}

/// Parts of the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(Failure(Error::invalid(rejection.body_text()))),
        }
    }
}
