//! What a server's answer says of a file.

use super::digests;
use crate::sum::Sum;
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use std::time::UNIX_EPOCH;

/// Seconds after which it is asked again, of a server that does not say.
const RETRY_AFTER_S: u32 = 5;

/// What is known of a file.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) size: u64,
    /// Whether the server gives parts of it.
    pub(super) ranges: bool,
    etag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
    /// Its sum, which not every answer has.
    pub(super) sum: Option<Sum>,
}

impl Told {
    /// Reads the answer to a request for the first byte.
    pub(super) fn of(status: StatusCode, headers: &HeaderMap) -> Result<Self> {
        let (size, ranges) = match status {
            StatusCode::PARTIAL_CONTENT => (content_range(headers).map(|(_, size)| size), true),
            // A file of no bytes has no first one.
            StatusCode::RANGE_NOT_SATISFIABLE if text(headers, CONTENT_RANGE.as_str()) == Some("bytes */0") => {
                (Some(0), true)
            }
            StatusCode::OK => (text(headers, CONTENT_LENGTH.as_str()).and_then(|size| size.parse().ok()), false),
            status => return Err(refused(status, headers)),
        };
        let size =
            size.ok_or_else(|| Error::new(ErrorKind::Unsupported, "the server does not say how large the file is"))?;
        if size > FILE_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("the server says that the file has {size} bytes")));
        }
        if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(Error::new(ErrorKind::Unsupported, "the server gives the file only in an encoding of its own"));
        }
        let (etag, modified) = (headers.get(ETAG).cloned(), headers.get(LAST_MODIFIED).cloned());
        Ok(Self { size, ranges, etag, modified, sum: digests::sum(headers, status == StatusCode::OK) })
    }

    /// Whether it is the same file. An answer to a condition need not repeat all that is known (RFC 9110 section 15.3.7), so what both say counts.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let modified = [self, other].map(|told| told.modified.as_ref().map(HeaderValue::as_bytes));
        let same = match (self.tag(), other.tag(), modified[0], modified[1]) {
            (Some(a), Some(b), _, _) | (_, _, Some(a), Some(b)) => a == b,
            (None, None, None, None) => true,
            _ => false,
        };
        same && self.size == other.size
    }

    /// What names its content.
    pub(super) fn version(&self) -> Option<String> {
        let modified =
            || self.modified.as_ref().map(|at| format!("{} {}", self.size, String::from_utf8_lossy(at.as_bytes())));
        self.tag().map(|tag| String::from_utf8_lossy(tag).into_owned()).or_else(modified)
    }

    /// The tag, whether it is called weak or not: Apache calls one weak for the first second of a file.
    fn tag(&self) -> Option<&[u8]> {
        let tag = self.etag.as_ref()?.as_bytes();
        Some(tag.strip_prefix(b"W/").unwrap_or(tag))
    }

    /// What a part can be made conditional on: a tag only if it promises equal bytes. With one that does not, answers are compared alone.
    pub(super) fn condition(&self) -> Option<&HeaderValue> {
        match &self.etag {
            Some(tag) => Some(tag).filter(|tag| !tag.as_bytes().starts_with(b"W/")),
            None => self.modified.as_ref(),
        }
    }

    pub(super) fn modified_ns(&self) -> Option<i64> {
        let at = httpdate::parse_http_date(self.modified.as_ref()?.to_str().ok()?).ok()?;
        i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
    }

    /// Checks that an answer is the part that was asked for, of the same file.
    pub(super) fn check_part(&self, range: ByteRange, status: StatusCode, headers: &HeaderMap) -> Result<()> {
        let changed = || Error::new(ErrorKind::PreconditionFailed, "the file changed while it was read");
        match status {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::OK
            | StatusCode::RANGE_NOT_SATISFIABLE
            | StatusCode::PRECONDITION_FAILED
            | StatusCode::NOT_FOUND => {
                return Err(changed());
            }
            status => return Err(refused(status, headers)),
        }
        if !self.is_same(&Self::of(status, headers)?) {
            return Err(changed());
        }
        match content_range(headers) {
            Some((part, _)) if part == range => Ok(()),
            _ => Err(Error::new(ErrorKind::Conflict, "the server gave another part of the file than it was asked for")),
        }
    }
}

/// Why a server gives nothing.
pub(super) fn refused(status: StatusCode, headers: &HeaderMap) -> Error {
    let what = format!("the server answered {status}");
    match status.as_u16() {
        429 => {
            let after = text(headers, RETRY_AFTER.as_str()).and_then(|after| after.parse().ok());
            Error::new(ErrorKind::TooManyRequests { retry_after_s: after.unwrap_or(RETRY_AFTER_S) }, what)
        }
        404 | 410 => Error::not_found(what),
        401 => Error::forbidden(format!("{what}: it wants --user NAME and --password-file FILE")),
        403 | 407 => Error::forbidden(what),
        408 | 425 | 500 | 502..=504 => Error::unavailable(what),
        _ => Error::new(ErrorKind::Unsupported, what),
    }
}

/// Which part an answer has, and of how many bytes (RFC 9110 section 14.4).
fn content_range(headers: &HeaderMap) -> Option<(ByteRange, u64)> {
    let (range, size) = text(headers, CONTENT_RANGE.as_str())?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (start, last, size): (u64, u64, u64) = (first.parse().ok()?, last.parse().ok()?, size.parse().ok()?);
    (start <= last && last < size).then_some((ByteRange { start, end: last + 1 }, size))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
