//! The one thread that writes, and group commit.
//!
//! Operations arrive over a bounded channel. The thread begins a transaction with the first, runs it and whatever else is
//! queued by then, each in a savepoint, commits, and only then answers all of them: so many callers share one sync, and a
//! lone caller waits for nobody. An operation that fails takes back its own savepoint only. A commit that fails fails every
//! operation of the batch, the transaction is rolled back, and after an I/O error the connection is opened anew.
//!
//! An operation that was handed over runs even if its caller goes away meanwhile.
//!
//! **Alone.** An operation that need not be on disk at once takes as long as handing it over and waking its caller again. If nothing else is under way
//! or waits, its caller runs it by itself, on the thread that asks; whoever comes meanwhile hands over.
//!
//! **Soon.** Operations that need not be on disk at once ([`Durable::Soon`]) are committed without a sync while nobody asks for one: the
//! log is written in order, so what a power cut takes back is its end, and the next sync is of everything before it. One that asks
//! for a sync begins a batch of its own; those that do not may join it.

use super::counter::Counter;
use super::fault::explain;
use super::open::{Opener, Purpose};
use super::wal::LogKeeper;
use crate::catalogue::{Change, Noted};
use crate::leases::Leases;
use crate::sql::fault::{Done, Fault, Trouble};
use crate::sql::job::{Answered, BatchFailure, Job, Operation, Ran};
use crate::sql::query as sql;
use crate::sql::tx::{Scope, Tx};
use crate::types::Durable;
use holdfast_base::{Error, Result, SpaceId};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, mpsc};

/// Operations that may wait; a caller beyond waits for room. Each is an upload's metadata of 100 KiB at most, mostly far less.
const QUEUE: usize = 512;

/// Operations of one batch at most: beyond this, the sync is already shared well and waiting would only grow.
const BATCH_OPERATIONS: usize = 256;

/// Time a batch takes in operations before it is committed.
const BATCH_TIME: Duration = Duration::from_millis(20);

/// Changes kept for a receiver that is behind; one that is further behind is told so.
const CHANGES: usize = 1_024;

enum Message {
    Run(Box<dyn Job>),
    Stop,
}

/// Handle of the writing thread.
pub(super) struct Writer {
    queue: mpsc::Sender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
    worker: Arc<Mutex<Worker>>,
    /// Operations that were handed over and are not answered.
    handed_over: AtomicUsize,
    changes: broadcast::Sender<Change>,
}

impl Writer {
    /// Starts the thread with its first connection.
    pub(super) fn start(opener: Opener, log: LogKeeper, leases: Arc<Leases>) -> Result<Self> {
        let connection = opener.open(Purpose::Write).map_err(explain)?;
        let (queue, jobs) = mpsc::channel(QUEUE);
        let changes = broadcast::Sender::new(CHANGES);
        let connection = Some(connection);
        let worker =
            Worker { opener, log, connection, synced: Durable::Now, changes: changes.clone(), leases, stopped: false };
        let worker = Arc::new(Mutex::new(worker));
        let shared = worker.clone();
        let thread =
            std::thread::Builder::new().name("catalogue-write".to_owned()).spawn(move || work(&shared, jobs))?;
        let (thread, handed_over) = (Mutex::new(Some(thread)), AtomicUsize::new(0));
        Ok(Self { queue, thread, worker, handed_over, changes })
    }

    /// Runs an operation and answers when it is as durable as it asks for; `explain` says what a refusal means. What is to be waited for then, the caller
    /// waits for.
    pub(super) async fn submit<T, F>(
        &self,
        named: (&'static str, Durable),
        scope: Scope,
        work: F,
        explain: fn(Fault) -> Result<T>,
    ) -> Answered<T>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Done<T> + Send + 'static,
    {
        let (job, answer) = Operation::boxed(named, scope, work, explain);
        if let Some(job) = self.run_alone(job) {
            self.handed_over.fetch_add(1, Ordering::AcqRel);
            let _less = Less(&self.handed_over);
            self.queue.send(Message::Run(job)).await.map_err(|_| closed())?;
            return answer.await.map_err(|_| closed())?;
        }
        answer.await.map_err(|_| closed())?
    }

    /// Runs an operation here, or gives it back.
    fn run_alone(&self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        if job.durable() == Durable::Now || self.handed_over.load(Ordering::Acquire) > 0 {
            return Some(job);
        }
        let Ok(mut worker) = self.worker.try_lock() else { return Some(job) };
        if worker.stopped {
            return Some(job);
        }
        worker.batch(job, |_| None);
        None
    }

    /// Changes from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Lets queued operations finish and ends the thread. Blocks for as long as that takes.
    pub(super) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let mut stop = Message::Stop;
            // The queue may be full; it drains without our help.
            while let Err(mpsc::error::TrySendError::Full(again)) = self.queue.try_send(stop) {
                stop = again;
                std::thread::yield_now();
            }
            if thread.join().is_err() {
                tracing::error!("the catalogue's writer ended with a defect");
            }
        }
    }
}

fn closed() -> Error {
    Error::unavailable("the catalogue is closed")
}

/// Counts one less when it goes.
struct Less<'c>(&'c AtomicUsize);

impl Drop for Less<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Worker {
    opener: Opener,
    log: LogKeeper,
    connection: Option<Connection>,
    /// How the connection commits.
    synced: Durable,
    changes: broadcast::Sender<Change>,
    leases: Arc<Leases>,
    stopped: bool,
}

/// Changes of a batch, those of a space as one.
type Changes = BTreeMap<SpaceId, Change>;

/// Runs what is handed over until it is told to stop.
fn work(worker: &Mutex<Worker>, mut jobs: mpsc::Receiver<Message>) {
    let mut going_on = true;
    let mut carried = None;
    while going_on || carried.is_some() {
        let first = match carried.take() {
            Some(job) => job,
            None => match jobs.blocking_recv() {
                Some(Message::Run(job)) => job,
                Some(Message::Stop) | None => break,
            },
        };
        lock(worker).batch(first, |durable| match jobs.try_recv() {
            Ok(Message::Run(job)) if durable == Durable::Soon && job.durable() == Durable::Now => {
                carried = Some(job);
                None
            }
            Ok(Message::Run(job)) => Some(job),
            Ok(Message::Stop) => {
                going_on = false;
                None
            }
            Err(_) => None,
        });
        metrics::gauge!("holdfast_catalogue_queue_depth").set(jobs.len() as f64);
    }
    let mut worker = lock(worker);
    worker.stopped = true;
    worker.log.stop();
    if let Some(connection) = worker.connection.take() {
        super::wal::copy_all(&connection);
    }
}

/// An operation with a defect ends its caller; its connection is gone, and the next one opens another.
fn lock(worker: &Mutex<Worker>) -> MutexGuard<'_, Worker> {
    worker.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    /// Runs one batch that starts with `first`; `more` answers, for how durable it is, what else is to be in it.
    fn batch(&mut self, first: Box<dyn Job>, mut more: impl FnMut(Durable) -> Option<Box<dyn Job>>) {
        let mut batch: Vec<(Box<dyn Job>, Vec<Noted>)> = Vec::new();
        let durable = first.durable();
        let mut next = Some(first);
        let began = Instant::now();
        let result = self.transaction(durable, |connection, ids| {
            while let Some(mut job) = next.take() {
                let mut noted = Vec::new();
                let ran = in_savepoint(connection, ids, job.as_mut(), &mut noted);
                batch.push((job, noted));
                ran?;
                if batch.len() < BATCH_OPERATIONS && began.elapsed() < BATCH_TIME {
                    next = more(durable);
                }
            }
            Ok(())
        });
        // If the transaction could not even begin, the first operation fails with it.
        batch.extend(next.take().map(|job| (job, Vec::new())));
        metrics::histogram!("holdfast_catalogue_batch_operations").record(batch.len() as f64);
        let failure = result.err().map(|error| {
            tracing::error!(?error, operations = batch.len(), "a batch of the catalogue failed");
            BatchFailure::new(&error)
        });
        let mut changes = Changes::new();
        let mut waits = Vec::new();
        for (_, noted) in &mut batch {
            let noted = if failure.is_none() { std::mem::take(noted) } else { Vec::new() };
            // Before anybody hears of it: whoever did would ask again, and that would be forgotten with what it asked before.
            waits.push(noted.iter().filter_map(|noted| self.leases.changed(noted)).collect());
            for Noted { change, .. } in noted {
                changes.entry(change.space).and_modify(|all| *all = all.and(change)).or_insert(change);
            }
        }
        self.tell(&changes);
        for ((job, _), waits) in batch.into_iter().zip(waits) {
            metrics::counter!("holdfast_catalogue_operations_total", "operation" => job.name()).increment(1);
            job.answer(failure.as_ref().map_or(Ok(()), Err), waits);
        }
        if let Some(connection) = &self.connection {
            self.log.after_commit(connection);
        }
    }

    fn tell(&self, changes: &Changes) {
        for change in changes.values() {
            // Nobody may be listening.
            let _ = self.changes.send(*change);
        }
    }

    /// Begins, works, commits; on any failure rolls back and, if need be, gives the connection up.
    fn transaction(
        &mut self,
        durable: Durable,
        work: impl FnOnce(&Connection, &Counter<'_>) -> Done<()>,
    ) -> Result<()> {
        let connection = if let Some(connection) = self.connection.take() {
            connection
        } else {
            self.synced = Durable::Now;
            self.opener.open(Purpose::Write).map_err(explain)?
        };
        if self.synced != durable {
            // NORMAL writes the log and leaves it to the next sync; it is synced before anything is copied out of it.
            let mode = if durable == Durable::Now { "FULL" } else { "NORMAL" };
            connection.pragma_update(None, "synchronous", mode).map_err(explain)?;
            self.synced = durable;
        }
        let done = attempt(&connection, work);
        if let Err(fault) = &done {
            let clean = connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
            let spoiled = matches!(fault, Fault::Database(error) if error.trouble == Trouble::Connection);
            if spoiled || !clean {
                return done.map_err(Error::from);
            }
        }
        self.connection = Some(connection);
        done.map_err(Error::from)
    }
}

fn attempt(connection: &Connection, work: impl FnOnce(&Connection, &Counter<'_>) -> Done<()>) -> Done<()> {
    sql::run(connection, "BEGIN IMMEDIATE", ())?;
    let ids = Counter::begin(connection)?;
    work(connection, &ids)?;
    ids.finish()?;
    let began = Instant::now();
    sql::run(connection, "COMMIT", ())?;
    metrics::histogram!("holdfast_catalogue_commit_seconds").record(began.elapsed().as_secs_f64());
    Ok(())
}

/// Runs one operation so that its failure leaves no trace. An error here ends the batch.
fn in_savepoint(connection: &Connection, ids: &Counter<'_>, job: &mut dyn Job, noted: &mut Vec<Noted>) -> Done<()> {
    sql::run(connection, "SAVEPOINT operation", ())?;
    let tx = Tx::new(connection, ids, job.scope());
    match job.run(&tx) {
        Ran::Well => *noted = tx.into_changes(),
        // A full disk or an I/O error ends the whole transaction: then what was done before in this batch is gone, too.
        Ran::Failed(error) if connection.is_autocommit() => return Err(error.into()),
        Ran::Refused | Ran::Failed(_) => {
            sql::run(connection, "ROLLBACK TO operation", ())?;
        }
    }
    sql::run(connection, "RELEASE operation", ())?;
    Ok(())
}
