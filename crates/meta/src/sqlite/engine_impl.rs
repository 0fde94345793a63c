//! What SQLite gives the operations.

use super::{SqliteCatalogue, damage, rows};
use crate::catalogue::Change;
use crate::leases::Leases;
use crate::sql::check::Part;
use crate::sql::engine::{Engine, Reading, Scope};
use crate::sql::fault::{Done, Fault};
use crate::sql::seam::Link;
use crate::sql::tx::Tx;
use crate::types::Durable;
use holdfast_base::{Error, Result};
use std::sync::Arc;
use tokio::sync::broadcast;

impl Engine for SqliteCatalogue {
    /// A look-up a name.
    const SHARED: bool = false;
    const WALK: Reading = Reading::Snapshot;

    /// Tens of milliseconds, where they stop nobody.
    const SEARCH: Reading = Reading::Scan;

    const OWN_PARTS: &'static [Part] = &[damage::check, rows::check];

    /// Point reads run right here; a scan runs where it stops nobody.
    async fn read<T, F>(&self, reading: Reading, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&dyn Link) -> Done<T> + Send + 'static,
    {
        match reading {
            Reading::Point => self.readers.read(|connection| read(connection)),
            Reading::Snapshot => self.readers.read_snapshot(|connection| read(connection)),
            Reading::Scan => {
                let scanners = Arc::clone(&self.scanners);
                tokio::task::spawn_blocking(move || scanners.read_snapshot(|connection| read(connection)))
                    .await
                    .map_err(|error| Error::internal("a read of the catalogue met a defect").with_source(error))?
            }
        }
    }

    fn read_here<T>(&self, reading: Reading, read: impl FnOnce(&dyn Link) -> Done<T>) -> Option<Result<T>> {
        match reading {
            Reading::Point => Some(self.readers.read(|connection| read(connection))),
            Reading::Snapshot => Some(self.readers.read_snapshot(|connection| read(connection))),
            Reading::Scan => None,
        }
    }

    async fn submit<T, F>(
        &self,
        name: &'static str,
        scope: Scope,
        work: F,
        explain: fn(Fault) -> Result<T>,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Done<T> + Send + 'static,
    {
        self.submit_when(name, scope, work, explain, Durable::Now).await
    }

    async fn submit_when<T, F>(
        &self,
        name: &'static str,
        scope: Scope,
        work: F,
        explain: fn(Fault) -> Result<T>,
        durable: Durable,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Done<T> + Send + 'static,
    {
        let submitted = self.writer.submit((name, durable), scope, work, explain);
        let (done, waits) = crate::figures::timed(name, submitted).await?;
        for wait in waits {
            wait.over().await;
        }
        Ok(done)
    }

    async fn shrink(&self) -> Result<()> {
        self.cut_free_pages().await
    }

    /// Deleted rows leave nothing to walk over.
    async fn clean_queue(&self) -> Result<()> {
        Ok(())
    }

    /// Taking an id writes the counter, so this goes all the way to the disk.
    async fn probe(&self) -> Result<()> {
        self.write("ping", Scope::Alone, |tx| tx.new_id().map(drop)).await
    }

    fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.writer.subscribe()
    }

    fn leases(&self) -> Option<&Arc<Leases>> {
        Some(&self.leases)
    }
}
