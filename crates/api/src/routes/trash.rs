//! The trash of a space.

use super::nodes::{NodeBody, body_of};
use super::{Failures, Refusals, location};
use crate::extract::{Caller, Json, Path, Query};
use crate::problem::Failure;
use crate::{Api, LIST_MAX};
use axum::extract::State;
use holdfast_drive::{NodeKind, TrashEntry};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Something in the trash.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TrashBody {
    /// Names the entry.
    entry: i64,
    /// `file` or `folder`.
    #[schema(value_type = String)]
    kind: NodeKind,
    /// The path it had.
    path: String,
    /// When it was deleted.
    deleted_ms: i64,
    /// Bytes in it, with old versions.
    size_bytes: u64,
    /// Files and folders in it.
    nodes: u64,
}

impl From<TrashEntry> for TrashBody {
    fn from(entry: TrashEntry) -> Self {
        Self {
            entry: entry.id,
            kind: entry.kind,
            path: entry.path,
            deleted_ms: entry.deleted_ms,
            size_bytes: entry.bytes,
            nodes: entry.nodes,
        }
    }
}

/// Where a listing begins and how long it is.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// Only entries older than this one: the last of the page before.
    before: Option<i64>,
    /// Entries at most; 1,000 is the most.
    limit: Option<usize>,
}

/// What is in the trash, newest first.
#[utoipa::path(get, path = "/spaces/{space}/trash", tag = "trash", params(("space" = String, Path), Page),
    responses((status = 200, body = Vec<TrashBody>), Failures))]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Path(space): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<Vec<TrashBody>>, Failure> {
    let limit = page.limit.unwrap_or(LIST_MAX).clamp(1, LIST_MAX);
    let entries = api.drive.trash(&caller.0, &space, page.before, limit).await?;
    Ok(axum::Json(entries.into_iter().map(Into::into).collect()))
}

/// What was removed for good.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PurgedBody {
    /// Bytes that no longer count against the quota.
    freed_bytes: u64,
}

/// Empty the trash for good. For owners.
#[utoipa::path(delete, path = "/spaces/{space}/trash", tag = "trash", params(("space" = String, Path)),
    responses((status = 200, body = PurgedBody), Failures))]
pub(crate) async fn empty(
    State(api): State<Api>,
    caller: Caller,
    Path(space): Path<String>,
) -> Result<axum::Json<PurgedBody>, Failure> {
    let freed_bytes = api.drive.purge_trash(&caller.0, &space, None).await?;
    Ok(axum::Json(PurgedBody { freed_bytes }))
}

/// Remove one entry for good. For owners.
#[utoipa::path(delete, path = "/spaces/{space}/trash/{entry}", tag = "trash",
    params(("space" = String, Path), ("entry" = i64, Path)), responses((status = 200, body = PurgedBody), Failures))]
pub(crate) async fn remove(
    State(api): State<Api>,
    caller: Caller,
    Path((space, entry)): Path<(String, i64)>,
) -> Result<axum::Json<PurgedBody>, Failure> {
    let freed_bytes = api.drive.purge_trash(&caller.0, &space, Some(entry)).await?;
    Ok(axum::Json(PurgedBody { freed_bytes }))
}

/// Where an entry goes.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreTrashBody {
    /// Path in the same space; absent is where it was.
    #[serde(default)]
    to: Option<String>,
}

/// Put an entry back.
#[utoipa::path(post, path = "/spaces/{space}/trash/{entry}", tag = "trash",
    params(("space" = String, Path), ("entry" = i64, Path)), request_body = RestoreTrashBody,
    responses((status = 200, body = NodeBody), Failures, Refusals))]
pub(crate) async fn restore(
    State(api): State<Api>,
    caller: Caller,
    Path((space, entry)): Path<(String, i64)>,
    Json(body): Json<RestoreTrashBody>,
) -> Result<axum::Json<NodeBody>, Failure> {
    let to = body.to.as_deref().map(|path| location(space.clone(), path)).transpose()?;
    let node = api.drive.restore_trash(&caller.0, &space, entry, to.as_ref()).await?;
    Ok(axum::Json(body_of(&api, &caller.0, node).await?))
}
