//! The bytes of a file: read whole or in part, and written whole.
//!
//! These answers are of the origin of the drive's own pages, so what a member uploaded must not act as one of them: its type is made
//! safe ([`safe_of_name`]), browsers are told not to guess another, and should one open it as a document all the same, it is in a
//! sandbox that may load and run nothing.

use super::nodes::{NodeBody, body_of, end_of};
use super::{Failures, Refusals};
use crate::Api;
use crate::extract::{At, Caller, Query};
use crate::problem::{Failure, Problem};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{Error, ErrorKind};
use holdfast_drive::{Conditions, Expect, Location, Node, NodeKind, TAGS_MAX, Tag, WriteOptions};
use holdfast_http::{FileAnswer, Pieces, TagList, attachment, header_text, incoming, safe_of_name, tag_list};
use http::header::{
    CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, ETAG, IF_MATCH,
    IF_NONE_MATCH,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

/// Which content, and what for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    /// An old version; absent is the present one.
    version: Option<i64>,
    /// If it is there, whatever its value: to be saved under the file's name instead of shown.
    download: Option<String>,
}

/// How a file is written.
#[derive(Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct How {
    /// Its modification time; absent is now.
    modified_ms: Option<i64>,
    /// A tag that is added to it in the same step; may come several times.
    #[param(value_type = Option<Vec<String>>)]
    tag: Vec<Tag>,
}

impl How {
    fn read(fields: Vec<(String, String)>) -> Result<Self, Error> {
        let mut how = Self::default();
        for (name, value) in fields {
            match name.as_str() {
                "modified_ms" => {
                    let ms = value.parse().map_err(|_| Error::invalid("modified_ms is a whole number"))?;
                    how.modified_ms = Some(ms);
                }
                "tag" if how.tag.len() == TAGS_MAX => {
                    return Err(Error::new(ErrorKind::TooLarge, format!("a file can have {TAGS_MAX} tags at most")));
                }
                "tag" => how.tag.push(Tag::new(&value)?),
                _ => return Err(Error::invalid(format!("a write has no field {name:?}"))),
            }
        }
        Ok(how)
    }
}

/// Conditions on reading, and which part.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "a description only: holdfast_http reads them")]
pub(crate) struct ReadHeaders {
    /// Byte ranges, `bytes=0-499`, several separated by commas.
    range: Option<String>,
    /// Ranges only of the version with this entity tag or of this time; else everything.
    #[param(rename = "If-Range")]
    if_range: Option<String>,
    /// Nothing (304) if the version is one of these.
    #[param(rename = "If-None-Match")]
    if_none_match: Option<String>,
    /// Nothing (412) unless the version is one of these.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
    /// Nothing (304) if it did not change since.
    #[param(rename = "If-Modified-Since")]
    if_modified_since: Option<String>,
    /// Nothing (412) if it changed since.
    #[param(rename = "If-Unmodified-Since")]
    if_unmodified_since: Option<String>,
}

/// Conditions on writing.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "a description only: they are read by hand")]
pub(crate) struct WriteHeaders {
    /// The entity tag of the version that may be replaced; another is 412.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
    /// `*`: only if there is no such file (else 412).
    #[param(rename = "If-None-Match")]
    if_none_match: Option<String>,
}

/// The bytes of a file.
///
/// Ranges, several at once, and the conditional headers of RFC 9110 are answered. The type is made safe: every kind of text, and
/// whatever else a browser could run, is plain text.
#[utoipa::path(get, path = "/content/{space}/{path}", tag = "files",
    params(("space" = String, Path), ("path" = String, Path), Which, ReadHeaders), responses(
    (status = 200, body = [u8], content_type = "application/octet-stream"),
    (status = 206, body = [u8], content_type = "application/octet-stream", description = "the ranges asked for"),
    (status = 304, description = "the client has it"), 
    (status = 412, body = Problem, content_type = "application/problem+json"),
    (status = 416, body = Problem, content_type = "application/problem+json"), Failures))]
pub(crate) async fn read(
    State(api): State<Api>,
    caller: Caller,
    At(at): At,
    Query(which): Query<Which>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let walk = match which.version {
        None => api.drive.walk(&caller.0, &at).await?,
        Some(seq) => api.drive.walk_version(&caller.0, &at, seq).await?,
    };
    let node = end_of(&walk, &at)?.clone();
    if node.kind != NodeKind::File {
        return Err(Error::new(ErrorKind::WrongKind, format!("{at} is a folder")).into());
    }
    let (tag, kind) = (node.entity_tag(), safe_of_name(&node.name));
    let file = holdfast_http::File { tag: &tag, modified_ms: node.modified_ms, size: node.size, kind };
    let (accounts, who) = (api.accounts.clone(), caller.0.clone());
    let open = move |range| -> BoxFuture<'static, holdfast_base::Result<Pieces>> {
        let (drive, who, walk) = (api.drive.clone(), caller.0.clone(), walk.clone());
        Box::pin(async move { drive.read(&who, &walk, range).await })
    };
    match holdfast_http::file(&method, &headers, file, open).await? {
        FileAnswer::Failed(header) => {
            let message = format!("{header} does not hold: the file changed");
            Err(Error::new(ErrorKind::PreconditionFailed, message).into())
        }
        FileAnswer::Unsatisfiable => Ok(unsatisfiable(&node)),
        FileAnswer::Answer(response) => {
            if method == Method::GET && response.status().is_success() {
                accounts.count_download(&who, node.id, node.seq).await?;
            }
            let mut response = response.map(Body::new);
            guard(response.headers_mut(), which.download.is_some().then_some(&node.name))?;
            Ok(response)
        }
    }
}

/// The headers of a file's bytes, without them.
#[utoipa::path(head, path = "/content/{space}/{path}", tag = "files",
    params(("space" = String, Path), ("path" = String, Path), Which, ReadHeaders), responses(
    (status = 200), (status = 206, description = "of the ranges asked for"), (status = 304, description = "the client has it"),
    (status = 412), (status = 416), Failures))]
pub(crate) async fn head(
    api: State<Api>,
    caller: Caller,
    at: At,
    which: Query<Which>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    read(api, caller, at, which, method, headers).await
}

/// See the module.
fn guard(headers: &mut HeaderMap, save_as: Option<&String>) -> Result<(), Error> {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    if let Some(name) = save_as {
        let value = HeaderValue::try_from(attachment(name))
            .map_err(|error| Error::internal("a file's name cannot be a header").with_source(error))?;
        headers.insert(CONTENT_DISPOSITION, value);
    }
    Ok(())
}

fn unsatisfiable(node: &Node) -> Response {
    let detail = format!("the file has {} bytes; no range asked for is inside it", node.size);
    let mut response = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, detail).into_response();
    if let Ok(value) = HeaderValue::try_from(format!("bytes */{}", node.size)) {
        response.headers_mut().insert(CONTENT_RANGE, value);
    }
    response
}

type Written = (StatusCode, [(HeaderName, String); 1], axum::Json<NodeBody>);

/// Write a file whole.
///
/// `If-Match` and `If-None-Match: *` are tested in the transaction that writes. Nothing changes unless the whole body came. The old
/// content becomes a version.
#[utoipa::path(put, path = "/content/{space}/{path}", tag = "files",
    params(("space" = String, Path), ("path" = String, Path), How, WriteHeaders),
    request_body(content = [u8], content_type = "application/octet-stream"), responses(
    (status = 200, body = NodeBody, description = "written"), (status = 201, body = NodeBody, description = "made"), Failures, Refusals))]
pub(crate) async fn write(
    State(api): State<Api>,
    caller: Caller,
    At(at): At,
    Query(fields): Query<Vec<(String, String)>>,
    request: Request,
) -> Result<Written, Failure> {
    let how = How::read(fields)?;
    let headers = request.headers();
    for (name, why) in [
        (CONTENT_ENCODING, "a file is sent without Content-Encoding; it is compressed when it is stored"),
        (CONTENT_RANGE, "a file is written whole here, without Content-Range"),
    ] {
        if headers.contains_key(name) {
            return Err(Error::invalid(why).into());
        }
    }
    let length = header_text(headers, CONTENT_LENGTH)?.and_then(|text| text.trim().parse().ok());
    if length.is_some_and(|length| length > FILE_BYTES_MAX) {
        let message = format!("a file can have {FILE_BYTES_MAX} bytes at most");
        return Err(Error::new(ErrorKind::TooLarge, message).into());
    }
    let expect = expectation(&api, &caller, &at, headers).await?;
    let conditions = Conditions { expect, ..Conditions::default() };
    let options =
        WriteOptions { conditions, length, modified_ms: how.modified_ms, tags: how.tag, ..WriteOptions::default() };
    let body = incoming(request.into_body());
    let changed = api.drive.write(&caller.0, &at, options, body).await?;
    let status = if changed.created { StatusCode::CREATED } else { StatusCode::OK };
    let tag = changed.node.entity_tag();
    Ok((status, [(ETAG, tag)], axum::Json(body_of(&api, &caller.0, changed.node).await?)))
}

/// What the conditional headers of a write expect of the file. A tag that holds now is made an expectation of that very version, which
/// the transaction tests again.
async fn expectation(api: &Api, caller: &Caller, at: &Location, headers: &HeaderMap) -> Result<Expect, Error> {
    let if_match = header_text(headers, IF_MATCH)?.map(|text| tag_list(&text)).transpose()?;
    let if_none_match = header_text(headers, IF_NONE_MATCH)?.map(|text| tag_list(&text)).transpose()?;
    let changed = || Error::new(ErrorKind::PreconditionFailed, format!("{at} was changed meanwhile: load it again"));
    match (if_match, if_none_match) {
        (None, None) => Ok(Expect::Any),
        (None, Some(TagList::Any)) => Ok(Expect::Absent),
        (Some(TagList::Any), None) => Ok(Expect::Present),
        (Some(TagList::Tags(tags)), None) => {
            let walk = api.drive.walk(&caller.0, at).await?;
            let node = walk.node().ok_or_else(changed)?;
            let tag = node.entity_tag();
            let holds = tags.iter().any(|wanted| wanted.matches_strongly(&tag));
            if holds { Ok(Expect::Seq(node.seq)) } else { Err(changed()) }
        }
        _ => Err(Error::invalid("a write takes either If-Match or If-None-Match: *")),
    }
}
