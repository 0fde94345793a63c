//! Transfers that a server runs by schedule: what ran, and what was asked for. Their descriptions are files of the operator, and the JSON here is of the
//! crate that reads those.

/// The lease of the instance that runs them.
pub const JOBS_LEASE: &str = "transfers";
/// Runs of each job that are kept.
pub const JOB_RUNS_MAX: usize = 1_000;
/// Runs of a job that may wait to begin.
pub const JOB_WISHES_MAX: usize = 16;

/// A run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRun {
    /// Its number: a later one of the same job has a greater one.
    pub id: i64,
    /// Of which job.
    pub job: String,
    /// Why.
    pub cause: String,
    /// The account that asked for it, or empty.
    pub by: String,
    /// What of the job was asked for, JSON.
    pub wish: String,
    /// When it was due.
    pub due_ms: i64,
    /// When it began; none while it waits.
    pub began_ms: Option<i64>,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// Runs that were tried before for the same.
    pub attempt: u32,
    /// How it ended.
    pub result: Option<String>,
    /// What it did, JSON.
    pub done: String,
    /// What failed, JSON.
    pub errors: String,
    /// What failed of its steps, JSON.
    pub step_errors: String,
}

/// A run that begins, or is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJobRun {
    /// Of which job.
    pub job: String,
    /// Why.
    pub cause: String,
    /// The account that asked for it, or empty.
    pub by: String,
    /// What of the job was asked for, JSON.
    pub wish: String,
    /// When it is due.
    pub due_ms: i64,
    /// Runs that were tried before for the same.
    pub attempt: u32,
    /// What it did: nothing, JSON.
    pub done: String,
}

/// How a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobBegin {
    /// When.
    pub began_ms: i64,
    /// Due times up to this, which no run had before, are dealt with from now on.
    pub dealt_with_ms: Option<i64>,
    /// The run that was asked for, and is begun with this.
    pub asked: Option<i64>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    /// When.
    pub ended_ms: i64,
    /// How.
    pub result: String,
    /// What it did, JSON.
    pub done: String,
    /// What failed, JSON.
    pub errors: String,
}

/// Which runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichJobRuns {
    /// Those that were asked for and wait, the oldest first.
    Asked,
    /// Those that somebody wants to end, the oldest first.
    Stopping,
    /// Those without an end, the oldest first.
    Unfinished,
    /// Those whose steps are owed, the oldest first.
    Owing,
    /// The last of each job.
    Last,
    /// The last of each job that has ended.
    LastEnded,
    /// Those of a job that began, the one that did so last first.
    Begun {
        /// The job.
        job: String,
        /// Runs at most.
        limit: usize,
    },
    /// One.
    One(i64),
    /// Those of a job, or of all, the latest first, from before a number.
    Of {
        /// The job.
        job: Option<String>,
        /// The number.
        before: Option<i64>,
        /// Runs at most.
        limit: usize,
    },
}
