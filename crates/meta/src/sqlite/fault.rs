//! Errors inside the SQLite implementation, and what they mean to a caller.

use crate::catalogue::Missing;
use holdfast_base::{Error, ErrorKind};
use rusqlite::ErrorCode;

/// What a step of an operation ends with; `?` takes both sides.
pub(super) type Done<T> = Result<T, Fault>;

/// A refusal with its meaning, or an error of the database.
#[derive(Debug)]
pub(super) enum Fault {
    /// A refusal of ours: a lock, a quota, a missing parent.
    Refused(Error),
    /// Blocks that were claimed to exist and do not.
    Missing(Missing),
    /// SQLite's.
    Database(rusqlite::Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(error) => error,
            Fault::Missing(_) => Error::conflict("blocks that were claimed to exist are missing"),
            Fault::Database(error) => explain(error),
        }
    }
}

/// Shorthand: a refusal of this kind.
pub(super) fn refuse<T>(kind: ErrorKind, message: impl Into<String>) -> Done<T> {
    Err(Fault::Refused(Error::new(kind, message)))
}

/// Gives a database error its meaning. What SQLite says goes to the log as the cause, since it may quote SQL.
pub(super) fn explain(error: rusqlite::Error) -> Error {
    use rusqlite::Error as Sql;
    let (kind, message) = match &error {
        Sql::SqliteFailure(failure, _) => kind_of(failure.code),
        Sql::FromSqlConversionFailure(..) | Sql::IntegralValueOutOfRange(..) | Sql::InvalidColumnType(..) => DAMAGED,
        _ => (ErrorKind::Internal, "the catalogue refused a statement; this is a defect"),
    };
    Error::new(kind, message).with_source(error)
}

const DAMAGED: (ErrorKind, &str) = (ErrorKind::Damaged, "the catalogue is damaged; run holdfast check");

const fn kind_of(code: ErrorCode) -> (ErrorKind, &'static str) {
    match code {
        ErrorCode::DiskFull => (ErrorKind::NoSpace, "the disk that holds the catalogue is full"),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => DAMAGED,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            (ErrorKind::Unavailable, "another process keeps the catalogue busy; try again")
        }
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            (ErrorKind::Unavailable, "the disk that holds the catalogue does not read or write; look at its health")
        }
        ErrorCode::OutOfMemory => (ErrorKind::Unavailable, "the catalogue ran out of memory"),
        ErrorCode::ConstraintViolation => (
            ErrorKind::Internal,
            "a rule of the catalogue was about to be broken, so nothing was changed; run holdfast check",
        ),
        _ => (ErrorKind::Internal, "the catalogue refused a statement; this is a defect"),
    }
}

/// Whether the connection that met this error is better not used again.
pub(super) fn spoils_connection(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::CannotOpen
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly
        )
    )
}
