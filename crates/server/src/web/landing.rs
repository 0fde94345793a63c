//! The page at `/` for what is no browser, and for browsers if the pages are not built: what this is and how to connect. It names no
//! account and no space.

use crate::conn::AnyBody;
use crate::web::reply;
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY, HOST, HeaderValue};
use http::{HeaderMap, Response, StatusCode, Uri};

const PAGE: &str = include_str!("landing.html");

/// The page needs its own style element and nothing else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Said where a page would be.
pub(crate) const NOT_BUILT: &str = "This program was built without its pages. To build them: `npm ci && npm run build` in web/, \
                                    `touch crates/pages/build.rs`, and cargo build again.\n";

/// Whether the client shows pages: a browser names HTML among what it accepts.
pub(crate) fn is_for_a_browser(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(|value| value.contains("text/html")))
}

/// The page, with the address the client used.
pub(crate) fn page(headers: &HeaderMap, uri: &Uri, encrypted: bool) -> Response<AnyBody> {
    let host = headers
        .get(HOST)
        .and_then(|value| value.to_str().ok())
        .or_else(|| uri.authority().map(http::uri::Authority::as_str));
    let host = host.filter(|host| is_host(host)).unwrap_or("this-server");
    let schemes = if encrypted { ["https", "davs", "webdavs"] } else { ["http", "dav", "webdav"] };
    let mut page = PAGE.to_owned();
    for (mark, scheme) in ["{BASE}", "{DAV}", "{WEBDAV}"].into_iter().zip(schemes) {
        page = page.replace(mark, &format!("{scheme}://{host}"));
    }
    let pages = if holdfast_pages::are_built() { String::new() } else { format!("<p class=\"lead\">{NOT_BUILT}</p>") };
    let page = page.replace("{PAGES}", &pages);
    let answer = reply::of(StatusCode::OK, "text/html; charset=utf-8", page);
    reply::with(answer, CONTENT_SECURITY_POLICY, POLICY)
}

/// Only what a host and port are made of is put in a page.
fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_host_header_does_not_reach_the_page() {
        assert!(is_host("drive.example.org:8443") && is_host("[::1]:8642"));
        for bad in ["", "a\"b", "<script>", "a b", &"x".repeat(256)] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
