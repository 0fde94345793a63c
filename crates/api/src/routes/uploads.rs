//! Resumable uploads: tus 1.0 with creation, creation-with-upload, checksum, expiration and termination.
//!
//! `Upload-Metadata` says what the upload is to become: `space` (the caller's home if absent), `path`, `modified_ms`, `conflict` (`fail`,
//! `replace`, `keep-both`: if the name is taken when the last byte comes), `if_match` (the entity tag of the version to be replaced,
//! and of no other) and `tags` (one a line: the file has them as soon as it is there). A client that knows nothing of this and sends a `filename` has it put into the folder `path`.
//!
//! Bodies are streamed to the drive as they come, and first asked for when everything that can be known before has been looked at.

use super::uploads_headers::{CreationHeaders, OverrideHeader, PartHeaders, TusHeaders, TusRefusals, TusVersion};
use super::{Failures, Refusals, location};
use crate::Api;
use crate::extract::{Caller, Json, Path};
use crate::problem::Failure;
use crate::tus::{self, Metadata};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use holdfast_auth::Session;
use holdfast_base::{Error, ErrorKind, NodeName, Uid};
use holdfast_drive::{ContentStream, Location, NameTaken, Tag, UploadPart, UploadRequest, UploadView, entity_tag};
use holdfast_http::EntityTag;
use http::header::LOCATION;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

const METHOD_OVERRIDE: HeaderName = HeaderName::from_static("x-http-method-override");

/// An upload.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UploadBody {
    /// Names it.
    id: String,
    /// Into which space.
    space: String,
    /// What it is to become, or has.
    path: String,
    /// Bytes it is to have.
    length_bytes: u64,
    /// Bytes it has, durably; all of them when the file is there, and not before.
    offset_bytes: u64,
    /// All bytes are here and the file could not be made: finish it with another rule, or give it up.
    waits: bool,
    /// If the name is taken.
    #[schema(value_type = String)]
    conflict: NameTaken,
    /// When it began.
    created_ms: i64,
    /// When it is given up, unless it goes on.
    expires_ms: i64,
    /// The entity tag of the file it became.
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
}

impl From<UploadView> for UploadBody {
    fn from(view: UploadView) -> Self {
        Self {
            id: view.id.to_string(),
            space: view.at.space,
            path: view.at.path.to_string(),
            length_bytes: view.length,
            offset_bytes: view.offset,
            waits: view.waits,
            conflict: view.name_taken,
            created_ms: view.created_ms,
            expires_ms: view.expires_ms,
            etag: view.node.map(|(node, seq)| entity_tag(node, seq)),
        }
    }
}

/// My unfinished uploads, oldest first.
#[utoipa::path(get, path = "/uploads", tag = "uploads", responses((status = 200, body = Vec<UploadBody>), Failures))]
pub(crate) async fn list(State(api): State<Api>, caller: Caller) -> Result<axum::Json<Vec<UploadBody>>, Failure> {
    let uploads = api.drive.uploads(&caller.0).await?;
    Ok(axum::Json(uploads.into_iter().map(Into::into).collect()))
}

/// What uploads can do here (tus).
#[utoipa::path(options, path = "/uploads", tag = "uploads", responses((status = 204, description = "Tus-… headers"), Failures))]
pub(crate) async fn options(_caller: Caller) -> Response {
    tus::capabilities()
}

/// Begin an upload (tus), with its first part if there is a body.
#[utoipa::path(post, path = "/uploads", tag = "uploads", params(TusHeaders, CreationHeaders),
    request_body(content = [u8], content_type = "application/offset+octet-stream", description = "the first part, or nothing"),
    responses((status = 201, description = "Location names the upload"), Failures, Refusals, TusRefusals))]
pub(crate) async fn create(State(api): State<Api>, caller: Caller, headers: HeaderMap, body: Body) -> Response {
    tus::speak(&headers, begin(&api, &caller.0, &headers, body)).await
}

async fn begin(api: &Api, who: &Session, headers: &HeaderMap, body: Body) -> Result<Response, Failure> {
    let length = tus::upload_length(headers)?;
    let digest = tus::upload_checksum(headers)?;
    let part = UploadPart { offset: 0, length: tus::content_length(headers)?, digest };
    let has_part = tus::has_part(headers)? && part.length != Some(0);
    let view = api.drive.begin_upload(who, wanted(api, who, headers, length).await?).await?;
    let address = format!("{}/uploads/{}", crate::PREFIX, view.id);
    let continued = if has_part && view.node.is_none() {
        api.drive.continue_upload(who, view.id, part, content(body)).await
    } else {
        Ok(view)
    };
    let mut response = match continued {
        Ok(view) => {
            let mut response = StatusCode::CREATED.into_response();
            tus::describe(&mut response, &view);
            response
        }
        Err(error) => tus::failed(Failure(error)),
    };
    // Also with an error: the upload is there, and may go on.
    if let Ok(address) = HeaderValue::try_from(address) {
        response.headers_mut().insert(LOCATION, address);
    }
    Ok(response)
}

/// What the metadata says the upload is to become.
async fn wanted(api: &Api, who: &Session, headers: &HeaderMap, length: u64) -> Result<UploadRequest, Failure> {
    let metadata = Metadata::read(headers)?;
    let space = match metadata.get("space") {
        Some(space) => space.to_owned(),
        None => home(api, who).await?,
    };
    let mut at = location(space, metadata.get("path").unwrap_or_default())?;
    if let Some(name) = metadata.get("filename") {
        at.path = at.path.join(NodeName::new(name)?)?;
    }
    let modified_ms = metadata.get("modified_ms").map(str::parse).transpose();
    let modified_ms = modified_ms.map_err(|_| Error::invalid("modified_ms is a number of milliseconds since 1970"))?;
    let if_match = metadata.get("if_match");
    let name_taken = match (metadata.get("conflict"), if_match) {
        (Some("replace"), _) | (None, Some(_)) => NameTaken::Replace,
        (Some("fail") | None, None) => NameTaken::Fail,
        (Some("keep-both"), None) => NameTaken::KeepBoth,
        (Some("fail" | "keep-both"), Some(_)) => {
            return Err(Error::invalid("if_match goes with conflict replace").into());
        }
        (Some(_), _) => return Err(Error::invalid("conflict is fail, replace or keep-both").into()),
    };
    let expect_seq = match if_match {
        Some(tag) => Some(expected(api, who, &at, tag).await?),
        None => None,
    };
    let tags = metadata.get("tags").unwrap_or_default().lines().map(Tag::new).collect::<Result<_, _>>()?;
    Ok(UploadRequest { at, length, name_taken, expect_seq, modified_ms, metadata: metadata.text, tags })
}

/// The space that clients mean who name none.
async fn home(api: &Api, who: &Session) -> Result<String, Failure> {
    let spaces = api.drive.spaces(who).await?;
    let first = spaces.into_iter().next().map(|space| space.name);
    Ok(first.ok_or_else(|| Error::not_found("this credential may see no space"))?)
}

/// The version that has this entity tag, which must be the present one.
async fn expected(api: &Api, who: &Session, at: &Location, tag: &str) -> Result<i64, Failure> {
    let walk = api.drive.walk(who, at).await?;
    let (tag, rest) = EntityTag::read(tag.trim())?;
    let node = walk.node().filter(|node| rest.is_empty() && tag.matches_strongly(&node.entity_tag()));
    let changed = || Error::new(ErrorKind::PreconditionFailed, format!("{at} is not the version of if_match any more"));
    Ok(node.ok_or_else(changed)?.seq)
}

fn named(id: &str) -> Result<Uid, Failure> {
    Ok(id.parse().map_err(|_| Error::not_found("there is no such upload"))?)
}

/// One upload.
#[utoipa::path(get, path = "/uploads/{id}", tag = "uploads", params(("id" = String, Path)),
    responses((status = 200, body = UploadBody), Failures))]
pub(crate) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<UploadBody>, Failure> {
    Ok(axum::Json(api.drive.upload(&caller.0, named(&id)?).await?.into()))
}

/// Where an upload stands (tus).
#[utoipa::path(head, path = "/uploads/{id}", tag = "uploads", params(("id" = String, Path), TusHeaders),
    responses((status = 200, description = "Upload-Offset says where"), Failures, TusVersion))]
pub(crate) async fn stands(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    tus::speak(&headers, async {
        let view = api.drive.upload(&caller.0, named(&id)?).await?;
        let mut response = StatusCode::OK.into_response();
        tus::describe(&mut response, &view);
        Ok(response)
    })
    .await
}

/// Send the next part (tus). The last one makes the file: its entity tag is the file's.
#[utoipa::path(patch, path = "/uploads/{id}", tag = "uploads", params(("id" = String, Path), TusHeaders, PartHeaders),
    request_body(content = [u8], content_type = "application/offset+octet-stream", description = "the bytes from Upload-Offset on"),
    responses((status = 204, description = "Upload-Offset says where it stands now"), Failures, Refusals, TusRefusals))]
pub(crate) async fn go_on(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    tus::speak(&headers, take_part(&api, &caller.0, &id, &headers, body)).await
}

async fn take_part(api: &Api, who: &Session, id: &str, headers: &HeaderMap, body: Body) -> Result<Response, Failure> {
    if let Some(refusal) = tus::require_part(headers) {
        return Ok(refusal);
    }
    let part = UploadPart {
        offset: tus::upload_offset(headers)?,
        length: tus::content_length(headers)?,
        digest: tus::upload_checksum(headers)?,
    };
    let view = api.drive.continue_upload(who, named(id)?, part, content(body)).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    tus::describe(&mut response, &view);
    Ok(response)
}

/// Give an upload up (tus).
#[utoipa::path(delete, path = "/uploads/{id}", tag = "uploads", params(("id" = String, Path), TusHeaders),
    responses((status = 204, description = "it is gone"), Failures, TusVersion))]
pub(crate) async fn give_up(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    tus::speak(&headers, end(&api, &caller.0, &id)).await
}

async fn end(api: &Api, who: &Session, id: &str) -> Result<Response, Failure> {
    api.drive.abandon_upload(who, named(id)?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The same as PATCH, DELETE or HEAD (tus), for who cannot send those: `X-HTTP-Method-Override` names it.
#[utoipa::path(post, path = "/uploads/{id}", tag = "uploads", params(("id" = String, Path), OverrideHeader, TusHeaders, PartHeaders),
    request_body(content = [u8], content_type = "application/offset+octet-stream", description = "as PATCH has it, or nothing"),
    responses((status = 200, description = "as HEAD has it"), (status = 204, description = "as PATCH and DELETE have it"),
    Failures, Refusals, TusRefusals))]
pub(crate) async fn overridden(
    state: State<Api>,
    caller: Caller,
    id: Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match headers.get(METHOD_OVERRIDE).map(HeaderValue::as_bytes) {
        Some(b"PATCH") => go_on(state, caller, id, headers, body).await,
        Some(b"DELETE") => give_up(state, caller, id, headers).await,
        Some(b"HEAD") => stands(state, caller, id, headers).await,
        _ => Failure(Error::invalid("X-HTTP-Method-Override is PATCH, DELETE or HEAD")).into_response(),
    }
}

/// How to finish an upload that waits.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinishBody {
    /// `fail`, `replace` or `keep-both`; absent is as it was begun. Given, it also stands for `if_match`.
    #[schema(value_type = Option<String>)]
    conflict: Option<NameTaken>,
}

/// Make the file of an upload that has all its bytes and was refused for its name.
#[utoipa::path(post, path = "/uploads/{id}/finish", tag = "uploads", params(("id" = String, Path)),
    request_body = FinishBody, responses((status = 200, body = UploadBody), Failures, Refusals))]
pub(crate) async fn finish(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<FinishBody>,
) -> Result<axum::Json<UploadBody>, Failure> {
    let view = api.drive.finish_upload(&caller.0, named(&id)?, body.conflict).await?;
    Ok(axum::Json(view.into()))
}

/// A body as the drive takes it.
fn content(body: Body) -> ContentStream {
    // One that broke off is the client's doing, unless whoever made the body says otherwise in our own terms (a time-out).
    let failed = |error: axum::Error| match error.into_inner().downcast::<Error>() {
        Ok(error) => *error,
        Err(error) => Error::invalid("the request body broke off before its end").with_source(error),
    };
    body.into_data_stream().map(move |piece| piece.map_err(failed)).boxed()
}
