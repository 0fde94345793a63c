//! A proxy that stands between a client and a real HTTP service and does harm by plan: answers errors, cuts, stalls, changes bytes,
//! swallows requests and says they succeeded.
//!
//! It understands HTTP/1.1 as far as it must: requests with a length, answers up to their end. Each request goes to the
//! service in a connection of its own; the client's connection is kept, as long as no fault cuts it.

mod wire;

pub use wire::{Request, read_request};

use parking_lot::Mutex;
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// What goes wrong with a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The service does not see it; this is the answer: a status, headers with their line ends, a body.
    Answer(u16, &'static str, &'static str),
    /// The service does not see it; the answer is a success with an `ETag` and no body.
    Swallow,
    /// The connection is cut before the service sees it.
    CutBefore,
    /// The service does it, and the connection is cut instead of its answer.
    CutAnswer,
    /// The connection is cut after so many bytes of the answer's body.
    CutBodyAfter(usize),
    /// The service does it, and nothing is answered for as long as the client waits.
    Stall,
    /// Nothing comes after so many bytes of the answer's body for as long as the client waits.
    StallBodyAfter(usize),
    /// This byte of the answer's body is changed.
    ChangeAnswer(usize),
    /// This byte of the request's body is changed.
    ChangeRequest(usize),
    /// The answer's body is so many bytes shorter, and its length says so.
    ShortenAnswer(usize),
    /// The answer's body is so many bytes longer, and its length says so.
    LengthenAnswer(usize),
}

/// Whether a rule is about a request.
type Matches = Box<dyn Fn(&Request) -> bool + Send>;

struct Rule {
    matches: Matches,
    times: usize,
    fault: Fault,
}

#[derive(Default)]
struct Shared {
    rules: Mutex<Vec<Rule>>,
    seen: Mutex<Vec<Request>>,
    open: AtomicUsize,
    latency: Mutex<Duration>,
    ended: AtomicBool,
}

/// A running proxy. Ends when dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Starts one in front of a port of this machine.
    pub fn start(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if of_thread.ended.load(Ordering::Acquire) {
                    break;
                }
                let shared = Arc::clone(&of_thread);
                std::thread::spawn(move || {
                    shared.open.fetch_add(1, Ordering::AcqRel);
                    // A broken connection is what this is for.
                    let _ = serve(&client, port, &shared);
                    let _ = client.shutdown(Shutdown::Both);
                    shared.open.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
        Ok(Self { address, shared })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Plans a fault for the next `times` requests that match.
    pub fn on(&self, times: usize, fault: Fault, matches: impl Fn(&Request) -> bool + Send + 'static) {
        self.shared.rules.lock().push(Rule { matches: Box::new(matches), times, fault });
    }

    /// Drops the plan, and forgets what was seen.
    pub fn clear(&self) {
        self.shared.rules.lock().clear();
        self.shared.seen.lock().clear();
    }

    /// Lets every request wait so long, as a distant service would.
    pub fn set_latency(&self, latency: Duration) {
        *self.shared.latency.lock() = latency;
    }

    /// The requests so far, without their bodies.
    pub fn seen(&self) -> Vec<Request> {
        self.shared.seen.lock().clone()
    }

    /// How many connections of clients are open.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::Acquire)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn planned(&self, request: &Request) -> Option<Fault> {
        let mut rules = self.rules.lock();
        let rule = rules.iter_mut().find(|rule| rule.times > 0 && (rule.matches)(request))?;
        rule.times -= 1;
        Some(rule.fault.clone())
    }
}

/// Serves one client until it goes or is cut off.
fn serve(client: &TcpStream, port: u16, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut reader = BufReader::new(client.try_clone()?);
    while let Some(mut request) = read_request(&mut reader)? {
        shared.seen.lock().push(Request { body: Vec::new(), ..request.clone() });
        let latency = *shared.latency.lock();
        if !latency.is_zero() {
            // Not to wait for something, but to be as slow as something.
            std::thread::sleep(latency);
        }
        let fault = shared.planned(&request);
        match &fault {
            Some(Fault::Answer(status, headers, body)) => {
                let length = body.len();
                write!(&*client, "HTTP/1.1 {status} -\r\n{headers}Content-Length: {length}\r\n\r\n{body}")?;
                continue;
            }
            Some(Fault::Swallow) => {
                let tag = request.header("etag").unwrap_or("00000000000000000000000000000000");
                write!(&*client, "HTTP/1.1 201 Created\r\nETag: \"{tag}\"\r\nContent-Length: 0\r\n\r\n")?;
                continue;
            }
            Some(Fault::CutBefore) => return Ok(()),
            Some(Fault::ChangeRequest(at)) => change(&mut request.body, *at),
            _ => {}
        }
        let (head, body) = wire::forward(&request, port)?;
        if !answer(client, &request, &head, body, fault.as_ref())? {
            return Ok(());
        }
    }
    Ok(())
}

fn change(body: &mut [u8], at: usize) {
    if let Some(byte) = body.get_mut(at) {
        *byte ^= 0x55;
    }
}

/// Hands the answer on, with its fault. Answers whether the connection goes on.
fn answer(
    client: &TcpStream,
    request: &Request,
    head: &str,
    mut body: Vec<u8>,
    fault: Option<&Fault>,
) -> io::Result<bool> {
    let mut client = client;
    match fault {
        Some(Fault::CutAnswer) => return Ok(false),
        Some(Fault::Stall) => return wait_for_the_client_to_go(client),
        Some(Fault::ChangeAnswer(at)) => change(&mut body, *at),
        Some(Fault::ShortenAnswer(bytes)) => body.truncate(body.len().saturating_sub(*bytes)),
        Some(Fault::LengthenAnswer(bytes)) => body.resize(body.len() + bytes, 0),
        _ => {}
    }
    let mut lines = head.lines();
    let mut text = format!("{}\r\n", lines.next().unwrap_or_default());
    let framing = |name: &str| {
        matches!(name, "connection" | "transfer-encoding") || (name == "content-length" && request.method != "HEAD")
    };
    for line in lines.filter(|line| line.contains(':')) {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if !framing(&name) {
            text.extend([line, "\r\n"]);
        }
    }
    // 204 and 304 have no body and no length (RFC 9110 section 8.6).
    let status = head.split(' ').nth(1).unwrap_or_default();
    if request.method != "HEAD" && !matches!(status, "204" | "304") {
        text.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
    }
    client.write_all((text + "\r\n").as_bytes())?;
    match fault {
        Some(Fault::CutBodyAfter(bytes)) => {
            client.write_all(&body[..body.len().min(*bytes)])?;
            Ok(false)
        }
        Some(Fault::StallBodyAfter(bytes)) => {
            client.write_all(&body[..body.len().min(*bytes)])?;
            wait_for_the_client_to_go(client)
        }
        _ => client.write_all(&body).map(|()| true),
    }
}

fn wait_for_the_client_to_go(mut client: &TcpStream) -> io::Result<bool> {
    while client.read(&mut [0; 1_024])? > 0 {}
    Ok(false)
}
