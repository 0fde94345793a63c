//! Files over the JSON API of the built program.

use crate::common::{Drive, OTHER_PASSWORD, PASSWORD, call, json};
use holdfast_testkit::http::{Client, Request, Response};
use holdfast_testkit::server::TestServer;
use serde_json::{Value, json};

const CONTENT: &str = "/api/v1/content/ana";

fn send(client: &mut Client, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let request =
        headers.iter().fold(Request::with_target(method, path), |request, &(name, value)| request.header(name, value));
    let request = if method == "GET" || method == "HEAD" { request } else { request.body(body.to_owned()) };
    client.send(&request).expect("answers")
}

fn ana(drive: &Drive) -> (TestServer, Client) {
    let server = drive.start();
    let client = server.client_of("ana", PASSWORD);
    (server, client)
}

fn names(folder: &Value) -> Vec<&str> {
    folder["entries"].as_array().expect("a list").iter().map(|entry| entry["name"].as_str().expect("a name")).collect()
}

fn at(path: &str) -> Value {
    json!({"space": "ana", "path": path})
}

#[test]
fn a_file_is_written_on_conditions_and_read_whole_in_part_and_not_again() {
    let drive = Drive::new();
    let (_server, mut ana) = ana(&drive);
    let path = format!("{CONTENT}/a%20b.txt");
    let made = send(&mut ana, "PUT", &path, &[("if-none-match", "*")], "hello world");
    let first = json(&made, 201)["etag"].as_str().expect("a tag").to_owned();
    assert_eq!(made.header("etag"), Some(first.as_str()));
    assert_eq!(send(&mut ana, "PUT", &path, &[("if-none-match", "*")], "x").status, 412);
    let second = json(&send(&mut ana, "PUT", &path, &[("if-match", &first)], "HELLO WORLD"), 200);
    assert_eq!(send(&mut ana, "PUT", &path, &[("if-match", &first)], "lost").status, 412);
    assert_eq!(send(&mut ana, "PUT", &path, &[("content-encoding", "gzip")], "x").status, 400);
    let dated = send(&mut ana, "PUT", &format!("{CONTENT}/old.txt?modified_ms=1000000000000"), &[], "x");
    assert_eq!(json(&dated, 201)["modified_ms"], json!(1_000_000_000_000_i64));
    assert_eq!(send(&mut ana, "PUT", &format!("{path}?modified_ms=soon"), &[], "x").status, 400);

    assert_eq!(send(&mut ana, "GET", &path, &[], "").text(), "HELLO WORLD");
    let part = send(&mut ana, "GET", &path, &[("range", "bytes=6-")], "");
    assert_eq!((part.status, part.text().as_ref()), (206, "WORLD"));
    assert_eq!(send(&mut ana, "GET", &path, &[("range", "bytes=99-")], "").header("content-range"), Some("bytes */11"));
    let tag = second["etag"].as_str().expect("a tag");
    assert_eq!(send(&mut ana, "GET", &path, &[("if-none-match", tag)], "").status, 304);
    let head = send(&mut ana, "HEAD", &path, &[], "");
    assert_eq!((head.header("content-length"), head.body.len()), (Some("11"), 0));

    let versions = json(&call(&mut ana, "GET", "/api/v1/spaces/ana/versions?path=a%20b.txt", None), 200);
    let old = format!("{path}?version={}", versions[0]["version"]);
    assert_eq!(send(&mut ana, "GET", &old, &[("range", "bytes=0-4")], "").text(), "hello");
    assert_eq!(send(&mut ana, "GET", &old, &[], "").header("etag"), Some(first.as_str()), "as when it was current");
    assert_eq!(send(&mut ana, "GET", &format!("{path}?version=999999"), &[], "").status, 404);
    let node = json(&call(&mut ana, "GET", "/api/v1/nodes/ana/a%20b.txt", None), 200);
    assert_eq!((&node["versions"], &node["type"], &node["role"]), (&json!(1), &json!("text/plain"), &json!("owner")));
}

#[test]
fn nothing_that_was_uploaded_is_ever_a_document_of_the_drive() {
    let drive = Drive::new();
    let (_server, mut ana) = ana(&drive);
    for (name, kind) in [
        ("x.html", "text/plain; charset=utf-8"),
        ("x.svg", "text/plain; charset=utf-8"),
        ("x.png", "image/png"),
        ("x.swf", "application/octet-stream"),
    ] {
        let path = format!("{CONTENT}/{name}");
        send(&mut ana, "PUT", &path, &[("content-type", "text/html")], "<script>alert(1)</script>");
        for range in [&[][..], &[("range", "bytes=0-3")]] {
            let answer = send(&mut ana, "GET", &path, range, "");
            assert_eq!(answer.header("content-type"), Some(kind), "{name}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(answer.header("content-security-policy"), Some("sandbox; default-src 'none'"));
        }
    }
    send(&mut ana, "PUT", &format!("{CONTENT}/%C3%BC%22.txt"), &[], "x");
    let saved = send(&mut ana, "GET", &format!("{CONTENT}/%C3%BC%22.txt?download"), &[], "");
    let wanted = "attachment; filename=\"__.txt\"; filename*=UTF-8''%C3%BC%22.txt";
    assert_eq!(saved.header("content-disposition"), Some(wanted));
}

#[test]
fn folders_are_made_and_listed_page_by_page_and_hostile_paths_are_refused() {
    let drive = Drive::new();
    let (server, mut ana) = ana(&drive);
    assert_eq!(call(&mut ana, "POST", "/api/v1/folders/ana/d", None).status, 201);
    assert_eq!(call(&mut ana, "POST", "/api/v1/folders/ana/d", None).status, 409);
    assert_eq!(call(&mut ana, "POST", "/api/v1/folders/ana/no/d", None).status, 409);
    for name in ["a", "b", "c%2520"] {
        assert_eq!(send(&mut ana, "PUT", &format!("{CONTENT}/d/{name}"), &[], name).status, 201);
    }
    let first = json(&call(&mut ana, "GET", "/api/v1/folders/ana/d?limit=2", None), 200);
    assert_eq!((names(&first), &first["next"]), (vec!["a", "b"], &json!("b")));
    let rest = json(&call(&mut ana, "GET", "/api/v1/folders/ana/d/?limit=2&after=b", None), 200);
    assert_eq!(names(&rest), ["c%20"], "decoded once");
    assert!(rest.get("next").is_none());
    for root in ["/api/v1/folders/ana", "/api/v1/folders/ana/"] {
        assert_eq!(names(&json(&call(&mut ana, "GET", root, None), 200)), ["d"]);
    }
    for (path, status) in [
        ("/api/v1/nodes/ana/%2e%2e/ben", 400),
        ("/api/v1/nodes/ana/d%2Fa", 400),
        ("/api/v1/nodes/ana/%00", 400),
        ("/api/v1/nodes/ana/%ff", 400),
        ("/api/v1/nodes/ana/d/a/b", 404),
        ("/api/v1/nodes/ben", 404),
        ("/api/v1/folders/ana/d/a", 409),
        ("/api/v1/folders/ana/d?limit=10001", 400),
        ("/api/v1/folders/ana/d?after=a/b", 400),
        ("/api/v1/content/ana/d", 409),
    ] {
        assert_eq!(call(&mut ana, "GET", path, None).status, status, "{path}");
    }
    let mut ben = server.client_of("ben", OTHER_PASSWORD);
    assert_eq!(call(&mut ben, "GET", "/api/v1/folders/ana/d", None).status, 404);
}

#[test]
fn many_things_are_moved_copied_and_removed_and_one_that_fails_stops_no_other() {
    let drive = Drive::new();
    let (_server, mut ana) = ana(&drive);
    for name in ["a.txt", "b.txt"] {
        send(&mut ana, "PUT", &format!("{CONTENT}/{name}"), &[], name);
    }
    call(&mut ana, "POST", "/api/v1/folders/ana/d", None);
    let order = |conflict: &str, pairs: &[(&str, &str)]| {
        let items: Vec<Value> = pairs.iter().map(|(from, to)| json!({"from": at(from), "to": at(to)})).collect();
        json!({"items": items, "conflict": conflict})
    };
    let body =
        order("fail", &[("a.txt", "d/a.txt"), ("none", "d/x"), ("b.txt", "d/a.txt"), ("d", "d/d"), ("../x", "y")]);
    let done = json(&call(&mut ana, "POST", "/api/v1/copy", Some(&body)), 200);
    let statuses: Vec<_> =
        done["results"].as_array().expect("a list").iter().map(|one| &one["problem"]["status"]).collect();
    assert_eq!(json!(statuses), json!([null, 404, 409, 409, 400]));
    let body = order("keep-both", &[("b.txt", "d/a.txt"), ("a.txt", "d/a.txt"), ("d/a.txt", "d/a.txt")]);
    let done = json(&call(&mut ana, "POST", "/api/v1/copy", Some(&body)), 200);
    let made: Vec<_> = done["results"].as_array().expect("a list").iter().map(|one| &one["node"]["name"]).collect();
    assert_eq!(json!(made), json!(["a (2).txt", "a (3).txt", "a (4).txt"]));
    let body = order("replace", &[("b.txt", "d/a.txt")]);
    json(&call(&mut ana, "POST", "/api/v1/move", Some(&body)), 200);
    assert_eq!(send(&mut ana, "GET", &format!("{CONTENT}/d/a.txt"), &[], "").text(), "b.txt");
    assert_eq!(send(&mut ana, "GET", &format!("{CONTENT}/b.txt"), &[], "").status, 404);

    let body = json!({"items": [at("d"), at("none"), at("a.txt")]});
    let done = json(&call(&mut ana, "POST", "/api/v1/remove", Some(&body)), 200);
    assert_eq!(done["results"][1]["problem"]["status"], 404);
    let undo = format!("/api/v1/spaces/ana/trash/{}", done["results"][0]["trash"]);
    assert_eq!(json(&call(&mut ana, "POST", &undo, Some(&json!({}))), 200)["name"], "d");
    let kept = json(&call(&mut ana, "GET", "/api/v1/folders/ana/d", None), 200);
    assert_eq!(names(&kept), ["a (2).txt", "a (3).txt", "a (4).txt", "a.txt"]);
    let many: Vec<Value> = (0..1_001).map(|_| at("x")).collect();
    assert_eq!(call(&mut ana, "POST", "/api/v1/remove", Some(&json!({"items": many}))).status, 413);
}

/// What python's zipfile makes of an archive: `[[path, bytes, year, month, external attributes >> 16], …]`, having tested every sum.
fn unzip(archive: &[u8]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.zip");
    std::fs::write(&path, archive).expect("written");
    let script = "import json, sys, zipfile\n\
                  z = zipfile.ZipFile(sys.argv[1])\n\
                  assert z.testzip() is None\n\
                  print(json.dumps([[i.filename, z.read(i).decode(errors='replace')[:40], i.date_time[0], i.external_attr >> 28] for i in z.infolist()]))";
    let output = std::process::Command::new("python3").args(["-c", script]).arg(&path).output().expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("is JSON")
}

#[test]
fn a_folder_or_a_selection_comes_as_a_zip_that_other_programs_read() {
    let drive = Drive::new();
    let (_server, mut ana) = ana(&drive);
    for folder in ["d", "d/empty", "d/sub", "e"] {
        call(&mut ana, "POST", &format!("/api/v1/folders/ana/{folder}"), None);
    }
    for (path, content) in [
        ("d/a.txt", "one"),
        ("d/sub/%C3%A9.png", "two"),
        ("d/..%5C..%5Cx", "three"),
        ("d/none", ""),
        ("e/a.txt", "four"),
    ] {
        assert_eq!(send(&mut ana, "PUT", &format!("{CONTENT}/{path}"), &[], content).status, 201, "{path}");
    }
    let answer = call(&mut ana, "GET", "/api/v1/archive/ana/d", None);
    assert_eq!(answer.header("content-type"), Some("application/zip"));
    assert!(answer.header("content-disposition").expect("is there").starts_with("attachment; filename=\"d.zip\""));
    let listed = unzip(&answer.body);
    let seen: Vec<(&str, &str)> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| (entry[0].as_str().expect("a path"), entry[1].as_str().expect("content")))
        .collect();
    assert!(seen[1].0.starts_with("d/.._.._x ~"), "{seen:?}");
    let rest: Vec<_> = seen.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, seen)| *seen).collect();
    let wanted =
        [("d/", ""), ("d/a.txt", "one"), ("d/empty/", ""), ("d/none", ""), ("d/sub/", ""), ("d/sub/é.png", "two")];
    assert_eq!(rest, wanted);
    assert!(listed[0][2].as_i64().expect("a year") >= 2024 && listed[0][3] == 4 && listed[2][3] == 8, "{listed}");

    let items = json!([at("d/a.txt"), at("e/a.txt"), at("d/sub")]).to_string();
    let form = format!("items={}", items.replace('%', "%25").replace('&', "%26").replace('+', "%2B"));
    let kind = [("content-type", "application/x-www-form-urlencoded")];
    let selected = unzip(&send(&mut ana, "POST", "/api/v1/archive", &kind, &form).body);
    let paths: Vec<_> = selected.as_array().expect("a list").iter().map(|entry| entry[0].clone()).collect();
    assert_eq!(json!(paths), json!(["a.txt", "a (2).txt", "sub/", "sub/é.png"]));
    assert_eq!(unzip(&call(&mut ana, "GET", "/api/v1/archive/ana", None).body)[0][0], "ana/");
    for (items, status) in [("[]", 400), ("nonsense", 400), ("[{\"space\":\"ana\",\"path\":\"none\"}]", 404)] {
        assert_eq!(
            send(&mut ana, "POST", "/api/v1/archive", &kind, &format!("items={items}")).status,
            status,
            "{items}"
        );
    }
    assert_eq!(call(&mut ana, "GET", "/api/v1/archive/ana/none", None).status, 404);
}

#[test]
fn clients_that_leave_an_archive_leave_no_work_behind() {
    use std::io::{Read, Write};
    let drive = Drive::new();
    let (server, mut ana) = ana(&drive);
    let mut noise = 1u32;
    let content: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (noise >> 24) as u8
    })
    .take(48 << 20)
    .collect();
    assert_eq!(ana.put("/dav/ana/big.zip", content).expect("answers").status, 201);
    let authorization = ana.authorization().expect("is set").to_owned();
    let path = "/api/v1/archive/ana/big.zip";
    let begin = || {
        let mut socket = std::net::TcpStream::connect(server.address()).expect("connects");
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n");
        socket.write_all(head.as_bytes()).expect("sends");
        let mut start = [0; 12];
        socket.read_exact(&mut start).expect("answers");
        (socket, String::from_utf8_lossy(&start).into_owned())
    };
    let held: Vec<_> = (0..8).map(|_| begin()).collect();
    assert!(held.iter().all(|(_, start)| start == "HTTP/1.1 200"));
    assert_eq!(begin().1, "HTTP/1.1 503", "so many at once and no more");
    drop(held);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while begin().1 != "HTTP/1.1 200" {
        assert!(std::time::Instant::now() < deadline, "turns were not given back");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
