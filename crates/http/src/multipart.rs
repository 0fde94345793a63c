//! Several ranges in one answer: `multipart/byteranges` (RFC 9110 section 14.6), streamed part by part.

use crate::{AnswerBody, Pieces};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use holdfast_base::{ByteRange, Result};
use std::hash::{BuildHasher, RandomState};

/// The value of `Content-Range`.
pub fn content_range(range: ByteRange, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1))
}

/// Two words from the standard library's randomly keyed hasher: content cannot be made to hold a boundary that is drawn
/// when it is read.
fn boundary() -> String {
    let word = || RandomState::new().hash_one(0u8);
    format!("{:016x}{:016x}", word(), word())
}

/// An answer of several parts, not yet begun.
#[derive(Debug)]
pub struct Multipart {
    boundary: String,
    /// Each part's header and range, the last first.
    left: Vec<(Bytes, ByteRange)>,
    closing: Bytes,
    length: u64,
}

impl Multipart {
    /// Prepares the answer of `parts` of content of `size` bytes and the type `kind`.
    pub fn new(parts: Vec<ByteRange>, size: u64, kind: &str) -> Self {
        let boundary = boundary();
        let header = |range: ByteRange| {
            let range = content_range(range, size);
            Bytes::from(format!("\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: {range}\r\n\r\n"))
        };
        let closing = Bytes::from(format!("\r\n--{boundary}--\r\n"));
        let left: Vec<_> = parts.into_iter().rev().map(|range| (header(range), range)).collect();
        let length =
            left.iter().map(|(header, range)| header.len() as u64 + range.len()).sum::<u64>() + closing.len() as u64;
        Self { boundary, left, closing, length }
    }

    /// Bytes of the whole body.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// The value of `Content-Type`.
    pub fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// The body; `open` streams one range of the content.
    pub fn body<F>(self, open: F) -> AnswerBody
    where
        F: FnMut(ByteRange) -> BoxFuture<'static, Result<Pieces>> + Send + 'static,
    {
        let length = self.length;
        let parts = Parts { open, left: self.left, current: None, closing: Some(self.closing) };
        AnswerBody::stream(stream::try_unfold(parts, next), Some(length))
    }
}

struct Parts<F> {
    open: F,
    left: Vec<(Bytes, ByteRange)>,
    current: Option<Pieces>,
    closing: Option<Bytes>,
}

async fn next<F>(mut parts: Parts<F>) -> Result<Option<(Bytes, Parts<F>)>>
where
    F: FnMut(ByteRange) -> BoxFuture<'static, Result<Pieces>> + Send,
{
    if let Some(current) = &mut parts.current {
        if let Some(piece) = current.next().await.transpose()? {
            return Ok(Some((piece, parts)));
        }
        parts.current = None;
    }
    if let Some((header, range)) = parts.left.pop() {
        parts.current = Some((parts.open)(range).await?);
        return Ok(Some((header, parts)));
    }
    Ok(parts.closing.take().map(|closing| (closing, parts)))
}
