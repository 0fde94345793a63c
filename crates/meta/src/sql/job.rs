//! An operation on its way through a writer: what to do, what came of it, and who waits for the answer.

use super::fault::{DatabaseError, Done, Fault};
use super::tx::{Scope, Tx};
use crate::leases::Wait;
use crate::types::Durable;
use holdfast_base::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

/// Why a whole batch failed, said to each of its operations.
#[derive(Debug, Clone)]
pub(crate) struct BatchFailure {
    kind: ErrorKind,
    message: String,
}

impl BatchFailure {
    /// Keeps what the callers are told.
    pub(crate) fn new(error: &Error) -> Self {
        Self { kind: error.kind(), message: error.message().to_owned() }
    }

    fn error(&self) -> Error {
        Error::new(self.kind, self.message.clone())
    }
}

/// What became of an operation's changes.
#[derive(Debug, Clone)]
pub(crate) enum Ran {
    /// They are to be kept.
    Well,
    /// They are to be taken back.
    Refused,
    /// They are to be taken back; this error of the database may have ended the transaction besides.
    Failed(DatabaseError),
}

/// An operation, whatever its type.
pub(crate) trait Job: Send {
    /// Name for metrics.
    fn name(&self) -> &'static str;
    /// How soon it has to be on disk.
    fn durable(&self) -> Durable {
        Durable::Now
    }
    /// What it locks.
    fn scope(&self) -> Scope;
    /// Runs it; it may be run again when its transaction was taken back.
    fn run(&mut self, tx: &Tx<'_>) -> Ran;
    /// Notes that what it did failed after all.
    fn fail(&mut self, error: DatabaseError);
    /// Answers the caller, after the batch was committed or failed; with what the caller is to wait for before it goes on.
    fn answer(self: Box<Self>, batch: Result<(), &BatchFailure>, waits: Vec<Wait>);
}

/// What came of an operation, and what is to be waited for before anybody is told.
pub(crate) type Answered<T> = Result<(T, Vec<Wait>)>;

/// An operation of one type.
pub(crate) struct Operation<T, F> {
    name: &'static str,
    durable: Durable,
    scope: Scope,
    work: F,
    explain: fn(Fault) -> Result<T>,
    result: Option<Result<T>>,
    caller: oneshot::Sender<Answered<T>>,
}

impl<T, F> Operation<T, F>
where
    T: Send + 'static,
    F: Fn(&Tx<'_>) -> Done<T> + Send + 'static,
{
    /// Makes a job; `explain` turns a refusal (after which nothing is kept) into the answer.
    pub(crate) fn boxed(
        (name, durable): (&'static str, Durable),
        scope: Scope,
        work: F,
        explain: fn(Fault) -> Result<T>,
    ) -> (Box<dyn Job>, oneshot::Receiver<Answered<T>>) {
        let (caller, answer) = oneshot::channel();
        (Box::new(Self { name, durable, scope, work, explain, result: None, caller }), answer)
    }
}

impl<T, F> Job for Operation<T, F>
where
    T: Send + 'static,
    F: Fn(&Tx<'_>) -> Done<T> + Send + 'static,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn durable(&self) -> Durable {
        self.durable
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn run(&mut self, tx: &Tx<'_>) -> Ran {
        let done = catch_unwind(AssertUnwindSafe(|| (self.work)(tx)));
        let (ran, result) = match done {
            Ok(Ok(value)) => (Ran::Well, Ok(value)),
            Ok(Err(fault)) => {
                let ran =
                    if let Fault::Database(error) = &fault { Ran::Failed((**error).clone()) } else { Ran::Refused };
                (ran, (self.explain)(fault))
            }
            Err(_) => (Ran::Refused, Err(Error::internal(format!("{} met a defect; nothing was changed", self.name)))),
        };
        self.result = Some(result);
        ran
    }

    fn fail(&mut self, error: DatabaseError) {
        self.result = Some((self.explain)(error.into()));
    }

    fn answer(self: Box<Self>, batch: Result<(), &BatchFailure>, waits: Vec<Wait>) {
        let answer = match (batch, self.result) {
            (Err(failure), _) => Err(failure.error()),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(Error::internal("an operation was not run")),
        };
        // The caller may have gone; the change is made all the same.
        drop(self.caller.send(answer.map(|done| (done, waits))));
    }
}
