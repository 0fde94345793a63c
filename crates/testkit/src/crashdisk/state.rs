//! The disk's whole state: inodes, names, the log of pending operations.
//!
//! Pure data and rules; no kernel, no locks. An inode lives as long as the kernel, a current entry,
//! a durable entry or a pending operation knows it: a file that was removed without a sync of its
//! folder may be back after a power cut.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fuser::Errno;

use super::config::Config;
use super::file::FileData;
use super::journal::Operation;

/// An inode's number.
pub(crate) type Ino = u64;
/// The number FUSE gives the root.
pub(crate) const ROOT: Ino = 1;

/// Entries of a folder, as seen and as stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folder {
    pub(crate) entries: BTreeMap<OsString, Ino>,
    pub(crate) durable: BTreeMap<OsString, Ino>,
}

/// What an inode is.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    File(FileData),
    Folder(Box<Folder>),
    Link(PathBuf),
}

/// Owner and mode of an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) perm: u16,
}

/// A file, folder or symbolic link.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) node: Node,
    pub(crate) owner: Owner,
    pub(crate) accessed: SystemTime,
    pub(crate) modified: SystemTime,
    pub(crate) changed: SystemTime,
    /// Current entries that name it.
    pub(crate) links: u32,
    /// Durable entries and pending operations that name it.
    pub(crate) stored_links: u32,
    /// References the kernel holds (FUSE's lookup count).
    lookups: u64,
    /// Where it was last linked, for fault patterns.
    pub(crate) place: (Ino, OsString),
}

/// Everything the disk knows.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) inodes: BTreeMap<Ino, Inode>,
    pub(crate) pending: Vec<Operation>,
    pub(crate) next_ino: Ino,
    pub(crate) used_pages: u64,
}

impl State {
    /// A formatted disk: a root and nothing else.
    pub(crate) fn empty(config: Config) -> Self {
        let mut state =
            Self { config, inodes: BTreeMap::new(), pending: Vec::new(), next_ino: ROOT + 1, used_pages: 0 };
        let owner =
            Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw(), perm: 0o755 };
        state.inodes.insert(ROOT, Inode::new(Node::Folder(Box::default()), owner));
        state
    }

    pub(crate) fn inode(&self, ino: Ino) -> Result<&Inode, Errno> {
        self.inodes.get(&ino).ok_or(Errno::ESTALE)
    }

    pub(crate) fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode, Errno> {
        self.inodes.get_mut(&ino).ok_or(Errno::ESTALE)
    }

    pub(crate) fn folder(&self, ino: Ino) -> Result<&Folder, Errno> {
        match &self.inode(ino)?.node {
            Node::Folder(folder) => Ok(folder),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(crate) fn folder_mut(&mut self, ino: Ino) -> Result<&mut Folder, Errno> {
        match &mut self.inode_mut(ino)?.node {
            Node::Folder(folder) => Ok(folder),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(crate) fn file(&self, ino: Ino) -> Result<&FileData, Errno> {
        match &self.inode(ino)?.node {
            Node::File(file) => Ok(file),
            Node::Folder(_) => Err(Errno::EISDIR),
            Node::Link(_) => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn file_mut(&mut self, ino: Ino) -> Result<&mut FileData, Errno> {
        match &mut self.inode_mut(ino)?.node {
            Node::File(file) => Ok(file),
            Node::Folder(_) => Err(Errno::EISDIR),
            Node::Link(_) => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn find(&self, parent: Ino, name: &OsStr) -> Result<Ino, Errno> {
        let entry = self.folder(parent)?.entries.get(name);
        entry.copied().ok_or(Errno::ENOENT)
    }

    /// The inode at a path below the root.
    pub(crate) fn resolve(&self, path: &Path) -> Result<Ino, Errno> {
        let mut ino = ROOT;
        for part in path.components() {
            if let std::path::Component::Normal(name) = part {
                ino = self.find(ino, name)?;
            }
        }
        Ok(ino)
    }

    /// Where an inode was last linked, as a path below the root.
    pub(crate) fn path_of(&self, ino: Ino) -> PathBuf {
        let mut parts = Vec::new();
        let mut at = ino;
        // A path has at most as many parts as there are folders; the bound stops a walk through
        // places that no longer hold.
        while at != ROOT && parts.len() < self.inodes.len() {
            let Some(inode) = self.inodes.get(&at) else {
                break;
            };
            parts.push(inode.place.1.as_os_str());
            at = inode.place.0;
        }
        parts.iter().rev().collect()
    }

    pub(crate) fn remember(&mut self, ino: Ino) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.lookups += 1;
        }
    }

    pub(crate) fn forget(&mut self, ino: Ino, lookups: u64) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.lookups = inode.lookups.saturating_sub(lookups);
        }
        self.collect(ino);
    }

    pub(crate) fn drop_stored(&mut self, ino: Ino) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.stored_links -= 1;
        }
        self.collect(ino);
    }

    /// Frees an inode that nothing knows any more, and what only it knew.
    pub(crate) fn collect(&mut self, ino: Ino) {
        let unknown = |i: &Inode| i.lookups == 0 && i.links == 0 && i.stored_links == 0;
        if ino == ROOT || !self.inodes.get(&ino).is_some_and(unknown) {
            return;
        }
        match self.inodes.remove(&ino).map(|inode| inode.node) {
            Some(Node::File(file)) => self.used_pages -= file.page_count(),
            Some(Node::Folder(folder)) => {
                for child in folder.durable.into_values() {
                    self.drop_stored(child);
                }
            }
            _ => {}
        }
    }

    /// All folders with their durable entries.
    pub(crate) fn durable_folders(&self) -> BTreeMap<Ino, BTreeMap<OsString, Ino>> {
        let durable = |(&ino, inode): (&Ino, &Inode)| match &inode.node {
            Node::Folder(folder) => Some((ino, folder.durable.clone())),
            _ => None,
        };
        self.inodes.iter().filter_map(durable).collect()
    }

    /// Puts an inode of an earlier state into this one, without names yet.
    pub(crate) fn restore(&mut self, ino: Ino, earlier: &Inode, node: Node) {
        if let Node::File(file) = &node {
            self.used_pages += file.page_count();
        }
        let inode = Inode { node, links: 0, stored_links: 0, lookups: 0, ..earlier.clone() };
        self.inodes.insert(ino, inode);
    }

    /// Names a restored inode, durably.
    pub(crate) fn restore_entry(&mut self, folder: Ino, name: &OsStr, ino: Ino) {
        if let Ok(folder) = self.folder_mut(folder) {
            folder.entries.insert(name.to_owned(), ino);
            folder.durable.insert(name.to_owned(), ino);
        }
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.links += 1;
            inode.stored_links += 1;
            inode.place = (folder, name.to_owned());
        }
    }

    /// Numbers of lost inodes are not given out again: a stale number must not find a new file.
    pub(crate) fn finish_restore(&mut self, next_ino: Ino) {
        self.next_ino = next_ino;
    }
}

impl Inode {
    pub(crate) fn new(node: Node, owner: Owner) -> Self {
        let now = SystemTime::now();
        Self {
            node,
            owner,
            accessed: now,
            modified: now,
            changed: now,
            links: 0,
            stored_links: 0,
            lookups: 0,
            place: (ROOT, OsString::new()),
        }
    }
}
