//! The journal of a mount: files that are only ever appended to.
//!
//! A file begins with who it is (`HFMJ`, version, the journal's name) and goes on in frames ([`super::frame`]). At [`SEGMENT_BYTES`] another
//! is begun; one goes when the catalogue has all of it on disk. What is appended is in the system's cache when the call
//! returns: the end of the process does not undo it, a power cut may. Each start of a mount begins a journal of its own, so numbers a
//! power cut took from the files are not given to other changes.
//!
//! **What a power cut leaves.** What was not synced may be lost in any part of it. So a journal is read up to its first frame that is not whole and sound or has not
//! the next number; what comes behind that was answered later, and goes with it. What is not written here but went to the catalogue in the usual way leaves a
//! mark before the next change ([`Journal::after`]): where the catalogue has lost that, what follows goes as well (`left.rs`). So catalogue and journal
//! together are as they were at one moment. Marks say, too, how far the file was synced; what is missing of that was lost by the disk, so then the file is
//! kept under another name and the log says so. So it is where the machine has not gone down since: a journal's name says in which boot it was begun.

use super::frame::{self, Mark};
use holdfast_base::{Error, Result};
use holdfast_drive::Deferred;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// First bytes of a file: what it is, and the format's version. The first version had no marks, removals and renames, the second no content in
/// blocks; both are read as well.
pub(super) const MAGIC: [u8; 8] = *b"HFMJ\x03\0\0\0";
pub(super) const MAGICS_BEFORE: [[u8; 8]; 2] = [*b"HFMJ\x01\0\0\0", *b"HFMJ\x02\0\0\0"];
/// Bytes before the first frame.
pub(super) const HEADER_BYTES: u64 = 24;
/// A file is not appended to beyond this.
pub(super) const SEGMENT_BYTES: u64 = 16 << 20;
/// Bytes of a journal at most: at this, writers wait.
pub(super) const JOURNAL_BYTES_MAX: u64 = 256 << 20;
/// How its files are called, before their number.
const PREFIX: &str = "journal-";

/// A journal that is written.
pub(super) struct Journal {
    folder: PathBuf,
    id: [u8; 16],
    /// The next file's number.
    next_file: u64,
    /// Files that are full, oldest first, each with the last number in it.
    full: VecDeque<(PathBuf, u64, u64)>,
    path: PathBuf,
    file: File,
    written: u64,
    last: u64,
    /// What the next mark is to say, if there is to be one.
    mark: Option<Mark>,
    synced: u64,
    buffer: Vec<u8>,
}

impl Journal {
    /// Begins a journal in a folder, beside what is there.
    pub(super) fn begin(folder: &Path, id: [u8; 16]) -> Result<Self> {
        let next_file = files(folder)?.last().map_or(1, |(number, _)| number + 1);
        let (path, file) = new_file(folder, next_file, id)?;
        let (full, buffer) = (VecDeque::new(), Vec::new());
        let folder = folder.to_owned();
        Ok(Self {
            folder,
            id,
            next_file: next_file + 1,
            full,
            path,
            file,
            written: HEADER_BYTES,
            last: 0,
            mark: None,
            synced: 0,
            buffer,
        })
    }

    /// Its name.
    pub(super) const fn id(&self) -> [u8; 16] {
        self.id
    }

    /// The number of the last change.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Bytes on the disk.
    pub(super) fn bytes(&self) -> u64 {
        self.written + self.full.iter().map(|(_, _, bytes)| bytes).sum::<u64>()
    }

    /// Something was answered that is not in here: with it, the space has changed so many times.
    pub(super) fn after(&mut self, seq: i64) {
        let mark = self.mark.get_or_insert_default();
        mark.seq = mark.seq.max(Some(seq));
    }

    /// Appends a change and answers its number. When it returns, the end of this process does not undo it; if it fails, it was not made.
    pub(super) fn append(&mut self, change: &Deferred) -> Result<u64> {
        if self.written >= SEGMENT_BYTES {
            let (path, file) = new_file(&self.folder, self.next_file, self.id)?;
            self.next_file += 1;
            self.file = file;
            self.full.push_back((std::mem::replace(&mut self.path, path), self.last, self.written));
            self.written = HEADER_BYTES;
        }
        let number = self.last + 1;
        self.buffer.clear();
        if let Some(mark) = self.mark {
            frame::write_mark(&mut self.buffer, self.last, Mark { synced: self.synced, ..mark })?;
        }
        frame::write(&mut self.buffer, number, change)?;
        if let Err(error) = self.file.write_all_at(&self.buffer, self.written) {
            // A half-written frame ends the journal for whoever reads it, and the next one is written over it.
            let _ = self.file.set_len(self.written);
            return Err(Error::from(error).context("the mount's journal"));
        }
        self.written += self.buffer.len() as u64;
        self.last = number;
        self.mark = None;
        Ok(number)
    }

    /// Has everything on disk.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.full.iter().try_for_each(|(path, _, _)| File::open(path)?.sync_data())?;
        self.file.sync_data()?;
        self.synced = self.last;
        self.mark.get_or_insert_default();
        Ok(())
    }

    /// Forgets what the catalogue has on disk: all changes up to this number.
    pub(super) fn retire(&mut self, number: u64) -> Result<()> {
        while let Some((path, last, _)) = self.full.front()
            && *last <= number
        {
            fs::remove_file(path)?;
            self.full.pop_front();
        }
        if self.last <= number && self.written > HEADER_BYTES {
            self.file.set_len(HEADER_BYTES)?;
            self.written = HEADER_BYTES;
        }
        Ok(())
    }
}

/// A name for a journal, which no other has in its catalogue: the first of the numbers that its mount has, this boot, and the time.
pub(super) fn name_of(numbers: &Range<i64>) -> [u8; 16] {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&numbers.start.to_le_bytes());
    name[8..].copy_from_slice(&crate::attributes::now_ns().to_be_bytes());
    if let Some(boot) = this_boot() {
        name[8..12].copy_from_slice(&boot);
    }
    name
}

/// Whether the machine has not gone down since a journal of this name was begun, as far as is known.
pub(super) fn is_of_this_boot(name: [u8; 16]) -> bool {
    this_boot().is_some_and(|boot| name[8..12] == boot)
}

/// What tells this boot of the machine from others (random(4)).
fn this_boot() -> Option<[u8; 4]> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u32::from_str_radix(id.get(..8)?, 16).ok().map(u32::to_be_bytes)
}

/// Files of journals by their numbers.
pub(super) fn files(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|number| number.parse().ok());
        found.extend(number.map(|number| (number, entry.path())));
    }
    found.sort_unstable();
    Ok(found)
}

fn new_file(folder: &Path, number: u64, id: [u8; 16]) -> Result<(PathBuf, File)> {
    let path = folder.join(format!("{PREFIX}{number:010}"));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(|error| Error::from(error).context(path.display()))?;
    let header = [MAGIC.as_slice(), &id].concat();
    file.write_all_at(&header, 0)?;
    // Its name is on disk before anything in it is asked to be.
    File::open(folder)?.sync_all()?;
    Ok((path, file))
}

#[cfg(test)]
impl Journal {
    /// The file that is written.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// As if the file were full.
    pub(super) fn fill(&mut self) {
        self.written = SEGMENT_BYTES;
    }

    /// Files that are full.
    pub(super) fn full(&self) -> usize {
        self.full.len()
    }
}
