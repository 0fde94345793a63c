//! Which file a pinned descriptor is, by the name a rule would give it.

use crate::core::Core;
use crate::sys::{Arg, bytes_of_mut, call, zeroed};
use crate::target::Target;
use rustix::fs::{readlink, readlinkat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file that stays the same whatever happens to its name.
pub(crate) struct Pinned {
    pub(crate) fd: OwnedFd,
    pub(crate) kind: Kind,
}

/// How rules speak of a file.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// By its path in the sandbox.
    Named(PathBuf),
    /// Not at all: whoever started the program gave it the open file, and decided.
    Inherited(Access),
    /// Not at all: it never had a name (a pipe, a socket, memory).
    Nameless,
}

/// What an open file may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// A folder and a name in it, where something is or is to be.
pub(crate) struct Slot {
    pub(crate) folder: OwnedFd,
    pub(crate) name: CString,
    pub(crate) path: PathBuf,
}

/// A path to a descriptor of ours, by which calls that know no descriptors reach its file.
pub(crate) fn magic(fd: &OwnedFd) -> CString {
    // A number has no zeros in it.
    CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap_or_default()
}

/// What tells two places of a file system apart: mount, device, inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) mount: u64,
    device: (u32, u32),
    inode: u64,
}

/// Attributes of a pinned file, by one call.
pub(crate) fn look(fd: &OwnedFd) -> Result<libc::statx, Errno> {
    let mut statx: libc::statx = zeroed();
    let mask = u64::from(libc::STATX_BASIC_STATS | libc::STATX_MNT_ID);
    let arguments =
        &mut [fd.into(), c"".into(), libc::AT_EMPTY_PATH.into(), mask.into(), Arg::Out(bytes_of_mut(&mut statx))];
    call(libc::SYS_statx, arguments)?;
    Ok(statx)
}

pub(crate) fn key_of(statx: &libc::statx) -> Key {
    Key { mount: statx.stx_mnt_id, device: (statx.stx_dev_major, statx.stx_dev_minor), inode: statx.stx_ino }
}

/// The type of a file (`S_IFMT`).
pub(crate) fn file_type(statx: &libc::statx) -> u32 {
    u32::from(statx.stx_mode) & libc::S_IFMT
}

const DELETED: &[u8] = b" (deleted)";

impl Core {
    /// The place of a file that was found by walking, or of a folder a walk begins at. Whatever is outside of the sandbox's root and mounts has none.
    pub(crate) fn place_of(&self, fd: &OwnedFd, target: Target) -> Result<PathBuf, Errno> {
        let statx = look(fd)?;
        if !self.is_mount_of_view(statx.stx_mnt_id, target)? {
            return Err(self.unserved());
        }
        self.path_of(fd, &statx)
    }

    /// What an open file of the program is.
    pub(crate) fn kind_of(&self, fd: &OwnedFd, target: Target, access: Access) -> Result<Kind, Errno> {
        let written = readlink(magic(fd).as_c_str(), Vec::new())?;
        if written.as_bytes().first() != Some(&b'/') {
            return Ok(Kind::Nameless);
        }
        let statx = look(fd)?;
        if self.inherited.contains(&key_of(&statx)) {
            return Ok(Kind::Inherited(access));
        }
        if self.is_mount_of_view(statx.stx_mnt_id, target)? {
            return Ok(Kind::Named(self.path_of(fd, &statx)?));
        }
        let is_memory = written.as_bytes().starts_with(b"/memfd:") && written.as_bytes().ends_with(DELETED);
        if is_memory { Ok(Kind::Nameless) } else { Err(self.unserved()) }
    }

    /// The path of a pinned file in the sandbox; that which it had last, if it has none any more.
    fn path_of(&self, fd: &OwnedFd, statx: &libc::statx) -> Result<PathBuf, Errno> {
        let written = readlink(magic(fd).as_c_str(), Vec::with_capacity(256))?;
        let written = written.as_bytes();
        let path = self.below_root(written).ok_or_else(|| self.unserved())?;
        match path.strip_suffix(DELETED) {
            // A name may end like that, too.
            Some(before) if !self.is_at(path, statx) => Ok(bytes_to_path(before)),
            _ => Ok(bytes_to_path(path)),
        }
    }

    /// A path as the kernel writes it for us, as it is in the sandbox.
    pub(crate) fn below_root<'a>(&self, written: &'a [u8]) -> Option<&'a [u8]> {
        let rest = written.strip_prefix(self.top().ok()?.path.as_slice())?;
        match rest.first() {
            None => Some(b"/"),
            Some(b'/') => Some(rest),
            Some(_) => None,
        }
    }

    /// The name of an executable, as the program itself would give it; as it is written if it is outside.
    pub(crate) fn program_path(&self, written: &CStr) -> PathBuf {
        let path = self.below_root(written.to_bytes()).unwrap_or(written.to_bytes());
        bytes_to_path(path.strip_suffix(DELETED).unwrap_or(path))
    }

    fn is_at(&self, path: &[u8], statx: &libc::statx) -> bool {
        self.open_exact(path).is_ok_and(|fd| look(&fd).is_ok_and(|found| key_of(&found) == key_of(statx)))
    }
}

pub(crate) fn bytes_to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// A path with one more name.
pub(crate) fn join(folder: &Path, name: &[u8]) -> PathBuf {
    folder.join(OsStr::from_bytes(name))
}

/// The text of a pinned symbolic link.
pub(crate) fn link_text(fd: &OwnedFd) -> Result<CString, Errno> {
    readlinkat(fd, c"", Vec::with_capacity(256))
}
