//! What a run did, and how it ended.

use holdfast_base::Error;
use holdfast_transfer::{Counts, Network, Progress, Report, Site};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Errors of a run that are kept; all are counted.
pub(super) const ERRORS_MAX: usize = 100;
/// Longest error that is kept.
const ERROR_BYTES_MAX: usize = 1_024;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Result {
    /// All of it is done.
    Succeeded,
    /// Some of it failed, or nothing was removed though it should have been; the rest is done.
    Partial,
    /// It could not be done.
    Failed,
    /// It was told to stop, and goes on another time.
    PutAside,
    /// The runner was killed.
    Interrupted,
    /// Somebody stopped it, and it does not go on.
    Stopped,
}

impl Result {
    /// Its word, in the store and for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::PutAside => "put-aside",
            Self::Interrupted => "interrupted",
            Self::Stopped => "stopped",
        }
    }

    /// The one of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Succeeded, Self::Partial, Self::Failed, Self::PutAside, Self::Interrupted, Self::Stopped]
            .into_iter()
            .find(|result| result.word() == word)
    }
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Files and links that were found.
    pub found: u64,
    /// Files that arrived.
    pub files: u64,
    /// Links that arrived.
    pub links: u64,
    /// Folders that were made.
    pub folders: u64,
    /// Bytes that were moved.
    pub moved_bytes: u64,
    /// Files and links that were there already.
    pub same: u64,
    /// Those left out because of what is there.
    pub skipped: u64,
    /// What failed.
    pub failed: u64,
    /// What was removed at the destination.
    pub deleted: u64,
    /// What was removed at the source.
    pub deleted_source: u64,
    /// Tries that were repeated.
    pub retries: u64,
    /// Files and links whose content was compared afterwards, and is the same.
    pub verified: u64,
    /// How the network was when it was looked at last, if one end was a drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// How fast it is, and how far; of a run that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
}

/// How fast a run is, and how far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Bytes a second, over the last seconds.
    pub rate: u64,
    /// Bytes of what was found so far, of the transfer that is under way.
    pub found_bytes: u64,
    /// Those of them that are dealt with.
    pub settled_bytes: u64,
    /// Seconds that are left at this rate, once all is found.
    pub left_s: Option<u64>,
    /// Files that are being moved, the first of them.
    pub moving: Vec<String>,
}

impl Done {
    fn and(&self, counts: &Counts) -> Self {
        Self {
            found: self.found + counts.found,
            files: self.files + counts.files,
            links: self.links + counts.links,
            folders: self.folders + counts.folders,
            moved_bytes: self.moved_bytes + counts.moved_bytes,
            same: self.same + counts.same,
            skipped: self.skipped + counts.skipped,
            failed: self.failed + counts.failed,
            deleted: self.deleted + counts.deleted,
            deleted_source: self.deleted_source + counts.deleted_source,
            retries: self.retries + counts.retries,
            verified: self.verified,
            network: self.network,
            live: None,
        }
    }
}

/// How a run ended, and what it did.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How.
    pub result: Result,
    /// What.
    pub done: Done,
    /// The first of what failed.
    pub errors: Vec<String>,
    /// The exit code that fits what ended it, if something did.
    pub exit_code: u8,
}

impl Outcome {
    /// The same, of a run that somebody stopped.
    #[must_use]
    pub fn stopped(mut self) -> Self {
        self.errors.push("it was stopped".into());
        Self { result: Result::Stopped, ..self }
    }
}

/// What was done so far.
#[derive(Debug, Default)]
pub struct Tally(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    done: Done,
    errors: Vec<String>,
    /// What was to be removed and was not.
    kept: bool,
    now: Option<Now>,
}

/// The transfer that is under way.
struct Now {
    progress: Arc<Progress>,
    /// Both ends: one of them may know how the network is.
    sites: Vec<Arc<dyn Site>>,
}

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.progress.fmt(f)
    }
}

impl Now {
    fn network(&self) -> Option<Network> {
        self.sites.iter().find_map(|site| site.network())
    }
}

impl Tally {
    /// What was done so far, of the transfer that is under way, too.
    pub fn done(&self) -> Done {
        let state = self.0.lock();
        let Some(now) = &state.now else { return state.done.clone() };
        let done = state.done.and(&now.progress.counts());
        Done { network: now.network().or(done.network), ..done }
    }

    /// What was done so far, and how fast, by what `seen` tells of the looks before.
    pub fn look(&self, seen: &mut Seen) -> Done {
        let done = self.done();
        let now = self.0.lock().now.as_ref().map(|now| Arc::clone(&now.progress));
        Done { live: now.map(|now| seen.look(&now, done.moved_bytes)), ..done }
    }

    pub(super) fn begin(&self, progress: &Arc<Progress>, sites: Vec<Arc<dyn Site>>) {
        self.0.lock().now = Some(Now { progress: Arc::clone(progress), sites });
    }

    pub(super) fn add(&self, report: &Report) {
        let mut state = self.0.lock();
        state.over(report);
        state.done = state.done.and(&report.counts);
        state.kept |= report.kept.is_some();
        let failures = report.failures.iter().map(|failure| format!("{}: {}", failure.path, failure.message));
        let kept = report.kept.iter().map(|why| format!("nothing was removed at the destination: {why}"));
        for error in failures.chain(kept) {
            state.keep(error);
        }
    }

    /// Takes the report of a second pass, and what is not the same in it.
    pub(super) fn verified(&self, report: &Report, differing: Vec<String>, removed: bool) {
        let mut state = self.0.lock();
        state.over(report);
        state.done.verified += report.counts.same;
        state.done.deleted_source += report.counts.deleted_source;
        state.done.failed += report.counts.failed + if removed { 0 } else { report.counts.files + report.counts.links };
        if removed {
            state.done.files += report.counts.files;
        }
        for failure in &report.failures {
            state.keep(format!("{}: {}", failure.path, failure.message));
        }
        if !removed {
            for path in differing {
                state.keep(format!("{path}: it arrived, and is not what the source has"));
            }
        }
    }

    pub(super) fn outcome(&self, stopped: bool) -> Outcome {
        let done = self.done();
        let state = self.0.lock();
        let result = match () {
            () if stopped => Result::PutAside,
            () if done.failed > 0 || state.kept => Result::Partial,
            () => Result::Succeeded,
        };
        Outcome {
            result,
            done,
            errors: state.errors.clone(),
            exit_code: if result == Result::Partial { 74 } else { 0 },
        }
    }

    pub(super) fn failed(&self, error: &Error) -> Outcome {
        let done = self.done();
        let mut state = self.0.lock();
        state.keep(error.message().to_owned());
        Outcome { result: Result::Failed, done, errors: state.errors.clone(), exit_code: error.kind().exit_code() }
    }
}

/// Looks that a rate is of.
const LOOKS: usize = 5;
/// Files being moved that are told.
const MOVING_MAX: usize = 5;

/// How far a run was at the last looks.
#[derive(Debug, Default)]
pub struct Seen(VecDeque<(Instant, u64)>);

impl Seen {
    fn look(&mut self, progress: &Progress, moved_bytes: u64) -> Live {
        let now = Instant::now();
        self.0.push_back((now, moved_bytes));
        if self.0.len() > LOOKS {
            self.0.pop_front();
        }
        let (since, before) = self.0.front().copied().unwrap_or((now, moved_bytes));
        let took_ms = now.duration_since(since).as_millis().max(1);
        let rate = u128::from(moved_bytes.saturating_sub(before)) * 1_000 / took_ms;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let (counts, moving) = (progress.counts(), progress.under_way());
        let arrived: u64 = moving.iter().map(|file| file.arrived.load(Ordering::Relaxed)).sum();
        let settled_bytes = (counts.settled_bytes + arrived).min(counts.found_bytes);
        let left = progress.is_walked().then(|| counts.found_bytes - settled_bytes);
        let left_s = left.and_then(|left| left.checked_div(rate));
        let moving = moving.iter().take(MOVING_MAX).map(|file| file.path.to_string()).collect();
        Live { rate, found_bytes: counts.found_bytes, settled_bytes, left_s, moving }
    }
}

impl State {
    /// A transfer is over.
    fn over(&mut self, report: &Report) {
        self.now = None;
        self.done.network = report.network.or(self.done.network);
    }

    fn keep(&mut self, mut error: String) {
        if self.errors.len() < ERRORS_MAX {
            error.truncate(error.floor_char_boundary(ERROR_BYTES_MAX));
            self.errors.push(error);
        }
    }
}
