//! `holdfast serve` from its start to its stop.

use crate::common::{Drive, OTHER_PASSWORD, PASSWORD, until};
use holdfast_testkit::http::Request;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn it_says_where_it_is_answers_and_stops_with_code_0() {
    let drive = Drive::new();
    let mut server = drive.start();
    let mut stranger = server.client();
    assert!(stranger.get("/").expect("answers").text().contains("WebDAV"));
    assert_eq!(stranger.get("/healthz").expect("answers").text(), "ok\n");
    until("it is ready once it knows its sites", || {
        (stranger.get("/readyz").expect("answers").text() == "ready\n").then_some(())
    });
    assert_eq!(stranger.get("/metrics").expect("answers").status, 404, "metrics are on a listener of their own");

    let mut ana = server.client_of("ana", PASSWORD);
    assert_eq!(ana.put("/dav/ana/a.txt", "hello").expect("answers").status, 201);
    assert_eq!(ana.get("/dav/ana/a.txt").expect("answers").text(), "hello");
    assert!(server.terminate().expect("stops").success());

    let mut again = drive.start();
    let mut ana = again.client_of("ana", PASSWORD);
    assert_eq!(ana.get("/dav/ana/a.txt").expect("answers").text(), "hello", "the same data is opened again");
    again.signal(Signal::INT).expect("sent");
    assert!(again.wait().expect("stops").success());
}

#[test]
fn whoever_is_not_signed_in_is_asked_to_and_learns_nothing() {
    let drive = Drive::new();
    let server = drive.start();
    for mut client in [server.client(), server.client_of("ana", "wrong"), server.client_of("nobody", PASSWORD)] {
        for path in ["/dav/", "/dav/ana/", "/dav/no-such-space/", "/api/v1/me"] {
            let answer = client.get(path).expect("answers");
            assert_eq!(answer.status, 401, "{path}");
            assert_eq!(answer.header("www-authenticate"), Some("Basic realm=\"Holdfast\", charset=\"UTF-8\""));
        }
    }
    let mut ben = server.client_of("ben", OTHER_PASSWORD);
    assert_eq!(ben.get("/dav/ana/").expect("answers").status, 404, "another's space is not seen");
    assert_eq!(ben.get("/dav/ben/").expect("answers").status, 200);
}

#[test]
fn a_client_that_comes_through_an_unknown_proxy_must_not_send_its_password() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    let through = |proto: &str| {
        Request::new("GET", "/dav/ana/").header("x-forwarded-for", "203.0.113.9").header("x-forwarded-proto", proto)
    };
    let refused = ana.send(&through("https")).expect("answers");
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("trusted_proxies"), "{}", refused.text());
    drop(server);

    let server = drive.start_with(&["--trusted-proxy", "127.0.0.0/8"], &[]);
    let mut ana = server.client_of("ana", PASSWORD);
    assert_eq!(ana.send(&through("https")).expect("answers").status, 200);
    let refused = ana.send(&through("http")).expect("answers");
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("unencrypted"), "{}", refused.text());
}

#[test]
fn every_answer_has_an_id_and_keeps_browsers_from_running_what_is_stored() {
    let drive = Drive::new();
    let server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    ana.put("/dav/ana/page.html", "<script>alert(1)</script>").expect("answers");
    let page = ana.get("/dav/ana/page.html").expect("answers");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert!(page.header("content-security-policy").is_some_and(|policy| policy.contains("sandbox")));
    assert!(page.header("x-request-id").is_some());
}

#[test]
fn one_server_a_data_directory() {
    let drive = Drive::new();
    let server = drive.start();
    let (code, message) = drive.fails(&["serve", "--listen", "127.0.0.1:0"], "");
    assert_eq!(code, 75);
    assert!(message.contains(&format!("process {}", server.pid())), "{message}");
}

#[test]
fn a_newer_data_directory_is_refused_and_left_alone() {
    let drive = Drive::new();
    let format = drive.folder.path().join("data/format");
    std::fs::write(&format, "{\"format\": 2}").expect("written");
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["account", "list"], &["check"], &["reclaim"]] {
        let (code, message) = drive.fails(command, "");
        assert_eq!(code, 64, "{message}");
        assert!(message.contains("format 2") && message.contains("Upgrade"), "{message}");
    }
    assert_eq!(std::fs::read_to_string(format).expect("read"), "{\"format\": 2}");
}

#[test]
fn a_taken_address_is_named() {
    let drive = Drive::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = taken.local_addr().expect("has an address").to_string();
    let (code, message) = drive.fails(&["serve", "--listen", &address], "");
    assert_eq!(code, 69, "{message}");
    assert!(message.contains(&address), "{message}");
}

/// Sends the head and half of the body of an upload of ten bytes, and waits until the server has asked for it.
fn half_an_upload(address: std::net::SocketAddr, name: &str, authorization: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connects");
    let head = format!(
        "PUT /dav/ana/{name} HTTP/1.1\r\nhost: x\r\nauthorization: {authorization}\r\ncontent-length: 10\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).expect("is asked to go on");
    assert!(go_on.starts_with(b"HTTP/1.1 100 Continue"));
    stream.write_all(b"first").expect("sent");
    stream
}

#[test]
fn a_running_upload_may_finish_when_the_server_is_told_to_stop() {
    let drive = Drive::new();
    let mut server = drive.start();
    let authorization = server.client_of("ana", PASSWORD).authorization().expect("has one").to_owned();
    let mut upload = half_an_upload(server.address(), "late.txt", &authorization);
    server.signal(Signal::TERM).expect("sent");
    // New connections are refused once it has begun to stop; then the upload goes on.
    while TcpStream::connect(server.address()).is_ok() {}
    upload.write_all(b"later").expect("sent");
    let mut answer = String::new();
    upload.read_to_string(&mut answer).expect("read");
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(server.wait().expect("stops").success());
    let server = drive.start();
    assert_eq!(server.client_of("ana", PASSWORD).get("/dav/ana/late.txt").expect("answers").text(), "firstlater");
}

#[test]
fn a_second_signal_stops_at_once_and_the_unfinished_upload_leaves_nothing() {
    let drive = Drive::new();
    let mut server = drive.start();
    let authorization = server.client_of("ana", PASSWORD).authorization().expect("has one").to_owned();
    let mut upload = half_an_upload(server.address(), "never.txt", &authorization);
    server.signal(Signal::TERM).expect("sent");
    while TcpStream::connect(server.address()).is_ok() {}
    server.signal(Signal::TERM).expect("sent");
    assert!(server.wait().expect("stops").success());
    let mut answer = Vec::new();
    // Cut off: an end of the stream or a reset, but no answer.
    let _ = upload.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(drive.json(&["check", "--read-data"], "")["findings"], serde_json::json!([]));
    let server = drive.start();
    assert_eq!(server.client_of("ana", PASSWORD).get("/dav/ana/never.txt").expect("answers").status, 404);
}

#[test]
fn an_upload_that_is_not_done_by_the_end_of_the_drain_is_cut_off() {
    let drive = Drive::new();
    let mut server = drive.start_with(&[], &[("HOLDFAST_LIMITS__DRAIN_TIMEOUT_S", "1")]);
    let authorization = server.client_of("ana", PASSWORD).authorization().expect("has one").to_owned();
    let _upload = half_an_upload(server.address(), "never.txt", &authorization);
    assert!(server.terminate().expect("stops").success());
    assert!(server.log().contains("have been cut off"), "{}", server.log());
}

#[test]
fn the_first_administrator_is_made_once_and_shown_once() {
    let drive = Drive::empty();
    let server = drive.start_with(&["--init-admin", "root"], &[]);
    let shown = server.log();
    let password = shown.lines().find_map(|line| line.trim().strip_prefix("password ")).expect("is shown").trim();
    assert!(shown.contains("recovery code"));
    assert_eq!(server.client_of("root", password).get("/dav/root/").expect("answers").status, 200);
    drop(server);
    let again = drive.start_with(&["--init-admin", "root"], &[]);
    assert!(!again.log().contains("recovery code"), "{}", again.log());
}

#[test]
fn metrics_are_on_their_own_listener() {
    let drive = Drive::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let listen = format!("127.0.0.1:{port}");
    let server = drive.start_with(&["--metrics-listen", &listen], &[]);
    server.client_of("ana", PASSWORD).put("/dav/ana/a.txt", "hello").expect("answers");
    let mut metrics = holdfast_testkit::http::Client::new(listen.parse().expect("an address"));
    let text = metrics.get("/metrics").expect("answers").text();
    for name in [
        "holdfast_request_seconds_bucket{face=\"dav\",operation=\"PUT\"",
        "holdfast_request_bytes_total{operation=\"PUT\"} 5",
        "holdfast_connections ",
        "process_resident_memory_bytes ",
        "holdfast_memory_budget_bytes",
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
    assert_eq!(metrics.get("/dav/").expect("answers").status, 404);
}

#[test]
fn traffic_is_written_when_the_server_stops() {
    let drive = Drive::new();
    let mut server = drive.start();
    let mut ana = server.client_of("ana", PASSWORD);
    ana.put("/dav/ana/a.txt", "hello").expect("answers");
    ana.get("/dav/ana/a.txt").expect("answers");
    assert!(server.terminate().expect("stops").success());
    let day = &drive.json(&["account", "show", "ana"], "")["traffic"][0];
    assert_eq!((&day["requests"], &day["bytes_in"], &day["bytes_out"]), (&2.into(), &5.into(), &5.into()), "{day}");
}
