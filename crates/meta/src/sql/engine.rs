//! What a database engine gives the operations: reads, writes, and the feed of changes.

use super::check::Part;
use super::fault::{Done, Fault};
use super::seam::Link;
pub(crate) use super::tx::Scope;
use super::tx::Tx;
use crate::audit;
use crate::catalogue::Change;
use crate::leases::Leases;
use crate::types::Durable;
use holdfast_base::Result;
use std::sync::Arc;
use tokio::sync::broadcast;

/// How a read is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Few rows, and either one statement or several that need not see the same state.
    Point,
    /// Few rows by several statements that see one state.
    Snapshot,
    /// Possibly many rows; its statements see one state.
    Scan,
}

/// A database.
pub(crate) trait Engine: Send + Sync + 'static {
    /// How a path is walked.
    const WALK: Reading;

    /// How a search is run: some thousand rows found by index.
    const SEARCH: Reading;

    /// Whether several processes may serve it at the same time.
    const SHARED: bool;

    /// Parts of a check that are this database's alone; they come first.
    const OWN_PARTS: &'static [Part];

    /// Runs a read; it may be run again on another connection.
    fn read<T, F>(&self, reading: Reading, read: F) -> impl Future<Output = Result<T>> + Send
    where
        T: Send + 'static,
        F: Fn(&dyn Link) -> Done<T> + Send + 'static;

    /// Runs a read at once, if that takes no longer than asking for it: then what it looks for need not be copied.
    fn read_here<T>(&self, reading: Reading, read: impl FnOnce(&dyn Link) -> Done<T>) -> Option<Result<T>>;

    /// Runs an operation and answers when it is on disk; `explain` says what a refusal means.
    fn submit<T, F>(
        &self,
        name: &'static str,
        scope: Scope,
        work: F,
        explain: fn(Fault) -> Result<T>,
    ) -> impl Future<Output = Result<T>> + Send
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Done<T> + Send + 'static;

    /// The same; what need not be on disk at once may be answered before it is.
    fn submit_when<T, F>(
        &self,
        name: &'static str,
        scope: Scope,
        work: F,
        explain: fn(Fault) -> Result<T>,
        _durable: Durable,
    ) -> impl Future<Output = Result<T>> + Send
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Done<T> + Send + 'static,
    {
        self.submit(name, scope, work, explain)
    }

    /// Runs an operation whose refusals are errors.
    fn write<T, F>(&self, name: &'static str, scope: Scope, work: F) -> impl Future<Output = Result<T>> + Send
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Done<T> + Send + 'static,
    {
        // What administers writes down who did it; see crate::audit.
        let pending = if scope == Scope::Administration { audit::pending() } else { None };
        async move {
            let explain = |fault: Fault| Err(fault.into());
            let Some((pending, note)) = pending.and_then(|it| it.note().map(|note| (it, note.bounded()))) else {
                return self.submit(name, scope, work, explain).await;
            };
            let noted = move |tx: &Tx<'_>| {
                let done = work(tx)?;
                super::audit::insert(tx, &note)?;
                Ok(done)
            };
            let done = self.submit(name, scope, noted, explain).await;
            if done.is_ok() {
                pending.is_written();
            }
            done
        }
    }

    /// Gives space back to the file system, if the database does not do so by itself.
    fn shrink(&self) -> impl Future<Output = Result<()>> + Send;

    /// Clears away what a batch of deleted rows left at the beginning of the queue of names to be indexed, if the database does not do so by
    /// itself.
    fn clean_queue(&self) -> impl Future<Output = Result<()>> + Send;

    /// Writes something that nobody reads, to find out whether the disk takes it.
    fn probe(&self) -> impl Future<Output = Result<()>> + Send;

    /// Changes from now on.
    fn subscribe(&self) -> broadcast::Receiver<Change>;

    /// See [`Catalogue::leases`](crate::Catalogue::leases).
    fn leases(&self) -> Option<&Arc<Leases>>;
}

/// The operations on an engine.
pub(crate) struct Ops<'e, E>(pub(crate) &'e E);
