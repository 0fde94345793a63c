//! What programs of this mount hold, file by file.

use holdfast_base::ByteRange;
use holdfast_drive::posix_locks::{Held, Kept, LockKey, Ranges};
use std::collections::HashMap;
use tokio::sync::watch;

/// Whose locks they are.
#[derive(Default)]
pub(super) struct Owner {
    /// The process that asked last, for whoever asks who it is.
    pub(super) process: u32,
    /// Handles it asked through: at the end of one, its locks end.
    pub(super) handles: Vec<u64>,
}

/// A file's locks.
pub(super) struct FileLocks {
    pub(super) held: Ranges<u64>,
    pub(super) owners: HashMap<u64, Owner>,
    /// This mount decides about the file by itself, since this number was given to it.
    pub(super) whole: Option<u64>,
    /// That begins or ends: nobody decides anything until then.
    pub(super) busy: bool,
    /// The greatest number that was recalled, and the greatest that was given back.
    pub(super) recalled: u64,
    pub(super) returned: u64,
    /// Questions under way, with their owners, and whether one let go of something meanwhile: then it is asked again.
    pub(super) asking: Vec<(u64, u64, bool)>,
    /// Owners about whom the table is being told: they ask nothing until it knows.
    pub(super) telling: Vec<u64>,
    /// Requests that are about this file now.
    pub(super) users: usize,
    /// What is waited for here, while this mount decides.
    pub(super) waiting: Vec<Held>,
    changed: watch::Sender<()>,
}

impl Default for FileLocks {
    fn default() -> Self {
        Self {
            held: Ranges::default(),
            owners: HashMap::new(),
            whole: None,
            busy: false,
            recalled: 0,
            returned: 0,
            asking: Vec::new(),
            telling: Vec::new(),
            users: 0,
            waiting: Vec::new(),
            changed: watch::Sender::new(()),
        }
    }
}

impl FileLocks {
    /// Something changed for those who wait.
    pub(super) fn tell(&self) {
        self.changed.send_replace(());
    }

    /// Hears of the next change.
    pub(super) fn listen(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// An owner has a lock.
    pub(super) fn take(&mut self, held: Held, process: u32, handle: u64) {
        let shrinks = !held.exclusive && self.held.touches(held.owner, held.range);
        self.held.set(held.owner, held.range, Some(held.exclusive));
        let owner = self.owners.entry(held.owner).or_default();
        owner.process = process;
        if !owner.handles.contains(&handle) {
            owner.handles.push(handle);
        }
        if shrinks {
            self.tell();
        }
    }

    /// An owner has a range no more.
    pub(super) fn drop(&mut self, owner: u64, range: ByteRange) {
        self.held.set(owner, range, None);
        if self.held.of(owner).is_empty() {
            self.owners.remove(&owner);
        }
        self.tell();
    }

    /// The table is to be told what an owner has left.
    pub(super) fn tell_of(&mut self, owner: u64) {
        self.telling.push(owner);
        self.asking.iter_mut().filter(|(_, asks, _)| *asks == owner).for_each(|(.., stale)| *stale = true);
    }

    /// A question has been answered, or will not be; true if its owner let go of something meanwhile.
    pub(super) fn asked(&mut self, ticket: u64) -> bool {
        let at = self.asking.iter().position(|(asked, ..)| *asked == ticket);
        at.is_some_and(|at| self.asking.swap_remove(at).2)
    }

    /// Nothing is held, waited for or known of it.
    pub(super) fn is_unused(&self) -> bool {
        self.users == 0 && self.held.is_empty() && self.whole.is_none() && !self.busy && self.telling.is_empty()
    }

    /// Whether it would be waited for oneself, where this mount decides.
    pub(super) fn waits_for_itself(&self, wanted: Held) -> bool {
        let mut next: Vec<u64> = self.held.conflicts(wanted).map(|held| held.owner).collect();
        let mut seen = Vec::new();
        while let Some(owner) = next.pop() {
            if owner == wanted.owner {
                return true;
            }
            if !seen.contains(&owner) {
                seen.push(owner);
                let waits = self.waiting.iter().filter(|waits| waits.owner == owner);
                next.extend(waits.flat_map(|waits| self.held.conflicts(*waits)).map(|held| held.owner));
            }
        }
        false
    }

    /// What the table is told when it began anew.
    pub(super) fn kept(&self, key: LockKey) -> Option<Kept> {
        let held = if self.whole.is_some() { Vec::new() } else { self.held.all().to_vec() };
        (self.whole.is_some() || !held.is_empty()).then_some(Kept { key, whole: self.whole, held })
    }
}
