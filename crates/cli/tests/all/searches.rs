//! Saved searches over the JSON API, WebDAV and the command line of the built program.

use crate::common::{Drive, OTHER_PASSWORD, PASSWORD, call, json};
use holdfast_testkit::http::{Client, Request, Response};
use serde_json::{Value, json};

const SEARCHES: &str = "/api/v1/searches";

fn put(client: &mut Client, path: &str, body: &str) -> Response {
    client.send(&Request::with_target("PUT", path).body(body.to_owned())).expect("answers")
}

fn save(client: &mut Client, name: &str, query: &Value) -> Value {
    json(&call(client, "POST", SEARCHES, Some(&json!({"name": name, "query": query}))), 201)
}

fn found(client: &mut Client, id: &Value) -> Vec<String> {
    let answer = json(&call(client, "GET", &format!("{SEARCHES}/{id}/nodes"), None), 200);
    let hits = answer["hits"].as_array().expect("a list");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    hits.iter().map(|hit| text(&hit["space"]) + &text(&hit["path"])).collect()
}

#[test]
fn a_search_is_saved_changed_and_removed_and_finds_what_is_there_now() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    assert_eq!(json(&call(&mut ana, "GET", SEARCHES, None), 200), json!([]));
    json(&call(&mut ana, "POST", "/api/v1/folders/ana/in", None), 201);
    let wanted = json!({"name": "Bills", "query": {"q": "invoice", "type": "pdf", "tags": ["Paid"]},
        "folder": {"space": "ana", "path": "/in"}});
    let saved = json(&call(&mut ana, "POST", SEARCHES, Some(&wanted)), 201);
    assert_eq!(saved["query"], wanted["query"]);
    assert_eq!(saved["folder"], wanted["folder"]);
    assert_eq!(found(&mut ana, &saved["id"]), Vec::<String>::new());

    // A file comes with its tags in one step, and is found.
    let content = "/api/v1/content/ana";
    let made = json(&put(&mut ana, &format!("{content}/in/invoice%201.pdf?tag=paid&tag=2024"), "x"), 201);
    assert_eq!(made["tags"], json!(["2024", "paid"]));
    assert_eq!(put(&mut ana, &format!("{content}/in/invoice.txt?tag=paid"), "x").status, 201);
    assert_eq!(put(&mut ana, &format!("{content}/in/x?tag=%0A"), "x").status, 400);
    assert_eq!(put(&mut ana, &format!("{content}/in/x?tags=a"), "x").status, 400);
    assert_eq!(found(&mut ana, &saved["id"]), ["ana/in/invoice 1.pdf"]);

    let path = format!("{SEARCHES}/{}", saved["id"]);
    let change = json!({"name": "Invoices", "query": {"q": "invoice"}, "folder": null});
    let changed = json(&call(&mut ana, "PATCH", &path, Some(&change)), 200);
    assert_eq!((&changed["name"], &changed["folder"]["path"]), (&json!("Invoices"), &json!("/")));
    let page = json(&call(&mut ana, "GET", &format!("{path}/nodes?limit=1"), None), 200);
    let cursor = page["cursor"].as_str().expect("there is more");
    let next = json(&call(&mut ana, "GET", &format!("{path}/nodes?limit=1&cursor={cursor}"), None), 200);
    assert_ne!(page["hits"][0]["path"], next["hits"][0]["path"]);
    assert_eq!(json(&call(&mut ana, "GET", SEARCHES, None), 200).as_array().map(Vec::len), Some(1));

    assert_eq!(call(&mut ana, "DELETE", &path, None).status, 204);
    assert_eq!(call(&mut ana, "DELETE", &path, None).status, 404);
    assert_eq!(call(&mut ana, "GET", &format!("{path}/nodes"), None).status, 404);
    assert_eq!(call(&mut ana, "GET", "/api/v1/nodes/ana/in/invoice.txt", None).status, 200, "what it found stays");
}

#[test]
fn bad_searches_are_refused_and_others_are_nobody_elses() {
    let drive = Drive::new();
    let server = drive.start();
    let (mut ana, mut ben) = (server.client_of("ana", PASSWORD), server.client_of("ben", OTHER_PASSWORD));
    let saved = save(&mut ana, "mine", &json!({"q": "a"}));
    put(&mut ana, "/api/v1/content/ana/file", "x");
    for (wanted, status) in [
        (json!({"name": "x", "query": {}}), 400),
        (json!({"name": "x", "query": {"q": "  "}}), 400),
        (json!({"name": "x", "query": {"q": "a", "sort": "b"}}), 400),
        (json!({"name": "x", "query": {"q": "a", "kind": "both"}}), 400),
        (json!({"name": "x", "query": {"q": "a", "type": "music"}}), 400),
        (json!({"name": "x", "query": {"q": "a", "tags": [""]}}), 400),
        (json!({"name": "x", "query": {"q": "a", "min_bytes": -1}}), 400),
        (json!({"name": "x", "query": {"q": "x".repeat(257)}}), 413),
        (json!({"name": "x", "query": {"tags": ["1", "2", "3", "4", "5", "6", "7", "8", "9"]}}), 413),
        (json!({"name": "x", "query": {"q": "a", "space": "ben"}}), 404),
        (json!({"name": "", "query": {"q": "a"}}), 400),
        (json!({"name": "a/b", "query": {"q": "a"}}), 400),
        (json!({"name": "n".repeat(256), "query": {"q": "a"}}), 413),
        (json!({"name": "mine", "query": {"q": "a"}}), 409),
        (json!({"name": "x", "query": {"q": "a"}, "folder": {"space": "ben", "path": "/"}}), 404),
        (json!({"name": "x", "query": {"q": "a"}, "folder": {"space": "ana", "path": "/none"}}), 404),
        (json!({"name": "x", "query": {"q": "a"}, "folder": {"space": "ana", "path": "/file"}}), 409),
    ] {
        let answer = call(&mut ana, "POST", SEARCHES, Some(&wanted));
        assert_eq!(answer.status, status, "{wanted} {}", answer.text());
    }
    for id in [saved["id"].to_string(), "0".into(), "x".into(), "99999999999999999999".into()] {
        let path = format!("{SEARCHES}/{id}");
        assert_eq!(call(&mut ben, "GET", &format!("{path}/nodes"), None).status, 404);
        assert_eq!(call(&mut ben, "PATCH", &path, Some(&json!({"name": "b"}))).status, 404);
        assert_eq!(call(&mut ben, "DELETE", &path, None).status, 404);
    }
    // A token for one space has no part in them, one that only reads changes none.
    let token = |fields: Value| {
        let mut client = server.client_of("ana", PASSWORD);
        let made = json(&call(&mut client, "POST", "/api/v1/tokens", Some(&fields)), 201);
        server.client_of("ana", made["token"].as_str().expect("a token"))
    };
    let mut limited = token(json!({"label": "one space", "space": "ana"}));
    assert_eq!(json(&call(&mut limited, "GET", SEARCHES, None), 200), json!([]));
    assert_eq!(call(&mut limited, "POST", SEARCHES, Some(&json!({"name": "t", "query": {"q": "a"}}))).status, 403);
    let mut reader = token(json!({"label": "reads", "read_only": true}));
    assert_eq!(json(&call(&mut reader, "GET", SEARCHES, None), 200).as_array().map(Vec::len), Some(1));
    assert_eq!(call(&mut reader, "DELETE", &format!("{SEARCHES}/{}", saved["id"]), None).status, 403);
}

#[test]
fn an_upload_in_parts_comes_with_its_tags() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    // space ana, path /a.txt, tags "Paid" and "To do"
    let metadata = "space YW5h,path L2EudHh0,tags UGFpZApUbyBkbw==";
    let begun = Request::with_target("POST", "/api/v1/uploads")
        .header("tus-resumable", "1.0.0")
        .header("upload-length", "5")
        .header("upload-metadata", metadata);
    let begun = ana.send(&begun.body(String::new())).expect("answers");
    assert_eq!(begun.status, 201, "{}", begun.text());
    let location = begun.header("location").expect("an address").to_owned();
    let part = Request::with_target("PATCH", &location)
        .header("tus-resumable", "1.0.0")
        .header("upload-offset", "0")
        .header("content-type", "application/offset+octet-stream");
    assert_eq!(ana.send(&part.body("hello".to_owned())).expect("answers").status, 204);
    let node = json(&call(&mut ana, "GET", "/api/v1/nodes/ana/a.txt", None), 200);
    assert_eq!(node["tags"], json!(["Paid", "To do"]));
}

#[test]
fn what_was_saved_is_a_folder_for_webdav_and_the_command_line_knows_it() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    put(&mut ana, "/api/v1/content/ana/report.txt", "x");
    let user = ["--user", "ana", "--password-file", "-"];
    let search = |arguments: &[&str]| drive.json(&[&["search"], arguments, &user].concat(), PASSWORD);
    search(&["report", "--type", "text", "--tag", "Paid", "--save", "Reports"]);
    let listed = search(&["--list"]);
    assert_eq!((&listed[0]["name"], &listed[0]["tags"]), (&json!("Reports"), &json!(["Paid"])));
    assert_eq!(search(&["--saved", "Reports"])["hits"], json!([]));
    let folder = "/dav/Saved%20searches/Reports/";
    assert_eq!(put(&mut ana, &format!("{folder}report%202.txt"), "y").status, 201);
    assert_eq!(search(&["--saved", "Reports"])["hits"][0]["path"], json!("/report 2.txt"));
    let page = ana.send(&Request::with_target("GET", folder)).expect("answers");
    assert!(page.text().contains("report 2.txt") && !page.text().contains("report.txt"), "{}", page.text());
    let (code, message) = drive.fails(&[&["search", "--saved", "none"], &user[..]].concat(), PASSWORD);
    assert!(code != 0 && message.contains("no saved search"), "{message}");
    search(&["--remove", "Reports"]);
    assert_eq!(search(&["--list"]), json!([]));
    assert_eq!(ana.send(&Request::with_target("GET", folder)).expect("answers").status, 404);
}

#[test]
fn tags_are_completed_in_a_shared_folder_from_that_folder_alone() {
    let drive = Drive::new();
    let server = drive.start();
    let (mut ana, mut ben) = (server.client_of("ana", PASSWORD), server.client_of("ben", OTHER_PASSWORD));
    json(&call(&mut ana, "POST", "/api/v1/folders/ana/trip", None), 201);
    put(&mut ana, "/api/v1/content/ana/trip/a.jpg?tag=Beach", "x");
    put(&mut ana, "/api/v1/content/ana/secret.txt?tag=Bankrupt", "x");
    let share = json!({"space": "ana", "path": "/trip", "account": "ben", "access": "read"});
    json(&call(&mut ana, "POST", "/api/v1/shares", Some(&share)), 201);
    for path in ["/api/v1/tags?prefix=b", "/api/v1/tags?space=trip%20(ana)"] {
        let tags = json(&call(&mut ben, "GET", path, None), 200);
        assert_eq!(tags, json!([{"tag": "Beach", "count": 1, "more": false}]), "{path}");
    }
}
