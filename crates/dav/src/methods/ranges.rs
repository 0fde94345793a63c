//! Several ranges in one answer: `multipart/byteranges` (RFC 9110 section 14.6), streamed part by part.

use crate::body::DavBody;
use crate::call::{Call, set};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_base::{ByteRange, Result};
use holdfast_drive::{ContentStream, Walk};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, Response, StatusCode};
use std::hash::{BuildHasher, RandomState};

/// The value of `Content-Range`.
pub(crate) fn content_range(range: ByteRange, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1))
}

/// Two words from the standard library's randomly keyed hasher: content cannot be made to hold a boundary that is drawn
/// when it is read.
fn boundary() -> String {
    let word = || RandomState::new().hash_one(0u8);
    format!("{:016x}{:016x}", word(), word())
}

struct Parts {
    call: Call,
    walk: Walk,
    /// Each part's header and range, the last first.
    left: Vec<(Bytes, ByteRange)>,
    current: Option<ContentStream>,
    closing: Option<Bytes>,
}

/// An answer of several parts.
pub(crate) fn multipart(call: &Call, walk: Walk, parts: Vec<ByteRange>, size: u64, kind: &str) -> Response<DavBody> {
    let boundary = boundary();
    let header = |range: ByteRange| {
        let range = content_range(range, size);
        Bytes::from(format!("\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: {range}\r\n\r\n"))
    };
    let closing = Bytes::from(format!("\r\n--{boundary}--\r\n"));
    let left: Vec<_> = parts.into_iter().rev().map(|range| (header(range), range)).collect();
    let length =
        left.iter().map(|(header, range)| header.len() as u64 + range.len()).sum::<u64>() + closing.len() as u64;
    let mut response = Response::new(DavBody::empty());
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    set(&mut response, CONTENT_TYPE, format!("multipart/byteranges; boundary={boundary}"));
    if call.head.method != Method::HEAD {
        let parts = Parts { call: call.clone(), walk, left, current: None, closing: Some(closing) };
        *response.body_mut() = DavBody::stream(stream::try_unfold(parts, next), Some(length));
    }
    response
}

async fn next(mut parts: Parts) -> Result<Option<(Bytes, Parts)>> {
    if let Some(current) = &mut parts.current {
        if let Some(piece) = current.next().await.transpose()? {
            return Ok(Some((piece, parts)));
        }
        parts.current = None;
    }
    if let Some((header, range)) = parts.left.pop() {
        parts.current = Some(parts.call.drive.read(&parts.call.who, &parts.walk, range).await?);
        return Ok(Some((header, parts)));
    }
    Ok(parts.closing.take().map(|closing| (closing, parts)))
}
