//! Faults on request: which operation, on which path, after how many, and what happens.

use std::path::Path;
use std::time::Duration;

/// Kinds of operations that are counted and can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// Opening an existing file.
    Open,
    /// Making a regular file.
    Create,
    /// Reading content that the kernel does not hold in its cache.
    Read,
    /// Writing content.
    Write,
    /// Changing a file's size.
    Truncate,
    /// `fallocate` in any mode.
    Allocate,
    /// `fsync` or `fdatasync` of a file.
    Sync,
    /// `fsync` of a folder.
    SyncFolder,
    /// Making a folder.
    Mkdir,
    /// Removing a file.
    Unlink,
    /// Removing a folder.
    Rmdir,
    /// Moving a file or folder; its path is the old one.
    Rename,
    /// Making a hard or symbolic link.
    Link,
}

impl OpKind {
    /// Every kind, for tests that try each in turn.
    pub const ALL: [Self; 13] = [
        Self::Open,
        Self::Create,
        Self::Read,
        Self::Write,
        Self::Truncate,
        Self::Allocate,
        Self::Sync,
        Self::SyncFolder,
        Self::Mkdir,
        Self::Unlink,
        Self::Rmdir,
        Self::Rename,
        Self::Link,
    ];
    /// The kinds that change the disk: the moments at which a power cut is interesting.
    pub const CHANGES: [Self; 11] = [
        Self::Create,
        Self::Write,
        Self::Truncate,
        Self::Allocate,
        Self::Sync,
        Self::SyncFolder,
        Self::Mkdir,
        Self::Unlink,
        Self::Rmdir,
        Self::Rename,
        Self::Link,
    ];
}

/// How many operations of each kind were asked for, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; OpKind::ALL.len()]);

impl Counts {
    /// Operations of one kind.
    pub fn of(&self, kind: OpKind) -> u64 {
        self.0[kind as usize]
    }

    /// Operations that change the disk.
    pub fn changes(&self) -> u64 {
        OpKind::CHANGES.iter().map(|&kind| self.of(kind)).sum()
    }

    pub(crate) fn add(&mut self, kind: OpKind) {
        self.0[kind as usize] += 1;
    }
}

/// What a fault does to the operation it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fail with this error number (`libc::EIO`, `libc::ENOSPC`) and change nothing. A failed
    /// [`OpKind::Sync`] also gives up the dirty pages where [`super::Config::failed_sync_drops_dirty`].
    Fail(i32),
    /// Write at most half the bytes and say so: a short write.
    WriteHalf,
    /// Wait, then do it.
    Delay(Duration),
    /// Cut the power before it; see [`super::CrashDisk::wait_powered_off`].
    CutPower,
}

/// An armed fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Kinds it meets.
    pub kinds: Vec<OpKind>,
    /// Paths it meets, below the mount, without a leading slash; `*` stands for any bytes.
    pub pattern: String,
    /// Operations it lets pass first.
    pub after: u64,
    /// Operations it then meets.
    pub times: u64,
    /// What it does to them.
    pub action: Action,
}

impl Fault {
    /// A fault on the next operation of one kind, on any path.
    pub fn next(kind: OpKind, action: Action) -> Self {
        Self::any_of(&[kind], action)
    }

    /// A fault on the next operation of several kinds, on any path.
    pub fn any_of(kinds: &[OpKind], action: Action) -> Self {
        Self { kinds: kinds.to_vec(), pattern: "*".to_owned(), after: 0, times: 1, action }
    }

    /// The same fault on paths like `pattern` only.
    #[must_use]
    pub fn on(mut self, pattern: &str) -> Self {
        pattern.clone_into(&mut self.pattern);
        self
    }

    /// The same fault after `count` operations that it would have met.
    #[must_use]
    pub fn after(mut self, count: u64) -> Self {
        self.after = count;
        self
    }

    /// The same fault on `count` operations in a row.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.times = count;
        self
    }

    /// The same fault until it is cleared.
    #[must_use]
    pub fn forever(self) -> Self {
        self.times(u64::MAX)
    }
}

/// Names an armed fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultId(u64);

#[derive(Debug)]
struct Armed {
    id: FaultId,
    fault: Fault,
    fired: u64,
}

/// All armed faults and the counts.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    armed: Vec<Armed>,
    next_id: u64,
    pub(crate) counts: Counts,
}

impl Faults {
    pub(crate) fn arm(&mut self, fault: Fault) -> FaultId {
        let id = FaultId(self.next_id);
        self.next_id += 1;
        self.armed.push(Armed { id, fault, fired: 0 });
        id
    }

    pub(crate) fn clear(&mut self) {
        self.armed.clear();
    }

    pub(crate) fn fired(&self, id: FaultId) -> u64 {
        let armed = self.armed.iter().find(|a| a.id == id);
        armed.map_or(0, |a| a.fired)
    }

    /// Counts an operation and finds the first fault that meets it. `path` is asked only if needed.
    pub(crate) fn meet(&mut self, kind: OpKind, path: impl FnOnce() -> std::path::PathBuf) -> Option<Action> {
        self.counts.add(kind);
        if !self.armed.iter().any(|a| a.fault.kinds.contains(&kind)) {
            return None;
        }
        let path = path();
        self.armed.iter_mut().find_map(|a| a.meet(kind, &path))
    }
}

impl Armed {
    fn meet(&mut self, kind: OpKind, path: &Path) -> Option<Action> {
        let fault = &mut self.fault;
        let path = path.as_os_str().as_encoded_bytes();
        if self.fired >= fault.times || !fault.kinds.contains(&kind) || !matches(fault.pattern.as_bytes(), path) {
            return None;
        }
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        self.fired += 1;
        Some(fault.action)
    }
}

/// Whether `text` is like `pattern`, where `*` stands for any bytes (also slashes, also none).
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last `*` was and how far it reached; a mismatch lets it swallow one byte more.
    let mut star = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, reached)) = star {
            star = Some((at, reached + 1));
            p = at + 1;
            t = reached + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}
