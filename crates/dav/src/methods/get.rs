//! GET and HEAD of a file (RFC 9110 sections 9.3.1, 13 and 14).
//!
//! The first piece of content is fetched before the answer begins, so that content that cannot be read is a status and
//! not a broken connection, and a small file is one piece with its headers.

use super::listing;
use crate::DavBody;
use crate::call::{Call, empty, set};
use crate::fault::{Answer, Fault};
use crate::guard;
use crate::parse::{self, DigestField, RangeRequest, Target, entity_tag_of};
use futures_util::{StreamExt, stream};
use holdfast_base::{ByteRange, Result};
use holdfast_drive::{Node, NodeKind, Walk};
use holdfast_http::dates;
use holdfast_http::{Conditional, Facts, Multipart, content_range, if_range_holds, mime_of_name, read_conditions};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, LAST_MODIFIED, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Response, StatusCode};

/// GET, and HEAD, which is the same without content.
pub(crate) async fn get(call: &Call, target: &Target) -> Answer {
    let at = match target {
        Target::Spaces => return listing::spaces(call).await,
        Target::At { at, .. } => at,
    };
    guard::if_header_holds(call, at).await?;
    let walk = call.drive.walk(&call.who, at).await?;
    let node = walk.node().ok_or_else(Fault::not_found)?.clone();
    match node.kind {
        NodeKind::Folder => listing::folder(call, at, node).await,
        NodeKind::File => file(call, &node, walk).await,
    }
}

async fn file(call: &Call, node: &Node, walk: Walk) -> Answer {
    let tag = entity_tag_of(node);
    if not_modified(call, node, &tag)? {
        let mut response = empty(StatusCode::NOT_MODIFIED);
        describe(&mut response, node, &tag);
        return Ok(response);
    }
    let (kind, charset) = mime_of_name(&node.name);
    let kind = format!("{kind}{charset}");
    let mut response = match wanted_range(call, node, &tag)? {
        RangeRequest::Unsatisfiable => {
            let mut fault = Fault::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                format!("the file has {} bytes; no range asked for is inside it", node.size),
            );
            fault.size = Some(node.size);
            return Err(fault);
        }
        RangeRequest::Whole => {
            let mut response = content(call, &walk, ByteRange::whole(node.size)).await?;
            set(&mut response, CONTENT_TYPE, &kind);
            response
        }
        RangeRequest::Parts(parts) => match parts.as_slice() {
            [part] => {
                let mut response = content(call, &walk, *part).await?;
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                set(&mut response, CONTENT_RANGE, content_range(*part, node.size));
                set(&mut response, CONTENT_TYPE, &kind);
                response
            }
            _ => multipart(call, walk.clone(), parts, node.size, &kind),
        },
    };
    describe(&mut response, node, &tag);
    guard_browser(&mut response, &kind);
    add_digest(call, &walk, &mut response).await?;
    Ok(response)
}

/// A range of content with its length; for HEAD, only the length.
async fn content(call: &Call, walk: &Walk, range: ByteRange) -> Answer {
    let mut response = Response::new(DavBody::empty());
    response.headers_mut().insert(CONTENT_LENGTH, range.len().into());
    if call.head.method == Method::HEAD || range.is_empty() {
        return Ok(response);
    }
    let mut pieces = call.drive.read(&call.who, walk, range).await?;
    let first = pieces.next().await.transpose()?.unwrap_or_default();
    *response.body_mut() = if first.len() as u64 == range.len() {
        DavBody::full(first)
    } else {
        DavBody::stream(stream::once(std::future::ready(Ok(first))).chain(pieces), Some(range.len()))
    };
    Ok(response)
}

/// Whether the conditional headers ask for 304.
fn not_modified(call: &Call, node: &Node, tag: &str) -> Result<bool, Fault> {
    match read_conditions(&call.head.headers, Facts { tag, modified_ms: node.modified_ms })? {
        Conditional::Proceed => Ok(false),
        Conditional::NotModified => Ok(true),
        Conditional::Failed(header) => {
            Err(Fault::precondition_failed(format!("{header} does not hold: the file changed")))
        }
    }
}

/// The range to answer.
fn wanted_range(call: &Call, node: &Node, tag: &str) -> Result<RangeRequest, Fault> {
    let Some(text) = call.header(RANGE)? else { return Ok(RangeRequest::Whole) };
    if !if_range_holds(&call.head.headers, tag)? {
        return Ok(RangeRequest::Whole);
    }
    Ok(parse::ranges(&text, node.size))
}

/// Several ranges as the parts of one answer.
fn multipart(call: &Call, walk: Walk, parts: Vec<ByteRange>, size: u64, kind: &str) -> Response<DavBody> {
    let parts = Multipart::new(parts, size, kind);
    let mut response = Response::new(DavBody::empty());
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    response.headers_mut().insert(CONTENT_LENGTH, parts.length().into());
    set(&mut response, CONTENT_TYPE, parts.content_type());
    if call.head.method != Method::HEAD {
        let call = call.clone();
        *response.body_mut() = parts.body(move |range| {
            let (call, walk) = (call.clone(), walk.clone());
            Box::pin(async move { call.drive.read(&call.who, &walk, range).await })
        });
    }
    response
}

fn describe(response: &mut Response<DavBody>, node: &Node, tag: &str) {
    set(response, ETAG, tag);
    set(response, LAST_MODIFIED, dates::http(node.modified_ms));
    response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // What a shared cache kept would outlive the session; what a browser keeps it must ask about first.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
}

/// Somebody's file must not act as a page of this drive: its type is not guessed anew, and what can carry scripts runs
/// in a sandbox without an origin.
fn guard_browser(response: &mut Response<DavBody>, kind: &str) {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if ["html", "xml", "svg", "javascript"].iter().any(|active| kind.contains(active)) {
        response.headers_mut().insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("sandbox; default-src 'none'; style-src 'unsafe-inline'"),
        );
    }
}

/// A digest of the whole file, if the client asks for one.
async fn add_digest(call: &Call, walk: &Walk, response: &mut Response<DavBody>) -> Result<(), Fault> {
    let wanted = [
        ("want-repr-digest", DigestField::ReprDigest, HeaderName::from_static("repr-digest")),
        ("want-digest", DigestField::Digest, HeaderName::from_static("digest")),
    ];
    for (header, field, answer) in wanted {
        let Some(text) = call.header(header)? else { continue };
        let algorithm = match field {
            DigestField::Digest => parse::want_digest(&text),
            DigestField::ReprDigest => parse::want_repr_digest(&text),
        };
        if let Some(algorithm) = algorithm {
            let digest = call.drive.digest(&call.who, walk, algorithm).await?;
            set(response, answer, field.write(algorithm, &digest));
        }
    }
    Ok(())
}
