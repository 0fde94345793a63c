//! Load over TLS: kept alive and not, trusted and not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use holdfast_bench::load::{LoadOptions, LoadTarget, Method, Plan, Step, run};
use holdfast_bench::report::LoadRun;
use rustls::crypto::aws_lc_rs;
use url::Url;

/// Longer than one TLS record and one read.
const PAGE_BYTES: usize = 300_000;

/// Serves one page; gives its URL and the certificate as PEM.
fn serve() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("certificate and key fit");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://{}/", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || answer_all(tcp, config));
        }
    });
    (url, made.cert.pem())
}

/// Answers requests without a body until the client goes.
fn answer_all(tcp: TcpStream, config: Arc<rustls::ServerConfig>) {
    let session = rustls::ServerConnection::new(config).expect("a session");
    let mut stream = rustls::StreamOwned::new(session, tcp);
    let (mut seen, mut piece) = (Vec::new(), [0; 16 * 1024]);
    while let Ok(count) = stream.read(&mut piece)
        && count > 0
    {
        seen.extend_from_slice(&piece[..count]);
        let Some(end) = seen.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&seen[..end]).into_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok()).unwrap_or(0);
        if seen.len() < end + 4 + length {
            continue;
        }
        seen.drain(..end + 4 + length);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {PAGE_BYTES}\r\n\r\n{}", "s".repeat(PAGE_BYTES));
        if stream.write_all(answer.as_bytes()).is_err() || head.contains("Connection: close") {
            break;
        }
    }
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

fn measure(url: &str, keep_alive: bool, body_bytes: usize, trust: impl Fn(LoadOptions) -> LoadOptions) -> LoadRun {
    let mut step = Step::get(Url::parse(url).expect("a URL"));
    step.keep_alive = keep_alive;
    step.expect.content = Some(Arc::from("s".repeat(PAGE_BYTES).as_bytes()));
    if body_bytes > 0 {
        step.method = Method::Post;
        step.body = Arc::from(vec![b'b'; body_bytes]);
    }
    let plan = Plan { users: 3, loops: Some(5), ..Plan::once(vec![step]) };
    let target = LoadTarget { label: "it".to_owned(), pids: Vec::new(), plan };
    let options = LoadOptions { runs: 1, settle: false, warm: false, ..LoadOptions::new(vec![target]) };
    run(&trust(options)).expect("it runs").load.expect("a load").runs.remove(0)
}

#[test]
fn pages_come_whole_over_tls_with_small_and_large_bodies_kept_alive_and_not() {
    let (url, _) = serve();
    for (keep_alive, body_bytes, connections) in [(true, 0, 3), (false, 0, 15), (true, 5 << 20, 3)] {
        let run = measure(&url, keep_alive, body_bytes, |options| LoadOptions { insecure: true, ..options });
        assert_eq!((run.requests, run.failed, run.connections), (15, 0, connections), "{:?}", run.errors);
        assert_eq!(run.connect.expect("connections").requests, connections);
    }
}

#[test]
fn a_certificate_is_accepted_when_it_is_named_and_refused_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, pem) = serve();
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    for (name, pem, failed) in [("named", pem, 0), ("other", other.cert.pem(), 15)] {
        let path: PathBuf = folder.path().join(name);
        std::fs::write(&path, pem).expect("room");
        let run = measure(&url, true, 0, |options| LoadOptions { ca_file: Some(path.clone()), ..options });
        assert_eq!((run.requests, run.failed), (15, failed), "{name}: {:?}", run.errors);
        assert!(run.errors.iter().all(|kind| kind.class == "tls"), "{:?}", run.errors);
    }
}
