//! Second factors and passkeys over HTTP, at the built program.

use crate::common::{Drive, PASSWORD, json};
use holdfast_testkit::http::{Client, Request, Response};
use holdfast_testkit::server::TestServer;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// RFC 4648, as an authenticator reads it.
fn decode(text: &str) -> Vec<u8> {
    let value =
        |letter: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|known| *known == letter).expect("known");
    let bits: Vec<usize> =
        text.bytes().flat_map(|letter| (0..5).rev().map(move |bit| value(letter) >> bit & 1)).collect();
    let byte = |eight: &[usize]| u8::try_from(eight.iter().fold(0, |all, bit| all << 1 | bit)).expect("a byte");
    bits.chunks_exact(8).map(byte).collect()
}

/// The code of now, or of some steps later.
fn code(secret: &str, later: i64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    holdfast_seal::proof::one_time_code(&decode(secret), i64::try_from(now / 30).expect("fits") + later)
}

struct Page {
    client: Client,
    cookie: Option<String>,
}

impl Page {
    fn new(server: &TestServer) -> Self {
        Self { client: server.client(), cookie: None }
    }

    fn call(&mut self, method: &str, path: &str, body: &Value) -> Response {
        let mut request = Request::with_target(method, path)
            .header("sec-fetch-site", "same-origin")
            .header("x-requested-with", "holdfast");
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        if !body.is_null() {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        self.client.send(&request).expect("answers")
    }

    fn sign_in(&mut self, with: &Value) -> Response {
        let mut body = json!({"name": "ana", "password": PASSWORD});
        body.as_object_mut().expect("an object").extend(with.as_object().cloned().unwrap_or_default());
        let answer = self.call("POST", "/api/v1/session", &body);
        if let Some(set) = answer.header("set-cookie") {
            self.cookie = set.split(';').next().map(ToOwned::to_owned);
        }
        answer
    }

    /// Signed in, with codes switched on; their secret.
    fn with_codes(server: &TestServer) -> (Self, String) {
        let mut page = Self::new(server);
        json(&page.sign_in(&json!({})), 200);
        let new = json(&page.call("POST", "/api/v1/me/codes", &json!({"password": PASSWORD})), 200);
        let secret = new["secret"].as_str().expect("a secret").to_owned();
        let first = json!({"ticket": new["ticket"], "code": code(&secret, -1)});
        assert_eq!(page.call("PUT", "/api/v1/me/codes", &first).status, 204);
        (page, secret)
    }
}

fn propfind(server: &TestServer, password: &str) -> Response {
    let request = Request::with_target("PROPFIND", "/dav/ana/").header("depth", "0");
    server.client_of("ana", password).send(&request).expect("answers")
}

#[test]
fn codes_are_asked_for_after_the_password_and_programs_need_a_token() {
    let drive = Drive::new();
    let server = drive.start();
    let (mut page, secret) = Page::with_codes(&server);
    let token = json(&page.call("POST", "/api/v1/tokens", &json!({"label": "laptop"})), 201);
    let refused = propfind(&server, PASSWORD);
    assert!(refused.status == 401 && refused.text().contains("app token"), "{}", refused.text());
    assert_eq!(propfind(&server, token["token"].as_str().expect("a token")).status, 207);
    let refused = crate::common::call(&mut server.client_of("ana", PASSWORD), "GET", "/api/v1/me", None);
    assert!(json(&refused, 401)["detail"].as_str().expect("says").contains("app token"));

    let mut other = Page::new(&server);
    let wanted = json(&other.sign_in(&json!({})), 401);
    assert_eq!(
        (&wanted["type"], &wanted["second_factor"]),
        (&json!("urn:holdfast:second-factor"), &json!({"codes": true}))
    );
    assert!(other.cookie.is_none());
    let wrong = json(&other.sign_in(&json!({"code": "123"})), 401);
    assert_eq!(wrong["type"], "about:blank");
    assert_eq!(other.sign_in(&json!({"code": code(&secret, 0), "recovery_code": "x"})).status, 400);
    let right = code(&secret, 0);
    json(&other.sign_in(&json!({"code": right})), 200);
    assert_eq!(Page::new(&server).sign_in(&json!({"code": right})).status, 401, "a code counts once");
    let factors = json(&other.call("GET", "/api/v1/me/factors", &Value::Null), 200);
    assert_eq!((&factors["second_factor"], &factors["passkeys"]), (&json!(true), &json!([])));

    assert_eq!(other.call("POST", "/api/v1/me/codes/remove", &json!({})).status, 400);
    assert_eq!(other.call("POST", "/api/v1/me/codes/remove", &json!({"code": "000000"})).status, 403);
    assert_eq!(other.call("POST", "/api/v1/me/codes/remove", &json!({"code": code(&secret, 1)})).status, 204);
    assert_eq!(propfind(&server, PASSWORD).status, 207, "the password is enough again");
}

#[test]
fn ways_in_are_changed_by_who_knows_the_password_and_not_by_tokens() {
    let drive = Drive::new();
    let server = drive.start();
    let mut page = Page::new(&server);
    json(&page.sign_in(&json!({})), 200);
    let token = json(&page.call("POST", "/api/v1/tokens", &json!({"label": "laptop"})), 201)["token"].clone();
    for path in ["/api/v1/me/codes", "/api/v1/me/recovery-code", "/api/v1/me/passkeys/question"] {
        assert_eq!(page.call("POST", path, &json!({"password": "wrong"})).status, 403, "{path}");
        assert_eq!(page.call("POST", path, &json!({})).status, 400, "{path}");
        let body = json!({"password": PASSWORD});
        let mut program = server.client_of("ana", token.as_str().expect("a token"));
        assert_eq!(crate::common::call(&mut program, "POST", path, Some(&body)).status, 403, "{path}");
    }
    let renewed = json(&page.call("POST", "/api/v1/me/recovery-code", &json!({"password": PASSWORD})), 200);
    let code = renewed["recovery_code"].as_str().expect("a code");
    let reset = drive.json(&["account", "recover", "ana", "--code-file", "-"], code);
    assert!(reset["password"].is_string());
}

#[test]
fn an_administrator_takes_factors_away_without_opening_anything() {
    let drive = Drive::new();
    let server = drive.start();
    let (mut page, _) = Page::with_codes(&server);
    let shown = drive.json(&["account", "show", "ana"], "");
    assert_eq!(shown["factors"], json!({"second_factor": true, "codes": true, "passkeys": []}));
    drive.ok(&["account", "reset-factors", "ana"], "");
    assert_eq!(propfind(&server, PASSWORD).status, 207);
    assert_eq!(propfind(&server, "something else entirely").status, 401);
    assert_eq!(page.call("DELETE", "/api/v1/accounts/ben/factors", &Value::Null).status, 204);
    assert_eq!(page.call("DELETE", "/api/v1/accounts/nobody/factors", &Value::Null).status, 404);
    let mut ben = server.client_of("ben", crate::common::OTHER_PASSWORD);
    assert_eq!(crate::common::call(&mut ben, "DELETE", "/api/v1/accounts/ana/factors", None).status, 403);
}

#[test]
fn malformed_passkeys_are_refused_with_a_reason() {
    let drive = Drive::new();
    let server = drive.start();
    let mut page = Page::new(&server);
    let question = json(&page.call("POST", "/api/v1/session/passkey/question", &Value::Null), 200);
    assert!(question["credentials"] == json!([]) && question["challenge"].as_str().expect("a challenge").len() == 43);
    let answer = |ticket: &str, credential: &str| {
        json!({"answer": {"ticket": ticket, "credential": credential, "client_data": "e30", "authenticator_data": "AAAA",
            "signature": "AAAA"}})
    };
    let ticket = question["ticket"].as_str().expect("a ticket");
    let long = "A".repeat(100_000);
    for (body, status) in [
        (answer(ticket, "AAAA"), 401),
        (answer("nonsense", "AAAA"), 401),
        (answer(&long, "AAAA"), 401),
        (answer(ticket, "not base64!"), 400),
        (json!({"answer": {}}), 400),
    ] {
        let answer = page.call("POST", "/api/v1/session/passkey", &body);
        assert!(json(&answer, status)["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    }
    json(&page.sign_in(&json!({})), 200);
    let question = json(&page.call("POST", "/api/v1/me/passkeys/question", &json!({"password": PASSWORD})), 200);
    let add = |label: &str, ticket: &str, data: &str| json!({"ticket": ticket, "label": label, "client_data": data, "authenticator_data": "AAAA"});
    let own = question["ticket"].as_str().expect("a ticket");
    for (body, status) in [
        (add("", own, "e30"), 400),
        (add("x", own, "e30"), 400),
        (add("x", ticket, "e30"), 403),
        (add("x", own, &long), 400),
    ] {
        assert_eq!(page.call("POST", "/api/v1/me/passkeys", &body).status, status);
    }
    assert_eq!(page.call("PATCH", "/api/v1/me/passkeys/7", &json!({"label": "x"})).status, 404);
    assert_eq!(page.call("POST", "/api/v1/me/passkeys/7/remove", &json!({"password": PASSWORD})).status, 404);
}

#[test]
fn an_address_that_passkeys_cannot_be_bound_to_is_refused_at_the_start() {
    let drive = Drive::new();
    let data = drive.folder.path().join("data");
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .env("HOLDFAST_PUBLIC_URL", "https://drive.example/path")
        .stdin(Stdio::null())
        .output()
        .expect("runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("public_url"), "{output:?}");
}
