//! Published sites.

use super::sites_bodies::{
    HistoryBody, PreviewBody, PreviewLinkBody, PublishBody, PublishedBody, RollBackBody, SettingsBody, SiteBody,
    SnapshotBody, UnpublishBody,
};
use super::{Failures, location};
use crate::extract::{Caller, Json, Path};
use crate::problem::Failure;
use crate::{Api, LIST_MAX};
use axum::extract::State;
use holdfast_meta::audit::carried;
use holdfast_site::Publication;
use http::StatusCode;

/// My sites, in order of name.
#[utoipa::path(get, path = "/sites", tag = "sites", responses((status = 200, body = Vec<SiteBody>), Failures))]
pub(crate) async fn list(State(api): State<Api>, caller: Caller) -> Result<axum::Json<Vec<SiteBody>>, Failure> {
    Ok(axum::Json(api.sites.list(&caller.0).await?.into_iter().map(Into::into).collect()))
}

/// One site.
#[utoipa::path(get, path = "/sites/{site}", tag = "sites", params(("site" = String, Path)),
    responses((status = 200, body = SiteBody), Failures))]
pub(crate) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Path(site): Path<String>,
) -> Result<axum::Json<SiteBody>, Failure> {
    Ok(axum::Json(api.sites.show(&caller.0, &site).await?.into()))
}

/// Change a site's settings.
#[utoipa::path(patch, path = "/sites/{site}", tag = "sites", params(("site" = String, Path)), request_body = SettingsBody,
    responses((status = 200, body = SiteBody), Failures))]
pub(crate) async fn set(
    State(api): State<Api>,
    caller: Caller,
    Path(site): Path<String>,
    Json(body): Json<SettingsBody>,
) -> Result<axum::Json<SiteBody>, Failure> {
    let change = body.change(&api).await?;
    Ok(axum::Json(api.sites.set(&caller.0, &site, change).await?.into()))
}

/// Remove a site with all its snapshots, for good.
#[utoipa::path(delete, path = "/sites/{site}", tag = "sites", params(("site" = String, Path)),
    responses((status = 204), Failures))]
pub(crate) async fn remove(
    State(api): State<Api>,
    caller: Caller,
    Path(site): Path<String>,
) -> Result<StatusCode, Failure> {
    api.sites.remove(&caller.0, &site).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Publish a folder.
///
/// A site that does not exist is made, and the caller owns it. Answers when the snapshot is stored and, unless asked otherwise,
/// live; composing and storing a large folder takes its time.
#[utoipa::path(post, path = "/sites/{site}/publish", tag = "sites", params(("site" = String, Path)),
    request_body = PublishBody, responses((status = 200, body = PublishedBody), Failures))]
pub(crate) async fn publish(
    State(api): State<Api>,
    caller: Caller,
    Path(site): Path<String>,
    Json(body): Json<PublishBody>,
) -> Result<axum::Json<PublishedBody>, Failure> {
    let PublishBody { space, path, note, at_ms, draft, check, settings } = body;
    let settings = settings.change(&api).await?;
    let publication = Publication { from: location(space, &path)?, site, note, at_ms, draft, check, settings };
    // In a task of its own: a client that goes away does not leave half of it.
    let (sites, who) = (api.sites.clone(), caller.0);
    let done = tokio::spawn(carried(async move { sites.publish(&who, publication).await })).await;
    let done = done.map_err(|error| holdfast_base::Error::internal("publishing failed").with_source(error))?;
    Ok(axum::Json(done?.into()))
}

/// What was done to a site, newest first.
#[utoipa::path(get, path = "/sites/{site}/history", tag = "sites", params(("site" = String, Path)),
    responses((status = 200, body = Vec<HistoryBody>), Failures))]
pub(crate) async fn history(
    State(api): State<Api>,
    caller: Caller,
    Path(site): Path<String>,
) -> Result<axum::Json<Vec<HistoryBody>>, Failure> {
    let entries = api.sites.history(&caller.0, &site, LIST_MAX).await?;
    Ok(axum::Json(entries.into_iter().map(Into::into).collect()))
}

/// A site's snapshots, newest first.
#[utoipa::path(get, path = "/sites/{site}/snapshots", tag = "sites", params(("site" = String, Path)),
    responses((status = 200, body = Vec<SnapshotBody>), Failures))]
pub(crate) async fn snapshots(
    State(api): State<Api>,
    caller: Caller,
    Path(site): Path<String>,
) -> Result<axum::Json<Vec<SnapshotBody>>, Failure> {
    Ok(axum::Json(api.sites.snapshots(&caller.0, &site).await?.into_iter().map(Into::into).collect()))
}

/// Make a snapshot live that was made before.
#[utoipa::path(post, path = "/sites/{site}/rollback", tag = "sites", params(("site" = String, Path)),
    request_body = RollBackBody, responses((status = 200, body = SiteBody), Failures))]
pub(crate) async fn roll_back(
    State(api): State<Api>,
    caller: Caller,
    Path(site): Path<String>,
    Json(body): Json<RollBackBody>,
) -> Result<axum::Json<SiteBody>, Failure> {
    let snapshot = body.snapshot.as_deref();
    Ok(axum::Json(api.sites.roll_back(&caller.0, &site, snapshot, body.at_ms, &body.note).await?.into()))
}

/// Take a site off; its snapshots stay.
#[utoipa::path(post, path = "/sites/{site}/unpublish", tag = "sites", params(("site" = String, Path)),
    request_body = UnpublishBody, responses((status = 200, body = SiteBody), Failures))]
pub(crate) async fn unpublish(
    State(api): State<Api>,
    caller: Caller,
    Path(site): Path<String>,
    Json(body): Json<UnpublishBody>,
) -> Result<axum::Json<SiteBody>, Failure> {
    Ok(axum::Json(api.sites.unpublish(&caller.0, &site, &body.note).await?.into()))
}

/// Make a link that shows a snapshot for a day to whoever has it.
#[utoipa::path(post, path = "/sites/{site}/preview", tag = "sites", params(("site" = String, Path)),
    request_body = PreviewBody, responses((status = 200, body = PreviewLinkBody), Failures))]
pub(crate) async fn preview(
    State(api): State<Api>,
    caller: Caller,
    Path(site): Path<String>,
    Json(body): Json<PreviewBody>,
) -> Result<axum::Json<PreviewLinkBody>, Failure> {
    let (url, ends_ms) = api.sites.preview(&caller.0, &site, body.snapshot.as_deref()).await?;
    Ok(axum::Json(PreviewLinkBody { url, ends_ms }))
}
