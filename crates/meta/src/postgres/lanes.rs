//! The threads that write, and group commit across a network.
//!
//! A space's id says which lane its operations go to; there is one lane more for what is of no space. A lane takes the first
//! operation that waits and with it whatever else waits for the same space, begins a transaction, locks the space's row, runs each
//! in a savepoint, commits, and only then answers all of them. So no lane ever holds the locks of two spaces but for an
//! operation that locks them itself, in order.
//!
//! Statements nobody waits for are sent together ([`super::link`]): a small operation costs a round trip for each of its questions
//! and one for all of its changes with the commit. If such a statement fails, it is not known at once whose it was: the
//! transaction is taken back and run again, waiting after each operation.
//!
//! **Failures.** A transaction that is serialised or deadlocked is run again, [`RETRIES`] times, after pauses of random length. One whose connection is
//! lost before its commit was sent is run again on a new one. One whose commit was sent and not answered is not: nobody knows
//! whether it was made, and that is what its callers are told. An operation that was handed over runs even if its caller
//! goes away meanwhile.

use super::Options;
use super::connector::{Connector, Session, jittered};
use super::fault::UNKNOWN;
use super::feed::{Feed, Teller};
use super::ids::{Block, PgIds};
use super::link::{CommitFault, PgLink};
use crate::catalogue::Change;
use crate::sql::fault::{DatabaseError, Done, Fault, Trouble};
use crate::sql::job::{BatchFailure, Job, Operation, Ran};
use crate::sql::query as sql;
use crate::sql::seam::Link;
use crate::sql::tx::{LOCK_ADMINISTRATION, Scope, Tx};
use crate::types::Durable;
use holdfast_base::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Operations that may wait for a lane; a caller beyond waits for room.
const QUEUE: usize = 512;

/// Operations of one batch at most: beyond this, the sync is already shared well and the space stays locked for long.
const BATCH_OPERATIONS: usize = 64;

/// Times a transaction is run again after others were in the way; with the pauses, some seconds in all.
const RETRIES: u32 = 12;

/// Times a transaction is run again because its connection was lost; each waits for the database as long as it may.
const RECONNECTS: u32 = 3;

/// Pauses before a transaction is run again: the first, and what they grow to.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(500);

enum Message {
    Run(Box<dyn Job>),
    Stop,
}

/// Handles of the writing threads.
pub(super) struct Lanes {
    general: mpsc::Sender<Message>,
    spaces: Vec<mpsc::Sender<Message>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Lanes {
    /// Starts the threads; they connect when they are first needed.
    pub(super) fn start(connector: &Arc<Connector>, options: &Options, feed: &Feed) -> Result<Self> {
        let mut threads = Vec::new();
        let mut lane = |name: String| -> Result<mpsc::Sender<Message>> {
            let (queue, jobs) = mpsc::channel(QUEUE);
            let lane = Lane {
                connector: Arc::clone(connector),
                session: Session { statement: options.statement_timeout, by_index: true },
                teller: feed.teller(),
                jobs,
                waiting: VecDeque::new(),
                link: None,
                block: Block::default(),
                stopping: false,
            };
            threads.push(std::thread::Builder::new().name(name).spawn(move || lane.work())?);
            Ok(queue)
        };
        let general = lane("catalogue-write".to_owned())?;
        let spaces = (0..options.lanes.max(1)).map(|number| lane(format!("catalogue-{number}")));
        let spaces = spaces.collect::<Result<_>>()?;
        Ok(Self { general, spaces, threads: Mutex::new(threads) })
    }

    /// Runs an operation and answers when it is on disk; `explain` says what a refusal means.
    pub(super) async fn submit<T, F>(
        &self,
        name: &'static str,
        scope: Scope,
        work: F,
        explain: fn(Fault) -> Result<T>,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Done<T> + Send + 'static,
    {
        let (job, answer) = Operation::boxed((name, Durable::Now), scope, work, explain);
        self.lane(scope).send(Message::Run(job)).await.map_err(|_| closed())?;
        // Others make changes here too, so nobody has leases.
        answer.await.map_err(|_| closed())?.map(|(done, _)| done)
    }

    fn lane(&self, scope: Scope) -> &mpsc::Sender<Message> {
        let Scope::Space(space) = scope else { return &self.general };
        let number = usize::try_from(space.0.unsigned_abs()).unwrap_or(0).checked_rem(self.spaces.len());
        number.and_then(|number| self.spaces.get(number)).unwrap_or(&self.general)
    }

    /// Lets queued operations finish and ends the threads. Blocks for as long as that takes.
    pub(super) fn stop(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if threads.is_empty() {
            return;
        }
        for lane in self.spaces.iter().chain([&self.general]) {
            let mut stop = Message::Stop;
            // The queue may be full; it drains without our help.
            while let Err(mpsc::error::TrySendError::Full(again)) = lane.try_send(stop) {
                stop = again;
                std::thread::yield_now();
            }
        }
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a writer of the catalogue ended with a defect");
            }
        }
    }
}

fn closed() -> Error {
    Error::unavailable("the catalogue is closed")
}

struct Lane {
    connector: Arc<Connector>,
    session: Session,
    teller: Teller,
    jobs: mpsc::Receiver<Message>,
    waiting: VecDeque<Box<dyn Job>>,
    link: Option<PgLink>,
    block: Block,
    stopping: bool,
}

/// Why an attempt at a batch came to nothing.
enum Broke {
    /// Others were in the way.
    Again(DatabaseError),
    /// The connection was lost, or there is none; nothing was committed.
    Lost(DatabaseError),
    /// A statement failed that had been kept back; it is not known whose it was.
    Late,
    /// The commit was refused.
    Failed(DatabaseError),
    /// The answer to the commit was lost.
    Unknown(DatabaseError),
}

impl Lane {
    fn work(mut self) {
        while let Some(batch) = self.next_batch() {
            self.run(batch);
        }
    }

    /// The first operation that waits, with all others of its space; none when there is nothing left and no more to come.
    fn next_batch(&mut self) -> Option<Vec<Box<dyn Job>>> {
        if self.waiting.is_empty() && !self.stopping {
            match self.jobs.blocking_recv() {
                Some(Message::Run(job)) => self.waiting.push_back(job),
                Some(Message::Stop) | None => self.stopping = true,
            }
        }
        self.look();
        let first = self.waiting.pop_front()?;
        let scope = first.scope();
        let mut batch = vec![first];
        if matches!(scope, Scope::Space(_)) {
            let mut others = VecDeque::with_capacity(self.waiting.len());
            for job in self.waiting.drain(..) {
                if job.scope() == scope && batch.len() < BATCH_OPERATIONS {
                    batch.push(job);
                } else {
                    others.push_back(job);
                }
            }
            self.waiting = others;
        }
        metrics::histogram!("holdfast_catalogue_batch_operations").record(batch.len() as f64);
        Some(batch)
    }

    /// Takes in what arrived meanwhile.
    fn look(&mut self) {
        while self.waiting.len() < QUEUE {
            match self.jobs.try_recv() {
                Ok(Message::Run(job)) => self.waiting.push_back(job),
                Ok(Message::Stop) => self.stopping = true,
                Err(_) => break,
            }
        }
    }

    /// Runs a batch until it is committed or there is no hope, and answers its operations.
    fn run(&mut self, mut batch: Vec<Box<dyn Job>>) {
        let began = Instant::now();
        let (mut again, mut lost, mut careful) = (0, 0, false);
        let failure = loop {
            match self.attempt(&mut batch, careful) {
                Ok(changes) => {
                    self.teller.tell(&changes);
                    break None;
                }
                Err(Broke::Late) => careful = true,
                Err(Broke::Again(_)) if again < RETRIES => {
                    again += 1;
                    metrics::counter!("holdfast_catalogue_retries_total").increment(1);
                    std::thread::sleep(jittered(PAUSE.saturating_mul(1 << again.min(10)).min(PAUSE_MAX)));
                }
                Err(Broke::Lost(_)) if lost < RECONNECTS && self.link.is_some() => {
                    lost += 1;
                    self.link = None;
                }
                Err(Broke::Again(error) | Broke::Failed(error)) => break Some(Error::from(error)),
                Err(Broke::Lost(error)) => break Some(self.give_up(error)),
                Err(Broke::Unknown(error)) => {
                    self.link = None;
                    break Some(Error::unavailable(UNKNOWN).with_source(error.cause));
                }
            }
        };
        metrics::histogram!("holdfast_catalogue_commit_seconds").record(began.elapsed().as_secs_f64());
        answer(batch, failure.as_ref());
    }

    /// There is no database: what waits now has waited long enough with the batch.
    fn give_up(&mut self, error: DatabaseError) -> Error {
        self.link = None;
        let error = Error::from(error);
        self.look();
        let waiting = self.waiting.drain(..).collect();
        answer(waiting, Some(&error));
        error
    }

    /// Runs a batch once, in one transaction.
    fn attempt(&mut self, batch: &mut [Box<dyn Job>], careful: bool) -> Result<Vec<Change>, Broke> {
        if self.link.as_ref().is_none_or(PgLink::is_broken) {
            self.link = None;
            self.link = Some(self.connector.connect(self.session).map_err(Broke::Lost)?);
        }
        let Some(link) = &self.link else { return Ok(Vec::new()) };
        let trips = link.trips();
        let done = transaction(link, &self.block, batch, careful);
        metrics::histogram!("holdfast_catalogue_round_trips").record((link.trips() - trips) as f64);
        if done.is_err() {
            link.roll_back();
        }
        done
    }
}

fn answer(batch: Vec<Box<dyn Job>>, failure: Option<&Error>) {
    if let Some(error) = failure {
        tracing::error!(?error, operations = batch.len(), "a batch of the catalogue failed");
    }
    let failure = failure.map(BatchFailure::new);
    for job in batch {
        metrics::counter!("holdfast_catalogue_operations_total", "operation" => job.name()).increment(1);
        job.answer(failure.as_ref().map_or(Ok(()), Err), Vec::new());
    }
}

fn transaction(link: &PgLink, block: &Block, batch: &mut [Box<dyn Job>], careful: bool) -> Result<Vec<Change>, Broke> {
    block.leave_unkept();
    link.control("BEGIN ISOLATION LEVEL READ COMMITTED");
    let single = batch.len() == 1;
    let scope = batch.first().map_or(Scope::Alone, |job| job.scope());
    lock(link, scope).map_err(broke)?;
    let ids = PgIds { link, block };
    let mut changes = Vec::new();
    let mut any = false;
    for job in batch {
        if !single {
            link.control("SAVEPOINT operation");
        }
        let told = run_one(&ids, scope, job.as_mut(), careful)?;
        match (single, &told) {
            (true, _) => {}
            (false, Some(_)) => link.control("RELEASE SAVEPOINT operation"),
            (false, None) => {
                link.control("ROLLBACK TO SAVEPOINT operation");
                link.control("RELEASE SAVEPOINT operation");
            }
        }
        any |= told.is_some();
        changes.extend(told.into_iter().flatten());
    }
    if !any {
        // Nothing to keep; every operation has its answer.
        link.roll_back();
        return Ok(changes);
    }
    match link.commit() {
        Ok(()) => {
            block.keep();
            Ok(changes)
        }
        Err(CommitFault::Unknown(error)) => Err(Broke::Unknown(error)),
        Err(CommitFault::NotMade(error)) if error.trouble == Trouble::Statement && !careful && !single => {
            Err(Broke::Late)
        }
        Err(CommitFault::NotMade(error)) => Err(broke(error.into())),
    }
}

/// Runs an operation; answers its changes if they are to be kept.
fn run_one(ids: &PgIds<'_>, scope: Scope, job: &mut dyn Job, careful: bool) -> Result<Option<Vec<Change>>, Broke> {
    let link = ids.link;
    let mark = link.mark();
    let tx = Tx::new(link, ids, scope);
    let mut ran = job.run(&tx);
    if let (Ran::Well, true) = (&ran, careful)
        && let Err(fault) = link.flush()
    {
        let error = database_error(fault)?;
        job.fail(error.clone());
        ran = Ran::Failed(error);
    }
    match ran {
        Ran::Well => return Ok(Some(tx.into_changes().into_iter().map(|noted| noted.change).collect())),
        Ran::Failed(error) if error.trouble != Trouble::Statement => return Err(broke(error.into())),
        Ran::Failed(_) if link.was_late() && !careful => return Err(Broke::Late),
        Ran::Refused | Ran::Failed(_) => link.forget(mark),
    }
    Ok(None)
}

/// Locks what the batch is about, before its first savepoint: what is locked after one is let go when it is taken back.
fn lock(link: &PgLink, scope: Scope) -> Done<()> {
    match scope {
        Scope::Space(space) => {
            sql::put(link, "SELECT space_id FROM space_sum WHERE space_id = ?1 FOR UPDATE", [space.0])
        }
        Scope::Administration => link.put(LOCK_ADMINISTRATION, &[]),
        Scope::Alone => Ok(()),
    }
}

fn broke(fault: Fault) -> Broke {
    match fault {
        Fault::Database(error) => match error.trouble {
            Trouble::Again => Broke::Again(*error),
            Trouble::Connection => Broke::Lost(*error),
            Trouble::Statement => Broke::Failed(*error),
        },
        other => Broke::Failed(DatabaseError {
            kind: holdfast_base::ErrorKind::Internal,
            message: crate::sql::fault::DEFECT,
            trouble: Trouble::Statement,
            cause: Arc::new(Error::from(other)),
        }),
    }
}

/// The database's error of a flush, if the transaction can go on after it.
fn database_error(fault: Fault) -> Result<DatabaseError, Broke> {
    match fault {
        Fault::Database(error) if error.trouble == Trouble::Statement => Ok(*error),
        other => Err(broke(other)),
    }
}
