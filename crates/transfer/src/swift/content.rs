//! Reading an object: parts side by side, each on the condition that it is still the same.

use super::Inner;
use super::container::is_large;
use crate::site::{Content, Item};
use crate::sum::{Sum, SumKind};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use holdfast_blob::swift::{Call, Target};
use http::{Method, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a part: large enough that asking for it costs little.
const GRAIN: u64 = 2 << 20;
/// Parts that are asked for side by side.
const AHEAD: usize = 8;

/// An object in the version that was listed.
pub(super) struct ObjectContent {
    inner: Arc<Inner>,
    key: String,
    item: Item,
    /// Whether its tag is its MD5, as far as is known.
    plain: AtomicBool,
}

impl ObjectContent {
    pub(super) fn new(inner: Arc<Inner>, key: String, item: &Item) -> Self {
        Self { inner, key, item: item.clone(), plain: AtomicBool::new(true) }
    }
}

#[async_trait]
impl Content for ObjectContent {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let (size, etag) = (self.item.size, self.item.version.0.as_str());
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let mut call = Call::new(Method::GET, Target::Object(&self.key)).header("range", &bytes);
        if !etag.is_empty() {
            call = call.header("if-match", &format!("\"{etag}\""));
        }
        let reply = self.inner.container.send(call).await?;
        let changed = || Error::new(ErrorKind::PreconditionFailed, "the object changed while it was read");
        match reply.answer.status {
            StatusCode::PARTIAL_CONTENT | StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Err(changed()),
            StatusCode::CONFLICT => return Err(Error::damaged("a segment of the object is missing")),
            _ => return Err(self.inner.container.refused(reply, true).await),
        }
        if is_large(&reply) {
            self.plain.store(false, Ordering::Relaxed);
        }
        if reply.answer.header("etag").is_some_and(|told| told.trim_matches('"') != etag) {
            return Err(changed());
        }
        let expected = format!("bytes {}-{}/{size}", range.start, range.end - 1);
        match reply.answer.header("content-range") {
            Some(told) if told == expected => {}
            None if range.len() == size && reply.answer.number("content-length") == Some(size) => {}
            _ => return Err(changed()),
        }
        reply.exactly(range.len()).await
    }

    fn grain(&self) -> u64 {
        GRAIN
    }

    fn ahead(&self) -> usize {
        AHEAD
    }

    async fn is_still(&self) -> Result<bool> {
        // Each read was of this version, or failed.
        Ok(true)
    }

    fn sum(&self) -> Option<Sum> {
        let plain = self.plain.load(Ordering::Relaxed);
        Sum::from_hex(SumKind::Md5, &self.item.version.0).ok().filter(|_| plain)
    }
}
