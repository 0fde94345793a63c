//! Which files are open, and the handles that programs have on them.
//!
//! Both tables are in parts with a lock each, held for a look-up only: no request waits for another file's.

use crate::core::{Core, too_large};
use crate::errno::Answer;
use crate::file::OpenFile;
use fuser::Errno;
use holdfast_base::NodeId;
use holdfast_drive::{Durable, Entry};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Parts of a table: more than there are threads.
const PARTS: usize = 32;

/// A handle.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) file: Arc<OpenFile>,
    pub(crate) writes: bool,
    /// What a close was told last, and no sync since.
    unseen: Arc<Mutex<Option<Errno>>>,
}

impl Handle {
    pub(crate) fn new(file: Arc<OpenFile>, writes: bool) -> Self {
        Self { file, writes, unseen: Arc::default() }
    }

    /// Saves the file for a program that closes or syncs it. What a close was told of something that is over, the next sync is told again: it may have been the close of
    /// a copy of the descriptor in another process, where nobody heard it. Every program that is started has such copies until it begins.
    pub(crate) async fn save(&self, core: &Core, durable: Durable) -> Answer<()> {
        let saved = self.file.save_and_tell(core, durable).await.map_err(|error| too_large(&error));
        let mut unseen = self.unseen.lock();
        if durable == Durable::Now {
            return saved.and(unseen.take().map_or(Ok(()), Err));
        }
        *unseen = saved.err().filter(|_| self.file.is_saved()).or(*unseen);
        saved
    }
}

#[derive(Default)]
struct Slot {
    file: Option<Arc<OpenFile>>,
    users: usize,
}

fn part_of(number: u64) -> usize {
    usize::try_from(number % PARTS as u64).unwrap_or(0)
}

/// The tables.
pub(crate) struct Files {
    slots: [Mutex<HashMap<NodeId, Slot>>; PARTS],
    handles: [Mutex<HashMap<u64, Handle>>; PARTS],
    next: AtomicU64,
    open: AtomicUsize,
}

impl Files {
    pub(crate) fn new() -> Self {
        Self {
            slots: std::array::from_fn(|_| Mutex::default()),
            handles: std::array::from_fn(|_| Mutex::default()),
            next: AtomicU64::new(1),
            open: AtomicUsize::new(0),
        }
    }

    fn part(&self, id: NodeId) -> &Mutex<HashMap<NodeId, Slot>> {
        &self.slots[part_of(id.0.unsigned_abs())]
    }

    fn handle_part(&self, handle: u64) -> &Mutex<HashMap<u64, Handle>> {
        &self.handles[part_of(handle)]
    }

    /// The file, if anybody has it open.
    pub(crate) fn get(&self, id: NodeId) -> Option<Arc<OpenFile>> {
        if self.open.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.part(id).lock().get(&id).and_then(|slot| slot.file.clone())
    }

    /// Whether any file is open.
    pub(crate) fn any(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }

    /// Every open file.
    pub(crate) fn all(&self) -> Vec<Arc<OpenFile>> {
        let of_part = |part: &Mutex<HashMap<NodeId, Slot>>| -> Vec<_> {
            part.lock().values().filter_map(|slot| slot.file.clone()).collect()
        };
        self.slots.iter().flat_map(of_part).collect()
    }

    /// Uses a file, which is as `entry` says if nobody has it open; answers whether somebody has.
    pub(crate) fn take(&self, core: &Core, entry: &Entry) -> (Arc<OpenFile>, bool) {
        let id = entry.number();
        let mut part = self.part(id).lock();
        let slot = part.entry(id).or_default();
        slot.users += 1;
        let known = slot.file.is_some();
        let file = slot.file.get_or_insert_with(|| Arc::new(OpenFile::new(core, entry.clone()))).clone();
        if !known {
            self.open.fetch_add(1, Ordering::Release);
        }
        (file, known)
    }

    /// Gives a file back; true if nobody uses it any more.
    pub(crate) fn give(&self, id: NodeId) -> bool {
        let mut part = self.part(id).lock();
        let Some(slot) = part.get_mut(&id) else { return false };
        slot.users -= 1;
        if slot.users > 0 {
            return false;
        }
        part.remove(&id);
        self.open.fetch_sub(1, Ordering::Release);
        true
    }

    /// A number for a handle.
    pub(crate) fn add(&self, handle: Handle) -> u64 {
        if handle.writes {
            handle.file.writers.fetch_add(1, Ordering::AcqRel);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.handle_part(number).lock().insert(number, handle);
        number
    }

    /// The handle of a number.
    pub(crate) fn handle(&self, number: u64) -> Option<Handle> {
        self.handle_part(number).lock().get(&number).cloned()
    }

    /// Takes a handle away.
    pub(crate) fn remove(&self, number: u64) -> Option<Handle> {
        let handle = self.handle_part(number).lock().remove(&number)?;
        if handle.writes {
            handle.file.writers.fetch_sub(1, Ordering::AcqRel);
        }
        Some(handle)
    }
}
