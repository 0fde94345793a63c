//! What can go wrong in an operation, and what it means to a caller.

use crate::catalogue::Missing;
use holdfast_base::{Error, ErrorKind};
use std::sync::Arc;

/// What a step of an operation ends with; `?` takes both sides.
pub(crate) type Done<T> = Result<T, Fault>;

/// A refusal with its meaning, or an error of the database. In boxes, since every column that is read answers a [`Done`].
#[derive(Debug)]
pub(crate) enum Fault {
    /// A refusal of ours: a lock, a quota, a missing parent.
    Refused(Box<Error>),
    /// Blocks that were claimed to exist and do not.
    Missing(Box<Missing>),
    /// The database's.
    Database(Box<DatabaseError>),
}

/// An error of a database, with its meaning. What the database says itself goes to the log as the cause, since it may quote
/// SQL.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseError {
    /// What it is to a caller.
    pub(crate) kind: ErrorKind,
    /// What a person is told.
    pub(crate) message: &'static str,
    /// What the engine does about it.
    pub(crate) trouble: Trouble,
    /// The database's own error.
    pub(crate) cause: Arc<dyn std::error::Error + Send + Sync>,
}

/// How far an error of a database reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The statement failed; its operation is taken back.
    Statement,
    /// Another transaction was in the way; the same work may succeed when it is done again.
    Again,
    /// The connection is of no use any more.
    Connection,
}

/// What is said of values that cannot be.
pub(crate) const DAMAGED: &str = "the catalogue is damaged; run holdfast check";
/// What is said of a constraint that holds.
pub(crate) const RULE_BROKEN: &str =
    "a rule of the catalogue was about to be broken, so nothing was changed; run holdfast check";
/// What is said of statements that should not have been made.
pub(crate) const DEFECT: &str = "the catalogue refused a statement; this is a defect";

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl From<Missing> for Fault {
    fn from(missing: Missing) -> Self {
        Self::Missing(Box::new(missing))
    }
}

impl From<DatabaseError> for Fault {
    fn from(error: DatabaseError) -> Self {
        Self::Database(Box::new(error))
    }
}

impl From<DatabaseError> for Error {
    fn from(error: DatabaseError) -> Self {
        Self::new(error.kind, error.message).with_source(error.cause)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(error) => *error,
            Fault::Missing(_) => Self::conflict("blocks that were claimed to exist are missing"),
            Fault::Database(error) => (*error).into(),
        }
    }
}

/// Shorthand: a refusal of this kind.
pub(crate) fn refuse<T>(kind: ErrorKind, message: impl Into<String>) -> Done<T> {
    Err(Error::new(kind, message).into())
}
