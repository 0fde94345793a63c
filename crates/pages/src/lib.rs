//! The pages: what `web/` builds, embedded in the program and answered with the headers that keep it to itself.
//!
//! One shell (`index.html`) answers every URL of a page; the program in it finds out what to show. It is asked for anew each time (an
//! entity tag saves sending it); what it refers to lies below `/assets/` under names that have a hash in them, and is kept for ever.
//! Files come compressed from the build, and the client's `Accept-Encoding` chooses.
//!
//! A build of the program without `web/dist` has no pages, and works: see [`are_built`].

use holdfast_http::{AnswerBody, TagList, header_text, tag_list};
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

/// Scripts, styles, pictures and connections of the own origin only, nothing inline, in nobody's frame. `blob:` and `data:` are for
/// previews that our own script has made.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
                      media-src 'self' blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; \
                      worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// What the pages never ask a browser for.
const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), \
                           magnetometer=(), microphone=(), midi=(), payment=(), usb=()";

/// First segments of the URLs of pages.
const PAGES: [&str; 10] = ["", "signin", "files", "search", "smart", "trash", "shared", "account", "admin", "l"];

const SHELL: &str = "/index.html";

/// An embedded file.
#[derive(Debug)]
struct Asset {
    path: &'static str,
    plain: &'static [u8],
    brotli: Option<&'static [u8]>,
    gzip: Option<&'static [u8]>,
}

/// In order of path.
static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Whether this program has pages.
pub fn are_built() -> bool {
    find(ASSETS, SHELL).is_some()
}

/// Whether a path is the URL of a page.
pub fn is_page(path: &str) -> bool {
    let first = path.strip_prefix('/').and_then(|rest| rest.split('/').next());
    first.is_some_and(|first| PAGES.contains(&first) && (!first.is_empty() || path == "/"))
}

/// Answers GET and HEAD of a page or of a file the pages are made of; none if the path is neither, or if there are no pages.
pub fn answer(path: &str, headers: &HeaderMap) -> Option<Response<AnswerBody>> {
    answer_from(ASSETS, path, headers)
}

fn find<'a>(assets: &'a [Asset], path: &str) -> Option<&'a Asset> {
    assets.binary_search_by(|asset| asset.path.cmp(path)).ok().and_then(|at| assets.get(at))
}

fn answer_from(assets: &[Asset], path: &str, headers: &HeaderMap) -> Option<Response<AnswerBody>> {
    let asset = find(assets, if is_page(path) { SHELL } else { path })?;
    let (bytes, coding) = choose(asset, headers);
    let tag = format!("\"{}{}\"", &blake3::hash(asset.plain).to_hex()[..20], coding.map_or("", |(_, suffix)| suffix));
    let known = header_text(headers, IF_NONE_MATCH).ok().flatten().and_then(|text| tag_list(&text).ok());
    let is_known = match known {
        Some(TagList::Any) => true,
        Some(TagList::Tags(tags)) => tags.iter().any(|known| known.matches_weakly(&tag)),
        None => false,
    };
    let mut response = Response::new(AnswerBody::empty());
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        response.headers_mut().insert(CONTENT_LENGTH, bytes.len().into());
        *response.body_mut() = AnswerBody::full(bytes);
    }
    let (kind, charset) = holdfast_http::mime_of_name(asset.path);
    let for_ever = asset.path.starts_with("/assets/");
    let caching = if for_ever { "public, max-age=31536000, immutable" } else { "no-cache" };
    let all = [
        (CONTENT_TYPE, format!("{kind}{charset}")),
        (ETAG, tag),
        (CACHE_CONTROL, caching.to_owned()),
        (VARY, "accept-encoding".to_owned()),
        (CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin".to_owned()),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin".to_owned()),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS.to_owned()),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow".to_owned()),
    ];
    let coding = coding.map(|(coding, _)| (CONTENT_ENCODING, coding.to_owned()));
    for (name, value) in all.into_iter().chain(coding) {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
    Some(response)
}

/// A coding's name, and what tells its entity tag from the others.
type Coding = (&'static str, &'static str);

fn choose(asset: &Asset, headers: &HeaderMap) -> (&'static [u8], Option<Coding>) {
    let accepted = header_text(headers, ACCEPT_ENCODING).ok().flatten().unwrap_or_default();
    let takes = |coding: &str| accepts(&accepted, coding);
    match (asset.brotli, asset.gzip) {
        (Some(bytes), _) if takes("br") => (bytes, Some(("br", "-br"))),
        (_, Some(bytes)) if takes("gzip") => (bytes, Some(("gzip", "-gz"))),
        _ => (asset.plain, None),
    }
}

/// Whether `Accept-Encoding` names a coding, and not to refuse it.
fn accepts(list: &str, coding: &str) -> bool {
    list.split(',').any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding));
        let refused = |part: &str| part.strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0));
        named && !parts.any(refused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    static SOME: &[Asset] = &[
        Asset { path: "/assets/app-1a2b.js", plain: b"script", brotli: Some(b"br"), gzip: Some(b"gz") },
        Asset { path: "/icon.svg", plain: b"<svg/>", brotli: None, gzip: None },
        Asset { path: "/index.html", plain: b"<!doctype html>", brotli: None, gzip: Some(b"gz") },
    ];

    fn ask(path: &str, pairs: &[(HeaderName, &str)]) -> Option<Response<AnswerBody>> {
        let headers = pairs.iter().map(|(name, value)| (name.clone(), value.parse().expect("a value"))).collect();
        answer_from(SOME, path, &headers)
    }

    fn header(answer: &Response<AnswerBody>, name: HeaderName) -> &str {
        answer.headers().get(name).map_or("", |value| value.to_str().expect("text"))
    }

    #[test]
    fn the_shell_answers_every_page_and_nothing_else() {
        for page in [
            "/",
            "/signin",
            "/files/ana/a%20b",
            "/search",
            "/smart/7",
            "/trash/ana",
            "/shared",
            "/account/x",
            "/admin",
            "/l/0a",
        ] {
            let answer = ask(page, &[]).expect(page);
            assert_eq!(header(&answer, CONTENT_TYPE), "text/html; charset=utf-8");
            assert_eq!(header(&answer, CACHE_CONTROL), "no-cache");
            assert!(header(&answer, CONTENT_SECURITY_POLICY).contains("script-src 'self';"));
        }
        for other in ["/filesx", "//", "/api/v1/me", "/assets/none.js", "/icon.svg.gz", "/dav", "", "files"] {
            assert!(ask(other, &[]).is_none(), "{other}");
        }
    }

    #[test]
    fn what_is_named_by_its_hash_is_kept_for_ever() {
        let answer = ask("/assets/app-1a2b.js", &[]).expect("is there");
        assert_eq!(header(&answer, CACHE_CONTROL), "public, max-age=31536000, immutable");
        assert_eq!(header(&answer, CONTENT_TYPE), "text/javascript; charset=utf-8");
        assert_eq!(header(&ask("/icon.svg", &[]).expect("is there"), CACHE_CONTROL), "no-cache");
    }

    #[test]
    fn the_client_s_codings_choose_and_each_has_a_tag_of_its_own() {
        let coded = |accepted| {
            let answer = ask("/assets/app-1a2b.js", &[(ACCEPT_ENCODING, accepted)]).expect("is there");
            (header(&answer, CONTENT_ENCODING).to_owned(), header(&answer, ETAG).to_owned())
        };
        assert_eq!(coded("gzip, deflate, br").0, "br");
        assert_eq!(coded("gzip;q=0.5, br;q=0").0, "gzip");
        assert_eq!(coded("").0, "");
        assert_ne!(coded("br").1, coded("gzip").1);
    }

    #[test]
    fn a_client_that_has_it_is_told_so() {
        let tag = header(&ask("/", &[]).expect("is there"), ETAG).to_owned();
        assert_eq!(ask("/", &[(IF_NONE_MATCH, &tag)]).expect("is there").status(), StatusCode::NOT_MODIFIED);
        assert_eq!(ask("/", &[(IF_NONE_MATCH, "\"x\"")]).expect("is there").status(), StatusCode::OK);
    }
}
