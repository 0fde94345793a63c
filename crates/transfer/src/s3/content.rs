//! Reading an object: parts side by side, each on the condition that it is still the same.

use super::Inner;
use super::bucket::md5_of;
use crate::site::{Content, Version};
use crate::sum::{Sum, SumKind};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::{ByteRange, Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a part: large enough that asking for it costs little, small enough that little is lost when it breaks off.
const GRAIN: u64 = 2 << 20;
/// Parts that are asked for side by side: a service that keeps each slow is still fast.
const AHEAD: usize = 8;

/// An object in the version that was listed.
pub(super) struct ObjectContent {
    inner: Arc<Inner>,
    key: String,
    version: Version,
    size: u64,
    /// Whether its entity tag may be its MD5, as far as is known.
    plain: AtomicBool,
}

impl ObjectContent {
    pub(super) fn new(inner: Arc<Inner>, key: String, version: Version, size: u64) -> Self {
        Self { inner, key, version, size, plain: AtomicBool::new(true) }
    }
}

#[async_trait]
impl Content for ObjectContent {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let (reply, plain) = self.inner.bucket.get(&self.key, range, &self.version).await?;
        if !plain {
            self.plain.store(false, Ordering::Relaxed);
        }
        let changed = || Error::new(ErrorKind::PreconditionFailed, "the object changed while it was read");
        let etag = reply.answer.header("etag").map(|etag| etag.trim_matches('"'));
        if etag.is_some_and(|etag| etag != self.version.0 && !self.version.0.contains(' ')) {
            return Err(changed());
        }
        let expected = format!("bytes {}-{}/{}", range.start, range.end - 1, self.size);
        let whole =
            range.start == 0 && range.end == self.size && reply.answer.number("content-length") == Some(self.size);
        match reply.answer.header("content-range") {
            Some(told) if told == expected => {}
            None if whole => {}
            // Another size is another object, whatever its tag.
            Some(told) if !told.ends_with(&format!("/{}", self.size)) => return Err(changed()),
            _ => {
                let what = "the service gave another part of the object than it was asked for";
                return Err(Error::new(ErrorKind::Conflict, what));
            }
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
        if !self.version.0.contains(' ') {
            return Ok(true);
        }
        Ok(self.inner.bucket.head(&self.key).await?.is_some_and(|head| head.version() == self.version))
    }

    fn sum(&self) -> Option<Sum> {
        let md5 = md5_of(&self.version.0).filter(|_| self.plain.load(Ordering::Relaxed))?;
        Sum::from_hex(SumKind::Md5, md5).ok()
    }
}
