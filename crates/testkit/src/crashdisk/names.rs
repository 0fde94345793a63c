//! Operations on names: applied at once for programs, logged until a sync for the disk.

use std::ffi::OsStr;
use std::time::SystemTime;

use fuser::{Errno, RenameFlags};

use super::journal::{Change, MAX_PENDING, Operation};
use super::state::{Ino, Inode, Node, Owner, State};

/// Bytes in one name, as on the usual Linux file systems.
const MAX_NAME_BYTES: usize = 255;

impl State {
    /// Makes a new inode under a name.
    pub(crate) fn create(&mut self, parent: Ino, name: &OsStr, node: Node, owner: Owner) -> Result<Ino, Errno> {
        check_name(name)?;
        if self.folder(parent)?.entries.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        if self.inodes.len() >= self.config.max_inodes {
            return Err(Errno::ENOSPC);
        }
        let ino = self.next_ino;
        self.next_ino += 1;
        self.inodes.insert(ino, Inode::new(node, owner));
        self.change(vec![Change::new(parent, name, Some(ino))], false);
        Ok(ino)
    }

    pub(crate) fn link(&mut self, ino: Ino, parent: Ino, name: &OsStr) -> Result<(), Errno> {
        check_name(name)?;
        if matches!(self.inode(ino)?.node, Node::Folder(_)) {
            return Err(Errno::EPERM);
        }
        if self.folder(parent)?.entries.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.change(vec![Change::new(parent, name, Some(ino))], false);
        Ok(())
    }

    pub(crate) fn unlink(&mut self, parent: Ino, name: &OsStr) -> Result<(), Errno> {
        let ino = self.find(parent, name)?;
        if matches!(self.inode(ino)?.node, Node::Folder(_)) {
            return Err(Errno::EISDIR);
        }
        self.change(vec![Change::new(parent, name, None)], false);
        Ok(())
    }

    pub(crate) fn rmdir(&mut self, parent: Ino, name: &OsStr) -> Result<(), Errno> {
        let ino = self.find(parent, name)?;
        if !self.folder(ino)?.entries.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.change(vec![Change::new(parent, name, None)], false);
        Ok(())
    }

    /// Moves an entry over another one. The kernel has already refused moves into oneself.
    pub(crate) fn rename(&mut self, from: (Ino, &OsStr), to: (Ino, &OsStr), flags: RenameFlags) -> Result<(), Errno> {
        check_name(to.1)?;
        let moved = self.find(from.0, from.1)?;
        let replaced = self.folder(to.0)?.entries.get(to.1).copied();
        let exchange = flags.contains(RenameFlags::RENAME_EXCHANGE);
        match replaced {
            None if exchange => return Err(Errno::ENOENT),
            Some(_) if flags.contains(RenameFlags::RENAME_NOREPLACE) => {
                return Err(Errno::EEXIST);
            }
            Some(replaced) if replaced == moved => return Ok(()),
            Some(replaced) if !exchange => self.check_replace(moved, replaced)?,
            _ => {}
        }
        let moves_folder = [Some(moved), replaced.filter(|_| exchange)]
            .into_iter()
            .flatten()
            .any(|ino| matches!(self.inodes[&ino].node, Node::Folder(_)));
        let left_behind = replaced.filter(|_| exchange);
        self.change(vec![Change::new(from.0, from.1, left_behind), Change::new(to.0, to.1, Some(moved))], moves_folder);
        Ok(())
    }

    fn check_replace(&self, moved: Ino, replaced: Ino) -> Result<(), Errno> {
        match (&self.inode(moved)?.node, &self.inode(replaced)?.node) {
            (Node::Folder(_), Node::Folder(gone)) if gone.entries.is_empty() => Ok(()),
            (Node::Folder(_), Node::Folder(_)) => Err(Errno::ENOTEMPTY),
            (Node::Folder(_), _) => Err(Errno::ENOTDIR),
            (_, Node::Folder(_)) => Err(Errno::EISDIR),
            _ => Ok(()),
        }
    }

    /// Makes chosen pending operations durable.
    pub(crate) fn commit(&mut self, choose: impl FnOnce(&[Operation]) -> Vec<bool>) {
        let chosen = choose(&self.pending);
        let pending = std::mem::take(&mut self.pending);
        for (operation, chosen) in pending.into_iter().zip(chosen) {
            if chosen {
                operation.changes.iter().for_each(|c| self.store(c));
            } else {
                self.pending.push(operation);
            }
        }
    }

    /// Puts one change into the durable entries.
    fn store(&mut self, change: &Change) {
        let old = match self.folder_mut(change.folder) {
            Ok(folder) => match change.target {
                Some(target) => folder.durable.insert(change.name.clone(), target),
                None => folder.durable.remove(&change.name),
            },
            // The folder itself is gone from the disk; what the change named loses its reference.
            Err(_) => change.target,
        };
        if let Some(old) = old {
            self.drop_stored(old);
        }
    }

    /// Applies an operation to the current entries and logs it.
    fn change(&mut self, changes: Vec<Change>, moves_folder: bool) {
        let now = SystemTime::now();
        let mut dropped = Vec::new();
        for change in &changes {
            let Some(Inode { node: Node::Folder(folder), modified, changed, .. }) = self.inodes.get_mut(&change.folder)
            else {
                continue;
            };
            (*modified, *changed) = (now, now);
            let old = match change.target {
                Some(target) => folder.entries.insert(change.name.clone(), target),
                None => folder.entries.remove(&change.name),
            };
            dropped.extend(old);
            if let Some(target) = change.target.and_then(|ino| self.inodes.get_mut(&ino)) {
                target.links += 1;
                target.stored_links += 1;
                target.changed = now;
                target.place = (change.folder, change.name.clone());
            }
        }
        for ino in dropped {
            if let Some(inode) = self.inodes.get_mut(&ino) {
                inode.links -= 1;
                inode.changed = now;
            }
            self.collect(ino);
        }
        self.pending.push(Operation { changes, moves_folder });
        if self.pending.len() > MAX_PENDING {
            let half = MAX_PENDING / 2;
            self.commit(|pending| (0..pending.len()).map(|n| n < half).collect());
        }
    }
}

fn check_name(name: &OsStr) -> Result<(), Errno> {
    match name.len() {
        0..=MAX_NAME_BYTES => Ok(()),
        _ => Err(Errno::ENAMETOOLONG),
    }
}
