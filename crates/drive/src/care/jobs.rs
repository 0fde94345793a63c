//! Background jobs of a running drive: reclaim, indexing and sweeping, by themselves, a little at a time, and where several nodes serve, what keeps them together.

use super::heart;
use super::index::keep_indexed;
use super::reclaim::reclaim;
use crate::engine::Engine;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What is younger may be on its way still: nobody writes a pack for so long.
const SWEPT_AGE: Duration = Duration::from_hours(7 * 24);

/// When jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobOptions {
    /// Time between reclaims: long enough that a burst of deletes is one job, short enough that space comes back while somebody
    /// waits for it.
    pub reclaim_every: Duration,
    /// Time between looks whether names wait to be indexed for search, which works off what was written a moment ago by itself.
    pub index_every: Duration,
    /// Time between looks for parts of packs that a crash left in the store, where its owner pays for them and nobody sees them.
    pub sweep_every: Duration,
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            reclaim_every: Duration::from_mins(1),
            index_every: Duration::from_secs(2),
            sweep_every: Duration::from_hours(24),
        }
    }
}

/// Running jobs; they end when this is dropped, between two steps.
pub struct Jobs {
    running: Vec<JoinHandle<()>>,
    reclaims: Reclaims,
}

/// The reclaims of this node: what the last one did, and asking for one. Clones share everything.
#[derive(Clone, Default)]
pub struct Reclaims {
    now: Arc<Notify>,
    last: Arc<Mutex<Option<LastReclaim>>>,
}

/// A reclaim that this node ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastReclaim {
    /// When it ended.
    pub at_ms: i64,
    /// What it did, or why it failed.
    pub outcome: std::result::Result<super::ReclaimReport, String>,
}

impl Reclaims {
    /// Runs one as soon as possible.
    pub fn ask(&self) {
        self.now.notify_one();
    }

    /// The last one that did something or failed.
    pub fn last(&self) -> Option<LastReclaim> {
        self.last.lock().clone()
    }

    fn note(&self, engine: &Engine, outcome: std::result::Result<super::ReclaimReport, String>) {
        *self.last.lock() = Some(LastReclaim { at_ms: engine.shared.clock.now_ms(), outcome });
    }
}

impl Jobs {
    /// Starts them.
    pub fn start(engine: Engine, options: JobOptions) -> Self {
        let reclaims = Reclaims::default();
        let known = reclaims.clone();
        let mut running = Vec::new();
        if engine.catalogue().is_shared() {
            running.push(tokio::spawn(heart::beat(engine.clone())));
        }
        running.push(tokio::spawn(keep_swept(engine.clone(), options.sweep_every)));
        running.push(tokio::spawn(keep_indexed(engine.clone(), options.index_every)));
        running.push(tokio::spawn(async move {
            loop {
                // Either the time is over or somebody asked; both begin a reclaim. Who asks wants all that can be had: the pack being
                // written is closed too.
                let asked = tokio::time::timeout(options.reclaim_every, known.now.notified()).await.is_ok();
                match heart::under_lease(&engine, "reclaim", reclaim(&engine, asked)).await {
                    Ok(None) if asked => tracing::info!("another node reclaims already"),
                    Ok(None) => {}
                    Ok(Some(report)) if report == super::ReclaimReport::default() && !asked => {}
                    Ok(Some(report)) => {
                        known.note(&engine, Ok(report));
                        engine.give_memory_back();
                        tracing::info!(?report, "reclaimed");
                    }
                    Err(error) => {
                        known.note(&engine, Err(error.to_string()));
                        tracing::error!(?error, "reclaim failed; it is tried again");
                    }
                }
            }
        }));
        Self { running, reclaims }
    }

    /// Runs a reclaim as soon as possible.
    pub fn reclaim_now(&self) {
        self.reclaims.ask();
    }

    /// Asking for reclaims, and what became of them.
    pub fn reclaims(&self) -> Reclaims {
        self.reclaims.clone()
    }
}

/// Looks at once, and then every so often; where several nodes serve, each does, one at a time.
async fn keep_swept(engine: Engine, every: Duration) {
    loop {
        match heart::under_lease(&engine, "sweep", engine.store().sweep(SWEPT_AGE)).await {
            Ok(Some(0) | None) => {}
            Ok(Some(found)) => tracing::info!(found, "unfinished packs were removed from the store"),
            Err(error) => {
                tracing::warn!(?error, "the store could not be searched for unfinished packs; it is tried again");
            }
        }
        tokio::time::sleep(every).await;
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.running.iter().for_each(JoinHandle::abort);
    }
}
