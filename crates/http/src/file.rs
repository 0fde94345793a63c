//! GET and HEAD of a file (RFC 9110 sections 9.3.1, 13 and 14): conditions, ranges, several ranges.
//!
//! The first piece of content is fetched before the answer begins, so that content that cannot be read is a status and
//! not a broken connection, and a small file is one piece with its headers.

use crate::{
    AnswerBody, Conditional, Facts, Multipart, Pieces, RangeRequest, content_range, dates, header_text, if_range_holds,
    ranges, read_conditions,
};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use holdfast_base::{ByteRange, Result};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

/// A file to be answered.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    /// Its strong entity tag, with quotes.
    pub tag: &'a str,
    /// When it was modified, in milliseconds since 1970.
    pub modified_ms: i64,
    /// Its size.
    pub size: u64,
    /// Its type.
    pub kind: &'a str,
}

/// What a request for a file comes to.
#[derive(Debug)]
pub enum FileAnswer {
    /// 200, 206 or 304.
    Answer(Response<AnswerBody>),
    /// 412, and which header does not hold.
    Failed(&'static str),
    /// 416: no range asked for is in the file.
    Unsatisfiable,
}

/// Answers a file; `open` streams a range of its content.
pub async fn file<F>(method: &Method, headers: &HeaderMap, file: File<'_>, mut open: F) -> Result<FileAnswer>
where
    F: FnMut(ByteRange) -> BoxFuture<'static, Result<Pieces>> + Send + 'static,
{
    let mut response = Response::new(AnswerBody::empty());
    match read_conditions(headers, Facts { tag: file.tag, modified_ms: file.modified_ms })? {
        Conditional::Proceed => {}
        Conditional::Failed(header) => return Ok(FileAnswer::Failed(header)),
        Conditional::NotModified => {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            describe(&mut response, file);
            return Ok(FileAnswer::Answer(response));
        }
    }
    let asked = match wanted(headers, file)? {
        RangeRequest::Unsatisfiable => return Ok(FileAnswer::Unsatisfiable),
        RangeRequest::Whole => None,
        RangeRequest::Parts(parts) => Some(parts),
    };
    let with_content = *method != Method::HEAD;
    match asked.as_deref() {
        Some([_, _, ..]) => {
            let parts = Multipart::new(asked.unwrap_or_default(), file.size, file.kind);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            response.headers_mut().insert(CONTENT_LENGTH, parts.length().into());
            set(&mut response, CONTENT_TYPE, &parts.content_type());
            if with_content {
                *response.body_mut() = parts.body(open);
            }
        }
        one => {
            let part = one.and_then(|parts| parts.first().copied());
            let range = part.unwrap_or(ByteRange::whole(file.size));
            if part.is_some() {
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                set(&mut response, CONTENT_RANGE, &content_range(range, file.size));
            }
            response.headers_mut().insert(CONTENT_LENGTH, range.len().into());
            set(&mut response, CONTENT_TYPE, file.kind);
            if with_content && !range.is_empty() {
                *response.body_mut() = begun(open(range).await?, range.len()).await?;
            }
        }
    }
    describe(&mut response, file);
    Ok(FileAnswer::Answer(response))
}

/// The range to answer.
fn wanted(headers: &HeaderMap, file: File<'_>) -> Result<RangeRequest> {
    let Some(text) = header_text(headers, RANGE)? else { return Ok(RangeRequest::Whole) };
    Ok(if if_range_holds(headers, file.tag)? { ranges(&text, file.size) } else { RangeRequest::Whole })
}

/// A stream of `length` bytes whose first piece is at hand.
async fn begun(mut pieces: Pieces, length: u64) -> Result<AnswerBody> {
    let first = pieces.next().await.transpose()?.unwrap_or_default();
    if first.len() as u64 == length {
        return Ok(AnswerBody::full(first));
    }
    Ok(AnswerBody::stream(stream::once(std::future::ready(Ok(first))).chain(pieces), Some(length)))
}

fn describe(response: &mut Response<AnswerBody>, file: File<'_>) {
    set(response, ETAG, file.tag);
    set(response, LAST_MODIFIED, &dates::http(file.modified_ms));
    response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // What a shared cache kept would outlive the session; what a browser keeps it must ask about first.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
}

/// Puts a header whose value was made here; one that cannot be a header is left out.
fn set(response: &mut Response<AnswerBody>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
