//! The client against a real listener that plays a script: right answers, wrong ones, and none.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use url::Url;

use super::*;

/// What the server does with one request.
#[derive(Clone, Copy)]
enum Step {
    /// Read the request, send these bytes.
    Reply(&'static str),
    /// Send these bytes after reading the head only, and close.
    ReplyEarlyAndClose(&'static str),
    /// Read the request, send these bytes, close.
    ReplyAndClose(&'static str),
    /// Say nothing until the client goes away.
    Stall,
}

/// Plays one script per connection, in order; returns the requests' heads, connection by connection.
fn serve(scripts: Vec<Vec<Step>>) -> (Url, JoinHandle<Vec<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let thread = std::thread::spawn(move || {
        let play = |script: Vec<Step>| -> Vec<String> {
            let (mut stream, _) = listener.accept().expect("the client connects");
            script.into_iter().map_while(|step| play_step(&mut stream, step)).collect()
        };
        scripts.into_iter().map(play).collect()
    });
    (Url::parse(&format!("http://{address}/")).expect("a good URL"), thread)
}

fn play_step(stream: &mut TcpStream, step: Step) -> Option<String> {
    let mut seen = Vec::new();
    let head = read_head(stream, &mut seen)?;
    let sent_body = seen.len() - head.len();
    match step {
        Step::Reply(text) => {
            drain_body(stream, &head, sent_body);
            stream.write_all(text.as_bytes()).ok()?;
        }
        Step::ReplyAndClose(text) => {
            drain_body(stream, &head, sent_body);
            stream.write_all(text.as_bytes()).ok()?;
            stream.shutdown(std::net::Shutdown::Both).ok()?;
        }
        Step::ReplyEarlyAndClose(text) => {
            stream.write_all(text.as_bytes()).ok()?;
            stream.shutdown(std::net::Shutdown::Write).ok()?;
            let _ = std::io::copy(stream, &mut std::io::sink());
        }
        Step::Stall => {
            let _ = std::io::copy(stream, &mut std::io::sink());
        }
    }
    Some(head)
}

fn read_head(stream: &mut TcpStream, seen: &mut Vec<u8>) -> Option<String> {
    let mut piece = [0; 4096];
    loop {
        if let Some(at) = seen.windows(4).position(|window| window == b"\r\n\r\n") {
            return Some(String::from_utf8_lossy(&seen[..at + 4]).into_owned());
        }
        match stream.read(&mut piece).ok()? {
            0 => return None,
            count => seen.extend_from_slice(&piece[..count]),
        }
    }
}

fn drain_body(stream: &mut TcpStream, head: &str, already: usize) {
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
    let left = length.unwrap_or(0).saturating_sub(already) as u64;
    let _ = std::io::copy(&mut stream.take(left), &mut std::io::sink());
}

fn endpoint(url: &Url, stop: &Arc<AtomicBool>) -> Endpoint {
    let limits =
        Limits { connect: Duration::from_secs(10), stall: Duration::from_millis(100), total: Duration::from_mins(1) };
    Endpoint::new(url, Some(("me", "secret")), &Trust::System, limits, Arc::clone(stop))
        .expect("plain HTTP needs nothing")
}

fn get(path: &str) -> Request<'_> {
    Request { method: "GET", path, headers: &[], body: Body::None }
}

/// Each answer with its body.
type Asked = Vec<Result<(Answer, String), HttpError>>;

/// Sends GETs over one connection.
fn ask(script: Vec<Step>, requests: usize) -> (Asked, Vec<Vec<String>>) {
    let (url, server) = serve(vec![script]);
    let endpoint = endpoint(&url, &Arc::new(AtomicBool::new(false)));
    let mut connection = Connection::open(&endpoint).expect("the server listens");
    let answers = (0..requests)
        .map(|_| {
            let mut body = Vec::new();
            let answer = connection.send(&get("/x"), &mut |bytes| {
                body.extend_from_slice(bytes);
                Ok(())
            })?;
            Ok((answer, String::from_utf8_lossy(&body).into_owned()))
        })
        .collect();
    drop(connection);
    (answers, server.join().expect("the server does not panic"))
}

#[test]
fn answers_with_a_length_share_one_connection() {
    let reply = Step::Reply("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nServer: test/1\r\n\r\nhello");
    let (answers, heads) = ask(vec![reply, reply], 2);
    for answer in answers {
        let (answer, body) = answer.expect("a good answer");
        assert_eq!((answer.status, answer.body_bytes, body.as_str()), (200, 5, "hello"));
        assert_eq!(answer.server.as_deref(), Some("test/1"));
        assert!(answer.first_byte <= answer.total);
    }
    assert_eq!(heads[0].len(), 2);
    assert!(heads[0][0].starts_with("GET /x HTTP/1.1\r\nHost: 127.0.0.1:"));
    assert!(heads[0][0].contains("Authorization: Basic bWU6c2VjcmV0\r\n"), "me:secret");
}

#[test]
fn chunked_answers_are_put_together_and_the_connection_is_kept() {
    let chunked = "HTTP/1.1 207 Multi-Status\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n";
    let (answers, _) = ask(vec![Step::Reply(chunked), Step::Reply(chunked)], 2);
    for answer in answers {
        let (answer, body) = answer.expect("a good answer");
        assert_eq!((answer.status, body.as_str()), (207, "abcde"));
    }
}

#[test]
fn an_interim_answer_is_passed_over() {
    let reply = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
    let (mut answers, _) = ask(vec![Step::Reply(reply)], 1);
    assert_eq!(answers.remove(0).expect("a good answer").0.status, 201);
}

#[test]
fn an_answer_without_a_length_ends_with_the_connection() {
    let (mut answers, _) = ask(vec![Step::ReplyAndClose("HTTP/1.1 200 OK\r\n\r\nall of it")], 1);
    assert_eq!(answers.remove(0).expect("a good answer").1, "all of it");
}

#[test]
fn a_short_answer_is_an_error_that_says_how_short() {
    let (mut answers, _) = ask(vec![Step::ReplyAndClose("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")], 1);
    assert!(matches!(answers.remove(0), Err(HttpError::ShortAnswer { expected: 10, got: 3 })));
}

#[test]
fn a_chunked_answer_cut_inside_a_chunk_or_before_its_end_is_an_error() {
    for text in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
    ] {
        let (mut answers, _) = ask(vec![Step::ReplyAndClose(text)], 1);
        assert!(matches!(answers.remove(0), Err(HttpError::ShortChunk)), "{text:?}");
    }
}

#[test]
fn what_is_no_http_is_an_error() {
    for text in [
        "SMTP ready\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let (mut answers, _) = ask(vec![Step::ReplyAndClose(text)], 1);
        assert!(matches!(answers.remove(0), Err(HttpError::Malformed(_))), "{text:?}");
    }
}

#[test]
fn a_connection_closed_before_the_answer_is_an_error_when_it_was_new() {
    let (mut answers, _) = ask(vec![Step::ReplyAndClose("")], 1);
    assert!(matches!(answers.remove(0), Err(HttpError::ClosedBeforeAnswer)));
}

#[test]
fn a_kept_connection_that_was_closed_meanwhile_is_opened_anew_once_and_counted() {
    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (url, server) = serve(vec![vec![Step::ReplyAndClose(reply)], vec![Step::Reply(reply)]]);
    let endpoint = endpoint(&url, &Arc::new(AtomicBool::new(false)));
    let mut connection = Connection::open(&endpoint).expect("the server listens");
    for _ in 0..2 {
        let answer = connection.send(&get("/x"), &mut |_| Ok(())).expect("a good answer");
        assert_eq!(answer.status, 200);
    }
    assert_eq!(connection.reopened(), 1);
    drop(connection);
    assert_eq!(server.join().expect("the server does not panic").len(), 2);
}

#[test]
fn a_server_that_says_it_will_close_is_asked_again_on_a_new_connection() {
    let last = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    let (url, server) = serve(vec![vec![Step::Reply(last)], vec![Step::Reply(last)]]);
    let endpoint = endpoint(&url, &Arc::new(AtomicBool::new(false)));
    let mut connection = Connection::open(&endpoint).expect("the server listens");
    for _ in 0..2 {
        connection.send(&get("/x"), &mut |_| Ok(())).expect("a good answer");
    }
    assert_eq!(connection.reopened(), 1);
    server.join().expect("the server does not panic");
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let (mut answers, _) = ask(vec![Step::Stall], 1);
    assert!(matches!(answers.remove(0), Err(HttpError::Stalled { phase: "waiting for the answer", .. })));
}

#[test]
fn a_server_that_does_not_read_is_given_up() {
    // The kernel accepts for a listener that never does, and takes what its buffers hold.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = Url::parse(&format!("http://{}/", listener.local_addr().expect("it is bound"))).expect("a good URL");
    let endpoint = endpoint(&url, &Arc::new(AtomicBool::new(false)));
    let mut connection = Connection::open(&endpoint).expect("the server listens");
    let content = vec![0; 64 << 20]; // More than both socket buffers hold.
    let request = Request { method: "PUT", path: "/x", headers: &[], body: Body::Bytes(&content) };
    let error = connection.send(&request, &mut |_| Ok(())).expect_err("nobody reads");
    assert!(matches!(error, HttpError::Stalled { phase: "sending", .. }), "{error}");
}

#[test]
fn an_interrupt_ends_a_request_that_waits() {
    let (url, server) = serve(vec![vec![Step::Stall]]);
    let stop = Arc::new(AtomicBool::new(false));
    let endpoint = endpoint(&url, &stop);
    let mut connection = Connection::open(&endpoint).expect("the server listens");
    stop.store(true, Ordering::Relaxed);
    let error = connection.send(&get("/x"), &mut |_| Ok(())).expect_err("interrupted");
    assert!(matches!(error, HttpError::Interrupted), "{error}");
    drop(connection);
    server.join().expect("the server does not panic");
}

#[test]
fn a_refusal_before_the_body_was_read_is_reported_as_the_status_it_has() {
    let (url, server) = serve(vec![vec![Step::ReplyEarlyAndClose(
        "HTTP/1.1 507 Insufficient Storage\r\nContent-Length: 4\r\n\r\nfull",
    )]]);
    let endpoint = endpoint(&url, &Arc::new(AtomicBool::new(false)));
    let mut connection = Connection::open(&endpoint).expect("the server listens");
    let content = vec![0; 8 << 20];
    let request = Request { method: "PUT", path: "/x", headers: &[], body: Body::Bytes(&content) };
    assert_eq!(connection.send(&request, &mut |_| Ok(())).expect("an answer").status, 507);
    drop(connection);
    server.join().expect("the server does not panic");
}

#[test]
fn a_file_goes_out_whole_and_one_that_is_too_short_is_an_error() -> std::io::Result<()> {
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![7; 3 << 20])?;
    for (bytes, good) in [(3 << 20, true), (4 << 20, false)] {
        let (url, server) = serve(vec![vec![Step::Reply("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")]]);
        let endpoint = endpoint(&url, &Arc::new(AtomicBool::new(false)));
        let mut connection = Connection::open(&endpoint).expect("the server listens");
        let request = Request { method: "PUT", path: "/x", headers: &[], body: Body::File { file: &file, bytes } };
        let result = connection.send(&request, &mut |_| Ok(()));
        match result {
            Ok(answer) => assert!(good && answer.status == 201),
            Err(error) => assert!(!good && matches!(error, HttpError::ShortFile { sent: 3_145_728, .. }), "{error}"),
        }
        drop(connection);
        server.join().expect("the server does not panic");
    }
    Ok(())
}

#[test]
fn nobody_listening_is_an_error_that_names_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let url = Url::parse(&format!("http://{address}/")).expect("a good URL");
    let endpoint = endpoint(&url, &Arc::new(AtomicBool::new(false)));
    let error = Connection::open(&endpoint).map(|_| ()).expect_err("nobody listens");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

/// Serves one TLS connection with a certificate made for the test; echoes how long the body was.
fn serve_tls() -> (Url, JoinHandle<()>, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("certificate and key fit");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = Url::parse(&format!("https://{}/", listener.local_addr().expect("it is bound"))).expect("a good URL");
    let thread = std::thread::spawn(move || {
        let (tcp, _) = listener.accept().expect("the client connects");
        let session = rustls::ServerConnection::new(Arc::new(config)).expect("a session");
        let mut stream = rustls::StreamOwned::new(session, tcp);
        let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
        let wanted = 3 << 20;
        while let Ok(count) = stream.read(&mut piece) {
            seen.extend_from_slice(&piece[..count]);
            let head = seen.windows(4).position(|window| window == b"\r\n\r\n");
            if count == 0 || head.is_some_and(|at| seen.len() - at - 4 >= wanted) {
                break;
            }
        }
        let _ = stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
    });
    (url, thread, made.cert.pem())
}

#[test]
fn tls_is_accepted_with_a_named_certificate_or_without_checking_and_refused_otherwise() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    let ca_file = folder.path().join("ca.pem");
    let mut file = std::fs::File::create_new(folder.path().join("data"))?;
    file.write_all(&vec![7; 3 << 20])?;
    let file = std::fs::File::open(folder.path().join("data"))?;
    for (case, good) in [("insecure", true), ("named", true), ("other", false)] {
        let (url, server, pem) = serve_tls();
        let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
        std::fs::write(&ca_file, if case == "other" { other.cert.pem() } else { pem })?;
        let trust = if case == "insecure" { Trust::Anything } else { Trust::File(ca_file.clone()) };
        let limits =
            Limits { connect: Duration::from_secs(10), stall: Duration::from_secs(10), total: Duration::from_mins(1) };
        let endpoint = Endpoint::new(&url, None, &trust, limits, Arc::default()).expect("a configuration");
        match Connection::open(&endpoint) {
            Ok(mut connection) => {
                assert!(good, "{case}");
                let body = Body::File { file: &file, bytes: 3 << 20 };
                let request = Request { method: "PUT", path: "/x", headers: &[], body };
                let answer = connection.send(&request, &mut |_| Ok(())).expect("an answer");
                assert_eq!((answer.status, answer.body_bytes), (201, 2));
            }
            Err(error) => assert!(!good && matches!(error, HttpError::Tls(_)), "{case}: {error}"),
        }
        server.join().expect("the server does not panic");
    }
    Ok(())
}
