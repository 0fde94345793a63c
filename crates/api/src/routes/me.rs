//! The caller: who they are, what they may see, their password.

use super::Failures;
use super::spaces::SpaceBody;
use crate::Api;
use crate::extract::{Caller, From, Json};
use crate::problem::Failure;
use axum::extract::State;
use holdfast_auth::{Credential, Secret, Session};
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
    // Attempts count: who found a browser signed in must not guess the password at leisure.
    let current = Credential::Basic { name: caller.0.name.clone(), secret: Secret::new(body.current) };
    let who = api.authenticator.sign_in(&current, Some(visitor.address)).await.map_err(|error| {
        // 401 would make a browser ask for the sign-in again.
        if error.kind() == holdfast_base::ErrorKind::Unauthenticated {
            holdfast_base::Error::forbidden("the current password is wrong")
        } else {
            error
        }
    })?;
    api.accounts.change_password(&who, Secret::new(body.new), caller.0.browser_session()).await?;
    Ok(StatusCode::NO_CONTENT)
}
