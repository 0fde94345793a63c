//! The files of a cache: each thing is one, written beside and put in place, so nobody reads half of one that this process writes.
//!
//! ```text
//! format        "holdfast mount cache 1"
//! lock          locked by the mount that uses it
//! identity      whose space it is, and what opens it together with the token; sealed, on disk when it is answered
//! pins          what is pinned; sealed, on disk when it is answered
//! kept/xx/…     what may go, by name
//! pinned/xx/…   what may not
//! new/          what is being written; emptied at the start
//! ```
//! Things are not synced: what a power cut leaves of one does not open, and is fetched again. What is whole and what is not is found out by who opens it.

use super::name::Name;
use holdfast_base::limits::BLOCK_BYTES_MAX;
use holdfast_base::{Error, ErrorKind, Result};
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// What `format` says; the number changes with the files.
const FORMAT: &str = "holdfast mount cache 1\n";
/// How any `format` begins.
const FORMAT_PREFIX: &str = "holdfast mount cache ";
/// Largest file that is read: the record of the largest block, and what is sealed beside it.
pub(super) const FILE_BYTES_MAX: u64 = BLOCK_BYTES_MAX as u64 + (64 << 10);
/// What a file takes of a disk is counted in these.
const UNIT_BYTES: u64 = 4 << 10;
/// Everything that may be in such a folder.
const PARTS: [&str; 7] = ["format", "lock", "identity", "pins", "kept", "pinned", "new"];

/// Bytes that a file of this length takes.
pub(super) const fn taken(length: u64) -> u64 {
    length.div_ceil(UNIT_BYTES) * UNIT_BYTES
}

/// A file that was there when the cache was opened.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: Name,
    pub(super) bytes: u64,
    pub(super) pinned: bool,
    written: SystemTime,
}

/// A cache's folder, of this process alone.
#[derive(Debug)]
pub(super) struct Shelf {
    folder: PathBuf,
    next: AtomicU64,
    _lock: File,
}

impl Shelf {
    /// Opens a folder, which is made if it is missing, and answers what is in it, the oldest first.
    pub(super) fn open(folder: &Path) -> Result<(Self, Vec<Found>)> {
        let at = |error: io::Error| Error::from(error).context(folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(at)?;
        look_at(folder)?;
        let lock = lock(folder)?;
        mark(folder)?;
        let new = folder.join("new");
        match fs::remove_dir_all(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(error)),
            _ => {}
        }
        for part in ["kept", "pinned", "new"] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder.join(part)).map_err(at)?;
        }
        let shelf = Self { folder: folder.to_owned(), next: AtomicU64::new(0), _lock: lock };
        let mut found = shelf.scan(false).map_err(at)?;
        found.extend(shelf.scan(true).map_err(at)?);
        found.sort_by_key(|found| found.written);
        Ok((shelf, found))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn area(&self, pinned: bool) -> PathBuf {
        self.folder.join(if pinned { "pinned" } else { "kept" })
    }

    fn path(&self, name: Name, pinned: bool) -> PathBuf {
        self.area(pinned).join(format!("{:02x}", name.shard())).join(name.to_string())
    }

    fn scan(&self, pinned: bool) -> io::Result<Vec<Found>> {
        let mut all = Vec::new();
        for shard in fs::read_dir(self.area(pinned))? {
            let shard = shard?.path();
            let entries = match fs::read_dir(&shard) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                let Some(name) = entry.file_name().to_str().and_then(Name::parse) else { continue };
                let found = entry.metadata()?;
                if found.is_file() && self.path(name, pinned) == entry.path() {
                    let written = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    all.push(Found { name, bytes: taken(found.len()), pinned, written });
                }
            }
        }
        Ok(all)
    }

    /// Reads a thing; `NotFound` if it is not there.
    pub(super) fn read(&self, name: Name, pinned: bool) -> io::Result<Vec<u8>> {
        read_bounded(&self.path(name, pinned))
    }

    /// Writes a thing, in the place of what was there.
    pub(super) fn write(&self, name: Name, pinned: bool, bytes: &[u8]) -> io::Result<()> {
        let (new, path) = (self.aside(), self.path(name, pinned));
        let written = create(&new).and_then(|mut file| file.write_all(bytes)).and_then(|()| put(&new, &path));
        if written.is_err() {
            // What of it is there takes room that may be missing.
            let _ = fs::remove_file(&new);
        }
        written
    }

    pub(super) fn remove(&self, name: Name, pinned: bool) -> io::Result<()> {
        match fs::remove_file(self.path(name, pinned)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Moves a thing to what may not go, or back.
    pub(super) fn pin(&self, name: Name, pinned: bool) -> io::Result<()> {
        put(&self.path(name, !pinned), &self.path(name, pinned))
    }

    /// Bytes that its disk has left for this account.
    pub(super) fn free_bytes(&self) -> io::Result<u64> {
        let room = rustix::fs::statvfs(&self.folder)?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// A file beside the things; none if there is none.
    pub(super) fn note(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        note(&self.folder, name)
    }

    /// Writes such a file; it is on disk when this answers.
    pub(super) fn write_note(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.aside();
        let written = create(&new).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        let placed = written.and_then(|()| fs::rename(&new, self.folder.join(name)));
        if placed.is_err() {
            let _ = fs::remove_file(&new);
        }
        placed?;
        File::open(&self.folder)?.sync_all()
    }

    /// Puts such a file aside, as it does not open.
    pub(super) fn damaged_note(&self, name: &str) {
        let _ = fs::rename(self.folder.join(name), self.aside());
    }

    fn aside(&self) -> PathBuf {
        self.folder.join("new").join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }
}

/// A file beside the things of a cache that need not be open.
pub(in crate::client) fn note(folder: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    match read_bounded(&folder.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // A FIFO that somebody put there would be waited for.
    let file = File::options().read(true).custom_flags(libc_nonblock()).open(path)?;
    let length = file.metadata()?.len().min(FILE_BYTES_MAX);
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn libc_nonblock() -> i32 {
    i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0)
}

fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn put(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && from.exists() => {
            if let Some(folder) = to.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            fs::rename(from, to)
        }
        done => done,
    }
}

/// Refuses a folder that others have or may write to, or that is something else.
fn look_at(folder: &Path) -> Result<()> {
    let at = |error: io::Error| Error::from(error).context(folder.display());
    let found = fs::symlink_metadata(folder).map_err(at)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        let message = format!("{} is not this account's folder: name another with --cache", folder.display());
        return Err(Error::forbidden(message));
    }
    if found.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(at)?;
    }
    if note(folder, "format").map_err(at)?.is_some() {
        return Ok(());
    }
    for entry in fs::read_dir(folder).map_err(at)? {
        let name = entry.map_err(at)?.file_name();
        if !PARTS.iter().any(|part| name == *part) {
            let message = format!("{} has other files in it ({})", folder.display(), name.to_string_lossy());
            return Err(Error::invalid(format!("{message}: a cache needs a folder of its own")));
        }
    }
    Ok(())
}

fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.map_err(|error| Error::from(error).context(path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::conflict(format!(
            "another mount uses the cache in {} already: name another folder with --cache, or --cache-size 0 for none",
            folder.display()
        ))),
        Err(TryLockError::Error(error)) => Err(Error::from(error).context(path.display())),
    }
}

/// Refuses the cache of another release; marks what is none yet.
fn mark(folder: &Path) -> Result<()> {
    let at = |error: io::Error| Error::from(error).context(folder.display());
    let known = note(folder, "format").map_err(at)?.unwrap_or_default();
    if known == FORMAT.as_bytes() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&known);
    if let Some(version) = text.strip_prefix(FORMAT_PREFIX).filter(|version| version.trim_end().parse::<u32>().is_ok())
    {
        let message = format!("the cache in {} has format {}, which", folder.display(), version.trim_end());
        return Err(Error::new(ErrorKind::Unsupported, format!("{message} this release does not read: remove it")));
    }
    // Nothing in it is believed because of this file.
    let mut file = create(&folder.join("format")).map_err(at)?;
    file.write_all(FORMAT.as_bytes()).and_then(|()| file.sync_all()).map_err(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::{ContentId, NodeId};

    const NAME: Name = Name::Content(ContentId(7));

    #[test]
    fn things_are_found_again_and_what_was_being_written_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("a/b");
        let (shelf, found) = Shelf::open(&at).expect("opens");
        assert!(found.is_empty());
        shelf.write(NAME, false, b"seven").expect("written");
        shelf.write(Name::Folder(NodeId(8)), true, &[1; 5_000]).expect("written");
        fs::write(at.join("new/3"), "half").expect("written");
        fs::write(at.join("kept/07/c-9"), "in another's place").expect("written");
        fs::write(at.join("kept/07/else"), "something else").expect("written");
        drop(shelf);
        let (shelf, found) = Shelf::open(&at).expect("opens");
        let found: Vec<_> = found.iter().map(|found| (found.name, found.bytes, found.pinned)).collect();
        assert_eq!(found, [(NAME, 4_096, false), (Name::Folder(NodeId(8)), 8_192, true)]);
        assert_eq!(shelf.read(NAME, false).expect("read"), b"seven");
        shelf.pin(NAME, true).expect("moved");
        assert_eq!(shelf.read(NAME, false).expect_err("moved").kind(), io::ErrorKind::NotFound);
        assert_eq!(shelf.read(NAME, true).expect("read"), b"seven");
        shelf.remove(NAME, true).expect("removed");
        shelf.remove(NAME, true).expect("it is gone already");
        assert_eq!(fs::read_dir(at.join("new")).expect("a folder").count(), 0);
    }

    #[test]
    fn a_folder_of_somebody_else_of_another_release_or_in_use_is_refused_in_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let refused = |at: &Path, words: &str| {
            let said = Shelf::open(at).expect_err(words).to_string();
            assert!(said.contains(words), "{said}");
        };
        let used = folder.path().join("used");
        let first = Shelf::open(&used).expect("opens");
        refused(&used, "another mount uses");
        drop(first);
        fs::write(used.join("format"), "holdfast mount cache 2\n").expect("written");
        refused(&used, "format 2");
        fs::write(used.join("format"), "holdf").expect("written");
        drop(Shelf::open(&used).expect("a torn mark is written again"));
        assert_eq!(fs::read_to_string(used.join("format")).expect("read"), FORMAT);

        let full = folder.path().join("full");
        fs::create_dir(&full).expect("made");
        fs::write(full.join("letter.txt"), "dear").expect("written");
        refused(&full, "letter.txt");
        fs::write(folder.path().join("file"), "x").expect("written");
        assert!(Shelf::open(&folder.path().join("file")).is_err());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&full, &link).expect("linked");
        refused(&link, "not this account's");
        let open = folder.path().join("open");
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("set");
        drop(Shelf::open(&open).expect("opens"));
        assert_eq!(fs::metadata(&open).expect("there").permissions().mode() & 0o777, 0o700);
    }
}
