//! The instances of one version: who may call now, who waits, and instances that are started ahead of their calls.
//!
//! **Turns.** As many calls run at a time as the function allows; as many more wait, in order; beyond that they are refused.
//!
//! **Warm.** A task keeps so many instances ready as the manifest says. Their programs have started and wait in their first read of standard input. A call takes
//! the oldest; if there is none, it starts one itself. One that ends before its call is replaced; when that happens again and again without a call between
//! them, the pauses grow, and after [`DEATHS_MAX`] it is given up and said: such a program does not wait for its input, and each of its calls starts cold.

use crate::call::{Call, Turn};
use crate::id::Id;
use crate::instance::Instance;
use crate::record::Record;
use crate::store::Function;
use holdfast_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::AsyncRead;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

/// Longest that a call waits for its turn.
const WAIT_TIME: Duration = Duration::from_mins(1);
/// Instances that end before their calls, one after another, until it is given up.
const DEATHS_MAX: u32 = 5;
/// Pause after the first of them; it doubles with each.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest that the next instance is not started for the sake of the call that took the last: most calls of warm instances are over by then.
const GRACE: Duration = Duration::from_millis(5);
/// Oldest that an instance gets: what it sees of the machine is from when it was started.
const AGE_MAX: Duration = Duration::from_mins(10);

/// The instances of a version.
pub(crate) struct Pool {
    function: Arc<Function>,
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
    ready: Mutex<VecDeque<Instance>>,
    /// Instances that ended before their calls, since the last that did not.
    deaths: AtomicU32,
    /// An instance was taken; a call ended.
    taken: Notify,
    ended: Notify,
    trouble: Mutex<Option<String>>,
    stop: watch::Sender<bool>,
    /// Whether the task runs that looks after what is ready.
    keeping: watch::Sender<bool>,
}

/// Somebody who waits for a turn.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Pool {
    /// Begins to keep instances ready. Within a runtime.
    pub(crate) fn start(function: Function) -> Arc<Self> {
        let limits = function.manifest.limits;
        let pool = Arc::new(Self {
            function: Arc::new(function),
            turns: Arc::new(Semaphore::new(limits.concurrency)),
            waiting: AtomicUsize::new(0),
            ready: Mutex::new(VecDeque::new()),
            deaths: AtomicU32::new(0),
            taken: Notify::new(),
            ended: Notify::new(),
            trouble: Mutex::new(None),
            stop: watch::Sender::new(false),
            keeping: watch::Sender::new(limits.warm > 0),
        });
        if limits.warm > 0 {
            tokio::spawn(Arc::clone(&pool).keep());
        }
        pool
    }

    pub(crate) fn function(&self) -> &Function {
        &self.function
    }

    /// Why nothing is kept ready any more, if that was given up.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Instances that are ready now.
    pub(crate) fn ready(&self) -> usize {
        self.ready.lock().len()
    }

    /// Their first processes.
    pub(crate) fn pids(&self) -> Vec<i32> {
        self.ready.lock().iter().map(Instance::pid).collect()
    }

    /// Calls under way, and calls that wait.
    pub(crate) fn busy(&self) -> (usize, usize) {
        let most = self.function.manifest.limits.concurrency;
        (most - self.turns.available_permits(), self.waiting.load(Ordering::Acquire))
    }

    /// Ends what is ready and keeps nothing any more. Calls under way go on, unless they are to be ended as well.
    pub(crate) fn retire(&self) {
        self.stop.send_replace(true);
    }

    /// Comes when nothing is ready any more, after [`Pool::retire`].
    pub(crate) async fn retired(&self) {
        let mut keeping = self.keeping.subscribe();
        let _ = keeping.wait_for(|keeping| !keeping).await;
    }

    /// Takes a turn.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(turn) = Arc::clone(&self.turns).try_acquire_owned() {
            return Ok(turn);
        }
        let limits = &self.function.manifest.limits;
        let busy = |why: String| {
            let why = format!("{} is busy: {why}", self.function.name);
            Error::new(ErrorKind::TooManyRequests { retry_after_s: 1 }, why)
        };
        let before = self.waiting.fetch_add(1, Ordering::AcqRel);
        let _waits = Waits(&self.waiting);
        if before >= limits.waiting {
            return Err(busy(format!("{} calls are under way, and {} wait", limits.concurrency, limits.waiting)));
        }
        match tokio::time::timeout(WAIT_TIME, Arc::clone(&self.turns).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(busy(format!("no turn came within {} s", WAIT_TIME.as_secs()))),
        }
    }

    /// Calls it, with a turn. The call is recorded before it is told.
    pub(crate) async fn call(
        &self,
        id: Id,
        waited: Duration,
        by: &str,
        input: &mut (dyn AsyncRead + Send + Unpin),
        stop: &mut watch::Receiver<bool>,
        held: impl Send + 'static,
    ) -> Call {
        let began = Instant::now();
        let warm = self.take();
        let turn = Turn { id, limits: &self.function.manifest.limits, began, waited, cold: warm.is_none() };
        let started = match warm {
            Some(instance) => Ok(instance),
            None => Instance::start(Arc::clone(&self.function)).await,
        };
        let call = match started {
            Ok(instance) => turn.run(instance, input, stop, held).await,
            Err(error) => turn.not_started(&error),
        };
        self.ended.notify_waiters();
        let record = Record::of(&call, self.function.version, by, self.function.manifest.limits.kept);
        let records = self.function.records.clone();
        let kept = tokio::task::spawn_blocking(move || records.add(&record)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, function = %self.function.name, "a call could not be recorded");
        }
        call
    }

    /// The oldest instance that is ready and has not ended.
    fn take(&self) -> Option<Instance> {
        let mut ready = self.ready.lock();
        // One that has ended stays for the task that looks after them, which says why.
        let alive = ready.iter().position(|instance| !instance.has_ended())?;
        let taken = ready.remove(alive);
        drop(ready);
        self.deaths.store(0, Ordering::Release);
        self.taken.notify_one();
        taken
    }

    /// Keeps instances ready, until it is told to stop or it makes no sense.
    async fn keep(self: Arc<Self>) {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            () = self.look_after() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        loop {
            let Some(instance) = self.ready.lock().pop_front() else { break };
            instance.end(()).await;
        }
        self.keeping.send_replace(false);
    }

    async fn look_after(&self) {
        let warm = self.function.manifest.limits.warm;
        loop {
            while self.ready() < warm {
                match Instance::start(Arc::clone(&self.function)).await {
                    Ok(instance) => self.ready.lock().push_back(instance),
                    Err(error) if self.died(&format!("it could not be started: {error}")).await => return,
                    Err(_) => {}
                }
            }
            tokio::select! {
                () = self.taken.notified() => self.give_way().await,
                () = std::future::poll_fn(|context| self.poll_ended(context)) => {}
                () = tokio::time::sleep(self.youth()) => {}
            }
            if self.weed().await {
                return;
            }
        }
    }

    /// Waits until the call that took an instance has ended, unless that takes longer: starting the next would take processor time from it.
    async fn give_way(&self) {
        let _ = tokio::time::timeout(GRACE, self.ended.notified()).await;
    }

    fn poll_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        // Each is asked, so that each wakes this task.
        let ended = self.ready.lock().iter().filter(|instance| instance.poll_ended(context).is_ready()).count();
        if ended > 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Time until the oldest is too old.
    fn youth(&self) -> Duration {
        let oldest = self.ready.lock().front().map(|instance| instance.since.elapsed());
        AGE_MAX.saturating_sub(oldest.unwrap_or_default())
    }

    /// Removes what has ended or is too old. True if no more are to be started.
    async fn weed(&self) -> bool {
        loop {
            let gone = {
                let mut ready = self.ready.lock();
                let is_gone = |instance: &Instance| instance.has_ended() || instance.since.elapsed() >= AGE_MAX;
                let place = ready.iter().position(is_gone);
                place.and_then(|place| ready.remove(place))
            };
            let Some(instance) = gone else { return false };
            let why = instance.last_words();
            instance.end(()).await;
            if let Some(why) = why
                && self.died(&why).await
            {
                return true;
            }
        }
    }

    /// Notes that an instance ended before its call, and pauses. True if it is given up.
    async fn died(&self, why: &str) -> bool {
        let deaths = self.deaths.fetch_add(1, Ordering::AcqRel) + 1;
        if deaths < DEATHS_MAX {
            tokio::time::sleep(PAUSE * (1 << deaths)).await;
            return false;
        }
        let name = &self.function.name;
        let said = format!(
            "none of {name} is started ahead of its call any more: {deaths} ended before theirs, the last so: {why}"
        );
        tracing::warn!("{said}");
        *self.trouble.lock() = Some(said);
        true
    }
}
