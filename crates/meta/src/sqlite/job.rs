//! An operation on its way through the writer: what to do, what came of it, and who waits for the answer.

use super::fault::{Done, Fault};
use super::tx::Tx;
use holdfast_base::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

/// Why a whole batch failed, said to each of its operations.
#[derive(Debug, Clone)]
pub(super) struct BatchFailure {
    kind: ErrorKind,
    message: String,
}

impl BatchFailure {
    /// Logs the cause once and keeps what the callers are told.
    pub(super) fn new(error: &Error) -> Self {
        Self { kind: error.kind(), message: error.message().to_owned() }
    }

    fn error(&self) -> Error {
        Error::new(self.kind, self.message.clone())
    }
}

/// What became of an operation's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    /// They are to be kept.
    Well,
    /// They are to be taken back.
    Refused,
    /// They are to be taken back; this error of the database may have ended the transaction besides.
    Failed(rusqlite::ffi::Error),
}

/// An operation, whatever its type.
pub(super) trait Job: Send {
    /// Name for metrics.
    fn name(&self) -> &'static str;
    /// Runs it.
    fn run(&mut self, tx: &Tx<'_>) -> Ran;
    /// Answers the caller, after the batch was committed or failed.
    fn answer(self: Box<Self>, batch: Result<(), &BatchFailure>);
}

/// An operation of one type.
pub(super) struct Operation<T, F> {
    name: &'static str,
    work: Option<F>,
    explain: fn(Fault) -> Result<T>,
    result: Option<Result<T>>,
    caller: oneshot::Sender<Result<T>>,
}

impl<T, F> Operation<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Tx<'_>) -> Done<T> + Send + 'static,
{
    /// Makes a job; `explain` turns a refusal (after which nothing is kept) into the answer.
    pub(super) fn boxed(
        name: &'static str,
        work: F,
        explain: fn(Fault) -> Result<T>,
    ) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>) {
        let (caller, answer) = oneshot::channel();
        (Box::new(Self { name, work: Some(work), explain, result: None, caller }), answer)
    }
}

impl<T, F> Job for Operation<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Tx<'_>) -> Done<T> + Send + 'static,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, tx: &Tx<'_>) -> Ran {
        let Some(work) = self.work.take() else { return Ran::Refused };
        let done = catch_unwind(AssertUnwindSafe(|| work(tx)));
        let (ran, result) = match done {
            Ok(Ok(value)) => (Ran::Well, Ok(value)),
            Ok(Err(fault)) => {
                let code = if let Fault::Database(error) = &fault { error.sqlite_error().copied() } else { None };
                (code.map_or(Ran::Refused, Ran::Failed), (self.explain)(fault))
            }
            Err(_) => (Ran::Refused, Err(Error::internal(format!("{} met a defect; nothing was changed", self.name)))),
        };
        self.result = Some(result);
        ran
    }

    fn answer(self: Box<Self>, batch: Result<(), &BatchFailure>) {
        let answer = match (batch, self.result) {
            (Err(failure), _) => Err(failure.error()),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(Error::internal("an operation was not run")),
        };
        // The caller may have gone; the change is made all the same.
        drop(self.caller.send(answer));
    }
}
