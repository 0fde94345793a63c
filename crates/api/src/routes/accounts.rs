//! Accounts, for administrators of the drive. An administrator sees names, flags and quotas; the keys stay with their owners.

use super::Failures;
use crate::Api;
use crate::extract::{Caller, Json, Path};
use crate::problem::Failure;
use axum::extract::State;
use holdfast_auth::{NewPerson, Secret};
use holdfast_base::Error;
use holdfast_base::name::check_account_name;
use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// An account.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AccountBody {
    /// Sign-in name.
    name: String,
    /// Whether it administers the drive.
    admin: bool,
    /// Whether it may not sign in.
    disabled: bool,
    /// Bytes its spaces may use together; absent is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota_bytes: Option<u64>,
    /// When it was made.
    created_ms: i64,
}

fn body(account: holdfast_meta::Account) -> AccountBody {
    AccountBody {
        name: account.name,
        admin: account.admin,
        disabled: account.disabled,
        quota_bytes: account.quota_bytes,
        created_ms: account.created_ms,
    }
}

/// All accounts, in name order.
#[utoipa::path(get, path = "/accounts", tag = "accounts", responses((status = 200, body = Vec<AccountBody>), Failures))]
pub(crate) async fn list(State(api): State<Api>, caller: Caller) -> Result<axum::Json<Vec<AccountBody>>, Failure> {
    caller.require_admin()?;
    Ok(axum::Json(api.accounts.list().await?.into_iter().map(body).collect()))
}

/// An account to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAccountBody {
    /// Sign-in name, and the home space's name.
    name: String,
    /// Its password; absent makes one up.
    #[serde(default)]
    password: Option<String>,
    /// Whether it administers the drive.
    #[serde(default)]
    admin: bool,
    /// Bytes its spaces may use together; absent is unlimited.
    #[serde(default)]
    quota_bytes: Option<u64>,
}

/// An account just made.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedAccountBody {
    /// The account.
    account: AccountBody,
    /// The password, if it was made up: shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<String>,
    /// The recovery code: shown this once. Without it, a forgotten password means lost content.
    recovery_code: String,
}

/// Make an account.
#[utoipa::path(post, path = "/accounts", tag = "accounts", request_body = NewAccountBody,
    responses((status = 201, body = CreatedAccountBody), Failures))]
pub(crate) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Json(wanted): Json<NewAccountBody>,
) -> Result<(StatusCode, axum::Json<CreatedAccountBody>), Failure> {
    caller.require_admin()?.require_full()?;
    let person = NewPerson {
        name: wanted.name,
        password: wanted.password.map(Secret::new),
        admin: wanted.admin,
        quota_bytes: wanted.quota_bytes,
    };
    let created = api.accounts.create(person).await?;
    let answer = CreatedAccountBody {
        account: body(created.account),
        password: created.generated_password.map(|password| password.expose().to_owned()),
        recovery_code: created.recovery_code.expose().to_owned(),
    };
    Ok((StatusCode::CREATED, axum::Json(answer)))
}

/// Changes of an account; absent leaves things as they are.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccountChangeBody {
    /// Whether it administers the drive.
    #[serde(default)]
    admin: Option<bool>,
    /// Whether it may not sign in.
    #[serde(default)]
    disabled: Option<bool>,
    /// Bytes its spaces may use together; null is unlimited.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    quota_bytes: Wish<Option<u64>>,
}

/// A field that may be absent, which leaves things as they are; null is a value of its own.
#[derive(Default)]
pub(crate) enum Wish<T> {
    /// Absent.
    #[default]
    Keep,
    /// Given.
    Set(T),
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Wish<Option<u64>>, D::Error> {
    Option::<u64>::deserialize(deserializer).map(Wish::Set)
}

/// Remove an account's second factors and passkeys, for somebody who lost theirs.
///
/// It opens nothing: the password is needed as before.
#[utoipa::path(delete, path = "/accounts/{name}/factors", tag = "accounts", params(("name" = String, Path)),
    responses((status = 204), Failures))]
pub(crate) async fn reset_factors(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Failure> {
    caller.require_admin()?.require_full()?;
    check_account_name(&name)?;
    api.accounts.reset_factors(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Change an account's flags or quota.
#[utoipa::path(patch, path = "/accounts/{name}", tag = "accounts", params(("name" = String, Path)),
    request_body = AccountChangeBody, responses((status = 200, body = AccountBody), Failures))]
pub(crate) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    Json(wanted): Json<AccountChangeBody>,
) -> Result<axum::Json<AccountBody>, Failure> {
    let who = caller.require_admin()?;
    who.require_full()?;
    check_account_name(&name)?;
    if name == who.name && (wanted.disabled == Some(true) || wanted.admin == Some(false)) {
        return Err(Error::conflict("an administrator cannot shut themselves out: another one has to do it").into());
    }
    let mut account = api.accounts.get(&name).await?;
    if let Some(admin) = wanted.admin {
        account = api.accounts.set_admin(&name, admin).await?;
    }
    if let Some(disabled) = wanted.disabled {
        account = if disabled { api.accounts.disable(&name).await? } else { api.accounts.enable(&name).await? };
    }
    if let Wish::Set(quota_bytes) = wanted.quota_bytes {
        account = api.accounts.set_quota(&name, quota_bytes).await?;
    }
    Ok(axum::Json(body(account)))
}
