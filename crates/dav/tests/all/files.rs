//! GET, HEAD and PUT: content, ranges, conditions, checksums, times.

use crate::rig::Rig;
use bytes::Bytes;
use futures_util::stream;
use holdfast_base::ManualClock;
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use std::sync::Arc;

const FILE: &str = "/dav/ana/a.txt";
const START_MS: i64 = 1_700_000_000_000;

async fn rig() -> Rig {
    Rig::new(Arc::new(ManualClock::new(START_MS))).await
}

#[tokio::test]
async fn a_file_is_created_then_replaced_and_read_back() {
    let rig = rig().await;
    let made = rig.send("PUT", FILE, &[], "one").await;
    assert_eq!((made.status, made.header("content-length")), (201, "0"));
    let tag = made.header("etag").to_owned();
    let read = rig.send("GET", FILE, &[], "").await;
    assert_eq!((read.status, read.text(), read.header("etag")), (200, "one", tag.as_str()));
    assert_eq!(read.header("content-length"), "3");
    assert_eq!(read.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(read.header("last-modified"), "Tue, 14 Nov 2023 22:13:20 GMT");
    assert_eq!(read.header("accept-ranges"), "bytes");
    let replaced = rig.send("PUT", FILE, &[], "two").await;
    assert_eq!(replaced.status, 204);
    assert_ne!(replaced.header("etag"), tag);
    let head = rig.send("HEAD", FILE, &[], "").await;
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "3", 0));
    assert_eq!(head.header("etag"), replaced.header("etag"));
}

#[tokio::test]
async fn an_empty_file_is_a_file() {
    let rig = rig().await;
    assert_eq!(rig.send("PUT", FILE, &[], "").await.status, 201);
    let read = rig.send("GET", FILE, &[], "").await;
    assert_eq!((read.status, read.header("content-length"), read.body.len()), (200, "0", 0));
}

#[tokio::test]
async fn large_content_arrives_in_pieces_and_leaves_whole() {
    let rig = rig().await;
    let content: Vec<u8> = (0..251).cycle().take(3_500_000).collect();
    assert_eq!(rig.send("PUT", FILE, &[], content.clone()).await.status, 201);
    let read = rig.send("GET", FILE, &[], "").await;
    assert_eq!(read.header("content-length"), "3500000");
    assert!(read.body == content);
    let part = rig.send("GET", FILE, &[("range", "bytes=1048570-1048580")], "").await;
    assert!(part.body == content[1_048_570..=1_048_580]);
}

#[tokio::test]
async fn ranges_are_answered_single_open_and_suffix() {
    let rig = rig().await;
    rig.send("PUT", FILE, &[], "0123456789").await;
    for (range, content, place) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=1-2,3-4", "1234", "bytes 1-4/10"),
    ] {
        let part = rig.send("GET", FILE, &[("range", range)], "").await;
        assert_eq!((part.status, part.text(), part.header("content-range")), (206, content, place), "{range}");
        let head = rig.send("HEAD", FILE, &[("range", range)], "").await;
        assert_eq!((head.status, head.header("content-length")), (206, part.header("content-length")), "{range}");
    }
    let outside = rig.send("GET", FILE, &[("range", "bytes=10-")], "").await;
    assert_eq!((outside.status, outside.header("content-range")), (416, "bytes */10"));
    assert_eq!(rig.send("GET", FILE, &[("range", "bytes=nonsense")], "").await.status, 200);
}

#[tokio::test]
async fn several_ranges_are_parts_of_one_answer() {
    let rig = rig().await;
    let content: Vec<u8> = (b'a'..=b'z').cycle().take(2_000).collect();
    rig.send("PUT", FILE, &[], content.clone()).await;
    let parts = rig.send("GET", FILE, &[("range", "bytes=1000-1004,0-2,-1")], "").await;
    assert_eq!(parts.status, 206);
    let boundary = parts.header("content-type").strip_prefix("multipart/byteranges; boundary=").expect("multipart");
    let part = |start: usize, end: usize| {
        let text = std::str::from_utf8(&content[start..=end]).expect("letters");
        format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Range: bytes {start}-{end}/2000\r\n\r\n{text}"
        )
    };
    let expected = format!("{}{}{}\r\n--{boundary}--\r\n", part(1_000, 1_004), part(0, 2), part(1_999, 1_999));
    assert_eq!(parts.text(), expected);
    assert_eq!(parts.header("content-length"), expected.len().to_string());
}

#[tokio::test]
async fn reads_are_conditional_on_tag_and_time() {
    let rig = rig().await;
    let made = rig.send("PUT", FILE, &[], "content").await;
    let tag = made.header("etag");
    let weak = format!("W/{tag}");
    let (then, before) = ("Tue, 14 Nov 2023 22:13:20 GMT", "Tue, 14 Nov 2023 22:13:19 GMT");
    for (headers, status) in [
        (vec![("if-none-match", tag)], 304),
        (vec![("if-none-match", weak.as_str())], 304),
        (vec![("if-none-match", "\"other\"")], 200),
        (vec![("if-none-match", "*")], 304),
        (vec![("if-match", tag)], 200),
        (vec![("if-match", weak.as_str())], 412),
        (vec![("if-match", "\"other\"")], 412),
        (vec![("if-match", "*")], 200),
        (vec![("if-modified-since", then)], 304),
        (vec![("if-modified-since", before)], 200),
        (vec![("if-modified-since", "nonsense")], 200),
        (vec![("if-unmodified-since", then)], 200),
        (vec![("if-unmodified-since", before)], 412),
        // A tag outweighs a time (RFC 9110 section 13.2.2).
        (vec![("if-none-match", "\"other\""), ("if-modified-since", then)], 200),
        (vec![("if-match", tag), ("if-unmodified-since", before)], 200),
        (vec![("range", "bytes=0-1"), ("if-range", tag)], 206),
        (vec![("range", "bytes=0-1"), ("if-range", "\"other\"")], 200),
        (vec![("range", "bytes=0-1"), ("if-range", then)], 200),
        (vec![("range", "bytes=0-1"), ("if-none-match", tag)], 304),
    ] {
        for method in ["GET", "HEAD"] {
            let reply = rig.send(method, FILE, &headers, "").await;
            assert_eq!(reply.status, status, "{method} {headers:?}");
            assert!(status == 412 || reply.header("etag") == tag, "{method} {headers:?}");
        }
    }
}

#[tokio::test]
async fn writes_are_conditional_on_tag_time_and_absence() {
    let rig = rig().await;
    let absent = [("if-none-match", "*")];
    let present = [("if-match", "*")];
    assert_eq!(rig.send("PUT", FILE, &present, "x").await.status, 412);
    assert_eq!(rig.send("PUT", FILE, &absent, "x").await.status, 201);
    assert_eq!(rig.send("PUT", FILE, &absent, "y").await.status, 412);
    let tag = rig.send("PUT", FILE, &present, "y").await.header("etag").to_owned();
    assert_eq!(rig.send("PUT", FILE, &[("if-match", &tag)], "z").await.status, 204);
    assert_eq!(rig.send("PUT", FILE, &[("if-match", &tag)], "lost update").await.status, 412);
    let before = [("if-unmodified-since", "Tue, 14 Nov 2023 22:13:19 GMT")];
    assert_eq!(rig.send("PUT", FILE, &before, "late").await.status, 412);
    assert_eq!(rig.send("DELETE", FILE, &[("if-match", &tag)], "").await.status, 412);
    assert_eq!(rig.send("GET", FILE, &[], "").await.text(), "z");
}

#[tokio::test]
async fn a_range_of_a_file_is_replaced() {
    let rig = rig().await;
    rig.send("PUT", FILE, &[], "0123456789").await;
    assert_eq!(rig.send("PUT", FILE, &[("content-range", "bytes 2-4/10")], "abc").await.status, 204);
    assert_eq!(rig.send("GET", FILE, &[], "").await.text(), "01abc56789");
    assert_eq!(rig.send("PUT", FILE, &[("content-range", "bytes 9-11/*")], "xyz").await.status, 204);
    assert_eq!(rig.send("GET", FILE, &[], "").await.text(), "01abc5678xyz");
    for (range, body, status) in [
        ("bytes 2-4/10", "abcd", 400),
        ("bytes 4-2/10", "abc", 400),
        ("nonsense", "abc", 400),
        ("bytes 0-2/99", "abc", 412),
    ] {
        assert_eq!(rig.send("PUT", FILE, &[("content-range", range)], body).await.status, status, "{range}");
    }
    let hole = rig.send("PUT", FILE, &[("content-range", "bytes 100-102/*")], "abc").await;
    assert!((400..500).contains(&hole.status), "{}", hole.status);
    assert_eq!(rig.send("GET", FILE, &[], "").await.text(), "01abc5678xyz");
}

#[tokio::test]
async fn a_client_sets_the_time_of_its_upload() {
    let rig = rig().await;
    let made = rig.send("PUT", FILE, &[("x-oc-mtime", "784111777")], "x").await;
    assert_eq!((made.status, made.header("x-oc-mtime")), (201, "accepted"));
    let head = rig.send("HEAD", FILE, &[], "").await;
    assert_eq!(head.header("last-modified"), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(rig.send("PUT", FILE, &[("x-oc-mtime", "yesterday")], "x").await.status, 400);
}

#[tokio::test]
async fn an_upload_is_verified_against_every_checksum_sent() {
    let rig = rig().await;
    // Of "x": from md5sum and sha1sum.
    let good = [
        ("oc-checksum", "SHA1:11f6ad8ec52a2984abaafd7c3b516503785c2072"),
        ("content-md5", "ndTkYSaMgDT1yFZOFVxnpg=="),
        ("digest", "sha=EfatjsUqKYSrqv18O1FlA3hcIHI="),
        ("repr-digest", "md5=:ndTkYSaMgDT1yFZOFVxnpg==:"),
    ];
    for header in good {
        assert!(rig.send("PUT", FILE, &[header], "x").await.status < 300, "{header:?}");
        assert_eq!(rig.send("PUT", FILE, &[header], "y").await.status, 400, "{header:?}");
    }
    assert_eq!(rig.send("GET", FILE, &[], "").await.text(), "x");
    assert_eq!(rig.send("PUT", FILE, &[("content-md5", "broken")], "x").await.status, 400);
}

#[tokio::test]
async fn a_checksum_is_answered_when_asked_for() {
    let rig = rig().await;
    rig.send("PUT", FILE, &[], "x").await;
    for method in ["GET", "HEAD"] {
        let reply = rig.send(method, FILE, &[("want-digest", "md5")], "").await;
        assert_eq!(reply.header("digest"), "md5=ndTkYSaMgDT1yFZOFVxnpg==");
        let reply = rig.send(method, FILE, &[("want-repr-digest", "sha=3, unixsum=9")], "").await;
        assert_eq!(reply.header("repr-digest"), "sha=:EfatjsUqKYSrqv18O1FlA3hcIHI=:");
    }
    assert_eq!(rig.send("GET", FILE, &[], "").await.header("digest"), "");
}

#[tokio::test]
async fn an_upload_that_breaks_off_or_has_another_length_changes_nothing() {
    let rig = rig().await;
    rig.send("PUT", FILE, &[], "before").await;
    let pieces: [Result<_, std::io::Error>; 2] =
        [Ok(Frame::data(Bytes::from_static(b"half"))), Err(std::io::ErrorKind::ConnectionReset.into())];
    let broken = Request::builder().method("PUT").uri(FILE).body(StreamBody::new(stream::iter(pieces)));
    assert_eq!(rig.exchange(&rig.who, broken.expect("a request")).await.status, 400);
    for length in ["3", "5"] {
        let piece: [Result<_, std::io::Error>; 1] = [Ok(Frame::data(Bytes::from_static(b"four")))];
        let request = Request::builder().method("PUT").uri(FILE).header("content-length", length);
        let request = request.body(StreamBody::new(stream::iter(piece))).expect("a request");
        assert_eq!(rig.exchange(&rig.who, request).await.status, 400, "{length}");
    }
    assert_eq!(rig.send("GET", FILE, &[], "").await.text(), "before");
}

#[tokio::test]
async fn a_refused_upload_is_refused_before_its_body_is_asked_for() {
    let rig = rig().await;
    rig.send("MKCOL", "/dav/ana/folder", &[], "").await;
    let never = || StreamBody::new(stream::pending::<Result<Frame<Bytes>, std::io::Error>>());
    for (path, header, status) in [
        ("/dav/ana/folder", ("x-a", ""), 405),
        ("/dav/ana/folder/", ("x-a", ""), 405),
        ("/dav/ana/new/", ("x-a", ""), 409),
        ("/dav/ana/missing/file", ("x-a", ""), 409),
        ("/dav/ana", ("x-a", ""), 405),
        ("/dav/", ("x-a", ""), 403),
        ("/dav/bert/file", ("x-a", ""), 404),
        ("/dav/ana/file", ("if-match", "\"x\""), 412),
        ("/dav/ana/file", ("content-encoding", "gzip"), 415),
        ("/dav/ana/file", ("content-length", "99999999999999999"), 413),
        ("/dav/ana/file?x", ("x-a", ""), 400),
    ] {
        let request = Request::builder().method("PUT").uri(path).header(header.0, header.1).body(never());
        let reply = rig.exchange(&rig.who, request.expect("a request")).await;
        assert_eq!(reply.status, status, "{path} {header:?} {}", reply.text());
    }
}

#[tokio::test]
async fn a_page_in_the_drive_cannot_act_for_its_reader() {
    let rig = rig().await;
    rig.send("PUT", "/dav/ana/page.html", &[], "<script>").await;
    let page = rig.send("GET", "/dav/ana/page.html", &[], "").await;
    assert!(page.header("content-security-policy").starts_with("sandbox;"));
    assert_eq!(page.header("x-content-type-options"), "nosniff");
}
