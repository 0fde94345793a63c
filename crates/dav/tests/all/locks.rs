//! LOCK, UNLOCK and the If header.

use crate::rig::{Reply, Rig};
use holdfast_base::ManualClock;
use holdfast_base::limits::LOCK_SECONDS_MAX;
use holdfast_drive::Role;
use std::sync::Arc;

const FILE: &str = "/dav/ana/a.txt";

fn body(scope: &str) -> String {
    format!(
        "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype>\
         <D:owner>Ana &amp; co</D:owner></D:lockinfo>"
    )
}

async fn rig() -> (Rig, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    (Rig::new(clock.clone()).await, clock)
}

async fn lock(rig: &Rig, path: &str, headers: &[(&str, &str)]) -> (Reply, String) {
    let reply = rig.send("LOCK", path, headers, body("exclusive")).await;
    let token = reply.header("lock-token").trim_matches(['<', '>']).to_owned();
    (reply, token)
}

#[tokio::test]
async fn a_lock_keeps_others_out_until_it_is_released() {
    let (rig, _) = rig().await;
    let bert = rig.account("bert").await;
    rig.let_in(&bert, Role::Editor).await;
    rig.send("PUT", FILE, &[], "x").await;
    let (answer, token) = lock(&rig, FILE, &[("timeout", "Second-600"), ("depth", "0")]).await;
    assert_eq!(answer.status, 200);
    for part in [
        "<D:exclusive/>",
        "<D:depth>0</D:depth>",
        "<D:timeout>Second-600</D:timeout>",
        "Ana &amp; co</D:owner>",
        "<D:lockroot><D:href>/dav/ana/a.txt</D:href></D:lockroot>",
        &format!("<D:locktoken><D:href>{token}</D:href></D:locktoken>"),
    ] {
        assert!(answer.text().contains(part), "{part} {}", answer.text());
    }
    let condition = format!("(<{token}>)");
    for (method, header) in [("PUT", ("x-a", "b")), ("DELETE", ("x-a", "b")), ("MOVE", ("destination", "/dav/ana/b"))] {
        let stopped = rig.send(method, FILE, &[header], "y").await;
        assert_eq!(stopped.status, 423, "{method}");
        assert!(stopped.text().contains("<D:lock-token-submitted><D:href>/dav/ana/"), "{}", stopped.text());
        // A token counts only for who holds the lock.
        let theirs = rig.send_as(&bert, method, FILE, &[header, ("if", &condition)], "y").await;
        assert_eq!(theirs.status, 423, "{method}");
    }
    let second = rig.send_as(&bert, "LOCK", FILE, &[], body("shared")).await;
    assert_eq!(second.status, 423);
    assert!(second.text().contains("<D:no-conflicting-lock><D:href>/dav/ana/a.txt</D:href>"));
    assert_eq!(rig.send("PUT", FILE, &[("if", &condition)], "mine").await.status, 204);
    let header = format!("<{token}>");
    let release = [("lock-token", header.as_str())];
    assert_eq!(rig.send_as(&bert, "UNLOCK", FILE, &release, "").await.status, 403);
    assert_eq!(rig.send("UNLOCK", FILE, &release, "").await.status, 204);
    assert_eq!(rig.send_as(&bert, "PUT", FILE, &[], "theirs").await.status, 204);
    let again = rig.send("UNLOCK", FILE, &release, "").await;
    assert_eq!(again.status, 409);
    assert!(again.text().contains("lock-token-matches-request-uri"));
    assert_eq!(rig.send("UNLOCK", FILE, &[], "").await.status, 400);
}

#[tokio::test]
async fn a_lock_lapses_and_can_be_renewed_before() {
    let (rig, clock) = rig().await;
    let (made, token) = lock(&rig, FILE, &[("timeout", "Second-10")]).await;
    assert_eq!(made.status, 201);
    clock.advance(6_000);
    let condition = format!("(<{token}>)");
    let renewed = rig.send("LOCK", FILE, &[("if", &condition), ("timeout", "Infinite")], "").await;
    assert_eq!(renewed.status, 200);
    assert!(renewed.text().contains(&format!("Second-{LOCK_SECONDS_MAX}<")), "{}", renewed.text());
    clock.advance(6_000);
    assert_eq!(rig.send("PUT", FILE, &[], "x").await.status, 423);
    clock.advance(i64::from(LOCK_SECONDS_MAX) * 1_000);
    assert_eq!(rig.send("PUT", FILE, &[], "x").await.status, 204);
    assert_eq!(rig.send("LOCK", FILE, &[("if", &condition)], "").await.status, 412);
    assert_eq!(rig.send("LOCK", FILE, &[], "").await.status, 400);
}

#[tokio::test]
async fn a_deep_lock_covers_members_and_shows_on_them() {
    let (rig, _) = rig().await;
    rig.send("MKCOL", "/dav/ana/d", &[], "").await;
    rig.send("PUT", "/dav/ana/d/f", &[], "x").await;
    let (_, token) = lock(&rig, "/dav/ana/d/", &[]).await;
    let names = "<D:propfind xmlns:D='DAV:'><D:prop><D:lockdiscovery/></D:prop></D:propfind>";
    let root = "<D:lockroot><D:href>/dav/ana/d/</D:href></D:lockroot>";
    for (path, count) in [("/dav/ana/d/f", 1), ("/dav/ana/d", 2), ("/dav/ana/", 1)] {
        let found = rig.send("PROPFIND", path, &[("depth", "1")], names).await;
        assert_eq!(found.text().matches(root).count(), count, "{path} {}", found.text());
    }
    assert_eq!(rig.send("PROPFIND", "/dav/ana/", &[], names).await.text().matches(root).count(), 2);
    assert_eq!(rig.send("PUT", "/dav/ana/d/new", &[], "x").await.status, 423);
    let condition = format!("(<{token}>)");
    assert_eq!(rig.send("PUT", "/dav/ana/d/new", &[("if", &condition)], "x").await.status, 201);
    let renewed = rig.send("LOCK", "/dav/ana/d/f", &[("if", &condition)], "").await;
    assert_eq!(renewed.status, 200);
    assert!(renewed.text().contains(root));
    let header = format!("<{token}>");
    assert_eq!(rig.send("UNLOCK", "/dav/ana/d/f", &[("lock-token", &header)], "").await.status, 204);
}

#[tokio::test]
async fn a_lock_on_nothing_makes_an_empty_file() {
    let (rig, _) = rig().await;
    let (made, _) = lock(&rig, FILE, &[]).await;
    assert_eq!(made.status, 201);
    assert_eq!(rig.send("GET", FILE, &[], "").await.header("content-length"), "0");
    assert_eq!(lock(&rig, "/dav/ana/none/f", &[]).await.0.status, 409);
    assert_eq!(lock(&rig, "/dav/ana/a.txt/f", &[]).await.0.status, 409);
    assert_eq!(lock(&rig, "/dav/", &[]).await.0.status, 403);
    assert_eq!(lock(&rig, "/dav/ana/g", &[("depth", "1")]).await.0.status, 400);
    assert_eq!(rig.send("LOCK", "/dav/ana/g", &[], "<D:lockinfo xmlns:D='DAV:'/>").await.status, 400);
}

#[tokio::test]
async fn shared_locks_stand_side_by_side() {
    let (rig, _) = rig().await;
    rig.send("PUT", FILE, &[], "x").await;
    assert_eq!(rig.send("LOCK", FILE, &[], body("shared")).await.status, 200);
    assert_eq!(rig.send("LOCK", FILE, &[], body("shared")).await.status, 200);
    assert_eq!(rig.send("LOCK", FILE, &[], body("exclusive")).await.status, 423);
    let all = rig.send("PROPFIND", FILE, &[("depth", "0")], "").await;
    assert_eq!(all.text().matches("<D:activelock>").count(), 2);
}

#[tokio::test]
async fn the_if_header_is_a_condition_of_tokens_and_tags() {
    let (rig, _) = rig().await;
    rig.send("PUT", FILE, &[], "x").await;
    rig.send("PUT", "/dav/ana/other", &[], "x").await;
    let (_, token) = lock(&rig, FILE, &[]).await;
    let tag = rig.send("HEAD", FILE, &[], "").await.header("etag").to_owned();
    let cases = [
        (format!("(<{token}> [{tag}])"), 207),
        (format!("(<{token}> [\"stale\"])"), 412),
        (format!("(<{token}> Not [\"stale\"])"), 207),
        (format!("(<{token}>) (Not <DAV:no-lock>)"), 207),
        ("(Not <DAV:no-lock>)".into(), 423),
        ("(<DAV:no-lock>)".into(), 412),
        (format!("(Not <{token}>)"), 412),
        (format!("<{FILE}> (<{token}>)"), 207),
        (format!("<http://drive/dav/ana/a.txt> (<{token}>)"), 207),
        (format!("<http://elsewhere/dav/ana/a.txt> (<{token}>)"), 412),
        (format!("</dav/ana/other> (<{token}>)"), 412),
        (format!("</dav/ana/other> ([\"stale\"]) <{FILE}> (<{token}>)"), 207),
        (format!("</dav/none/other> (Not <{token}>)"), 207),
        ("(<urn:uuid:unknown>)".into(), 412),
        ("nonsense".into(), 400),
    ];
    for (condition, status) in cases {
        let update = "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><D:getlastmodified>\
            Sun, 06 Nov 1994 08:49:37 GMT</D:getlastmodified></D:prop></D:set></D:propertyupdate>";
        let headers = [("host", "drive"), ("if", condition.as_str())];
        // The time is the same each time but for the first, so the tag is asked for anew.
        let tag_now = rig.send("HEAD", FILE, &[], "").await.header("etag").to_owned();
        let condition = condition.replace(&tag, &tag_now);
        let headers = [headers[0], ("if", condition.as_str())];
        let reply = rig.send("PROPPATCH", FILE, &headers, update).await;
        assert_eq!(reply.status, status, "{condition} {}", reply.text());
    }
    for (condition, status) in [("(<urn:uuid:unknown>)".to_owned(), 412), (format!("(<{token}>)"), 200)] {
        assert_eq!(rig.send("GET", FILE, &[("if", &condition)], "").await.status, status, "{condition}");
    }
}

#[tokio::test]
async fn a_tag_for_the_destination_guards_what_a_copy_replaces() {
    let (rig, _) = rig().await;
    rig.send("PUT", FILE, &[], "new").await;
    let old = rig.send("PUT", "/dav/ana/b", &[], "old").await;
    let condition = format!("</dav/ana/b> ([{}])", old.header("etag"));
    let headers = [("destination", "/dav/ana/b"), ("if", condition.as_str())];
    assert_eq!(rig.send("COPY", FILE, &headers, "").await.status, 204);
    assert_eq!(rig.send("COPY", FILE, &headers, "").await.status, 412);
}
