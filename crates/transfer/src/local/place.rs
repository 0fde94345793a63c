//! A name in a folder where something is put, and putting it there in one step.

use super::failure::failed;
use super::item;
use super::root::Root;
use crate::site::{Item, Kind};
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// A name in an opened folder.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: OwnedFd,
    pub(super) name: NodeName,
    /// For messages.
    pub(super) shown: String,
}

impl Place {
    pub(super) fn of(root: &Root, path: &DrivePath) -> Result<Self> {
        let (folder, name) = root.parent(path)?;
        Ok(Self { folder, name: name.clone(), shown: root.shown(path) })
    }

    /// Refuses if anything else is there than what was listed.
    pub(super) fn check(&self, listed: Option<&Item>) -> Result<()> {
        let there = item::look(&self.folder, &self.name)?;
        let of = |kind, what: &str| Err(Error::new(kind, format!("{} {what}", self.shown)));
        match (&there, listed) {
            (None, None) => Ok(()),
            (Some(Item { kind: Kind::Folder, .. }), _) => of(ErrorKind::WrongKind, "is a folder"),
            (Some(there), Some(listed)) if there.version == listed.version => Ok(()),
            (Some(_), None) => of(ErrorKind::PreconditionFailed, "was made by somebody else meanwhile"),
            _ => of(ErrorKind::PreconditionFailed, "was changed by somebody else meanwhile"),
        }
    }

    /// Gives what is under `made` in the same folder this name, in place of what was listed or of nothing.
    pub(super) fn put(&self, made: &str, replaces: Option<&Item>) -> Result<()> {
        let to = self.name.as_str();
        if replaces.is_some() {
            self.check(replaces)?;
            return renameat(&self.folder, made, &self.folder, to).map_err(|errno| self.failed("naming", errno));
        }
        match renameat_with(&self.folder, made, &self.folder, to, RenameFlags::NOREPLACE) {
            // A file system that knows no such renaming refuses a second link to a name that is taken.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                linkat(&self.folder, made, &self.folder, to, AtFlags::empty()).map_err(|errno| self.taken(errno))?;
                self.unlink(made);
                Ok(())
            }
            put => put.map_err(|errno| self.taken(errno)),
        }
    }

    /// Removes a file of ours; one that is gone is as good, and one that stays is found by the next transfer.
    pub(super) fn unlink(&self, name: &str) {
        if let Err(error) = unlinkat(&self.folder, name, AtFlags::empty()) {
            tracing::debug!(%error, name, "a file of a transfer was left");
        }
    }

    pub(super) fn failed(&self, doing: &str, errno: Errno) -> Error {
        failed(doing, &self.shown, errno)
    }

    fn taken(&self, errno: Errno) -> Error {
        match errno {
            Errno::EXIST => {
                let what = format!("{} was made by somebody else meanwhile", self.shown);
                Error::new(ErrorKind::PreconditionFailed, what)
            }
            errno => self.failed("naming", errno),
        }
    }
}
