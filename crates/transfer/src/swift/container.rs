//! What is asked of a container.

use crate::other::wire::{Places, Reply};
use crate::other::{mtime_text, parse_mtime};
use crate::site::{Item, Kind, Version};
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use holdfast_blob::http::ERROR_TEXT_BYTES_MAX;
use holdfast_blob::object::{Body, hex};
use holdfast_blob::swift::{Call, Swift, Target};
use http::{Method, StatusCode};
use std::time::UNIX_EPOCH;

/// The metadata that has a file's time, as rclone and others name it.
pub(super) const MTIME: &str = "x-object-meta-mtime";
/// Answers to removals name each of up to 1,000 segments that could not be removed.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// Bytes of a refusal that are kept for the log.
const SHOWN: usize = 500;

/// A container.
pub(super) struct Container {
    pub(super) swift: Swift,
    pub(super) places: Places,
    pub(super) name: String,
}

/// What is known of an object.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) size: u64,
    pub(super) etag: String,
    pub(super) modified_ns: Option<i64>,
    /// Whether it is a manifest of segments.
    pub(super) large: bool,
}

impl Head {
    fn of(reply: &Reply) -> Result<Self> {
        let answer = &reply.answer;
        let missing = || Error::damaged("the service tells no length or tag of an object");
        let size = answer.number("content-length").ok_or_else(missing)?;
        let etag = answer.header("etag").ok_or_else(missing)?.trim_matches('"').to_owned();
        let stored = answer.header("last-modified").and_then(|at| httpdate::parse_http_date(at).ok());
        let stored = stored.and_then(|at| i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok());
        let modified_ns = answer.header(MTIME).and_then(parse_mtime).or(stored);
        Ok(Self { size, etag, modified_ns, large: is_large(reply) })
    }

    pub(super) fn item(self, name: NodeName) -> Result<Item> {
        if self.size > FILE_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("the service says that it has {} bytes", self.size)));
        }
        let Self { size, modified_ns, etag, .. } = self;
        Ok(Item { name, kind: Kind::File, size, modified_ns, mode: None, version: Version(etag) })
    }
}

/// Whether an answer is of a manifest, whose tag is no MD5 of the content.
pub(super) fn is_large(reply: &Reply) -> bool {
    let header = |name: &str| reply.answer.header(name);
    header("x-static-large-object").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || header("x-object-manifest").is_some()
}

impl Container {
    pub(super) async fn send(&self, call: Call<'_>) -> Result<Reply> {
        let place = self.places.take().await?;
        let answer = self.swift.send(call).await?;
        Ok(Reply { answer, _place: place })
    }

    /// Why the service does not do something.
    pub(super) async fn refused(&self, reply: Reply, about_object: bool) -> Error {
        let (status, retry_after_s) = (reply.answer.status, reply.answer.retry_after_s().unwrap_or(1));
        let text = reply.text(ERROR_TEXT_BYTES_MAX).await.unwrap_or_default();
        let text: String = String::from_utf8_lossy(&text).chars().take(SHOWN).collect();
        let name = &self.name;
        let (kind, message) = match status.as_u16() {
            401 => (ErrorKind::Unauthenticated, "the service refuses the token it has just given".to_owned()),
            403 => (ErrorKind::Forbidden, format!("the user may not do this in container {name:?}")),
            404 if about_object => (ErrorKind::NotFound, "there is no such object".to_owned()),
            404 => (ErrorKind::NotFound, format!("there is no container {name:?}: make it, or mend its name")),
            412 | 416 => (ErrorKind::PreconditionFailed, "the object is not what it was".to_owned()),
            413 | 507 => (ErrorKind::NoSpace, "the container is full, or over its quota".to_owned()),
            422 => (ErrorKind::Unavailable, "the bytes were changed on their way to the service".to_owned()),
            429 | 498 => (ErrorKind::TooManyRequests { retry_after_s }, "the service asks to slow down".to_owned()),
            408 | 409 | 499..=599 => (ErrorKind::Unavailable, format!("the service failed ({status})")),
            _ => (ErrorKind::Unsupported, format!("the service refuses the request ({status})")),
        };
        Error::new(kind, message).with_source(format!("{status}: {text}"))
    }

    /// What is at a key.
    pub(super) async fn head(&self, key: &str) -> Result<Option<Head>> {
        let reply = self.send(Call::new(Method::HEAD, Target::Object(key))).await?;
        match reply.answer.status {
            StatusCode::OK | StatusCode::NO_CONTENT => Head::of(&reply).map(Some),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.refused(reply, true).await),
        }
    }

    /// Looks whether what is at a key is what was listed.
    pub(super) async fn check(&self, key: &str, replaces: Option<&Item>) -> Result<()> {
        let now = self.head(key).await?.map(|head| head.etag);
        if now.as_deref() == replaces.map(|item| item.version.0.as_str()) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::PreconditionFailed, format!("{key} is not what was listed any more")))
    }

    /// Stores bytes at a target, which the service holds against their MD5; answers their tag.
    pub(super) async fn put(&self, call: Call<'_>, body: Body) -> Result<String> {
        let md5 = hex(&body.md5);
        let reply = self.send(call.header("etag", &md5).body(body.payload)).await?;
        if !reply.answer.status.is_success() {
            return Err(self.refused(reply, false).await);
        }
        let told = reply.answer.header("etag").map(|etag| etag.trim_matches('"').to_owned());
        reply.text(TEXT_BYTES_MAX).await?;
        match told {
            Some(told) if !told.eq_ignore_ascii_case(&md5) => {
                Err(Error::unavailable("the service stored other bytes than it was sent"))
            }
            _ => Ok(md5),
        }
    }

    /// Removes an object, with its segments if it has such.
    pub(super) async fn delete(&self, target: Target<'_>, large: bool) -> Result<()> {
        let mut call = Call::new(Method::DELETE, target);
        if large {
            call = call.query("multipart-manifest", "delete").header("accept", "application/json");
        }
        let reply = self.send(call).await?;
        match reply.answer.status {
            StatusCode::OK if large => removed(&reply.text(TEXT_BYTES_MAX).await?),
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => {
                reply.text(TEXT_BYTES_MAX).await.map(drop)
            }
            _ => Err(self.refused(reply, true).await),
        }
    }
}

/// A bulk answer is 200 whatever happened; its body says how it went.
fn removed(json: &[u8]) -> Result<()> {
    let answer: serde_json::Value = serde_json::from_slice(json)
        .map_err(|error| Error::damaged("the service does not say what it removed").with_source(error))?;
    let status = answer["Response Status"].as_str().unwrap_or_default();
    let errors = answer["Errors"].as_array().is_some_and(|errors| !errors.is_empty());
    if !errors && ["200", "400", "404"].iter().any(|good| status.starts_with(good)) {
        return Ok(());
    }
    Err(Error::unavailable("the service did not remove all of an object").with_source(answer.to_string()))
}

/// With the time of what is stored.
pub(super) fn timed(call: Call<'_>, modified_ns: Option<i64>) -> Call<'_> {
    match modified_ns {
        Some(ns) => call.header(MTIME, &mtime_text(ns)),
        None => call,
    }
}
