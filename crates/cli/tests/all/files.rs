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
