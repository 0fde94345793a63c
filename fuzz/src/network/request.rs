//! Whole requests, one after the other, to the face over the real engine: SQLite in a folder, packs in memory.
//!
//! An input is text: a request's line (`PUT /dav/ana/a`), header lines, an empty line, the body, and before each further
//! request a line of `%%`. Each input has a home of its own, whatever the text calls it, so that what one input does is not
//! seen by the next.

use super::rig::Rig;
use bytes::Bytes;
use holdfast_auth::Session;
use holdfast_base::ManualClock;
use http::Request;
use http_body_util::Full;
use std::cell::RefCell;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Requests of one input that are answered.
const REQUESTS_MAX: usize = 12;

/// Inputs after which everything is made anew, so that a long run does not measure a full catalogue.
const INPUTS_PER_RIG: u32 = 2_000;

/// What texts call the home of the account whose session it is.
const HOME: &str = "/ana";

struct Bench {
    runtime: Runtime,
    rig: Rig,
    inputs: u32,
}

thread_local! {
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

/// Answers every request; then the drive must be as usable as before.
pub fn request(data: &[u8]) {
    BENCH.with_borrow_mut(|slot| {
        let mut bench = slot.take().filter(|bench| bench.inputs < INPUTS_PER_RIG).unwrap_or_else(Bench::new);
        bench.inputs += 1;
        bench.run(data);
        // Left empty by a panic: what it was in the middle of is given up.
        *slot = Some(bench);
    });
}

impl Bench {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let rig = runtime.block_on(Rig::new(Arc::new(ManualClock::new(1_700_000_000_000))));
        Self { runtime, rig, inputs: 0 }
    }

    fn run(&self, data: &[u8]) {
        let name = format!("u{}", self.inputs);
        self.runtime.block_on(async {
            let who = self.rig.account(&name).await;
            let text = replace(data, HOME.as_bytes(), format!("/{name}").as_bytes());
            for request in split(&text, b"\n%%\n").into_iter().take(REQUESTS_MAX).filter_map(parse) {
                self.exchange(&who, request).await;
            }
            let usable = Request::builder().method("PROPFIND").uri(format!("/dav/{name}/")).header("depth", "infinity");
            assert_eq!(self.exchange(&who, usable.body(Full::default()).expect("a request")).await, 207);
        });
    }

    /// Answers one request; whatever it asks, it is no fault of the server's (502 is for a destination on another one).
    async fn exchange(&self, who: &Arc<Session>, request: Request<Full<Bytes>>) -> u16 {
        let asked = format!("{} {}", request.method(), request.uri());
        let reply = self.rig.exchange(who, request).await;
        assert!(
            reply.status < 500 || matches!(reply.status, 501 | 502 | 507),
            "{asked}: {} {:?}",
            reply.status,
            reply.body
        );
        if reply.header("content-type").starts_with("application/xml") {
            assert_well_formed(&asked, reply.text());
        }
        reply.status
    }
}

/// Reads a request's text; none if it is not one that HTTP could carry.
fn parse(text: &[u8]) -> Option<Request<Full<Bytes>>> {
    let mut parts = text.splitn(2, |byte| *byte == b'\n');
    let (method, target) = std::str::from_utf8(parts.next()?).ok()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(target);
    let mut rest = parts.next().unwrap_or_default();
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let (line, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        if line.is_empty() {
            return request.body(Full::new(Bytes::copy_from_slice(rest))).ok();
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
}

fn assert_well_formed(asked: &str, xml: &str) {
    let mut reader = quick_xml::Reader::from_str(xml);
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Eof) => return,
            Ok(_) => {}
            Err(error) => panic!("{asked}: an answer is not well-formed: {error}: {xml}"),
        }
    }
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    split(text, from).join(to)
}

fn split<'a>(text: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with(separator) {
            parts.push(&text[start..at]);
            at += separator.len();
            start = at;
        } else {
            at += 1;
        }
    }
    parts.push(&text[start..]);
    parts
}
