//! A cache on the disk: sealed blocks and what is needed to read them, with a bound in bytes.
//!
//! **What is in it.** Blocks as the store has them, by their keyed ids ([`Name`]); what the catalogue knows of contents and their manifests, and folders as they
//! were last, sealed with the space's key under their names. Nothing opens without that key, which is not in the folder: it comes from the server, or from
//! `identity` there, and is opened by the app token's secret either way.
//!
//! **What is believed.** Nothing but what opens under its own name: what was torn, flipped, cut off, swapped or put there by somebody else does not, is
//! removed, and is fetched anew. A block's id is of what is in it, so none can be out of date.
//!
//! **How much.** Files in units of a disk's blocks, [`Options::bytes_max`] at most with what is being written; [`queue`] says what goes first. A disk that is
//! full, or has less than [`LEFT_BYTES`] left, ends keeping and nothing else: it is said once, until something can be kept again.
//!
//! Everything here waits for the disk, so it is called where that may be.

mod name;
mod queue;
mod shelf;

pub(super) use name::Name;
pub(super) use shelf::note;

use super::keys::Sealing;
use crate::wire::{self, Value};
use bytes::Bytes;
use holdfast_base::{BlockId, ContentId, Result};
use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use queue::Queue;
use shelf::{Shelf, taken};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Semaphore;

/// Things that may wait to be written; what comes while as many do is not kept. Of records of 1 MiB that is 16 MiB.
const WRITES_MAX: usize = 16;
/// Things in a cache at most: some 150 bytes of memory each.
const THINGS_MAX: usize = 500_000;
/// Of the room, pinned things have so much at most, in hundredths: the rest goes on serving what is read beside them.
const PINNED_SHARE: u64 = 90;
/// What a cache leaves of its disk: the journal of answered changes and the spool of their content may lie there as well, and take 256 MiB each and little more.
const LEFT_BYTES: u64 = 576 << 20;

/// Where a cache is, and how large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Its folder, which is made if it is missing.
    pub folder: PathBuf,
    /// Bytes on the disk at most.
    pub bytes_max: u64,
}

/// Reads a file's name, which is written as it was read.
pub(super) fn read_name(text: &str) {
    if let Some(name) = Name::parse(text) {
        assert_eq!(name.to_string(), text);
    }
}

/// What became of something that was to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// It is there.
    Yes,
    /// What is pinned leaves no room for it.
    NoRoom,
    /// The disk did not take it.
    Failed,
}

pub(super) struct Disk {
    shelf: Shelf,
    sealing: Arc<Sealing>,
    state: Mutex<State>,
    bytes_max: u64,
    left_bytes: u64,
    writes: Arc<Semaphore>,
    counters: Counters,
    /// Why nothing could be kept lately.
    trouble: Mutex<Option<String>>,
}

struct State {
    queue: Queue,
    /// Bytes that are being written.
    writing: u64,
}

/// What a cache did, for its mount and for metrics.
struct Counters {
    hits: Count,
    misses: Count,
    hit_bytes: Count,
    evicted: Count,
    damaged: Count,
    skipped: Count,
    bytes: Gauge,
    pinned_bytes: Gauge,
}

struct Count(AtomicU64, Counter);

impl Count {
    fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
        self.1.increment(count);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    fn new() -> Self {
        let count = |counter| Count(AtomicU64::new(0), counter);
        metrics::describe_counter!("holdfast_mount_cache_hits_total", "Blocks read from the cache on the disk");
        metrics::describe_counter!("holdfast_mount_cache_misses_total", "Blocks that were not in it");
        metrics::describe_counter!("holdfast_mount_cache_hit_bytes_total", "Bytes of files read from it");
        metrics::describe_counter!("holdfast_mount_cache_evicted_total", "Things that went because there was no room");
        metrics::describe_counter!("holdfast_mount_cache_damaged_total", "Things that did not open and were dropped");
        metrics::describe_counter!("holdfast_mount_cache_skipped_total", "Things that were not kept");
        metrics::describe_gauge!("holdfast_mount_cache_bytes", "Bytes it takes on the disk");
        metrics::describe_gauge!("holdfast_mount_cache_pinned_bytes", "Bytes of those that are pinned");
        Self {
            hits: count(metrics::counter!("holdfast_mount_cache_hits_total")),
            misses: count(metrics::counter!("holdfast_mount_cache_misses_total")),
            hit_bytes: count(metrics::counter!("holdfast_mount_cache_hit_bytes_total")),
            evicted: count(metrics::counter!("holdfast_mount_cache_evicted_total")),
            damaged: count(metrics::counter!("holdfast_mount_cache_damaged_total")),
            skipped: count(metrics::counter!("holdfast_mount_cache_skipped_total")),
            bytes: metrics::gauge!("holdfast_mount_cache_bytes"),
            pinned_bytes: metrics::gauge!("holdfast_mount_cache_pinned_bytes"),
        }
    }
}

impl Disk {
    /// Opens a cache.
    pub(super) fn open(options: &Options, sealing: Arc<Sealing>) -> Result<Self> {
        Self::open_with(&options.folder, options.bytes_max, LEFT_BYTES, sealing)
    }

    fn open_with(folder: &Path, bytes_max: u64, left_bytes: u64, sealing: Arc<Sealing>) -> Result<Self> {
        let (shelf, found) = Shelf::open(folder)?;
        let mut queue = Queue::new(bytes_max);
        for found in found {
            queue.add(found.name, found.bytes, found.pinned, true);
        }
        let disk = Self {
            shelf,
            sealing,
            state: Mutex::new(State { queue, writing: 0 }),
            bytes_max,
            left_bytes,
            writes: Arc::new(Semaphore::new(WRITES_MAX)),
            counters: Counters::new(),
            trouble: Mutex::default(),
        };
        // The bound may be another than it was.
        disk.make_room(0);
        Ok(disk)
    }

    pub(super) fn sealing(&self) -> &Arc<Sealing> {
        &self.sealing
    }

    /// A block, if it is here and is what it is said to be.
    pub(super) fn block(&self, id: BlockId) -> Option<Bytes> {
        let found = self.open_block(id);
        match &found {
            Some(plain) => {
                self.counters.hits.add(1);
                self.counters.hit_bytes.add(plain.len() as u64);
            }
            None => self.counters.misses.add(1),
        }
        found
    }

    /// The same, without its being counted.
    pub(super) fn open_block(&self, id: BlockId) -> Option<Bytes> {
        let name = Name::Block(id);
        let record = self.read(name)?;
        let opened = self.sealing.open_block(id, record.into());
        opened.inspect_err(|_| self.drop_damaged(name)).ok()
    }

    /// What is kept by a name, if it is here and opens.
    pub(super) fn find<T: Value>(&self, name: Name) -> Option<T> {
        let sealed = self.read(name)?;
        let opened = self.sealing.open_kept(&name.to_string(), sealed).and_then(|plain| wire::message(&plain));
        opened.inspect_err(|_| self.drop_damaged(name)).ok()
    }

    /// Keeps a block's record, which was opened.
    pub(super) fn keep_block(&self, id: BlockId, record: &[u8], pinned: bool) -> Kept {
        self.put(Name::Block(id), record, pinned)
    }

    /// Keeps something by its name.
    pub(super) fn keep<T: Value>(&self, name: Name, what: &T, pinned: bool) -> Kept {
        let plain = wire::encode(what);
        match self.sealing.seal_kept(&name.to_string(), &plain) {
            Ok(Some(sealed)) => self.put(name, &sealed, pinned),
            // Of a folder with very many members.
            Ok(None) => Kept::NoRoom,
            Err(error) => self.fails(&error.to_string()),
        }
    }

    /// Keeps something, which nobody waits for, unless the disk has fallen behind.
    pub(super) fn later(self: &Arc<Self>, work: impl FnOnce(&Self) -> Kept + Send + 'static) {
        let Ok(place) = self.writes.clone().try_acquire_owned() else {
            self.counters.skipped.add(1);
            return;
        };
        let disk = self.clone();
        drop(tokio::task::spawn_blocking(move || {
            work(&disk);
            drop(place);
        }));
    }

    pub(super) fn has(&self, name: Name) -> bool {
        self.state.lock().queue.find(name).is_some()
    }

    /// Whether all of these are here and stay.
    pub(super) fn are_pinned(&self, names: &[Name]) -> bool {
        let state = self.state.lock();
        names.iter().all(|name| state.queue.find(*name) == Some(true))
    }

    /// Has something stay, or lets it go. Answers whether it is here.
    pub(super) fn pin(&self, name: Name, pinned: bool) -> Kept {
        let mut state = self.state.lock();
        match state.queue.find(name) {
            Some(is) if is == pinned => return Kept::Yes,
            Some(_) => {}
            None => return Kept::Failed,
        }
        // Under the lock, so that nobody looks for it where it is not any more.
        if self.shelf.pin(name, pinned).is_err() {
            state.queue.remove(name);
            return Kept::Failed;
        }
        state.queue.pin(name, pinned);
        if pinned && state.queue.pinned_bytes() > self.pinned_max() {
            let _ = self.shelf.pin(name, false);
            state.queue.pin(name, false);
            return Kept::NoRoom;
        }
        self.shows(&state);
        Kept::Yes
    }

    /// Lets go of something at once; of what is pinned only if that is said.
    pub(super) fn forget(&self, name: Name, pinned_too: bool) {
        let mut state = self.state.lock();
        if let Some(pinned) = state.queue.find(name).filter(|pinned| pinned_too || !pinned) {
            state.queue.remove(name);
            self.shows(&state);
            drop(state);
            let _ = self.shelf.remove(name, pinned);
        }
    }

    /// All that is here, and whether it is pinned.
    pub(super) fn names(&self) -> Vec<(Name, bool)> {
        self.state.lock().queue.names().collect()
    }

    /// The contents that are known, the greatest number first.
    pub(super) fn contents(&self) -> Vec<ContentId> {
        let number = |(name, _)| match name {
            Name::Content(content) => Some(content),
            _ => None,
        };
        let mut all: Vec<ContentId> = self.names().into_iter().filter_map(number).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all
    }

    /// A sealed file beside the things, if it is there and opens.
    pub(super) fn note<T: Value>(&self, name: &str) -> Result<Option<T>> {
        let Some(sealed) = self.shelf.note(name)? else { return Ok(None) };
        let opened = self.sealing.open_kept(name, sealed).and_then(|plain| wire::message(&plain));
        opened.map(Some).inspect_err(|_| self.shelf.damaged_note(name))
    }

    /// Writes such a file; it is on disk when this answers.
    pub(super) fn write_note<T: Value>(&self, name: &str, what: &T) -> Result<()> {
        let sealed = self.sealing.seal_kept(name, &wire::encode(what))?;
        let sealed = sealed
            .ok_or_else(|| holdfast_base::Error::new(holdfast_base::ErrorKind::TooLarge, "there are too many pins"))?;
        Ok(self.shelf.write_note(name, &sealed)?)
    }

    /// Writes a file beside the things as it is.
    pub(super) fn write_plain_note(&self, name: &str, bytes: &[u8]) -> Result<()> {
        Ok(self.shelf.write_note(name, bytes)?)
    }

    /// How it does, but for what is pinned by whom.
    pub(super) fn condition(&self) -> holdfast_drive::DiskCache {
        let (bytes, pinned_bytes, things) = {
            let state = self.state.lock();
            (state.queue.bytes(), state.queue.pinned_bytes(), state.queue.len() as u64)
        };
        holdfast_drive::DiskCache {
            folder: self.shelf.folder().display().to_string(),
            bytes,
            bytes_max: self.bytes_max,
            pinned_bytes,
            things,
            hits: self.counters.hits.get(),
            misses: self.counters.misses.get(),
            hit_bytes: self.counters.hit_bytes.get(),
            evicted: self.counters.evicted.get(),
            damaged: self.counters.damaged.get(),
            skipped: self.counters.skipped.get(),
            trouble: self.trouble.lock().clone(),
            pins: Vec::new(),
        }
    }

    const fn pinned_max(&self) -> u64 {
        self.bytes_max / 100 * PINNED_SHARE
    }

    fn read(&self, name: Name) -> Option<Vec<u8>> {
        // What is pinned or let go meanwhile lies elsewhere.
        for _ in 0..2 {
            let pinned = {
                let mut state = self.state.lock();
                let pinned = state.queue.find(name)?;
                state.queue.hit(name);
                pinned
            };
            match self.shelf.read(name, pinned) {
                Ok(bytes) => return Some(bytes),
                Err(_) if self.state.lock().queue.find(name) == Some(!pinned) => {}
                Err(error) => {
                    tracing::debug!(%error, %name, "a file of the cache cannot be read");
                    self.drop_damaged(name);
                    return None;
                }
            }
        }
        None
    }

    fn drop_damaged(&self, name: Name) {
        // The first says it; a disk that went bad would say nothing else any more.
        if self.counters.damaged.get() == 0 {
            tracing::warn!(%name, "a file of the cache is damaged, and is fetched again; more of them are only counted");
        } else {
            tracing::debug!(%name, "a file of the cache is damaged");
        }
        self.counters.damaged.add(1);
        self.forget(name, true);
    }

    /// Makes room for so many bytes. Answers whether there is.
    fn make_room(&self, bytes: u64) -> bool {
        let mut gone = Vec::new();
        let mut state = self.state.lock();
        let is_room = loop {
            let taken = state.queue.bytes() + state.writing + bytes;
            if taken <= self.bytes_max && state.queue.len() < THINGS_MAX {
                break true;
            }
            match state.queue.next_out() {
                Some(name) => gone.push(name),
                None => break false,
            }
        };
        if is_room {
            state.writing += bytes;
        }
        drop(state);
        self.evict(gone);
        is_room
    }

    fn evict(&self, gone: Vec<Name>) {
        self.counters.evicted.add(gone.len() as u64);
        for name in gone {
            if let Err(error) = self.shelf.remove(name, false) {
                tracing::debug!(%error, %name, "a file of the cache could not be removed");
            }
        }
    }

    /// Gives up so much that the disk has left what is to be left of it, if that is possible.
    fn leave_room(&self, bytes: u64) -> std::io::Result<bool> {
        let wanted = self.left_bytes + bytes;
        let mut free = self.shelf.free_bytes()?;
        while free < wanted {
            let Some(name) = self.state.lock().queue.next_out() else { return Ok(false) };
            self.evict(vec![name]);
            free = self.shelf.free_bytes()?;
        }
        Ok(true)
    }

    fn put(&self, name: Name, bytes: &[u8], pinned: bool) -> Kept {
        let room = taken(bytes.len() as u64);
        {
            let state = self.state.lock();
            let is_pinned = state.queue.find(name) == Some(true);
            if pinned && !is_pinned && state.queue.pinned_bytes() + room > self.pinned_max() {
                return Kept::NoRoom;
            }
        }
        if !self.make_room(room) {
            self.counters.skipped.add(1);
            return Kept::NoRoom;
        }
        let kept = self.put_file(name, bytes, pinned);
        self.state.lock().writing -= room;
        kept
    }

    fn put_file(&self, name: Name, bytes: &[u8], pinned: bool) -> Kept {
        match self.leave_room(bytes.len() as u64) {
            Ok(true) => {}
            Ok(false) => return self.fails("its disk is nearly full"),
            Err(error) => return self.fails(&error.to_string()),
        }
        // What is pinned stays so, whoever keeps it anew.
        let pinned = pinned || self.state.lock().queue.find(name) == Some(true);
        if let Err(error) = self.shelf.write(name, pinned, bytes) {
            return self.fails(&error.to_string());
        }
        let mut state = self.state.lock();
        let was = state.queue.find(name);
        state.queue.add(name, taken(bytes.len() as u64), pinned, false);
        self.shows(&state);
        drop(state);
        if was == Some(!pinned) {
            let _ = self.shelf.remove(name, !pinned);
        }
        if self.trouble.lock().take().is_some() {
            tracing::info!(folder = %self.shelf.folder().display(), "the cache keeps what is read again");
        }
        Kept::Yes
    }

    /// Says it once, until something can be kept again.
    fn fails(&self, why: &str) -> Kept {
        self.counters.skipped.add(1);
        let mut trouble = self.trouble.lock();
        if trouble.is_none() {
            tracing::warn!(folder = %self.shelf.folder().display(), why, "the cache cannot keep what is read; reading goes on");
        }
        *trouble = Some(why.to_owned());
        Kept::Failed
    }

    fn shows(&self, state: &State) {
        self.counters.bytes.set(state.queue.bytes() as f64);
        self.counters.pinned_bytes.set(state.queue.pinned_bytes() as f64);
    }
}

#[cfg(test)]
mod tests;
