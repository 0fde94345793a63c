//! Listing a folder, page by page.
//!
//! The kernel goes on from a number. A number counts the entries this handle has given out; the next page begins after the name of
//! the last, so whatever is made or removed meanwhile, what stays is listed once. Going back to an earlier number reads again from the
//! beginning: memory is one page, whatever the folder.

use crate::core::Core;
use holdfast_base::{NodeId, NodeName, Result};
use holdfast_drive::Entry;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries of a page: some fifty fit one request of 4 KiB, and ten thousand are read in some tens of milliseconds.
const PAGE: usize = 512;
/// Numbers before the first member: the folder itself and the one above.
pub(crate) const DOTS: u64 = 2;

/// Folders that programs are reading.
#[derive(Default)]
pub(crate) struct Folders {
    open: Mutex<HashMap<u64, Arc<tokio::sync::Mutex<Listing>>>>,
    next: AtomicU64,
}

impl Folders {
    /// A handle on a folder.
    pub(crate) fn open(&self, folder: NodeId) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(number, Arc::new(tokio::sync::Mutex::new(Listing::new(folder))));
        number
    }

    /// The listing of a handle.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<tokio::sync::Mutex<Listing>>> {
        self.open.lock().get(&number).cloned()
    }

    /// Gives a handle up.
    pub(crate) fn close(&self, number: u64) {
        self.open.lock().remove(&number);
    }
}

/// Where a handle is.
pub(crate) struct Listing {
    pub(crate) folder: NodeId,
    /// The number of the first entry of `page`.
    first: u64,
    page: Vec<Entry>,
    ended: bool,
}

impl Listing {
    fn new(folder: NodeId) -> Self {
        Self { folder, first: DOTS, page: Vec::new(), ended: false }
    }

    /// Entries from number `from` on, none at the end; and the tree's number before it was asked for them ([`Tree::unchanged`](holdfast_drive::Tree::unchanged)).
    /// It is none of what was asked for at an earlier request: programs here may have changed any of that since.
    pub(crate) async fn from(&mut self, core: &Core, from: u64) -> Result<(&[Entry], Option<u64>)> {
        if from < self.first || (from == DOTS && self.first == DOTS) {
            *self = Self::new(self.folder);
        }
        let mut asked = None;
        while from >= self.first + self.page.len() as u64 && !self.ended {
            let after = self.page.last().map(|entry| NodeName::new(&entry.node.name)).transpose()?;
            self.first += self.page.len() as u64;
            asked = core.tree.unchanged();
            self.page = core.tree.list(self.folder, after.as_ref(), PAGE).await?;
            self.ended = self.page.len() < PAGE;
            for entry in &self.page {
                core.look_for_holes(entry).await;
            }
        }
        let skipped = usize::try_from(from - self.first).unwrap_or(usize::MAX);
        Ok((self.page.get(skipped..).unwrap_or_default(), asked))
    }
}
