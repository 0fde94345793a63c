//! Accounts, for administrators of the drive. An administrator sees names, flags and quotas; the keys stay with their owners.

use super::Failures;
use crate::Api;
use crate::extract::{Caller, Json, Path};
use crate::problem::Failure;
use axum::extract::State;
use holdfast_auth::{NewPerson, Secret};
use holdfast_base::Error;
use holdfast_base::name::check_account_name;
use holdfast_meta::audit::amend;
use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::HashMap;
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
    /// Bytes its spaces use, with what uploads have reserved.
    used_bytes: u64,
    /// When it was made.
    created_ms: i64,
}

fn body(account: holdfast_meta::Account, used_bytes: u64) -> AccountBody {
    AccountBody {
        name: account.name,
        admin: account.admin,
        disabled: account.disabled,
        quota_bytes: account.quota_bytes,
        used_bytes,
        created_ms: account.created_ms,
    }
}

/// All accounts, in name order.
#[utoipa::path(get, path = "/accounts", tag = "accounts", responses((status = 200, body = Vec<AccountBody>), Failures))]
pub(crate) async fn list(State(api): State<Api>, caller: Caller) -> Result<axum::Json<Vec<AccountBody>>, Failure> {
    caller.require_admin()?;
    let mut used: HashMap<i64, u64> = HashMap::new();
    for space in api.catalogue.all_spaces().await? {
        *used.entry(space.owner.0).or_default() += space.usage.used_bytes + space.usage.reserved_bytes;
    }
    let accounts = api.accounts.list().await?.into_iter();
    let bodies = accounts.map(|account| {
        let used_bytes = used.get(&account.id.0).copied().unwrap_or_default();
        body(account, used_bytes)
    });
    Ok(axum::Json(bodies.collect()))
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
    amend(|note| note.object.clone_from(&wanted.name));
    let person = NewPerson {
        name: wanted.name,
        password: wanted.password.map(Secret::new),
        admin: wanted.admin,
        quota_bytes: wanted.quota_bytes,
    };
    let created = api.accounts.create(person).await?;
    let answer = CreatedAccountBody {
        account: body(created.account, 0),
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

pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Wish<Option<u64>>, D::Error> {
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
    let wishes = (wanted.admin, wanted.disabled, &wanted.quota_bytes);
    amend(|note| note.detail = said(wishes.0, wishes.1, wishes.2));
    if let Some(admin) = wanted.admin {
        account = api.accounts.set_admin(&name, admin).await?;
    }
    if let Some(disabled) = wanted.disabled {
        account = if disabled { api.accounts.disable(&name).await? } else { api.accounts.enable(&name).await? };
    }
    if let Wish::Set(quota_bytes) = wanted.quota_bytes {
        account = api.accounts.set_quota(&name, quota_bytes).await?;
    }
    let used_bytes = api.catalogue.account_used_bytes(account.id).await?;
    Ok(axum::Json(body(account, used_bytes)))
}

/// A change in words, for the log.
fn said(admin: Option<bool>, disabled: Option<bool>, quota_bytes: &Wish<Option<u64>>) -> String {
    let mut words = Vec::new();
    words.extend(admin.map(|admin| format!("admin {admin}")));
    words.extend(disabled.map(|disabled| format!("disabled {disabled}")));
    match quota_bytes {
        Wish::Keep => {}
        Wish::Set(None) => words.push("quota unlimited".into()),
        Wish::Set(Some(bytes)) => words.push(format!("quota {bytes}")),
    }
    words.join(", ")
}

/// What became of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SignedOutBody {
    /// Sessions that ended.
    ended: usize,
}

/// End every session of an account, at once and everywhere. For administrators.
///
/// App tokens and the password stay: disable the account to shut it out.
#[utoipa::path(post, path = "/accounts/{name}/sign-out", tag = "accounts", params(("name" = String, Path)),
    responses((status = 200, body = SignedOutBody), Failures))]
pub(crate) async fn sign_out(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<axum::Json<SignedOutBody>, Failure> {
    caller.require_admin()?.require_full()?;
    check_account_name(&name)?;
    let account = api.accounts.get(&name).await?;
    let ended = api.accounts.end_sessions(account.id).await?;
    amend(|note| note.detail = format!("{ended} sessions"));
    Ok(axum::Json(SignedOutBody { ended }))
}
