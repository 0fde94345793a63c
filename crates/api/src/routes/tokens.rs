//! The caller's app tokens.

use super::Failures;
use crate::Api;
use crate::extract::{Caller, Json, Path};
use crate::problem::Failure;
use axum::extract::State;
use holdfast_auth::NewToken;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An app token, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenBody {
    /// Names it.
    id: i64,
    /// What its owner calls it.
    label: String,
    /// Only reading.
    read_only: bool,
    /// Only this space; absent is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<String>,
    /// When it was made.
    created_ms: i64,
    /// When it was last used, to the hour or so.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_ms: Option<i64>,
    /// When it stops working; absent is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
}

/// My app tokens, oldest first.
#[utoipa::path(get, path = "/tokens", tag = "tokens", responses((status = 200, body = Vec<TokenBody>), Failures))]
pub(crate) async fn list(State(api): State<Api>, caller: Caller) -> Result<axum::Json<Vec<TokenBody>>, Failure> {
    let slots = api.accounts.list_tokens(caller.0.account).await?;
    let spaces = api.drive.spaces(&caller.0).await?;
    let name_of = |id| spaces.iter().find(|space| space.root.space == id).map(|space| space.name.clone());
    let bodies = slots.into_iter().map(|slot| TokenBody {
        id: slot.id,
        label: slot.label,
        read_only: slot.read_only,
        // A space one is no longer a member of has no name to show.
        space: slot.space.map(|id| name_of(id).unwrap_or_default()),
        created_ms: slot.created_ms,
        used_ms: slot.used_ms,
        expires_ms: slot.expires_ms,
    });
    Ok(axum::Json(bodies.collect()))
}

/// A token to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTokenBody {
    /// What to call it.
    label: String,
    /// Only reading.
    #[serde(default)]
    read_only: bool,
    /// Only this space.
    #[serde(default)]
    space: Option<String>,
    /// When it stops working; absent is never.
    #[serde(default)]
    expires_ms: Option<i64>,
}

/// A token just made.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedTokenBody {
    /// Names it.
    id: i64,
    /// The secret, shown this once.
    token: String,
}

/// Make an app token.
///
/// Needs the password, not another token.
#[utoipa::path(post, path = "/tokens", tag = "tokens", request_body = NewTokenBody,
    responses((status = 201, body = CreatedTokenBody), Failures))]
pub(crate) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Json(body): Json<NewTokenBody>,
) -> Result<(StatusCode, axum::Json<CreatedTokenBody>), Failure> {
    let space = match body.space {
        Some(name) => Some(api.drive.space(&caller.0, &name).await?.root.space),
        None => None,
    };
    let new = NewToken { label: body.label, read_only: body.read_only, space, expires_ms: body.expires_ms };
    let created = api.accounts.create_token(&caller.0, new).await?;
    let body = CreatedTokenBody { id: created.slot.id, token: created.token.expose().to_owned() };
    Ok((StatusCode::CREATED, axum::Json(body)))
}

/// Revoke an app token, at once and everywhere.
///
/// Needs the password: a lost device must not be able to shut the others out.
#[utoipa::path(delete, path = "/tokens/{id}", tag = "tokens", params(("id" = i64, Path)),
    responses((status = 204), Failures))]
pub(crate) async fn revoke(State(api): State<Api>, caller: Caller, Path(id): Path<i64>) -> Result<StatusCode, Failure> {
    caller.0.require_full()?;
    api.accounts.revoke_token(caller.0.account, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
