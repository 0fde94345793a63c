//! What all threads of a broker share.

use crate::broker::Options;
use crate::error::Error;
use crate::listener::Listener;
use crate::place::{Key, key_of, look, magic};
use crate::pool::Replace;
use crate::record::{Counting, Record, count};
use crate::scope::Scope;
use crate::sys::{self, Arg, call_fd};
use crate::target::Target;
use crate::waits::Waits;
use holdfast_policy::{Judge, Operation};
use rustix::fs::{Mode, OFlags, open, readlink};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// Ranges of users or groups: first inside, first outside, how many.
type Map = Vec<(u32, u32, u32)>;

/// The user and group that stand for all that have no number in a user namespace (`/proc/sys/kernel/overflowuid`, as it is by default).
const OVERFLOW: u32 = 65534;

pub(crate) struct Core {
    pub(crate) listener: Listener,
    pub(crate) judge: RwLock<Arc<dyn Judge>>,
    pub(crate) options: Options,
    pub(crate) scope: Scope,
    pub(crate) counting: Counting,
    top: OnceLock<Top>,
    pub(crate) waits: Waits,
    pub(crate) replace: Replace,
    /// Our own user and group, with which everything is done.
    pub(crate) identity: (u32, u32),
    mounts: Mutex<HashSet<u64>>,
    /// The files that were handed over.
    pub(crate) inherited: HashSet<Key>,
    users: OnceLock<(Map, Map)>,
}

/// The root folder of the sandbox, which none of its processes can change.
pub(crate) struct Top {
    pub(crate) fd: OwnedFd,
    pub(crate) key: Key,
    /// As the kernel writes it for us, without a slash at its end.
    pub(crate) path: Vec<u8>,
}

impl Core {
    pub(crate) fn new(listener: OwnedFd, judge: Arc<dyn Judge>, options: Options) -> Result<Self, Error> {
        let failed = |errno: Errno| Error::Inherited(errno.into());
        let null = open(c"/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let handed = options.inherited.iter().chain([&null]);
        let inherited = handed.map(|fd| look(fd).map(|statx| key_of(&statx)));
        Ok(Self {
            listener: Listener::new(listener),
            scope: Scope::of(&*judge),
            judge: RwLock::new(judge),
            inherited: inherited.collect::<Result<_, _>>().map_err(failed)?,
            options,
            counting: Counting::default(),
            top: OnceLock::new(),
            waits: Waits::default(),
            replace: Replace::default(),
            identity: sys::identity(),
            mounts: Mutex::default(),
            users: OnceLock::new(),
        })
    }

    /// Learns the root from the first process that can be looked at, while it waits.
    pub(crate) fn learn_root(&self, target: Target, id: u64) -> Result<(), Errno> {
        if self.top.get().is_some() {
            return Ok(());
        }
        let fd = target.root()?;
        let key = key_of(&look(&fd)?);
        let written = readlink(magic(&fd).as_c_str(), Vec::new())?;
        let written = written.as_bytes();
        let path = written.strip_suffix(b"/").unwrap_or(written).to_vec();
        if !self.listener.is_waiting(id) {
            return Err(Errno::SRCH);
        }
        self.top.get_or_init(|| Top { fd, key, path });
        Ok(())
    }

    /// The root of the sandbox.
    pub(crate) fn top(&self) -> Result<&Top, Errno> {
        self.top.get().ok_or(Errno::PERM)
    }

    /// A judge that decides about what nobody is asked about would be believed and not be heard.
    pub(crate) fn check_scope(&self, judge: &dyn Judge) -> Result<(), Error> {
        let beyond = |operation: &Operation| judge.decides(*operation) && !self.scope.decides(*operation);
        Operation::ALL.into_iter().find(beyond).map_or(Ok(()), |operation| Err(Error::Scope(operation)))
    }

    /// Counts a call that is refused because nobody can say what it is about.
    pub(crate) fn unserved(&self) -> Errno {
        count(&self.counting.unserved);
        Errno::PERM
    }

    /// Tells of a denial and counts it.
    pub(crate) fn deny(&self, record: &Record<'_>) {
        self.tell(record);
        if self.options.kill_after == Some(count(&self.counting.denied)) {
            (self.options.on_kill)();
        }
    }

    pub(crate) fn tell(&self, record: &Record<'_>) {
        if let Some(audit) = &self.options.audit {
            audit(record);
        }
    }

    /// Counts a call that is refused as if the kernel did not have it.
    pub(crate) fn absent(&self) -> Errno {
        count(&self.counting.unserved);
        Errno::NOSYS
    }

    /// Opens a path of the sandbox as it is written, through no symbolic link.
    pub(crate) fn open_exact(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path = CString::new(path).map_err(|_| Errno::INVAL)?;
        let resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS;
        open_how(&self.top()?.fd, &path, libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC, resolve)
    }

    /// Whether a mount is one of the sandbox. The table is read again when it does not have it.
    pub(crate) fn is_mount_of_view(&self, mount: u64, target: Target) -> Result<bool, Errno> {
        if mount == self.top()?.key.mount || locked(&self.mounts).contains(&mount) {
            return Ok(true);
        }
        let fresh: HashSet<u64> = target.mounts()?.into_iter().collect();
        let found = fresh.contains(&mount);
        *locked(&self.mounts) = fresh;
        Ok(found)
    }

    /// Has the table of mounts read again.
    pub(crate) fn forget_mounts(&self) {
        locked(&self.mounts).clear();
    }

    fn users(&self, target: Target) -> Result<&(Map, Map), Errno> {
        if let Some(known) = self.users.get() {
            return Ok(known);
        }
        let maps = (target.map("uid_map")?, target.map("gid_map")?);
        if maps.0.is_empty() || maps.1.is_empty() {
            // They are not written yet, and can be only once.
            return Err(self.unserved());
        }
        Ok(self.users.get_or_init(|| maps))
    }

    /// Whether users have the same numbers for the program as for us.
    pub(crate) fn same_users(&self, target: Target) -> Result<bool, Errno> {
        let (users, groups) = self.users(target)?;
        Ok([users, groups]
            .into_iter()
            .flatten()
            .all(|(inside, outside, count)| inside == outside && *count > u32::MAX / 2))
    }

    /// A user and a group as the program sees them.
    pub(crate) fn inside(&self, target: Target, user: u32, group: u32) -> Result<(u32, u32), Errno> {
        let (users, groups) = self.users(target)?;
        let find = |map: &Map, id: u32| {
            let range = map.iter().find(|(_, outside, count)| id.checked_sub(*outside).is_some_and(|at| at < *count));
            range.map_or(OVERFLOW, |(inside, outside, _)| inside + (id - outside))
        };
        Ok((find(users, user), find(groups, group)))
    }

    /// A user and a group that the program names, as they are for us. All ones mean that there is none, as in `chown(2)`.
    pub(crate) fn outside(&self, target: Target, user: u32, group: u32) -> Result<(u32, u32), Errno> {
        let (users, groups) = self.users(target)?;
        let find = |map: &Map, id: u32| {
            if id == u32::MAX {
                return Ok(id);
            }
            let range = map.iter().find(|(inside, _, count)| id.checked_sub(*inside).is_some_and(|at| at < *count));
            range.map(|(inside, outside, _)| outside + (id - inside)).ok_or(Errno::INVAL)
        };
        Ok((find(users, user)?, find(groups, group)?))
    }
}

/// Opens with the kernel's rules about what a walk may cross.
pub(crate) fn open_how(folder: &OwnedFd, path: &CString, flags: i32, resolve: u64) -> Result<OwnedFd, Errno> {
    let how: [u64; 3] = [sys::signed(i64::from(flags)), 0, resolve];
    let size = size_of_val(&how) as u64;
    call_fd(libc::SYS_openat2, &mut [folder.into(), path.as_c_str().into(), Arg::In(sys::bytes_of(&how)), size.into()])
}

/// A thread that panicked has left nothing half done here.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn locked_read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}
