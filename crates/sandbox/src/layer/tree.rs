//! Files below a folder, reached without following a link: what is in the upper was made by a program that nobody trusts.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat, statat};
use rustix::io::Errno;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// What a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: FileType,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u64,
    pub(crate) modified: (i64, i64),
    pub(crate) accessed: (i64, i64),
    device: u64,
}

impl Node {
    pub(crate) fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Whether it says that a name was removed.
    pub(crate) fn is_whiteout(&self) -> bool {
        self.kind == FileType::CharacterDevice && self.device == 0
    }

    /// Whether permissions and owner are the same.
    pub(crate) fn same_attributes(&self, other: &Self) -> bool {
        (self.mode, self.uid, self.gid) == (other.mode, other.uid, other.gid)
    }
}

/// A folder that paths are below.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
}

impl Tree {
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(root, flags, Mode::empty())? })
    }

    /// Opens something below, itself no link.
    pub(crate) fn at(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        if path.as_os_str().is_empty() {
            return Ok(openat(&self.root, c".", flags | OFlags::CLOEXEC, Mode::empty())?);
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        loop {
            match openat2(&self.root, path, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                other => return Ok(other?),
            }
        }
    }

    /// The folder that a path is in, and its name there.
    pub(crate) fn parent<'path>(&self, path: &'path Path) -> io::Result<(OwnedFd, &'path OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let above = path.parent().unwrap_or(Path::new(""));
        Ok((self.at(above, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    /// What a path is; `None` if there is nothing.
    pub(crate) fn node(&self, path: &Path) -> io::Result<Option<Node>> {
        if path.as_os_str().is_empty() {
            return look(self.root.as_fd(), OsStr::new("."));
        }
        match self.parent(path) {
            Ok((folder, name)) => look(folder.as_fd(), name),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The names in a folder, in order.
    pub(crate) fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let folder = self.at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        names(folder.as_fd())
    }

    pub(crate) fn link(&self, path: &Path) -> io::Result<CString> {
        let (folder, name) = self.parent(path)?;
        Ok(readlinkat(&folder, name, Vec::new())?)
    }
}

pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
}

pub(crate) fn names(folder: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// What a name in an open folder is.
pub(crate) fn look(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Node>> {
    let stat = match statat(folder, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let time = |seconds: i64, nanos| (seconds, i64::try_from(nanos).unwrap_or(0));
    Ok(Some(Node {
        kind: FileType::from_raw_mode(stat.st_mode),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size.unsigned_abs(),
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        accessed: time(stat.st_atime, stat.st_atime_nsec),
        device: stat.st_rdev,
    }))
}

/// An extended attribute; `None` if there is none, or none can be.
pub(crate) fn attribute(file: BorrowedFd<'_>, name: &std::ffi::CStr) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; ATTRIBUTE_BYTES_MAX];
    match rustix::fs::fgetxattr(file, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The kernel's own bound (`XATTR_SIZE_MAX`).
const ATTRIBUTE_BYTES_MAX: usize = 65536;

/// Attributes in the namespace `user`, but those that the overlay keeps its own things in, with their values.
pub(crate) fn attributes(file: BorrowedFd<'_>) -> io::Result<Vec<(CString, Vec<u8>)>> {
    let mut names = vec![0; ATTRIBUTE_BYTES_MAX];
    let length = match rustix::fs::flistxattr(file, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0) {
        if name.starts_with(b"user.") && !name.starts_with(OVERLAY) {
            let name = CString::new(name)?;
            if let Some(value) = attribute(file, &name)? {
                found.push((name, value));
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

const OVERLAY: &[u8] = b"user.overlay.";
