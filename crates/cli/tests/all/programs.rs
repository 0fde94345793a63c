//! Links for programs: one request with the link's secret, as `curl` makes it.

use crate::common::{call, json};
use crate::shares::{Stage, Visitor, address};
use holdfast_testkit::http::{Request, Response};
use serde_json::json;

/// What `curl -H 'Authorization: Bearer SECRET'` sends.
fn curl(visitor: &mut Visitor, method: &str, path: &str) -> Response {
    let target = format!("/api/v1/links/{}{path}", visitor.id);
    let request = Request::with_target(method, &target).header("authorization", format!("Bearer {}", visitor.secret));
    visitor.client.send(&request).expect("answers")
}

#[test]
fn a_program_gets_what_a_link_leads_to_in_one_request() {
    let mut stage = Stage::new();
    let share = stage.share(&json!({"access": "read"}));
    let mut program = stage.visitor(&share);
    let file = curl(&mut program, "GET", "/content/link/map.txt?download=1");
    assert_eq!((file.status, file.text().as_str()), (200, "a map"));
    assert!(file.header("content-disposition").is_some_and(|value| value.starts_with("attachment")));
    assert!(file.header("set-cookie").is_none());
    assert_eq!(curl(&mut program, "HEAD", "/content/link/day/one.txt").status, 200);
    let zip = curl(&mut program, "GET", "/archive/link/");
    assert_eq!((zip.status, &zip.body[..2]), (200, b"PK".as_slice()));
    assert_eq!(curl(&mut program, "GET", "/content/link/../diary.txt").status, 400);
    // Taken back, it ends at once.
    assert_eq!(call(&mut stage.ana, "DELETE", &address(&share), None).status, 204);
    assert_eq!(curl(&mut program, "GET", "/content/link/map.txt").status, 404);
}

#[test]
fn the_secret_opens_nothing_but_downloads() {
    let mut stage = Stage::new();
    let share = stage.share(&json!({"access": "write"}));
    let mut program = stage.visitor(&share);
    for (method, path) in [
        ("GET", "/nodes/link/"),
        ("GET", "/folders/link/"),
        ("GET", "/session"),
        ("GET", "/uploads"),
        ("PUT", "/content/link/new.txt"),
        ("POST", "/folders/link/new"),
        ("DELETE", "/session"),
    ] {
        assert_eq!(curl(&mut program, method, path).status, 401, "{method} {path}");
    }
    program.secret.replace_range(..1, if program.secret.starts_with('a') { "b" } else { "a" });
    assert_eq!(curl(&mut program, "GET", "/content/link/map.txt").status, 404);
    let target = format!("/api/v1/links/{}/content/link/map.txt", program.id);
    for credential in ["Basic YW5hOnNldmVudGVlbiBxdWlldCBoZXJvbnM=", "Bearer", "Bearer hft_x"] {
        let request = Request::with_target("GET", &target).header("authorization", credential);
        let status = program.client.send(&request).expect("answers").status;
        assert!([400, 401, 404].contains(&status), "{credential}: {status}");
    }
    assert_eq!(stage.server.log().matches(&program.secret[1..]).count(), 0, "the secret is in the log");
}

#[test]
fn a_password_takes_a_visit_and_a_limit_counts_each_request() {
    let mut stage = Stage::new();
    let locked = stage.share(&json!({"access": "read", "password": "a quiet pond"}));
    let answer = curl(&mut stage.visitor(&locked), "GET", "/content/link/map.txt");
    assert_eq!(answer.status, 401);
    assert!(answer.text().contains("needs a password"), "{}", answer.text());
    let counted = stage.share(&json!({"access": "read", "downloads_max": 2}));
    let mut program = stage.visitor(&counted);
    assert_eq!(curl(&mut program, "HEAD", "/content/link/map.txt").status, 200);
    assert_eq!(curl(&mut program, "GET", "/content/link/map.txt").status, 200);
    assert_eq!(curl(&mut program, "GET", "/content/link/map.txt").status, 200);
    assert_eq!(curl(&mut program, "GET", "/content/link/map.txt").status, 403);
    assert_eq!(json(&stage.opened(&counted).get("/session"), 200)["downloads_left"], 0);
}

#[test]
fn guessing_is_slowed() {
    let mut stage = Stage::new();
    let share = stage.share(&json!({"access": "read"}));
    let mut program = stage.visitor(&share);
    let right = program.secret.clone();
    let statuses: Vec<u16> = (0..40)
        .map(|guess| {
            program.secret = format!("{}{:02}", &right[..right.len() - 2], guess);
            curl(&mut program, "GET", "/content/link/map.txt").status
        })
        .collect();
    assert!(statuses.contains(&429), "{statuses:?}");
}
