//! Where a file arrives that has another path at the destination than at the source.
//!
//! The destination is not walked beside the source then, so each place is looked at by itself. A place is had by the first file that comes to it; what
//! comes later fails. Of each place a fingerprint of 16 bytes is kept, [`CLAIMS_MAX`] at most.

use super::folders::Folder;
use super::run::Run;
use super::walk::Spot;
use crate::site::Item;
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Files that one transfer can rename: their fingerprints take some 70 MB.
const CLAIMS_MAX: usize = 2_000_000;
/// Folders that are remembered, so that files of one folder ask for it once.
const FOLDERS_MAX: usize = 10_000;

/// Places of the destination that are taken, and folders above them.
#[derive(Default)]
pub(super) struct Claims {
    places: Mutex<HashSet<[u8; 16]>>,
    folders: Mutex<HashMap<DrivePath, Arc<Folder>>>,
}

/// A place, what is there, and its folder.
type Placed = (DrivePath, Option<Item>, Arc<Folder>);

/// Where a file goes that is renamed; none if nothing is.
pub(super) async fn place(run: &Run, spot: &Spot, named: &DrivePath, item: &Item) -> Result<Option<Placed>> {
    let Some(rename) = &run.options.rename else { return Ok(None) };
    // Something that was named itself arrives beside where it would have arrived.
    let base = if spot.named.is_root() { spot.to.parent().unwrap_or_default() } else { base_of(spot)? };
    let new = (rename.0)(named, item)?;
    let mut to = base;
    for name in new.names() {
        to = to.join(name.clone())?;
    }
    let above = match to.parent() {
        Some(above) if !new.is_root() => above,
        _ => return Err(Error::invalid("its new name is empty")),
    };
    run.claims.take(&to)?;
    let folder = run.claims.folder(run, above).await?;
    let there = if folder.is_made() { run.persist(&to, || run.destination.look(&to)).await? } else { None };
    Ok(Some((to, there, folder)))
}

/// Where arrives what was named: the place without what is below that.
fn base_of(spot: &Spot) -> Result<DrivePath> {
    let depth = spot.to.names().len().saturating_sub(spot.named.names().len());
    DrivePath::from_names(spot.to.names()[..depth].to_vec())
}

impl Claims {
    fn take(&self, place: &DrivePath) -> Result<()> {
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&blake3::hash(place.to_string().as_bytes()).as_bytes()[..16]);
        let mut places = self.places.lock();
        if places.len() >= CLAIMS_MAX {
            let what = format!("one transfer can rename {CLAIMS_MAX} files at most");
            return Err(Error::new(ErrorKind::TooLarge, what));
        }
        if !places.insert(fingerprint) {
            let what = format!("another file of the source has the new name {place} already");
            return Err(Error::new(ErrorKind::AlreadyExists, what));
        }
        Ok(())
    }

    async fn folder(&self, run: &Run, path: DrivePath) -> Result<Arc<Folder>> {
        if let Some(folder) = self.folders.lock().get(&path) {
            return Ok(Arc::clone(folder));
        }
        // Those that are to be made are shared by all below them, so that each is made once.
        let mut above = Folder::there(DrivePath::root(), None);
        for name in path.names() {
            let below = above.path.join(name.clone())?;
            let known = self.folders.lock().get(&below).cloned();
            above = match known {
                Some(known) => known,
                None => self.keep(Folder::look(run, below, above).await?),
            };
        }
        Ok(above)
    }

    fn keep(&self, folder: Arc<Folder>) -> Arc<Folder> {
        let mut folders = self.folders.lock();
        if folders.len() >= FOLDERS_MAX {
            folders.clear();
        }
        folders.insert(folder.path.clone(), Arc::clone(&folder));
        folder
    }
}
