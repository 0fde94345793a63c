//! What a transfer says while it runs, and at its end.

use crate::network::Network;
use holdfast_base::{DrivePath, ErrorKind};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Failures that are kept for the end; all are told when they happen, and counted.
const FAILURES_KEPT: usize = 1_000;

/// A change of the destination or the source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Act {
    /// Where, below the site's root.
    pub path: DrivePath,
    /// What.
    pub what: What,
}

/// What is changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A folder is made.
    Folder,
    /// A file arrives.
    File {
        /// Its size.
        bytes: u64,
        /// Whether something else was there.
        replaces: bool,
    },
    /// A link arrives.
    Link {
        /// What it says.
        to: String,
        /// Whether something else was there.
        replaces: bool,
    },
    /// Something is removed at the destination.
    Delete,
    /// A file or link is removed at the source.
    DeleteSource,
}

/// Something happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// In a dry run: this would be done.
    Would(Act),
    /// This was done.
    Did(Act),
    /// Something is left out, for this reason.
    Skipped(DrivePath, &'static str),
    /// A file is tried again after a while.
    Retry {
        /// Which.
        path: DrivePath,
        /// Why.
        why: String,
        /// After how long.
        wait: Duration,
    },
    /// Something failed for good.
    Failed(Failure),
}

/// Something that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What, as far as it can be shown.
    pub path: String,
    /// Why.
    pub kind: ErrorKind,
    /// Why, for a person.
    pub message: String,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How far a transfer is. Counters only grow.
        #[derive(Debug, Default)]
        pub struct Progress {
            $($(#[$doc])* pub(crate) $name: AtomicU64,)*
            pub(crate) walked: AtomicBool,
            pub(crate) under_way: Mutex<BTreeMap<u64, UnderWay>>,
            pub(crate) next_id: AtomicU64,
        }

        /// Counters of a transfer.
        #[derive(Debug, Clone, Default)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Each with its name.
            pub fn each(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        impl Progress {
            /// The counters as they are now.
            pub fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Files and links that were found and not filtered out.
    found,
    /// Bytes they have.
    found_bytes,
    /// Those that were dealt with, in whatever way.
    settled,
    /// Bytes those have.
    settled_bytes,
    /// Files that arrived.
    files,
    /// Links that arrived.
    links,
    /// Folders that were made.
    folders,
    /// Bytes that were moved, those that were moved again included.
    moved_bytes,
    /// Bytes of files that arrived which an earlier try had brought.
    stood_bytes,
    /// Files and links that were there already.
    same,
    /// Those that were left out because of what is there.
    skipped,
    /// What failed.
    failed,
    /// What was removed at the destination.
    deleted,
    /// What was removed at the source.
    deleted_source,
    /// Tries that were repeated.
    retries,
}

/// A file that is being moved.
#[derive(Debug, Clone)]
pub struct UnderWay {
    /// Where it is to be.
    pub path: DrivePath,
    /// Bytes it has.
    pub size: u64,
    /// Bytes that arrived.
    pub arrived: Arc<AtomicU64>,
}

impl Progress {
    /// Whether everything was found, so that `found` is final.
    pub fn is_walked(&self) -> bool {
        self.walked.load(Ordering::Relaxed)
    }

    /// Files being moved, in the order in which they were begun, with bytes that arrived.
    pub fn under_way(&self) -> Vec<UnderWay> {
        self.under_way.lock().values().cloned().collect()
    }

    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Shows a file as being moved until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, path: &DrivePath, size: u64) -> Shown {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let arrived = Arc::new(AtomicU64::new(0));
        let shown = UnderWay { path: path.clone(), size, arrived: Arc::clone(&arrived) };
        self.under_way.lock().insert(id, shown);
        Shown { progress: Arc::clone(self), id, arrived }
    }
}

/// A file shown as being moved.
pub(crate) struct Shown {
    progress: Arc<Progress>,
    id: u64,
    pub(crate) arrived: Arc<AtomicU64>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.progress.under_way.lock().remove(&self.id);
    }
}

/// How a transfer ended.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Counters.
    pub counts: Counts,
    /// What failed; the first of it, if it is much.
    pub failures: Vec<Failure>,
    /// Whether it was told to stop before its end.
    pub stopped: bool,
    /// Why nothing was removed at the destination, if something was to be.
    pub kept: Option<String>,
    /// How long it took.
    pub took: Duration,
    /// How the network was at the end, if one end is a drive.
    pub network: Option<Network>,
}

impl Report {
    pub(crate) fn keep(failures: &mut Vec<Failure>, failure: Failure) {
        if failures.len() < FAILURES_KEPT {
            failures.push(failure);
        }
    }
}
