//! What was seen at a path while the connection was made: a transfer's first questions are answered by that, for a while and once each.

use holdfast_base::DrivePath;
use holdfast_drive::{Entry, NodeKind};
use holdfast_remote::wire::Seen;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Older than this it is asked anew.
const FRESH: Duration = Duration::from_secs(20);

/// Answers that are there already.
#[derive(Debug)]
pub(super) struct First {
    path: DrivePath,
    seen_at: Instant,
    /// One or none, until it is asked for.
    found: Mutex<Option<Vec<Entry>>>,
    members: Mutex<Option<Vec<Entry>>>,
}

impl First {
    pub(super) fn new(path: DrivePath, seen: Seen) -> Self {
        let Seen { mut way, members, .. } = seen;
        let found: Vec<Entry> = way.drain((path.names().len()).min(way.len())..).take(1).collect();
        let is_folder = found.first().is_some_and(|found| found.node.kind == NodeKind::Folder);
        let (found, members) = (Mutex::new(Some(found)), Mutex::new(is_folder.then_some(members)));
        Self { path, seen_at: Instant::now(), found, members }
    }

    fn is_for(&self, path: &DrivePath) -> bool {
        self.path == *path && self.seen_at.elapsed() < FRESH
    }

    /// What is at a path, if that is known: one entry, or none.
    pub(super) fn find(&self, path: &DrivePath) -> Option<Vec<Entry>> {
        self.is_for(path).then(|| self.found.lock().take()).flatten()
    }

    /// The first members of a folder, if they are known.
    pub(super) fn list(&self, folder: &DrivePath) -> Option<Vec<Entry>> {
        self.is_for(folder).then(|| self.members.lock().take()).flatten()
    }
}
