//! Files that the kernel knows, each pinned by a descriptor, and their true paths.
//!
//! The kernel knows a file by a number. A file with two names has two, since rules speak of names; the first is the real one's where that is free, so that
//! programs see the numbers they would see without a gate.

use fuser::INodeNo;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags, openat, readlinkat, statx};
use rustix::io::Errno;
use rustix::path::DecInt;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Numbers of files whose own is taken begin here; no file system counts so far.
const OTHERS: u64 = 1 << 63;
const DELETED: &[u8] = b" (deleted)";

/// Which file: by mount, device and number there.
type Key = (u64, u32, u32, u64);

/// A file that stays the same whatever happens to its name.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) fd: OwnedFd,
    pub(crate) number: u64,
    key: Key,
    /// Of a folder, the path that it was found by last.
    found_at: Mutex<PathBuf>,
    /// Until when the kernel may believe where folders in it are.
    believed: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct State {
    nodes: HashMap<u64, (Arc<Node>, u64)>,
    by_key: HashMap<Key, Vec<u64>>,
    next: u64,
}

impl State {
    /// Those that may be the same file, by another name.
    fn known(&self, key: Key) -> Vec<Arc<Node>> {
        let numbers = self.by_key.get(&key).into_iter().flatten();
        numbers.filter_map(|number| self.nodes.get(number)).map(|(node, _)| node.clone()).collect()
    }

    fn add(&mut self, fd: OwnedFd, found: &Statx, path: &Path) -> Arc<Node> {
        let own = found.stx_ino;
        let free = own > INodeNo::ROOT.0 && own < OTHERS && !self.nodes.contains_key(&own);
        let number = if free {
            own
        } else {
            self.next += 1;
            self.next
        };
        let node = Node::new(fd, number, found, path);
        self.nodes.insert(number, (node.clone(), 1));
        self.by_key.entry(node.key).or_default().push(number);
        node
    }
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

/// The folder of this process's descriptors, in which they are found at half the cost of their paths.
pub(crate) fn descriptors() -> Result<BorrowedFd<'static>, Errno> {
    static FOLDER: OnceLock<OwnedFd> = OnceLock::new();
    if FOLDER.get().is_none() {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, c"/proc/self/fd", flags, Mode::empty())?;
        // Another thread may have been first.
        let _ = FOLDER.set(opened);
    }
    FOLDER.get().map(AsFd::as_fd).ok_or(Errno::BADF)
}

/// Opens a pinned file.
pub(crate) fn reopen(fd: &impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(descriptors()?, DecInt::from_fd(fd), flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
}

/// Attributes of a pinned file.
pub(crate) fn look(fd: &impl AsFd) -> Result<Statx, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    statx(fd, c"", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW, wanted)
}

fn key_of(statx: &Statx) -> Key {
    (statx.stx_mnt_id, statx.stx_dev_major, statx.stx_dev_minor, statx.stx_ino)
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
    let mut written = readlinkat(descriptors()?, DecInt::from_fd(fd), Vec::with_capacity(256))?.into_bytes();
    if written.ends_with(DELETED) {
        // A name may end like that, too.
        let there = openat(CWD, &*written, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        let is_same =
            |there| matches!((look(&there), look(fd)), (Ok(one), Ok(other)) if key_of(&one) == key_of(&other));
        if !there.is_ok_and(is_same) {
            written.truncate(written.len() - DELETED.len());
        }
    }
    Ok(PathBuf::from(OsString::from_vec(written)))
}

impl Node {
    fn new(fd: OwnedFd, number: u64, found: &Statx, path: &Path) -> Arc<Self> {
        let is_folder = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
        let found_at = Mutex::new(if is_folder { path.to_owned() } else { PathBuf::new() });
        Arc::new(Self { fd, number, key: key_of(found), found_at, believed: Mutex::default() })
    }

    /// Whether it is what was found at a path just now, if that has the same numbers. A folder has one name, so none need be asked where it is that was found there before;
    /// but numbers alone do not say which folder it is, as some file systems give them to several.
    fn is_at(&self, path: &Path) -> bool {
        if *self.found_at.lock() == path {
            return true;
        }
        let is_it = self.path().is_ok_and(|known| known == path);
        let mut found_at = self.found_at.lock();
        if is_it && !found_at.as_os_str().is_empty() {
            path.clone_into(&mut found_at);
        }
        is_it
    }

    /// The kernel may believe until then where a folder in this one is.
    pub(crate) fn note_belief(&self, until: Instant) {
        *self.believed.lock() = Some(until);
    }

    /// How long the kernel may still believe where folders in it are.
    pub(crate) fn belief_left(&self) -> Duration {
        self.believed.lock().map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

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
        let found = look(&fd)?;
        let root = Node::new(fd, INodeNo::ROOT.0, &found, folder);
        let mut state = State { next: OTHERS, ..State::default() };
        state.by_key.insert(root.key, vec![root.number]);
        state.nodes.insert(root.number, (root, 1));
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
        loop {
            let known = state.known(key);
            // The kernel takes long to say where they are.
            let same = match &*known {
                [] => None,
                _ => MutexGuard::unlocked(&mut state, || known.iter().find(|node| node.is_at(path))),
            };
            if let Some(node) = same {
                if let Some((there, count)) = state.nodes.get_mut(&node.number)
                    && Arc::ptr_eq(there, node)
                {
                    *count += 1;
                    return Ok((node.clone(), found));
                }
            } else if state.known(key).iter().map(Arc::as_ptr).eq(known.iter().map(Arc::as_ptr)) {
                return Ok((state.add(fd, &found, path), found));
            }
            // It was forgotten or entered meanwhile.
        }
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
