//! What an object service must be able to do, each in its own words.

use crate::StoreRoom;
use crate::http::Payload;
use async_trait::async_trait;
use aws_lc_rs::digest;
use bytes::Bytes;
use holdfast_base::Result;
use md5::{Digest, Md5};
use std::fmt::Write;
use std::time::Duration;

/// Bytes to be sent, with the sums by which the service checks them; cheap to clone and to send again.
#[derive(Debug, Clone)]
pub struct Body {
    /// The bytes.
    pub payload: Payload,
    /// Their MD5: the one sum that all services verify.
    pub md5: [u8; 16],
    /// Their SHA-256, where the service wants it.
    pub sha256: Option<String>,
}

impl Body {
    /// Takes its time over many bytes.
    pub fn of(parts: Vec<Bytes>, with_sha256: bool) -> Self {
        let mut md5 = Md5::new();
        let mut sha256 = with_sha256.then(|| digest::Context::new(&digest::SHA256));
        for part in &parts {
            md5.update(part);
            if let Some(sha256) = &mut sha256 {
                sha256.update(part);
            }
        }
        let sha256 = sha256.map(|context| hex(context.finish().as_ref()));
        Self { payload: parts.into_iter().collect(), md5: md5.finalize().into(), sha256 }
    }
}

/// What a service says about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Its length.
    pub(crate) bytes: u64,
    /// The mark it was stored with, if the service keeps such things. It tells our own object, whose acknowledgement was
    /// lost, from somebody else's.
    pub(crate) mark: Option<String>,
}

/// One object of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Its length.
    pub bytes: u64,
}

/// A page of a list, in the order of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The objects.
    pub entries: Vec<Listed>,
    /// Whether there are more behind the last.
    pub more: bool,
}

/// A part that the service has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartSent {
    /// Its number, from 1.
    pub(crate) number: u32,
    /// Its length.
    pub(crate) bytes: u64,
    /// By what the service knows it.
    pub(crate) tag: String,
}

/// Hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// An object service.
///
/// Errors say what happened in the terms of [`holdfast_base::ErrorKind`]: a name that is taken is `AlreadyExists`, what
/// may pass by itself is `Unavailable`, `Timeout` or `TooManyRequests`, and nothing else is one of these.
#[async_trait]
pub(crate) trait Objects: Send + Sync + 'static {
    /// `s3`, `swift`.
    fn kind(&self) -> &'static str;

    /// Whether requests with bytes carry their SHA-256.
    fn wants_sha256(&self) -> bool;

    /// Makes an object of a key that must be free.
    async fn create(&self, key: &str, body: Body, mark: &str) -> Result<()>;

    /// What there is at a key.
    async fn stat(&self, key: &str) -> Result<Option<Stat>>;

    /// Exactly `len` (at least one) bytes of an object.
    async fn read(&self, key: &str, offset: u64, len: usize, buffer: Vec<u8>) -> Result<Vec<u8>>;

    /// Removes objects, with all that belongs to them. What is not there is removed already.
    async fn delete(&self, keys: &[String]) -> Result<()>;

    /// Up to `limit` objects whose keys begin with `prefix`, after `after`.
    async fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page>;

    /// Begins an object made of parts; the answer names the undertaking.
    async fn begin_large(&self, key: &str, mark: &str) -> Result<String>;

    /// Sends one part of it.
    async fn send_part(&self, key: &str, large: &str, number: u32, body: Body) -> Result<PartSent>;

    /// Makes the object of its parts, at a key that must be free.
    async fn complete(&self, key: &str, large: &str, parts: &[PartSent], mark: &str) -> Result<()>;

    /// Removes the parts of an object that will not be.
    async fn abandon(&self, key: &str, large: &str) -> Result<()>;

    /// Removes parts below `prefix` that belong to no object and are older than this, and says how many undertakings they were.
    async fn sweep(&self, prefix: &str, older_than: Duration) -> Result<u64>;

    /// Room, where the service tells.
    async fn room(&self) -> Result<Option<StoreRoom>>;
}
