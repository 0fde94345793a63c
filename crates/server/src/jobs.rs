//! Transfers that this server runs by schedule, as job files describe them; of several servers of a drive one does, under a lease.
//!
//! What ran and what is asked for is in the catalogue. A server that is gone leaves its lease, which another takes when it has lapsed; what was under way is then
//! found without an end, and goes on.

use holdfast_base::{Clock, Result, SystemClock};
use holdfast_drive::care::under_lease;
use holdfast_drive::engine::Engine;
use holdfast_jobs::desk::Desk;
use holdfast_jobs::file::Described;
use holdfast_jobs::limit::Limits;
use holdfast_jobs::runner::{Host, Notice, Runner};
use holdfast_jobs::store::{InCatalogue, RunRow};
use holdfast_meta::JOBS_LEASE;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// How often a server that does not run the jobs looks whether it could.
const LOOK: Duration = Duration::from_secs(5);
/// Notices that wait to be logged.
const NOTICES_MAX: usize = 256;

/// Configuration of jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobsConfig {
    /// Job files, and folders of them; on every server the same.
    pub files: Vec<PathBuf>,
}

/// The jobs of a server.
pub struct ServedJobs {
    engine: Engine,
    described: Arc<Described>,
    host: Arc<Host>,
    desk: Desk,
    stop: watch::Sender<bool>,
    running: Option<JoinHandle<()>>,
}

impl ServedJobs {
    /// Reads the files, all of which must be right; none if none is named. Within a runtime.
    pub fn read(engine: &Engine, config: &JobsConfig) -> Result<Option<Self>> {
        if config.files.is_empty() {
            return Ok(None);
        }
        let described = Arc::new(Described::read(config.files.clone())?);
        let (catalogue, asked) = (Arc::clone(engine.catalogue()), engine.clone());
        let is_shared = catalogue.is_shared();
        let runs = InCatalogue::new(catalogue, Arc::new(move || is_shared.then(|| asked.instance())));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let host = Arc::new(Host { state: None, store: Arc::new(runs.clone()), limits: Limits::default(), clock });
        let desk = Desk::new(Arc::clone(&described), Arc::clone(&host), runs);
        let stop = watch::Sender::new(false);
        Ok(Some(Self { engine: engine.clone(), described, host, desk, stop, running: None }))
    }

    /// For the API.
    pub fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Runs them, or waits until another server does not, until it is told to stop.
    pub fn start(&mut self) {
        let (engine, host, described) = (self.engine.clone(), Arc::clone(&self.host), Arc::clone(&self.described));
        self.running = Some(tokio::spawn(keep(engine, host, described, self.stop.subscribe())));
    }

    /// Reads the files anew.
    pub fn reload(&self) {
        match self.described.reload() {
            Ok(()) => tracing::info!("job files read again"),
            Err(error) => {
                tracing::error!(%error, "not all job files could be read again; what they said before stays");
            }
        }
    }

    /// Tells runs to put aside what is under way.
    pub fn begin_to_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until all is put aside. What takes longer than this is left as a kill would leave it.
    pub async fn stop(self, limit: Duration) {
        self.begin_to_stop();
        let Some(mut running) = self.running else { return };
        if tokio::time::timeout(limit, &mut running).await.is_err() {
            tracing::warn!("runs of jobs that could not be put aside have been cut off");
            running.abort();
        }
    }
}

async fn keep(engine: Engine, host: Arc<Host>, described: Arc<Described>, stop: watch::Receiver<bool>) {
    let mut stopped = stop.clone();
    loop {
        let (notices, told) = mpsc::channel(NOTICES_MAX);
        let runner = Runner::new(Arc::clone(&host), Arc::clone(&described), notices);
        let work = async {
            let (done, ()) = tokio::join!(runner.run(stop.clone()), log(told));
            done
        };
        match under_lease(&engine, JOBS_LEASE, work).await {
            Ok(Some(())) => return,
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the jobs could not be run; it is tried again"),
        }
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

async fn log(mut told: mpsc::Receiver<Notice>) {
    while let Some(notice) = told.recv().await {
        match notice {
            Notice::Ready(jobs) => tracing::info!(jobs = jobs.len(), "running the jobs"),
            Notice::Reloaded(jobs) => tracing::info!(jobs = jobs.len(), "running the jobs as they are described now"),
            Notice::NotReloaded(error) => tracing::error!(%error, "not all job files could be read again"),
            Notice::Began(RunRow { job, id, trigger, .. }) => {
                tracing::info!(job, run = id, trigger = trigger.word(), "a run of a job began");
            }
            Notice::Ended(RunRow { job, id, result, done, .. }) => {
                let result = result.map_or("", |result| result.word());
                tracing::info!(job, run = id, result, files = done.files, failed = done.failed, "a run of a job ended");
            }
            Notice::Progress(_) => {}
            Notice::Trouble(job, error) => tracing::warn!(job, %error, "a job cannot do what it should; trying again"),
        }
    }
}
