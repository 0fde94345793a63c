//! Old versions of a file.

use super::nodes::{NodeBody, body_of};
use super::{Failures, Refusals, location};
use crate::Api;
use crate::extract::{Caller, Json, Path, Query};
use crate::problem::Failure;
use axum::extract::State;
use holdfast_drive::{Conditions, Version};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// An old version.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionBody {
    /// Names the version.
    version: i64,
    /// Size.
    size_bytes: u64,
    /// Modification time it had.
    modified_ms: i64,
    /// When another version took its place.
    superseded_ms: i64,
}

impl From<Version> for VersionBody {
    fn from(version: Version) -> Self {
        Self {
            version: version.seq,
            size_bytes: version.size,
            modified_ms: version.modified_ms,
            superseded_ms: version.superseded_ms,
        }
    }
}

/// Which file.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    /// The file's path in its space.
    path: String,
}

/// Old versions of a file, newest first.
#[utoipa::path(get, path = "/spaces/{space}/versions", tag = "versions", params(("space" = String, Path), Which),
    responses((status = 200, body = Vec<VersionBody>), Failures))]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Path(space): Path<String>,
    Query(which): Query<Which>,
) -> Result<axum::Json<Vec<VersionBody>>, Failure> {
    let at = location(space, &which.path)?;
    let versions = api.drive.versions(&caller.0, &at).await?;
    Ok(axum::Json(versions.into_iter().map(Into::into).collect()))
}

/// A version to be restored.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreBody {
    /// The file's path in its space.
    path: String,
    /// The version.
    version: i64,
}

/// Make an old version the current one.
///
/// The present content becomes an old version itself, so nothing is lost.
#[utoipa::path(post, path = "/spaces/{space}/versions/restore", tag = "versions", params(("space" = String, Path)),
    request_body = RestoreBody, responses((status = 200, body = NodeBody), Failures, Refusals))]
pub(crate) async fn restore(
    State(api): State<Api>,
    caller: Caller,
    Path(space): Path<String>,
    Json(body): Json<RestoreBody>,
) -> Result<axum::Json<NodeBody>, Failure> {
    let at = location(space, &body.path)?;
    let node = api.drive.restore_version(&caller.0, &at, body.version, Conditions::default()).await?;
    Ok(axum::Json(body_of(&api, &caller.0, node).await?))
}
