//! Runs in the catalogue of a drive, which all its servers see.
//!
//! Who runs jobs holds a lease, without which the catalogue takes no change ([`Catalogue::begin_job`]). The [`Store`] that the runner speaks to waits for
//! answers, as one of a file does, on threads that may; what the API asks is asynchronous.

use super::{Asked, Begin, RunRow, Store, Trigger, Wishes};
use crate::carry::{Done, Ended, Order, Outcome};
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_meta::{Catalogue, InstanceId, JobBegin, JobEnd, JobRun, NewJobRun, WhichJobRuns};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Largest order that is kept with its run.
const ORDER_BYTES_MAX: usize = 16 << 10;

/// Who runs jobs: none where only one server can.
pub type Holder = Arc<dyn Fn() -> Option<InstanceId> + Send + Sync>;

/// Runs in a catalogue.
#[derive(Clone)]
pub struct InCatalogue {
    catalogue: Arc<dyn Catalogue>,
    holder: Holder,
    handle: Handle,
}

impl InCatalogue {
    /// In this catalogue, for this holder; within a runtime.
    pub fn new(catalogue: Arc<dyn Catalogue>, holder: Holder) -> Self {
        Self { catalogue, holder, handle: Handle::current() }
    }

    /// Runs.
    pub async fn some(&self, which: WhichJobRuns) -> Result<Vec<RunRow>> {
        self.catalogue.job_runs(which).await?.into_iter().map(row).collect()
    }

    /// Asks for a run: its number.
    pub async fn ask(&self, job: &str, order: &Order, by: &str, now_ms: i64) -> Result<i64> {
        let wish = text(order)?;
        if wish.len() > ORDER_BYTES_MAX {
            let what = format!("what is asked for of a job has {ORDER_BYTES_MAX} bytes at most");
            return Err(Error::new(ErrorKind::TooLarge, what));
        }
        let new = NewJobRun {
            job: job.to_owned(),
            cause: Trigger::Api.word().to_owned(),
            by: by.to_owned(),
            wish,
            due_ms: now_ms,
            attempt: 0,
            done: text(&Done::default())?,
        };
        self.catalogue.ask_for_job(new).await
    }

    /// Asks for the end of a run; false if it has ended.
    pub async fn stop(&self, run: i64, now_ms: i64) -> Result<bool> {
        let errors = text(&["it was stopped before it began"])?;
        let (result, done) = (Ended::Stopped.word().to_owned(), text(&Done::default())?);
        self.catalogue.stop_job(run, JobEnd { ended_ms: now_ms, result, done, errors }).await
    }

    fn wait<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        self.handle.block_on(answer)
    }

    fn find(&self, which: WhichJobRuns) -> Result<Vec<RunRow>> {
        self.wait(self.some(which))
    }
}

fn row(run: JobRun) -> Result<RunRow> {
    let JobRun { id, job, cause, by, wish, due_ms, began_ms, ended_ms, attempt, result, done, errors, step_errors } =
        run;
    let trigger = Trigger::of_word(&cause)
        .ok_or_else(|| Error::damaged(format!("a run of a job was begun for a reason that is none: {cause:?}")))?;
    let result = result.and_then(|word| Ended::of_word(&word));
    let (done, errors, step_errors) = (json(&done)?, json(&errors)?, json(&step_errors)?);
    let order = json(&wish)?;
    Ok(RunRow { id, job, trigger, due_ms, began_ms, ended_ms, attempt, result, done, errors, step_errors, order, by })
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::damaged("a run of a job cannot be read").with_source(error))
}

fn text<T: serde::Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::internal("a run could not be written").with_source(error))
}

impl Store for InCatalogue {
    fn dealt_with(&self, job: &str) -> Result<Option<i64>> {
        self.wait(self.catalogue.job_dealt_with(job))
    }

    fn deal_with(&self, job: &str, until_ms: i64) -> Result<()> {
        self.wait(self.catalogue.deal_with_job((self.holder)(), job, until_ms))
    }

    fn begin(&self, begin: &Begin) -> Result<i64> {
        let Begin { job, trigger, due_ms, began_ms, attempt, dealt_with_ms, asked } = begin.clone();
        let Asked { run, order, by } = asked;
        let (cause, wish, done) = (trigger.word().to_owned(), text(&order)?, text(&Done::default())?);
        let new = NewJobRun { job, cause, by, wish, due_ms, attempt, done };
        let begin = JobBegin { began_ms, dealt_with_ms, asked: run };
        self.wait(self.catalogue.begin_job((self.holder)(), new, begin))
    }

    fn progress(&self, id: i64, done: &Done) -> Result<()> {
        let done = text(done)?;
        self.wait(self.catalogue.note_job((self.holder)(), id, &done))
    }

    fn end(&self, id: i64, ended_ms: i64, outcome: &Outcome) -> Result<()> {
        let Outcome { result, done, errors, .. } = outcome;
        let end = JobEnd { ended_ms, result: result.word().to_owned(), done: text(done)?, errors: text(errors)? };
        self.wait(self.catalogue.end_job((self.holder)(), id, end))
    }

    fn steps_done(&self, id: i64, errors: &[String]) -> Result<()> {
        let errors = text(errors)?;
        self.wait(self.catalogue.job_steps_done((self.holder)(), id, &errors))
    }

    fn unfinished(&self) -> Result<Vec<RunRow>> {
        self.find(WhichJobRuns::Unfinished)
    }

    fn owing(&self) -> Result<Vec<RunRow>> {
        self.find(WhichJobRuns::Owing)
    }

    fn wishes(&self) -> Result<Option<Wishes>> {
        let starts = self.find(WhichJobRuns::Asked)?;
        let stops = self.find(WhichJobRuns::Stopping)?.into_iter().map(|run| run.id).collect();
        Ok(Some(Wishes { starts, stops }))
    }

    fn runs(&self, job: Option<&str>, limit: u64) -> Result<Vec<RunRow>> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.find(match job {
            Some(job) => WhichJobRuns::Begun { job: job.to_owned(), limit },
            None => WhichJobRuns::Of { job: None, before: None, limit },
        })
    }
}
