//! What all parts of a running transfer share.

use super::rate::Rate;
use super::renamed::Claims;
use crate::options::Options;
use crate::report::{Act, Event, Failure, Progress, Report};
use crate::signs::watched;
use crate::site::Site;
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

/// Content in memory between both sides, of all files together: 64 MiB.
pub(super) const PERMITS: u32 = 64 << 10;
/// What a permit of the budget stands for.
pub(super) const PERMIT_BYTES: u64 = 1 << 10;
/// Content that waits for the next try of its file, of all files together: as much as one of a drive reads ahead, 32 MiB.
const KEPT_PERMITS: usize = 32 << 10;
/// Listings that are asked for ahead, of all folders together: each is a page in memory.
pub(super) const LISTINGS: usize = 64;
/// The first pause before another try; it doubles up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);

/// A running transfer.
pub(super) struct Run {
    pub(super) destination: Arc<dyn Site>,
    pub(super) options: Options,
    pub(super) progress: Arc<Progress>,
    pub(super) budget: Arc<Semaphore>,
    /// Room for pieces between tries ([`super::shelf`]).
    pub(super) kept: Arc<Semaphore>,
    pub(super) rate: Option<Rate>,
    pub(super) listings: Arc<Semaphore>,
    pub(super) failures: Mutex<Vec<Failure>>,
    /// What ends all of it.
    pub(super) fatal: Mutex<Option<Error>>,
    /// Told to stop from outside, or because of what is fatal.
    pub(super) stop: watch::Sender<bool>,
    /// What stood in the way at the destination and was removed. A dry run goes on as if it were gone.
    pub(super) cleared: Mutex<HashSet<DrivePath>>,
    /// Places of renamed files.
    pub(super) claims: Claims,
    events: mpsc::Sender<Event>,
}

impl Run {
    pub(super) fn new(
        destination: Arc<dyn Site>,
        options: Options,
        progress: Arc<Progress>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        Self {
            destination,
            rate: options.rate.map(Rate::new),
            options,
            progress,
            budget: Arc::new(Semaphore::new(PERMITS as usize)),
            kept: Arc::new(Semaphore::new(KEPT_PERMITS)),
            failures: Mutex::default(),
            listings: Arc::new(Semaphore::new(LISTINGS)),
            fatal: Mutex::default(),
            stop: watch::Sender::new(false),
            cleared: Mutex::default(),
            claims: Claims::default(),
            events,
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Runs `work` unless, and until, the transfer is told to stop.
    pub(super) async fn unless_stopped<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Err(Error::unavailable("the transfer was told to stop")),
            done = work => done,
        }
    }

    /// Tells whoever listens; nobody need.
    pub(super) async fn say(&self, event: Event) {
        let _ = self.events.send(event).await;
    }

    /// Tells of a change that was made, or would be.
    pub(super) async fn acted(&self, act: Act) {
        let event = if self.options.dry_run { Event::Would(act) } else { Event::Did(act) };
        self.say(event).await;
    }

    /// Writes down that something failed. What ends because the transfer was told to stop has not failed.
    pub(super) async fn failed(&self, path: impl Display, error: &Error) {
        if self.is_stopped() {
            return;
        }
        if error.kind() == ErrorKind::Unauthenticated {
            // Nothing else would fare better.
            *self.fatal.lock() = Some(Error::new(error.kind(), error.message()));
            self.stop.send_replace(true);
        }
        let failure = Failure { path: path.to_string(), kind: error.kind(), message: error.message().to_owned() };
        Progress::add(&self.progress.failed, 1);
        Report::keep(&mut self.failures.lock(), failure.clone());
        self.say(Event::Failed(failure)).await;
    }

    /// Does something that is done in one call, again and again while it fails in ways that may go by themselves, for as long as is allowed.
    pub(super) async fn persist<T, F: Future<Output = Result<T>>>(
        &self,
        path: &DrivePath,
        work: impl Fn() -> F,
    ) -> Result<T> {
        let mut tries = Tries::new(self, path);
        loop {
            match self.unless_stopped(watched(self.options.stall, work())).await {
                Err(error) if error.is_temporary() => tries.again(error).await?,
                done => return done,
            }
        }
    }
}

/// Permits for so many bytes: all of them for what is larger than the budget.
pub(super) fn permits_for(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX).min(PERMITS)
}

/// Tries of one thing.
pub(super) struct Tries<'r> {
    run: &'r Run,
    path: &'r DrivePath,
    progressed: Instant,
    count: u32,
}

impl<'r> Tries<'r> {
    pub(super) fn new(run: &'r Run, path: &'r DrivePath) -> Self {
        Self { run, path, progressed: Instant::now(), count: 0 }
    }

    /// It got further than before.
    pub(super) fn progressed(&mut self) {
        (self.progressed, self.count) = (Instant::now(), 0);
    }

    /// Waits before another try, or gives up with the error that made it necessary.
    pub(super) async fn again(&mut self, error: Error) -> Result<()> {
        let run = self.run;
        let wait = self.pause(&error);
        if run.is_stopped() || self.progressed.elapsed() + wait > run.options.retry_for {
            return Err(error);
        }
        self.count += 1;
        Progress::add(&run.progress.retries, 1);
        run.say(Event::Retry { path: self.path.clone(), why: error.message().to_owned(), wait }).await;
        let waited = async {
            tokio::time::sleep(wait).await;
            Ok(())
        };
        run.unless_stopped(waited).await
    }

    /// Half of a pause is drawn from the path, so that what failed together does not come back together.
    fn pause(&self, error: &Error) -> Duration {
        let full = PAUSE_FIRST.saturating_mul(1 << self.count.min(16)).min(PAUSE_LONGEST);
        let drawn = blake3::hash(self.path.to_string().as_bytes()).as_bytes()[0];
        let pause = full / 2 + full / 2 * u32::from(drawn) / 255;
        match error.kind() {
            ErrorKind::TooManyRequests { retry_after_s } => pause.max(Duration::from_secs(u64::from(retry_after_s))),
            _ => pause,
        }
    }
}
