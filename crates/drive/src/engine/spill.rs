//! A scratch file for blocks that arrive slowly: while a client's network has not brought a block, its bytes need not be in memory.
//!
//! The file is made when it is first needed, in a folder only this process's user may enter, and unlinked at once: it has no name, and
//! goes when the process ends, however it ends. It is cut into *slots* of one block; a slot takes the pieces of one block as they
//! come, encrypted under a key that is nowhere but in memory ([`AsideCipher`]), and is read back once, when the block is whole.
//! A slot given back returns its bytes to the disk; when the last is given back the file is closed.
//!
//! What an upload whose block is set aside has in memory: [`SetAside`], a key and a hash state, 2 KiB.
//!
//! Limits: [`SLOTS_MAX`] blocks, so 4 GiB of disk. A full disk fails the upload that met it and no other.

use super::budget::{Buffer, Uploads, share_bytes};
use super::workers::{INLINE_BYTES_MAX, Workers};
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{BlockId, Error, ErrorKind, Result};
use holdfast_seal::BlockKeys;
use holdfast_seal::aside::{AsideCipher, IdHasher};
use holdfast_seal::block::RECORD_PREFIX_BYTES;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// Slots at most: as many as the requests that a server lets run by default.
const SLOTS_MAX: u32 = 4_096;
/// Pieces that are encrypted and written at once. They are copied to memory (the page cache) and seldom wait for the disk; a few at a time
/// keep their buffers from adding up.
const WRITES_AT_ONCE: usize = 4;
/// Bytes of a slot: a block, plain or as a record, in whole pages.
const SLOT_BYTES: usize = BLOCK_BYTES + 4_096;

/// The file. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Spill(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    slots: Mutex<Slots>,
    /// Bytes in the slots in use.
    written: AtomicU64,
    writes: Semaphore,
}

#[derive(Default)]
struct Slots {
    /// None while no slot is in use.
    file: Option<Arc<File>>,
    used: u32,
    /// Slots below `end` that are free, the lowest taken first.
    free: BTreeSet<u32>,
    end: u32,
}

/// A slot in use.
struct Slot {
    spill: Spill,
    file: Arc<File>,
    number: u32,
}

/// A block, or the beginning of one, in the file.
pub(crate) struct SetAside {
    slot: Slot,
    cipher: AsideCipher,
    hasher: IdHasher,
    bytes: usize,
}

impl Spill {
    /// A file in `folder`, which is made when it is needed.
    pub(crate) fn new(folder: PathBuf) -> Self {
        let (slots, written) = (Mutex::default(), AtomicU64::new(0));
        Self(Arc::new(Inner { folder, slots, written, writes: Semaphore::new(WRITES_AT_ONCE) }))
    }

    /// Begins to set a block of the space with these keys aside.
    pub(crate) async fn begin(&self, keys: &BlockKeys) -> Result<SetAside> {
        let spill = self.clone();
        let slot = blocking(move || spill.slot()).await?;
        metrics::counter!("holdfast_blocks_set_aside_total").increment(1);
        Ok(SetAside { slot, cipher: AsideCipher::new()?, hasher: keys.id_hasher(), bytes: 0 })
    }

    /// Bytes that may still be written to the slots in use.
    pub(crate) fn bytes_to_come(&self) -> u64 {
        let all = u64::from(self.slots().used) * SLOT_BYTES as u64;
        all.saturating_sub(self.0.written.load(Ordering::Relaxed))
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // Nothing panics while it holds the lock; if something did, the slots are still sound between two statements.
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lowest free slot.
    fn slot(&self) -> Result<Slot> {
        let mut slots = self.slots();
        if slots.used == SLOTS_MAX {
            return Err(Error::unavailable("too many uploads arrive too slowly at once; try again later"));
        }
        let file = match &slots.file {
            Some(file) => file.clone(),
            None => slots.file.insert(Arc::new(self.make()?)).clone(),
        };
        let number = slots.free.pop_first().unwrap_or(slots.end);
        slots.end = slots.end.max(number + 1);
        slots.used += 1;
        report(slots.used);
        Ok(Slot { spill: self.clone(), file, number })
    }

    fn make(&self) -> Result<File> {
        let folder = &self.0.folder;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.and_then(|()| tempfile::tempfile_in(folder)).map_err(|error| {
            Error::from(error).context(format!("making a scratch file in {} failed", folder.display()))
        })
    }

    /// Takes a slot back whose bytes were returned to the disk.
    fn give(&self, number: u32) {
        let mut slots = self.slots();
        slots.used -= 1;
        slots.free.insert(number);
        report(slots.used);
        if slots.used == 0 {
            // Closing it frees what is left of it.
            *slots = Slots::default();
        }
    }
}

fn report(slots: u32) {
    metrics::gauge!("holdfast_set_aside_slots").set(f64::from(slots));
}

impl Slot {
    fn offset(&self) -> u64 {
        offset(self.number)
    }
}

fn offset(slot: u32) -> u64 {
    u64::from(slot) * SLOT_BYTES as u64
}

/// Gives a slot's bytes back to the disk, and with them what the kernel has not yet written of them.
fn punch(file: &File, slot: u32) {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // A file system that cannot do this keeps them until the slot is used again or the file is closed.
    let _ = fallocate(file, flags, offset(slot), SLOT_BYTES as u64);
}

impl Drop for Slot {
    fn drop(&mut self) {
        let (spill, file, number) = (self.spill.clone(), self.file.clone(), self.number);
        let give_back = move || {
            punch(&file, number);
            spill.give(number);
        };
        // The disk may be slow, and this may be a thread that serves others.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(give_back)),
            Err(_) => give_back(),
        }
    }
}

impl SetAside {
    /// Plaintext bytes so far.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a piece. If this is cancelled, the slot is given back when the write that is under way has ended.
    pub(crate) async fn append(mut self, piece: Bytes) -> Result<Self> {
        if piece.is_empty() {
            return Ok(self);
        }
        let spill = self.slot.spill.clone();
        let _turn = spill.0.writes.acquire().await.map_err(|_| Error::unavailable("the drive is stopping"))?;
        blocking(move || {
            self.write(&piece)?;
            Ok(self)
        })
        .await
    }

    /// Sets a whole buffer aside, which has room for a record's prefix before its plaintext.
    pub(crate) async fn append_buffer(mut self, buffer: Buffer) -> Result<Self> {
        let spill = self.slot.spill.clone();
        let _turn = spill.0.writes.acquire().await.map_err(|_| Error::unavailable("the drive is stopping"))?;
        blocking(move || {
            self.write(&buffer.bytes[RECORD_PREFIX_BYTES..])?;
            Ok(self)
        })
        .await
    }

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        if self.bytes + piece.len() > SLOT_BYTES {
            return Err(Error::internal("a block set aside is over its limit"));
        }
        let mut sealed = Vec::new();
        self.cipher.encrypt(piece, &mut sealed)?;
        self.hasher.update(piece);
        self.slot.file.write_all_at(&sealed, self.slot.offset() + self.bytes as u64).map_err(|error| {
            let error = Error::from(error);
            match error.kind() {
                ErrorKind::NoSpace => error.context("no room on the server's disk for an upload that arrives slowly"),
                _ => error.context("an upload that arrives slowly could not be set aside"),
            }
        })?;
        self.bytes += piece.len();
        self.slot.spill.0.written.fetch_add(piece.len() as u64, Ordering::Relaxed);
        metrics::counter!("holdfast_set_aside_bytes_total").increment(piece.len() as u64);
        Ok(())
    }

    /// Reads the block back into a working buffer (behind room for a record's prefix); answers it and the id it must have.
    pub(crate) async fn read_back(self, uploads: &Uploads, workers: &Workers) -> Result<(Buffer, BlockId)> {
        let plain_bytes = RECORD_PREFIX_BYTES + self.bytes;
        let hold = uploads.working.take(share_bytes(plain_bytes)).await;
        let mut buffer = uploads.pool.buffer(plain_bytes, hold);
        // It may have to wait for the disk, however little it is: not on the caller's thread.
        let work = plain_bytes.max(INLINE_BYTES_MAX + 1);
        workers
            .run(work, move |tools| {
                tools.spare.clear();
                tools.spare.resize(self.bytes, 0);
                self.slot.file.read_exact_at(&mut tools.spare, self.slot.offset()).map_err(|error| {
                    Error::from(error).context("an upload that was set aside could not be read back")
                })?;
                buffer.bytes.clear();
                buffer.bytes.resize(RECORD_PREFIX_BYTES, 0);
                self.cipher.decrypt(&tools.spare, &mut buffer.bytes)?;
                Ok((buffer, self.hasher.id()))
            })
            .await
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        self.slot.spill.0.written.fetch_sub(self.bytes as u64, Ordering::Relaxed);
    }
}

/// Runs what may wait for the disk on a thread for that.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::internal("a task was lost").with_source(error))?
}

#[cfg(test)]
mod tests;
