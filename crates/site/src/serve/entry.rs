//! A file of a snapshot, ready to be answered: its forms, each with the block of headers it is answered with.
//!
//! A block is made when it is first needed and copied from then on.

use super::negotiate::Accepted;
use crate::index::{HeaderRule, Route, covers};
use crate::layout::ObjectId;
use crate::settings::Access;
use crate::variants::ENCODINGS;
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    LAST_MODIFIED, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::{Arc, OnceLock};

/// What a page may do if its site says nothing else: load from its own origin, pictures from anywhere, and no inline script.
pub(crate) const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data: https:; media-src 'self' https:; style-src 'self' 'unsafe-inline'; \
     object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'",
);

/// What all entries of a mounted snapshot share.
#[derive(Debug)]
pub(crate) struct Dress {
    pub(crate) headers: Vec<HeaderRule>,
    /// A preview or somebody's private site: not kept anywhere.
    pub(crate) no_store: bool,
}

impl Dress {
    pub(crate) fn new(headers: Vec<HeaderRule>, access: &Access, preview: bool) -> Self {
        Self { headers, no_store: preview || *access != Access::Public }
    }
}

/// One form of a content.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) object: ObjectId,
    pub(crate) bytes: u64,
    pub(crate) tag: String,
    encoding: Option<&'static str>,
    head: OnceLock<HeaderMap>,
    wire: OnceLock<Bytes>,
}

impl Form {
    fn new(object: ObjectId, bytes: u64, encoding: Option<&'static str>) -> Self {
        Self { object, bytes, tag: object.entity_tag(), encoding, head: OnceLock::new(), wire: OnceLock::new() }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The file's path in the site.
    pub(crate) path: Box<str>,
    pub(crate) kind: HeaderValue,
    pub(crate) modified_ms: i64,
    pub(crate) plain: Form,
    encoded: Vec<Form>,
    dress: Arc<Dress>,
}

impl Entry {
    pub(crate) fn new(path: &str, route: &Route, dress: Arc<Dress>) -> Self {
        let encoded = route.encodings.iter().filter_map(|encoded| {
            let name = ENCODINGS.into_iter().find(|name| *name == encoded.encoding)?;
            Some(Form::new(encoded.object, encoded.bytes, Some(name)))
        });
        Self {
            path: path.into(),
            kind: HeaderValue::from_str(&route.kind).unwrap_or(HeaderValue::from_static("application/octet-stream")),
            modified_ms: route.modified_ms,
            plain: Form::new(route.object, route.bytes, None),
            encoded: encoded.collect(),
            dress,
        }
    }

    /// The form a client gets: the one it wants most, and of those the smallest.
    pub(crate) fn form(&self, accepted: Accepted) -> &Form {
        let weight = |form: &&Form| accepted.of(form.encoding.unwrap_or_default());
        let wanted = self.encoded.iter().filter(|form| weight(form) > 0);
        wanted.max_by_key(|form| (weight(form), std::cmp::Reverse(form.bytes))).unwrap_or(&self.plain)
    }

    /// All forms.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &Form> {
        std::iter::once(&self.plain).chain(&self.encoded)
    }

    /// Whether there is more than one form.
    pub(crate) fn varies(&self) -> bool {
        !self.encoded.is_empty()
    }

    /// The headers of an answer with the whole of this form.
    pub(crate) fn head<'a>(&self, form: &'a Form) -> &'a HeaderMap {
        form.head.get_or_init(|| self.make_head(form))
    }

    /// The same as the beginning of an answer in HTTP/1.1 (RFC 9112), without `date` and the blank line.
    pub(crate) fn wire<'a>(&self, form: &'a Form) -> &'a Bytes {
        form.wire.get_or_init(|| {
            let mut text = b"HTTP/1.1 200 OK\r\n".to_vec();
            for (name, value) in self.head(form) {
                text.extend_from_slice(name.as_str().as_bytes());
                text.extend_from_slice(b": ");
                text.extend_from_slice(value.as_bytes());
                text.extend_from_slice(b"\r\n");
            }
            text.into()
        })
    }

    fn make_head(&self, form: &Form) -> HeaderMap {
        let mut head = HeaderMap::with_capacity(16);
        head.insert(CONTENT_TYPE, self.kind.clone());
        head.insert(CONTENT_LENGTH, form.bytes.into());
        if let Ok(tag) = HeaderValue::from_str(&form.tag) {
            head.insert(ETAG, tag);
        }
        if let Ok(date) = HeaderValue::from_str(&holdfast_http::dates::http(self.modified_ms)) {
            head.insert(LAST_MODIFIED, date);
        }
        head.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if self.varies() {
            head.insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
        if let Some(encoding) = form.encoding {
            head.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        head.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        head.insert(REFERRER_POLICY, HeaderValue::from_static("strict-origin-when-cross-origin"));
        head.insert(CONTENT_SECURITY_POLICY, POLICY);
        head.insert(CACHE_CONTROL, HeaderValue::from_static(self.cache_control()));
        self.apply_rules(&mut head);
        if self.dress.no_store {
            // Whatever the rules say: what not everybody may read stays with who may.
            head.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
            head.insert(HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex"));
        }
        head
    }

    fn cache_control(&self) -> &'static str {
        if is_hashed(&self.path) { "public, max-age=31536000, immutable" } else { "no-cache" }
    }

    fn apply_rules(&self, head: &mut HeaderMap) {
        let clean = self.path.strip_suffix("index.html").or_else(|| self.path.strip_suffix(".html"));
        for rule in &self.dress.headers {
            let fits = covers(&rule.path, &self.path) || clean.is_some_and(|clean| covers(&rule.path, clean));
            let Ok(name) = HeaderName::from_bytes(rule.name.as_bytes()) else { continue };
            if !fits {
                continue;
            }
            if rule.value.is_empty() {
                head.remove(&name);
            } else if let Ok(value) = HeaderValue::from_str(&rule.value) {
                head.insert(name, value);
            }
        }
    }
}

/// Whether a file's name has a hash of its content in it, as build tools make them, so that other content has another name:
/// before the last dot, after a dot or dash, eight characters or more that are hexadecimal with digits and letters, or letters
/// of both cases with digits.
fn is_hashed(path: &str) -> bool {
    let bytes = path.as_bytes();
    let mut end = bytes.len();
    while end > 0 && bytes[end - 1] != b'.' {
        if bytes[end - 1] == b'/' {
            return false;
        }
        end -= 1;
    }
    let (mut at, mut digits, mut lower, mut upper, mut hex) = (end.saturating_sub(1), false, false, false, true);
    let last = at;
    while at > 0 {
        match bytes[at - 1] {
            b'0'..=b'9' => digits = true,
            b'a'..=b'f' => lower = true,
            b'g'..=b'z' => (lower, hex) = (true, false),
            b'A'..=b'Z' => (upper, hex) = (true, false),
            b'_' => hex = false,
            b'.' | b'-' => break,
            _ => return false,
        }
        at -= 1;
    }
    at > 0 && last - at >= 8 && digits && lower && (hex || upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_hash_are_known_and_others_are_not_taken_for_such() {
        for name in ["/a/app.3f2a1b9c.css", "/index-BfK3a9xQ.js", "/x-0123456789abcdef.woff2"] {
            assert!(is_hashed(name), "{name}");
        }
        for name in
            ["/photo-20260131.jpg", "/report-version2.pdf", "/app.css", "/3f2a1b9c.css", "/a.3f2a1b9c/x.css", "/", ""]
        {
            assert!(!is_hashed(name), "{name}");
        }
    }
}
