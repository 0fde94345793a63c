//! Against servers of this machine that say what they are told to; a real one is in the tests of the whole program.

use super::*;
use crate::{Job, Leg, LocalSite, Options, Report, run};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Answers each request, of which it gets the number and the head, until it is dropped with the test.
fn serve(answer: impl Fn(usize, &str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = listener.local_addr().expect("an address");
    let (answer, count) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(std::result::Result::ok) {
            let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().expect("clones"));
                let (mut head, mut stream) = (String::new(), stream);
                while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
                if head.lines().next().is_some_and(|line| line.contains(".sha256 ")) {
                    let _ =
                        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                    return;
                }
                // The other end may have gone, which is its business.
                let _ = answer(count.fetch_add(1, Ordering::Relaxed), &head, &mut stream);
            });
        }
    });
    format!("http://{address}/folder/a%20file.bin")
}

fn content() -> Vec<u8> {
    (0..3_500_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[..1].to_vec()).collect()
}

/// First and last byte that a request asks for.
fn range_of(head: &str) -> Option<(usize, usize)> {
    let line = head.lines().find_map(|line| line.strip_prefix("range: bytes="))?;
    let (first, last) = line.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

fn part(stream: &mut TcpStream, all: &[u8], (first, last): (usize, usize), tag: &str) -> std::io::Result<()> {
    let last = last.min(all.len() - 1);
    let (length, size) = (last + 1 - first, all.len());
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {first}-{last}/{size}\r\netag: {tag}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    )?;
    stream.write_all(&all[first..=last])
}

async fn pulled(url: &str) -> (Result<Report>, Option<Vec<u8>>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (site, to) = WebSite::file(url, &Login::default()).expect("an address");
    let leg = Leg { source: Arc::new(site), from: to.clone(), to };
    let destination = Arc::new(LocalSite::open(folder.path()).expect("opens"));
    let options = Options { retry_for: Duration::from_secs(3), stall: Duration::from_secs(2), ..Options::default() };
    let (events, mut told) = mpsc::channel(8);
    let listening = tokio::spawn(async move { while told.recv().await.is_some() {} });
    let (_stop, stopping) = watch::channel(false);
    let report = run(Job { legs: vec![leg], destination, options }, events, Arc::default(), stopping).await;
    listening.await.expect("listens");
    (report, std::fs::read(folder.path().join("a file.bin")).ok())
}

#[tokio::test]
async fn parts_are_asked_for_side_by_side_of_a_server_that_closes_after_each() {
    let all = content();
    let url = serve(move |_, head, stream| {
        let asked = range_of(head).expect("a range");
        assert!(asked.1 == 0 || head.contains("if-range: \"one\""), "{head}");
        part(stream, &all, asked, "\"one\"")
    });
    let (report, file) = pulled(&url).await;
    assert_eq!(report.expect("arrives").counts.failed, 0);
    assert!(file == Some(content()));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again_from_there() {
    let all = content();
    let url = serve(move |number, head, stream| {
        let (first, last) = range_of(head).expect("a range");
        if number == 3 {
            write!(
                stream,
                "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {first}-{last}/{}\r\netag: \"one\"\r\ncontent-length: {}\r\n\r\nhalf",
                all.len(),
                last + 1 - first
            )?;
            return Ok(());
        }
        part(stream, &all, (first, last), "\"one\"")
    });
    let (report, file) = pulled(&url).await;
    assert_eq!(report.expect("arrives").counts.retries, 1);
    assert!(file == Some(content()));
}

#[tokio::test]
async fn a_server_that_knows_no_ranges_is_read_from_the_start() {
    let all = content();
    let url = serve(move |_, head, stream| {
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nlast-modified: Mon, 23 Nov 2026 12:00:00 GMT\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            all.len()
        )?;
        if range_of(head).is_some() { Ok(()) } else { stream.write_all(&all) }
    });
    let (report, file) = pulled(&url).await;
    assert_eq!(report.expect("arrives").counts.failed, 0);
    assert!(file == Some(content()));
}

#[tokio::test]
async fn a_file_that_is_replaced_while_it_is_read_arrives_in_its_new_version() {
    let (old, new) = (content(), vec![7; 2_000_000]);
    let url = serve(move |number, head, stream| {
        let asked = range_of(head).expect("a range");
        if number < 4 {
            part(stream, &old, asked, "\"old\"")
        } else {
            part(stream, &new, (asked.0.min(1_999_999), asked.1), "\"new\"")
        }
    });
    let (report, file) = pulled(&url).await;
    assert_eq!(report.expect("arrives").counts.failed, 0);
    assert!(file == Some(vec![7; 2_000_000]));
}

#[tokio::test]
async fn what_a_server_says_is_not_believed_where_it_cannot_be() {
    let heads = [
        ("HTTP/1.1 404 Not Found\r\n\r\n", ErrorKind::NotFound),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", ErrorKind::Forbidden),
        ("HTTP/1.1 401 Unauthorized\r\n\r\n", ErrorKind::Forbidden),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", ErrorKind::Unsupported),
        ("HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 5-2/9\r\n\r\n", ErrorKind::Unsupported),
        ("HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-0/99999999999999999\r\n\r\n", ErrorKind::TooLarge),
        ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-encoding: gzip\r\n\r\n", ErrorKind::Unsupported),
        ("HTTP/1.1 302 Found\r\nlocation: ftp://elsewhere/\r\n\r\n", ErrorKind::Unsupported),
        ("HTTP/1.1 503 Service Unavailable\r\n\r\n", ErrorKind::Unavailable),
    ];
    for (head, kind) in heads {
        let url = serve(move |_, _, stream| stream.write_all(head.as_bytes()));
        let (report, file) = pulled(&url).await;
        assert_eq!(report.expect_err(head).kind(), kind, "{head}");
        assert!(file.is_none());
    }
    for bad in ["http:///x", "ftp://h/x", "http://h/", "http://ann:secret@h/x", "http://h/..", "x"] {
        assert_eq!(
            WebSite::file(bad, &Login::default()).map(|_| ()).expect_err(bad).kind(),
            ErrorKind::InvalidInput,
            "{bad}"
        );
    }
}
