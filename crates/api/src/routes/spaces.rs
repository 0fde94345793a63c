//! Spaces as their members see them.

use super::Failures;
use crate::Api;
use crate::extract::{Caller, Json, Path};
use crate::problem::Failure;
use axum::extract::State;
use holdfast_base::Error;
use holdfast_drive::{Compression, Role, SpaceView};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A space.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SpaceBody {
    /// Name.
    name: String,
    /// Whether it is the caller's home.
    home: bool,
    /// Who shared it, if it is a folder shared with the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_by: Option<String>,
    /// The caller's role: `reader`, `editor` or `owner`.
    #[schema(value_type = String)]
    role: Role,
    /// Bytes of all files, old versions and trash: what quota counts.
    used_bytes: u64,
    /// Part of it held by old versions.
    version_bytes: u64,
    /// Bytes reserved by uploads under way.
    reserved_bytes: u64,
    /// Bytes that can still be written; absent is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    available_bytes: Option<u64>,
    /// Plaintext bytes of the distinct blocks stored.
    stored_raw_bytes: u64,
    /// The same blocks as stored, sealed.
    stored_sealed_bytes: u64,
    /// Compression of new content: `none`, `lz4` or `zstd:LEVEL`.
    compression: String,
    /// Days that old versions and trash are kept; 0 keeps nothing.
    retention_days: u32,
    /// Old versions of one file at most; absent is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_versions_max: Option<u32>,
    /// Whether old versions thin out as they age.
    retention_thin: bool,
    /// Bytes of old versions and trash at most; absent is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_bytes_max: Option<u64>,
}

impl From<SpaceView> for SpaceBody {
    fn from(space: SpaceView) -> Self {
        Self {
            name: space.name,
            home: space.home,
            shared_by: space.shared_by,
            role: space.role,
            used_bytes: space.usage.used_bytes,
            version_bytes: space.usage.version_bytes,
            reserved_bytes: space.usage.reserved_bytes,
            available_bytes: space.available_bytes,
            stored_raw_bytes: space.usage.stored_raw_bytes,
            stored_sealed_bytes: space.usage.stored_sealed_bytes,
            compression: match space.compression {
                Compression::None => "none".into(),
                Compression::Lz4 => "lz4".into(),
                Compression::Zstd(level) => format!("zstd:{level}"),
            },
            retention_days: space.retention.days,
            retention_versions_max: space.retention.versions_max,
            retention_thin: space.retention.thin,
            retention_bytes_max: space.retention.bytes_max,
        }
    }
}

/// One space.
#[utoipa::path(get, path = "/spaces/{space}", tag = "spaces", params(("space" = String, Path)),
    responses((status = 200, body = SpaceBody), Failures))]
pub(crate) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Path(space): Path<String>,
) -> Result<axum::Json<SpaceBody>, Failure> {
    Ok(axum::Json(api.drive.space(&caller.0, &space).await?.into()))
}

/// A member of a space.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MemberBody {
    /// The account's name.
    account: String,
    /// Its role: `reader`, `editor` or `owner`.
    #[schema(value_type = String)]
    role: Role,
}

/// The members of a space, in name order.
#[utoipa::path(get, path = "/spaces/{space}/members", tag = "spaces", params(("space" = String, Path)),
    responses((status = 200, body = Vec<MemberBody>), Failures))]
pub(crate) async fn members(
    State(api): State<Api>,
    caller: Caller,
    Path(space): Path<String>,
) -> Result<axum::Json<Vec<MemberBody>>, Failure> {
    let members = api.accounts.members(&caller.0, &space).await?;
    let bodies = members.into_iter().map(|member| MemberBody { account: member.account_name, role: member.role });
    Ok(axum::Json(bodies.collect()))
}

/// What a member is to be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoleBody {
    /// `reader`, `editor` or `owner`.
    #[schema(value_type = String)]
    role: Role,
}

/// Make an account a member of a space, or give a member another role.
///
/// For owners. What somebody shared ends when they are no owner any more.
#[utoipa::path(put, path = "/spaces/{space}/members/{account}", tag = "spaces",
    params(("space" = String, Path), ("account" = String, Path)), request_body = RoleBody, responses((status = 204), Failures))]
pub(crate) async fn set_member(
    State(api): State<Api>,
    caller: Caller,
    Path((space, account)): Path<(String, String)>,
    Json(wanted): Json<RoleBody>,
) -> Result<StatusCode, Failure> {
    if account == holdfast_auth::SITES_ACCOUNT {
        return Err(Error::invalid("this account becomes a reader by publishing, and nothing else").into());
    }
    api.accounts.add_member(&caller.0, &space, &account, wanted.role).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove a member from a space. For owners, and for a member who leaves.
#[utoipa::path(delete, path = "/spaces/{space}/members/{account}", tag = "spaces",
    params(("space" = String, Path), ("account" = String, Path)), responses((status = 204), Failures))]
pub(crate) async fn remove_member(
    State(api): State<Api>,
    caller: Caller,
    Path((space, account)): Path<(String, String)>,
) -> Result<StatusCode, Failure> {
    api.accounts.remove_member(&caller.0, &space, &account).await?;
    Ok(StatusCode::NO_CONTENT)
}
