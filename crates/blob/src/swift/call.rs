//! One request with a token, and what it means when it is refused.

use super::SwiftOptions;
use super::auth::{Choice, Session};
use super::session::Sessions;
use crate::http::{Answer, Client, ERROR_TEXT_BYTES_MAX, Payload, Trust, check_scheme};
use holdfast_base::{Error, ErrorKind, Result};
use http::{Method, Request, StatusCode, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::sync::Arc;

/// What needs no encoding in a path or query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// An account of a service, with a container.
pub struct Swift {
    client: Client,
    sessions: Sessions,
    container: String,
    segments: String,
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// The account.
    Account,
    /// The container.
    Container,
    /// The container of segments.
    Segments,
    /// An object, by its key.
    Object(&'a str),
    /// A segment, by its key.
    Segment(&'a str),
    /// By its path below the account.
    Path(&'a str),
}

/// A request to be made.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    method: Method,
    target: Target<'a>,
    query: String,
    headers: Vec<(&'static str, String)>,
    body: Payload,
}

impl<'a> Call<'a> {
    /// A request.
    pub const fn new(method: Method, target: Target<'a>) -> Self {
        Self { method, target, query: String::new(), headers: Vec::new(), body: Payload::empty() }
    }

    /// Adds a parameter; one without a value has none.
    #[must_use]
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push(if self.query.is_empty() { '?' } else { '&' });
        self.query.push_str(name);
        if !value.is_empty() {
            self.query.push('=');
            self.query.extend(utf8_percent_encode(value, PLAIN));
        }
        self
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// With a body.
    #[must_use]
    pub fn body(mut self, body: Payload) -> Self {
        self.body = body;
        self
    }
}

impl Swift {
    /// A container, which is not asked for yet.
    pub fn new(options: &SwiftOptions) -> Result<Self> {
        check_container(&options.container)?;
        let auth = options.auth.url().parse::<Uri>().map_err(|error| {
            Error::invalid("auth is no address such as https://swift.example.org/auth/v1.0").with_source(error)
        })?;
        check_scheme(&auth, options.plain_http)?;
        // The account may be elsewhere than the sign-in, so plain addresses are tested one by one.
        let trust = options.ca_file.clone().map_or_else(
            || if auth.scheme_str() == Some("http") { Trust::Nobody } else { Trust::Machine },
            Trust::File,
        );
        let choice = Choice { region: options.region.clone(), interface: options.interface.clone() };
        Ok(Self {
            client: Client::new(&trust, options.times)?,
            sessions: Sessions::new(options.auth.clone(), choice, options.plain_http),
            container: options.container.clone(),
            segments: format!("{}_segments", options.container),
        })
    }

    /// The path of a target below the account, with a slash before it; as manifests and bulk requests name things.
    pub fn path(&self, target: Target<'_>) -> String {
        match target {
            Target::Account => String::new(),
            Target::Container => format!("/{}", self.container),
            Target::Segments => format!("/{}", self.segments),
            Target::Object(key) => format!("/{}/{}", self.container, utf8_percent_encode(key, PLAIN)),
            Target::Segment(key) => format!("/{}/{}", self.segments, utf8_percent_encode(key, PLAIN)),
            Target::Path(path) => path.to_owned(),
        }
    }

    /// Makes the request; once more, in another session, if its token was refused.
    pub async fn send(&self, call: Call<'_>) -> Result<Answer> {
        let session = self.sessions.current(&self.client).await?;
        let answer = self.client.send(self.request(&call, &session)?).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        answer.finish().await?;
        let session = self.sessions.after(&self.client, &session).await?;
        self.client.send(self.request(&call, &session)?).await
    }

    fn request(&self, call: &Call<'_>, session: &Arc<Session>) -> Result<Request<Payload>> {
        let uri = format!("{}{}{}", session.storage_url, self.path(call.target), call.query);
        let mut request =
            Request::builder().method(&call.method).uri(uri).header("x-auth-token", session.token.reveal());
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        let request = request.body(call.body.clone());
        request.map_err(|error| Error::internal("a request to the store could not be built").with_source(error))
    }

    /// How many objects one bulk request may remove; none if the service has no such thing.
    pub(super) async fn bulk_delete_max(&self) -> Result<usize> {
        let session = self.sessions.current(&self.client).await?;
        let account: Uri = session
            .storage_url
            .parse()
            .map_err(|error| Error::damaged("the address of the account is none").with_source(error))?;
        let (Some(scheme), Some(authority)) = (account.scheme_str(), account.authority()) else { return Ok(0) };
        let request = Request::get(format!("{scheme}://{authority}/info")).body(Payload::empty());
        let request = request.map_err(|error| Error::internal("no request").with_source(error))?;
        let answer = self.client.send(request).await?;
        if answer.status != StatusCode::OK {
            // Some clouds close this address; then nothing is known to be offered.
            answer.finish().await?;
            return Ok(0);
        }
        let info: Value = serde_json::from_slice(&answer.text(ERROR_TEXT_BYTES_MAX).await?).unwrap_or_default();
        let offered = info["bulk_delete"]["max_deletes_per_request"].as_u64();
        Ok(offered.and_then(|offered| usize::try_from(offered).ok()).unwrap_or(0))
    }

    /// What an answer that is no success means.
    pub(super) async fn failure(&self, answer: Answer, target: Target<'_>) -> Error {
        let (status, retry_after_s) = (answer.status, answer.retry_after_s().unwrap_or(1));
        let text = answer.text(ERROR_TEXT_BYTES_MAX).await.unwrap_or_default();
        let text: String = String::from_utf8_lossy(&text).chars().take(500).collect();
        let (kind, message) = self.meaning(status, &text, retry_after_s, target);
        Error::new(kind, message).with_source(format!("{status}: {text}"))
    }

    fn meaning(&self, status: StatusCode, text: &str, retry_after_s: u32, target: Target<'_>) -> (ErrorKind, String) {
        match (status.as_u16(), target) {
            (401, _) => (ErrorKind::Unauthenticated, "the store refuses the token it has just given".to_owned()),
            (403, _) => (ErrorKind::Forbidden, format!("the user may not do this in container {:?}", self.container)),
            (404, Target::Object(_)) if !text.contains("ontainer") => {
                (ErrorKind::NotFound, "there is no such pack".to_owned())
            }
            (404, _) => {
                let message = format!("there is no container {:?}: make it, or mend its name", self.container);
                (ErrorKind::Conflict, message)
            }
            (412, _) => (ErrorKind::AlreadyExists, "it exists already".to_owned()),
            (413 | 507, _) => (ErrorKind::NoSpace, "the store is full, or over its quota".to_owned()),
            (422, _) => (ErrorKind::Unavailable, "the bytes were changed on their way to the store".to_owned()),
            (429 | 498, _) => (ErrorKind::TooManyRequests { retry_after_s }, "the store asks to slow down".to_owned()),
            (408 | 409 | 499 | 500..=599, _) => {
                (ErrorKind::Unavailable, format!("the store failed ({})", status.as_u16()))
            }
            (status, _) => (ErrorKind::Internal, format!("the store refuses the request ({status})")),
        }
    }
}

/// A container's name goes into paths as it is.
fn check_container(container: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // Swift takes 256 bytes, and "_segments" is added.
    if (1..=240).contains(&container.len()) && container.bytes().all(plain) && !container.starts_with('.') {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{container:?} cannot be a container here: its name has up to 240 letters, digits, '-', '_' and '.'"
    )))
}
