//! One request, from its head to its answer.
//!
//! What is public and in memory is answered without waiting for anything: two look-ups, a copy of a ready block of headers, a
//! reference to the bytes. Conditions are decided before any content is touched.

use super::entry::{Entry, Form};
use super::refresh::Serving;
use super::table::{Decoded, Mounted, Ready, Target, decode};
use super::visit::{self, DOORS};
use super::{Door, Visitor, doors, negotiate};
use crate::settings::Access;
use bytes::Bytes;
use futures_util::FutureExt;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use holdfast_http::{
    AnswerBody, Conditional, Facts, Multipart, RangeRequest, content_range, header_text, if_range_holds, ranges,
    read_conditions,
};
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, LOCATION, RANGE, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, request};
use std::borrow::Cow;
use std::sync::Arc;

pub(crate) type Answer = Response<AnswerBody>;

/// Policy of the pages the server itself makes: their own style and forms, nothing else.
const OWN_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
);

/// A request for a site.
pub(crate) struct Call<'a> {
    pub(crate) site: &'a Arc<Mounted>,
    /// The path in the site, as it was sent.
    pub(crate) path: &'a str,
    pub(crate) head: &'a request::Parts,
    pub(crate) visitor: Visitor,
}

impl Serving {
    /// Whether a request that came to the drive's own door is for a site.
    pub fn is_for_a_site(&self, headers: &HeaderMap, uri: &http::Uri) -> bool {
        host(headers, uri).is_ok_and(|host| self.table().has_host(&host))
    }

    /// The whole answer to a plain `GET` in HTTP/1.1, if it lies ready: a public page in memory. Its head is without `date` and the
    /// blank line. [`Self::answer`] would say the same.
    pub fn ready(&self, door: Door, host: &str, path: &str, accept_encoding: Option<&str>) -> Option<(Bytes, Bytes)> {
        let table = self.table();
        let (site, path) = table.find(door, &host_name(host)?, path)?;
        if site.access != Access::Public || path.is_empty() || path.starts_with(DOORS) {
            return None;
        }
        let ready = site.ready.as_ref()?;
        let Decoded::Path(path) = decode(path) else { return None };
        let Some(Cow::Borrowed(Target::File(at))) = ready.target(&path) else { return None };
        let entry = &ready.entries[*at];
        let form = if entry.varies() { entry.form(negotiate::accepted_of(accept_encoding)) } else { &entry.plain };
        Some((entry.wire(form).clone(), self.0.at_hand(&form.object)?))
    }

    /// Answers a request. Every outcome is an answer.
    pub async fn answer<B>(&self, door: Door, visitor: Visitor, request: Request<B>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let Ok(host) = host(&head.headers, &head.uri) else {
            return text(StatusCode::BAD_REQUEST, "The Host header is missing or malformed.\n");
        };
        // Before the table is asked: what it does not have then is not there.
        let settled = self.is_settled();
        let table = self.table();
        let Some((site, path)) = table.find(door, &host, head.uri.path()) else {
            if !settled {
                let mut answer =
                    text(StatusCode::SERVICE_UNAVAILABLE, "Sites are not loaded yet; try again shortly.\n");
                answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                return answer;
            }
            return text(StatusCode::NOT_FOUND, "There is no site here.\n");
        };
        let call = Call { site, path, head: &head, visitor };
        let answered = match head.method {
            Method::GET | Method::HEAD => self.read(&call).await,
            Method::POST if path.starts_with(DOORS) => doors::post(self, &call, body).await,
            Method::OPTIONS => Ok(allow(text(StatusCode::NO_CONTENT, ""))),
            _ => Ok(allow(text(StatusCode::METHOD_NOT_ALLOWED, "A site can only be read.\n"))),
        };
        answered.unwrap_or_else(|error| refusal(&error, site))
    }

    async fn read(&self, call: &Call<'_>) -> Result<Answer> {
        if call.path.is_empty() {
            return Ok(moved_to(&format!("{}/", call.site.prefix), call, StatusCode::PERMANENT_REDIRECT));
        }
        if let Some(door) = call.path.strip_prefix(DOORS)
            && let Some(answer) = doors::open(self, call, door).await?
        {
            return Ok(answer);
        }
        let ready = if let Some(preview) = self.previewed(call).await? {
            preview
        } else {
            if call.site.access != Access::Public
                && let Some(closed) = doors::gate(self, call).await?
            {
                return Ok(closed);
            }
            let Some(live) = &call.site.ready else {
                return Ok(text(StatusCode::NOT_FOUND, "Nothing is published here.\n"));
            };
            live.clone()
        };
        let path = match decode(call.path) {
            Decoded::Path(path) => path,
            Decoded::Nothing => Cow::Borrowed("\0"),
            Decoded::Malformed => return Ok(text(StatusCode::BAD_REQUEST, "The address is malformed.\n")),
        };
        match ready.target(&path).as_deref() {
            Some(Target::File(at)) => self.file(call, &ready.entries[*at], StatusCode::OK).await,
            Some(Target::Moved(to, status)) => Ok(moved(to.clone(), call, *status)),
            None => self.not_found(call, &ready).await,
        }
    }

    /// The snapshot of a preview's cookie, if there is one that is good.
    async fn previewed(&self, call: &Call<'_>) -> Result<Option<Arc<Ready>>> {
        if !call.head.headers.contains_key(COOKIE) {
            return Ok(None);
        }
        let now_s = self.0.sites.clock().now_ms() / 1_000;
        let mut cookies = visit::cookies(&call.head.headers, visit::PREVIEW_COOKIE);
        let snapshot = cookies.find_map(|token| visit::check(&call.site.visit_key, visit::Kind::Preview, token, now_s));
        match snapshot {
            Some(snapshot) => match self.0.preview(call.site, snapshot).await {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                ready => ready.map(Some),
            },
            None => Ok(None),
        }
    }

    async fn not_found(&self, call: &Call<'_>, ready: &Ready) -> Result<Answer> {
        match ready.not_found {
            Some(at) => self.file(call, &ready.entries[at], StatusCode::NOT_FOUND).await,
            None => Ok(text(StatusCode::NOT_FOUND, "There is no page at this address.\n")),
        }
    }

    /// A file, with the status of the page it is.
    async fn file(&self, call: &Call<'_>, entry: &Entry, status: StatusCode) -> Result<Answer> {
        let headers = &call.head.headers;
        let found = status == StatusCode::OK;
        let ranged = found && headers.contains_key(RANGE);
        let form = if ranged || !entry.varies() { &entry.plain } else { entry.form(negotiate::accepted(headers)) };
        if found && has_condition(headers) {
            match read_conditions(headers, Facts { tag: &form.tag, modified_ms: entry.modified_ms })? {
                Conditional::Proceed => {}
                Conditional::NotModified => return Ok(not_modified(entry, form)),
                Conditional::Failed(name) => {
                    return Ok(text(StatusCode::PRECONDITION_FAILED, format!("{name} does not hold.\n")));
                }
            }
        }
        if ranged && let Some(answer) = self.part(call, entry).await? {
            return Ok(answer);
        }
        let mut answer = Response::new(AnswerBody::empty());
        *answer.status_mut() = status;
        answer.headers_mut().clone_from(entry.head(form));
        if !found {
            answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        if call.head.method == Method::GET {
            *answer.body_mut() = match self.0.at_hand(&form.object) {
                Some(bytes) => AnswerBody::full(bytes),
                None => self.body(call.site, form).await?,
            };
        }
        Ok(answer)
    }

    async fn body(&self, site: &Arc<Mounted>, form: &Form) -> Result<AnswerBody> {
        if let Some(bytes) = self.0.content(site, form.object, form.bytes).await? {
            return Ok(AnswerBody::full(bytes));
        }
        let pieces = self.0.stream(site, form.object, ByteRange::whole(form.bytes)).await?;
        Ok(AnswerBody::stream(pieces, Some(form.bytes)))
    }

    /// What a `Range` header asks for, of the content as it is; none if it asks for the whole.
    async fn part(&self, call: &Call<'_>, entry: &Entry) -> Result<Option<Answer>> {
        let headers = &call.head.headers;
        let form = &entry.plain;
        let Some(wanted) = header_text(headers, RANGE)? else { return Ok(None) };
        // RFC 9110 section 14.2: a range counts for GET only.
        if call.head.method != Method::GET || !if_range_holds(headers, &form.tag)? {
            return Ok(None);
        }
        let size = form.bytes;
        let parts = match ranges(&wanted, size) {
            RangeRequest::Whole => return Ok(None),
            RangeRequest::Unsatisfiable => {
                let mut answer = text(StatusCode::RANGE_NOT_SATISFIABLE, format!("The file has {size} bytes.\n"));
                answer.headers_mut().insert(CONTENT_RANGE, value(&format!("bytes */{size}")));
                return Ok(Some(answer));
            }
            RangeRequest::Parts(parts) => parts,
        };
        let mut answer = Response::new(AnswerBody::empty());
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        answer.headers_mut().clone_from(entry.head(form));
        if let [part] = parts.as_slice() {
            answer.headers_mut().insert(CONTENT_LENGTH, part.len().into());
            answer.headers_mut().insert(CONTENT_RANGE, value(&content_range(*part, size)));
            *answer.body_mut() = self.slice(call.site, form, *part).await?;
            return Ok(Some(answer));
        }
        let parts = Multipart::new(parts, size, entry.kind.to_str().unwrap_or("application/octet-stream"));
        answer.headers_mut().insert(CONTENT_LENGTH, parts.length().into());
        answer.headers_mut().insert(CONTENT_TYPE, value(&parts.content_type()));
        let (serving, mounted, object) = (self.clone(), call.site.clone(), form.object);
        *answer.body_mut() = parts.body(move |range| {
            let (serving, mounted) = (serving.clone(), mounted.clone());
            async move { serving.0.range(&mounted, object, size, range).await }.boxed()
        });
        Ok(Some(answer))
    }

    async fn slice(&self, site: &Arc<Mounted>, form: &Form, range: ByteRange) -> Result<AnswerBody> {
        let pieces = self.0.range(site, form.object, form.bytes, range).await?;
        Ok(AnswerBody::stream(pieces, Some(range.len())))
    }
}

/// The host of a request: lower case, without port.
fn host<'a>(headers: &'a HeaderMap, uri: &'a http::Uri) -> Result<Cow<'a, str>> {
    let malformed = || Error::invalid("the Host header is missing or malformed");
    let mut values = headers.get_all(HOST).iter();
    let (first, more) = (values.next(), values.next().is_some());
    let text = match (uri.authority(), first) {
        (Some(authority), _) => authority.as_str(),
        (None, Some(value)) => value.to_str().map_err(|_| malformed())?,
        (None, None) => return Err(malformed()),
    };
    if more {
        return Err(malformed());
    }
    host_name(text).ok_or_else(malformed)
}

/// The name in a `Host` header: lower case, without port.
fn host_name(text: &str) -> Option<Cow<'_, str>> {
    // Inside brackets are the colons of an address.
    let end = text.rfind(']').map_or(0, |at| at + 1);
    let name = text[end..].find(':').map_or(text, |colon| &text[..end + colon]);
    let name = name.strip_suffix('.').unwrap_or(name);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    if name.is_empty() || name.len() > crate::limits::HOST_BYTES_MAX || !name.bytes().all(fits) {
        return None;
    }
    Some(if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    })
}

fn has_condition(headers: &HeaderMap) -> bool {
    [IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_MATCH, IF_UNMODIFIED_SINCE].iter().any(|name| headers.contains_key(name))
}

fn not_modified(entry: &Entry, form: &Form) -> Answer {
    let mut answer = Response::new(AnswerBody::empty());
    *answer.status_mut() = StatusCode::NOT_MODIFIED;
    let headers = answer.headers_mut();
    headers.clone_from(entry.head(form));
    // What describes content that is not sent (RFC 9110 section 15.4.5).
    for name in [CONTENT_LENGTH, CONTENT_TYPE, http::header::CONTENT_ENCODING] {
        headers.remove(name);
    }
    answer
}

/// A header value made here of plain ASCII.
pub(crate) fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

/// A short answer of the server's own.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    own(status, "text/plain; charset=utf-8", text.into())
}

/// An answer of the server's own, which no cache keeps.
pub(crate) fn own(status: StatusCode, kind: &'static str, bytes: Bytes) -> Answer {
    let length = bytes.len();
    let mut answer = Response::new(AnswerBody::full(bytes));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status != StatusCode::NO_CONTENT {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_SECURITY_POLICY, OWN_POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

fn allow(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
    answer
}

fn moved(to: HeaderValue, call: &Call<'_>, status: StatusCode) -> Answer {
    let mut answer = text(status, "Moved.\n");
    let to = match (call.head.uri.query(), to.to_str()) {
        (Some(query), Ok(path)) if !path.contains(['?', '#']) => value(&format!("{path}?{query}")),
        _ => to,
    };
    answer.headers_mut().insert(LOCATION, to);
    let keep = if call.site.access == Access::Public { "no-cache" } else { "private, no-store" };
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(keep));
    answer
}

fn moved_to(to: &str, call: &Call<'_>, status: StatusCode) -> Answer {
    moved(value(to), call, status)
}

/// An error as an answer. What is wrong inside is for the log.
fn refusal(error: &Error, site: &Mounted) -> Answer {
    let status = StatusCode::from_u16(error.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status.is_server_error() {
        tracing::error!(?error, site = site.name, "a page could not be answered");
        let status =
            if error.is_temporary() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::INTERNAL_SERVER_ERROR };
        let mut answer = text(status, "This page cannot be shown at the moment.\n");
        if error.is_temporary() {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        return answer;
    }
    let mut answer = text(status, format!("{}\n", error.message()));
    match error.kind() {
        ErrorKind::TooManyRequests { retry_after_s } => {
            answer.headers_mut().insert(RETRY_AFTER, retry_after_s.into());
        }
        ErrorKind::Unauthenticated => {
            answer.headers_mut().insert(WWW_AUTHENTICATE, doors::challenge(site));
            answer.headers_mut().insert(VARY, HeaderValue::from_static("authorization, cookie"));
        }
        _ => {}
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host_of(text: &str) -> Option<String> {
        let headers = std::iter::once((HOST, HeaderValue::from_str(text).ok()?)).collect();
        host(&headers, &http::Uri::from_static("/")).ok().map(Cow::into_owned)
    }

    #[test]
    fn hosts_are_compared_without_port_case_and_final_dot() {
        for (text, name) in
            [("A.example:80", "a.example"), ("a.example.", "a.example"), ("[::1]:80", "[::1]"), ("x", "x")]
        {
            assert_eq!(host_of(text).as_deref(), Some(name), "{text}");
        }
        for bad in ["", ":80", "a b", "a/b", "a\"", &"x".repeat(300)] {
            assert_eq!(host_of(bad), None, "{bad}");
        }
        let mut two = HeaderMap::new();
        two.append(HOST, HeaderValue::from_static("a"));
        two.append(HOST, HeaderValue::from_static("b"));
        assert!(host(&two, &http::Uri::from_static("/")).is_err());
    }

    proptest! {
        #[test]
        fn any_host_header_is_read_or_refused(text in "[ -~]{0,40}") {
            let _ = host_of(&text);
        }
    }
}
