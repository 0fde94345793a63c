//! What administrators of a drive see of its jobs, and ask of them.
//!
//! Any server answers: what ran, what runs and what is asked for is in the catalogue, and each server has read the files. Only a preview is this server's own
//! work: at most [`PREVIEWS_MAX`] at a time, for [`PREVIEW_TIME`], of which [`ACTS_MAX`] acts are told.

use crate::carry::{Order, Outcome, Run, Tally, Told};
use crate::file::{Described, Job, Set};
use crate::preview::next_times;
use crate::runner::Host;
use crate::store::{InCatalogue, RunRow};
use holdfast_base::{Error, Result};
use holdfast_meta::WhichJobRuns;
use holdfast_transfer::{Act, Event};
use jiff::ZonedDateTime;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};

/// Previews at a time: each walks both sides.
const PREVIEWS_MAX: usize = 2;
/// How long one may take: shorter than what stands in front of a server waits.
pub const PREVIEW_TIME: Duration = Duration::from_secs(25);
/// Acts that are told of one.
pub const ACTS_MAX: usize = 1_000;
/// Events that wait to be looked at.
const EVENTS_MAX: usize = 256;

/// The jobs of a drive, as one of its servers sees them.
#[derive(Clone)]
pub struct Desk {
    described: Arc<Described>,
    host: Arc<Host>,
    runs: InCatalogue,
    previews: Arc<Semaphore>,
}

/// What a job would do.
#[derive(Debug)]
pub struct Preview {
    /// When it is due next.
    pub times: Vec<ZonedDateTime>,
    /// What it would do now, with the address that paths are below.
    pub acts: Vec<(Arc<str>, Act)>,
    /// Whether it would do more than that, or was not looked at to its end.
    pub more: bool,
    /// What it found.
    pub outcome: Outcome,
}

impl Desk {
    /// Of these files and these runs.
    pub fn new(described: Arc<Described>, host: Arc<Host>, runs: InCatalogue) -> Self {
        Self { described, host, runs, previews: Arc::new(Semaphore::new(PREVIEWS_MAX)) }
    }

    /// What the files say now.
    pub fn set(&self) -> Arc<Set> {
        self.described.now()
    }

    /// Runs.
    pub async fn runs(&self, which: WhichJobRuns) -> Result<Vec<RunRow>> {
        self.runs.some(which).await
    }

    /// A run of a job.
    pub async fn run(&self, job: &str, id: i64) -> Result<RunRow> {
        let run = self.runs(WhichJobRuns::One(id)).await?.into_iter().find(|run| run.job == job);
        run.ok_or_else(|| Error::not_found(format!("the job {job} has no run {id}")))
    }

    /// Asks for a run of a job, which begins as soon as whoever runs the jobs sees it: its number.
    pub async fn start(&self, job: &Job, order: &Order, by: &str) -> Result<i64> {
        order.check(job)?;
        self.runs.ask(&job.name, order, by, self.host.clock.now_ms()).await
    }

    /// Asks for the end of a run; one that has ended is `Conflict`.
    pub async fn stop(&self, job: &str, id: i64) -> Result<()> {
        self.run(job, id).await?;
        if self.runs.stop(id, self.host.clock.now_ms()).await? {
            return Ok(());
        }
        Err(Error::conflict("this run has ended already"))
    }

    /// What a job would do now; changes nothing.
    pub async fn preview(&self, set: &Set, job: &Job, order: Order) -> Result<Preview> {
        order.check(job)?;
        let busy = || Error::unavailable("other previews are being made: try again in a moment");
        let _room = self.previews.try_acquire().map_err(|_| busy())?;
        let now = self.host.now();
        let due = now.to_zoned_datetime(job.schedule.zone.clone());
        let run = Run { job, set, due, order, limits: &self.host.limits, dry_run: true };
        let ((events, told), (stop, stopping)) = (mpsc::channel(EVENTS_MAX), watch::channel(false));
        let tally = Arc::new(Tally::default());
        let looking = async {
            let outcome = run.carry_out(&events, &tally, &stopping).await;
            drop(events);
            outcome
        };
        let out_of_time = async {
            tokio::time::sleep(PREVIEW_TIME).await;
            stop.send_replace(true);
            std::future::pending().await
        };
        let (outcome, (acts, more)) = tokio::select! {
            both = async { tokio::join!(looking, gather(told, &stop)) } => both,
            never = out_of_time => never,
        };
        let more = more || *stop.borrow();
        Ok(Preview { times: next_times(job, now), acts, more, outcome })
    }
}

/// The first of what would be done, and whether there is more; then it is enough.
async fn gather(mut told: mpsc::Receiver<Told>, stop: &watch::Sender<bool>) -> (Vec<(Arc<str>, Act)>, bool) {
    let (mut acts, mut more) = (Vec::new(), false);
    while let Some(Told { destination, event }) = told.recv().await {
        if let Event::Would(act) = event {
            if acts.len() == ACTS_MAX {
                more = true;
                stop.send_replace(true);
            } else {
                acts.push((destination, act));
            }
        }
    }
    (acts, more)
}
