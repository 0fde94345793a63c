//! Small pictures of files that are pictures.
//!
//! Who may read a file may see it small. A picture has the entity tag of its file's content, so a client that has it is told so before anything is
//! read or drawn.

use super::Failures;
use super::nodes::end_of;
use crate::Api;
use crate::extract::{At, Caller, Query};
use crate::problem::{Failure, Problem};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use holdfast_auth::Session;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use holdfast_drive::{Location, Node, NodeKind, Walk};
use holdfast_http::{Pieces, TagList, header_text, safe_of_name, tag_list};
use holdfast_meta::Content;
use holdfast_thumbnail::{Answer, Asker, EDGES, Key, MEDIA_TYPE, SOURCE_BYTES_MAX, SOURCE_TYPES};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use std::fmt::Write;
use utoipa::IntoParams;

/// Seconds after which to ask again, of a client that came when all places were taken.
const RETRY_AFTER_S: u32 = 1;

/// How large.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Size {
    /// Longest edge in pixels: 256 (the default) or 1024. Smaller pictures stay as they are.
    size: Option<u32>,
    /// Any text: a page that knows the file's entity tag puts it here, so that another version has another address.
    #[serde(rename = "v")]
    _version: Option<String>,
}

/// Conditions.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "a description only: it is read by hand")]
pub(crate) struct ThumbnailHeaders {
    /// Nothing (304) if the picture is one of these.
    #[param(rename = "If-None-Match")]
    if_none_match: Option<String>,
}

/// A file as a small picture.
///
/// Of JPEG, PNG, GIF and WebP files of 32 MiB at most. 404 if there is no picture of the file: its type is another, or it cannot be drawn. 503 with
/// `Retry-After` if too many are being drawn.
#[utoipa::path(get, path = "/thumbnails/{space}/{path}", tag = "files",
    params(("space" = String, Path), ("path" = String, Path), Size, ThumbnailHeaders), responses(
    (status = 200, body = [u8], content_type = "image/jpeg"), (status = 304, description = "the client has it"), Failures))]
pub(crate) async fn show(
    State(api): State<Api>,
    caller: Caller,
    At(at): At,
    Query(wanted): Query<Size>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let edge = wanted.size.unwrap_or(EDGES[0]);
    if !EDGES.contains(&edge) {
        return Err(Error::invalid(format!("size is {} or {}", EDGES[0], EDGES[1])).into());
    }
    refuse_where_counted(&caller.0)?;
    let walk = api.drive.walk(&caller.0, &at).await?;
    let node = end_of(&walk, &at)?;
    let content = drawable(&api, node, &walk, &at)?;
    let key = Key { space: walk.space.uid, content: content.nonce, edge };
    let tag = entity_tag(&key);
    if has_it(&headers, &tag)? {
        return described(StatusCode::NOT_MODIFIED.into_response(), &tag);
    }
    let (size, drive) = (node.size, api.drive.clone());
    let open = || -> BoxFuture<'static, Result<Pieces>> {
        let (drive, who, walk) = (drive.clone(), caller.0.clone(), walk.clone());
        Box::pin(async move { drive.read(&who, &walk, ByteRange::whole(size)).await })
    };
    match api.thumbnails.get(asker(&caller.0), key, size, open).await? {
        Answer::Picture(picture) => {
            let mut response = described(picture.into_response(), &tag)?;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
            Ok(response)
        }
        Answer::None => Err(no_picture(&at).into()),
        Answer::Busy => {
            let detail = "too many thumbnails are being made; try again shortly".to_owned();
            let mut response = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into_response();
            response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_S.into());
            Ok(response)
        }
    }
}

/// In whose line it waits: visitors of a link share one.
fn asker(who: &Session) -> Asker {
    Asker { account: who.account.0, share: who.visit.as_ref().map_or(0, |visit| visit.share) }
}

/// Where downloads are counted a look would be one.
fn refuse_where_counted(who: &Session) -> Result<()> {
    match &who.visit {
        Some(visit) if visit.limited => {
            Err(Error::forbidden("downloads of this link are counted: it has no thumbnails"))
        }
        _ => Ok(()),
    }
}

/// The content of a file that is worth trying.
fn drawable<'a>(api: &Api, node: &Node, walk: &'a Walk, at: &Location) -> Result<&'a Content> {
    if node.kind != NodeKind::File {
        return Err(Error::new(ErrorKind::WrongKind, format!("{at} is a folder")));
    }
    let fits = SOURCE_TYPES.contains(&safe_of_name(&node.name)) && node.size <= SOURCE_BYTES_MAX;
    let content = walk.content.as_ref().filter(|_| fits && api.thumbnails.are_made());
    content.ok_or_else(|| no_picture(at))
}

fn no_picture(at: &Location) -> Error {
    Error::not_found(format!("there is no thumbnail of {at}"))
}

/// Of the content and the size.
fn entity_tag(key: &Key) -> String {
    let mut tag = key.content.iter().fold(String::from("\""), |mut tag, byte| {
        // Writing to a String cannot fail.
        let _ = write!(tag, "{byte:02x}");
        tag
    });
    let _ = write!(tag, "-{}\"", key.edge);
    tag
}

fn has_it(headers: &HeaderMap, tag: &str) -> Result<bool> {
    Ok(match header_text(headers, IF_NONE_MATCH)?.map(|text| tag_list(&text)).transpose()? {
        None => false,
        Some(TagList::Any) => true,
        Some(TagList::Tags(tags)) => tags.iter().any(|known| known.matches_weakly(tag)),
    })
}

fn described(mut response: Response, tag: &str) -> Result<Response, Failure> {
    let value = HeaderValue::try_from(tag).map_err(|error| Error::internal("an entity tag").with_source(error))?;
    let headers = response.headers_mut();
    headers.insert(ETAG, value);
    // A browser keeps it and asks whether it still may have it.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    Ok(response)
}
