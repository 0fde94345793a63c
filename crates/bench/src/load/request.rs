//! A plan made ready to be sent: every request as the bytes that go out, and the servers they go to.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::plan::{Plan, SERVERS_MAX, Step};
use crate::http::{Endpoint, Limits, Trust};

/// One server of a plan. Its name is looked up once, so that no run measures the resolver.
pub(super) struct Server {
    pub(super) endpoint: Endpoint,
    pub(super) addresses: Vec<SocketAddr>,
    origin: String,
}

/// One request, ready.
pub(super) struct Message {
    /// Index of its server.
    pub(super) server: usize,
    pub(super) bytes: Vec<u8>,
}

/// A plan, ready.
pub(super) struct Ready<'p> {
    pub(super) plan: &'p Plan,
    pub(super) servers: Vec<Server>,
    pub(super) messages: Vec<Message>,
    pub(super) limits: Limits,
}

impl<'p> Ready<'p> {
    pub(super) fn new(plan: &'p Plan, trust: &Trust, limits: Limits, stop: &Arc<AtomicBool>) -> anyhow::Result<Self> {
        let mut ready = Self { plan, servers: Vec::new(), messages: Vec::with_capacity(plan.steps.len()), limits };
        for step in &plan.steps {
            let origin = step.url.origin().ascii_serialization();
            let known = ready.servers.iter().position(|server| server.origin == origin);
            let server = if let Some(index) = known {
                index
            } else {
                ensure!(ready.servers.len() < SERVERS_MAX, "the requests go to more than {SERVERS_MAX} servers");
                let endpoint = Endpoint::new(&step.url, None, trust, limits, Arc::clone(stop))?;
                let addresses = endpoint.addresses().with_context(|| format!("cannot find {origin}"))?;
                ready.servers.push(Server { endpoint, addresses, origin });
                ready.servers.len() - 1
            };
            let bytes = message(step, ready.servers[server].endpoint.fixed_headers());
            ready.messages.push(Message { server, bytes });
        }
        Ok(ready)
    }
}

/// The bytes of a request. `fixed` are the header lines that every request to this server has, unless the step has its own.
fn message(step: &Step, fixed: &str) -> Vec<u8> {
    let path = step.url.path();
    let mut head = format!("{} {path}", step.method.name());
    if let Some(query) = step.url.query() {
        head.push('?');
        head.push_str(query);
    }
    head.push_str(" HTTP/1.1\r\n");
    let has = |name: &str| step.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    for line in fixed.split_inclusive("\r\n") {
        if line.split_once(':').is_some_and(|(name, _)| !has(name)) {
            head.push_str(line);
        }
    }
    if let Some((user, password)) = step.credentials.as_ref().filter(|_| !has("Authorization")) {
        let token = STANDARD.encode(format!("{user}:{password}"));
        let _ = write!(head, "Authorization: Basic {token}\r\n");
    }
    for (name, value) in step.headers.iter() {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if !step.keep_alive {
        head.push_str("Connection: close\r\n");
    }
    if step.method.has_body() {
        let _ = write!(head, "Content-Length: {}\r\n", step.body.len());
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&step.body);
    bytes
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::super::plan::Method;
    use super::*;

    #[test]
    fn a_request_has_its_own_headers_in_place_of_ours_and_the_length_of_its_body() {
        let mut step = Step::get(Url::parse("http://h:81/a%20b?c=d&e").expect("a URL"));
        step.method = Method::Post;
        step.headers = [("host".to_owned(), "other".to_owned()), ("X-A".to_owned(), "1".to_owned())].into();
        step.credentials = Some(("me".to_owned(), "secret".to_owned()));
        step.keep_alive = false;
        step.body = Arc::from(*b"hello");
        let bytes = message(&step, "Host: h:81\r\nUser-Agent: us\r\n");
        let right = "POST /a%20b?c=d&e HTTP/1.1\r\nUser-Agent: us\r\nAuthorization: Basic bWU6c2VjcmV0\r\nhost: other\r\n\
                     X-A: 1\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(String::from_utf8_lossy(&bytes), right);
    }
}
