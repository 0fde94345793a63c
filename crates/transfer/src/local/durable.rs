//! Which folders' entries are known to be on the disk.
//!
//! A file is durable when its content is, its entry in its folder, and the entry of each folder above up to the site's root. Folders are made many at
//! a time and files finished many at a time, so what was synced since it last changed is remembered, and a folder is synced once for many files.

use super::root::Root;
use super::{failed, sync_folder};
use holdfast_base::{DrivePath, Result};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Folders that are remembered; of one that was forgotten nothing is known, so it is synced again.
const KNOWN_MAX: usize = 16_384;

/// When a folder's entries changed last, and up to which change they were synced.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    changed: u64,
    synced: Option<u64>,
}

/// What is known of the folders of a site.
#[derive(Debug, Default)]
pub(super) struct Durable {
    known: Mutex<(u64, HashMap<DrivePath, Known>)>,
}

impl Durable {
    /// An entry of `folder` changed.
    pub(super) fn changed(&self, root: &Root, folder: &DrivePath) -> Result<()> {
        if self.known.lock().1.len() >= KNOWN_MAX {
            self.settle(root)?;
            self.known.lock().1.retain(|_, known| known.synced != Some(known.changed));
        }
        let mut known = self.known.lock();
        known.0 += 1;
        let change = known.0;
        known.1.entry(folder.clone()).or_default().changed = change;
        Ok(())
    }

    /// Makes the entries durable that lead from the root to `folder`: those of all folders above it.
    pub(super) fn lead_to(&self, root: &Root, folder: &DrivePath) -> Result<()> {
        for depth in 0..folder.names().len() {
            let above = DrivePath::from_names(folder.names()[..depth].to_vec())?;
            self.sync(root, &above)?;
        }
        Ok(())
    }

    /// Makes every change durable.
    pub(super) fn settle(&self, root: &Root) -> Result<()> {
        let waiting: Vec<DrivePath> = {
            let known = self.known.lock();
            known
                .1
                .iter()
                .filter(|(_, known)| known.synced != Some(known.changed))
                .map(|(path, _)| path.clone())
                .collect()
        };
        for path in waiting {
            match self.sync(root, &path) {
                // Its removal is a change of the folder above.
                Err(error) if error.kind() == holdfast_base::ErrorKind::NotFound => {
                    self.known.lock().1.remove(&path);
                }
                done => done?,
            }
        }
        Ok(())
    }

    fn sync(&self, root: &Root, folder: &DrivePath) -> Result<()> {
        let before = *self.known.lock().1.entry(folder.clone()).or_default();
        if before.synced == Some(before.changed) {
            return Ok(());
        }
        let opened = root.folder(folder)?;
        sync_folder(&opened).map_err(|errno| failed("syncing", root.shown(folder), errno))?;
        // What changed meanwhile has a higher number, and stays to be synced.
        if let Some(known) = self.known.lock().1.get_mut(folder) {
            known.synced = known.synced.max(Some(before.changed));
        }
        Ok(())
    }
}
