//! Which folders' entries are known to be on the server's disk.
//!
//! A folder is synced by opening it as a file and asking for that to be synced, which OpenSSH does on the systems that have it. Where a server cannot, its
//! file system has the last word. Of files that are finished at the same time in one folder, one sync serves all.

use super::failure::Status;
use super::folders::Root;
use super::session::Session;
use super::wire::{Attrs, OPEN_READ, code};
use holdfast_base::{DrivePath, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Folders that are remembered; of one that was forgotten nothing is known, so it is synced again.
const KNOWN_MAX: usize = 16_384;

/// A folder: how often its entries changed, and up to which change they were synced.
#[derive(Debug, Default)]
struct Known {
    changes: AtomicU64,
    synced: tokio::sync::Mutex<Option<u64>>,
}

/// What is known of the folders of a site.
#[derive(Debug, Default)]
pub(super) struct Durable {
    known: Mutex<HashMap<DrivePath, Arc<Known>>>,
    /// Whether the server syncs folders.
    can: bool,
}

impl Durable {
    /// Finds out whether the server syncs folders, with one that is there. Later it is an error if it does not.
    pub(super) async fn of(session: &Arc<Session>, folder: &str) -> Result<Self> {
        let synced = if session.can.sync { Some(sync_folder(session, folder).await?) } else { None };
        let can = matches!(synced, Some(Ok(())));
        if !can {
            tracing::debug!(?synced, folder, "the server does not sync folders");
        }
        Ok(Self { known: Mutex::default(), can })
    }

    /// An entry of `folder` changed.
    pub(super) async fn changed(&self, session: &Arc<Session>, root: &Root, folder: &DrivePath) -> Result<()> {
        if !self.can {
            return Ok(());
        }
        if self.known.lock().len() >= KNOWN_MAX {
            self.settle(session, root).await?;
            self.known.lock().retain(|_, known| known.is_waiting());
        }
        self.known.lock().entry(folder.clone()).or_default().changes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Makes the entries durable that lead from the root to what is in `folder`.
    pub(super) async fn lead_into(&self, session: &Arc<Session>, root: &Root, folder: &DrivePath) -> Result<()> {
        for depth in (0..=folder.names().len()).rev() {
            let above = DrivePath::from_names(folder.names()[..depth].to_vec())?;
            self.sync(session, root, &above).await?;
        }
        Ok(())
    }

    /// Makes every change durable.
    pub(super) async fn settle(&self, session: &Arc<Session>, root: &Root) -> Result<()> {
        for path in self.waiting() {
            self.sync(session, root, &path).await?;
        }
        Ok(())
    }

    fn waiting(&self) -> Vec<DrivePath> {
        let known = self.known.lock();
        known.iter().filter(|(_, known)| known.is_waiting()).map(|(path, _)| path.clone()).collect()
    }

    async fn sync(&self, session: &Arc<Session>, root: &Root, folder: &DrivePath) -> Result<()> {
        if !self.can {
            return Ok(());
        }
        let known = Arc::clone(self.known.lock().entry(folder.clone()).or_default());
        let wanted = known.changes.load(Ordering::SeqCst);
        let mut synced = known.synced.lock().await;
        if synced.is_some_and(|synced| synced >= wanted) {
            return Ok(());
        }
        // Who waits meanwhile is served as well, if the change was before this.
        let now = known.changes.load(Ordering::SeqCst);
        crate::signs::current().alive();
        match sync_folder(session, &root.at(folder)).await? {
            Ok(()) => *synced = Some(now),
            // Its removal is a change of the folder above.
            Err(status) if status.is_missing() => drop(self.known.lock().remove(folder)),
            Err(status) => return Err(status.error("syncing", root.at(folder))),
        }
        Ok(())
    }
}

/// Syncs a folder. One that may be written and not read cannot be, which is no failure of it.
async fn sync_folder(session: &Arc<Session>, path: &str) -> Result<Result<(), Status>> {
    match session.open(path, OPEN_READ, &Attrs::default()).await? {
        Ok(handle) => session.tell(handle.sync()).await,
        Err(status) if status.code == code::PERMISSION_DENIED => Ok(Ok(())),
        Err(status) => Ok(Err(status)),
    }
}

impl Known {
    /// Whether something may be left to sync. What is being synced is.
    fn is_waiting(&self) -> bool {
        let changes = self.changes.load(Ordering::SeqCst);
        changes > 0 && self.synced.try_lock().map_or(true, |synced| synced.is_none_or(|synced| synced < changes))
    }
}
