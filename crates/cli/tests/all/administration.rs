//! Administration: the log of who did what, the monitor, nodes, store, spaces, settings.

use crate::common::{Drive, OTHER_PASSWORD, PASSWORD, call, json, until};
use holdfast_testkit::http::{Client, Request};
use serde_json::{Value, json};

#[test]
fn administration_is_for_administrators() {
    let drive = Drive::new();
    let server = drive.start();
    let (mut ana, mut ben) = (server.client_of("ana", PASSWORD), server.client_of("ben", OTHER_PASSWORD));
    let made = json(&call(&mut ana, "POST", "/api/v1/tokens", Some(&json!({"label": "x", "read_only": true}))), 201);
    let mut reader = server.client_of("ana", made["token"].as_str().expect("shown"));
    for path in
        ["audit", "audit/export?format=csv", "monitor", "monitor/history", "cluster", "store", "settings", "spaces"]
    {
        let path = format!("/api/v1/admin/{path}");
        assert_eq!(call(&mut ana, "GET", &path, None).status, 200, "{path}");
        assert_eq!(call(&mut ben, "GET", &path, None).status, 403, "{path}");
        assert_eq!(call(&mut reader, "GET", &path, None).status, 403, "{path}");
        assert_eq!(call(&mut server.client(), "GET", &path, None).status, 401, "{path}");
    }
    for (method, path) in [
        ("POST", "/api/v1/admin/reclaim"),
        ("PATCH", "/api/v1/admin/spaces/ben"),
        ("POST", "/api/v1/accounts/ana/sign-out"),
    ] {
        assert_eq!(call(&mut ben, method, path, Some(&json!({}))).status, 403, "{path}");
    }
}

#[test]
fn who_did_what_is_written_down_found_and_exported() {
    let drive = Drive::new();
    let server = drive.start();
    let (mut ana, mut ben) = (server.client_of("ana", PASSWORD), server.client_of("ben", OTHER_PASSWORD));
    let made = json!({"name": "eva", "password": "seven quiet lanterns drift"});
    json(&call(&mut ana, "POST", "/api/v1/accounts", Some(&made)), 201);
    let disable = json!({"disabled": true, "quota_bytes": 1000});
    json(&call(&mut ana, "PATCH", "/api/v1/accounts/eva", Some(&disable)), 200);
    // Written in the transaction that changed the account: there at once.
    let page = json(&call(&mut ana, "GET", "/api/v1/admin/audit?action=account", None), 200);
    let entries = page["entries"].as_array().expect("a list");
    let told = |entry: &Value, field: &str| entry[field].as_str().expect("text").to_owned();
    let lines: Vec<[String; 4]> =
        entries.iter().map(|entry| ["account", "action", "object", "result"].map(|field| told(entry, field))).collect();
    assert_eq!(
        lines,
        [["ana", "account.change", "eva", "ok"], ["ana", "account.make", "eva", "ok"]]
            .map(|line| line.map(str::to_owned))
    );
    assert_eq!(told(&entries[0], "detail"), "disabled true, quota 1000");
    assert_eq!(told(&entries[0], "address"), "127.0.0.1");

    // Refusals, and passwords that were wrong, many of which are one entry; a name that is none is not kept.
    assert_eq!(call(&mut ben, "PATCH", "/api/v1/accounts/ana", Some(&disable)).status, 403);
    for (name, password) in [("ana", "wrong wrong wrong"), ("my-secret-password", "x"), ("ana", "hfd_wrong")] {
        let body = json!({"name": name, "password": password});
        assert_eq!(call(&mut server.client(), "POST", "/api/v1/session", Some(&body)).status, 401);
    }
    let failed = until("failed sign-ins are written", || {
        let page = json(&call(&mut ana, "GET", "/api/v1/admin/audit?action=signin", None), 200);
        let entries = page["entries"].as_array().expect("a list").clone();
        let failed: Vec<Value> = entries.into_iter().filter(|entry| entry["result"] == "401").collect();
        (failed.len() >= 2).then(|| json!(failed))
    });
    let names: Vec<&str> =
        failed.as_array().expect("a list").iter().map(|it| it["account"].as_str().expect("text")).collect();
    assert!(names.contains(&"ana") && names.contains(&""), "{failed}");
    until("a refusal is written", || {
        let page = json(&call(&mut ana, "GET", "/api/v1/admin/audit?account=ben&action=account", None), 200);
        (page["entries"][0]["result"] == "403").then_some(page)
    });

    // A formula in a name that somebody asked for is text in the export.
    assert_eq!(call(&mut ana, "PATCH", "/api/v1/accounts/=1+1", Some(&json!({}))).status, 400);
    until("the export has everything", || {
        let answer = call(&mut ana, "GET", "/api/v1/admin/audit/export?format=csv", None);
        assert!(answer.header("content-disposition").is_some_and(|value| value.contains("audit.csv")));
        let text = answer.text();
        assert!(text.starts_with("at_ms,account,") && !text.contains(",\"=1"), "{text}");
        for secret in [PASSWORD, "seven quiet lanterns drift", "wrong wrong wrong", "my-secret-password", "hfd_wrong"] {
            assert!(!text.contains(secret), "{text}");
        }
        text.contains("\"'=1+1\"").then_some(json!(null))
    });
    let lines = call(&mut ana, "GET", "/api/v1/admin/audit/export?format=jsonl&account=ana", None).text();
    let all: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(all.len() >= 3 && all.iter().all(|entry| entry["account"] == "ana"), "{lines}");

    // Page by page, each entry once.
    let (mut before, mut ids) = (String::new(), Vec::new());
    loop {
        let page = json(&call(&mut ana, "GET", &format!("/api/v1/admin/audit?account=ana&limit=2{before}"), None), 200);
        ids.extend(page["entries"].as_array().expect("a list").iter().map(|it| it["id"].as_i64().expect("a number")));
        let Some(next) = page["next"].as_str() else { break };
        before = format!("&before={next}");
    }
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!((once.len(), ids.len() >= all.len()), (ids.len(), true));
    for bad in ["before=x", "limit=x", "from_ms=x", "what=1", "account=%00"] {
        assert_eq!(call(&mut ana, "GET", &format!("/api/v1/admin/audit?{bad}"), None).status, 400, "{bad}");
    }
    let said = drive.ok(&["audit", "--account", "ana", "--action", "account"], "");
    assert!(said.contains("account.change") && said.contains("eva (disabled true, quota 1000)"), "{said}");
    let said = drive.ok(&["audit", "--limit", "0", "--json"], "");
    assert!(said.lines().count() >= 5 && said.lines().all(|line| line.starts_with('{')), "{said}");
    // What is done on the drive's own machine is written down as well.
    drive.ok(&["account", "disable", "eva"], "");
    let said = drive.ok(&["audit", "--action", "command.account"], "");
    assert!(said.contains("account disable eva"), "{said}");
    drop(server);
    drive.ok(&["check"], "");
}

#[test]
fn the_monitor_tells_what_is_done_by_whom_and_how_long_it_takes() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    for number in 0..20 {
        assert_eq!(ana.put(&format!("/dav/ana/{number}.txt"), vec![b'x'; 1_000]).expect("answers").status, 201);
    }
    let get = Request::with_target("GET", "/dav/ana/0.txt").header("user-agent", "rclone/v1.66");
    assert_eq!(ana.send(&get).expect("answers").status, 200);
    let now = until("the node says how it does", || {
        let now = json(&call(&mut ana, "GET", "/api/v1/admin/monitor", None), 200);
        now["all"]["operations"]["dav PUT"].is_object().then_some(now)
    });
    let all = &now["all"];
    let puts = &all["operations"]["dav PUT"];
    assert_eq!((&puts["count"], &puts["failed"]), (&json!(20), &json!(0)));
    assert_eq!(
        puts["buckets"].as_array().expect("a list").iter().map(|it| it.as_u64().expect("a number")).sum::<u64>(),
        20
    );
    assert!(all["operations"]["catalogue commit_file"]["count"].as_u64().expect("a number") >= 20, "{now}");
    assert!(all["accounts"]["ana"]["bytes_in"].as_u64().expect("a number") >= 20_000, "{now}");
    assert!(all["clients"]["127.0.0.1 rclone"]["bytes_out"].as_u64().expect("a number") >= 1_000, "{now}");
    assert!(now["pressure"]["used_bytes"].as_u64().expect("a number") >= 20_000, "{now}");
    let top = drive.ok(&["top"], "");
    assert!(top.contains("1 MIN") && top.contains("1 nodes spoke lately"), "{top}");
    let top = drive.json(&["top"], "");
    assert!(top["pressure"]["used_bytes"].as_u64().expect("a number") >= 20_000, "{top}");
    let store = json(&call(&mut ana, "GET", "/api/v1/admin/store", None), 200);
    assert_eq!(store["kind"], "fs");
    assert!(store["free_bytes"].as_u64().expect("a number") > 0 && store["now"]["packs"].is_u64(), "{store}");
    let history = json(&call(&mut ana, "GET", "/api/v1/admin/monitor/history", None), 200);
    assert!(history["minutes"].is_array(), "{history}");
}

#[test]
fn an_administrator_bounds_spaces_signs_out_and_sees_nodes_jobs_and_settings() {
    let drive = Drive::new();
    let server = drive.start();
    let (mut ana, mut ben) = (server.client_of("ana", PASSWORD), server.client_of("ben", OTHER_PASSWORD));
    let change = json!({"quota_bytes": 100, "retention_days": 3});
    let space = json(&call(&mut ana, "PATCH", "/api/v1/admin/spaces/ben", Some(&change)), 200);
    assert_eq!(
        (&space["quota_bytes"], &space["retention_days"], &space["owner"]),
        (&json!(100), &json!(3), &json!("ben"))
    );
    assert_eq!(ben.put("/dav/ben/x", vec![0; 200]).expect("answers").status, 507);
    json(&call(&mut ana, "PATCH", "/api/v1/admin/spaces/ben", Some(&json!({"quota_bytes": null}))), 200);
    assert_eq!(ben.put("/dav/ben/x", vec![0; 200]).expect("answers").status, 201);
    assert_eq!(call(&mut ana, "PATCH", "/api/v1/admin/spaces/none", Some(&change)).status, 404);
    let spaces = json(&call(&mut ana, "GET", "/api/v1/admin/spaces", None), 200);
    assert_eq!(spaces.as_array().expect("a list").len(), 2, "{spaces}");
    assert_eq!(spaces[1]["members"], json!([{"account": "ben", "role": "owner"}]));
    // What is in it stays its members'.
    assert_eq!(ana.get("/dav/ben/x").expect("answers").status, 404);

    let body = json!({"name": "ben", "password": OTHER_PASSWORD});
    for _ in 0..2 {
        json(&call(&mut server.client(), "POST", "/api/v1/session", Some(&body)), 200);
    }
    let ended = json(&call(&mut ana, "POST", "/api/v1/accounts/ben/sign-out", Some(&json!({}))), 200);
    assert_eq!(ended["ended"], 2);
    assert_eq!(json(&call(&mut ben, "GET", "/api/v1/sessions", None), 200), json!([]));

    let cluster = json(&call(&mut ana, "GET", "/api/v1/admin/cluster", None), 200);
    assert_eq!((cluster["nodes"].as_array().expect("a list").len(), &cluster["nodes"][0]["ok"]), (1, &json!(true)));
    assert_eq!(call(&mut ana, "POST", "/api/v1/admin/reclaim", None).status, 202);
    until("the reclaim is told of", || {
        let cluster = json(&call(&mut ana, "GET", "/api/v1/admin/cluster", None), 200);
        cluster["jobs"].as_array().expect("a list").iter().any(|job| job["last_ms"].is_i64()).then_some(json!(null))
    });
    let settings = json(&call(&mut ana, "GET", "/api/v1/admin/settings", None), 200);
    let setting = |key: &str| settings.as_array().expect("a list").iter().find(|it| it["key"] == key).cloned();
    assert_eq!(
        setting("audit.days").expect("is there"),
        json!({"key": "audit.days", "value": 90, "origin": "default"})
    );
    assert_eq!(setting("listen").expect("is there")["origin"], "command line");
}

#[test]
fn the_reference_is_a_page_for_everybody_without_a_script() {
    let drive = Drive::new();
    let server = drive.start();
    let page = server.client().get("/api/v1/reference").expect("answers");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.header("content-security-policy").is_some_and(|policy| policy.contains("style-src 'self'")));
    assert!(page.text().contains("GET /api/v1/admin/audit") && !page.text().contains("<script"));
    let style = server.client().get("/api/v1/reference.css").expect("answers");
    assert_eq!((style.status, style.header("content-type")), (200, Some("text/css")));
}

#[test]
fn a_space_is_made_for_oneself_or_for_somebody_else_who_alone_has_its_key() {
    let drive = Drive::new();
    let server = drive.start();
    let (mut ana, mut ben) = (server.client_of("ana", PASSWORD), server.client_of("ben", OTHER_PASSWORD));
    let make = |client: &mut Client, body: &Value| call(client, "POST", "/api/v1/admin/spaces", Some(body));
    let own = json(&make(&mut ana, &json!({"name": "lab", "quota_bytes": 1_000_000})), 201);
    assert_eq!((&own["owner"], &own["home"], &own["quota_bytes"]), (&json!("ana"), &json!(false), &json!(1_000_000)));
    assert_eq!(ana.put("/dav/lab/a.txt", "a").expect("answers").status, 201);
    assert_eq!(call(&mut ana, "PUT", "/api/v1/spaces/lab/members/ben", Some(&json!({"role": "reader"}))).status, 204);
    assert_eq!(ben.get("/dav/lab/a.txt").expect("answers").text(), "a");

    let others = json(&make(&mut ana, &json!({"name": "garden", "owner": "ben"})), 201);
    assert_eq!(others["members"], json!([{"account": "ben", "role": "owner"}]));
    assert_eq!(ben.put("/dav/garden/a.txt", "b").expect("answers").status, 201);
    assert_eq!(ana.get("/dav/garden/a.txt").expect("answers").status, 404);
    assert_eq!(call(&mut ana, "PUT", "/api/v1/spaces/garden/members/ana", Some(&json!({"role": "owner"}))).status, 404);

    assert_eq!(make(&mut ana, &json!({"name": "lab"})).status, 409);
    assert_eq!(make(&mut ana, &json!({"name": "a/b"})).status, 400);
    assert_eq!(make(&mut ana, &json!({"name": "x", "owner": "nobody"})).status, 404);
    assert_eq!(make(&mut ben, &json!({"name": "x"})).status, 403);
    assert_eq!(call(&mut ana, "DELETE", "/api/v1/spaces/lab/members/ben", None).status, 204);
    assert_eq!(ben.get("/dav/lab/a.txt").expect("answers").status, 404);
}

#[test]
fn every_metric_of_the_dashboard_is_one_that_a_drive_in_use_tells() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let drive = Drive::new();
    let server = drive.start_with(&["--metrics-listen", &port.to_string()], &[]);
    let mut ana = server.client_of("ana", PASSWORD);
    assert_eq!(ana.put("/dav/ana/x", vec![b'x'; 100_000]).expect("answers").status, 201);
    assert_eq!(ana.get("/dav/ana/x").expect("answers").status, 200);
    let mut scrape = Client::new(port);
    let told = scrape.get("/metrics").expect("answers").text();
    let dashboard: Value = serde_json::from_str(include_str!("../../../../deploy/grafana.json")).expect("is JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let expressions =
        panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets")).map(|it| &it["expr"]);
    let mut names = std::collections::BTreeSet::new();
    for expression in expressions {
        let words = expression.as_str().expect("text").split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
        names.extend(
            words.filter(|word| word.starts_with("holdfast_") || word.starts_with("process_")).map(str::to_owned),
        );
    }
    assert!(names.len() > 15, "{names:?}");
    // What did not happen was not counted: visits of sites, refusals, calls of an object store.
    let seldom = ["holdfast_site_", "holdfast_requests_refused_total", "holdfast_store_"];
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !seldom.iter().any(|begin| name.starts_with(begin)))
        .filter(|name| {
            !told.lines().any(|line| line.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with([' ', '{'])))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?} in {told}");
}
