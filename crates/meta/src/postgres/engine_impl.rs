//! What PostgreSQL gives the operations.

use super::PostgresCatalogue;
use crate::catalogue::Change;
use crate::leases::Leases;
use crate::sql::check::Part;
use crate::sql::engine::{Engine, Reading, Scope};
use crate::sql::fault::{Done, Fault};
use crate::sql::query as sql;
use crate::sql::seam::Link;
use crate::sql::tx::Tx;
use holdfast_base::Result;
use std::sync::Arc;
use tokio::sync::broadcast;

impl Engine for PostgresCatalogue {
    /// One recursive statement.
    const SHARED: bool = true;
    const WALK: Reading = Reading::Point;

    /// On connections whose plans are by index.
    const SEARCH: Reading = Reading::Snapshot;

    /// The database checks its own structure.
    const OWN_PARTS: &'static [Part] = &[];

    async fn read<T, F>(&self, reading: Reading, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&dyn Link) -> Done<T> + Send + 'static,
    {
        match reading {
            Reading::Point => self.points.read(false, read).await,
            Reading::Snapshot => self.points.read(true, read).await,
            Reading::Scan => self.scans.read(true, read).await,
        }
    }

    /// Everything is asked for over a network.
    fn read_here<T>(&self, _: Reading, _: impl FnOnce(&dyn Link) -> Done<T>) -> Option<Result<T>> {
        None
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
        crate::figures::timed(name, self.lanes.submit(name, scope, work, explain)).await
    }

    /// The database does so by itself.
    async fn shrink(&self) -> Result<()> {
        Ok(())
    }

    /// The database would do so within minutes; until then each look at the queue would walk over every row that was deleted. One that
    /// cannot is slower for a while.
    async fn clean_queue(&self) -> Result<()> {
        let vacuum = |link: &dyn Link| sql::run(link, "VACUUM unindexed", ()).map(drop);
        if let Err(error) = self.points.read(false, vacuum).await {
            tracing::debug!(?error, "the queue of names to be indexed could not be cleaned");
        }
        Ok(())
    }

    async fn probe(&self) -> Result<()> {
        let beat = |tx: &Tx<'_>| sql::put(tx, "UPDATE administration SET beats = beats + 1 WHERE id = 2", ());
        self.write("ping", Scope::Alone, beat).await
    }

    fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.feed.subscribe()
    }

    /// Changes of other nodes are heard of when they are answered already.
    fn leases(&self) -> Option<&Arc<Leases>> {
        None
    }
}
