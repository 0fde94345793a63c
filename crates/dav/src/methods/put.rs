//! PUT: a file whole, or a range of it (RFC 9110 sections 9.3.4 and 14.5).
//!
//! The body is handed to the drive as it arrives and is first asked for by the drive, after its checks: a client that waits
//! for `100 Continue` is refused before it sends anything. The drive changes nothing unless the whole body came, had
//! the stated length, and had every stated digest.

use super::{changed, place};
use crate::call::{Call, RequestBody, drain, empty, set};
use crate::fault::{Answer, Fault};
use crate::guard;
use crate::parse::{self, Target};
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_drive::{DigestAlgorithm, Expect, Patch, Tag, WriteOptions};
use holdfast_http::incoming;
use http::header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderName};
use http::{HeaderValue, StatusCode};
use http_body::Body;

const X_OC_MTIME: HeaderName = HeaderName::from_static("x-oc-mtime");

/// What a write brings beside what the request says.
#[derive(Debug, Default)]
pub(crate) struct PutInto {
    /// Tags that the file gets with its content.
    pub(crate) tags: Vec<Tag>,
    /// What is expected of the file if the request expects nothing.
    pub(crate) expect: Expect,
    /// Whether it is shown by a smart folder itself, where folders cannot be put.
    pub(crate) own: bool,
}

/// PUT.
pub(crate) async fn put(call: &Call, target: Target, body: RequestBody, into: PutInto) -> Answer {
    let options = match checked(call, &target, body.size_hint().exact()).await {
        Ok(mut options) => {
            if options.conditions.expect == Expect::Any {
                options.conditions.expect = into.expect;
            }
            WriteOptions { tags: into.tags, ..options }
        }
        Err(fault) => {
            drain(call, body).await;
            return Err(fault);
        }
    };
    let at = place(&target)?;
    let set_time = options.modified_ms.is_some();
    let outcome = call.drive.write(&call.who, at, options, incoming(body)).await;
    let written = changed(call, &[at], outcome).await?;
    let mut response = empty(if written.created { StatusCode::CREATED } else { StatusCode::NO_CONTENT });
    set(&mut response, ETAG, written.node.entity_tag());
    if set_time {
        response.headers_mut().insert(X_OC_MTIME, HeaderValue::from_static("accepted"));
    }
    Ok(response)
}

/// Everything that can be refused before the body is looked at.
async fn checked(call: &Call, target: &Target, body_bytes: Option<u64>) -> Result<WriteOptions, Fault> {
    let at = match target {
        Target::At { at, slash: false } if !at.path.is_root() => at,
        Target::At { at, .. } => {
            let exists = call.drive.walk(&call.who, at).await?.complete;
            return Err(if exists {
                Fault::new(StatusCode::METHOD_NOT_ALLOWED, "a folder has no content to replace; PUT a file inside it")
            } else {
                Fault::conflict("an address that ends in a slash names a folder; make one with MKCOL")
            });
        }
        Target::Spaces => return Err(Fault::forbidden("a file goes inside a space")),
    };
    if call.header(CONTENT_ENCODING)?.is_some_and(|coding| !coding.trim().eq_ignore_ascii_case("identity")) {
        return Err(Fault::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a file is sent without Content-Encoding; it is compressed when it is stored",
        ));
    }
    let mut length = call.content_length()?.or(body_bytes);
    let patch = call.header(CONTENT_RANGE)?.map(|text| parse::content_range(&text)).transpose()?;
    if let Some(patch) = patch {
        if length.is_some_and(|length| length != patch.range.len()) {
            return Err(Fault::bad_request("Content-Length and Content-Range differ in the number of bytes"));
        }
        length = Some(patch.range.len());
    }
    if length.is_some_and(|length| length > FILE_BYTES_MAX) {
        return Err(Fault::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a file can have {FILE_BYTES_MAX} bytes at most"),
        ));
    }
    let digests = digests(call)?;
    if patch.is_some() && !digests.is_empty() {
        return Err(Fault::new(StatusCode::NOT_IMPLEMENTED, "a checksum can only be verified for a whole file"));
    }
    let modified_ms = call.header(X_OC_MTIME)?.map(|text| parse::mtime_ms(&text)).transpose()?;
    let conditions = guard::conditions(call, at).await?;
    let patch = patch.map(|patch| Patch { start: patch.range.start, total: patch.total });
    Ok(WriteOptions { conditions, length, modified_ms, patch, digests, tags: Vec::new() })
}

/// Digests the body must have, from every header that states one.
fn digests(call: &Call) -> Result<Vec<(DigestAlgorithm, Vec<u8>)>, Fault> {
    type Reader = fn(&str) -> holdfast_base::Result<Vec<(DigestAlgorithm, Vec<u8>)>>;
    const HEADERS: [(&str, Reader); 5] = [
        ("oc-checksum", parse::oc_checksum),
        ("content-md5", parse::content_md5),
        ("digest", parse::digest),
        ("repr-digest", parse::repr_digest),
        ("content-digest", parse::repr_digest),
    ];
    let mut digests = Vec::new();
    for (name, read) in HEADERS {
        if let Some(text) = call.header(name)? {
            digests.extend(read(&text)?);
        }
    }
    digests.dedup();
    Ok(digests)
}
