//! Opening what is below a folder, and nothing outside it.
//!
//! A path is walked name by name from the folder's descriptor, and no name that is a symbolic link is passed: names have no slash and are neither
//! `.` nor `..`, so the walk cannot leave the folder, whoever puts links or other folders there meanwhile.

use super::failure::failed;
use holdfast_base::{DrivePath, Error, NodeName, Result};
use rustix::fs::{CWD, FileType, Mode, OFlags, openat};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folder that a site is.
#[derive(Debug)]
pub(super) struct Root {
    folder: OwnedFd,
    path: PathBuf,
}

impl Root {
    /// Opens it; links in its own path are followed, since whoever names it means what they lead to.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let path = path.canonicalize().map_err(|error| Error::from(error).context(path.display()))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            openat(CWD, &path, flags, Mode::empty()).map_err(|errno| failed("opening", path.display(), errno))?;
        Ok(Self { folder, path })
    }

    /// Its absolute path, as it was when it was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where something is, for messages.
    pub(super) fn shown(&self, path: &DrivePath) -> String {
        let below = path.names().iter().map(NodeName::as_str);
        self.path.join(below.collect::<Vec<_>>().join("/")).display().to_string()
    }

    /// Opens a folder for reading and syncing it.
    pub(super) fn folder(&self, path: &DrivePath) -> Result<OwnedFd> {
        let at = |errno| failed("opening", self.shown(path), errno);
        let mut here = openat(&self.folder, ".", FOLDER | OFlags::RDONLY, Mode::empty()).map_err(at)?;
        let names = path.names();
        for (index, name) in names.iter().enumerate() {
            let kind = if index + 1 == names.len() { OFlags::RDONLY } else { OFlags::PATH };
            here = openat(&here, name.as_str(), FOLDER | kind, Mode::empty()).map_err(at)?;
        }
        Ok(here)
    }

    /// Opens the folder that something is in; the root itself is in none.
    pub(super) fn parent<'p>(&self, path: &'p DrivePath) -> Result<(OwnedFd, &'p NodeName)> {
        match (path.parent(), path.name()) {
            (Some(parent), Some(name)) => Ok((self.folder(&parent)?, name)),
            _ => Err(Error::invalid(format!("{} is the folder itself, and nothing in it", self.path.display()))),
        }
    }
}

/// What sort of thing a mode says it is, in words.
pub(super) fn sort_of(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    }
}
