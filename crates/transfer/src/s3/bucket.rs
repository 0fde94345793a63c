//! What is asked of a bucket.

use super::failure::{About, error};
use crate::other::wire::{Places, Reply};
use crate::other::{mtime_text, parse_mtime};
use crate::site::{Item, Kind, Version};
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{ByteRange, Error, ErrorKind, NodeName, Result};
use holdfast_blob::object::Body;
use holdfast_blob::s3::{Call, S3};
use http::{Method, StatusCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

/// The metadata that has a file's time, as rclone names it.
const MTIME: &str = "x-amz-meta-mtime";
/// Acknowledgements and errors are a few hundred bytes.
pub(super) const TEXT_BYTES_MAX: usize = 64 << 10;

/// A bucket.
pub(super) struct Bucket {
    pub(super) s3: S3,
    pub(super) places: Places,
    /// Whether the service takes conditions on what it stores, as far as is known.
    conditions: AtomicBool,
}

/// What is known of an object.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) size: u64,
    pub(super) etag: Option<String>,
    pub(super) modified_ns: Option<i64>,
}

/// What must be at a key when something is stored there.
#[derive(Debug, Clone)]
pub(super) enum There {
    Nothing,
    Version(Version),
}

impl There {
    pub(super) fn of(replaces: Option<&Item>) -> Self {
        replaces.map_or(Self::Nothing, |item| Self::Version(item.version.clone()))
    }

    fn is(&self, head: Option<&Head>) -> bool {
        match (self, head) {
            (Self::Nothing, None) => true,
            (Self::Version(version), Some(head)) => head.version() == *version,
            _ => false,
        }
    }

    fn on(&self, call: Call) -> Call {
        match self {
            Self::Nothing => call.header("if-none-match", "*".to_owned()),
            Self::Version(version) => match quoted(version) {
                Some(etag) => call.header("if-match", etag),
                None => call,
            },
        }
    }
}

/// The version of an object: its entity tag without quotes, or else its time and size.
pub(super) fn version_of(etag: Option<&str>, size: u64, modified_ns: Option<i64>) -> Version {
    match etag.map(|etag| etag.trim_matches('"')).filter(|etag| !etag.is_empty()) {
        Some(etag) => Version(etag.to_owned()),
        None => Version(format!("size {size} time {}", modified_ns.unwrap_or_default())),
    }
}

/// A version as an entity tag, if it was one.
pub(super) fn quoted(version: &Version) -> Option<String> {
    (!version.0.contains(' ')).then(|| format!("\"{}\"", version.0))
}

impl Head {
    fn of(reply: &Reply) -> Result<Self> {
        let answer = &reply.answer;
        let size = answer.number("content-length");
        let size = size.ok_or_else(|| Error::damaged("the service does not say how large an object is"))?;
        let modified = answer.header("last-modified").and_then(|at| httpdate::parse_http_date(at).ok());
        let modified = modified.and_then(|at| i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok());
        let kept = answer.header(MTIME).and_then(parse_mtime);
        Ok(Self { size, etag: answer.header("etag").map(ToOwned::to_owned), modified_ns: kept.or(modified) })
    }

    pub(super) fn version(&self) -> Version {
        version_of(self.etag.as_deref(), self.size, self.modified_ns)
    }

    pub(super) fn item(&self, name: NodeName) -> Result<Item> {
        if self.size > FILE_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("the service says that it has {} bytes", self.size)));
        }
        let Self { size, modified_ns, .. } = *self;
        Ok(Item { name, kind: Kind::File, size, modified_ns, mode: None, version: self.version() })
    }
}

impl Bucket {
    pub(super) fn new(s3: S3, places: Places) -> Self {
        Self { s3, places, conditions: AtomicBool::new(true) }
    }

    pub(super) async fn send(&self, call: Call) -> Result<Reply> {
        let place = self.places.take().await?;
        let answer = self.s3.send(call).await?;
        Ok(Reply { answer, _place: place })
    }

    pub(super) async fn failure(&self, reply: Reply, about: About) -> Error {
        error(&self.s3.refusal(reply.answer).await, about)
    }

    /// What is at a key.
    pub(super) async fn head(&self, key: &str) -> Result<Option<Head>> {
        let reply = self.send(Call::new(Method::HEAD).key(key)).await?;
        match reply.answer.status {
            StatusCode::OK => Head::of(&reply).map(Some),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.failure(reply, About::Object).await),
        }
    }

    /// Bytes of an object in a version, and whether its entity tag may be its MD5.
    pub(super) async fn get(&self, key: &str, range: ByteRange, version: &Version) -> Result<(Reply, bool)> {
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let mut call = Call::new(Method::GET).key(key).header("range", bytes);
        if let Some(etag) = quoted(version) {
            call = call.header("if-match", etag);
        }
        let reply = self.send(call).await?;
        match reply.answer.status {
            StatusCode::PARTIAL_CONTENT | StatusCode::OK => {}
            StatusCode::NOT_FOUND => {
                return Err(Error::new(ErrorKind::PreconditionFailed, "the object is gone"));
            }
            _ => return Err(self.failure(reply, About::Object).await),
        }
        let plain = !is_encrypted(&reply);
        Ok((reply, plain))
    }

    /// Stores something on a condition, which a service that knows none is spared; then it is looked first.
    pub(super) async fn store(&self, key: &str, there: &There, call: Call) -> Result<Reply> {
        if self.conditions.load(Ordering::Relaxed) {
            let reply = self.send(there.on(call.clone())).await?;
            if reply.answer.status != StatusCode::NOT_IMPLEMENTED {
                return Ok(reply);
            }
            tracing::debug!("this service takes no conditions on what it stores");
        }
        self.check(key, there).await?;
        let reply = self.send(call).await?;
        if reply.answer.status.is_success() {
            self.conditions.store(false, Ordering::Relaxed);
        }
        Ok(reply)
    }

    /// Looks whether what is at a key is what is thought to be there.
    pub(super) async fn check(&self, key: &str, there: &There) -> Result<()> {
        if there.is(self.head(key).await?.as_ref()) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::PreconditionFailed, format!("{key} is not what was listed any more")))
    }

    /// Stores a small object; answers its entity tag.
    pub(super) async fn put(
        &self,
        key: &str,
        there: &There,
        body: Body,
        modified_ns: Option<i64>,
    ) -> Result<Option<String>> {
        let md5 = holdfast_blob::object::hex(&body.md5);
        let call = timed(Call::new(Method::PUT).key(key), modified_ns).body(body);
        let reply = self.store(key, there, call).await?;
        if !matches!(reply.answer.status, StatusCode::OK | StatusCode::CREATED) {
            return Err(self.failure(reply, About::Object).await);
        }
        let etag = reply.answer.header("etag").map(ToOwned::to_owned);
        let wrong = etag.as_deref().filter(|_| !is_encrypted(&reply)).is_some_and(|etag| is_other_md5(etag, &md5));
        reply.text(TEXT_BYTES_MAX).await?;
        if wrong {
            self.delete(key).await?;
            return Err(Error::unavailable("the service stored other bytes than it was sent: they were removed again"));
        }
        Ok(etag)
    }

    /// Removes an object; one that is not there is removed.
    pub(super) async fn delete(&self, key: &str) -> Result<()> {
        let reply = self.send(Call::new(Method::DELETE).key(key)).await?;
        match reply.answer.status {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => {
                reply.text(TEXT_BYTES_MAX).await.map(drop)
            }
            _ => Err(self.failure(reply, About::Object).await),
        }
    }
}

/// With the time of what is stored.
pub(super) fn timed(call: Call, modified_ns: Option<i64>) -> Call {
    match modified_ns {
        Some(ns) => call.header(MTIME, mtime_text(ns)),
        None => call,
    }
}

/// An object that is encrypted with keys of others has a tag that is no MD5 though it looks like one.
pub(super) fn is_encrypted(reply: &Reply) -> bool {
    let header = |name: &str| reply.answer.header(name).unwrap_or_default();
    header("x-amz-server-side-encryption").starts_with("aws:kms")
        || !header("x-amz-server-side-encryption-customer-algorithm").is_empty()
}

/// The MD5 that an entity tag is, if it looks like one.
pub(super) fn md5_of(etag: &str) -> Option<&str> {
    let digits = etag.trim_matches('"');
    (digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digits)
}

/// Whether an entity tag is an MD5, and not this one.
pub(super) fn is_other_md5(etag: &str, md5: &str) -> bool {
    md5_of(etag).is_some_and(|told| !told.eq_ignore_ascii_case(md5))
}

/// Whether a tag says this MD5.
pub(super) fn has_md5(etag: &str, md5: &str) -> bool {
    md5_of(etag).is_some_and(|told| told.eq_ignore_ascii_case(md5))
}
