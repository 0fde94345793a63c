//! A pack in memory that grows. After an error, or after a power cut, its writer is finished.

use super::{MemoryStore, Pack, State};
use crate::Appender;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_base::{Error, PackName, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// The writer of one growing pack.
pub(super) struct MemoryAppender {
    pack: Arc<OpenPack>,
    appended_bytes: usize,
    /// What was appended, as an object store keeps it until the sync.
    waiting: Vec<Bytes>,
    ended: bool,
}

impl MemoryAppender {
    /// The writer of the pack that was just begun with this serial number.
    pub(super) fn new(store: MemoryStore, name: PackName, serial: u64, power_cuts: u64) -> Self {
        let pack = OpenPack { store, name, serial, power_cuts, failed: Mutex::new(false) };
        Self { pack: Arc::new(pack), appended_bytes: 0, waiting: Vec::new(), ended: false }
    }
}

/// What the appender shares with its syncs.
struct OpenPack {
    store: MemoryStore,
    name: PackName,
    serial: u64,
    power_cuts: u64,
    failed: Mutex<bool>,
}

impl OpenPack {
    /// Lets `change` work on the pack; once it has failed, nothing works any more.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut failed = self.failed.lock();
        let mut state = self.store.state.lock();
        if *failed || state.power_cuts != self.power_cuts {
            let message = format!("pack {} takes no more bytes: a write or sync of it failed before", self.name);
            return Err(Error::unavailable(message));
        }
        let result = change(&mut state);
        *failed = result.is_err();
        result
    }

    /// The pack, unless it was deleted: writing goes on into nothing then, as with a file that has no name.
    fn find<'a>(&self, state: &'a mut State) -> Option<&'a mut Pack> {
        state.packs.get_mut(&self.name).filter(|pack| pack.serial == self.serial)
    }
}

#[async_trait]
impl Appender for MemoryAppender {
    async fn append(&mut self, parts: Vec<Bytes>) -> Result<u64> {
        if self.ended {
            return Err(Error::internal(format!(
                "pack {} was ended by a sync and takes no more bytes",
                self.pack.name
            )));
        }
        let bytes = parts.concat();
        self.pack.change(|state| {
            state.check_room(self.pack.name, bytes.len())?;
            if let Some(pack) = self.pack.find(state) {
                pack.bytes.extend_from_slice(&bytes);
            }
            Ok(())
        })?;
        let offset = self.appended_bytes;
        self.appended_bytes += bytes.len();
        if self.sync_ends_pack() {
            self.waiting.extend(parts);
        }
        Ok(offset as u64)
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<()>> {
        self.ended = self.pack.store.sync_ends_pack;
        self.waiting.clear();
        let (pack, appended_bytes) = (Arc::clone(&self.pack), self.appended_bytes);
        Box::pin(async move {
            pack.change(|state| {
                if let Some(found) = pack.find(state) {
                    found.durable_bytes = found.durable_bytes.max(Some(appended_bytes));
                }
                Ok(())
            })
        })
    }

    fn sync_ends_pack(&self) -> bool {
        self.pack.store.sync_ends_pack
    }

    fn waiting_bytes(&self) -> u64 {
        self.waiting.iter().map(|part| part.len() as u64).sum()
    }
}
