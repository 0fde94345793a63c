//! One request to a WebDAV server, and what it means when it is refused.

use super::digest::Challenge;
use crate::other::wire::{Places, Reply, must_be_private};
use crate::other::{Login, SiteUrl};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_auth::Secret;
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use holdfast_blob::http::{Client, ERROR_TEXT_BYTES_MAX, Payload, Times, Trust};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;

/// What a name in a path needs no encoding for.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Bytes of a refusal that are shown.
const SHOWN: usize = 300;

/// A server.
pub(super) struct Server {
    client: Client,
    places: Places,
    /// `https://host:port`.
    pub(super) origin: String,
    login: Option<(String, Secret)>,
    /// What the server wants to be answered, if it does not take names and passwords as they are.
    challenge: Mutex<Option<Arc<Challenge>>>,
}

/// A request to be made.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Payload,
}

impl Call {
    pub(super) fn new(method: &str, path: String) -> Result<Self> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| Error::internal("a method that is none"))?;
        Ok(Self { method, path, headers: Vec::new(), body: Payload::empty() })
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn body(mut self, body: Payload) -> Self {
        self.body = body;
        self
    }
}

impl Server {
    pub(super) fn new(url: &SiteUrl, login: &Login) -> Result<Self> {
        if !matches!(url.scheme.as_str(), "https" | "http") {
            return Err(Error::invalid("an address of WebDAV is dav:https://HOST/PATH"));
        }
        let origin = url.origin();
        let uri: Uri = origin.parse().map_err(|_| Error::invalid(format!("{origin} is no address")))?;
        must_be_private(&uri)?;
        let trust = match &login.ca {
            _ if url.scheme == "http" => Trust::Nobody,
            Some(path) => Trust::File(path.clone()),
            None => Trust::Machine,
        };
        let client = Client::new(&trust, Times::unlimited())?;
        let login_of = login_of(login.user.as_ref().or(url.user.as_ref()), login)?;
        let (places, challenge) = (Places::new(login.connections), Mutex::default());
        Ok(Self { client, places, origin, login: login_of, challenge })
    }

    /// Makes the request; once more if the server asks to be answered first.
    pub(super) async fn send(&self, call: Call) -> Result<Reply> {
        let place = self.places.take().await?;
        let challenge = self.challenge.lock().clone();
        let answer = self.client.send(self.request(&call, challenge.as_deref())?).await?;
        let asked = answer.header("www-authenticate").filter(|_| answer.status == StatusCode::UNAUTHORIZED);
        let asked = asked.and_then(Challenge::parse).filter(|_| self.login.is_some());
        let Some(asked) = asked.filter(|asked| challenge.is_none_or(|before| before.nonce != asked.nonce)) else {
            return Ok(Reply { answer, _place: place });
        };
        let asked = Arc::new(asked);
        *self.challenge.lock() = Some(Arc::clone(&asked));
        if !call.body.is_here() {
            return Err(Error::unavailable("the server asks who it is in the middle of a file"));
        }
        answer.finish().await?;
        let answer = self.client.send(self.request(&call, Some(&asked))?).await?;
        Ok(Reply { answer, _place: place })
    }

    fn request(&self, call: &Call, challenge: Option<&Challenge>) -> Result<Request<Payload>> {
        let mut request = Request::builder().method(&call.method).uri(format!("{}{}", self.origin, call.path));
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        if let Some((user, password)) = &self.login {
            let text = match challenge {
                Some(challenge) => challenge.answer((user, password.expose()), call.method.as_str(), &call.path)?,
                None => format!("Basic {}", STANDARD.encode(format!("{user}:{}", password.expose()))),
            };
            let mut value =
                HeaderValue::from_str(&text).map_err(|_| Error::invalid("a name or password that cannot be sent"))?;
            value.set_sensitive(true);
            request = request.header("authorization", value);
        }
        let request =
            request.header("user-agent", concat!("holdfast/", env!("CARGO_PKG_VERSION"))).body(call.body.clone());
        request.map_err(|error| Error::invalid("a name or tag cannot be sent to the server").with_source(error))
    }
}

fn login_of(user: Option<&String>, login: &Login) -> Result<Option<(String, Secret)>> {
    match (user, &login.password) {
        (Some(user), Some(_)) if user.contains(':') => Err(Error::invalid("a user's name for WebDAV has no colon")),
        (Some(user), Some(password)) => Ok(Some((user.clone(), password.clone()))),
        (None, Some(_)) => Err(Error::invalid("--password-file needs --user NAME, or dav:https://NAME@HOST/PATH")),
        (Some(_), None) => Err(Error::invalid("--user needs --password-file FILE")),
        (None, None) => Ok(None),
    }
}

/// The path of something on the server; of a folder with a slash at its end.
pub(super) fn encoded(path: &DrivePath, folder: bool) -> String {
    let mut text = String::new();
    for name in path.names() {
        text.push('/');
        text.extend(utf8_percent_encode(name.as_str(), PLAIN));
    }
    if folder || text.is_empty() {
        text.push('/');
    }
    text
}

/// Why a server does not do something.
pub(super) async fn refused(reply: Reply) -> Error {
    let (status, retry_after_s) = (reply.answer.status, reply.answer.retry_after_s().unwrap_or(5));
    let text = reply.text(ERROR_TEXT_BYTES_MAX).await.unwrap_or_default();
    let what = format!("the server answered {status}");
    let (kind, message) = match status.as_u16() {
        401 => (ErrorKind::Unauthenticated, "the server does not accept the user's name and password".to_owned()),
        403 | 407 => (ErrorKind::Forbidden, what),
        404 | 410 => (ErrorKind::NotFound, what),
        405 => (ErrorKind::WrongKind, format!("{what}: is WebDAV spoken at this address?")),
        409 => (ErrorKind::Conflict, what),
        412 | 416 => (ErrorKind::PreconditionFailed, "it is not what it was".to_owned()),
        413 => (ErrorKind::TooLarge, what),
        423 => (ErrorKind::Locked, "it is locked by somebody else".to_owned()),
        429 => (ErrorKind::TooManyRequests { retry_after_s }, what),
        507 => (ErrorKind::NoSpace, "the server has no room".to_owned()),
        408 | 425 | 500 | 502..=504 => (ErrorKind::Unavailable, what),
        _ => (ErrorKind::Unsupported, what),
    };
    let text: String = String::from_utf8_lossy(&text).chars().take(SHOWN).collect();
    Error::new(kind, message).with_source(text)
}
