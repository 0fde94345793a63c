//! Lists are sent compressed: a page of ten thousand entries has 2 MB, and a tenth of that compressed.
//!
//! What is compressed is told by its route ([`is_a_list`]), not by its type or size. Whoever watches a connection sees how well an answer compresses; where
//! a secret is beside something that a stranger chose, that tells the secret letter by letter (the attack BREACH). So answers about sessions, accounts,
//! tokens, links and whatever else may hold a secret are never compressed, and content is compressed where it is stored, not here. What lists hold is names; to
//! guess at those a stranger would have to put names of theirs into the same folder and see many listings of it, which they cannot bring about:
//! requests that other sites make are refused.
//!
//! zstd where the client takes it, which costs a quarter of gzip's time, and gzip otherwise.

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::io::{self, Write};

/// Below this an answer is a packet or two, whatever is done to it.
const BYTES_MIN: u64 = 2 << 10;
/// More than the largest list: what is larger is sent as it is.
const BYTES_MAX: u64 = 64 << 20;
/// Above this a thread of its own compresses it: others would wait for milliseconds.
const ASIDE_BYTES: usize = 64 << 10;
/// The fastest that is worth it: names and times repeat themselves.
const ZSTD_LEVEL: i32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Zstd,
    Gzip,
}

impl Coding {
    const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    fn encode(self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Zstd => zstd::bulk::compress(bytes, ZSTD_LEVEL),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
                encoder.write_all(bytes)?;
                encoder.finish()
            }
        }
    }
}

/// Whether a path, as the visitor of a link or an account asks for it, is one of the lists. See the module for why it is these.
fn is_a_list(path: &str) -> bool {
    let Some(rest) = path.strip_prefix(crate::PREFIX) else { return false };
    let mut segments = rest.trim_start_matches('/').split('/');
    match segments.next() {
        Some("folders" | "search" | "openapi.json" | "reference") => true,
        Some("spaces") => matches!(segments.nth(1), Some("trash" | "versions")),
        // What a saved search finds; the searches themselves are few.
        Some("searches") => segments.nth(1) == Some("nodes"),
        _ => false,
    }
}

/// The best coding that the client takes (RFC 9110 section 12.5.3).
fn accepted(headers: &HeaderMap) -> Option<Coding> {
    let (mut zstd, mut gzip) = (false, false);
    let all = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for coding in all.flat_map(|value| value.split(',')) {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = parameters.trim().strip_prefix("q=").is_some_and(|q| q.trim().parse::<f32>() == Ok(0.0));
        match name.trim().to_ascii_lowercase().as_str() {
            "zstd" => zstd = !refused,
            "gzip" | "x-gzip" => gzip = !refused,
            _ => {}
        }
    }
    if zstd { Some(Coding::Zstd) } else { gzip.then_some(Coding::Gzip) }
}

/// Answers a request, and compresses what is one of the lists.
pub(crate) async fn lists(request: Request, next: Next) -> Response {
    if request.method() != Method::GET || !is_a_list(request.uri().path()) {
        return next.run(request).await;
    }
    let coding = accepted(request.headers());
    let mut answer = next.run(request).await;
    answer.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
    let text = answer.headers().get(CONTENT_TYPE).is_some_and(|value| {
        value.as_bytes().starts_with(b"application/json") || value.as_bytes().starts_with(b"text/html")
    });
    let bytes = answer.body().size_hint().exact().unwrap_or_default();
    match coding {
        Some(coding) if text && answer.status() == StatusCode::OK && (BYTES_MIN..=BYTES_MAX).contains(&bytes) => {
            encoded(answer, coding).await
        }
        _ => answer,
    }
}

async fn encoded(answer: Response, coding: Coding) -> Response {
    let (mut head, body) = answer.into_parts();
    // It is in memory, and has the length that it says.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else { return Response::from_parts(head, Body::empty()) };
    let done = if bytes.len() < ASIDE_BYTES {
        coding.encode(&bytes)
    } else {
        let aside = bytes.clone();
        tokio::task::spawn_blocking(move || coding.encode(&aside))
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    };
    match done {
        Ok(done) => {
            head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
            head.headers.insert(CONTENT_LENGTH, done.len().into());
            Response::from_parts(head, Body::from(done))
        }
        Err(error) => {
            tracing::warn!(%error, "a list could not be compressed");
            Response::from_parts(head, Body::from(bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::routing::get;
    use std::io::Read;
    use tower::ServiceExt;

    const FOLDER: &str = "/api/v1/folders/ana/";

    async fn ask(path: &str, encoding: Option<&str>, body: &'static str) -> Response {
        let answer = move || async move { ([(CONTENT_TYPE, "application/json")], body) };
        let router = Router::new().route("/{*path}", get(answer)).layer(axum::middleware::from_fn(lists));
        let mut request = Request::builder().uri(path);
        if let Some(encoding) = encoding {
            request = request.header(ACCEPT_ENCODING, encoding);
        }
        router.oneshot(request.body(Body::empty()).expect("a request")).await.expect("answers")
    }

    fn coding(answer: &Response) -> Option<&str> {
        answer.headers().get(CONTENT_ENCODING).and_then(|value| value.to_str().ok())
    }

    async fn bytes(answer: Response) -> Vec<u8> {
        to_bytes(answer.into_body(), usize::MAX).await.expect("reads").to_vec()
    }

    fn long() -> &'static str {
        String::leak("{\"name\": \"a\"}, ".repeat(10_000))
    }

    #[tokio::test]
    async fn a_long_list_comes_as_the_client_takes_it() {
        let zstd = ask(FOLDER, Some("gzip, deflate, br, zstd"), long()).await;
        assert_eq!((coding(&zstd), zstd.headers()[VARY].as_bytes()), (Some("zstd"), b"accept-encoding".as_slice()));
        let zstd = bytes(zstd).await;
        assert_eq!(zstd::decode_all(zstd.as_slice()).expect("decodes"), long().as_bytes());
        assert!(zstd.len() * 20 < long().len());
        let gzip = ask(FOLDER, Some("gzip;q=0.5, zstd;q=0"), long()).await;
        assert_eq!(coding(&gzip), Some("gzip"));
        let length = gzip.headers()[CONTENT_LENGTH].clone();
        let gzip = bytes(gzip).await;
        assert_eq!(length, gzip.len().to_string().as_str());
        let mut plain = String::new();
        flate2::read::GzDecoder::new(gzip.as_slice()).read_to_string(&mut plain).expect("decodes");
        assert_eq!(plain, long());
        for refused in [None, Some("identity"), Some("br"), Some("gzip;q=0"), Some("\u{e9}")] {
            let answer = ask(FOLDER, refused, long()).await;
            assert!(coding(&answer).is_none() && answer.headers().contains_key(VARY), "{refused:?}");
            assert_eq!(bytes(answer).await, long().as_bytes());
        }
        assert_eq!(coding(&ask(FOLDER, Some("gzip"), "{}").await), None, "a short one stays as it is");
    }

    #[tokio::test]
    async fn what_may_hold_a_secret_is_never_compressed() {
        for path in [
            "session",
            "me",
            "me/factors",
            "tokens",
            "accounts",
            "shares",
            "links/0/session",
            "uploads",
            "sign-in",
            "searches",
            "spaces/ana/members",
            "content/ana/folders",
            "nodes/folders",
            "sites",
            "settings",
        ] {
            assert!(coding(&ask(&format!("/api/v1/{path}"), Some("gzip, zstd"), long()).await).is_none(), "{path}");
        }
        for path in ["folders/ana/x", "search", "searches/7/nodes", "spaces/ana/trash", "openapi.json"] {
            assert!(coding(&ask(&format!("/api/v1/{path}"), Some("gzip, zstd"), long()).await).is_some(), "{path}");
        }
    }
}
