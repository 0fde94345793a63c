//! Part files that earlier transfers left: those of other versions of a target are removed when a new one comes for it.
//!
//! Finding them means reading the folder, which is done once for a folder and not for each of its files. What is remembered is the part files alone,
//! of [`FOLDERS_MAX`] folders.

use super::failure::failed;
use crate::part::{self, PartName};
use holdfast_base::{DrivePath, Result};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, flock, openat, unlinkat};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Folders whose part files are remembered: files of one folder come near each other.
const FOLDERS_MAX: usize = 128;
/// Part files that are remembered of one folder.
const PARTS_MAX: usize = 10_000;

/// None until the folder was read.
type Found = Arc<Mutex<Option<Vec<String>>>>;

/// What was found in folders.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Mutex<VecDeque<(DrivePath, Found)>>);

impl Leftovers {
    /// Removes part files of other versions of a target.
    pub(super) fn clear(&self, target: &DrivePath, folder: &OwnedFd, name: &PartName) -> Result<()> {
        let found = self.found_in(target.parent().unwrap_or_default());
        let mut found = found.lock();
        if found.is_none() {
            let parts = parts_in(folder, PARTS_MAX).map_err(|errno| failed("listing the folder of", target, errno))?;
            *found = Some(parts);
        }
        let Some(parts) = found.as_ref() else { return Ok(()) };
        parts.iter().filter(|part| name.is_stale(part)).for_each(|part| remove_unused(folder, part));
        Ok(())
    }

    /// A part is being made, of which the next version has to be rid.
    pub(super) fn made(&self, target: &DrivePath, name: &PartName) {
        if let Some(parts) = self.found_in(target.parent().unwrap_or_default()).lock().as_mut() {
            parts.extend(
                [name.part(), name.journal()].into_iter().filter(|made| !parts.contains(made)).collect::<Vec<_>>(),
            );
        }
    }

    fn found_in(&self, folder: DrivePath) -> Found {
        let mut folders = self.0.lock();
        if let Some((_, found)) = folders.iter().find(|(path, _)| *path == folder) {
            return Arc::clone(found);
        }
        if folders.len() == FOLDERS_MAX {
            folders.pop_front();
        }
        let found = Found::default();
        folders.push_back((folder, Arc::clone(&found)));
        found
    }
}

/// Removes all part files of a folder that nobody is writing.
pub(super) fn clear_folder(folder: &OwnedFd) -> rustix::io::Result<()> {
    parts_in(folder, usize::MAX)?.iter().for_each(|part| remove_unused(folder, part));
    Ok(())
}

fn parts_in(folder: &OwnedFd, limit: usize) -> rustix::io::Result<Vec<String>> {
    let mut parts = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        match entry.file_name().to_str() {
            Ok(name) if part::is_part(name) && parts.len() < limit => parts.push(name.to_owned()),
            _ => {}
        }
    }
    Ok(parts)
}

/// Removes a part file or journal, unless a transfer is writing it.
fn remove_unused(folder: &OwnedFd, name: &str) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let part = name.strip_suffix(part::JOURNAL).map_or_else(|| name.to_owned(), |stem| format!("{stem}{}", part::PART));
    // The lock is on the part, of which the journal is a companion; without a part, nobody writes.
    let used = openat(folder, &part, flags, Mode::empty())
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err());
    if !used && let Err(error) = unlinkat(folder, name, AtFlags::empty()) {
        tracing::debug!(%error, name, "what an earlier transfer left could not be removed");
    }
}
