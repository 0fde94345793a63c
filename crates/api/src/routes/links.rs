//! Visits of links: opening one, and what it leads to.
//!
//! The visitor's session is a cookie of its own, one a link, so that several links and a member's own session live side by side. What a visitor
//! may call besides is told by [`VISITED`]: those routes answer below `/links/{id}/` as they do below the prefix, with the space named `link`.

use super::Failures;
use super::shares::share_id;
use crate::Api;
use crate::cookie;
use crate::extract::{Caller, From, Json, Path};
use crate::problem::Failure;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use holdfast_auth::{Secret, Session};
use holdfast_base::{Error, ErrorKind};
use holdfast_drive::{Access, NodeKind, Shared};
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// First segments of the routes that a visitor may call.
pub(crate) const VISITED: [&str; 10] =
    ["nodes", "folders", "content", "thumbnails", "archive", "uploads", "move", "copy", "remove", "search"];

/// Somebody who opens a link.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenBody {
    /// The last part of the link's address.
    secret: String,
    /// The link's password, if it has one.
    #[serde(default)]
    password: Option<String>,
}

/// What a link leads to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LinkBody {
    /// Names it.
    id: String,
    /// Who made it.
    by: String,
    /// The note of whoever made it.
    label: String,
    /// Name of the file or folder.
    name: String,
    /// `file` or `folder`.
    #[schema(value_type = String)]
    kind: NodeKind,
    /// `read`, `write` or `upload`.
    #[schema(value_type = String)]
    access: Access,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    /// Downloads that are left, where there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    downloads_left: Option<u64>,
}

fn body(shared: Shared) -> Result<LinkBody, Failure> {
    let gone = || Error::forbidden("what this link led to is not there any more");
    let (path, kind) = shared.place.ok_or_else(gone)?;
    let share = shared.share;
    Ok(LinkBody {
        id: share.uid.to_string(),
        by: share.by_name,
        label: share.label,
        name: path.name().map_or(shared.space.name, |name| name.as_str().to_owned()),
        kind,
        access: share.access,
        expires_ms: share.expires_ms,
        downloads_left: share.downloads_max.map(|most| most.saturating_sub(share.downloads)),
    })
}

type WithCookie<T> = ([(HeaderName, HeaderValue); 1], T);

/// Open a link.
///
/// A secret that is not the link's is told nothing, and attempts are limited. With the right one, 401 means that a password is needed, or is wrong. A page
/// (`X-Requested-With: holdfast`) is told with 204 that a password is needed: its question is no error.
#[utoipa::path(post, path = "/links/{id}/session", tag = "links", params(("id" = String, Path)), request_body = OpenBody, security(()),
    responses((status = 200, body = LinkBody, headers(("set-cookie" = String, description = "the visit"))),
    (status = 204, description = "a page has to ask for the password"), Failures))]
pub(crate) async fn open(
    State(api): State<Api>,
    From(visitor): From,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(wanted): Json<OpenBody>,
) -> Result<Response, Failure> {
    let (id, password) = (share_id(&id)?, wanted.password.map(Secret::new));
    let secret = Secret::new(wanted.secret);
    let asks = password.is_none() && headers.get("x-requested-with").is_some_and(|value| value == "holdfast");
    let opened = match api.authenticator.open_link(id, &secret, password.as_ref(), Some(visitor.address)).await {
        Err(error) if asks && error.kind() == ErrorKind::Unauthenticated => {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        opened => opened?,
    };
    let cookie = cookie::set_link(visitor, id, &opened.secret)?;
    Ok(([(SET_COOKIE, cookie)], axum::Json(body(opened.shared)?)).into_response())
}

/// What does the link lead to that I have opened?
///
/// A page (`X-Requested-With: holdfast`) that has not opened it is told so with 204, anything else with 401.
#[utoipa::path(get, path = "/links/{id}/session", tag = "links", params(("id" = String, Path)),
    responses((status = 200, body = LinkBody), (status = 204, description = "a page has not opened it"), Failures))]
pub(crate) async fn show(
    State(api): State<Api>,
    caller: Option<axum::Extension<Arc<Session>>>,
    Path(_): Path<String>,
) -> Result<Response, Failure> {
    let Some(axum::Extension(visitor)) = caller else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    Ok(axum::Json(body(api.accounts.visited(&visitor).await?)?).into_response())
}

/// Close a link that I have opened.
#[utoipa::path(delete, path = "/links/{id}/session", tag = "links", params(("id" = String, Path)), responses(
    (status = 204, headers(("set-cookie" = String, description = "takes the cookie away"))), Failures))]
pub(crate) async fn close(
    State(api): State<Api>,
    From(visitor): From,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<WithCookie<StatusCode>, Failure> {
    api.accounts.end_visit(&caller.0).await?;
    Ok(([(SET_COOKIE, cookie::clear_link(visitor, share_id(&id)?)?)], StatusCode::NO_CONTENT))
}
