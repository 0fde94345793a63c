//! A WebDAV server in memory, just large enough for the bench: PUT, GET with Range, DELETE, MKCOL, PROPFIND.
//!
//! It can be told to misbehave, and it remembers what was left behind.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How the server misbehaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// One byte of every GET is wrong.
    WrongByte,
    /// Every PUT is refused with 507.
    Full,
    /// Every PROPFIND leaves one entry out.
    MissingEntry,
    /// A folder that holds anything cannot be deleted.
    KeepsFullFolders,
    /// MKCOL is refused with 403.
    ReadOnly,
}

#[derive(Default)]
struct State {
    /// Path to content; folders end with a slash.
    nodes: BTreeMap<String, Vec<u8>>,
    methods: BTreeMap<String, u64>,
    wrong_credentials: u64,
}

/// The server; it lives as long as the process.
pub(crate) struct Server {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/dav/", listener.local_addr().expect("it is bound"));
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state, fault));
            }
        });
        Self { url, state }
    }

    /// Everything on the server now.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.state.lock().expect("no panic under the lock").nodes.keys().cloned().collect()
    }

    /// How often a method was called.
    pub(crate) fn count(&self, method: &str) -> u64 {
        self.state.lock().expect("no panic under the lock").methods.get(method).copied().unwrap_or(0)
    }

    pub(crate) fn wrong_credentials(&self) -> u64 {
        self.state.lock().expect("no panic under the lock").wrong_credentials
    }
}

struct Request {
    method: String,
    path: String,
    range: Option<(usize, usize)>,
    authorized: bool,
    body: Vec<u8>,
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut request = Request { method, path, range: None, authorized: false, body: Vec::new() };
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name {
            "Content-Length" => request.body = vec![0; value.parse().ok()?],
            "Authorization" => request.authorized = value == "Basic bWU6c2VjcmV0", // me:secret
            "Range" => {
                let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
                request.range = Some((first.parse().ok()?, last.parse().ok()?));
            }
            _ => {}
        }
    }
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn serve(stream: TcpStream, state: &Mutex<State>, fault: Fault) {
    let mut writer = stream.try_clone().expect("a second handle");
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        let (status, header, body) = answer(request, &mut state.lock().expect("no panic under the lock"), fault);
        let head = format!("HTTP/1.1 {status}\r\nServer: memory/1\r\n{header}Content-Length: {}\r\n\r\n", body.len());
        if writer.write_all(&[head.as_bytes(), &body].concat()).is_err() {
            return;
        }
    }
}

type Answer = (&'static str, String, Vec<u8>);

fn answer(request: Request, state: &mut State, fault: Fault) -> Answer {
    let plain = |status| (status, String::new(), Vec::new());
    *state.methods.entry(request.method.clone()).or_default() += 1;
    if !request.authorized {
        state.wrong_credentials += 1;
        return plain("401 Unauthorized");
    }
    match request.method.as_str() {
        "MKCOL" if fault == Fault::ReadOnly => plain("403 Forbidden"),
        "MKCOL" => {
            state.nodes.insert(request.path, Vec::new());
            plain("201 Created")
        }
        "PUT" if fault == Fault::Full => plain("507 Insufficient Storage"),
        "PUT" => {
            state.nodes.insert(request.path, request.body);
            plain("201 Created")
        }
        "DELETE" if fault == Fault::KeepsFullFolders && is_full(state, &request.path) => {
            plain("405 Method Not Allowed")
        }
        "DELETE" => {
            let before = state.nodes.len();
            state.nodes.retain(|path, _| {
                *path != request.path && !(request.path.ends_with('/') && path.starts_with(&request.path))
            });
            plain(if state.nodes.len() < before { "204 No Content" } else { "404 Not Found" })
        }
        "GET" => match state.nodes.get(&request.path) {
            Some(content) => get(content, request.range, fault),
            None => plain("404 Not Found"),
        },
        "PROPFIND" => ("207 Multi-Status", String::new(), list(state, &request.path, fault).into_bytes()),
        _ => plain("405 Method Not Allowed"),
    }
}

fn is_full(state: &State, path: &str) -> bool {
    path.ends_with('/') && state.nodes.keys().any(|known| known != path && known.starts_with(path))
}

fn get(content: &[u8], range: Option<(usize, usize)>, fault: Fault) -> Answer {
    let mut content = content.to_vec();
    if fault == Fault::WrongByte
        && let Some(last) = content.last_mut()
    {
        *last ^= 1;
    }
    match range {
        None => ("200 OK", String::new(), content),
        Some((first, last)) => {
            let header = format!("Content-Range: bytes {first}-{last}/{}\r\n", content.len());
            ("206 Partial Content", header, content[first..=last].to_vec())
        }
    }
}

fn list(state: &State, path: &str, fault: Fault) -> String {
    let mut xml = String::from("<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\">");
    let skip = usize::from(fault == Fault::MissingEntry);
    for (path, content) in state.nodes.iter().filter(|(known, _)| known.starts_with(path)).skip(skip) {
        let _ = write!(
            xml,
            "<D:response><D:href>{path}</D:href><D:propstat><D:prop><D:getcontentlength>{}</D:getcontentlength></D:prop>\
             <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>",
            content.len()
        );
    }
    xml.push_str("</D:multistatus>");
    xml
}
