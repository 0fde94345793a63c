//! What the cache knows of its blocks: who waits for them, who uses them, and in which order idle ones are let go.
//!
//! Nothing here waits. A block is in one of these states, which follow from its counts:
//!
//! | state | what it is | let go |
//! |---|---|---|
//! | flying | being fetched | at its end, if nobody wants it and it was not fetched ahead |
//! | wanted | here, for readers that have not taken it yet | after [`super::GRACE`] |
//! | used | claimed, or slices of it are out | never |
//! | idle | none of these | when room is needed, or after [`super::IDLE_MAX`] |

use super::{Block, DONE_BYTES_MAX, GRACE, IDLE_MAX, Key, Landing};
use crate::engine::budget::Hold;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// The blocks.
#[derive(Default)]
pub(super) struct Table {
    entries: HashMap<Key, Entry>,
    /// Idle blocks: those read to their end before the others, the longest unused first.
    idle: BTreeMap<Rank, Key>,
    /// Bytes of idle blocks that were read to their end.
    done_bytes: usize,
    ahead_bytes: usize,
    /// Numbers flights and moments of falling idle.
    clock: u64,
    /// Flights that wait for room.
    pub(super) waiting: usize,
    /// Whether the task that sweeps runs.
    pub(super) swept: bool,
}

/// Place in the order of letting go: not read to its end (yet), moment.
type Rank = (bool, u64);

pub(super) struct Entry {
    /// Tells this flight from an earlier one of the same block.
    number: u64,
    share_bytes: usize,
    body: Body,
    /// Pays for the block; declared after it, so that the memory goes before the share does.
    hold: Option<Hold>,
    wanted: usize,
    users: usize,
    pins: usize,
    ahead: bool,
    done: bool,
    rank: Option<Rank>,
    /// When it landed or was last used.
    since: Instant,
}

enum Body {
    Flying(watch::Receiver<Landing>),
    Here(Arc<Block>),
}

impl Entry {
    /// Whether it was fetched ahead and nobody has asked for it yet.
    pub(super) const fn is_ahead(&self) -> bool {
        self.ahead
    }
}

/// What is known of a block that is wanted.
pub(super) enum Found {
    /// It is here; the asker uses it now.
    Ready(Arc<Block>, u64),
    /// It is on its way; the asker wants it now.
    Flying(watch::Receiver<Landing>, u64),
    /// Nothing.
    Absent,
}

impl Table {
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) const fn ahead_bytes(&self) -> usize {
        self.ahead_bytes
    }

    pub(super) fn share_of(&self, key: &Key) -> usize {
        self.entries.get(key).map_or(0, |entry| entry.share_bytes)
    }

    pub(super) fn is_pinned(&self, key: &Key) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.hold.as_ref().is_some_and(Hold::is_client_bound))
    }

    fn get(&mut self, key: &Key, number: u64) -> Option<&mut Entry> {
        self.entries.get_mut(key).filter(|entry| entry.number == number)
    }

    /// Looks a block up for a reader and notes it.
    pub(super) fn find(&mut self, key: &Key) -> Found {
        let Some(entry) = self.entries.get_mut(key) else { return Found::Absent };
        if std::mem::take(&mut entry.ahead) {
            self.ahead_bytes -= entry.share_bytes;
        }
        let rank = entry.rank.take();
        let found = match &entry.body {
            Body::Here(block) => {
                entry.users += 1;
                Found::Ready(block.clone(), entry.number)
            }
            Body::Flying(landing) => {
                entry.wanted += 1;
                Found::Flying(landing.clone(), entry.number)
            }
        };
        let bytes = entry.share_bytes;
        self.unrank(rank, bytes);
        found
    }

    fn unrank(&mut self, rank: Option<Rank>, bytes: usize) {
        let Some(rank) = rank else { return };
        self.idle.remove(&rank);
        if !rank.0 {
            self.done_bytes -= bytes;
        }
    }

    /// Notes a flight, wanted by one reader or fetched ahead; answers its number.
    pub(super) fn fly(&mut self, key: Key, bytes: usize, landing: watch::Receiver<Landing>, ahead: bool) -> u64 {
        self.clock += 1;
        let number = self.clock;
        let entry = Entry {
            number,
            share_bytes: bytes,
            body: Body::Flying(landing),
            hold: None,
            wanted: usize::from(!ahead),
            users: 0,
            pins: 0,
            ahead,
            done: false,
            rank: None,
            since: Instant::now(),
        };
        self.entries.insert(key, entry);
        if ahead {
            self.ahead_bytes += bytes;
        }
        number
    }

    /// Whether somebody is still glad of a flight.
    pub(super) fn is_wanted(&mut self, key: &Key, number: u64) -> bool {
        self.get(key, number).is_some_and(|entry| entry.wanted > 0 || entry.ahead)
    }

    pub(super) fn land(&mut self, key: &Key, number: u64, block: Arc<Block>, hold: Option<Hold>) {
        if let Some(entry) = self.get(key, number) {
            entry.body = Body::Here(block);
            entry.hold = hold;
            entry.since = Instant::now();
        }
    }

    /// One of those who wanted a block takes it.
    pub(super) fn enter(&mut self, key: &Key, number: u64) -> Option<Arc<Block>> {
        let entry = self.get(key, number)?;
        let Body::Here(block) = &entry.body else { return None };
        let block = block.clone();
        entry.users += 1;
        Some(block)
    }

    pub(super) fn lose_interest(&mut self, key: &Key, number: u64) {
        if let Some(entry) = self.get(key, number) {
            entry.wanted -= 1;
        }
    }

    /// Notes that slices of a block are out; `hold` is its new share if they are the first.
    pub(super) fn pin(&mut self, key: &Key, hold: Option<Hold>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.pins += 1;
        if hold.is_some() {
            entry.hold = hold;
        }
    }

    /// A user leaves; answers whether slices were out and none is any more.
    pub(super) fn leave(&mut self, key: &Key, number: u64, pinned: bool, done: bool) -> bool {
        let Some(entry) = self.get(key, number) else { return false };
        entry.users -= 1;
        entry.pins -= usize::from(pinned);
        entry.done = done;
        entry.since = Instant::now();
        entry.pins == 0 && entry.hold.as_ref().is_some_and(Hold::is_client_bound)
    }

    /// Gives a block another share.
    pub(super) fn move_to(&mut self, key: &Key, hold: Hold) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.hold = Some(hold);
        }
    }

    /// Lets a block fall idle if nobody uses or wants it; lets it go at once if somebody waits for room, or if there was none to move it
    /// out of the pinned region.
    pub(super) fn settle(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.users > 0 || entry.wanted > 0 || entry.rank.is_some() || matches!(entry.body, Body::Flying(_)) {
            return;
        }
        if self.waiting > 0 || entry.hold.as_ref().is_none_or(Hold::is_client_bound) {
            let number = entry.number;
            return self.remove(key, number);
        }
        self.clock += 1;
        let rank = (!entry.done, self.clock);
        entry.rank = Some(rank);
        if entry.done {
            self.done_bytes += entry.share_bytes;
        }
        self.idle.insert(rank, *key);
        while self.done_bytes > DONE_BYTES_MAX && self.let_go_first(|entry| entry.done) {}
    }

    /// Lets the first idle block go that `may` go; false if there is none.
    pub(super) fn let_go_first(&mut self, may: impl Fn(&Entry) -> bool) -> bool {
        let mut idle = self.idle.values();
        let Some(key) = idle.find(|key| self.entries.get(key).is_some_and(&may)).copied() else { return false };
        let Some(number) = self.entries.get(&key).map(|entry| entry.number) else { return false };
        self.remove(&key, number);
        true
    }

    pub(super) fn remove(&mut self, key: &Key, number: u64) {
        if self.get(key, number).is_none() {
            return;
        }
        let Some(entry) = self.entries.remove(key) else { return };
        if entry.ahead {
            self.ahead_bytes -= entry.share_bytes;
        }
        self.unrank(entry.rank, entry.share_bytes);
    }

    pub(super) fn remove_flying(&mut self, key: &Key, number: u64) {
        if self.get(key, number).is_some_and(|entry| matches!(entry.body, Body::Flying(_))) {
            self.remove(key, number);
        }
    }

    /// Lets go of blocks that nobody used for too long, and of those whose readers did not come for them.
    pub(super) fn sweep(&mut self, now: Instant) {
        let past = |entry: &Entry, limit| now.saturating_duration_since(entry.since) >= limit;
        let late = self.entries.iter().filter(|(_, entry)| match entry.body {
            Body::Flying(_) => false,
            Body::Here(_) if entry.users > 0 => false,
            Body::Here(_) if entry.wanted > 0 => past(entry, GRACE),
            Body::Here(_) => past(entry, IDLE_MAX),
        });
        let late: Vec<_> = late.map(|(key, entry)| (*key, entry.number)).collect();
        for (key, number) in late {
            self.remove(&key, number);
        }
    }

    /// Idle blocks, for tests.
    #[cfg(test)]
    pub(super) fn idle_count(&self) -> usize {
        self.idle.len()
    }
}
