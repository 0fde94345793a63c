//! The catalogue in SQLite: the embedded default.
//!
//! **How it works.** One thread writes ([`writer`]): operations queue up, run one after another in one transaction, each in a
//! savepoint, and are answered when the shared commit is on disk. Readers have connections of their own and, in WAL mode, wait
//! for nobody. Since there is one writer, an operation reads what it needs, changes it in memory and writes it back without
//! anything changing in between; another process (an administration command) is kept out by `BEGIN IMMEDIATE`. What the
//! operations do is in [`crate::sql`].
//!
//! **Limits.** One machine, one file, one writer: some 50 µs of processor for each small change, and a sync for each batch.
//! Changes another process makes are not told to those who follow changes. Page caches are bounded by named limits in
//! [`open`], the log by those in [`wal`], queues by those in [`writer`].

mod counter;
mod damage;
mod engine_impl;
mod fault;
mod link;
mod open;
mod readers;
mod row_sum;
mod rows;
mod shrink;
mod snapshot;
#[cfg(test)]
mod tests;
mod wal;
mod writer;

use crate::leases::Leases;
use holdfast_base::{Error, Result};
use open::Opener;
use readers::Readers;
use std::path::Path;
use std::sync::Arc;
use wal::LogKeeper;
use writer::Writer;

/// Connections for scans: two listings or a check may run beside each other, a third waits.
const SCANNERS: usize = 3;

/// How a catalogue is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections for point reads; about as many as there are threads that read at the same time.
    pub readers: usize,
    /// Pages the file may have at most, to simulate a full disk in tests.
    pub page_limit: Option<u32>,
}

impl Default for Options {
    /// One reader more than twice the cores, four at least: a runtime's threads and a few beside it.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self { readers: (2 * cores + 1).clamp(4, 64), page_limit: None }
    }
}

/// A catalogue in an SQLite database. Cheap to share in an `Arc`; closes itself when dropped, better by [`Self::close`].
pub struct SqliteCatalogue {
    writer: Writer,
    readers: Readers,
    scanners: Arc<Readers>,
    opener: Opener,
    leases: Arc<Leases>,
}

impl SqliteCatalogue {
    /// Opens the catalogue at `path`, which is made if it does not exist and brought up to this program's schema if it is older.
    /// A newer one is `Unsupported`, another kind of database `InvalidInput`, a damaged one `Damaged`.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let opener = Opener::new(path, options.page_limit);
        opener.prepare()?;
        let leases = Arc::<Leases>::default();
        let writer = Writer::start(opener.clone(), LogKeeper::start(&opener)?, leases.clone())?;
        let readers = Readers::new(opener.clone(), options.readers);
        let scanners = Arc::new(Readers::new(opener.clone(), SCANNERS));
        Ok(Self { writer, readers, scanners, opener, leases })
    }

    /// Lets queued operations finish, copies the log into the file and closes it. Later operations are `Unavailable`.
    pub async fn close(self: Arc<Self>) -> Result<()> {
        tokio::task::spawn_blocking(move || self.writer.stop())
            .await
            .map_err(|error| Error::internal("closing the catalogue failed").with_source(error))
    }
}

impl Drop for SqliteCatalogue {
    fn drop(&mut self) {
        self.writer.stop();
    }
}

impl std::fmt::Debug for SqliteCatalogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteCatalogue").field("path", &self.opener.path()).finish_non_exhaustive()
    }
}
