//! An answer: its head, and its body read piece by piece under a time limit and a size limit.

use super::causes;
use bytes::Bytes;
use holdfast_base::{Error, ErrorKind, Result};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::time::Duration;

/// Texts of errors and acknowledgements are a few hundred bytes; whoever sends more than this is no object store.
pub const ERROR_TEXT_BYTES_MAX: usize = 64 << 10;

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    stall: Duration,
    host: String,
}

impl Answer {
    pub(super) fn new(response: Response<Incoming>, stall: Duration, host: String) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status, headers: head.headers, body, stall, host }
    }

    /// A header's value, if there is one and it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// A header's value as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.header(name)?.trim().parse().ok()
    }

    /// The next piece of the body; none at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            match tokio::time::timeout(self.stall, self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Ok(Some(Err(error))) => {
                    let message = format!("the connection to {} broke in the middle of an answer", self.host);
                    return Err(Error::unavailable(message).with_source(causes(&error)));
                }
                Err(_) => {
                    let message = format!("{} sent nothing for {} seconds", self.host, self.stall.as_secs());
                    return Err(Error::new(ErrorKind::Timeout, message));
                }
            }
        }
    }

    /// The body, which must have exactly `len` bytes, in `buffer`.
    pub async fn exactly(mut self, len: usize, mut buffer: Vec<u8>) -> Result<Vec<u8>> {
        buffer.clear();
        buffer.reserve_exact(len);
        while let Some(bytes) = self.next().await? {
            if bytes.len() > len - buffer.len() {
                return Err(Error::damaged(format!("{} sent more than the {len} bytes asked for", self.host)));
            }
            buffer.extend_from_slice(&bytes);
        }
        if buffer.len() < len {
            let message = format!("{} sent {} of the {len} bytes asked for", self.host, buffer.len());
            return Err(Error::damaged(message));
        }
        Ok(buffer)
    }

    /// The whole body, of at most `bytes_max` bytes. Reading it to its end lets the connection be used again.
    pub async fn text(mut self, bytes_max: usize) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        while let Some(bytes) = self.next().await? {
            if text.len() + bytes.len() > bytes_max {
                let message = format!("{} sent an answer of more than {bytes_max} bytes", self.host);
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            text.extend_from_slice(&bytes);
        }
        Ok(text)
    }

    /// Reads a short body and throws it away.
    pub async fn finish(self) -> Result<()> {
        self.text(ERROR_TEXT_BYTES_MAX).await.map(drop)
    }

    /// Seconds the server asks to wait, if it does.
    pub fn retry_after_s(&self) -> Option<u32> {
        self.header("retry-after")?.trim().parse().ok()
    }
}
