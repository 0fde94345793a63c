//! What fuzz targets reach and nobody else is to: readers of the headers of uploads and of cookies.

use crate::{cookie, tus};
use holdfast_auth::Secret;
use http::HeaderMap;

/// The numbers of a request of tus that can be read: length and offset.
pub fn tus_numbers(headers: &HeaderMap) -> (Option<u64>, Option<u64>) {
    let _ = (tus::content_length(headers), tus::has_part(headers), tus::require_part(headers));
    (tus::upload_length(headers).ok(), tus::upload_offset(headers).ok())
}

/// The bytes of a checksum, if one is there and understood.
pub fn tus_checksum(headers: &HeaderMap) -> Option<usize> {
    tus::upload_checksum(headers).ok().flatten().map(|(_, digest)| digest.len())
}

/// The value of a key of `Upload-Metadata`; none for what is not understood.
pub fn tus_metadata(headers: &HeaderMap, key: &str) -> Option<String> {
    tus::Metadata::read(headers).ok()?.get(key).map(ToOwned::to_owned)
}

/// The cookie of a sign-in by a provider.
pub fn flow_cookie(headers: &HeaderMap, encrypted: bool) -> Option<Secret> {
    cookie::read_flow(headers, encrypted)
}
