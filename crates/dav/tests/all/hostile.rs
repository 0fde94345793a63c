//! What no well-meaning client sends: the right status, nothing changed, and the next request works.

use crate::rig::Rig;
use holdfast_base::ManualClock;
use holdfast_dav::limits::XML_BODY_BYTES_MAX;
use http::{HeaderValue, Request};
use http_body_util::Full;
use proptest::prelude::*;
use std::sync::Arc;

const METHODS: [&str; 12] =
    ["OPTIONS", "GET", "HEAD", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "PROPFIND", "PROPPATCH", "LOCK", "UNLOCK"];

async fn rig() -> Rig {
    Rig::new(Arc::new(ManualClock::new(1_700_000_000_000))).await
}

#[tokio::test]
async fn paths_that_cannot_be_are_refused_by_every_method() {
    let rig = rig().await;
    let long = format!("/dav/ana/{}", "x".repeat(256));
    let deep = format!("/dav/ana/{}", "x/".repeat(1_100));
    for (path, status) in [
        ("/dav/ana/../bert", 400),
        ("/dav/../etc/passwd", 400),
        ("/dav/ana/%2e%2e/x", 400),
        ("/dav/ana/a%2fb", 400),
        ("/dav/ana/a%00b", 400),
        ("/dav/ana/%ff", 400),
        ("/dav/ana/%", 400),
        (long.as_str(), 414),
        (deep.as_str(), 414),
        ("/elsewhere", 404),
    ] {
        for method in METHODS {
            let reply = rig.send(method, path, &[], "").await;
            assert_eq!(reply.status, status, "{method} {path}");
        }
        let to = rig.send("COPY", "/dav/ana/a", &[("destination", path)], "").await;
        assert_eq!(to.status, if status == 404 { 502 } else { status }, "{path}");
    }
    assert_eq!(
        rig.send("PROPFIND", "/dav/ana/", &[("depth", "1")], "").await.text().matches("<D:response>").count(),
        1
    );
}

#[tokio::test]
async fn hostile_bodies_are_refused() {
    let rig = rig().await;
    rig.send("PUT", "/dav/ana/f", &[], "x").await;
    let bomb = "<!DOCTYPE a [<!ENTITY b \"bbbb\"><!ENTITY c \"&b;&b;\">]><D:propfind xmlns:D='DAV:'><D:prop>&c;</D:prop></D:propfind>";
    let deep = format!("<D:propfind xmlns:D='DAV:'>{}", "<a>".repeat(100_000));
    let huge = "x".repeat(XML_BODY_BYTES_MAX + 1);
    for method in ["PROPFIND", "PROPPATCH", "LOCK"] {
        for (body, status) in [(bomb, 400), ("<", 400), ("\u{0}", 400), (huge.as_str(), 413)] {
            assert_eq!(rig.send(method, "/dav/ana/f", &[], body.to_owned()).await.status, status, "{method}");
        }
    }
    assert_eq!(rig.send("PROPFIND", "/dav/ana/f", &[], deep).await.status, 413);
    assert_eq!(rig.send("GET", "/dav/ana/f", &[], "").await.text(), "x");
}

#[tokio::test]
async fn an_error_says_what_is_wrong_as_text_or_xml() {
    let rig = rig().await;
    let text = rig.send("GET", "/dav/ana/none", &[], "").await;
    assert_eq!((text.status, text.header("content-type")), (404, "text/plain; charset=utf-8"));
    let head = rig.send("HEAD", "/dav/ana/none", &[], "").await;
    assert_eq!((head.status, head.body.len()), (404, 0));
    let xml = rig.send("PROPPATCH", "/dav/ana/f", &[], "<a&>").await;
    assert_eq!((xml.status, xml.header("content-type")), (400, "application/xml; charset=utf-8"));
    assert!(xml.text().contains("<h:message xmlns:h=\"urn:holdfast\">the XML body cannot be read"), "{}", xml.text());
}

const HEADERS: [&str; 24] = [
    "if",
    "if-match",
    "if-none-match",
    "if-range",
    "if-modified-since",
    "if-unmodified-since",
    "range",
    "content-range",
    "content-length",
    "content-encoding",
    "depth",
    "destination",
    "overwrite",
    "timeout",
    "lock-token",
    "x-oc-mtime",
    "oc-checksum",
    "content-md5",
    "digest",
    "repr-digest",
    "want-digest",
    "want-repr-digest",
    "prefer",
    "host",
];

/// Any header with any value and any body: a status of the right class, and the drive still answers.
fn fuzz(cases: Vec<(usize, usize, Vec<u8>, Vec<u8>)>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let rig = rig().await;
        rig.send("PUT", "/dav/ana/f", &[], "content").await;
        for (method, header, value, body) in cases {
            let method = METHODS[method % METHODS.len()];
            let Ok(value) = HeaderValue::from_bytes(&value) else { continue };
            let mut request = Request::builder().method(method).uri("/dav/ana/f");
            if matches!(method, "COPY" | "MOVE") {
                request = request.header("destination", "/dav/ana/g");
            }
            let request = request.header(HEADERS[header % HEADERS.len()], value).body(Full::new(body.into()));
            let reply = rig.exchange(&rig.who, request.expect("a request")).await;
            assert!(reply.status < 500 || reply.status == 501 || reply.status == 502, "{method} {reply:?}");
        }
        assert_eq!(rig.send("PROPFIND", "/dav/ana/", &[("depth", "0")], "").await.status, 207);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn no_header_or_body_breaks_the_face(
        cases in prop::collection::vec((any::<usize>(), any::<usize>(), prop::collection::vec(any::<u8>(), 0..60),
            prop::collection::vec(any::<u8>(), 0..60)), 1..40),
    ) {
        fuzz(cases);
    }
}
