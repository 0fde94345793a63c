//! Signing in as a browser does, at the built program.

use crate::common::{Drive, OTHER_PASSWORD, PASSWORD, call, json};
use holdfast_testkit::http::{Client, Request, Response};
use holdfast_testkit::server::TestServer;
use serde_json::{Value, json};

/// A browser: it keeps the cookie it was given and says which page asked.
struct Browser {
    client: Client,
    cookie: Option<String>,
}

impl Browser {
    fn new(server: &TestServer) -> Self {
        Self { client: server.client(), cookie: None }
    }

    fn signed_in(server: &TestServer, name: &str, password: &str) -> Self {
        let mut browser = Self::new(server);
        let body = json!({"name": name, "password": password});
        let answer = browser.call("POST", "/api/v1/session", Some(&body));
        let set = answer.header("set-cookie").expect("sets a cookie");
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && set.contains("Path=/"), "{set}");
        assert_eq!(json(&answer, 200)["name"], name);
        browser.cookie = set.split(';').next().map(ToOwned::to_owned);
        browser
    }

    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Response {
        self.call_as(&[("sec-fetch-site", "same-origin")], method, path, body)
    }

    fn call_as(&mut self, headers: &[(&str, &str)], method: &str, path: &str, body: Option<&Value>) -> Response {
        let mut request = Request::with_target(method, path);
        for (name, value) in headers.iter().copied() {
            request = request.header(name, value);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        self.client.send(&request).expect("answers")
    }
}

#[test]
fn a_browser_signs_in_is_listed_and_signs_out() {
    let drive = Drive::new();
    let server = drive.start();
    let mut here = Browser::signed_in(&server, "ana", PASSWORD);
    let mut there = Browser::signed_in(&server, "ana", PASSWORD);
    assert_eq!(json(&here.call("GET", "/api/v1/me", None), 200)["name"], "ana");
    let listed = json(&here.call("GET", "/api/v1/sessions", None), 200);
    let other = listed.as_array().expect("a list").iter().find(|session| session["current"] == false);
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    let path = format!("/api/v1/sessions/{}", other.expect("is there")["id"]);
    assert_eq!(Browser::signed_in(&server, "ben", OTHER_PASSWORD).call("DELETE", &path, None).status, 404);
    assert_eq!(here.call("DELETE", &path, None).status, 204);
    assert_eq!(there.call("GET", "/api/v1/me", None).status, 401);
    let out = here.call("DELETE", "/api/v1/session", None);
    assert!(out.status == 204 && out.header("set-cookie").expect("clears").contains("Max-Age=0"));
    assert_eq!(here.call("GET", "/api/v1/me", None).status, 401);
    let mut program = server.client_of("ana", PASSWORD);
    assert_eq!(call(&mut program, "DELETE", "/api/v1/session", None).status, 409, "it has none");
}

#[test]
fn a_session_survives_a_restart_and_counts_for_the_api_alone() {
    let drive = Drive::new();
    let server = drive.start();
    let mut browser = Browser::signed_in(&server, "ana", PASSWORD);
    let cookie = browser.cookie.clone();
    assert_eq!(browser.call("PROPFIND", "/dav/ana/", None).status, 401);
    drop(server);
    let server = drive.start();
    let mut browser = Browser { client: server.client(), cookie };
    assert_eq!(browser.call("GET", "/api/v1/me", None).status, 200);
}

#[test]
fn another_site_s_page_can_do_nothing_with_a_session() {
    let drive = Drive::new();
    let server = drive.start();
    let mut browser = Browser::signed_in(&server, "ana", PASSWORD);
    let body = json!({"label": "stolen"});
    let evil: [&[(&str, &str)]; 4] = [
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1")],
        &[("origin", "https://evil.example")],
        &[],
    ];
    for headers in evil {
        assert_eq!(browser.call_as(headers, "POST", "/api/v1/tokens", Some(&body)).status, 403, "{headers:?}");
        assert_eq!(browser.call_as(headers, "DELETE", "/api/v1/session", None).status, 403, "{headers:?}");
    }
    let body = json!({"name": "ana", "password": PASSWORD});
    let mut nobody = Browser::new(&server);
    assert_eq!(nobody.call_as(evil[0], "POST", "/api/v1/session", Some(&body)).status, 403, "nor sign anybody in");
    assert_eq!(json(&browser.call("GET", "/api/v1/tokens", None), 200), json!([]));
}

#[test]
fn a_page_gets_no_dialog_and_guessing_is_slowed() {
    let drive = Drive::new();
    let server = drive.start();
    let mut page = Browser::new(&server);
    let answer = page.call_as(&[("x-requested-with", "holdfast")], "GET", "/api/v1/me", None);
    assert!(answer.status == 401 && !answer.header("www-authenticate").expect("a challenge").contains("Basic"));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    page.cookie = Some("holdfast=hfs_nonsense".into());
    let answer = page.call("GET", "/api/v1/me", None);
    assert!(answer.status == 401 && !answer.header("www-authenticate").expect("a challenge").contains("Basic"));
    let answer = call(&mut server.client(), "GET", "/api/v1/me", None);
    assert!(answer.header("www-authenticate").expect("a challenge").contains("Basic"), "programs are asked as before");
    page.cookie = None;
    let wrong = json!({"name": "ana", "password": "wrong"});
    let statuses: Vec<u16> = (0..7).map(|_| page.call("POST", "/api/v1/session", Some(&wrong)).status).collect();
    assert_eq!(statuses[..5], [401; 5]);
    assert_eq!(statuses[6], 429, "{statuses:?}");
}

#[test]
fn a_changed_password_keeps_the_browser_it_was_changed_in_and_ends_the_others() {
    let drive = Drive::new();
    let server = drive.start();
    let (mut here, mut there) =
        (Browser::signed_in(&server, "ana", PASSWORD), Browser::signed_in(&server, "ana", PASSWORD));
    let change = |current: &str| json!({"current": current, "new": "nine brass kettles sang"});
    for status in [403; 5] {
        assert_eq!(here.call("PUT", "/api/v1/me/password", Some(&change("wrong"))).status, status);
    }
    assert_eq!(there.call("GET", "/api/v1/me", None).status, 200, "a wrong guess ends nothing");
    assert_eq!(here.call("PUT", "/api/v1/me/password", Some(&change(PASSWORD))).status, 204);
    assert_eq!(here.call("GET", "/api/v1/me", None).status, 200);
    assert_eq!(there.call("GET", "/api/v1/me", None).status, 401);
}

#[test]
fn a_page_that_begins_asks_who_is_signed_in_and_nobody_is_no_failure() {
    let drive = Drive::new();
    let server = drive.start();
    let mut page = Browser::new(&server);
    let of_page = [("x-requested-with", "holdfast"), ("sec-fetch-site", "same-origin")];
    let who = |page: &mut Browser| json(&page.call_as(&of_page, "GET", "/api/v1/session", None), 200);
    assert_eq!(who(&mut page), json!({"me": null}));
    page.cookie = Some("holdfast=hfs_nonsense".into());
    assert_eq!(who(&mut page), json!({"me": null}));
    let mut page = Browser::signed_in(&server, "ana", PASSWORD);
    assert_eq!(who(&mut page)["me"]["name"], "ana");
    let answer = page.call_as(
        &[("x-requested-with", "holdfast"), ("sec-fetch-site", "cross-site")],
        "GET",
        "/api/v1/session",
        None,
    );
    assert_eq!(answer.status, 403);
    assert_eq!(call(&mut server.client(), "GET", "/api/v1/session", None).status, 401, "a program is asked as before");
}

#[test]
fn a_forgotten_password_is_replaced_with_the_recovery_code() {
    const NEW: &str = "nine brass kettles sang";
    let drive = Drive::new();
    let made = drive.json(&["account", "add", "cleo", "--password-file", "-"], OTHER_PASSWORD);
    let code = made["recovery_code"].as_str().expect("is shown").to_owned();
    let server = drive.start();
    let mut there = Browser::signed_in(&server, "cleo", OTHER_PASSWORD);
    let mut page = Browser::new(&server);
    let recover = |page: &mut Browser, name: &str, code: &str, password: &str| {
        let body = json!({"name": name, "recovery_code": code, "password": password});
        page.call("POST", "/api/v1/session/recovery", Some(&body))
    };
    // A typing mistake is told as one, and a weak password only to who has the code.
    let mistyped = recover(&mut page, "cleo", &code[1..], NEW);
    assert!(mistyped.status == 400 && mistyped.text().contains("not a recovery code"), "{}", mistyped.text());
    let other = drive.json(&["account", "add", "dan", "--password-file", "-"], OTHER_PASSWORD);
    let others = other["recovery_code"].as_str().expect("is shown");
    let (wrong, unknown) = (recover(&mut page, "cleo", others, "weak"), recover(&mut page, "nobody", others, NEW));
    assert_eq!((wrong.status, unknown.status), (401, 401));
    assert_eq!(json(&wrong, 401)["detail"], json(&unknown, 401)["detail"]);
    assert_eq!(recover(&mut page, "cleo", &code, "weak").status, 400);
    assert_eq!(there.call("GET", "/api/v1/me", None).status, 200, "nothing has changed yet");
    let done = json(&recover(&mut page, "cleo", &code.to_uppercase().replace('-', " "), NEW), 200);
    let next = done["recovery_code"].as_str().expect("a new one");
    assert_ne!(next, code);
    assert_eq!(there.call("GET", "/api/v1/me", None).status, 401, "sessions have ended");
    let old = json!({"name": "cleo", "password": OTHER_PASSWORD});
    assert_eq!(page.call("POST", "/api/v1/session", Some(&old)).status, 401);
    Browser::signed_in(&server, "cleo", NEW);
    assert_eq!(recover(&mut page, "cleo", &code, NEW).status, 401, "the old code is void");
    let from_elsewhere = [("sec-fetch-site", "cross-site")];
    let body = json!({"name": "cleo", "recovery_code": next, "password": NEW});
    assert_eq!(page.call_as(&from_elsewhere, "POST", "/api/v1/session/recovery", Some(&body)).status, 403);
    // Trying is limited.
    let statuses: Vec<u16> = (0..8).map(|_| recover(&mut page, "dan", next, NEW).status).collect();
    assert!(statuses[0] == 401 && statuses[7] == 429, "{statuses:?}");
}
