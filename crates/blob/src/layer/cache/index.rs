//! What the log knows in memory: its files, and where each range is.

use super::entry::{HEAD_BYTES, Head, Key};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

#[derive(Debug, Default)]
pub(super) struct State {
    /// Oldest first; the last is being filled.
    pub(super) files: VecDeque<Segment>,
    pub(super) index: BTreeMap<Key, Place>,
    pub(super) next_number: u64,
    /// How many packs were removed.
    pub(super) removals: u64,
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) file: Arc<File>,
    pub(super) bytes: u64,
    pub(super) keys: Vec<Key>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) segment: u64,
    pub(super) at: u64,
    pub(super) sum: u64,
    pub(super) used: bool,
}

/// An entry that was found.
pub(super) struct FoundEntry {
    pub(super) file: Arc<File>,
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) sum: u64,
}

impl FoundEntry {
    /// Its bytes, or the buffer back if they are not what was written.
    pub(super) fn read(&self, mut buffer: Vec<u8>) -> Result<Vec<u8>, Vec<u8>> {
        buffer.resize(self.len as usize, 0);
        match self.file.read_exact_at(&mut buffer, self.at) {
            Ok(()) if xxh3_64(&buffer) == self.sum => Ok(buffer),
            _ => Err(buffer),
        }
    }
}

/// A file that makes room.
pub(super) struct Retired {
    pub(super) number: u64,
    pub(super) file: Arc<File>,
    pub(super) used: Vec<(Key, Place)>,
    pub(super) removals: u64,
}

impl State {
    /// Bytes in use.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|segment| segment.bytes).sum()
    }

    /// Reads the heads of a file and enters them.
    pub(super) fn load(&mut self, number: u64, file: File) -> io::Result<()> {
        let length = file.metadata()?.len();
        let mut at = 0;
        self.files.push_back(Segment { number, file: Arc::new(file), bytes: 0, keys: Vec::new() });
        let mut head = [0; HEAD_BYTES];
        while at + HEAD_BYTES as u64 <= length {
            let Some(last) = self.files.back() else { break };
            last.file.read_exact_at(&mut head, at)?;
            // What follows a head that is none cannot be found.
            let Some(found) = Head::decode(&head) else { break };
            at += HEAD_BYTES as u64;
            match found {
                Head::Range(key, sum) => self.enter(key, Place { segment: number, at, sum, used: false }),
                Head::Removed(name) => self.index.retain(|key, _| key.name != name),
            }
            at += found.body_bytes();
        }
        if let Some(last) = self.files.back_mut() {
            last.bytes = at.max(length);
        }
        Ok(())
    }

    pub(super) fn enter(&mut self, key: Key, place: Place) {
        let Some(segment) = self.files.iter_mut().rev().find(|held| held.number == place.segment) else { return };
        segment.keys.push(key);
        self.index.insert(key, place);
    }

    /// Takes the oldest file out of the log.
    pub(super) fn retire(&mut self) -> Option<Retired> {
        let Segment { number, file, keys, .. } = self.files.pop_front()?;
        let mut used = Vec::new();
        for key in keys {
            if let Some(place) = self.index.get(&key).copied()
                && place.segment == number
            {
                self.index.remove(&key);
                used.extend(place.used.then_some((key, place)));
            }
        }
        Some(Retired { number, file, used, removals: self.removals })
    }
}
