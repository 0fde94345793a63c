//! A small blocking HTTP/1.1 and `WebDAV` client for tests.
//!
//! One [`Client`] is one account on one keep-alive connection. It never retries: a test must know
//! whether a request was answered. Paths are given as text and percent-encoded here;
//! [`Client::raw`] sends any bytes at all. Limits: no TLS, no redirects, no compression.

mod client;
mod multistatus;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use client::{Client, RawConnection};
pub use multistatus::{PropertyName, Resource, parse_multistatus};
pub use request::Request;
pub use response::Response;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything but the unreserved characters of RFC 3986 section 2.3 and the slash.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A path as it stands in a URL.
pub fn encode_path(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// The path that a URL or a path of a URL names.
pub fn decode_path(href: &str) -> String {
    let path = match href.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => href,
    };
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}
