//! What a server meets that is open to everybody: each gets the right answer, and the next request works.

use crate::common::{Drive, PASSWORD};
use holdfast_testkit::http::Request;
use holdfast_testkit::server::TestServer;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::TcpStream;

fn still_works(server: &TestServer) {
    let mut ana = server.client_of("ana", PASSWORD);
    assert_eq!(ana.get("/dav/ana/").expect("answers").status, 200);
}

fn raw(server: &TestServer, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("connects");
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn heads_that_are_slow_large_or_nonsense_are_refused() {
    let drive = Drive::new();
    let server = drive.start_with(&[], &[("HOLDFAST_LIMITS__HEAD_TIMEOUT_S", "1")]);
    assert!(raw(&server, b"GET / HTTP/1.1\r\nhost: x\r\nx-never: ends").starts_with("HTTP/1.1 408 "));
    let large = format!("GET / HTTP/1.1\r\nhost: x\r\nx-large: {}\r\n\r\n", "a".repeat(1 << 20));
    assert!(raw(&server, large.as_bytes()).starts_with("HTTP/1.1 431 "));
    let many = format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "x: y\r\n".repeat(500));
    assert!(raw(&server, many.as_bytes()).starts_with("HTTP/1.1 431 "));
    assert!(raw(&server, b"\0\0\0 not http at all\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(70_000));
    assert!(raw(&server, long.as_bytes()).starts_with("HTTP/1.1 414 "));
    still_works(&server);
}

#[test]
fn bodies_that_stall_or_lie_change_nothing() {
    let drive = Drive::new();
    let server = drive.start_with(&[], &[("HOLDFAST_LIMITS__STALL_TIMEOUT_S", "1")]);
    let authorization = server.client_of("ana", PASSWORD).authorization().expect("has one").to_owned();
    let put = |rest: &str| format!("PUT /dav/ana/x HTTP/1.1\r\nhost: x\r\nauthorization: {authorization}\r\n{rest}");
    assert!(raw(&server, put("content-length: 10\r\n\r\nabc").as_bytes()).starts_with("HTTP/1.1 408 "));
    assert!(raw(&server, put("transfer-encoding: chunked\r\n\r\nzz\r\n").as_bytes()).starts_with("HTTP/1.1 400 "));
    assert!(
        raw(&server, put("content-length: 3\r\ncontent-length: 4\r\n\r\nabc").as_bytes()).starts_with("HTTP/1.1 400 ")
    );
    let mut ana = server.client_of("ana", PASSWORD);
    assert_eq!(ana.get("/dav/ana/x").expect("answers").status, 404);
    still_works(&server);
}

#[test]
fn a_refused_upload_hears_why_though_it_goes_on_sending() {
    let drive = Drive::new();
    let server = drive.start();
    let mut nobody = server.client_of("ana", "wrong");
    let answer = nobody.send(&Request::new("PUT", "/dav/ana/x").body(vec![7; 8 << 20])).expect("answers");
    assert_eq!(answer.status, 401);
    let mut ben = server.client_of("ana", PASSWORD);
    let answer = ben.send(&Request::new("PUT", "/api/v1/me").body(vec![7; 8 << 20])).expect("answers");
    assert_eq!(answer.status, 405);
}

#[test]
fn over_the_limit_of_connections_is_told_so_and_room_comes_back() {
    let drive = Drive::new();
    let server = drive.start_with(&[], &[("HOLDFAST_LIMITS__CONNECTIONS_MAX", "2")]);
    let connect = || {
        let mut stream = TcpStream::connect(server.address()).expect("connects");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").expect("sent");
        let mut first = [0; 12];
        stream.read_exact(&mut first).expect("answers");
        (stream, first)
    };
    let held = [connect(), connect()];
    assert!(held.iter().all(|(_, first)| first == b"HTTP/1.1 200"));
    assert_eq!(&connect().1, b"HTTP/1.1 503");
    drop(held);
    while &connect().1 != b"HTTP/1.1 200" {}
}

#[test]
fn thousands_of_idle_connections_cost_little_and_stop_nobody() {
    const WANTED: u64 = 10_000;
    const MEMORY_MAX: u64 = 250 << 20;
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let room = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).saturating_sub(1_000);
    assert!(raised.is_ok() && room > 100, "too few open files for this test");
    let drive = Drive::new();
    let server = drive.start();
    let mut held = Vec::new();
    for number in 0..WANTED.min(room) {
        let mut stream = TcpStream::connect(server.address()).expect("connects");
        if number % 5 == 0 {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").expect("sent");
            let mut first = [0; 12];
            stream.read_exact(&mut first).expect("answers");
            assert_eq!(&first, b"HTTP/1.1 200");
        }
        held.push(stream);
    }
    still_works(&server);
    let memory = server.rss().expect("runs");
    assert!(memory <= MEMORY_MAX, "{memory} bytes with {} connections", held.len());
}
