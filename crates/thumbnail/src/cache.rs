//! Pictures in memory, and that there is none; the one not asked for for the longest time makes room.

use crate::Key;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// What an entry costs besides its bytes: key, places in two maps, the allocation.
const ENTRY_BYTES: usize = 256;

struct Entry {
    picture: Option<Bytes>,
    turn: u64,
    used: Instant,
}

impl Entry {
    fn cost(&self) -> usize {
        ENTRY_BYTES + self.picture.as_ref().map_or(0, Bytes::len)
    }
}

/// See the module.
pub(crate) struct Cache {
    entries: HashMap<Key, Entry>,
    /// Keys by when they were last asked for.
    turns: BTreeMap<u64, Key>,
    next: u64,
    bytes: usize,
    bytes_max: usize,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { entries: HashMap::new(), turns: BTreeMap::new(), next: 0, bytes: 0, bytes_max }
    }

    /// What is known of a picture: nothing, that there is none, or it.
    #[expect(clippy::option_option, reason = "not known, and known that there is none, are two things")]
    pub(crate) fn get(&mut self, key: &Key, now: Instant) -> Option<Option<Bytes>> {
        let entry = self.entries.get_mut(key)?;
        self.turns.remove(&entry.turn);
        (entry.turn, entry.used) = (self.next, now);
        self.turns.insert(self.next, *key);
        self.next += 1;
        Some(entry.picture.clone())
    }

    pub(crate) fn put(&mut self, key: Key, picture: Option<Bytes>, now: Instant) {
        self.remove(&key);
        let entry = Entry { picture, turn: self.next, used: now };
        if entry.cost() > self.bytes_max {
            return;
        }
        self.next += 1;
        self.bytes += entry.cost();
        self.turns.insert(entry.turn, key);
        self.entries.insert(key, entry);
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.oldest() else { break };
            self.remove(&oldest);
        }
    }

    /// Forgets what nobody asked for for this long.
    pub(crate) fn sweep(&mut self, idle_max: Duration, now: Instant) {
        while let Some(oldest) = self.oldest() {
            let is_idle = |entry: &Entry| now.duration_since(entry.used) > idle_max;
            if !self.entries.get(&oldest).is_some_and(is_idle) {
                break;
            }
            self.remove(&oldest);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn oldest(&self) -> Option<Key> {
        self.turns.first_key_value().map(|(_, key)| *key)
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.turns.remove(&entry.turn);
            self.bytes -= entry.cost();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::Uid;

    fn key(number: u8) -> Key {
        Key { space: Uid([1; 16]), content: [number; 16], edge: 256 }
    }

    #[test]
    fn it_stays_within_its_bytes_and_keeps_what_was_asked_for_last() {
        let (picture, now) = (Bytes::from(vec![0; 1_000]), Instant::now());
        let mut cache = Cache::new(3 * (1_000 + ENTRY_BYTES));
        for number in 0..3 {
            cache.put(key(number), Some(picture.clone()), now);
        }
        assert!(cache.get(&key(0), now).is_some());
        cache.put(key(3), Some(picture.clone()), now);
        let kept: Vec<u8> = (0..4).filter(|number| cache.get(&key(*number), now).is_some()).collect();
        assert_eq!(kept, [0, 2, 3]);
        assert_eq!(cache.bytes(), cache.bytes_max);
        cache.put(key(9), Some(Bytes::from(vec![0; 9_000])), now);
        assert!(cache.get(&key(9), now).is_none() && cache.get(&key(3), now).is_some());
    }

    #[test]
    fn another_size_space_or_content_is_another_picture_and_none_is_remembered() {
        let now = Instant::now();
        let mut cache = Cache::new(10_000);
        cache.put(key(1), None, now);
        assert_eq!(cache.get(&key(1), now), Some(None));
        let others = [Key { edge: 1024, ..key(1) }, Key { space: Uid([2; 16]), ..key(1) }, key(2)];
        assert!(others.iter().all(|other| cache.get(other, now).is_none()));
        cache.put(key(1), Some(Bytes::from_static(b"x")), now);
        assert_eq!((cache.entries.len(), cache.turns.len(), cache.bytes()), (1, 1, ENTRY_BYTES + 1));
    }

    #[test]
    fn what_is_idle_is_forgotten() {
        let (now, idle) = (Instant::now(), Duration::from_mins(1));
        let mut cache = Cache::new(10_000);
        cache.put(key(1), None, now);
        cache.put(key(2), None, now + idle);
        cache.sweep(idle, now + idle + Duration::from_secs(1));
        assert!(cache.get(&key(1), now).is_none() && cache.get(&key(2), now).is_some());
        assert_eq!(cache.bytes(), ENTRY_BYTES);
    }
}
