//! A bounded cache of files open for reading, so that a read of a block is one system call and not three.
//!
//! A deleted pack must leave the cache, or its space stays in use and reads of it go on working. Removing it is not
//! enough: a reader may have opened the file before the delete and put it here after it. So each delete also advances a
//! count, and a file is taken only if no delete ended since before it was opened. A reader that loses this race uses
//! its file once and the cache just misses again.
//!
//! The least recently used file goes first, found by a scan: that happens beside an open(2), which costs more than
//! looking at a few hundred numbers.

use holdfast_base::PackName;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

/// The cache.
#[derive(Debug)]
pub(super) struct OpenFiles {
    files_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    files: HashMap<PackName, Entry>,
    uses: u64,
    deletes: u64,
}

#[derive(Debug)]
struct Entry {
    file: Arc<File>,
    last_use: u64,
}

/// The count of deletes at one moment; shown when a file is put in.
#[derive(Debug, Clone, Copy)]
pub(super) struct BeforeOpen(u64);

impl OpenFiles {
    pub(super) fn new(files_max: usize) -> Self {
        Self { files_max, state: Mutex::default() }
    }

    /// The pack's file, if it is open.
    pub(super) fn get(&self, name: PackName) -> Option<Arc<File>> {
        let mut state = self.state.lock();
        state.uses += 1;
        let uses = state.uses;
        let entry = state.files.get_mut(&name)?;
        entry.last_use = uses;
        Some(Arc::clone(&entry.file))
    }

    /// To be called before a file is opened.
    pub(super) fn before_open(&self) -> BeforeOpen {
        BeforeOpen(self.state.lock().deletes)
    }

    /// Keeps a file that was opened after `before`, unless a pack was deleted since.
    pub(super) fn keep(&self, before: BeforeOpen, name: PackName, file: Arc<File>) {
        let mut state = self.state.lock();
        if state.deletes != before.0 {
            return;
        }
        state.uses += 1;
        let last_use = state.uses;
        let replaced = state.files.insert(name, Entry { file, last_use });
        let evicted = state.make_room(self.files_max);
        // Closing a file can wait for the disk, so it happens outside the lock.
        drop(state);
        drop((replaced, evicted));
    }

    /// Drops a pack that was just deleted.
    pub(super) fn forget(&self, name: PackName) {
        let mut state = self.state.lock();
        state.deletes += 1;
        let removed = state.files.remove(&name);
        drop(state);
        drop(removed);
    }
}

impl State {
    fn make_room(&mut self, files_max: usize) -> Option<Entry> {
        if self.files.len() <= files_max {
            return None;
        }
        let oldest = self.files.iter().min_by_key(|(_, entry)| entry.last_use).map(|(name, _)| *name)?;
        self.files.remove(&oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Arc<File> {
        Arc::new(tempfile::tempfile().expect("a temporary file"))
    }

    #[test]
    fn the_least_recently_used_file_makes_room() {
        let files = OpenFiles::new(2);
        let [a, b, c] = [1, 2, 3].map(|byte| PackName([byte; 16]));
        files.keep(files.before_open(), a, file());
        files.keep(files.before_open(), b, file());
        assert!(files.get(a).is_some());
        files.keep(files.before_open(), c, file());
        assert!(files.get(a).is_some() && files.get(b).is_none() && files.get(c).is_some());
    }

    #[test]
    fn a_file_opened_before_a_delete_is_not_kept_after_it() {
        let files = OpenFiles::new(2);
        let name = PackName([1; 16]);
        let before = files.before_open();
        files.forget(name);
        files.keep(before, name, file());
        assert!(files.get(name).is_none());
        files.keep(files.before_open(), name, file());
        assert!(files.get(name).is_some());
    }
}
