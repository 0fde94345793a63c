//! Landlock: behind the mounts for what does not pass them (`plan/handed.rs`), and alone for ports.
//!
//! A ruleset is an allow-list: what an entry of the view grants is granted below its path, and nothing else. It cannot take away inside of what it
//! grants, and knows nothing of attributes; the mounts do. It can never be widened, and holds for all that the program starts.
//!
//! Where the program has no UNIX sockets, all that can pass the mounts are its streams. Then Landlock holds what could be gained by those and nothing else, since it takes
//! time at each file that is opened, made or removed. Without Landlock the mounts hold the view alone. With a version before 2 a file could not be moved between folders, so files are left to the mounts there.

use crate::sandbox::{Access, Network};
use crate::sys;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::AsFd;

pub(crate) const EXECUTE: u64 = 1;
pub(crate) const WRITE_FILE: u64 = 1 << 1;
pub(crate) const READ_FILE: u64 = 1 << 2;
/// To list folders.
pub(crate) const READ_DIR: u64 = 1 << 3;
pub(crate) const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// What can be granted for a file that is no folder.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 1 << 1;

const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
const SCOPE_SIGNALS: u64 = 1 << 1;

/// Versions of the interface that brought something.
pub(crate) const WITH_REFER: u32 = 2;
pub(crate) const WITH_PORTS: u32 = 4;
pub(crate) const WITH_SCOPES: u32 = 6;

/// What the program's process restricts itself to. Made before the fork.
#[derive(Debug, Default)]
pub(crate) struct Ruleset {
    /// As the kernel takes it: files, network, scopes (`struct landlock_ruleset_attr`).
    handled: [u64; 3],
    bytes: usize,
    rules: Vec<(CString, u64)>,
    ports: Vec<(u64, u64)>,
}

/// Rights for files that a version knows.
fn known(abi: u32) -> u64 {
    let bits = match abi {
        0 | 1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    (1 << bits) - 1
}

/// What an access grants.
fn granted(access: Access) -> u64 {
    let everything = u64::MAX;
    match access {
        Access::Hidden => 0,
        Access::ReadOnly => READ_FILE | READ_DIR,
        Access::ReadExec => READ_FILE | READ_DIR | EXECUTE,
        Access::Writable => everything & !EXECUTE,
        Access::All => everything,
    }
}

/// Whether one access grants all that another does.
pub(crate) fn includes(access: Access, other: Access) -> bool {
    granted(other) & !granted(access) == 0
}

impl Ruleset {
    /// An empty one; `None` where the kernel has no Landlock.
    pub(crate) fn new(abi: u32, files: bool, network: &Network) -> Option<Self> {
        if abi == 0 {
            return None;
        }
        let mut set = Self {
            bytes: if abi < WITH_PORTS {
                8
            } else if abi < WITH_SCOPES {
                16
            } else {
                24
            },
            ..Self::default()
        };
        if files && abi >= WITH_REFER {
            set.handled[0] = known(abi);
        }
        if let Network::Ports { connect, bind } = network {
            set.handled[1] = BIND_TCP | CONNECT_TCP;
            set.ports.extend(connect.iter().map(|&port| (u64::from(port), CONNECT_TCP)));
            set.ports.extend(bind.iter().map(|&port| (u64::from(port), BIND_TCP)));
        }
        if abi >= WITH_SCOPES {
            let sockets = if *network == Network::All { 0 } else { SCOPE_ABSTRACT_SOCKETS };
            set.handled[2] = SCOPE_SIGNALS | sockets;
        }
        set.handled.iter().any(|&part| part != 0).then_some(set)
    }

    /// Whether it says anything of files.
    pub(crate) fn holds_files(&self) -> bool {
        self.handled[0] != 0
    }

    /// Says nothing of files but these rights; `None` if that leaves nothing. The kernel looks at nothing where a right is not handled, and takes no time.
    pub(crate) fn about(mut self, rights: u64) -> Option<Self> {
        self.handled[0] &= rights;
        self.rules.iter_mut().for_each(|(_, granted)| *granted &= rights);
        self.rules.retain(|(_, granted)| *granted != 0);
        self.handled.iter().any(|&part| part != 0).then_some(self)
    }

    /// Grants what an access does below a path of the view.
    pub(crate) fn grant(&mut self, path: CString, access: Access, folder: bool) {
        self.rights(path, granted(access), folder);
    }

    /// Grants these rights.
    pub(crate) fn rights(&mut self, path: CString, rights: u64, folder: bool) {
        let rights = rights & self.handled[0] & if folder { u64::MAX } else { OF_FILES };
        if rights != 0 {
            self.rules.push((path, rights));
        }
    }

    /// Grants reading and writing of a device, or of those in a folder.
    pub(crate) fn grant_devices(&mut self, path: CString, folder: bool) {
        self.rights(path, READ_FILE | READ_DIR | WRITE_FILE | IOCTL_DEV, folder);
    }

    /// Restricts the calling process. Only system calls: it runs between fork and exec.
    pub(crate) fn enforce(&self) -> Result<(), Errno> {
        let set = sys::landlock_create(&self.handled, self.bytes)?;
        for (path, rights) in &self.rules {
            let (flags, resolve) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::NO_SYMLINKS);
            let at = openat2(CWD, path.as_c_str(), flags, Mode::empty(), resolve)?;
            sys::landlock_allow_path(set.as_fd(), at.as_fd(), *rights)?;
        }
        for &(port, rights) in &self.ports {
            sys::landlock_allow_port(set.as_fd(), port, rights)?;
        }
        sys::landlock_restrict(set.as_fd())
    }
}
