//! PostgreSQL's side of the seam: one connection, its prepared statements, and what is kept back to be sent together.
//!
//! A connection belongs to one thread at a time and has a small runtime of its own, which runs only while the thread waits
//! for an answer; so an operation is plain code, and a statement costs no hand-over to another thread. Statements that are *put*
//! wait here until somebody needs an answer, or the end of the transaction; then all of them are sent at once, and the
//! server works through them while later ones are on their way (the protocol's pipelining). If one fails, the
//! transaction is of no use any more and the error is told by whatever came after: [`PgLink::was_late`] says so.

use super::fault::slow;
use super::values::type_of;
use crate::sql::fault::{DatabaseError, Done, Trouble};
use crate::sql::seam::{Dialect, Each, EachOfMany, Flow, Link, Owned, Row, Value};
use futures_util::TryStreamExt;
use futures_util::future::{MaybeDone, join, maybe_done};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Error, Statement};

/// Statements kept back at most; more are sent without waiting for a reason, so that memory stays bounded.
const KEPT_BACK: usize = 64;

/// Requests of one pipeline at most.
const PIPELINE: usize = 256;

/// Prepared statements of a connection: more than there are in this crate. Beyond (a check makes some that differ) all are
/// forgotten.
const STATEMENTS: usize = 400;

/// What is kept back.
enum Kept {
    /// Begins or ends a transaction or a savepoint.
    Control(&'static str),
    /// A statement and its parameters.
    Put(Statement, Vec<Owned>),
}

/// A place among what is kept back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    sent: u64,
    kept: usize,
}

/// A connection.
pub(super) struct PgLink {
    // None only while it is dropped.
    runtime: Option<Runtime>,
    client: Client,
    patience: Duration,
    statements: RefCell<HashMap<String, Statement>>,
    kept: RefCell<Vec<Kept>>,
    sent: Cell<u64>,
    late: Cell<bool>,
    broken: Cell<bool>,
    trips: Cell<u64>,
}

/// Why a commit did not answer that it was made.
pub(super) enum CommitFault {
    /// It was not made.
    NotMade(DatabaseError),
    /// Nobody knows.
    Unknown(DatabaseError),
}

impl PgLink {
    /// Of a connection whose other half runs on `runtime`; no answer takes longer than `patience`.
    pub(super) fn new(runtime: Runtime, client: Client, patience: Duration) -> Self {
        Self {
            runtime: Some(runtime),
            client,
            patience,
            statements: RefCell::default(),
            kept: RefCell::default(),
            sent: Cell::new(0),
            late: Cell::new(false),
            broken: Cell::new(false),
            trips: Cell::new(0),
        }
    }

    /// Brings the schema up to date.
    pub(super) fn migrate(&mut self, runner: &refinery::Runner) -> Result<(), refinery::Error> {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(runner.run_async(&mut self.client))?;
        }
        Ok(())
    }

    /// Keeps back a statement that begins or ends something.
    pub(super) fn control(&self, sql: &'static str) {
        self.kept.borrow_mut().push(Kept::Control(sql));
    }

    /// What is kept back until now.
    pub(super) fn mark(&self) -> Mark {
        Mark { sent: self.sent.get(), kept: self.kept.borrow().len() }
    }

    /// Forgets what was kept back since `mark`.
    pub(super) fn forget(&self, mark: Mark) {
        // If what was there at the mark was sent, everything that is here came after it.
        let keep = if mark.sent == self.sent.get() { mark.kept } else { 0 };
        self.kept.borrow_mut().truncate(keep);
    }

    /// What is kept back, to be sent now.
    fn take_kept(&self) -> Vec<Kept> {
        self.sent.set(self.sent.get() + 1);
        self.kept.take()
    }

    /// Sends what was kept back and waits for its answers.
    pub(super) fn flush(&self) -> Done<()> {
        let kept = self.take_kept();
        if kept.is_empty() {
            return Ok(());
        }
        self.wait(async { first_error(in_order(kept.iter().map(|one| send(&self.client, one))).await) })?;
        Ok(())
    }

    /// Ends the transaction, with what was kept back before. If a statement failed, the database takes everything back.
    pub(super) fn commit(&self) -> Result<(), CommitFault> {
        let kept = self.take_kept();
        let sent = self.wait(async {
            let before = in_order(kept.iter().map(|one| send(&self.client, one)));
            Ok(join(before, self.client.batch_execute("COMMIT")).await)
        });
        let (before, commit) = sent.map_err(CommitFault::Unknown)?;
        // An answer of the database to an earlier statement says that it did not get as far as the commit.
        if let Err(error) = first_error(before) {
            let answered = error.as_db_error().is_some();
            let error = self.note(error);
            return Err(if answered { CommitFault::NotMade(error) } else { CommitFault::Unknown(error) });
        }
        let Err(error) = commit else { return Ok(()) };
        let answered = error.as_db_error().is_some();
        let error = self.note(error);
        let refused = answered && error.trouble != Trouble::Connection;
        Err(if refused { CommitFault::NotMade(error) } else { CommitFault::Unknown(error) })
    }

    /// Takes everything back and waits until that is done. Afterwards the connection is as new, or [`Self::is_broken`].
    pub(super) fn roll_back(&self) {
        let kept = self.take_kept();
        self.late.set(false);
        let unsent = matches!(kept.first(), Some(Kept::Control(sql)) if sql.starts_with("BEGIN"));
        if unsent || self.is_broken() {
            return;
        }
        if self.wait(self.client.batch_execute("ROLLBACK")).is_err() {
            self.broken.set(true);
        }
    }

    /// Whether the last error was of a statement that had been kept back. Forgets it.
    pub(super) fn was_late(&self) -> bool {
        self.late.replace(false)
    }

    /// Whether this is of no use any more.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.get() || self.client.is_closed()
    }

    /// Round trips until now.
    pub(super) const fn trips(&self) -> u64 {
        self.trips.get()
    }

    /// Waits for an answer, so long as patience lasts.
    fn wait<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, DatabaseError> {
        self.trips.set(self.trips.get() + 1);
        let Some(runtime) = &self.runtime else { return Err(slow()) };
        match runtime.block_on(async { tokio::time::timeout(self.patience, work).await }) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.note(error)),
            Err(_) => {
                self.broken.set(true);
                Err(slow())
            }
        }
    }

    fn note(&self, error: Error) -> DatabaseError {
        let error = DatabaseError::from(error);
        if error.trouble == Trouble::Connection {
            self.broken.set(true);
        }
        error
    }

    /// The prepared statement; costs a round trip when it is new to this connection.
    fn prepared(&self, sql: &str, params: &[Value<'_>]) -> Done<Statement> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let types: Vec<_> = params.iter().map(|value| type_of(*value)).collect();
        let text = numbered(sql);
        let statement = self.wait(self.client.prepare_typed(&text, &types))?;
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= STATEMENTS {
            statements.clear();
        }
        statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Sends what was kept back, then `main`, and waits for all. The first error is told.
    fn exchange<T>(&self, main: impl Future<Output = Result<T, Error>>) -> Done<T> {
        let kept = self.take_kept();
        let (before, answer) = self.wait(async {
            let before = in_order(kept.iter().map(|one| send(&self.client, one)));
            Ok(join(before, main).await)
        })?;
        if let Err(error) = first_error(before) {
            self.late.set(true);
            return Err(self.note(error).into());
        }
        answer.map_err(|error| self.note(error).into())
    }
}

/// `?1` to `$1`: what SQLite understands to what PostgreSQL does.
fn numbered(sql: &str) -> String {
    sql.replace('?', "$")
}

async fn send(client: &Client, kept: &Kept) -> Result<(), Error> {
    match kept {
        Kept::Control(sql) => client.batch_execute(sql).await,
        Kept::Put(statement, params) => client.execute_raw(statement, params.iter().map(Owned::value)).await.map(drop),
    }
}

fn first_error(answers: Vec<Result<(), Error>>) -> Result<(), Error> {
    answers.into_iter().collect()
}

/// Runs futures side by side, each polled for the first time in order: so requests are sent in this order.
async fn in_order<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<MaybeDone<F>>>> = futures.map(|future| Box::pin(maybe_done(future))).collect();
    poll_fn(|context| {
        let mut all = Poll::Ready(());
        for future in &mut running {
            if future.as_mut().poll(context).is_pending() {
                all = Poll::Pending;
            }
        }
        all
    })
    .await;
    running.iter_mut().filter_map(|future| future.as_mut().take_output()).collect()
}

impl Link for PgLink {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn run(&self, sql: &str, params: &[Value<'_>]) -> Done<usize> {
        let statement = self.prepared(sql, params)?;
        let count = self.exchange(self.client.execute_raw(&statement, params.iter().copied()))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn put(&self, sql: &str, params: &[Value<'_>]) -> Done<()> {
        let statement = self.prepared(sql, params)?;
        self.kept.borrow_mut().push(Kept::Put(statement, params.iter().map(|value| Owned::of(*value)).collect()));
        if self.kept.borrow().len() < KEPT_BACK {
            return Ok(());
        }
        let flushed = self.flush();
        self.late.set(flushed.is_err());
        flushed
    }

    fn query(&self, sql: &str, params: &[Value<'_>], each: Each<'_>) -> Done<()> {
        let statement = self.prepared(sql, params)?;
        let read = async {
            let mut rows = pin!(self.client.query_raw(&statement, params.iter().copied()).await?);
            while let Some(row) = rows.try_next().await? {
                match each(&Row::new(&row)) {
                    Ok(Flow::On) => {}
                    Ok(Flow::Enough) => break,
                    Err(fault) => return Ok(Err(fault)),
                }
            }
            Ok(Ok(()))
        };
        self.exchange(read)?
    }

    fn run_many(&self, sql: &str, width: usize, params: &[Value<'_>]) -> Done<Vec<usize>> {
        let mut counts = Vec::with_capacity(params.len() / width.max(1));
        for part in params.chunks(width.max(1) * PIPELINE) {
            let statement = self.prepared(sql, part.get(..width).unwrap_or(part))?;
            let runs = part.chunks_exact(width.max(1)).map(|params| {
                let (client, statement) = (&self.client, &statement);
                async move { client.execute_raw(statement, params.iter().copied()).await }
            });
            let answers = self.exchange(async { in_order(runs).await.into_iter().collect::<Result<Vec<u64>, _>>() })?;
            counts.extend(answers.into_iter().map(|count| usize::try_from(count).unwrap_or(usize::MAX)));
        }
        Ok(counts)
    }

    fn query_many(&self, sql: &str, width: usize, params: &[Value<'_>], each: EachOfMany<'_>) -> Done<()> {
        for (number, part) in params.chunks(width.max(1) * PIPELINE).enumerate() {
            let statement = self.prepared(sql, part.get(..width).unwrap_or(part))?;
            let queries = part.chunks_exact(width.max(1)).map(|params| {
                let (client, statement) = (&self.client, &statement);
                async move {
                    let rows = client.query_raw(statement, params.iter().copied()).await?;
                    rows.try_collect::<Vec<_>>().await
                }
            });
            let answers =
                self.exchange(async { in_order(queries).await.into_iter().collect::<Result<Vec<_>, _>>() })?;
            for (index, rows) in answers.iter().enumerate() {
                for row in rows {
                    each(number * PIPELINE + index, &Row::new(row))?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for PgLink {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waits for nothing, and so may run anywhere.
            runtime.shutdown_background();
        }
    }
}
