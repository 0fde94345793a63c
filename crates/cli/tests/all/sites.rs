//! Published sites of the built program, over real sockets.

use crate::common::{Drive, OTHER_PASSWORD, PASSWORD, call, json};
use bytes::Bytes;
use holdfast_testkit::http::{Client, Request, Response};
use holdfast_testkit::server::TestServer;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

const BY_ANA: [&str; 4] = ["--user", "ana", "--password-file", "-"];

fn start(drive: &Drive) -> (TestServer, Client) {
    let server = drive.start_with(&["--sites-listen", "127.0.0.1:0"], &[]);
    let sites = server.addresses().expect("reads")[1];
    (server, Client::new(sites))
}

fn publish(drive: &Drive, arguments: &[&str]) -> Value {
    drive.json(&[&["publish"], arguments, &BY_ANA].concat(), PASSWORD)
}

fn site(drive: &Drive, arguments: &[&str]) -> Value {
    drive.json(&[&["site"], arguments, &BY_ANA].concat(), PASSWORD)
}

/// A request as a browser would send it to a host, whatever the address.
fn get_as(client: &Client, host: &str, path: &str) -> Response {
    let mut raw = client.raw().expect("connects");
    raw.write(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).expect("sent");
    raw.read().expect("answers")
}

#[test]
fn a_site_is_published_with_the_server_running_and_stopped_and_goes_back() {
    let drive = Drive::new();
    let (mut server, mut visitor) = start(&drive);
    let mut ana = server.client_of("ana", PASSWORD);
    ana.mkcol("/dav/ana/web").expect("answers");
    ana.put("/dav/ana/web/index.md", "# One\n").expect("answers");
    ana.put("/dav/ana/web/style.css", "p{}").expect("answers");
    let done =
        publish(&drive, &["ana/web", "--as", "blog", "--host", "blog.example", "--path", "/", "--note", "first"]);
    assert_eq!((&done["live"], &done["files"]), (&json!(true), &json!(4)), "page, style, sitemap, robots: {done}");
    assert!(
        get_as(&visitor, "blog.example", "/").text().contains("<h1 id=\"one\">One</h1>"),
        "live when the command ends"
    );
    assert_eq!(visitor.get("/").expect("answers").status, 404, "another host is not this site's");
    assert_eq!(visitor.get("/.holdfast/readyz").expect("answers").text(), "ready\n");

    let drive_door = server.client();
    assert!(
        get_as(&drive_door, "blog.example", "/").text().contains("One"),
        "its host leads to it at the drive's door"
    );
    assert_eq!(get_as(&drive_door, "blog.example", "/dav/ana/").status, 404, "and to nothing of the drive");
    assert!(drive_door.clone().get("/").expect("answers").text().contains("WebDAV"));
    assert_eq!(visitor.get("/dav/ana/").expect("answers").status, 404, "nothing of the drive at the sites' door");

    assert!(server.terminate().expect("stops").success());
    let local = ["publish", "ana/web", "--as", "blog", "--draft"];
    let draft = drive.json(&[&local, &BY_ANA[..]].concat(), PASSWORD);
    assert_eq!((&draft["live"], &draft["stored_files"]), (&json!(false), &json!(0)), "{draft}");
    let listed = site(&drive, &["list"]);
    assert_eq!((&listed[0]["name"], &listed[0]["hosts"]), (&json!("blog"), &json!(["blog.example"])));

    let (server, visitor) = start(&drive);
    let mut ana = server.client_of("ana", PASSWORD);
    ana.put("/dav/ana/web/index.md", "# Two\n").expect("answers");
    publish(&drive, &["ana/web", "--as", "blog"]);
    assert!(get_as(&visitor, "blog.example", "/").text().contains("Two"));
    let shown = site(&drive, &["show", "blog"]);
    assert_eq!(shown["snapshots"].as_array().expect("a list").len(), 3);
    let first = shown["snapshots"][2]["name"].as_str().expect("named");
    site(&drive, &["rollback", "blog", first, "--note", "no"]);
    assert!(get_as(&visitor, "blog.example", "/").text().contains("One"));
    let link = site(&drive, &["preview", "blog"]);
    assert!(link["url"].as_str().expect("a link").starts_with("https://blog.example/.holdfast/preview/"), "{link}");
    site(&drive, &["unpublish", "blog"]);
    assert_eq!(get_as(&visitor, "blog.example", "/").status, 404);
    let actions: Vec<Value> = site(&drive, &["history", "blog"])
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["action"].clone())
        .collect();
    assert_eq!(actions, ["unpublish", "rollback", "publish", "draft", "publish"]);

    let (code, message) = drive.fails(&[&["publish", "ana/none", "--as", "x"], &BY_ANA[..]].concat(), PASSWORD);
    assert!(code == 66 && message.contains("there is no folder"), "{message}");
    assert_eq!(drive.fails(&[&["publish", "ana/web", "--as", "A b"], &BY_ANA[..]].concat(), PASSWORD).0, 64);
    assert_eq!(drive.fails(&[&["site", "show", "blog"], &BY_ANA[..]].concat(), "wrong").0, 77);
    let by_ben = ["site", "show", "blog", "--user", "ben", "--password-file", "-"];
    assert_eq!(drive.fails(&by_ben, OTHER_PASSWORD).0, 66);
    assert_eq!(drive.fails(&["site", "renew-key", "--yes"], "").0, 75, "not beside a server");
    assert_eq!(drive.fails(&[&["site", "remove", "blog"], &BY_ANA[..]].concat(), PASSWORD).0, 64);
    site(&drive, &["remove", "blog", "--yes"]);
    assert_eq!(site(&drive, &["list"]), json!([]));
    drop(server);
    drive.ok(&["check", "--read-data"], "");
}

/// Waits until the site's first page is `text`: a node looks at once when it published itself, but after it has answered the publisher.
fn until_served(visitor: &Client, text: &str) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while get_as(visitor, "s.example", "/").text() != text {
        assert!(std::time::Instant::now() < deadline, "{text:?} is not served");
        std::thread::yield_now();
    }
}

/// What is plain and lies ready is answered before anything is parsed in full; all else is parsed. Nobody must be able to tell.
#[test]
fn a_page_that_lies_ready_is_answered_like_any_other() {
    let drive = Drive::new();
    let (server, visitor) = start(&drive);
    let mut ana = server.client_of("ana", PASSWORD);
    ana.mkcol("/dav/ana/web").expect("answers");
    ana.put("/dav/ana/web/index.md", "# One\n".repeat(500)).expect("answers");
    ana.put("/dav/ana/web/\u{e4} b.txt", "text").expect("answers");
    ana.put("/dav/ana/web/empty.txt", "").expect("answers");
    publish(&drive, &["ana/web", "--as", "plain"]);
    publish(
        &drive,
        &["ana/web", "--as", "closed", "--host", "closed.example", "--access", "members", "--members", "ana"],
    );
    let plain =
        ["/plain/", "/plain/%C3%A4%20b.txt", "/plain/empty.txt", "/plain/?q=1", "/plain", "/plain/none", "/%zz"];
    let all = plain.map(|path| ("A.example:1", path)).into_iter().chain([("closed.example", "/"), ("b@d", "/plain/")]);
    for (host, path) in all {
        for encoding in ["", "Accept-Encoding: gzip, zstd\r\n", "Accept-Encoding: gzip;q=0.5, *;q=0\r\n"] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{encoding}");
            let mut parsed = visitor.raw().expect("connects");
            parsed.write(format!("{head}X-Unheard-Of: 1\r\n\r\n").as_bytes()).expect("sent");
            let (mut parsed, mut plain) = (parsed.read().expect("answers"), {
                // In three pieces, as a slow network may bring it.
                let mut kept = visitor.raw().expect("connects");
                let text = format!("{head}\r\n");
                for piece in [&text[..2], &text[2..text.len() - 3], &text[text.len() - 3..]] {
                    kept.write(piece.as_bytes()).expect("sent");
                }
                kept.read().expect("answers")
            });
            for answer in [&mut parsed, &mut plain] {
                answer.headers.sort();
                let dates = answer.headers.iter().filter(|(name, _)| name == "date").count();
                assert_eq!(dates, 1, "{path}: {:?}", answer.headers);
                answer.headers.retain(|(name, _)| name != "date");
            }
            assert_eq!((plain.status, plain.headers), (parsed.status, parsed.headers), "{path} {encoding}");
            assert_eq!(plain.body, parsed.body, "{path} {encoding}");
        }
    }
    // One connection after the other kind of request and back, and two requests at once.
    let get = "GET /plain/ HTTP/1.1\r\nhost: a\r\n";
    let mut kept = visitor.raw().expect("connects");
    for (more, status) in
        [("", 200), ("", 200), ("Range: bytes=0-3\r\n", 206), ("", 200), ("If-None-Match: *\r\n", 304)]
    {
        kept.write(format!("{get}{more}\r\n").as_bytes()).expect("sent");
        assert_eq!(kept.read().expect("answers").status, status, "{more}");
    }
    kept = visitor.raw().expect("connects");
    kept.write(format!("{get}\r\n{get}connection: close\r\n\r\n").as_bytes()).expect("sent");
    assert_eq!([kept.read().expect("answers").status, kept.read().expect("answers").status], [200, 200]);
    assert!(kept.is_closed());
    kept = visitor.raw().expect("connects");
    kept.write(b"GET /plain/ HTTP/1.1\r\nhost: a\r\n bad: fold\r\n\r\n").expect("sent");
    assert_eq!(kept.read().expect("answers").status, 400);
}

#[test]
fn a_publish_that_is_killed_leaves_the_old_site_and_the_next_one_works() {
    let drive = Drive::new();
    let (mut server, visitor) = start(&drive);
    let mut ana = server.client_of("ana", PASSWORD);
    ana.mkcol("/dav/ana/web").expect("answers");
    ana.put("/dav/ana/web/index.html", "old").expect("answers");
    publish(&drive, &["ana/web", "--as", "s", "--host", "s.example", "--path", "/"]);
    ana.put("/dav/ana/web/index.html", "new").expect("answers");
    for n in 0..300u32 {
        let content: Vec<u8> =
            (0..20_000u32).map(|at| (at.wrapping_mul(0x9e37_79b1 ^ n) >> 13).to_le_bytes()[0]).collect();
        ana.put(&format!("/dav/ana/web/{n}.bin"), content).expect("answers");
    }
    let used = |client: &mut Client| {
        json(&call(client, "GET", "/api/v1/spaces/site.s", None), 200)["used_bytes"].as_u64().expect("a number")
    };
    let before = used(&mut ana);
    let mut publisher = server.client_of("ana", PASSWORD);
    let publishing = std::thread::spawn(move || {
        let body = json!({"space": "ana", "path": "web"}).to_string();
        let request =
            Request::new("POST", "/api/v1/sites/s/publish").header("content-type", "application/json").body(body);
        publisher.send(&request).map(|answer| answer.status)
    });
    while used(&mut ana) < before + 200_000 && !publishing.is_finished() {
        std::thread::yield_now();
    }
    server.kill_9().expect("kills");
    drop(publishing.join().expect("ends"));
    drop(visitor);

    let (server, visitor) = start(&drive);
    let shown = site(&drive, &["show", "s"]);
    let live = get_as(&visitor, "s.example", "/");
    // It may have been faster than the kill; then it is live whole.
    match shown["snapshots"].as_array().expect("a list").len() {
        1 => assert_eq!((live.text(), get_as(&visitor, "s.example", "/7.bin").status), ("old".into(), 404)),
        _ => assert!(["old", "new"].contains(&live.text().as_str())),
    }
    let done = publish(&drive, &["ana/web", "--as", "s"]);
    assert_eq!(done["live"], true);
    until_served(&visitor, "new");
    assert_eq!(get_as(&visitor, "s.example", "/299.bin").body.len(), 20_000);
    drop(server);
    drive.ok(&["check", "--read-data"], "");
}

#[test]
fn after_the_key_was_lost_a_new_one_serves_what_is_published_again() {
    let drive = Drive::new();
    let (server, _) = start(&drive);
    let mut ana = server.client_of("ana", PASSWORD);
    ana.mkcol("/dav/ana/web").expect("answers");
    ana.put("/dav/ana/web/index.html", "here").expect("answers");
    publish(&drive, &["ana/web", "--as", "s", "--host", "s.example", "--path", "/"]);
    drop(server);
    let key = drive.folder.path().join("data/sites.key");
    std::fs::remove_file(&key).expect("removed");
    let publish_again = ["publish", "ana/web", "--as", "s"];
    let (code, message) = drive.fails(&[&publish_again, &BY_ANA[..]].concat(), PASSWORD);
    assert!(code == 75 && message.contains("renew-key"), "{message}");
    drive.ok(&["site", "renew-key", "--yes"], "");
    publish(&drive, &["ana/web", "--as", "s"]);
    let (_server, visitor) = start(&drive);
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while get_as(&visitor, "s.example", "/").status != 200 {
        assert!(std::time::Instant::now() < deadline, "it is not served");
        std::thread::yield_now();
    }
    assert_eq!(get_as(&visitor, "s.example", "/").text(), "here");
}

#[tokio::test]
async fn a_site_is_served_over_http_2_with_many_streams_on_one_connection() {
    let drive = Drive::new();
    let (server, visitor) = start(&drive);
    let mut ana = server.client_of("ana", PASSWORD);
    ana.mkcol("/dav/ana/web").expect("answers");
    ana.put("/dav/ana/web/index.html", "x".repeat(20_000)).expect("answers");
    publish(&drive, &["ana/web", "--as", "s", "--host", "s.example", "--path", "/"]);
    until_served(&visitor, &"x".repeat(20_000));
    let stream = tokio::net::TcpStream::connect(visitor.address()).await.expect("connects");
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("speaks HTTP/2");
    let driving = tokio::spawn(connection);
    let asks = (0..50).map(|n| {
        let mut sender = sender.clone();
        tokio::spawn(async move {
            let uri = if n % 2 == 0 { "http://s.example/" } else { "http://s.example/none" };
            let request = http::Request::get(uri).body(Empty::<Bytes>::new()).expect("a request");
            let answer = sender.send_request(request).await.expect("answers");
            let status = answer.status().as_u16();
            (n, status, answer.into_body().collect().await.expect("whole").to_bytes().len())
        })
    });
    for ask in asks.collect::<Vec<_>>() {
        let (n, status, bytes) = ask.await.expect("ends");
        if n % 2 == 0 {
            assert_eq!((status, bytes), (200, 20_000));
        } else {
            assert_eq!(status, 404);
        }
    }
    driving.abort();
}
