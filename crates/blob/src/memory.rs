//! Packs in memory, for tests: the semantics of the other stores, and a power cut at the push of a button.
//!
//! [`MemoryStore::lose_power`] forgets what no sync had covered: a grown pack is cut back to its last sync, one never
//! synced vanishes if the store is [like an object store](MemoryStore::like_an_object_store), and becomes empty if it
//! is like a local file system, where names are durable first. Writers of before the cut fail afterwards.

mod appender;

use crate::{Appender, BlobStore, PackEntry, StoreRoom};
use appender::MemoryAppender;
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::{Error, ErrorKind, PackName, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A store in memory. Clones share one content.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    sync_ends_pack: bool,
}

#[derive(Debug, Default)]
struct State {
    packs: BTreeMap<PackName, Pack>,
    power_cuts: u64,
    packs_begun: u64,
    capacity_bytes: Option<u64>,
}

#[derive(Debug, Default)]
struct Pack {
    bytes: Vec<u8>,
    /// None until the first sync.
    durable_bytes: Option<usize>,
    /// Tells a pack from an earlier one of the same name, whose writer may still be around.
    serial: u64,
}

impl MemoryStore {
    /// An empty store whose packs can be synced again and again, as in a file system.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store where a sync ends a pack, as in an object store.
    pub fn like_an_object_store() -> Self {
        Self { sync_ends_pack: true, ..Self::default() }
    }

    /// Makes writes fail with [`ErrorKind::NoSpace`] that would take the store above `bytes` in all.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity_bytes = bytes;
    }

    /// Forgets everything that is not durable.
    pub fn lose_power(&self) {
        let mut state = self.state.lock();
        state.power_cuts += 1;
        if self.sync_ends_pack {
            state.packs.retain(|_, pack| pack.durable_bytes.is_some());
        }
        for pack in state.packs.values_mut() {
            let durable_bytes = pack.durable_bytes.unwrap_or(0);
            pack.bytes.truncate(durable_bytes);
        }
    }

    /// Flips one bit of a stored pack, counted from the pack's start. Answers whether there is such a bit.
    pub fn flip_bit(&self, name: PackName, bit: u64) -> bool {
        let mut state = self.state.lock();
        let byte = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        let found = state.packs.get_mut(&name).and_then(|pack| pack.bytes.get_mut(byte));
        found.map(|byte| *byte ^= 1 << (bit % 8)).is_some()
    }
}

impl State {
    fn used_bytes(&self) -> u64 {
        self.packs.values().map(|pack| pack.bytes.len() as u64).sum()
    }

    fn check_room(&self, name: PackName, more_bytes: usize) -> Result<()> {
        match self.capacity_bytes {
            Some(capacity) if self.used_bytes().saturating_add(more_bytes as u64) > capacity => {
                Err(Error::new(ErrorKind::NoSpace, "the store is full").context(format_args!("writing pack {name}")))
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, name: PackName) -> Result<u64> {
        if self.packs.contains_key(&name) {
            let message = format!("beginning pack {name}: it exists already");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        self.packs_begun += 1;
        let serial = self.packs_begun;
        self.packs.insert(name, Pack { serial, ..Pack::default() });
        Ok(serial)
    }
}

#[async_trait]
impl BlobStore for MemoryStore {
    fn kind(&self) -> &'static str {
        "memory"
    }

    async fn put(&self, name: PackName, parts: Vec<Bytes>) -> Result<()> {
        let bytes = parts.concat();
        let mut state = self.state.lock();
        state.check_room(name, bytes.len())?;
        let serial = state.begin(name)?;
        let durable_bytes = Some(bytes.len());
        state.packs.insert(name, Pack { bytes, durable_bytes, serial });
        Ok(())
    }

    async fn append(&self, name: PackName) -> Result<Box<dyn Appender>> {
        let mut state = self.state.lock();
        let serial = state.begin(name)?;
        Ok(Box::new(MemoryAppender::new(self.clone(), name, serial, state.power_cuts)))
    }

    async fn read(&self, name: PackName, offset: u64, len: usize, mut buffer: Vec<u8>) -> Result<Vec<u8>> {
        let state = self.state.lock();
        let pack = state
            .packs
            .get(&name)
            .ok_or_else(|| Error::not_found(format!("reading pack {name}: there is no such pack")))?;
        buffer.clear();
        if len > 0 {
            let start = usize::try_from(offset).ok();
            let range = start.and_then(|start| Some(start..start.checked_add(len)?));
            let found = range.and_then(|range| pack.bytes.get(range)).ok_or_else(|| {
                let message = format!("reading pack {name}: it has no {len} bytes at offset {offset}");
                Error::damaged(message)
            })?;
            buffer.extend_from_slice(found);
        }
        Ok(buffer)
    }

    async fn len(&self, name: PackName) -> Result<Option<u64>> {
        Ok(self.state.lock().packs.get(&name).map(|pack| pack.bytes.len() as u64))
    }

    async fn delete(&self, name: PackName) -> Result<()> {
        self.state.lock().packs.remove(&name);
        Ok(())
    }

    async fn list(&self, after: Option<PackName>, limit: usize) -> Result<Vec<PackEntry>> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.state.lock();
        let packs = state.packs.range((start, Bound::Unbounded)).take(limit);
        Ok(packs.map(|(name, pack)| PackEntry { name: *name, bytes: pack.bytes.len() as u64 }).collect())
    }

    async fn room(&self) -> Result<Option<StoreRoom>> {
        let state = self.state.lock();
        Ok(state
            .capacity_bytes
            .map(|total_bytes| StoreRoom { total_bytes, free_bytes: total_bytes.saturating_sub(state.used_bytes()) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: PackName = PackName([3; 16]);

    async fn append(appender: &mut Box<dyn Appender>, text: &'static str) {
        appender.append(vec![Bytes::from_static(text.as_bytes())]).await.expect("appends");
    }

    #[tokio::test]
    async fn a_power_cut_takes_back_what_was_not_synced_and_ends_the_writer() {
        let store = MemoryStore::new();
        let mut appender = store.append(NAME).await.expect("begins");
        append(&mut appender, "kept").await;
        let sync = appender.sync();
        append(&mut appender, " lost").await;
        sync.await.expect("syncs");
        store.lose_power();
        assert_eq!(store.read(NAME, 0, 4, Vec::new()).await.expect("reads"), b"kept");
        assert_eq!(store.len(NAME).await.expect("answers"), Some(4));
        assert!(appender.append(vec![]).await.is_err());
        assert!(appender.sync().await.is_err());
    }

    #[tokio::test]
    async fn an_object_store_forgets_a_pack_that_was_never_synced_and_ends_one_that_was() {
        let store = MemoryStore::like_an_object_store();
        let mut lost = store.append(NAME).await.expect("begins");
        append(&mut lost, "x").await;
        let mut kept = store.append(PackName([4; 16])).await.expect("begins");
        assert!(kept.sync_ends_pack());
        append(&mut kept, "x").await;
        kept.sync().await.expect("syncs");
        assert_eq!(kept.append(vec![]).await.expect_err("ended").kind(), ErrorKind::Internal);
        store.lose_power();
        assert_eq!(store.list(None, 9).await.expect("lists"), [PackEntry { name: PackName([4; 16]), bytes: 1 }]);
    }

    #[tokio::test]
    async fn a_full_store_refuses_what_does_not_fit_and_keeps_the_rest() {
        let store = MemoryStore::new();
        store.set_capacity(Some(3));
        store.put(NAME, vec![Bytes::from_static(b"abc")]).await.expect("fits");
        let refused = store.put(PackName([4; 16]), vec![Bytes::from_static(b"d")]).await;
        assert_eq!(refused.expect_err("full").kind(), ErrorKind::NoSpace);
        assert_eq!(store.room().await.expect("answers"), Some(StoreRoom { total_bytes: 3, free_bytes: 0 }));
    }

    mod like_a_file_system {
        crate::conformance_suite!(|| ((), crate::memory::MemoryStore::new()));
    }

    mod like_an_object_store {
        crate::conformance_suite!(|| ((), crate::memory::MemoryStore::like_an_object_store()));
    }
}
