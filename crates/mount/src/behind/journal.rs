//! The journal of a mount: files that are only ever appended to.
//!
//! A file begins with who it is (`HFMJ`, version, the journal's name) and goes on in frames ([`super::frame`]). At [`SEGMENT_BYTES`] another
//! is begun; one goes when the catalogue has all of it on disk. What is appended is in the system's cache when the call
//! returns: the end of the process does not undo it, a power cut may. Each start of a mount begins a journal of its own, so numbers a
//! power cut took from the files are not given to other changes.
//!
//! A file is read up to its first frame that is not whole and sound. That is the end of what was answered, unless the disk lost something in the
//! middle: then the file is kept under another name, and the log says so.

use super::frame;
use holdfast_base::{Error, Result};
use holdfast_drive::Deferred;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// First bytes of a file: what it is, and the format's version.
const MAGIC: [u8; 8] = *b"HFMJ\x01\0\0\0";
/// Bytes before the first frame.
const HEADER_BYTES: u64 = 24;
/// A file is not appended to beyond this.
const SEGMENT_BYTES: u64 = 16 << 20;
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
    buffer: Vec<u8>,
}

/// What a mount before this left.
pub(super) struct Left {
    /// Its journal's name.
    pub(super) id: [u8; 16],
    pub(super) changes: Vec<(u64, Deferred)>,
    files: Vec<PathBuf>,
}

impl Left {
    /// Removes its files: everything in them is elsewhere.
    pub(super) fn remove(self) -> Result<()> {
        self.files.iter().try_for_each(fs::remove_file).map_err(Error::from)
    }
}

impl Journal {
    /// Begins a journal in a folder, beside what is there.
    pub(super) fn begin(folder: &Path, id: [u8; 16]) -> Result<Self> {
        let next_file = files(folder)?.last().map_or(1, |(number, _)| number + 1);
        let (path, file) = new_file(folder, next_file, id)?;
        let (full, buffer) = (VecDeque::new(), Vec::new());
        let folder = folder.to_owned();
        Ok(Self { folder, id, next_file: next_file + 1, full, path, file, written: HEADER_BYTES, last: 0, buffer })
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
        frame::write(&mut self.buffer, number, change)?;
        if let Err(error) = self.file.write_all_at(&self.buffer, self.written) {
            // A half-written frame ends the journal for whoever reads it, and the next one is written over it.
            let _ = self.file.set_len(self.written);
            return Err(Error::from(error).context("the mount's journal"));
        }
        self.written += self.buffer.len() as u64;
        self.last = number;
        Ok(number)
    }

    /// Has everything on disk.
    pub(super) fn sync(&self) -> Result<()> {
        self.full.iter().try_for_each(|(path, _, _)| File::open(path)?.sync_data())?;
        Ok(self.file.sync_data()?)
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

/// What mounts before this left in a folder, oldest first.
pub(super) fn left_in(folder: &Path) -> Result<Vec<Left>> {
    let mut all: Vec<Left> = Vec::new();
    for (_, path) in files(folder)? {
        let Some(part) = read(path)? else { continue };
        match all.last_mut().filter(|left| left.id == part.id) {
            Some(left) => {
                left.changes.extend(part.changes);
                left.files.extend(part.files);
            }
            None => all.push(part),
        }
    }
    Ok(all)
}

/// Reads one file. One that is nothing to us is set aside.
fn read(path: PathBuf) -> Result<Option<Left>> {
    let mut bytes = Vec::new();
    // One frame may go beyond a file's bound; what is longer was not written here.
    File::open(&path)?.take(2 * SEGMENT_BYTES).read_to_end(&mut bytes)?;
    let id = bytes.get(8..24).filter(|_| bytes.starts_with(&MAGIC)).and_then(|id| <[u8; 16]>::try_from(id).ok());
    let Some(id) = id else {
        if bytes.len() < 24 {
            // The machine went down while it was begun.
            fs::remove_file(&path)?;
        } else {
            set_aside(&path)?;
        }
        return Ok(None);
    };
    let mut rest = &bytes[24..];
    let mut changes = Vec::new();
    while let Some((number, change, length)) = frame::read(rest) {
        changes.push((number, change));
        rest = &rest[length..];
    }
    if !rest.is_empty() && (1..rest.len()).any(|at| frame::read(&rest[at..]).is_some()) {
        let bytes = rest.len();
        tracing::error!(file = %path.display(), bytes, "a part of the mount's journal is damaged: what comes after it is kept aside");
        let copy = path.with_extension("damaged");
        fs::copy(&path, &copy)?;
    }
    Ok(Some(Left { id, changes, files: vec![path] }))
}

fn set_aside(path: &Path) -> Result<()> {
    tracing::error!(file = %path.display(), "this is no journal of a mount that this program can read: it is set aside");
    Ok(fs::rename(path, path.with_extension("damaged"))?)
}

/// Files of journals by their numbers.
fn files(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
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
mod tests {
    use super::*;
    use holdfast_base::NodeId;
    use holdfast_drive::{NewAttributes, Posix};

    fn change(node: i64) -> Deferred {
        let change = NewAttributes { mode: Some(0o600), ..NewAttributes::default() };
        Deferred::Attributes { node: NodeId(node), change, usual: Posix::default() }
    }

    fn numbers(folder: &Path) -> Vec<Vec<u64>> {
        let left = left_in(folder).expect("reads");
        left.iter().map(|left| left.changes.iter().map(|(number, _)| *number).collect()).collect()
    }

    #[test]
    fn what_was_appended_is_there_and_a_torn_end_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = Journal::begin(folder.path(), [7; 16]).expect("begins");
        for node in 1..=3 {
            assert_eq!(journal.append(&change(node)).expect("appends"), node.unsigned_abs());
        }
        assert_eq!(numbers(folder.path()), [[1, 2, 3]]);
        let whole = fs::read(&journal.path).expect("reads");
        for cut in [1, 10, whole.len() / 4] {
            fs::write(&journal.path, &whole[..whole.len() - cut]).expect("writes");
            assert_eq!(numbers(folder.path()), [[1, 2]]);
        }
        let mut torn = whole.clone();
        let last = torn.len() - 5;
        torn[last] ^= 1;
        fs::write(&journal.path, &torn).expect("writes");
        assert_eq!(numbers(folder.path()), [[1, 2]]);
        assert!(!journal.path.with_extension("damaged").exists(), "that is how a journal ends");
        let middle = 24 + (whole.len() - 24) / 2;
        torn[middle] ^= 1;
        torn[last] ^= 1;
        fs::write(&journal.path, &torn).expect("writes");
        assert_eq!(numbers(folder.path()), [[1]]);
        assert!(journal.path.with_extension("damaged").exists(), "and that is not");
    }

    #[test]
    fn files_go_when_the_catalogue_has_what_is_in_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = Journal::begin(folder.path(), [7; 16]).expect("begins");
        journal.append(&change(1)).expect("appends");
        // As if it were full.
        journal.written = SEGMENT_BYTES;
        journal.append(&change(2)).expect("appends");
        journal.append(&change(3)).expect("appends");
        assert_eq!((files(folder.path()).expect("reads").len(), journal.full.len()), (2, 1));
        assert_eq!(numbers(folder.path()), [[1, 2, 3]]);
        journal.retire(2).expect("retires");
        assert_eq!(numbers(folder.path()), [[2, 3]], "what is not done stays");
        journal.retire(3).expect("retires");
        assert!(numbers(folder.path()).concat().is_empty());
        assert_eq!(journal.bytes(), HEADER_BYTES);
        assert_eq!(journal.append(&change(4)).expect("appends"), 4);
        drop(journal);
        let mut next = Journal::begin(folder.path(), [8; 16]).expect("begins");
        next.append(&change(1)).expect("appends");
        let mut left = left_in(folder.path()).expect("reads");
        assert_eq!(left.iter().map(|left| (left.id[0], left.changes.len())).collect::<Vec<_>>(), [(7, 1), (8, 1)]);
        left.remove(0).remove().expect("removes");
        assert_eq!(numbers(folder.path()), [[1]]);
        fs::write(folder.path().join("journal-0000000099"), "something else, and long enough").expect("writes");
        assert_eq!(numbers(folder.path()), [[1]]);
        assert!(folder.path().join("journal-0000000099.damaged").exists());
    }
}
