//! Spaces, as who looks after the drive sees them: what they take, and their bounds; not what is in them.

use crate::Api;
use crate::extract::{Caller, Json, Path};
use crate::problem::Failure;
use crate::routes::Failures;
use crate::routes::accounts::{Wish, present};
use axum::extract::State;
use holdfast_base::Error;
use holdfast_drive::Role;
use holdfast_meta::audit::amend;
use holdfast_meta::{Account, Retention, Space, SpaceChange};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use utoipa::ToSchema;

/// Longest retention: a century.
const DAYS_MAX: u32 = 36_525;

/// A space.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AdminSpaceBody {
    /// Its name.
    name: String,
    /// The account it counts against.
    owner: String,
    /// Whether it is that account's home.
    home: bool,
    /// Bytes of all files, old versions and trash.
    used_bytes: u64,
    /// Part of it held by old versions.
    version_bytes: u64,
    /// Bytes it may use; absent is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota_bytes: Option<u64>,
    /// Days that old versions and trash are kept.
    retention_days: u32,
    /// Old versions of one file at most; absent is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_versions_max: Option<u32>,
    /// Whether old versions thin out as they age.
    retention_thin: bool,
    /// Its members.
    members: Vec<AdminMemberBody>,
    /// When it was made.
    created_ms: i64,
}

/// A member.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AdminMemberBody {
    /// The account.
    account: String,
    /// Its role: `reader`, `editor` or `owner`.
    #[schema(value_type = String)]
    role: Role,
}

/// All spaces with their members, in name order. For administrators.
///
/// Members are added and removed by the owners of a space: adding one takes the space's key, which an administrator does not have.
#[utoipa::path(get, path = "/admin/spaces", tag = "administration", responses((status = 200, body = Vec<AdminSpaceBody>), Failures))]
pub(crate) async fn list(State(api): State<Api>, caller: Caller) -> Result<axum::Json<Vec<AdminSpaceBody>>, Failure> {
    caller.require_admin()?;
    let names = names(api.accounts.list().await?);
    let mut bodies = Vec::new();
    for space in api.catalogue.all_spaces().await? {
        bodies.push(body(&api, &names, space).await?);
    }
    Ok(axum::Json(bodies))
}

fn names(accounts: Vec<Account>) -> HashMap<i64, String> {
    accounts.into_iter().map(|account| (account.id.0, account.name)).collect()
}

async fn body(api: &Api, names: &HashMap<i64, String>, space: Space) -> Result<AdminSpaceBody, Error> {
    let members = api.catalogue.members(space.id).await?;
    let members = members.into_iter().map(|member| AdminMemberBody { account: member.account_name, role: member.role });
    Ok(AdminSpaceBody {
        owner: names.get(&space.owner.0).cloned().unwrap_or_default(),
        home: space.home,
        used_bytes: space.usage.used_bytes,
        version_bytes: space.usage.version_bytes,
        quota_bytes: space.quota_bytes,
        retention_days: space.retention.days,
        retention_versions_max: space.retention.versions_max,
        retention_thin: space.retention.thin,
        members: members.collect(),
        created_ms: space.created_ms,
        name: space.name,
    })
}

/// A space about to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSpaceBody {
    /// Its name, in URLs too.
    name: String,
    /// The account that owns it and whose quota it counts against; absent is the caller.
    #[serde(default)]
    owner: Option<String>,
    /// Bytes it may use; absent is unlimited.
    #[serde(default)]
    quota_bytes: Option<u64>,
}

/// Make a group space. For administrators.
///
/// Its key is for its owner alone: an administrator who makes a space for somebody else sees nothing of it. The owner adds members.
#[utoipa::path(post, path = "/admin/spaces", tag = "administration", request_body = NewSpaceBody,
    responses((status = 201, body = AdminSpaceBody), Failures))]
pub(crate) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Json(wanted): Json<NewSpaceBody>,
) -> Result<(StatusCode, axum::Json<AdminSpaceBody>), Failure> {
    let who = caller.require_admin()?;
    who.require_full()?;
    amend(|note| wanted.name.clone_into(&mut note.object));
    let space = match wanted.owner.as_deref().filter(|owner| *owner != who.name) {
        None => api.accounts.create_space(who, &wanted.name, wanted.quota_bytes).await?,
        Some(owner) => api.accounts.create_space_for(owner, &wanted.name, wanted.quota_bytes).await?,
    };
    let names = names(api.accounts.list().await?);
    Ok((StatusCode::CREATED, axum::Json(body(&api, &names, space).await?)))
}

/// Changes of a space; absent leaves things as they are.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdminSpaceChangeBody {
    /// Bytes it may use; null is unlimited.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    quota_bytes: Wish<Option<u64>>,
    /// Days that old versions and trash are kept; 0 keeps nothing.
    #[serde(default)]
    retention_days: Option<u32>,
}

/// Change a space's bounds. For administrators.
#[utoipa::path(patch, path = "/admin/spaces/{space}", tag = "administration", params(("space" = String, Path)),
    request_body = AdminSpaceChangeBody, responses((status = 200, body = AdminSpaceBody), Failures))]
pub(crate) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    Json(wanted): Json<AdminSpaceChangeBody>,
) -> Result<axum::Json<AdminSpaceBody>, Failure> {
    let who = caller.require_admin()?;
    who.require_full()?;
    let found = if name.contains('\0') { None } else { api.catalogue.space_by_name(&name, who.account).await? };
    let (space, _) = found.ok_or_else(|| Error::not_found(format!("there is no space {name:?}")))?;
    if wanted.retention_days.is_some_and(|days| days > DAYS_MAX) {
        return Err(Error::invalid(format!("retention_days is {DAYS_MAX} at most")).into());
    }
    let retention = wanted.retention_days.map(|days| Retention { days, ..space.retention });
    let quota_bytes = match wanted.quota_bytes {
        Wish::Keep => None,
        Wish::Set(quota) => Some(quota),
    };
    let change = SpaceChange { retention, quota_bytes, ..SpaceChange::default() };
    amend(|note| note.detail = said(&change));
    let space = api.catalogue.change_space(space.id, change).await?;
    let names = names(api.accounts.list().await?);
    Ok(axum::Json(body(&api, &names, space).await?))
}

/// A change in words, for the log.
fn said(change: &SpaceChange) -> String {
    let quota = |bytes: Option<u64>| bytes.map_or_else(|| "quota unlimited".into(), |bytes| format!("quota {bytes}"));
    let kept = change.retention.map(|retention| format!("{} days kept", retention.days));
    let words = [change.quota_bytes.map(quota), kept];
    words.into_iter().flatten().collect::<Vec<String>>().join(", ")
}
