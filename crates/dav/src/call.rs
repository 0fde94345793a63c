//! One request while it is answered: the drive, the session and the request's head, with readers for headers and bodies.

use crate::DavBody;
use crate::face::DavOptions;
use crate::fault::Fault;
use crate::limits::{DRAIN_BYTES_MAX, XML_BODY_BYTES_MAX};
use crate::parse::{self, Depth, Resolved};
use crate::smart::Answers;
use bytes::Bytes;
use holdfast_auth::Session;
use holdfast_base::{DrivePath, Result};
use holdfast_drive::{Drive, Location};
use holdfast_http::body_error;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST};
use http::{HeaderName, HeaderValue, Response, StatusCode, request};
use http_body::Body;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use std::sync::Arc;

/// A request's body, whatever the server makes it of.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, holdfast_http::BoxError>;

/// See the module.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) drive: Arc<dyn Drive>,
    pub(crate) options: Arc<DavOptions>,
    pub(crate) who: Arc<Session>,
    pub(crate) head: Arc<request::Parts>,
    /// What searches found a moment ago.
    pub(crate) answers: Arc<Answers>,
    /// What the request calls places by other addresses than their own: its target's, and its destination's.
    pub(crate) aliases: Vec<Arc<Alias>>,
}

/// A place that is shown at another address, with what is below it.
#[derive(Debug)]
pub(crate) struct Alias {
    pub(crate) real: Location,
    pub(crate) shown: Location,
}

impl Alias {
    /// What the client calls a place, if it sees it this way.
    fn shown(&self, at: &Location) -> Option<Location> {
        rebased(at, &self.real, &self.shown)
    }

    /// The place that the client calls so, if this is where it sees it.
    fn real(&self, shown: &Location) -> Option<Location> {
        rebased(shown, &self.shown, &self.real)
    }
}

/// What is below one place, below another.
fn rebased(at: &Location, from: &Location, to: &Location) -> Option<Location> {
    let below = at.path.names().strip_prefix(from.path.names()).filter(|_| at.space == from.space)?;
    let path = DrivePath::from_names([to.path.names(), below].concat()).ok()?;
    Some(Location { space: to.space.clone(), path })
}

impl Call {
    /// A header as text, several of a name joined with commas.
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> Result<Option<String>, Fault> {
        let mut joined: Option<String> = None;
        for value in self.head.headers.get_all(name) {
            let text = std::str::from_utf8(value.as_bytes())
                .map_err(|_| Fault::bad_request("a header holds bytes that are not UTF-8"))?;
            match &mut joined {
                None => joined = Some(text.to_owned()),
                Some(joined) => {
                    joined.push_str(", ");
                    joined.push_str(text);
                }
            }
        }
        Ok(joined)
    }

    /// Whether the request has a header at all.
    pub(crate) fn has(&self, name: impl http::header::AsHeaderName) -> bool {
        self.head.headers.contains_key(name)
    }

    /// The `Depth` header, or what the method takes for it.
    pub(crate) fn depth(&self, default: Depth) -> Result<Depth, Fault> {
        Ok(self.header("depth")?.map_or(Ok(default), |text| parse::depth(&text))?)
    }

    /// Resolves a URI of a header against the names this request was sent to.
    pub(crate) fn resolve(&self, uri: &str) -> Result<Resolved, Fault> {
        let host = self.header(HOST)?.or_else(|| self.head.uri.authority().map(ToString::to_string));
        // Without a name for ourselves (HTTP/1.0) nothing can be told from another host, and everything is ours.
        let hosts: Vec<&str> = host
            .iter()
            .map(String::as_str)
            .flat_map(|host| std::iter::once(host).chain(self.options.hosts.iter().map(String::as_str)))
            .collect();
        parse::resolve(&self.options.prefix, &hosts, uri).map_err(Fault::of_path)
    }

    /// The href of a location, as the client calls it.
    pub(crate) fn href(&self, at: &Location, collection: bool) -> String {
        let shown = self.shown(at);
        crate::href::of(&self.options.prefix, shown.as_ref().unwrap_or(at), collection)
    }

    /// The href of the folder that a location is in, as the client calls it.
    pub(crate) fn href_above(&self, at: &Location) -> String {
        let shown = self.shown(at);
        let at = shown.as_ref().unwrap_or(at);
        let above = at.path.parent().map(|path| Location { space: at.space.clone(), path });
        above.map_or_else(
            || format!("{}/", self.options.prefix),
            |above| crate::href::of(&self.options.prefix, &above, true),
        )
    }

    fn shown(&self, at: &Location) -> Option<Location> {
        self.aliases.iter().find_map(|alias| alias.shown(at))
    }

    /// The place that the client calls so, if it is one that this request speaks of.
    pub(crate) fn real(&self, shown: &Location) -> Option<Location> {
        self.aliases.iter().find_map(|alias| alias.real(shown))
    }

    /// The same call, for a place that is shown at another address.
    pub(crate) fn through(&self, alias: Alias) -> Self {
        let mut call = self.clone();
        call.aliases.push(Arc::new(alias));
        call
    }

    /// `Content-Length`, if the request states one.
    pub(crate) fn content_length(&self) -> Result<Option<u64>, Fault> {
        let Some(text) = self.header(CONTENT_LENGTH)? else { return Ok(None) };
        match text.trim().parse() {
            Ok(length) if text.trim().bytes().all(|digit| digit.is_ascii_digit()) => Ok(Some(length)),
            _ => Err(Fault::bad_request("the Content-Length header is not a number")),
        }
    }
}

/// Reads an XML body, of limited size, whole.
pub(crate) async fn read_xml(mut body: RequestBody) -> Result<Vec<u8>, Fault> {
    let mut xml = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(body_error)?.into_data() else { continue };
        if xml.len() + data.len() > XML_BODY_BYTES_MAX {
            return Err(Fault::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("an XML body can have {XML_BODY_BYTES_MAX} bytes at most"),
            ));
        }
        xml.extend_from_slice(&data);
    }
    Ok(xml)
}

/// Whether a body has no byte; reads no further than the first.
pub(crate) async fn is_empty(body: &mut RequestBody) -> Result<bool, Fault> {
    while let Some(frame) = body.frame().await {
        if frame.map_err(body_error)?.into_data().is_ok_and(|data| !data.is_empty()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// After an early refusal: reads and drops a short body, so that the connection can be used again. A long body, or one that
/// the client holds back until it is told to go on (`Expect: 100-continue`), is not touched.
pub(crate) async fn drain(call: &Call, mut body: RequestBody) {
    let short = body.size_hint().upper().is_some_and(|bytes| bytes <= DRAIN_BYTES_MAX);
    if short && !call.has(EXPECT) {
        while let Some(Ok(_)) = body.frame().await {}
    }
}

/// A response with a status and no body.
pub(crate) fn empty(status: StatusCode) -> Response<DavBody> {
    let mut response = Response::new(DavBody::empty());
    *response.status_mut() = status;
    // 204 and 304 have no Content-Length (RFC 9110 section 8.6).
    if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(CONTENT_LENGTH, 0.into());
    }
    response
}

/// A response with an XML body at hand.
pub(crate) fn xml(status: StatusCode, body: impl Into<Bytes>) -> Response<DavBody> {
    let body = body.into();
    let mut response = Response::new(DavBody::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_LENGTH, body.len().into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
    *response.body_mut() = DavBody::full(body);
    response
}

/// Puts a header whose value was made here; one that cannot be a header is left out.
pub(crate) fn set(response: &mut Response<DavBody>, name: HeaderName, value: impl AsRef<str>) {
    if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
        response.headers_mut().insert(name, value);
    }
}
