//! Where packs are kept: one small trait, its back ends, and the layers around them.
//!
//! A store knows packs by random name and nothing else: no file names, no spaces, no keys. It is not trusted with
//! content (all it sees is sealed) and is trusted with durability: when [`BlobStore::put`] or an [`Appender`]'s sync
//! has answered, the bytes survive a power cut.
//!
//! Back ends: [`fs`] (local files), [`s3`] and [`swift`] (object stores, over what they share in [`object`]), and
//! [`memory`] (tests). One conformance suite, [`conformance`], proves each of them. What every back end needs around it
//! (retries, time limits, bounded concurrency, metrics, a read cache, injected faults) is written once, in [`layer`].
//! [`url`] opens the store that a configuration names; [`migrate`] moves packs from one store to another.

pub mod conformance;
pub mod fs;
pub mod http;
pub mod layer;
pub mod memory;
pub mod migrate;
pub mod object;
pub mod s3;
mod secret;
pub mod swift;
pub mod url;
pub mod xml;

pub use http::Times;
pub use secret::Secret;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_base::{PackName, Result};
use std::time::Duration;

/// What a store says about one pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackEntry {
    /// The pack's name.
    pub name: PackName,
    /// Its length in bytes, as stored.
    pub bytes: u64,
}

/// Room in the store, where it can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreRoom {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes this process may still write.
    pub free_bytes: u64,
}

/// A place for packs.
#[async_trait]
pub trait BlobStore: Send + Sync + 'static {
    /// A short name for logs and metrics: `fs`, `memory`, `s3`.
    fn kind(&self) -> &'static str;

    /// Stores a whole pack. Atomic (a reader sees all of it or nothing) and durable on return. A name that exists is
    /// [`holdfast_base::ErrorKind::AlreadyExists`]: packs are immutable.
    async fn put(&self, name: PackName, parts: Vec<Bytes>) -> Result<()>;

    /// Begins a pack that grows. It is visible from the start, up to what was appended. (Where
    /// [a sync ends a pack](Appender::sync_ends_pack), only to this process before the sync, and a read of bytes that are
    /// on their way may be [`holdfast_base::ErrorKind::Unavailable`] until then.)
    async fn append(&self, name: PackName) -> Result<Box<dyn Appender>>;

    /// Reads exactly `len` bytes from `offset` into `buffer`, which is cleared first and handed back (so that callers
    /// can pool buffers). A pack that is too short is [`holdfast_base::ErrorKind::Damaged`]; a missing one `NotFound`.
    async fn read(&self, name: PackName, offset: u64, len: usize, buffer: Vec<u8>) -> Result<Vec<u8>>;

    /// The pack's length, or none if there is no such pack.
    async fn len(&self, name: PackName) -> Result<Option<u64>>;

    /// Removes a pack for good. Removing what is not there succeeds.
    async fn delete(&self, name: PackName) -> Result<()>;

    /// Up to `limit` packs in name order after `after`.
    async fn list(&self, after: Option<PackName>, limit: usize) -> Result<Vec<PackEntry>>;

    /// How much room there is, if the store can tell.
    async fn room(&self) -> Result<Option<StoreRoom>>;

    /// Removes several packs, in fewer requests where the store can. An error may leave some of them removed.
    async fn delete_many(&self, names: &[PackName]) -> Result<()> {
        for name in names {
            self.delete(*name).await?;
        }
        Ok(())
    }

    /// Removes what a crash left of packs that never became visible, if it is older than `older_than` (younger ones may
    /// be on their way, from another process too). Answers how many there were.
    async fn sweep(&self, _older_than: Duration) -> Result<u64> {
        Ok(0)
    }
}

/// A pack being written, by one writer.
///
/// After an error from any call the pack's tail is undefined beyond the last successful sync: the writer abandons it
/// and starts another. (A failed fsync must never be retried on the same file: the kernel may have dropped the dirty
/// pages.)
#[async_trait]
pub trait Appender: Send + 'static {
    /// Appends the parts in order and answers the offset of the first byte. Not durable until a sync begun later ends.
    async fn append(&mut self, parts: Vec<Bytes>) -> Result<u64>;

    /// Makes everything appended so far durable. The future borrows nothing, so appends go on while it runs.
    fn sync(&mut self) -> BoxFuture<'static, Result<()>>;

    /// Whether a sync ends this pack (an object store can only make a whole object durable): if so the writer must
    /// start a new pack after each sync.
    fn sync_ends_pack(&self) -> bool;

    /// Bytes at the pack's end that lie in memory, in the very parts that were appended, until more are appended or a sync begins. Who has
    /// to have that memory back begins one.
    fn waiting_bytes(&self) -> u64 {
        0
    }
}
