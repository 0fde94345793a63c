//! Blocks of content in memory, by the content's number and their place, least recently used out first.
//!
//! A block that several want at once is fetched once: the others wait for the first, and try themselves if that failed.

use bytes::Bytes;
use holdfast_base::{ContentId, Result};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// What keeping a block costs beside its bytes.
const OVERHEAD_BYTES: usize = 512;
/// Sizes of contents that are remembered; see [`Blocks::facts`].
const FACTS_MAX: usize = 16 << 10;

/// Content and number of the block in it.
pub(super) type Key = (ContentId, u64);

pub(super) struct Blocks {
    kept: Mutex<Kept>,
    bytes_max: usize,
    facts: Mutex<HashMap<ContentId, crate::wire::Opened>>,
}

#[derive(Default)]
struct Kept {
    slots: HashMap<Key, Slot>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    bytes: usize,
}

struct Slot {
    cell: Arc<OnceCell<Bytes>>,
    used: u64,
    bytes: usize,
}

impl Kept {
    fn touch(&mut self, key: Key) -> Arc<OnceCell<Bytes>> {
        self.uses += 1;
        let uses = self.uses;
        let mut is_new = false;
        let slot = self.slots.entry(key).or_insert_with(|| {
            is_new = true;
            Slot { cell: Arc::default(), used: uses, bytes: OVERHEAD_BYTES }
        });
        if is_new {
            self.bytes += OVERHEAD_BYTES;
        } else {
            self.by_use.remove(&slot.used);
        }
        slot.used = uses;
        self.by_use.insert(uses, key);
        slot.cell.clone()
    }

    fn fill(&mut self, key: Key, bytes: usize, bytes_max: usize) {
        if let Some(slot) = self.slots.get_mut(&key) {
            self.bytes = self.bytes - slot.bytes + bytes + OVERHEAD_BYTES;
            slot.bytes = bytes + OVERHEAD_BYTES;
        }
        while self.bytes > bytes_max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            if let Some(slot) = self.slots.remove(&oldest) {
                self.bytes -= slot.bytes;
            }
        }
    }
}

impl Blocks {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { kept: Mutex::default(), bytes_max, facts: Mutex::default() }
    }

    /// A block, from memory or fetched.
    pub(super) async fn get<F>(&self, key: Key, fetch: impl FnOnce() -> F + Send) -> Result<Bytes>
    where
        F: Future<Output = Result<Bytes>> + Send,
    {
        let cell = self.kept.lock().touch(key);
        let had = cell.initialized();
        let found = cell.get_or_try_init(fetch).await?.clone();
        if !had {
            self.kept.lock().fill(key, found.len(), self.bytes_max);
        }
        Ok(found)
    }

    /// Whether it is here or on its way.
    pub(super) fn has(&self, key: Key) -> bool {
        self.kept.lock().slots.contains_key(&key)
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> u64 {
        self.kept.lock().bytes as u64
    }

    /// Lets go of a content's blocks, or of all.
    pub(super) fn forget(&self, content: Option<ContentId>) {
        let mut kept = self.kept.lock();
        let Some(content) = content else {
            *kept = Kept { uses: kept.uses, ..Kept::default() };
            return;
        };
        let keys: Vec<Key> = kept.slots.keys().filter(|(of, _)| *of == content).copied().collect();
        for key in keys {
            if let Some(slot) = kept.slots.remove(&key) {
                kept.by_use.remove(&slot.used);
                kept.bytes -= slot.bytes;
            }
        }
    }

    /// Size and grain of a content, if they are known: they never change.
    pub(super) fn facts(&self, content: ContentId) -> Option<crate::wire::Opened> {
        self.facts.lock().get(&content).copied()
    }

    pub(super) fn learn_facts(&self, content: ContentId, opened: crate::wire::Opened) {
        let mut facts = self.facts.lock();
        if facts.len() >= FACTS_MAX {
            facts.clear();
        }
        facts.insert(content, opened);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::Error;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn key(number: u64) -> Key {
        (ContentId(1), number)
    }

    #[tokio::test]
    async fn what_was_not_used_longest_goes_first_and_memory_has_its_bound() {
        let blocks = Blocks::new(10 * (1_000 + OVERHEAD_BYTES));
        let fetched = AtomicUsize::new(0);
        let get = async |number| {
            let fetch = || async {
                fetched.fetch_add(1, Ordering::Relaxed);
                Ok(Bytes::from(vec![0; 1_000]))
            };
            blocks.get(key(number), fetch).await.expect("fetched")
        };
        for number in 0..30 {
            get(number).await;
            get(0).await;
        }
        assert_eq!(fetched.load(Ordering::Relaxed), 30, "the first was used all the time and never fetched again");
        assert!(blocks.has(key(0)) && blocks.has(key(29)) && !blocks.has(key(1)));
        assert!(blocks.kept.lock().bytes <= 10 * (1_000 + OVERHEAD_BYTES));
        assert_eq!(blocks.kept.lock().slots.len(), 10);
    }

    #[tokio::test]
    async fn a_block_that_could_not_be_fetched_is_fetched_by_who_asks_next() {
        let blocks = Blocks::new(1 << 20);
        assert!(blocks.get(key(1), || async { Err(Error::unavailable("away")) }).await.is_err());
        let found = blocks.get(key(1), || async { Ok(Bytes::from_static(b"x")) }).await;
        assert_eq!(found.expect("fetched"), "x");
    }
}
