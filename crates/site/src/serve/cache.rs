//! Small contents in memory, by the hash of what they are, so that sites, snapshots and paths share them and none is ever stale.
//!
//! Bounded by bytes. What is looked up again before its turn to go stays (second chance); a look-up takes a shared lock and
//! sets a flag. Several requests for one missing content read it once.

use crate::layout::ObjectId;
use bytes::Bytes;
use holdfast_base::Result;
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::OnceCell;

/// What an entry costs besides its bytes, about.
const ENTRY_BYTES: usize = 256;

pub(crate) struct Cache {
    held: RwLock<Held>,
    flights: Mutex<HashMap<ObjectId, Arc<OnceCell<Bytes>>>>,
    bytes_max: usize,
}

#[derive(Default)]
struct Held {
    contents: HashMap<ObjectId, Slot>,
    /// Oldest first.
    order: VecDeque<ObjectId>,
    bytes: usize,
}

struct Slot {
    bytes: Bytes,
    used: AtomicBool,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { held: RwLock::default(), flights: Mutex::default(), bytes_max }
    }

    pub(crate) fn get(&self, id: &ObjectId) -> Option<Bytes> {
        let held = self.held.read();
        let slot = held.contents.get(id)?;
        if !slot.used.load(Ordering::Relaxed) {
            slot.used.store(true, Ordering::Relaxed);
        }
        Some(slot.bytes.clone())
    }

    /// The content, read with `read` if it is not here.
    pub(crate) async fn get_or_read<F>(&self, id: ObjectId, read: impl FnOnce() -> F) -> Result<Bytes>
    where
        F: Future<Output = Result<Bytes>>,
    {
        if let Some(bytes) = self.get(&id) {
            return Ok(bytes);
        }
        let flight = self.flights.lock().entry(id).or_default().clone();
        let outcome = flight.get_or_try_init(read).await.cloned();
        self.flights.lock().remove(&id);
        if let Ok(bytes) = &outcome {
            self.put(id, bytes.clone());
        }
        outcome
    }

    fn put(&self, id: ObjectId, bytes: Bytes) {
        let cost = bytes.len() + ENTRY_BYTES;
        if cost > self.bytes_max {
            return;
        }
        let mut held = self.held.write();
        if held.contents.contains_key(&id) {
            return;
        }
        held.bytes += cost;
        held.order.push_back(id);
        held.contents.insert(id, Slot { bytes, used: AtomicBool::new(false) });
        while held.bytes > self.bytes_max {
            held.drop_one();
        }
        metrics::gauge!("holdfast_site_cache_bytes").set(held.bytes as f64);
    }
}

impl Held {
    fn drop_one(&mut self) {
        let Some(id) = self.order.pop_front() else { return };
        let used = self.contents.get(&id).is_some_and(|slot| slot.used.swap(false, Ordering::Relaxed));
        if used {
            self.order.push_back(id);
        } else if let Some(slot) = self.contents.remove(&id) {
            self.bytes -= slot.bytes.len() + ENTRY_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::Error;

    fn id(n: u8) -> ObjectId {
        ObjectId([n; 32])
    }

    #[test]
    fn it_never_holds_more_than_its_bound_and_keeps_what_is_used() {
        let cache = Cache::new(10 * (1_000 + ENTRY_BYTES));
        for n in 0..100 {
            cache.put(id(n), vec![n; 1_000].into());
            assert!(cache.get(&id(0)).is_some(), "what every request uses stays, at {n}");
            assert!(cache.held.read().bytes <= cache.bytes_max);
        }
        assert!(cache.get(&id(50)).is_none() && cache.get(&id(99)).is_some());
        cache.put(id(200), vec![0; 1 << 20].into());
        assert!(cache.get(&id(200)).is_none());
    }

    #[tokio::test]
    async fn many_who_miss_at_once_read_once_and_a_failure_is_not_kept() {
        let cache = Cache::new(1 << 20);
        let failed = cache.get_or_read(id(1), || async { Err(Error::unavailable("no")) }).await;
        assert!(failed.is_err());
        let reads = std::sync::atomic::AtomicUsize::new(0);
        let read = || async {
            reads.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(Bytes::from_static(b"x"))
        };
        let all = futures_util::future::join_all((0..20).map(|_| cache.get_or_read(id(1), read))).await;
        assert!(all.into_iter().all(|bytes| bytes.expect("reads") == "x"));
        assert_eq!(reads.load(Ordering::Relaxed), 1);
        assert!(cache.flights.lock().is_empty());
    }
}
