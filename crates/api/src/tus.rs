//! The headers of tus 1.0 (<https://tus.io/protocols/resumable-upload>), from text to values and back.
//!
//! Limits: [`METADATA_BYTES_MAX`] and [`METADATA_ENTRIES_MAX`] of `Upload-Metadata`.

use crate::problem::{Failure, Problem};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_drive::{DigestAlgorithm, UploadView, entity_tag};
use holdfast_http::{dates, header_text, push_segment};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_TYPE, ETAG, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use std::collections::BTreeMap;

const VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
const EXTENSIONS: HeaderValue =
    HeaderValue::from_static("creation,creation-with-upload,checksum,expiration,termination");
const CHECKSUMS: HeaderValue = HeaderValue::from_static("sha1,sha256,md5,blake3");
/// The type of a part.
const PART: &str = "application/offset+octet-stream";

const TUS_RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const TUS_VERSION: HeaderName = HeaderName::from_static("tus-version");
const TUS_EXTENSION: HeaderName = HeaderName::from_static("tus-extension");
const TUS_MAX_SIZE: HeaderName = HeaderName::from_static("tus-max-size");
const TUS_CHECKSUM_ALGORITHM: HeaderName = HeaderName::from_static("tus-checksum-algorithm");
const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
const UPLOAD_DEFER_LENGTH: HeaderName = HeaderName::from_static("upload-defer-length");
const UPLOAD_METADATA: HeaderName = HeaderName::from_static("upload-metadata");
const UPLOAD_EXPIRES: HeaderName = HeaderName::from_static("upload-expires");
const UPLOAD_CHECKSUM: HeaderName = HeaderName::from_static("upload-checksum");

/// Longest `Upload-Metadata`: the longest path in Base64, and some words.
const METADATA_BYTES_MAX: usize = 48 << 10;
/// Entries of it.
const METADATA_ENTRIES_MAX: usize = 64;

/// What the server can do, for OPTIONS.
pub(crate) fn capabilities() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(TUS_RESUMABLE, VERSION);
    headers.insert(TUS_VERSION, VERSION);
    headers.insert(TUS_EXTENSION, EXTENSIONS);
    headers.insert(TUS_MAX_SIZE, FILE_BYTES_MAX.into());
    headers.insert(TUS_CHECKSUM_ALGORITHM, CHECKSUMS);
    response
}

/// A response of the protocol: what `answer` makes, unless the client speaks another version.
pub(crate) async fn speak(headers: &HeaderMap, answer: impl Future<Output = Result<Response, Failure>>) -> Response {
    let mut response = if headers.get(&TUS_RESUMABLE) == Some(&VERSION) {
        answer.await.unwrap_or_else(failed)
    } else {
        let detail = "this server speaks tus 1.0.0: say so in Tus-Resumable";
        let mut refused = Problem::new(StatusCode::PRECONDITION_FAILED, detail.into()).into_response();
        refused.headers_mut().insert(TUS_VERSION, VERSION);
        refused
    };
    response.headers_mut().insert(TUS_RESUMABLE, VERSION);
    response
}

/// A failure in the protocol's words: it has a status of its own for a wrong checksum.
pub(crate) fn failed(failure: Failure) -> Response {
    match (failure.0.kind(), StatusCode::from_u16(460)) {
        (ErrorKind::WrongChecksum, Ok(mismatch)) => {
            Problem::new(mismatch, failure.0.message().to_owned()).into_response()
        }
        _ => failure.into_response(),
    }
}

/// Says where an upload stands.
pub(crate) fn describe(response: &mut Response, view: &UploadView) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(UPLOAD_OFFSET, view.offset.into());
    headers.insert(UPLOAD_LENGTH, view.length.into());
    let mut set = |name, value: &str| {
        // Everything here was made by us or was a header's value before.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set(UPLOAD_EXPIRES, &dates::http(view.expires_ms));
    if !view.metadata.is_empty() {
        set(UPLOAD_METADATA, &view.metadata);
    }
    if let Some((node, seq)) = view.node {
        set(ETAG, &entity_tag(node, seq));
        set(CONTENT_LOCATION, &node_address(view));
    }
}

/// Where the file that an upload became is described.
fn node_address(view: &UploadView) -> String {
    let mut address = format!("{}/nodes/", crate::PREFIX);
    push_segment(&mut address, &view.at.space);
    for name in view.at.path.names() {
        address.push('/');
        push_segment(&mut address, name.as_str());
    }
    address
}

/// `Upload-Length`.
pub(crate) fn upload_length(headers: &HeaderMap) -> Result<u64> {
    match number(headers, &UPLOAD_LENGTH)? {
        Some(length) if length > FILE_BYTES_MAX => {
            Err(Error::new(ErrorKind::TooLarge, format!("a file can have {FILE_BYTES_MAX} bytes at most")))
        }
        Some(length) => Ok(length),
        None if headers.contains_key(&UPLOAD_DEFER_LENGTH) => {
            Err(Error::invalid("an upload is begun with its Upload-Length: room is kept for it"))
        }
        None => Err(Error::invalid("an upload is begun with its Upload-Length")),
    }
}

/// `Upload-Offset`.
pub(crate) fn upload_offset(headers: &HeaderMap) -> Result<u64> {
    number(headers, &UPLOAD_OFFSET)?.ok_or_else(|| Error::invalid("a part is sent with its Upload-Offset"))
}

/// `Content-Length`, if it is stated.
pub(crate) fn content_length(headers: &HeaderMap) -> Result<Option<u64>> {
    number(headers, &CONTENT_LENGTH)
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Result<Option<u64>> {
    let Some(text) = header_text(headers, name)? else { return Ok(None) };
    let digits = text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse().ok().filter(|_| digits).map(Some).ok_or_else(|| Error::invalid(format!("{name} is a whole number")))
}

/// Whether the body is a part of an upload.
pub(crate) fn has_part(headers: &HeaderMap) -> Result<bool> {
    let kind = header_text(headers, CONTENT_TYPE)?;
    Ok(kind.is_some_and(|kind| kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(PART))))
}

/// Refuses a body of another type than a part's.
pub(crate) fn require_part(headers: &HeaderMap) -> Option<Response> {
    match has_part(headers) {
        Ok(true) => None,
        Ok(false) => {
            let detail = format!("a part is sent with Content-Type: {PART}");
            Some(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).into_response())
        }
        Err(error) => Some(Failure(error).into_response()),
    }
}

/// `Upload-Checksum`, if there is one. An algorithm that is not known is refused, as the protocol has it.
pub(crate) fn upload_checksum(headers: &HeaderMap) -> Result<Option<(DigestAlgorithm, Vec<u8>)>> {
    let Some(text) = header_text(headers, &UPLOAD_CHECKSUM)? else { return Ok(None) };
    let bad = || Error::invalid("Upload-Checksum is written sha1|sha256|md5|blake3, a blank, and the digest in Base64");
    let (name, value) = text.trim().split_once(' ').ok_or_else(bad)?;
    let (algorithm, bytes) = match name {
        "md5" => (DigestAlgorithm::Md5, 16),
        "sha1" => (DigestAlgorithm::Sha1, 20),
        "sha256" => (DigestAlgorithm::Sha256, 32),
        "blake3" => (DigestAlgorithm::Blake3, 32),
        _ => return Err(bad()),
    };
    let digest = STANDARD.decode(value.trim()).ok().filter(|digest| digest.len() == bytes).ok_or_else(bad)?;
    Ok(Some((algorithm, digest)))
}

/// `Upload-Metadata`, as it was written and as it is meant.
pub(crate) struct Metadata {
    pub(crate) text: String,
    entries: BTreeMap<String, String>,
}

impl Metadata {
    /// Reads it: pairs of a key and a value in Base64, separated by commas. A value that is not text counts as none.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self> {
        let text = header_text(headers, &UPLOAD_METADATA)?.unwrap_or_default().into_owned();
        if text.len() > METADATA_BYTES_MAX {
            let message = format!("Upload-Metadata can have {METADATA_BYTES_MAX} bytes at most");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let bad = || Error::invalid("Upload-Metadata is written as keys with values in Base64, separated by commas");
        let mut entries = BTreeMap::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once(' ').unwrap_or((pair, ""));
            let value = STANDARD.decode(value.trim()).map_err(|_| bad())?;
            if entries.len() == METADATA_ENTRIES_MAX || entries.contains_key(key) {
                return Err(bad());
            }
            entries.insert(key.to_owned(), String::from_utf8(value).unwrap_or_default());
        }
        Ok(Self { text, entries })
    }

    /// A value that is there and not empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).expect("a value"));
        headers
    }

    #[test]
    fn metadata_is_pairs_of_keys_and_base64() {
        let read = |text: &str| Metadata::read(&headers("upload-metadata", text));
        let metadata = read("path YS9iLnR4dA==,empty, space  YW5h ,raw /w==").expect("reads");
        assert_eq!(metadata.get("path"), Some("a/b.txt"));
        assert_eq!(metadata.get("space"), Some("ana"));
        assert_eq!((metadata.get("empty"), metadata.get("raw"), metadata.get("none")), (None, None, None));
        assert!(read("path YS9i,path YS9i").is_err() && read("path a b").is_err() && read("path !").is_err());
        assert!(read(&"k,".repeat(40_000)).is_err());
        assert!(Metadata::read(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn numbers_are_digits_alone() {
        let length = |text: &str| upload_length(&headers("upload-length", text));
        assert_eq!(length("0").expect("reads"), 0);
        for bad in ["-1", "+1", " ", "1.0", "0x1", "99999999999999999999"] {
            assert_eq!(length(bad).expect_err(bad).kind(), ErrorKind::InvalidInput, "{bad:?}");
        }
        assert_eq!(length("17592186044417").expect_err("too large").kind(), ErrorKind::TooLarge);
        assert!(upload_length(&headers("upload-defer-length", "1")).is_err());
    }

    #[test]
    fn a_checksum_is_of_a_known_algorithm_and_its_length() {
        let read = |text: &str| upload_checksum(&headers("upload-checksum", text));
        assert_eq!(read("md5 AAAAAAAAAAAAAAAAAAAAAA==").expect("reads"), Some((DigestAlgorithm::Md5, vec![0; 16])));
        for bad in ["md5", "md5 AAAA", "crc32 AAAA", "sha1 !", ""] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~]{0,80}", known in "(path|sha1|md5|[0-9]{1,3}) ?[A-Za-z0-9+/=]{0,30}(, ?[a-z]+ [A-Za-z=]{0,8})?") {
            for text in [text, known] {
                let (metadata, checksum) = (headers("upload-metadata", &text), headers("upload-checksum", &text));
                let _ = (Metadata::read(&metadata), upload_checksum(&checksum), upload_length(&headers("upload-length", &text)));
            }
        }

        #[test]
        fn what_a_client_encodes_is_read_back(value in "\\PC{1,40}") {
            let text = format!("a {},path {}", STANDARD.encode("x"), STANDARD.encode(&value));
            let metadata = Metadata::read(&headers("upload-metadata", &text)).expect("reads");
            prop_assert_eq!(metadata.get("path"), Some(value.as_str()));
        }
    }
}
