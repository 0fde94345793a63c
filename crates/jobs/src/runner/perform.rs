//! One run from its first line in the store to the last of its steps.

use super::state::{JobLock, State};
use crate::carry::{Done, Ended, Order, Outcome, Run, Seen, Tally, Told};
use crate::file::{Job, Set};
use crate::limit::Limits;
use crate::steps;
use crate::store::{Asked, Begin, RunRow, Store, Trigger};
use holdfast_base::{Clock, Error, Result};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// How often it is written down how far a run is.
const PROGRESS: Duration = Duration::from_secs(2);

/// What all runs share.
pub struct Host {
    /// The folder in which jobs are locked; none where nobody else can run them.
    pub state: Option<State>,
    /// The store of runs.
    pub store: Arc<dyn Store>,
    /// Limits of sites.
    pub limits: Limits,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// A run that is wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Why.
    pub trigger: Trigger,
    /// When it is due.
    pub due: Timestamp,
    /// Runs that were tried before for the same.
    pub attempt: u32,
    /// What of the job is wanted.
    pub order: Order,
    /// The account that asked for it, or empty.
    pub by: String,
    /// The run that waits to be begun with this.
    pub asked: Option<i64>,
    /// Whether it deals with its due time.
    pub of_schedule: bool,
}

impl Wanted {
    /// All of a job, for this reason.
    pub fn all(trigger: Trigger, due: Timestamp) -> Self {
        Self { trigger, due, attempt: 0, order: Order::default(), by: String::new(), asked: None, of_schedule: false }
    }
}

/// What ends a run before its end.
pub struct Stops<'s> {
    /// What is under way is put aside.
    pub stop: &'s watch::Receiver<bool>,
    /// Steps are left for the next start.
    pub quit: &'s watch::Receiver<bool>,
    /// What was put aside does not go on, since somebody stopped it.
    pub cancel: &'s watch::Receiver<bool>,
}

impl Host {
    /// Takes a job for a run, unless somebody else has it.
    pub fn lock_job(&self, name: &str) -> Result<Option<JobLock>> {
        self.state.as_ref().map_or(Ok(Some(JobLock::OF_NOBODY_ELSE)), |state| state.lock_job(name))
    }

    /// Asks the store, which waits for a disk.
    pub async fn store<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = Arc::clone(&self.store);
        let asked = tokio::task::spawn_blocking(move || ask(&*store)).await;
        asked.map_err(|error| Error::internal("the store could not be asked").with_source(error))?
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.clock.now_ms()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Hears of a run while it is under way.
pub struct Hears<'h, B> {
    /// What happens.
    pub events: &'h mpsc::Sender<Told>,
    /// It is written down, and begins.
    pub began: B,
    /// How far it is, now and then.
    pub progress: &'h (dyn Fn(RunRow) + Send + Sync),
}

/// Does a run and its steps.
pub async fn perform(
    host: &Host,
    set: &Set,
    job: &Job,
    wanted: &Wanted,
    hears: Hears<'_, impl AsyncFnOnce(RunRow)>,
    stops: &Stops<'_>,
) -> Result<(RunRow, Outcome)> {
    let row = begin(host, job, wanted).await?;
    (hears.began)(row.clone()).await;
    let run = Run {
        job,
        set,
        due: wanted.due.to_zoned_datetime(job.schedule.zone.clone()),
        order: wanted.order.clone(),
        limits: &host.limits,
        dry_run: false,
    };
    let tally = Arc::new(Tally::default());
    let outcome = tokio::select! {
        outcome = run.carry_out(hears.events, &tally, stops.stop) => outcome,
        never = told_of(host, &row, &tally, hears.progress) => match never {},
    };
    let outcome = match outcome.result {
        Ended::PutAside if *stops.cancel.borrow() => outcome.stopped(),
        _ => outcome,
    };
    let row = ended(host, row, &outcome).await?;
    let mut stopped = stops.quit.clone();
    let errors = tokio::select! {
        errors = steps::after(job, &row) => errors,
        _ = stopped.wait_for(|stop| *stop), if outcome.result != Ended::PutAside => return Ok((row, outcome)),
    };
    let (id, said) = (row.id, errors.clone());
    host.store(move |store| store.steps_done(id, &said)).await?;
    Ok((RunRow { step_errors: errors, ..row }, outcome))
}

async fn begin(host: &Host, job: &Job, wanted: &Wanted) -> Result<RunRow> {
    let due_ms = wanted.due.as_millisecond();
    let begin = Begin {
        job: job.name.clone(),
        trigger: wanted.trigger,
        due_ms,
        began_ms: host.clock.now_ms(),
        attempt: wanted.attempt,
        dealt_with_ms: wanted.of_schedule.then_some(due_ms),
        // An order of an inbox is large, and found again where it is.
        asked: match wanted.trigger {
            Trigger::Inbox => Asked::default(),
            _ => Asked { run: wanted.asked, order: wanted.order.clone(), by: wanted.by.clone() },
        },
    };
    let written = begin.clone();
    let id = host.store(move |store| store.begin(&written)).await?;
    let Begin { job, trigger, began_ms, attempt, asked: Asked { order, by, .. }, .. } = begin;
    let (began_ms, ended_ms, result, done) = (Some(began_ms), None, None, Done::default());
    let (errors, step_errors) = Default::default();
    Ok(RunRow { id, job, trigger, due_ms, began_ms, ended_ms, attempt, result, done, errors, step_errors, order, by })
}

async fn ended(host: &Host, row: RunRow, outcome: &Outcome) -> Result<RunRow> {
    let (id, now_ms, written) = (row.id, host.clock.now_ms(), outcome.clone());
    host.store(move |store| store.end(id, now_ms, &written)).await?;
    let Outcome { result, done, errors, .. } = outcome.clone();
    Ok(RunRow { ended_ms: Some(now_ms), result: Some(result), done, errors, ..row })
}

/// Writes down how far a run is, and tells it, again and again.
async fn told_of(
    host: &Host,
    row: &RunRow,
    tally: &Tally,
    tell: &(dyn Fn(RunRow) + Send + Sync),
) -> std::convert::Infallible {
    let (id, mut seen) = (row.id, Seen::default());
    loop {
        tokio::time::sleep(PROGRESS).await;
        let done = tally.look(&mut seen);
        tell(RunRow { done: done.clone(), ..row.clone() });
        if let Err(error) = host.store(move |store| store.progress(id, &done)).await {
            tracing::warn!(run = id, %error, "how far it is could not be written down");
        }
    }
}

/// How a run ended that was found without an end.
pub(super) fn interrupted(run: &RunRow) -> Outcome {
    let errors = vec!["the runner was ended while it was under way".into()];
    let done = Done { live: None, ..run.done.clone() };
    Outcome { result: Ended::Interrupted, done, errors, exit_code: 0 }
}

/// Ends runs of a job that a kill left without an end, and does the steps that it owes; the job must be locked. Returns its last run, and whether that is
/// one that was interrupted just now.
pub async fn recover(host: &Host, job: &Job) -> Result<Option<RunRow>> {
    let (name, now_ms) = (job.name.clone(), host.clock.now_ms());
    let owing = host
        .store(move |store| {
            for run in store.unfinished()?.iter().filter(|run| run.job == name) {
                store.end(run.id, now_ms, &interrupted(run))?;
            }
            Ok(store.owing()?.into_iter().filter(|run| run.job == name).collect::<Vec<_>>())
        })
        .await?;
    for run in owing {
        let errors = steps::after(job, &run).await;
        host.store(move |store| store.steps_done(run.id, &errors)).await?;
    }
    let name = job.name.clone();
    Ok(host.store(move |store| store.runs(Some(&name), 1)).await?.into_iter().next())
}
