//! Reading exactly so many bytes of a pack, from the page cache if they are there and from the disk if not.
//!
//! `preadv2` with `RWF_NOWAIT` copies what the page cache holds and answers `EAGAIN` where it would have to wait, so it
//! may run on a thread that must not block: a hit costs the copy (about 0.1 ms for 1 MiB) and no change of thread. What
//! is missing after it is read on a blocking thread.
//!
//! The kernel writes to initialised memory only, as far as safe Rust can tell. So that this costs nothing in the steady
//! state, a buffer that comes back is taken with the length it has: only bytes it never had are filled. Do not clear
//! pooled buffers.

use super::failed;
use super::layout::Layout;
use super::open_files::OpenFiles;
use holdfast_base::{Error, PackName, Result};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The largest offset a file can have: `off_t` has a sign.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// A buffer being filled from a place in a pack.
#[derive(Debug)]
pub(super) struct Target {
    buffer: Vec<u8>,
    filled: usize,
    offset: u64,
}

impl Target {
    /// Prepares `buffer` for `len` bytes from `offset` of the pack. A place no file can have means a damaged reference.
    pub(super) fn new(name: PackName, offset: u64, len: usize, mut buffer: Vec<u8>) -> Result<Self> {
        if offset.checked_add(len as u64).is_none_or(|end| end > FILE_BYTES_MAX) {
            return Err(Error::damaged(format!("reading pack {name}: no pack has {len} bytes at offset {offset}")));
        }
        if buffer.capacity() < len {
            // Zeroed memory fresh from the system costs no fill, and the old content need not move.
            buffer = vec![0; len];
        } else {
            buffer.resize(len, 0);
        }
        Ok(Self { buffer, filled: 0, offset })
    }

    pub(super) fn is_full(&self) -> bool {
        self.filled == self.buffer.len()
    }

    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    fn rest(&mut self) -> (&mut [u8], u64) {
        (&mut self.buffer[self.filled..], self.offset + self.filled as u64)
    }
}

/// Reads from the page cache, for as long as the file system knows how.
#[derive(Debug, Default)]
pub(super) struct PageCacheReads {
    unsupported: AtomicBool,
}

impl PageCacheReads {
    /// Leaves every read to the blocking threads from now on.
    pub(super) fn give_up(&self) {
        self.unsupported.store(true, Ordering::Relaxed);
    }

    /// Fills as much of `target` as the page cache has. Errors are left to the read that follows.
    pub(super) fn fill(&self, file: &File, target: &mut Target) {
        while !target.is_full() && !self.unsupported.load(Ordering::Relaxed) {
            let (rest, offset) = target.rest();
            match preadv2(file, &mut [IoSliceMut::new(rest)], offset, ReadWriteFlags::NOWAIT) {
                Ok(0) => return,
                Ok(read) => target.filled += read,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.give_up(),
                Err(_) => return,
            }
        }
    }
}

/// Fills the rest of `target`, waiting for the disk. To be called where waiting is allowed.
pub(super) fn fill_from_disk(
    layout: &Layout,
    open_files: &OpenFiles,
    name: PackName,
    mut target: Target,
) -> Result<Vec<u8>> {
    let failed = |error| failed("reading", name, &layout.pack(name), error);
    let file = match open_files.get(name) {
        Some(file) => file,
        None => open(layout, open_files, name).map_err(failed)?,
    };
    while !target.is_full() {
        let (rest, offset) = target.rest();
        match file.read_at(rest, offset) {
            Ok(0) => return Err(too_short(name, &target)),
            Ok(read) => target.filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(target.into_buffer())
}

fn open(layout: &Layout, open_files: &OpenFiles, name: PackName) -> io::Result<Arc<File>> {
    let before = open_files.before_open();
    let file = Arc::new(File::open(layout.pack(name))?);
    open_files.keep(before, name, Arc::clone(&file));
    Ok(file)
}

fn too_short(name: PackName, target: &Target) -> Error {
    Error::damaged(format!(
        "reading pack {name}: it ends after {} of the {} bytes that should be at offset {}",
        target.filled,
        target.buffer.len(),
        target.offset
    ))
}
