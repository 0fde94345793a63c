//! The caller: who they are, what they may see, their password.

use super::Failures;
use super::spaces::SpaceBody;
use crate::Api;
use crate::cookie::Visitor;
use crate::extract::{Caller, From, Json};
use crate::problem::Failure;
use axum::extract::State;
use holdfast_auth::{Secret, Session};
use holdfast_base::{Error, ErrorKind};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The caller.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MeBody {
    /// Sign-in name.
    name: String,
    /// Whether it administers the drive.
    admin: bool,
    /// Whether the credential used may only read.
    read_only: bool,
    /// The spaces the credential may see, the home first.
    spaces: Vec<SpaceBody>,
}

/// Who am I?
#[utoipa::path(get, path = "/me", tag = "me", responses((status = 200, body = MeBody), Failures))]
pub(crate) async fn show(State(api): State<Api>, caller: Caller) -> Result<axum::Json<MeBody>, Failure> {
    Ok(axum::Json(me(&api, &caller.0).await?))
}

/// What somebody is told of themselves.
pub(super) async fn me(api: &Api, who: &Session) -> Result<MeBody, Failure> {
    let spaces = api.drive.spaces(who).await?.into_iter().map(SpaceBody::from).collect();
    Ok(MeBody { name: who.name.clone(), admin: who.admin, read_only: who.scope.read_only, spaces })
}

/// A change of password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordBody {
    /// The password in use.
    current: String,
    /// The password from now on.
    new: String,
}

/// Change my password.
///
/// Needs the present password, not an app token. Every session but the one this request came from ends; app tokens and the recovery
/// code stay valid.
#[utoipa::path(put, path = "/me/password", tag = "me", request_body = PasswordBody, responses((status = 204), Failures))]
pub(crate) async fn change_password(
    State(api): State<Api>,
    From(visitor): From,
    caller: Caller,
    Json(body): Json<PasswordBody>,
) -> Result<StatusCode, Failure> {
    caller.0.require_full()?;
    confirm(&api, visitor, &caller, body.current).await?;
    api.accounts.change_password(&caller.0, Secret::new(body.new), caller.0.browser_session()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes sure that it is still the account's owner who asks: who found a browser signed in must not make themselves a way in.
pub(super) async fn confirm(api: &Api, visitor: Visitor, caller: &Caller, password: String) -> Result<(), Failure> {
    caller.0.require_full()?;
    // Attempts count: nobody is to guess the password at leisure.
    let checked = api.authenticator.check_password(&caller.0.name, &Secret::new(password), Some(visitor.address)).await;
    checked.map(|_| ()).map_err(|error| {
        // 401 would make a browser ask for the sign-in again.
        if error.kind() == ErrorKind::Unauthenticated {
            Error::forbidden("the current password is wrong").into()
        } else {
            error.into()
        }
    })
}
