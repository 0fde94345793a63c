//! Files that the kernel knows, each pinned by a descriptor, and their true paths.
//!
//! The kernel knows a file by a number. A file with two names has two, since rules speak of names; the first is the real one's where that is free, so that
//! programs see the numbers they would see without a gate.

use fuser::INodeNo;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, openat, readlink, statx};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Numbers of files whose own is taken begin here; no file system counts so far.
const OTHERS: u64 = 1 << 63;
const DELETED: &[u8] = b" (deleted)";

/// A file that stays the same whatever happens to its name.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) fd: OwnedFd,
    pub(crate) number: u64,
    key: (u32, u32, u64),
}

#[derive(Debug, Default)]
struct State {
    nodes: HashMap<u64, (Arc<Node>, u64)>,
    by_key: HashMap<(u32, u32, u64), Vec<u64>>,
    next: u64,
}

/// The files of one folder that the kernel knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    state: Mutex<State>,
}

/// A path by which calls that take no descriptors reach a pinned file.
pub(crate) fn magic(fd: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// Attributes of a pinned file.
pub(crate) fn look(fd: &impl AsFd) -> Result<Statx, Errno> {
    statx(fd, c"", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)
}

fn key_of(statx: &Statx) -> (u32, u32, u64) {
    (statx.stx_dev_major, statx.stx_dev_minor, statx.stx_ino)
}

/// Pins a name in a pinned folder, itself and not what a link leads to.
pub(crate) fn pin(folder: &impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    if name.as_bytes().contains(&b'/') || matches!(name.as_bytes(), b"" | b"." | b"..") {
        return Err(Errno::INVAL);
    }
    openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// The true path of what is pinned; the last one it had, if it has none any more.
pub(crate) fn path_of(fd: &impl AsFd) -> Result<PathBuf, Errno> {
    let written = readlink(magic(fd), Vec::with_capacity(256))?;
    let written = written.as_bytes();
    let to_path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let Some(before) = written.strip_suffix(DELETED) else { return Ok(to_path(written)) };
    // A name may end like that, too.
    let there = openat(CWD, written, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let same = there
        .is_ok_and(|there| matches!((look(&there), look(fd)), (Ok(one), Ok(other)) if key_of(&one) == key_of(&other)));
    Ok(to_path(if same { written } else { before }))
}

impl Node {
    /// Where it is.
    pub(crate) fn path(&self) -> Result<PathBuf, Errno> {
        path_of(&self.fd)
    }

    /// The path of a name in it.
    pub(crate) fn path_to(&self, name: &OsStr) -> Result<PathBuf, Errno> {
        Ok(self.path()?.join(name))
    }
}

impl Nodes {
    /// Those of a folder, of which the kernel knows the folder itself.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, folder, flags, Mode::empty())?;
        if path_of(&fd)? != folder {
            let why = format!("{} is reached by a symbolic link; name the folder itself", folder.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let key = key_of(&look(&fd)?);
        let root = INodeNo::ROOT.0;
        let mut state = State { next: OTHERS, ..State::default() };
        state.nodes.insert(root, (Arc::new(Node { fd, number: root, key }), 1));
        state.by_key.insert(key, vec![root]);
        Ok(Self { state: Mutex::new(state) })
    }

    pub(crate) fn get(&self, number: INodeNo) -> Result<Arc<Node>, Errno> {
        self.state.lock().nodes.get(&number.0).map(|(node, _)| node.clone()).ok_or(Errno::STALE)
    }

    /// The file that was pinned just now, as the kernel is told of it once more.
    pub(crate) fn enter(&self, fd: OwnedFd, path: &Path) -> Result<(Arc<Node>, Statx), Errno> {
        let found = look(&fd)?;
        let key = key_of(&found);
        let mut state = self.state.lock();
        for number in state.by_key.get(&key).cloned().unwrap_or_default() {
            if let Some((node, count)) = state.nodes.get_mut(&number)
                && node.path().is_ok_and(|known| known == path)
            {
                *count += 1;
                return Ok((node.clone(), found));
            }
        }
        let free =
            found.stx_ino > INodeNo::ROOT.0 && found.stx_ino < OTHERS && !state.nodes.contains_key(&found.stx_ino);
        let number = if free {
            found.stx_ino
        } else {
            state.next += 1;
            state.next
        };
        let node = Arc::new(Node { fd, number, key });
        state.nodes.insert(number, (node.clone(), 1));
        state.by_key.entry(key).or_default().push(number);
        Ok((node, found))
    }

    /// The kernel has forgotten a file so often.
    pub(crate) fn forget(&self, number: INodeNo, times: u64) {
        let mut state = self.state.lock();
        let Some((node, count)) = state.nodes.get_mut(&number.0) else { return };
        *count = count.saturating_sub(times);
        if *count > 0 || number == INodeNo::ROOT {
            return;
        }
        let key = node.key;
        state.nodes.remove(&number.0);
        if let Some(numbers) = state.by_key.get_mut(&key) {
            numbers.retain(|other| *other != number.0);
            if numbers.is_empty() {
                state.by_key.remove(&key);
            }
        }
    }
}
