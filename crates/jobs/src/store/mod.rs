//! What outlives a kill: up to when due times of each job are dealt with, and what its runs did.
//!
//! [`Store`] is a narrow trait of whole operations, each durable when it answers; [`Sqlite`] is one in a file, of the program that runs by itself, and
//! [`InCatalogue`] one in the catalogue of a drive, of its servers. A run is written down before it begins, and
//! its end before its steps are done, so that a start finds what a kill left: runs [without an end](Store::unfinished), and runs whose
//! [steps are owed](Store::owing).

mod catalogue;
mod sqlite;

pub use catalogue::{Holder, InCatalogue};
pub use sqlite::Sqlite;

use crate::carry::{Done, Ended, Order, Outcome};
use holdfast_base::Result;
use serde::Serialize;

/// Runs of each job that are kept.
pub const RUNS_MAX: u64 = 1_000;

/// Why a run was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// It was due.
    Schedule,
    /// The runner was started.
    Start,
    /// Somebody said so.
    Command,
    /// Somebody asked for it by the API.
    Api,
    /// An order came to its inbox.
    Inbox,
    /// A mail asked for it.
    Mail,
    /// An earlier one failed.
    Retry,
    /// An earlier one was put aside or interrupted.
    Resume,
}

impl Trigger {
    const ALL: [Self; 8] =
        [Self::Schedule, Self::Start, Self::Command, Self::Api, Self::Inbox, Self::Mail, Self::Retry, Self::Resume];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Start => "start",
            Self::Command => "command",
            Self::Api => "api",
            Self::Inbox => "inbox",
            Self::Mail => "mail",
            Self::Retry => "retry",
            Self::Resume => "resume",
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trigger| trigger.word() == word)
    }
}

/// A run that begins.
#[derive(Debug, Clone)]
pub struct Begin {
    /// Of which job.
    pub job: String,
    /// Why.
    pub trigger: Trigger,
    /// When it was due.
    pub due_ms: i64,
    /// Now.
    pub began_ms: i64,
    /// Runs that were tried before for the same.
    pub attempt: u32,
    /// Due times up to this are dealt with from now on; none leaves that as it is.
    pub dealt_with_ms: Option<i64>,
    /// What was asked for.
    pub asked: Asked,
}

/// What somebody asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// The run that waits to be begun with this.
    pub run: Option<i64>,
    /// What of the job is wanted.
    pub order: Order,
    /// The account that asked, the sender of the mail and its number, or empty.
    pub by: String,
}

/// What waits for the runner.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wishes {
    /// Runs that are to begin.
    pub starts: Vec<RunRow>,
    /// Runs under way that are to end.
    pub stops: Vec<i64>,
}

/// A run that was written down.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRow {
    /// Its number.
    pub id: i64,
    /// Of which job.
    pub job: String,
    /// Why it was begun.
    pub trigger: Trigger,
    /// When it was due, in milliseconds since 1970, as are the others.
    pub due_ms: i64,
    /// When it began; none while it waits.
    pub began_ms: Option<i64>,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// Runs that were tried before for the same.
    pub attempt: u32,
    /// How it ended.
    pub result: Option<Ended>,
    /// What it did.
    pub done: Done,
    /// The first of what failed.
    pub errors: Vec<String>,
    /// What its steps said that failed.
    pub step_errors: Vec<String>,
    /// What of the job was asked for.
    pub order: Order,
    /// The account that asked, or empty.
    pub by: String,
}

/// A store of runs.
pub trait Store: Send + Sync + 'static {
    /// Up to when due times of a job are dealt with.
    fn dealt_with(&self, job: &str) -> Result<Option<i64>>;
    /// Due times up to then are dealt with.
    fn deal_with(&self, job: &str, until_ms: i64) -> Result<()>;
    /// Writes down that a run begins; returns its number.
    fn begin(&self, begin: &Begin) -> Result<i64>;
    /// Writes down how far a run is. This need not be durable.
    fn progress(&self, id: i64, done: &Done) -> Result<()>;
    /// Writes down how a run ended. Its steps are owed from now on.
    fn end(&self, id: i64, ended_ms: i64, outcome: &Outcome) -> Result<()>;
    /// The steps of a run are done, and this failed of them.
    fn steps_done(&self, id: i64, errors: &[String]) -> Result<()>;
    /// Runs that have no end.
    fn unfinished(&self) -> Result<Vec<RunRow>>;
    /// Runs whose steps are owed.
    fn owing(&self) -> Result<Vec<RunRow>>;
    /// What waits for the runner; none where nobody can ask.
    fn wishes(&self) -> Result<Option<Wishes>>;
    /// The last runs that began, of one job or of all, the latest first.
    fn runs(&self, job: Option<&str>, limit: u64) -> Result<Vec<RunRow>>;
}
