//! Resumable uploads, tus 1.0, of the built program.

use crate::common::{Drive, OTHER_PASSWORD, PASSWORD, call, json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_testkit::data::incompressible;
use holdfast_testkit::http::{Client, Request, Response};
use serde_json::json;

const UPLOADS: &str = "/api/v1/uploads";
const MIB: usize = 1 << 20;

/// `Upload-Metadata` of these pairs.
fn metadata(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key} {}", STANDARD.encode(value))).collect();
    pairs.join(",")
}

fn request(method: &str, path: &str) -> Request {
    Request::with_target(method, path).header("tus-resumable", "1.0.0")
}

fn create(length: usize, pairs: &[(&str, &str)]) -> Request {
    request("POST", UPLOADS).header("upload-length", length.to_string()).header("upload-metadata", metadata(pairs))
}

fn part(path: &str, offset: usize, content: &[u8]) -> Request {
    part_by("PATCH", path, offset, content)
}

fn part_by(method: &str, path: &str, offset: usize, content: &[u8]) -> Request {
    let part = request(method, path).header("upload-offset", offset.to_string());
    part.header("content-type", "application/offset+octet-stream").body(content)
}

fn send(client: &mut Client, request: &Request, status: u16) -> Response {
    let answer = client.send(request).expect("answers");
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("tus-resumable"), Some("1.0.0"));
    answer
}

/// Begins an upload; its address.
fn begin(client: &mut Client, length: usize, pairs: &[(&str, &str)]) -> String {
    let answer = send(client, &create(length, pairs), 201);
    assert!(answer.header("upload-expires").is_some_and(|date| date.ends_with("GMT")));
    answer.header("location").expect("has an address").to_owned()
}

fn offset(client: &mut Client, path: &str) -> usize {
    let answer = send(client, &request("HEAD", path), 200);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.header("upload-offset").expect("says where it stands").parse().expect("a number")
}

#[test]
fn the_server_says_what_it_can_do() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    let answer = ana.options(UPLOADS).expect("answers");
    assert_eq!((answer.status, answer.header("tus-version")), (204, Some("1.0.0")));
    assert_eq!(answer.header("tus-max-size"), Some("17592186044416"));
    let extensions = "creation,creation-with-upload,checksum,expiration,termination";
    assert_eq!(answer.header("tus-extension"), Some(extensions));
    assert_eq!(answer.header("tus-checksum-algorithm"), Some("sha1,sha256,md5,blake3"));
    for version in [None, Some("0.2.2")] {
        let old =
            Request::with_target("POST", UPLOADS).header("upload-length", "5").maybe_header("tus-resumable", version);
        let answer = send(&mut ana, &old, 412);
        assert_eq!(answer.header("tus-version"), Some("1.0.0"));
    }
}

#[test]
fn an_upload_goes_on_part_by_part_and_its_end_is_a_file() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    let content = incompressible(1, 3 * MIB + 5);
    let pairs = [("space", "ana"), ("path", "a file.bin"), ("modified_ms", "1000000000000")];
    let upload = begin(&mut ana, content.len(), &pairs);
    assert_eq!(offset(&mut ana, &upload), 0);
    let answer = send(&mut ana, &part(&upload, 0, &content[..MIB + 7]), 204);
    assert_eq!(answer.header("upload-offset"), Some("1048583"));
    assert_eq!(send(&mut ana, &part(&upload, 0, b"x"), 409).header("content-type"), Some("application/problem+json"));
    let listed = json(&call(&mut ana, "GET", UPLOADS, None), 200);
    assert_eq!((&listed[0]["offset_bytes"], &listed[0]["path"]), (&json!(MIB + 7), &json!("/a file.bin")));
    let head = send(&mut ana, &request("HEAD", &upload), 200);
    assert_eq!(head.header("upload-metadata"), Some(metadata(&pairs).as_str()));
    assert_eq!(head.header("upload-length"), Some(content.len().to_string().as_str()));
    // As clients do that cannot send PATCH.
    let over = part_by("POST", &upload, MIB + 7, &content[MIB + 7..]).header("x-http-method-override", "PATCH");
    let answer = send(&mut ana, &over, 204);
    assert_eq!(answer.header("content-location"), Some("/api/v1/nodes/ana/a%20file.bin"));
    let file = ana.get("/dav/ana/a file.bin").expect("answers");
    assert!(file.body == content);
    assert_eq!(file.header("etag"), answer.header("etag"));
    assert_eq!(file.header("last-modified"), Some("Sun, 09 Sep 2001 01:46:40 GMT"));
    assert_eq!(offset(&mut ana, &upload), content.len(), "a client that did not hear the answer asks");
    assert_eq!(json(&call(&mut ana, "GET", UPLOADS, None), 200), json!([]));
    assert_eq!(json(&call(&mut ana, "GET", &upload, None), 200)["etag"], json!(answer.header("etag")));
}

#[test]
fn one_request_can_be_an_upload() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    ana.mkcol("/dav/ana/folder").expect("answers");
    // A client that knows nothing of this drive names a file, and nothing else.
    let whole = create(5, &[("filename", "whole.txt"), ("path", "folder"), ("filetype", "text/plain")]);
    let whole = whole.header("content-type", "application/offset+octet-stream").body("12345");
    let answer = send(&mut ana, &whole, 201);
    assert!(answer.header("upload-offset") == Some("5") && answer.header("etag").is_some());
    assert_eq!(ana.get("/dav/ana/folder/whole.txt").expect("answers").text(), "12345");
    let empty = begin(&mut ana, 0, &[("filename", "empty")]);
    assert_eq!((offset(&mut ana, &empty), ana.get("/dav/ana/empty").expect("answers").status), (0, 200));
    let taken = create(5, &[("filename", "empty")]);
    assert_eq!(send(&mut ana, &taken, 409).header("location"), None, "it is refused before a byte is sent");
}

#[test]
fn what_is_wrong_is_said_in_the_protocol_s_words() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    let path = [("path", "f")];
    for (bad, status) in [
        (request("POST", UPLOADS), 400),
        (request("POST", UPLOADS).header("upload-defer-length", "1"), 400),
        (request("POST", UPLOADS).header("upload-length", "17592186044417"), 413),
        (create(5, &[("path", "../f")]), 400),
        (create(5, &[("path", "no/f")]), 409),
        (create(5, &[("space", "ben"), ("path", "f")]), 404),
        (create(5, &[("path", "f"), ("conflict", "ask")]), 400),
        (create(5, &[("path", "f"), ("if_match", "\"1-1\"")]), 412),
        (request("POST", UPLOADS).header("upload-length", "5").header("upload-metadata", "path !"), 400),
    ] {
        send(&mut ana, &bad, status);
    }
    let upload = begin(&mut ana, 10, &path);
    for (bad, status) in [
        (request("PATCH", &upload).header("upload-offset", "0").body("12345"), 415),
        (part(&upload, 3, b"12345"), 409),
        (part(&upload, 0, b"12345678901"), 413),
        (part(&upload, 0, b"12345").header("upload-checksum", "crc32 AAAA"), 400),
        (part(&upload, 0, b"12345").header("upload-checksum", format!("md5 {}", STANDARD.encode([0; 16]))), 460),
        (part("/api/v1/uploads/00112233445566778899aabbccddeeff", 0, b"12345"), 404),
        (part("/api/v1/uploads/none", 0, b"12345"), 404),
        (request("HEAD", "/api/v1/uploads/none"), 404),
    ] {
        send(&mut ana, &bad, status);
    }
    assert_eq!(offset(&mut ana, &upload), 0, "nothing of it counted");
    let checked = part(&upload, 0, b"12345").header("upload-checksum", "sha1 jLIjfQZ5yojbZGTqxg2pY0VROWQ=");
    send(&mut ana, &checked, 204);
    let mut ben = server.client_of("ben", OTHER_PASSWORD);
    send(&mut ben, &request("HEAD", &upload), 404);
    send(&mut ben, &request("DELETE", &upload), 404);
    send(&mut ana, &request("DELETE", &upload), 204);
    send(&mut ana, &request("HEAD", &upload), 404);
    drive.json(&["space", "set", "ana", "--quota", "1MB"], "");
    send(&mut ana, &create(2_000_000, &path), 507);
}

#[test]
fn whoever_finds_the_name_taken_decides_what_becomes_of_it() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    let upload = begin(&mut ana, 5, &[("path", "f.txt")]);
    let etag = ana.put("/dav/ana/f.txt", "theirs").expect("answers").header("etag").expect("a tag").to_owned();
    let replace = begin(&mut ana, 3, &[("path", "f.txt"), ("if_match", &etag)]);
    send(&mut ana, &part(&upload, 0, b"12345"), 409);
    assert_eq!(offset(&mut ana, &upload), 4, "the last byte counts when the file is there");
    let waiting = json(&call(&mut ana, "GET", &upload, None), 200);
    assert_eq!(waiting["waits"], true);
    let finish = format!("{upload}/finish");
    assert_eq!(call(&mut ana, "POST", &finish, Some(&json!({}))).status, 409);
    assert_eq!(call(&mut ana, "POST", &finish, Some(&json!({"conflict": "ask"}))).status, 400);
    let done = json(&call(&mut ana, "POST", &finish, Some(&json!({"conflict": "keep-both"}))), 200);
    assert_eq!(done["path"], "/f (2).txt");
    assert_eq!(ana.get("/dav/ana/f (2).txt").expect("answers").text(), "12345");
    ana.put("/dav/ana/f.txt", "changed").expect("answers");
    send(&mut ana, &part(&replace, 0, b"new"), 412);
    assert_eq!(ana.get("/dav/ana/f.txt").expect("answers").text(), "changed");
    let done = call(&mut ana, "POST", &format!("{replace}/finish"), Some(&json!({"conflict": "replace"})));
    assert_eq!(json(&done, 200)["path"], "/f.txt");
    assert_eq!(ana.get("/dav/ana/f.txt").expect("answers").text(), "new");
}

#[test]
fn an_upload_goes_on_after_the_connection_breaks_and_after_the_server_is_killed() {
    let drive = Drive::new();
    let mut server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    let content = incompressible(1, 40 * MIB);
    let upload = begin(&mut ana, content.len(), &[("path", "f")]);
    let authorization = ana.authorization().expect("signs in").to_owned();
    let head = |offset: usize, length: usize| {
        format!(
            "PATCH {upload} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: {offset}\r\n\
             Content-Type: application/offset+octet-stream\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let mut at = 0;
    for end in [70_000, 3 * MIB + 1, 12 * MIB] {
        let mut connection = ana.raw().expect("connects");
        connection.write(head(at, content.len() - at).as_bytes()).expect("writes");
        connection.write(&content[at..end]).expect("writes");
        connection.finish_writing().expect("closes");
        drop(connection);
        // The server makes durable what it got, which takes a moment.
        while offset(&mut ana, &upload) < end {
            std::thread::yield_now();
        }
        at = offset(&mut ana, &upload);
        assert_eq!(at, end);
    }
    let mut connection = ana.raw().expect("connects");
    connection.write(head(at, content.len() - at).as_bytes()).expect("writes");
    connection.write(&content[at..30 * MIB]).expect("writes");
    server.kill_9().expect("kills");
    drop(connection);
    let server = server.start_again().expect("starts");
    let mut ana = server.client_of("ana", PASSWORD);
    let told = offset(&mut ana, &upload);
    assert!((at..=30 * MIB).contains(&told), "{told}");
    send(&mut ana, &part(&upload, told, &content[told..]), 204);
    assert!(ana.get("/dav/ana/f").expect("answers").body == content);
    drop(server);
    drive.ok(&["check", "--read-data"], "");
}
