//! What was changed.

use super::tree::{Node, Tree, attribute, attributes};
use super::{CHANGES_MAX, LayerError, Lock, UPPER, failed};
use rustix::fs::{FileType, OFlags};
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It was not there before.
    Added,
    /// Its content is another one.
    Modified,
    /// It is gone, and all below it.
    Deleted,
    /// It is something else now, such as a folder that was a file; or a folder that was removed and made again.
    Replaced,
    /// Only its permissions, owner or extended attributes are others.
    Metadata,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Replaced => "replaced",
            Self::Metadata => "attributes",
        })
    }
}

/// A path that was changed, relative to the folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Which one.
    pub path: PathBuf,
    /// What happened to it.
    pub kind: Kind,
}

/// Reads changes.
#[derive(Debug)]
pub struct Changes {
    lower: Tree,
    upper: Tree,
    at: PathBuf,
    found: Vec<Change>,
}

impl Changes {
    /// What differs between a folder and what a program made of it, in the order of the paths, a folder before what is in it.
    ///
    /// `changes` is what [`crate::Source::CopyOnWrite`] named; no sandbox may use it now. Files that were only opened for writing are compared, and not listed if
    /// they are the same.
    pub fn read(lower: &Path, changes: &Path) -> Result<Vec<Change>, LayerError> {
        let _lock = Lock::take(changes)?;
        Self::read_locked(lower, changes)
    }

    pub(super) fn read_locked(lower: &Path, changes: &Path) -> Result<Vec<Change>, LayerError> {
        let upper = changes.join(UPPER);
        if !upper.exists() {
            return Ok(Vec::new());
        }
        let open = |path: &Path| Tree::open(path).map_err(failed("opening", path));
        let mut this = Self { lower: open(lower)?, upper: open(&upper)?, at: upper, found: Vec::new() };
        this.folder(Path::new(""), true)?;
        this.found.sort_unstable();
        Ok(this.found)
    }

    fn io<T>(&self, path: &Path, result: io::Result<T>) -> Result<T, LayerError> {
        result.map_err(failed("reading", &self.at.join(path)))
    }

    fn say(&mut self, path: &Path, kind: Kind) -> Result<(), LayerError> {
        if self.found.len() >= CHANGES_MAX {
            return Err(LayerError::TooMany(self.at.clone()));
        }
        self.found.push(Change { path: path.to_owned(), kind });
        Ok(())
    }

    /// What is in a folder of the upper. `merged`: what the lower has there shows through. Folders wait in a list and not on the stack, since a program decides how
    /// deep they are.
    fn folder(&mut self, path: &Path, merged: bool) -> Result<(), LayerError> {
        let mut waiting = vec![(path.to_owned(), merged)];
        while let Some((folder, merged)) = waiting.pop() {
            for name in self.io(&folder, self.upper.names(&folder))? {
                let path = folder.join(name);
                let Some(new) = self.io(&path, self.upper.node(&path))? else { continue };
                let old = if merged { self.io(&path, self.lower.node(&path))? } else { None };
                if let Some(kind) = self.compare(&path, &new, old.as_ref())? {
                    self.say(&path, kind)?;
                }
                if new.is_folder() {
                    let opaque = self.io(&path, is_opaque(&self.upper, &path))?;
                    let merged = merged && !opaque && old.is_some_and(|old| old.is_folder());
                    waiting.push((path, merged));
                }
            }
        }
        Ok(())
    }

    fn compare(&self, path: &Path, new: &Node, old: Option<&Node>) -> Result<Option<Kind>, LayerError> {
        if new.is_whiteout() {
            return Ok(old.map(|_| Kind::Deleted));
        }
        let Some(old) = old else { return Ok(Some(Kind::Added)) };
        if new.kind != old.kind || new.is_folder() && self.io(path, is_opaque(&self.upper, path))? {
            return Ok(Some(Kind::Replaced));
        }
        if !self.io(path, self.same_content(path, new, old))? {
            return Ok(Some(Kind::Modified));
        }
        let same = new.same_attributes(old) && self.io(path, self.same_extended(path, new))?;
        Ok((!same).then_some(Kind::Metadata))
    }

    fn same_content(&self, path: &Path, new: &Node, old: &Node) -> io::Result<bool> {
        match new.kind {
            FileType::Symlink => Ok(self.upper.link(path)? == self.lower.link(path)?),
            FileType::RegularFile => {
                let reader =
                    |tree: &Tree| Ok::<_, io::Error>(BufReader::new(File::from(tree.at(path, OFlags::RDONLY)?)));
                Ok(new.size == old.size && same_bytes(reader(&self.upper)?, reader(&self.lower)?)?)
            }
            _ => Ok(true),
        }
    }

    fn same_extended(&self, path: &Path, new: &Node) -> io::Result<bool> {
        if !matches!(new.kind, FileType::RegularFile | FileType::Directory) {
            return Ok(true);
        }
        let (new, old) = (self.upper.at(path, OFlags::RDONLY)?, self.lower.at(path, OFlags::RDONLY)?);
        Ok(attributes(new.as_fd())? == attributes(old.as_fd())?)
    }
}

/// Whether nothing of the lower shows through a folder.
pub(super) fn is_opaque(upper: &Tree, path: &Path) -> io::Result<bool> {
    let folder = upper.at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    Ok(attribute(folder.as_fd(), c"user.overlay.opaque")?.as_deref() == Some(b"y"))
}

fn same_bytes(mut one: impl Read, mut other: impl Read) -> io::Result<bool> {
    const BYTES: usize = 64 * 1024;
    let (mut left, mut right) = (vec![0; BYTES], vec![0; BYTES]);
    loop {
        let (a, b) = (fill(&mut one, &mut left)?, fill(&mut other, &mut right)?);
        if left[..a] != right[..b] {
            return Ok(false);
        }
        if a == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full or nothing follows.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
