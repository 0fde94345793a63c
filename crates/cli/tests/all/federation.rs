//! Sign-in by providers: settings, and what is refused before any provider is asked. The rest is in web/e2e, with a real one.

use crate::common::{Drive, PASSWORD, call, json};
use serde_json::json;
use std::io::Write;

fn config(drive: &Drive, text: &str) -> String {
    let path = drive.folder.path().join("holdfast.toml");
    std::fs::File::create(&path).and_then(|mut file| file.write_all(text.as_bytes())).expect("writes");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn providers_are_offered_and_one_that_is_away_is_told_of() {
    let drive = Drive::new();
    // Nobody listens on the discard port.
    let path = config(
        &drive,
        "[[sign_in.providers]]\nid = \"lab\"\nname = \"The lab\"\nissuer = \"http://127.0.0.1:9\"\nclient_id = \"drive\"\n",
    );
    let server = drive.start_with(&[], &[("HOLDFAST_CONFIG", &path)]);
    let ways = json(&call(&mut server.client(), "GET", "/api/v1/sign-in", None), 200);
    assert_eq!(ways, json!({"providers": [{"id": "lab", "name": "The lab", "sign_out": "keep"}], "escrow": false}));
    let begin =
        |id: &str| call(&mut server.client(), "POST", "/api/v1/session/provider", Some(&json!({"provider": id})));
    let away = json(&begin("lab"), 503);
    assert!(away["detail"].as_str().expect("says").contains("cannot be reached"), "{away}");
    assert_eq!(begin("other").status, 404);
    let leave =
        |id: &str| call(&mut server.client(), "POST", "/api/v1/session/provider/leave", Some(&json!({"provider": id})));
    assert_eq!(json(&leave("lab"), 200), json!({"url": null}), "it is not asked for");
    assert_eq!(leave("other").status, 404);
    let answer = json!({"code": "x", "state": "y"});
    assert_eq!(call(&mut server.client(), "POST", "/api/v1/session/provider/answer", Some(&answer)).status, 409);
    let nonsense = json!({"ticket": "x", "passphrase": PASSWORD});
    assert_eq!(call(&mut server.client(), "POST", "/api/v1/session/provider/passphrase", Some(&nonsense)).status, 401);
    let mut ana = server.client_of("ana", PASSWORD);
    assert_eq!(json(&call(&mut ana, "GET", "/api/v1/me/identities", None), 200), json!([]));
    assert_eq!(call(&mut ana, "POST", "/api/v1/me/identities", Some(&answer)).status, 409);
    assert_eq!(call(&mut ana, "DELETE", "/api/v1/me/identities/7", None).status, 404);
    let wrong = json!({"provider": "lab", "password": "wrong"});
    assert_eq!(call(&mut ana, "POST", "/api/v1/me/identities/begin", Some(&wrong)).status, 403);
}

#[test]
fn settings_that_cannot_be_are_refused_at_the_start() {
    let drive = Drive::new();
    let provider = |rest: &str| format!("[[sign_in.providers]]\nid = \"lab\"\nclient_id = \"drive\"\n{rest}\n");
    for (text, says) in [
        (provider("issuer = \"http://id.example\""), "https"),
        (
            provider("issuer = \"https://id.example\"\nspaces = [{ group = \"a\", space = \"b\", role = \"owner\" }]"),
            "not owners",
        ),
        (provider("issuer = \"https://id.example\"\nclient_secret_file = \"/nowhere\""), "/nowhere"),
        (provider("issuer = \"https://id.example\"\nallow_group = [\"a\"]"), "allow_group"),
        (provider("issuer = \"https://id.example\"").repeat(2), "twice"),
    ] {
        let path = config(&drive, &text);
        let (_, message) = drive.fails(&["serve", "--listen", "127.0.0.1:0", "--config", &path], "");
        assert!(message.contains(says), "{says}: {message}");
    }
}
