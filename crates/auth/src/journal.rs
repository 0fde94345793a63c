//! The log of who did what, as the faces write it: what comes with a change is written with it ([`holdfast_meta::audit`]), the rest
//! waits here for a moment and is written together.
//!
//! Nobody waits for it. What is the same and comes again within a second (a program that tries passwords) is one entry that says how
//! often. At most [`WAITING_MAX`] entries wait; what is beyond is counted, and the log says how many are missing. When the catalogue does not
//! answer they go on waiting. The log keeps so many days and so many entries, whichever is less.

use holdfast_base::{Clock, Result};
use holdfast_meta::{AuditNote, Catalogue};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Entries that wait at most: some megabytes.
pub const WAITING_MAX: usize = 2_000;
/// Between two writes.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Between two looks for what is too old.
const TRIM_EVERY: Duration = Duration::from_mins(10);
/// Entries removed in one transaction.
const TRIM_ROWS: usize = 1_000;
const DAY_MS: i64 = 86_400_000;

/// What the log keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOptions {
    /// Name of the node.
    pub node: String,
    /// Days an entry is kept.
    pub days: u32,
    /// Entries kept at most.
    pub rows_max: usize,
    /// Whether changes of files are written down, too.
    pub files: bool,
}

/// Writes the log. Clones share everything.
#[derive(Clone)]
pub struct Journal(Arc<Inner>);

struct Inner {
    catalogue: Arc<dyn Catalogue>,
    clock: Arc<dyn Clock>,
    options: JournalOptions,
    waiting: Mutex<Waiting>,
    came: Notify,
}

#[derive(Default)]
struct Waiting {
    notes: Vec<AuditNote>,
    /// What failed, by who, where and what: how often, and where its entry is.
    again: HashMap<Sameness, (usize, u64)>,
    lost: u64,
}

/// What makes two failures the same: account, address, action, object and result.
type Sameness = [String; 5];

impl Journal {
    /// For a node.
    pub fn new(catalogue: Arc<dyn Catalogue>, clock: Arc<dyn Clock>, options: JournalOptions) -> Self {
        Self(Arc::new(Inner { catalogue, clock, options, waiting: Mutex::default(), came: Notify::new() }))
    }

    /// Whether changes of files are written down.
    pub fn keeps_files(&self) -> bool {
        self.0.options.files
    }

    /// An entry about something that happens now.
    pub fn note(&self, account: &str, address: Option<IpAddr>, action: &str) -> AuditNote {
        AuditNote {
            at_ms: self.0.clock.now_ms(),
            account: account.to_owned(),
            address: address.map(|address| address.to_string()).unwrap_or_default(),
            node: self.0.options.node.clone(),
            action: action.to_owned(),
            result: "ok".to_owned(),
            ..AuditNote::default()
        }
    }

    /// Has an entry written soon.
    pub fn add(&self, note: AuditNote) {
        let note = note.bounded();
        let mut waiting = self.0.waiting.lock();
        if note.result != "ok" {
            let key = [&note.account, &note.address, &note.action, &note.object, &note.result].map(Clone::clone);
            if let Some((at, times)) = waiting.again.get_mut(&key) {
                *times += 1;
                let (at, times) = (*at, *times);
                if let Some(first) = waiting.notes.get_mut(at) {
                    first.detail = format!("{times} times");
                }
                return;
            }
            let at = waiting.notes.len();
            if at < WAITING_MAX {
                waiting.again.insert(key, (at, 1));
            }
        }
        if waiting.notes.len() < WAITING_MAX {
            waiting.notes.push(note);
        } else {
            waiting.lost += 1;
        }
        drop(waiting);
        self.0.came.notify_one();
    }

    /// Writes what waits.
    pub async fn flush(&self) -> Result<()> {
        let mut taken = std::mem::take(&mut *self.0.waiting.lock());
        if taken.lost > 0 {
            let lost = AuditNote { detail: format!("{} entries", taken.lost), ..self.note("", None, "audit.lost") };
            taken.notes.push(lost);
        }
        if taken.notes.is_empty() {
            return Ok(());
        }
        let written = self.0.catalogue.add_audit(taken.notes.clone()).await;
        if written.is_err() {
            let mut waiting = self.0.waiting.lock();
            taken.notes.append(&mut waiting.notes);
            waiting.lost += taken.notes.len().saturating_sub(WAITING_MAX) as u64;
            taken.notes.truncate(WAITING_MAX);
            waiting.notes = taken.notes;
            // Their places have changed.
            waiting.again.clear();
        }
        written
    }

    /// Removes what is too old or too much.
    pub async fn trim(&self) -> Result<()> {
        let Inner { catalogue, clock, options, .. } = &*self.0;
        let oldest_ms = clock.now_ms().saturating_sub(i64::from(options.days).saturating_mul(DAY_MS));
        while catalogue.trim_audit(oldest_ms, options.rows_max, TRIM_ROWS).await? > 0 {}
        Ok(())
    }

    /// Writes and trims until it is dropped.
    pub async fn keep(self) {
        let mut trim = tokio::time::interval(TRIM_EVERY);
        loop {
            tokio::select! {
                () = self.0.came.notified() => {
                    tokio::time::sleep(WRITE_EVERY).await;
                    if let Err(error) = self.flush().await {
                        tracing::warn!(%error, "entries of the audit log could not be written and wait");
                        self.0.came.notify_one();
                    }
                }
                _ = trim.tick() => {
                    if let Err(error) = self.trim().await {
                        tracing::warn!(%error, "old entries of the audit log could not be removed; it is tried again");
                    }
                }
            }
        }
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Journal").field(&self.0.options).finish()
    }
}
