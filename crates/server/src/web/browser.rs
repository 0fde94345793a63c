//! Requests of our own pages: their session's cookie, and proof that it was a page of ours that asked.
//!
//! A browser sends its cookies whoever made it ask. `SameSite=Strict` keeps most others out; what remains is refused here: a request
//! with a session must not say that another origin asked, and one that changes something must say that ours did. Browsers say so in
//! `Sec-Fetch-Site`, or, over plain HTTP and if they are old, in `Origin`.

use super::gate;
use holdfast_api::cookie;
use holdfast_auth::Credential;
use holdfast_base::{Error, Result};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Method, Request};

/// The credential of a request to the API: the session, if there is one, before anything else. What a browser remembers of an earlier
/// dialog for name and password comes without anybody having asked for it, and a page says that it does not want it.
pub(crate) fn credential<B>(request: &Request<B>, encrypted: bool) -> Result<Option<Credential>> {
    let headers = request.headers();
    if let Some(secret) = cookie::read(headers, encrypted) {
        check_origin(request, encrypted, true)?;
        return Ok(Some(Credential::Cookie(secret)));
    }
    check_origin(request, encrypted, false)?;
    if says_it_is_a_page(headers) { Ok(None) } else { gate::credential(headers) }
}

/// Whether the request is one of a page, which shows a sign-in of its own.
pub(crate) fn is_a_page(headers: &HeaderMap, encrypted: bool) -> bool {
    says_it_is_a_page(headers) || cookie::read(headers, encrypted).is_some()
}

/// Whether it says so itself.
pub(crate) fn says_it_is_a_page(headers: &HeaderMap) -> bool {
    headers.get("x-requested-with").is_some_and(|value| value == "holdfast")
}

/// Refuses what another site's page asked for. Without a cookie, a program that says nothing of this kind is fine.
pub(crate) fn check_origin<B>(request: &Request<B>, encrypted: bool, with_cookie: bool) -> Result<()> {
    let headers = request.headers();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let holds = match (headers.get("sec-fetch-site"), headers.get(ORIGIN)) {
        // `none`: somebody typed the address or chose a bookmark.
        (Some(site), _) => site == "same-origin" || (reads && site == "none"),
        (None, Some(origin)) => origin.to_str().is_ok_and(|origin| is_own(origin, request, encrypted)),
        (None, None) => reads || !with_cookie,
    };
    if holds { Ok(()) } else { Err(Error::forbidden("this request was made by a page of another site")) }
}

/// Whether an origin is the one this request was sent to.
fn is_own<B>(origin: &str, request: &Request<B>, encrypted: bool) -> bool {
    let host = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(http::uri::Authority::as_str));
    let (scheme, port) = if encrypted { ("https://", ":443") } else { ("http://", ":80") };
    let bare = |text: &str| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
    host.is_some_and(|host| origin.strip_prefix(scheme).is_some_and(|origin| bare(origin) == bare(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: (&str, &str) = ("cookie", "holdfast=hfs_x");

    fn request(method: &str, headers: &[(&str, &str)]) -> Request<()> {
        let request = Request::builder().method(method).uri("/api/v1/me").header("host", "drive.example:8642");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).expect("a request")
    }

    #[test]
    fn a_change_with_a_session_has_to_prove_where_it_comes_from() {
        let proofs: [(&[(&str, &str)], bool); 8] = [
            (&[], false),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://drive.example:8642")], false),
            (&[("origin", "http://Drive.example:8642")], true),
            (&[("origin", "http://drive.example")], false),
            (&[("origin", "null")], false),
        ];
        for (headers, holds) in proofs {
            for method in ["POST", "PUT", "PATCH", "DELETE", "BREW"] {
                let request = request(method, &[headers, &[SESSION]].concat());
                assert_eq!(credential(&request, false).is_ok(), holds, "{method} {headers:?}");
            }
        }
    }

    #[test]
    fn a_program_without_a_session_needs_no_proof_but_another_site_s_page_is_refused() {
        assert!(check_origin(&request("POST", &[]), false, false).is_ok());
        assert!(check_origin(&request("POST", &[("origin", "https://evil.example")]), false, false).is_err());
        assert!(check_origin(&request("GET", &[("sec-fetch-site", "cross-site")]), false, true).is_err());
        assert!(check_origin(&request("GET", &[("sec-fetch-site", "none")]), false, true).is_ok());
    }

    #[test]
    fn the_default_port_may_be_left_out() {
        let request =
            Request::builder().method("POST").header("host", "drive.example:443").body(()).expect("a request");
        assert!(is_own("https://drive.example", &request, true));
        assert!(!is_own("http://drive.example", &request, true));
    }

    #[test]
    fn a_page_is_not_signed_in_by_what_the_browser_remembers_and_a_session_comes_first() {
        let basic = ("authorization", "Basic QWxhZGRpbjpvcGVuOnNlc2FtZQ==");
        let page = request("GET", &[basic, ("x-requested-with", "holdfast")]);
        assert!(credential(&page, false).expect("reads").is_none() && is_a_page(page.headers(), false));
        let both = request("GET", &[basic, SESSION]);
        assert!(matches!(credential(&both, false), Ok(Some(Credential::Cookie(_)))));
        assert!(matches!(credential(&request("GET", &[basic]), false), Ok(Some(Credential::Basic { .. }))));
    }
}
