//! The files of the cache: a log of entries, in files of equal size, and an index of them in memory.
//!
//! Writers take a place in the log under the lock, write outside it, and enter the index afterwards; readers take a file
//! and a place from the index and read outside it too. When the log is at its limit its oldest file goes: entries used
//! since they were written are written again at the end, for at most half a file, so that room is always gained.
//! A removed pack leaves a note in the log, so that its ranges do not come back with the next start.

use super::entry::{HEAD_BYTES, Head, Key};
use super::index::{FoundEntry, Place, Retired, Segment, State};
use holdfast_base::{Error, ErrorKind, PackName, Result};
use parking_lot::Mutex;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// How large the cache may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes on the disk, heads included.
    pub bytes_max: u64,
}

/// The smallest cache: below it a few blocks would fill a file.
pub const CACHE_BYTES_MIN: u64 = 32 << 20;

/// The log has this many files, so that a sixteenth of the cache goes at a time.
const FILES: u64 = 16;

/// Entries in the index. Each takes some 100 bytes of memory, so this is about 50 MiB; a cache of 500 GiB of blocks of 1 MiB
/// has as many.
const ENTRIES_MAX: usize = 500_000;

impl Default for CacheOptions {
    /// 10 GiB: small beside any disk bought today, and a working set of ten thousand blocks.
    fn default() -> Self {
        Self { bytes_max: 10 << 30 }
    }
}

/// The log.
#[derive(Debug)]
pub(super) struct Log {
    folder: PathBuf,
    file_bytes: u64,
    state: Mutex<State>,
    /// Held for as long as the cache is open.
    _lock: File,
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::unavailable(format!("the read cache, {doing}")).with_source(format!("{}: {error}", path.display()))
}

impl Log {
    /// Opens the log and reads the heads of its entries.
    pub(super) fn open(folder: &Path, options: CacheOptions) -> Result<Self> {
        if options.bytes_max < CACHE_BYTES_MIN {
            return Err(Error::invalid(format!("a read cache takes at least {} MiB", CACHE_BYTES_MIN >> 20)));
        }
        // Nobody but the drive's own user has business with packs, sealed or not.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| failed("making its folder", folder, &error))?;
        let log = Self {
            folder: folder.to_owned(),
            file_bytes: options.bytes_max / FILES,
            state: Mutex::default(),
            _lock: lock(folder)?,
        };
        log.load().map_err(|error| failed("reading what it has", folder, &error))?;
        Ok(log)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:016x}.cache"))
    }

    fn load(&self) -> io::Result<()> {
        let mut numbers = Vec::new();
        for found in std::fs::read_dir(&self.folder)? {
            let name = found?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".cache"));
            numbers.extend(number.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
        }
        numbers.sort_unstable();
        let mut state = self.state.lock();
        for number in numbers {
            let file = OpenOptions::new().read(true).write(true).open(self.path(number))?;
            state.load(number, file)?;
            state.next_number = number + 1;
        }
        // The limit may have been larger before.
        while state.files.len() as u64 > FILES || state.bytes() > self.file_bytes * FILES {
            let Some(retired) = state.retire() else { break };
            std::fs::remove_file(self.path(retired.number))?;
        }
        Ok(())
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> u64 {
        self.state.lock().bytes()
    }

    /// A count that changes when a pack is removed; shown when a range is put in.
    pub(super) fn removals(&self) -> u64 {
        self.state.lock().removals
    }

    /// The entry of a range, if there is one.
    pub(super) fn find(&self, key: Key) -> Option<FoundEntry> {
        let mut state = self.state.lock();
        let place = state.index.get_mut(&key)?;
        place.used = true;
        let (segment, at, sum) = (place.segment, place.at, place.sum);
        let file = state.files.iter().find(|held| held.number == segment).map(|held| Arc::clone(&held.file))?;
        Some(FoundEntry { file, at, len: key.len, sum })
    }

    /// Forgets one range.
    pub(super) fn drop_entry(&self, key: Key) {
        self.state.lock().index.remove(&key);
    }

    /// Forgets a pack, for good.
    pub(super) fn forget(&self, name: PackName) {
        let known = {
            let mut state = self.state.lock();
            state.removals += 1;
            let first = Key { name, offset: 0, len: 0 };
            let last = Key { name, offset: u64::MAX, len: u32::MAX };
            let keys: Vec<Key> = state.index.range(first..=last).map(|(key, _)| *key).collect();
            for key in &keys {
                state.index.remove(key);
            }
            !keys.is_empty()
        };
        if known && let Err(error) = self.append(Head::Removed(name), &[]) {
            tracing::warn!(?error, "the read cache could not note that a pack was removed");
        }
    }

    /// Keeps a range that was read when [`Self::removals`] was `before`. Blocks for as long as writing it takes.
    pub(super) fn insert(&self, key: Key, bytes: &[u8], before: u64) -> Result<()> {
        if HEAD_BYTES as u64 + bytes.len() as u64 > self.file_bytes {
            return Ok(());
        }
        let sum = xxh3_64(bytes);
        let (segment, at) = self.append(Head::Range(key, sum), bytes)?;
        let mut state = self.state.lock();
        // A pack removed meanwhile stays removed, even if this was not the one.
        if state.removals == before {
            state.enter(key, Place { segment, at, sum, used: false });
        }
        Ok(())
    }

    /// Writes an entry and answers in which file and where its bytes are.
    fn append(&self, head: Head, bytes: &[u8]) -> Result<(u64, u64)> {
        let (number, file, at) = self.take_place(HEAD_BYTES as u64 + bytes.len() as u64)?;
        let written = file.write_all_at(bytes, at + HEAD_BYTES as u64);
        // The head last: what a crash cuts off is then no entry more often than a damaged one.
        let written = written.and_then(|()| file.write_all_at(&head.encode(), at));
        written.map_err(|error| failed("writing", &self.path(number), &error))?;
        Ok((number, at + HEAD_BYTES as u64))
    }

    /// Takes `bytes` bytes at the end of the log, which may move its beginning.
    fn take_place(&self, bytes: u64) -> Result<(u64, Arc<File>, u64)> {
        loop {
            let mut state = self.state.lock();
            let full = state.index.len() >= ENTRIES_MAX;
            if let Some(last) = state.files.back_mut()
                && last.bytes + bytes <= self.file_bytes
                && !full
            {
                let at = last.bytes;
                last.bytes += bytes;
                return Ok((last.number, Arc::clone(&last.file), at));
            }
            let no_room =
                state.files.len() as u64 >= FILES || state.bytes() + self.file_bytes > self.file_bytes * FILES;
            let oldest = if no_room || full { state.retire() } else { None };
            let number = state.next_number;
            state.next_number += 1;
            let path = self.path(number);
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
            let file = Arc::new(file.map_err(|error| failed("making a file", &path, &error))?);
            state.files.push_back(Segment { number, file, bytes: 0, keys: Vec::new() });
            drop(state);
            if let Some(oldest) = oldest {
                self.rescue(oldest);
            }
        }
    }

    /// Removes a file, after what was used of it is written again.
    fn rescue(&self, retired: Retired) {
        let mut budget = self.file_bytes / 2;
        for (key, place) in retired.used {
            let entry = FoundEntry { file: Arc::clone(&retired.file), at: place.at, len: key.len, sum: place.sum };
            let cost = HEAD_BYTES as u64 + u64::from(key.len);
            if cost > budget {
                break;
            }
            budget -= cost;
            if let Ok(bytes) = entry.read(Vec::new())
                && let Err(error) = self.insert(key, &bytes, retired.removals)
            {
                tracing::warn!(?error, "the read cache could not keep what is in use");
                break;
            }
        }
        if let Err(error) = std::fs::remove_file(self.path(retired.number)) {
            tracing::warn!(%error, "the read cache could not remove a file");
        }
    }
}

/// Makes sure that no other process uses the folder.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(|error| failed("making its lock", &path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = format!("the read cache in {} is used by another process", folder.display());
            Err(Error::new(ErrorKind::Conflict, message))
        }
        Err(TryLockError::Error(error)) => Err(failed("locking it", &path, &error)),
    }
}
