//! What visitors get, and what they do not.

use crate::rig::{PASSWORD, Rig, noise, request, request_at};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_auth::Secret;
use holdfast_dav::{DavFace, DavOptions};
use holdfast_drive::Role;
use holdfast_site::serve::Door;
use holdfast_site::{Access, Publication, SettingsChange};
use http::Request;
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::io::Read;
use std::sync::Arc;

const HOST: &str = "site.example";

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_encoding_is_its_own_representation_and_reads_back() {
    let rig = Rig::new().await;
    rig.put_example().await;
    let words = "many words that shrink well, again and again. ".repeat(400);
    rig.put("/example/words.txt", words.clone()).await;
    rig.publish_example().await;
    let plain = rig.get(HOST, "/words.txt", &[]).await;
    assert_eq!(
        (plain.text(), plain.header("content-encoding"), plain.header("vary")),
        (words.as_str(), "", "accept-encoding")
    );
    let gzip = rig.get(HOST, "/words.txt", &[("accept-encoding", "gzip, deflate")]).await;
    let mut back = String::new();
    flate2::read::GzDecoder::new(&gzip.body[..]).read_to_string(&mut back).expect("opens");
    assert_eq!((back.as_str(), gzip.header("content-encoding")), (words.as_str(), "gzip"));
    let zstd = rig.get(HOST, "/words.txt", &[("accept-encoding", "gzip, zstd")]).await;
    assert_eq!(zstd::bulk::decompress(&zstd.body, 1 << 20).expect("opens"), words.as_bytes());
    let tags: std::collections::BTreeSet<&str> = [&plain, &gzip, &zstd].map(|answer| answer.header("etag")).into();
    assert_eq!(tags.len(), 3, "a strong tag is of bytes, so each has its own");
    for answer in [&plain, &gzip, &zstd] {
        assert_eq!(answer.header("content-length"), answer.body.len().to_string());
    }
    let known = [("accept-encoding", "gzip"), ("if-none-match", gzip.header("etag"))];
    let again = rig.get(HOST, "/words.txt", &known).await;
    assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, gzip.header("etag")));
    let part = rig.get(HOST, "/words.txt", &[("accept-encoding", "gzip"), ("range", "bytes=5-9")]).await;
    assert_eq!((part.status, part.text(), part.header("content-encoding")), (206, &words[5..10], ""));
    assert_eq!(part.header("etag"), plain.header("etag"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_not_looked_yet_calls_no_site_unknown() {
    let rig = Rig::new().await;
    rig.publish_example().await;
    let node = rig.another_node();
    assert!(!node.is_settled());
    let early = request(&node, "GET", HOST, "/", &[], "").await;
    assert_eq!((early.status, early.header("retry-after")), (503, "1"));
    node.look().await.expect("looks");
    assert!(node.is_settled());
    assert_eq!(request(&node, "GET", HOST, "/", &[], "").await.status, 200);
    assert_eq!(request(&node, "GET", "other.example", "/", &[], "").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_say_what_may_be_kept_and_what_a_page_may_do() {
    let rig = Rig::new().await;
    rig.put_example().await;
    rig.put("/example/app.3f2a1b9c.js", "let a = 1;").await;
    rig.publish_example().await;
    let page = rig.get(HOST, "/", &[]).await;
    assert_eq!((page.header("cache-control"), page.header("x-content-type-options")), ("no-cache", "nosniff"));
    assert!(page.header("content-security-policy").contains("default-src 'self'"));
    let hashed = rig.get(HOST, "/app.3f2a1b9c.js", &[]).await;
    assert!(hashed.header("cache-control").contains("immutable"));
    let head = request(&rig.serving, "HEAD", HOST, "/", &[], "").await;
    assert_eq!((head.status, head.body.len(), &head.headers), (200, 0, &page.headers));
    let missing = rig.get(HOST, "/nowhere", &[("if-none-match", "*")]).await;
    assert_eq!((missing.status, missing.header("cache-control")), (404, "no-cache"));
    for method in ["PUT", "DELETE", "PROPFIND", "POST"] {
        let refused = request(&rig.serving, method, HOST, "/", &[], "").await;
        assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD, OPTIONS"), "{method}");
    }
    assert_eq!(request(&rig.serving, "OPTIONS", HOST, "/", &[], "").await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_and_paths_lead_to_their_site_and_no_further() {
    let rig = Rig::new().await;
    rig.publish_example().await;
    rig.put("/notes/a.txt", "a note").await;
    rig.put("/notes/deep/b c.txt", "deep").await;
    rig.publish("notes", "/notes").await.expect("publishes");
    assert_eq!(rig.get("SITE.example:8080", "/", &[]).await.status, 200);
    assert_eq!(rig.get("127.0.0.1:8643", "/notes/a.txt", &[]).await.text(), "a note");
    assert_eq!(rig.get("127.0.0.1", "/notes/deep/b%20c.txt", &[]).await.text(), "deep");
    assert_eq!(rig.get("127.0.0.1", "/notes", &[]).await.header("location"), "/notes/");
    assert_eq!(rig.get(HOST, "/notes/a.txt", &[]).await.status, 404, "a host is its site's alone");
    for (host, path) in [("other.example", "/"), ("127.0.0.1", "/notesx/a.txt"), ("127.0.0.1", "/")] {
        let answer = rig.get(host, path, &[]).await;
        assert_eq!((answer.status, answer.text()), (404, "There is no site here.\n"), "{host}{path}");
    }
    for (path, status) in [
        ("/notes/deep%2fb%20c.txt", 404),
        ("/notes/..%2fex", 404),
        ("/notes/../a.txt", 404),
        ("/notes/%2e%2e/a.txt", 404),
        ("/notes//a.txt", 404),
        ("/notes/a.txt%00", 400),
        ("/notes/%zz", 400),
        ("/notes/%ff", 400),
        ("/notes/%0d%0aset-cookie:x", 404),
        ("/notes/.holdfast/nothing", 404),
    ] {
        assert_eq!(rig.get("127.0.0.1", path, &[]).await.status, status, "{path}");
    }
    for host in ["", "a b", "x/y"] {
        assert_eq!(rig.get(host, "/", &[]).await.status, 400, "{host:?}");
    }
    let drive = async |host: &str, path: &str| {
        request_at(&rig.serving, Door::Drive, true, ("GET", host, path), &[], "").await.status
    };
    assert_eq!(drive(HOST, "/").await, 200);
    assert_eq!(drive("127.0.0.1", "/notes/a.txt").await, 404, "no path of a site on the drive's own origin");
    assert_eq!(rig.get("127.0.0.1", "/notes/", &[]).await.status, 404, "no listing unless asked for");
    let listing = SettingsChange { listing: Some(true), ..SettingsChange::default() };
    rig.sites.set(&rig.ana, "notes", listing).await.expect("sets");
    rig.serving.look().await.expect("looks");
    let listed = rig.get("127.0.0.1", "/notes/deep/", &[]).await;
    assert!(
        listed.text().contains("href=\"./b%20c.txt\"") && listed.text().contains("href=\"../\""),
        "{}",
        listed.text()
    );
}

async fn private(rig: &Rig, access: Access) {
    rig.put("/p/index.html", "<p>private</p>").await;
    let settings =
        SettingsChange { hosts: Some(vec!["p.example".into()]), access: Some(access), ..SettingsChange::default() };
    let publication = Publication { settings, ..Rig::publication("p", "/p") };
    rig.sites.publish(&rig.ana, publication).await.expect("publishes");
    rig.serving.look().await.expect("looks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_with_a_password_opens_to_who_knows_it_on_any_node() {
    let rig = Rig::new().await;
    let access = rig.sites.password_access(&Secret::new("open sesame")).await.expect("seals");
    private(&rig, access).await;
    let closed = rig.get("p.example", "/", &[]).await;
    assert_eq!((closed.status, closed.header("cache-control")), (401, "no-store"));
    assert!(!closed.text().contains("private") && closed.header("www-authenticate").starts_with("Basic"));
    assert_eq!(rig.get("p.example", "/.holdfast/search?q=private", &[]).await.status, 401);
    assert_eq!(rig.get("p.example", "/", &[("authorization", &basic("x", "wrong one"))]).await.status, 401);
    let open = rig.get("p.example", "/", &[("authorization", &basic("x", "open sesame"))]).await;
    assert_eq!((open.text(), open.header("cache-control")), ("<p>private</p>", "private, no-store"));
    assert_eq!(open.header("x-robots-tag"), "noindex");

    let form = rig.get("p.example", "/", &[("accept", "text/html")]).await;
    assert!(form.status == 401 && form.text().contains("type=\"password\""));
    let post = async |body: &str| request(&rig.serving, "POST", "p.example", "/.holdfast/sign-in", &[], body).await;
    assert_eq!(post("password=nope").await.status, 401);
    let signed = post("password=open+sesame&next=%2F%2Fevil.example%2F").await;
    assert_eq!((signed.status, signed.header("location")), (303, "/"), "leads nowhere else");
    let cookie = signed.header("set-cookie").to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("Secure") && cookie.contains("SameSite=Lax"), "{cookie}");
    let cookie = cookie.split(';').next().expect("a pair").to_owned();
    let other = rig.another_node();
    other.look().await.expect("looks");
    let with_cookie =
        async |node: &_, cookie: &str| request(node, "GET", "p.example", "/", &[("cookie", cookie)], "").await.status;
    assert_eq!(with_cookie(&other, &cookie).await, 200, "no node keeps visitors");
    assert_eq!(with_cookie(&other, &cookie.replace(".in.", ".im.")).await, 401);
    rig.sites.set(&rig.ana, "p", SettingsChange { sign_out: true, ..SettingsChange::default() }).await.expect("sets");
    other.look().await.expect("looks");
    assert_eq!(with_cookie(&other, &cookie).await, 401);
    let clear =
        request_at(&rig.serving, Door::Sites, false, ("POST", "p.example", "/.holdfast/sign-in"), &[], "password=x")
            .await;
    assert_eq!(clear.status, 403, "not in clear over a network");

    for _ in 0..12 {
        post("password=guess").await;
    }
    let limited = post("password=open+sesame2").await;
    assert_eq!(limited.status, 429);
    assert!(!limited.header("retry-after").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_members_site_opens_to_members_and_closes_with_their_membership() {
    let rig = Rig::new().await;
    rig.accounts.create_space(&rig.ana, "lab", None).await.expect("makes");
    rig.accounts.add_member(&rig.ana, "lab", "ben", Role::Reader).await.expect("adds");
    private(&rig, Access::Members { space: "lab".into() }).await;
    let get = async |name: &str, password: &str| {
        rig.get("p.example", "/", &[("authorization", &basic(name, password))]).await.status
    };
    assert_eq!(rig.get("p.example", "/", &[("accept", "text/html")]).await.status, 401);
    assert_eq!((get("ben", PASSWORD).await, get("ana", PASSWORD).await, get("ben", "wrong").await), (200, 200, 401));
    rig.accounts.remove_member(&rig.ana, "lab", "ben").await.expect("removes");
    assert_eq!(get("ben", PASSWORD).await, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_shows_a_draft_to_who_has_the_link_and_to_nobody_else() {
    let rig = Rig::new().await;
    rig.publish_example().await;
    rig.put("/example/index.html", "the draft").await;
    let draft = Publication { draft: true, ..Rig::publication("ex", "/example") };
    let drafted = rig.sites.publish(&rig.ana, draft).await.expect("stores");
    assert!(!drafted.live);
    rig.serving.look().await.expect("looks");
    assert!(rig.get(HOST, "/", &[]).await.text().contains("Plain home page"));
    let (link, _) = rig.sites.preview(&rig.ana, "ex", None).await.expect("makes");
    let path = link.strip_prefix("https://site.example").expect("the site's address");
    let opened = rig.get(HOST, path, &[]).await;
    assert_eq!(opened.status, 303);
    let cookie = opened.header("set-cookie").split(';').next().expect("a pair").to_owned();
    let seen = rig.get(HOST, "/", &[("cookie", &cookie)]).await;
    assert_eq!((seen.text(), seen.header("cache-control")), ("the draft", "private, no-store"));
    assert!(rig.get(HOST, "/", &[]).await.text().contains("Plain home page"));
    let forged = path.replace(&drafted.snapshot.expect("has one"), "00000001-00000000");
    assert_eq!(rig.get(HOST, &forged, &[]).await.status, 403);
    rig.clock.advance(25 * crate::rig::HOUR_MS);
    assert!(rig.get(HOST, "/", &[("cookie", &cookie)]).await.text().contains("Plain home page"));
    assert_eq!(rig.get(HOST, path, &[]).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_off_or_removed_is_gone_from_every_node() {
    let rig = Rig::new().await;
    rig.publish_example().await;
    let node = rig.another_node();
    node.look().await.expect("looks");
    assert_eq!(request(&node, "GET", HOST, "/", &[], "").await.status, 200);
    rig.sites.unpublish(&rig.ana, "ex", "").await.expect("takes off");
    node.look().await.expect("looks");
    assert_eq!(request(&node, "GET", HOST, "/", &[], "").await.status, 404);
    rig.sites.remove(&rig.ana, "ex").await.expect("removes");
    node.look().await.expect("looks");
    assert!(node.table().is_empty());
}

/// The same content by `WebDAV` and as a site: whatever is asked, the status, the range and the bytes agree.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_and_ranges_mean_what_they_mean_in_webdav() {
    let rig = Rig::new().await;
    let content = noise(3, 2_000);
    rig.put("/c/file.bin", content.clone()).await;
    rig.put("/c/large.bin", noise(4, 3 << 20)).await;
    rig.publish("c", "/c").await.expect("publishes");
    let dav = Arc::new(DavFace::new(Arc::new(rig.engine.clone()), DavOptions::default()));
    let ask_dav = async |name: &str, headers: &[(&str, String)]| {
        let mut request = Request::builder().uri(format!("/dav/ana/c/{name}"));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(bytes::Bytes::new())).expect("a request");
        let (head, body) = dav.handle(rig.ana.clone(), request).await.into_parts();
        (head, body.collect().await.expect("whole").to_bytes())
    };
    let tag_of = async |name: &str| {
        let site = rig.get("any", &format!("/c/{name}"), &[]).await.header("etag").to_owned();
        let (head, _) = ask_dav(name, &[]).await;
        (site, head.headers["etag"].to_str().expect("text").to_owned())
    };
    let tags = [("file.bin", tag_of("file.bin").await), ("large.bin", tag_of("large.bin").await)];
    let range = "bytes=(-?[0-9]{1,4}-?[0-9]{0,4}(, ?[0-9]{1,4}-[0-9]{0,4}){0,3}|[0-9]-)";
    let tag = prop::sample::select(vec!["TAG", "W/TAG", "\"other\"", "*", "\"a\", TAG", "broken\""]);
    let date = prop::sample::select(vec!["Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 2094 08:49:37 GMT", "no date"]);
    let strategy = (
        0..2usize,
        prop::option::of(range),
        prop::option::of(prop::sample::select(vec!["TAG", "W/TAG", "\"x\"", "Sun, 06 Nov 2094 08:49:37 GMT"])),
        prop::option::of(tag.clone()),
        prop::option::of(tag),
        prop::option::of(date.clone()),
        prop::option::of(date),
    );
    let handle = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&strategy, |(which, range, if_range, if_match, if_none_match, since, unmodified)| {
            let (name, (site_tag, dav_tag)) = &tags[which];
            let asked = [
                ("range", range),
                ("if-range", if_range.map(ToOwned::to_owned)),
                ("if-match", if_match.map(ToOwned::to_owned)),
                ("if-none-match", if_none_match.map(ToOwned::to_owned)),
                ("if-modified-since", since.map(ToOwned::to_owned)),
                ("if-unmodified-since", unmodified.map(ToOwned::to_owned)),
            ];
            let with = |tag: &str| -> Vec<(&str, String)> {
                asked.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?.replace("TAG", tag)))).collect()
            };
            handle.block_on(async {
                let (dav_head, dav_body) = ask_dav(name, &with(dav_tag)).await;
                let headers = with(site_tag);
                let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                let site = rig.get("any", &format!("/c/{name}"), &headers).await;
                prop_assert_eq!(site.status, dav_head.status.as_u16(), "{:?}", headers);
                let dav_range = dav_head.headers.get("content-range").map_or("", |value| value.to_str().expect("text"));
                prop_assert_eq!(site.header("content-range"), dav_range);
                if matches!(site.status, 200 | 206) {
                    let multipart = site.header("content-type").starts_with("multipart/");
                    prop_assert_eq!(site.body.len(), dav_body.len());
                    prop_assert!(multipart || site.body == dav_body);
                }
                Ok(())
            })
        });
        outcome.expect("agrees");
    });
}
