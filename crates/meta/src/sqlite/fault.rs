//! SQLite's errors, and what they mean to a caller.

use crate::sql::fault::{DAMAGED, DEFECT, DatabaseError, Fault, RULE_BROKEN, Trouble};
use holdfast_base::{Error, ErrorKind};
use rusqlite::ErrorCode;
use std::sync::Arc;

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error as Sql;
        let (kind, message) = match &error {
            Sql::SqliteFailure(failure, _) => kind_of(failure.code),
            Sql::FromSqlConversionFailure(..)
            | Sql::IntegralValueOutOfRange(..)
            | Sql::InvalidColumnType(..)
            | Sql::Utf8Error(..) => (ErrorKind::Damaged, DAMAGED),
            _ => (ErrorKind::Internal, DEFECT),
        };
        let trouble = if spoils_connection(&error) { Trouble::Connection } else { Trouble::Statement };
        Self { kind, message, trouble, cause: Arc::new(error) }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        DatabaseError::from(error).into()
    }
}

/// Gives a database error its meaning.
pub(super) fn explain(error: rusqlite::Error) -> Error {
    DatabaseError::from(error).into()
}

const fn kind_of(code: ErrorCode) -> (ErrorKind, &'static str) {
    match code {
        ErrorCode::DiskFull => (ErrorKind::NoSpace, "the disk that holds the catalogue is full"),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => (ErrorKind::Damaged, DAMAGED),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            (ErrorKind::Unavailable, "another process keeps the catalogue busy; try again")
        }
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            (ErrorKind::Unavailable, "the disk that holds the catalogue does not read or write; look at its health")
        }
        ErrorCode::OutOfMemory => (ErrorKind::Unavailable, "the catalogue ran out of memory"),
        ErrorCode::ConstraintViolation => (ErrorKind::Internal, RULE_BROKEN),
        _ => (ErrorKind::Internal, DEFECT),
    }
}

/// Whether the connection that met this error is better not used again.
fn spoils_connection(error: &rusqlite::Error) -> bool {
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
