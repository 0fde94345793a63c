//! Reading a file: parts side by side, each of the version that was listed.

use super::Inner;
use super::call::{Call, encoded, refused};
use super::listing::{etag_of, strong};
use crate::site::{Content, Item};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, DrivePath, Error, ErrorKind, Result};
use http::StatusCode;
use std::sync::Arc;

const GRAIN: u64 = BLOCK_BYTES as u64;
/// Parts that are asked for side by side.
const AHEAD: usize = 8;

pub(super) struct FileContent {
    pub(super) inner: Arc<Inner>,
    pub(super) path: DrivePath,
    pub(super) item: Item,
}

#[async_trait]
impl Content for FileContent {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let (size, etag) = (self.item.size, etag_of(&self.item.version));
        let mut call = Call::new("GET", encoded(&self.path, false))?.header("accept-encoding", "identity");
        if range.len() < size {
            call = call.header("range", format!("bytes={}-{}", range.start, range.end - 1));
        }
        let reply = self.inner.server.send(call).await?;
        let changed = || Error::new(ErrorKind::PreconditionFailed, "the file changed while it was read");
        let told = reply.answer.header("etag").map(strong);
        if told.zip(etag).is_some_and(|(told, etag)| told != etag) {
            return Err(changed());
        }
        let expected = format!("bytes {}-{}/{size}", range.start, range.end - 1);
        match reply.answer.status {
            StatusCode::PARTIAL_CONTENT if reply.answer.header("content-range") == Some(&expected) => {}
            StatusCode::OK if range.len() == size => {
                if reply.answer.number("content-length").is_some_and(|length| length != size) {
                    return Err(changed());
                }
            }
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::NOT_FOUND => {
                return Err(changed());
            }
            StatusCode::OK => {
                return Err(Error::new(ErrorKind::Unsupported, "the server gives no parts of files, only all of one"));
            }
            _ => return Err(refused(reply).await),
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
        let told = self.inner.server.look(&self.path).await?;
        let now = told.map(|told| told.item(self.item.name.clone())).transpose()?;
        Ok(now.is_some_and(|now| super::is_same(&now, &self.item)))
    }
}
