//! Part files that earlier transfers left: those of other versions of a target are removed when a new one comes for it.
//!
//! They are seen when a folder is listed; one that was not is listed once for this. What is remembered is the part files alone, of [`FOLDERS_MAX`] folders.
//! Nobody can say whether somebody is writing one: whose part is removed begins anew.

use super::listing;
use super::place::Place;
use crate::part::PartName;
use holdfast_base::{DrivePath, Result};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Folders whose part files are remembered: files of one folder come near each other.
const FOLDERS_MAX: usize = 128;
/// Part files that are remembered of one folder.
const PARTS_MAX: usize = 10_000;

/// What was found in folders.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Mutex<VecDeque<(DrivePath, Arc<Vec<String>>)>>);

impl Leftovers {
    /// Keeps the part files of a folder in mind.
    pub(super) fn know(&self, folder: &DrivePath, mut parts: Vec<String>) {
        let mut folders = self.0.lock();
        folders.retain(|(path, _)| path != folder);
        if folders.len() >= FOLDERS_MAX {
            folders.pop_front();
        }
        parts.truncate(PARTS_MAX);
        folders.push_back((folder.clone(), Arc::new(parts)));
    }

    /// A part was made, of which another version may have to be rid.
    pub(super) fn made(&self, target: &DrivePath, name: &PartName) {
        let folder = target.parent().unwrap_or_default();
        let mut folders = self.0.lock();
        if let Some((_, parts)) = folders.iter_mut().find(|(path, _)| *path == folder) {
            let mut more = parts.to_vec();
            more.extend([name.part(), name.journal()].into_iter().filter(|made| !parts.contains(made)));
            *parts = Arc::new(more);
        }
    }

    /// Removes part files of other versions of a target.
    pub(super) async fn clear(&self, target: &DrivePath, place: &Place, name: &PartName) -> Result<()> {
        let folder = target.parent().unwrap_or_default();
        if self.of(&folder).is_none() {
            let path = place.beside("");
            let path = path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or("/");
            self.know(&folder, listing::parts(&place.session, path).await?);
        }
        for part in self.of(&folder).iter().flat_map(|parts| parts.iter()).filter(|part| name.is_stale(part)) {
            place.unlink(&place.beside(part)).await;
        }
        Ok(())
    }

    fn of(&self, folder: &DrivePath) -> Option<Arc<Vec<String>>> {
        self.0.lock().iter().find(|(path, _)| path == folder).map(|(_, parts)| Arc::clone(parts))
    }
}
