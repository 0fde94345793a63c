//! A web server that behaves as each path asks it to, and counts.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What was asked for.
#[derive(Default)]
struct Counts {
    connections: u64,
    /// By `METHOD path`.
    requests: BTreeMap<String, u64>,
    /// The head of the last request.
    last_head: String,
    last_body: Vec<u8>,
}

/// The server; it lives as long as the process.
pub(crate) struct Pages {
    pub(crate) url: String,
    counts: Arc<Mutex<Counts>>,
}

impl Pages {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let counts = Arc::new(Mutex::new(Counts::default()));
        let shared = Arc::clone(&counts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                shared.lock().expect("no panic under the lock").connections += 1;
                let counts = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &counts));
            }
        });
        Self { url, counts }
    }

    pub(crate) fn connections(&self) -> u64 {
        self.counts.lock().expect("no panic under the lock").connections
    }

    /// How often `METHOD path` was asked for.
    pub(crate) fn count(&self, request: &str) -> u64 {
        self.counts.lock().expect("no panic under the lock").requests.get(request).copied().unwrap_or(0)
    }

    pub(crate) fn last_request(&self) -> (String, Vec<u8>) {
        let counts = self.counts.lock().expect("no panic under the lock");
        (counts.last_head.clone(), counts.last_body.clone())
    }
}

fn serve(stream: TcpStream, counts: &Mutex<Counts>) {
    let mut writer = stream.try_clone().expect("a second handle");
    let mut reader = BufReader::new(stream);
    let mut seen = 0;
    while let Some((head, body)) = read_request(&mut reader) {
        seen += 1;
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or("").to_owned(), words.next().unwrap_or("").to_owned());
        let close = head.contains("Connection: close\r\n");
        {
            let mut counts = counts.lock().expect("no panic under the lock");
            *counts.requests.entry(format!("{method} {path}")).or_default() += 1;
            (counts.last_head, counts.last_body) = (head, body);
        }
        if !answer(&mut writer, &method, &path, seen) || close {
            break;
        }
    }
    let _ = writer.shutdown(Shutdown::Both);
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if &head[before..] == "\r\n" {
            break;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Answers one request; tells whether the connection stays.
fn answer(writer: &mut TcpStream, method: &str, path: &str, seen: u64) -> bool {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let number = |at: usize| parts.get(at).and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
    let full = |status: &str, bytes: usize| {
        let head = format!("HTTP/1.1 {status}\r\nServer: pages/1\r\nContent-Length: {bytes}\r\n\r\n");
        let body = if method == "HEAD" { Vec::new() } else { vec![b'x'; bytes] };
        [head.into_bytes(), body].concat()
    };
    let (bytes, stays) = match parts[0] {
        "bytes" => (full("200 OK", number(1)), true),
        "status" => (full(&format!("{} Made", number(1)), 2), true),
        // The second connection and every further request of one get their answer; the first is closed without a word.
        "closes" => (Vec::new(), false),
        "stale" => (full("200 OK", 3), seen < 2),
        "short" => (full("200 OK", 100)[..80].to_vec(), false),
        "chunked" => {
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n".to_vec(), true)
        }
        "until-close" => (b"HTTP/1.1 200 OK\r\n\r\nall of it".to_vec(), false),
        "nonsense" => (b"SMTP ready\r\n\r\n".to_vec(), false),
        "changing" => {
            let mut bytes = full("200 OK", 4);
            *bytes.last_mut().expect("four bytes") = if seen.is_multiple_of(2) { b'y' } else { b'x' };
            (bytes, true)
        }
        "stalls" => {
            // Until the client has enough of it.
            let _ = std::io::copy(writer, &mut std::io::sink());
            return false;
        }
        _ => (full("404 Not Found", 0), true),
    };
    writer.write_all(&bytes).is_ok() && stays
}
