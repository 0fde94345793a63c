//! The JSON API of the built program.

use crate::common::{Drive, OTHER_PASSWORD, PASSWORD, call, json};
use holdfast_testkit::http::Request;
use serde_json::{Value, json};

#[test]
fn the_api_describes_itself_to_everybody_and_answers_what_it_describes() {
    let drive = Drive::new();
    let server = drive.start();
    let document = json(&server.client().get("/api/v1/openapi.json").expect("answers"), 200);
    assert!(document["openapi"].as_str().expect("a version").starts_with("3."));
    let mut ana = server.client_of("ana", PASSWORD);
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for method in operations.as_object().expect("operations").keys() {
            let path =
                path.replace("{space}", "ana").replace("{entry}", "0").replace("{id}", "0").replace("{name}", "nobody");
            let answer = call(&mut ana, &method.to_uppercase(), &path, Some(&json!({})));
            assert_ne!(answer.status, 405, "{method} {path}");
            assert!(!answer.text().contains("there is no such address"), "{method} {path}");
        }
    }
}

#[test]
fn errors_are_problem_details() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    let bad_body = json!({"label": "x", "read_olny": true});
    for (method, path, body, status) in [
        ("GET", "/api/v1/nothing", None, 404),
        ("DELETE", "/api/v1/me", None, 405),
        ("GET", "/api/v1/spaces/none", None, 404),
        ("GET", "/api/v1/spaces/ana/versions", None, 400),
        ("GET", "/api/v1/spaces/ana/versions?path=../x", None, 400),
        ("POST", "/api/v1/tokens", Some(&bad_body), 400),
        ("DELETE", "/api/v1/tokens/12345", None, 404),
        ("DELETE", "/api/v1/tokens/x", None, 400),
    ] {
        let answer = call(&mut ana, method, path, body);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{method} {path}");
        let problem = json(&answer, status);
        assert_eq!(problem["status"], status);
        assert!(!problem["detail"].as_str().expect("text").is_empty(), "{problem}");
    }
    let answer = call(&mut server.client(), "GET", "/api/v1/me", None);
    assert_eq!(json(&answer, 401)["status"], 401);
}

#[test]
fn somebody_sees_themselves_their_spaces_versions_and_trash() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    let me = json(&call(&mut ana, "GET", "/api/v1/me", None), 200);
    assert_eq!((&me["name"], &me["admin"], &me["spaces"][0]["name"]), (&json!("ana"), &json!(true), &json!("ana")));

    for content in ["one", "three"] {
        ana.put("/dav/ana/a.txt", content).expect("answers");
    }
    let space = json(&call(&mut ana, "GET", "/api/v1/spaces/ana", None), 200);
    assert_eq!((&space["used_bytes"], &space["version_bytes"]), (&json!(8), &json!(3)));
    let versions = json(&call(&mut ana, "GET", "/api/v1/spaces/ana/versions?path=a.txt", None), 200);
    let wanted = json!({"path": "a.txt", "version": versions[0]["version"]});
    json(&call(&mut ana, "POST", "/api/v1/spaces/ana/versions/restore", Some(&wanted)), 200);
    assert_eq!(ana.get("/dav/ana/a.txt").expect("answers").text(), "one");

    ana.delete("/dav/ana/a.txt").expect("answers");
    let trash = json(&call(&mut ana, "GET", "/api/v1/spaces/ana/trash", None), 200);
    let entry = format!("/api/v1/spaces/ana/trash/{}", trash[0]["entry"]);
    json(&call(&mut ana, "POST", &entry, Some(&json!({}))), 200);
    assert_eq!(ana.get("/dav/ana/a.txt").expect("answers").text(), "one");
    ana.delete("/dav/ana/a.txt").expect("answers");
    let freed = json(&call(&mut ana, "DELETE", "/api/v1/spaces/ana/trash", None), 200);
    assert!(freed["freed_bytes"].as_u64().expect("a number") > 0);

    let mut ben = server.client_of("ben", OTHER_PASSWORD);
    assert_eq!(call(&mut ben, "GET", "/api/v1/spaces/ana/trash", None).status, 404);
}

#[test]
fn tokens_and_passwords_are_their_owner_s() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    let made = json(&call(&mut ana, "POST", "/api/v1/tokens", Some(&json!({"label": "script", "space": "ana"}))), 201);
    let mut script = server.client_of("ana", made["token"].as_str().expect("shown"));
    assert_eq!(script.get("/dav/ana/").expect("answers").status, 200);
    assert_eq!(call(&mut script, "POST", "/api/v1/tokens", Some(&json!({"label": "more"}))).status, 403);
    let listed = json(&call(&mut ana, "GET", "/api/v1/tokens", None), 200);
    assert_eq!(listed[0]["space"], "ana");
    let path = format!("/api/v1/tokens/{}", made["id"]);
    assert_eq!(call(&mut script, "DELETE", &path, None).status, 403);
    assert_eq!(call(&mut ana, "DELETE", &path, None).status, 204);
    assert_eq!(script.get("/dav/ana/").expect("answers").status, 401);

    let change = |current: &str, new: &str| json!({"current": current, "new": new});
    let new = "nine brass kettles sang";
    assert_eq!(call(&mut ana, "PUT", "/api/v1/me/password", Some(&change("wrong", new))).status, 403);
    assert_eq!(call(&mut ana, "PUT", "/api/v1/me/password", Some(&change(PASSWORD, "short"))).status, 400);
    assert_eq!(call(&mut ana, "PUT", "/api/v1/me/password", Some(&change(PASSWORD, new))).status, 204);
    assert_eq!(call(&mut ana, "GET", "/api/v1/me", None).status, 401);
    assert_eq!(server.client_of("ana", new).get("/dav/ana/").expect("answers").status, 200);
}

#[test]
fn accounts_are_for_administrators() {
    let drive = Drive::new();
    let server = drive.start();
    let (mut ana, mut ben) = (server.client_of("ana", PASSWORD), server.client_of("ben", OTHER_PASSWORD));
    let eva = json!({"name": "eva", "quota_bytes": 1000});
    assert_eq!(call(&mut ben, "GET", "/api/v1/accounts", None).status, 403);
    assert_eq!(call(&mut ben, "POST", "/api/v1/accounts", Some(&eva)).status, 403);
    let made = json(&call(&mut ana, "POST", "/api/v1/accounts", Some(&eva)), 201);
    assert_eq!(call(&mut ana, "POST", "/api/v1/accounts", Some(&eva)).status, 409);
    let mut client = server.client_of("eva", made["password"].as_str().expect("made up"));
    assert_eq!(client.put("/dav/eva/x", vec![0; 2_000]).expect("answers").status, 507);
    let patch = |client: &mut _, body: Value| call(client, "PATCH", "/api/v1/accounts/eva", Some(&body));
    assert_eq!(json(&patch(&mut ana, json!({"admin": false})), 200)["quota_bytes"], 1000, "absent leaves it");
    assert!(
        json(&patch(&mut ana, json!({"quota_bytes": null})), 200).get("quota_bytes").is_none(),
        "null is unlimited"
    );
    assert_eq!(client.put("/dav/eva/x", vec![0; 2_000]).expect("answers").status, 201);
    json(&patch(&mut ana, json!({"disabled": true})), 200);
    assert_eq!(client.get("/dav/eva/x").expect("answers").status, 403);
    assert_eq!(patch(&mut ben, json!({"disabled": false})).status, 403);
    let own = call(&mut ana, "PATCH", "/api/v1/accounts/ana", Some(&json!({"disabled": true})));
    assert_eq!(own.status, 409, "nobody shuts themselves out");
}

#[test]
fn files_are_tagged_and_found_by_who_may_see_them() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    let mut ben = server.client_of("ben", OTHER_PASSWORD);
    ana.send(&Request::with_target("MKCOL", "/dav/ana/Bills")).expect("answers");
    for (path, content) in [("Bills/Électricité 2024.pdf", "one"), ("Bills/water.txt", "three")] {
        assert_eq!(ana.put(&format!("/dav/ana/{path}"), content).expect("answers").status, 201);
    }
    ben.put("/dav/ben/electric.txt", "x").expect("answers");
    let items: Vec<Value> = ["Bills/Électricité 2024.pdf", "Bills/water.txt", "none", "../x"]
        .map(|path| json!({"space": "ana", "path": path}))
        .into_iter()
        .chain([json!({"space": "ben", "path": "electric.txt"})])
        .collect();
    let body = json!({"items": items, "add": ["To Pay", "2024"]});
    let results = json(&call(&mut ana, "POST", "/api/v1/tags", Some(&body)), 200)["results"].clone();
    let statuses: Vec<Value> =
        results.as_array().expect("a list").iter().map(|it| it["problem"]["status"].clone()).collect();
    assert_eq!(statuses, [json!(null), json!(null), json!(404), json!(400), json!(404)]);
    assert_eq!(results[0]["node"]["tags"], json!(["2024", "To Pay"]));
    let bad = json!({"items": [], "add": ["x".repeat(65)]});
    assert_eq!(call(&mut ana, "POST", "/api/v1/tags", Some(&bad)).status, 413);

    let hits = |client: &mut _, query: &str| {
        let found = json(&call(client, "GET", &format!("/api/v1/search?{query}"), None), 200);
        let hits = found["hits"].as_array().expect("a list");
        hits.iter().map(|hit| hit["path"].as_str().expect("a path").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(hits(&mut ana, "q=electr"), ["/Bills/Électricité 2024.pdf"]);
    assert_eq!(hits(&mut ben, "q=electr"), ["/electric.txt"]);
    assert_eq!(hits(&mut ana, "q=bills%20water&type=text"), ["/Bills/water.txt"]);
    assert_eq!(hits(&mut ana, "tag=to+pay&tag=2024&max_bytes=3"), ["/Bills/Électricité 2024.pdf"]);
    assert_eq!(hits(&mut ana, "q=bills&kind=folder&space=ana"), ["/Bills"]);
    let found = json(&call(&mut ana, "GET", "/api/v1/search?q=water", None), 200);
    let node = &found["hits"][0]["node"];
    assert_eq!((&node["kind"], &node["size_bytes"], &node["type"]), (&json!("file"), &json!(5), &json!("text/plain")));
    let etag = ana.get("/dav/ana/Bills/water.txt").expect("answers").header("etag").map(str::to_owned);
    assert_eq!(node["etag"].as_str().map(str::to_owned), etag);
    let page = json(&call(&mut ana, "GET", "/api/v1/search?tag=2024&limit=1", None), 200);
    assert_eq!((page["hits"].as_array().expect("a list").len(), &page["more"]), (1, &json!(true)));
    let next = format!("tag=2024&limit=1&cursor={}", page["cursor"].as_str().expect("a cursor"));
    assert_ne!(hits(&mut ana, &next), [page["hits"][0]["path"].as_str().expect("a path")]);

    let tags = json(&call(&mut ana, "GET", "/api/v1/tags?prefix=TO", None), 200);
    assert_eq!(tags, json!([{"tag": "To Pay", "count": 2, "more": false}]));
    assert_eq!(json(&call(&mut ben, "GET", "/api/v1/tags", None), 200), json!([]));
    for (query, status) in [
        ("search?q=x&space=ana", 404),
        ("tags?space=ana", 404),
        ("search?kind=x", 400),
        ("search?type=x", 400),
        ("search?min_bytes=x", 400),
        ("search?cursor=x", 400),
        ("search?size=1", 400),
    ] {
        assert_eq!(
            json(&call(&mut ben, "GET", &format!("/api/v1/{query}"), None), status)["status"],
            status,
            "{query}"
        );
    }
    let long = format!("/api/v1/search?q={}", "x".repeat(300));
    assert_eq!(call(&mut ben, "GET", &long, None).status, 413);

    // WebDAV neither shows tags nor lets them be written as properties, and copies them.
    let answer =
        ana.send(&Request::with_target("PROPFIND", "/dav/ana/Bills/water.txt").header("depth", "0")).expect("answers");
    assert!(answer.status == 207 && !answer.text().contains("Pay"), "{}", answer.text());
    let patch = "<D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop><t xmlns=\"urn:holdfast:tag\">x</t></D:prop></D:set></D:propertyupdate>";
    let answer = ana.send(&Request::with_target("PROPPATCH", "/dav/ana/Bills/water.txt").body(patch)).expect("answers");
    assert!(answer.text().contains("403"), "{}", answer.text());
    let copy = Request::with_target("COPY", "/dav/ana/Bills").header("destination", "/dav/ana/Copy");
    assert_eq!(ana.send(&copy).expect("answers").status, 201);
    assert_eq!(hits(&mut ana, "tag=to+pay").len(), 4);

    // The same on the command line, beside the server.
    let who = ["--user", "ana", "--password-file", "-"];
    let said = drive.json(&[&["tag", "remove", "ana", "Copy/water.txt", "TO PAY"][..], &who].concat(), PASSWORD);
    assert_eq!(said["tags"], json!(["2024"]));
    drive.ok(&[&["tag", "add", "ana", "Copy", "shared"][..], &who].concat(), PASSWORD);
    let listed = drive.json(&[&["tag", "list", "ana"][..], &who].concat(), PASSWORD);
    assert_eq!(listed.as_array().expect("a list").len(), 3);
    let found = drive.json(&[&["search", "copy", "water", "--tag", "2024"][..], &who].concat(), PASSWORD);
    assert_eq!(found["hits"][0]["path"], "/Copy/water.txt");
    let words = drive.ok(&[&["search", "shared"][..], &who].concat(), PASSWORD);
    assert!(words.contains("/Copy/") && words.contains("shared"), "{words}");
    assert_eq!(drive.fails(&["search", "--user", "ana"], "").0, 64, "nothing to look for");
    drive.ok(&["check"], "");
}
