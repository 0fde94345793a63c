//! What the object stores have in common: packs as whole objects, written once.
//!
//! S3 and Swift differ in words; [`Objects`] is what each says in its own. Everything else is here:
//!
//! - [`ObjectStore`] is the [`BlobStore`]: names to keys, reads, lists, deletes;
//! - [`open`] knows the packs that this process is writing, so that they can be seen before there is an object;
//! - [`upload`] sends a pack: as one object while it fits a part, in parts side by side once it does not; asks for names
//!   that must be free, tries again what may be tried again, and asks for what it stored before it says so;
//! - [`appender`] is a pack that grows until its sync, which makes the object: a sync ends the pack.
//!
//! **Memory**: an open pack holds at most a part that is not full; parts on their way are bounded for the whole store
//! ([`Options::parts_in_flight_max`]), and an append waits when there are too many.
//!
//! **What can be seen of an open pack**: its length so far, and the bytes still held here. Bytes handed over in a part
//! cannot be read before the sync, since no object service shows parts; asking for them is `Unavailable`. (The drive
//! reads only what was synced.)
//!
//! **Names** are taken in this process first, then asked of the service: with the put itself where it can
//! (`If-None-Match: *`), else before it. The second leaves a gap in which another process may take the same name; it is
//! tolerable because names are 128 random bits and are never used twice, so the question only catches a mistake such as
//! two drives configured with one prefix and one catalogue restored from the other's backup.

mod appender;
mod keys;
mod objects;
mod open;
#[cfg(test)]
mod tests;
mod upload;

pub(crate) use keys::Keys;
pub use objects::{Body, Listed, Page, hex};
pub(crate) use objects::{Objects, PartSent, Stat};

use crate::layer::retry::{Policy, Retry};
use crate::{Appender, BlobStore, PackEntry, StoreRoom};
use appender::ObjectAppender;
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::{Error, ErrorKind, PackName, Result};
use open::{Found, OpenPacks};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use upload::Upload;

/// S3 refuses parts below 5 MiB, but for the last.
pub const PART_BYTES_MIN: u64 = 5 << 20;

/// Larger than any object of any service known (S3: 5 TiB); an offset beyond it comes from a damaged reference.
const OBJECT_BYTES_MAX: u64 = 64 << 40;

/// Objects asked for in one page of a list: what S3 answers at most.
const PAGE_MAX: usize = 1_000;

/// How packs are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Packs up to this size are one request; larger ones are sent in parts of it.
    pub part_bytes: u64,
    /// Parts on their way at once, all packs together.
    pub parts_in_flight_max: usize,
    /// Whether to ask the service for each pack after it said that it has it.
    pub confirm: bool,
}

impl Default for Options {
    /// 8 MiB keep a link of 1 Gbit/s with 50 ms of latency busy with two of them on their way; four leave room for
    /// faster ones and hold 32 MiB.
    fn default() -> Self {
        Self { part_bytes: 8 << 20, parts_in_flight_max: 4, confirm: true }
    }
}

/// What the store, its appenders and its uploads share.
struct Core {
    objects: Arc<dyn Objects>,
    keys: Keys,
    options: Options,
    retry: Retry,
    open: OpenPacks,
    places: Arc<Semaphore>,
}

/// A store of packs in an object service.
pub struct ObjectStore {
    core: Arc<Core>,
}

impl ObjectStore {
    /// A store that keeps packs as the objects named by `keys`.
    pub(crate) fn new(objects: Arc<dyn Objects>, keys: Keys, options: Options) -> Self {
        let retry = Retry::new(objects.kind(), Policy::default());
        let places = Arc::new(Semaphore::new(options.parts_in_flight_max.max(1)));
        Self { core: Arc::new(Core { objects, keys, options, retry, open: OpenPacks::default(), places }) }
    }

    async fn read_object(&self, name: PackName, offset: u64, len: usize, mut buffer: Vec<u8>) -> Result<Vec<u8>> {
        let key = self.core.keys.of(name);
        if len == 0 {
            self.core.objects.stat(&key).await?.ok_or_else(no_such_pack)?;
            buffer.clear();
            return Ok(buffer);
        }
        self.core.objects.read(&key, offset, len, buffer).await
    }

    /// Packs that are objects already: up to `limit` in name order after `after`.
    async fn list_objects(&self, after: Option<PackName>, limit: usize) -> Result<Vec<PackEntry>> {
        let keys = &self.core.keys;
        let mut entries = Vec::new();
        let mut last = after.map(|after| keys.of(after));
        while entries.len() < limit {
            let wanted = (limit - entries.len()).min(PAGE_MAX);
            let page = self.core.objects.page(keys.prefix(), last.as_deref(), wanted).await?;
            let end = page.entries.last().map(|entry| entry.key.clone());
            // Objects that are no packs of ours are not reported, so that nothing deletes them.
            let packs = page.entries.iter().filter_map(|entry| Some((keys.name(&entry.key)?, entry.bytes)));
            entries
                .extend(packs.filter(|(name, _)| Some(*name) > after).map(|(name, bytes)| PackEntry { name, bytes }));
            match end {
                Some(end) if page.more && Some(&end) > last.as_ref() => last = Some(end),
                Some(_) if page.more => {
                    return Err(Error::damaged("listing packs: a page of the list makes no progress"));
                }
                _ => break,
            }
        }
        Ok(entries)
    }
}

/// An error of the service as the drive should see it. Wrong credentials or a missing bucket are the operator's to mend
/// and not the client's whose request met them: for the client the store is unavailable, and the message says why.
fn told(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Forbidden | ErrorKind::Unauthenticated | ErrorKind::Conflict | ErrorKind::InvalidInput => {
            Error::unavailable(error.message()).with_source(error)
        }
        _ => error,
    }
}

/// Refuses an answer that holds another range than asked for, or an object too short for it.
pub(crate) fn check_range(content_range: Option<&str>, offset: u64, len: usize) -> Result<()> {
    let last = offset + (len as u64).saturating_sub(1);
    let range = content_range.and_then(|text| text.trim().strip_prefix("bytes ")?.split_once('/'));
    match range.and_then(|(range, _)| range.split_once('-')) {
        Some((from, to)) if from.parse() == Ok(offset) && to.parse() == Ok(last) => Ok(()),
        Some((from, to)) if from.parse() == Ok(offset) && to.parse().is_ok_and(|to: u64| to < last) => {
            Err(Error::damaged(format!("it has no {len} bytes at offset {offset}: it ends before")))
        }
        _ => Err(Error::damaged("the service answered another range than it was asked for")),
    }
}

fn no_such_pack() -> Error {
    Error::not_found("there is no such pack")
}

#[async_trait]
impl BlobStore for ObjectStore {
    fn kind(&self) -> &'static str {
        self.core.objects.kind()
    }

    async fn put(&self, name: PackName, parts: Vec<Bytes>) -> Result<()> {
        let claim = self.core.open.claim(name)?;
        let mut upload = Upload::new(Arc::clone(&self.core), name);
        let put = async {
            let rest = upload.send_full_parts(parts).await?;
            upload.finish(rest).await
        };
        let result = put.await.map_err(|error| told(error).context(format_args!("writing pack {name}")));
        drop(claim);
        result
    }

    async fn append(&self, name: PackName) -> Result<Box<dyn Appender>> {
        let claim = self.core.open.claim(name)?;
        let taken = self.core.retry.persist("begin", || self.core.objects.stat(claim.key(&self.core.keys))).await;
        let context = |error: Error| told(error).context(format_args!("beginning pack {name}"));
        if taken.map_err(context)?.is_some() {
            return Err(context(Error::new(ErrorKind::AlreadyExists, "it exists already")));
        }
        Ok(Box::new(ObjectAppender::new(Arc::clone(&self.core), claim.grow(), name)))
    }

    async fn read(&self, name: PackName, offset: u64, len: usize, buffer: Vec<u8>) -> Result<Vec<u8>> {
        let context = |error: Error| told(error).context(format_args!("reading pack {name}"));
        if offset.checked_add(len as u64).is_none_or(|end| end > OBJECT_BYTES_MAX) {
            return Err(context(Error::damaged(format!("no pack has {len} bytes at offset {offset}"))));
        }
        if let Some(growing) = self.core.open.growing(name) {
            match growing.read(offset, len, buffer).map_err(context)? {
                Found::Here(bytes) => return Ok(bytes),
                Found::InObject(buffer) => return self.read_object(name, offset, len, buffer).await.map_err(context),
            }
        }
        self.read_object(name, offset, len, buffer).await.map_err(context)
    }

    async fn len(&self, name: PackName) -> Result<Option<u64>> {
        if let Some(growing) = self.core.open.growing(name) {
            return Ok(Some(growing.bytes()));
        }
        let stat = self.core.objects.stat(&self.core.keys.of(name)).await;
        let stat = stat.map_err(|error| told(error).context(format_args!("asking for the length of pack {name}")))?;
        Ok(stat.map(|stat| stat.bytes))
    }

    async fn delete(&self, name: PackName) -> Result<()> {
        self.delete_many(&[name]).await.map_err(|error| told(error).context(format_args!("removing pack {name}")))
    }

    async fn delete_many(&self, names: &[PackName]) -> Result<()> {
        for name in names {
            if let Some(growing) = self.core.open.growing(*name) {
                self.core.open.give_up(&growing).await;
            }
        }
        let keys: Vec<String> = names.iter().map(|name| self.core.keys.of(*name)).collect();
        self.core.objects.delete(&keys).await
    }

    async fn list(&self, after: Option<PackName>, limit: usize) -> Result<Vec<PackEntry>> {
        let objects = self.list_objects(after, limit).await.map_err(|error| told(error).context("listing packs"))?;
        let mut entries: BTreeMap<_, _> = objects.into_iter().map(|entry| (entry.name, entry.bytes)).collect();
        entries.extend(self.core.open.list().into_iter().filter(|(name, _)| Some(*name) > after));
        Ok(entries.into_iter().take(limit).map(|(name, bytes)| PackEntry { name, bytes }).collect())
    }

    async fn room(&self) -> Result<Option<StoreRoom>> {
        self.core.objects.room().await
    }

    async fn sweep(&self, older_than: Duration) -> Result<u64> {
        self.core
            .objects
            .sweep(self.core.keys.prefix(), older_than)
            .await
            .map_err(|error| told(error).context("looking for unfinished packs"))
    }
}
