//! The log of pending operations on names, and which of them survive.
//!
//! One operation (create, remove, rename, link) sets some entries at once; a power cut keeps it
//! whole or not at all. Two operations on the same entry never change places. Under
//! [`Profile::Strict`] nothing else is ordered, except that moves of folders keep their order among
//! themselves: otherwise a cut could make two folders each other's parents, which no file system
//! allows. Under [`Profile::Ext4Like`] the log is one journal and a prefix of it survives.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};

use super::config::Profile;
use super::state::Ino;
use crate::rng::Prng;

/// Pending operations before the oldest become durable by themselves, as a journal commits when it
/// is full. 65,536 is far above what any workload leaves unsynced.
pub const MAX_PENDING: usize = 1 << 16;

/// One entry that an operation sets (`target`) or removes (`None`).
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) folder: Ino,
    pub(crate) name: OsString,
    pub(crate) target: Option<Ino>,
}

impl Change {
    pub(crate) fn new(folder: Ino, name: &OsStr, target: Option<Ino>) -> Self {
        Self { folder, name: name.to_owned(), target }
    }
}

/// One atomic operation on names that is not durable yet.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) changes: Vec<Change>,
    pub(crate) moves_folder: bool,
}

type Keys<'a> = HashSet<(Ino, &'a OsStr)>;

impl Operation {
    fn keys(&self) -> impl Iterator<Item = (Ino, &OsStr)> {
        self.changes.iter().map(|c| (c.folder, c.name.as_os_str()))
    }

    fn touches(&self, keys: &Keys<'_>) -> bool {
        self.keys().any(|key| keys.contains(&key))
    }
}

/// Which operations a sync of `folder` makes durable: those on its entries and all they build on.
pub(crate) fn synced_by(pending: &[Operation], folder: Ino) -> Vec<bool> {
    let mut synced = vec![false; pending.len()];
    let mut needed = Keys::new();
    let mut needs_moves = false;
    for (operation, synced) in pending.iter().zip(&mut synced).rev() {
        let in_folder = operation.changes.iter().any(|c| c.folder == folder);
        let ordered = needs_moves && operation.moves_folder;
        if in_folder || ordered || operation.touches(&needed) {
            *synced = true;
            needs_moves |= operation.moves_folder;
            needed.extend(operation.keys());
        }
    }
    synced
}

/// Which operations a power cut keeps, each wanted with chance `keep`.
pub(crate) fn survivors(pending: &[Operation], rng: &mut Prng, keep: f64, profile: Profile) -> Vec<bool> {
    if profile == Profile::Ext4Like {
        let all = rng.chance(keep);
        let prefix = if all { pending.len() } else { rng.index(pending.len() + 1) };
        return (0..pending.len()).map(|n| n < prefix).collect();
    }
    let mut blocked = Keys::new();
    let mut moves_blocked = false;
    let mut kept = Vec::with_capacity(pending.len());
    for operation in pending {
        let ordered = moves_blocked && operation.moves_folder;
        let survives = rng.chance(keep) && !ordered && !operation.touches(&blocked);
        if !survives {
            blocked.extend(operation.keys());
            moves_blocked |= operation.moves_folder;
        }
        kept.push(survives);
    }
    kept
}
