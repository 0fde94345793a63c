//! A read cache on a local disk, for stores that are far away.
//!
//! It keeps ranges of packs as they were asked for: the drive reads whole records at fixed places, so the same range comes
//! back and overlapping ones hardly do. Packs never change, so nothing is ever out of date; a removed pack is forgotten
//! at once. What is kept is what the store holds: sealed bytes.
//!
//! - **Where**: a log of a few files ([`log`]), filled one after the other; the oldest makes room, and what was used
//!   since it was written moves to the end of the log instead (second chance).
//! - **Trust**: every entry carries a sum that is verified at each read; one that fails is dropped and read from the store.
//!   So nothing is synced, and after a crash the cache is whatever arrived on the disk.
//! - **Single flight**: readers who miss the same range wait for the first of them.
//! - **Off the path**: a miss answers before its bytes are written here, and when the disk is slower than the store, ranges
//!   are not kept rather than queued without bound.
//!
//! A check of what is stored (`holdfast check --read-data`) must not be answered from here: hand it the store inside.
//!
//! | metric | |
//! |---|---|
//! | `holdfast_cache_hits_total`, `holdfast_cache_misses_total` | reads |
//! | `holdfast_cache_hit_bytes_total` | bytes answered from here |
//! | `holdfast_cache_skipped_total` | ranges not kept because the disk was busy |
//! | `holdfast_cache_damaged_total` | entries dropped because their sum was wrong |
//! | `holdfast_cache_bytes` | bytes in use |

mod entry;
mod flight;
mod index;
mod log;
#[cfg(test)]
mod tests;

pub use log::{CACHE_BYTES_MIN, CacheOptions};

use crate::{Appender, BlobStore, PackEntry, StoreRoom};
use async_trait::async_trait;
use bytes::Bytes;
use entry::Key;
use flight::{Flights, Leader, Role};
use holdfast_base::{PackName, Result};
use log::Log;
use metrics::{Counter, Gauge};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Ranges that may wait to be written. Of records of 1 MiB that is 16 MiB.
const WRITES_MAX: usize = 16;

/// A store with a cache before it.
pub struct Cached {
    inner: Arc<dyn BlobStore>,
    log: Arc<Log>,
    flights: Flights,
    writes: Arc<Semaphore>,
    counters: Counters,
}

struct Counters {
    hits: Counter,
    misses: Counter,
    hit_bytes: Counter,
    skipped: Counter,
    damaged: Counter,
    bytes: Gauge,
}

impl Cached {
    /// Opens the cache in `folder`, which is made if it is missing and belongs to one process at a time, before `inner`.
    /// Reads the heads of all entries, so call it at the start and not on a request's path.
    pub fn open(inner: Arc<dyn BlobStore>, folder: &Path, options: CacheOptions) -> Result<Self> {
        let log = Arc::new(Log::open(folder, options)?);
        let counters = Counters {
            hits: metrics::counter!("holdfast_cache_hits_total"),
            misses: metrics::counter!("holdfast_cache_misses_total"),
            hit_bytes: metrics::counter!("holdfast_cache_hit_bytes_total"),
            skipped: metrics::counter!("holdfast_cache_skipped_total"),
            damaged: metrics::counter!("holdfast_cache_damaged_total"),
            bytes: metrics::gauge!("holdfast_cache_bytes"),
        };
        Ok(Self { inner, log, flights: Flights::default(), writes: Arc::new(Semaphore::new(WRITES_MAX)), counters })
    }

    /// Reads from the cache.
    async fn cached(&self, key: Key, buffer: Vec<u8>) -> Result<Vec<u8>, Vec<u8>> {
        let Some(found) = self.log.find(key) else { return Err(buffer) };
        let read = tokio::task::spawn_blocking(move || found.read(buffer)).await;
        match read {
            Ok(Ok(bytes)) => {
                self.counters.hits.increment(1);
                self.counters.hit_bytes.increment(bytes.len() as u64);
                Ok(bytes)
            }
            Ok(Err(buffer)) => {
                tracing::warn!(pack = %key.name, offset = key.offset, "an entry of the read cache is damaged and is dropped");
                self.counters.damaged.increment(1);
                self.log.drop_entry(key);
                Err(buffer)
            }
            Err(_) => Err(Vec::new()),
        }
    }

    /// Reads from the store, for everyone who waits for this range, and keeps it.
    async fn fetch(&self, key: Key, buffer: Vec<u8>, flight: Leader) -> Result<Vec<u8>> {
        self.counters.misses.increment(1);
        let before = self.log.removals();
        let read = self.inner.read(key.name, key.offset, key.len as usize, buffer).await?;
        let place = Arc::clone(&self.writes).try_acquire_owned();
        if place.is_err() {
            self.counters.skipped.increment(1);
        }
        if place.is_ok() || flight.is_awaited() {
            let copy = Bytes::copy_from_slice(&read);
            flight.land(copy.clone());
            if let Ok(place) = place {
                self.keep(key, copy, before, flight, place);
            }
        }
        Ok(read)
    }

    fn keep(&self, key: Key, bytes: Bytes, before: u64, flight: Leader, place: OwnedSemaphorePermit) {
        let (log, gauge) = (Arc::clone(&self.log), self.counters.bytes.clone());
        // Nobody waits for it; there are as many of these as there are places.
        drop(tokio::task::spawn_blocking(move || {
            if let Err(error) = log.insert(key, &bytes, before) {
                tracing::warn!(?error, "the read cache cannot keep a range");
            }
            gauge.set(log.bytes() as f64);
            drop((flight, log));
            // Last: who has all places knows that nothing is being written, and that nobody holds the log.
            drop(place);
        }));
    }

    async fn forget(&self, names: &[PackName]) {
        names.iter().copied().for_each(|name| self.flights.forget(name));
        let (log, names) = (Arc::clone(&self.log), names.to_vec());
        // Waited for: when a removal has answered, nobody reads the pack any more.
        if let Err(stopped) = tokio::task::spawn_blocking(move || names.iter().for_each(|name| log.forget(*name))).await
        {
            tracing::error!(%stopped, "the read cache could not forget a pack");
        }
    }

    /// Waits until what was read is kept, for tests.
    #[cfg(test)]
    async fn settle(&self) {
        let places = u32::try_from(WRITES_MAX).expect("small");
        drop(self.writes.acquire_many(places).await.expect("open"));
    }
}

#[async_trait]
impl BlobStore for Cached {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn put(&self, name: PackName, parts: Vec<Bytes>) -> Result<()> {
        self.inner.put(name, parts).await
    }

    async fn append(&self, name: PackName) -> Result<Box<dyn Appender>> {
        self.inner.append(name).await
    }

    async fn read(&self, name: PackName, offset: u64, len: usize, mut buffer: Vec<u8>) -> Result<Vec<u8>> {
        let Some(key) = Key::of(name, offset, len) else { return self.inner.read(name, offset, len, buffer).await };
        loop {
            buffer = match self.cached(key, buffer).await {
                Ok(bytes) => return Ok(bytes),
                Err(buffer) => buffer,
            };
            match self.flights.join(key) {
                Role::Leader(flight) => return self.fetch(key, buffer, flight).await,
                Role::Follower(follower) => {
                    if let Some(bytes) = follower.wait().await {
                        self.counters.hits.increment(1);
                        buffer.clear();
                        buffer.extend_from_slice(&bytes);
                        return Ok(buffer);
                    }
                    // The leader failed or was abandoned: somebody else leads now.
                }
            }
        }
    }

    async fn len(&self, name: PackName) -> Result<Option<u64>> {
        self.inner.len(name).await
    }

    async fn delete(&self, name: PackName) -> Result<()> {
        let deleted = self.inner.delete(name).await;
        // Also after an error: it may have been done.
        self.forget(&[name]).await;
        deleted
    }

    async fn delete_many(&self, names: &[PackName]) -> Result<()> {
        let deleted = self.inner.delete_many(names).await;
        self.forget(names).await;
        deleted
    }

    async fn list(&self, after: Option<PackName>, limit: usize) -> Result<Vec<PackEntry>> {
        self.inner.list(after, limit).await
    }

    async fn room(&self) -> Result<Option<StoreRoom>> {
        self.inner.room().await
    }

    async fn sweep(&self, older_than: Duration) -> Result<u64> {
        self.inner.sweep(older_than).await
    }
}
