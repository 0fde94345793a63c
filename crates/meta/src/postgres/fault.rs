//! PostgreSQL's errors, and what they mean to a caller.

use crate::sql::fault::{DAMAGED, DEFECT, DatabaseError, Fault, RULE_BROKEN, Trouble};
use holdfast_base::{Error, ErrorKind};
use std::sync::Arc;

/// What is said when the database cannot be reached.
pub(super) const DOWN: &str = "the catalogue's database cannot be reached; try again";
/// What is said when it does not answer in time.
pub(super) const SLOW: &str = "the catalogue's database takes too long; try again";
/// What is said when the answer to a commit was lost.
pub(super) const UNKNOWN: &str = "the connection to the catalogue's database was lost while the change was being written: \
                                  it may or may not have been made; look before trying again";

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        let (kind, message, trouble) = match error.code() {
            Some(code) => meaning(code.code()),
            None if is_conversion(&error) => (ErrorKind::Internal, DEFECT, Trouble::Statement),
            None => (ErrorKind::Unavailable, DOWN, Trouble::Connection),
        };
        // In words that name rules and no values: those are in the details.
        let words = error.as_db_error().map(|said| format!("{}: {}", said.code().code(), said.message()));
        let cause: Arc<dyn std::error::Error + Send + Sync> = match words {
            Some(words) => Arc::new(Error::new(kind, words)),
            None => Arc::new(error),
        };
        Self { kind, message, trouble, cause }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        DatabaseError::from(error).into()
    }
}

/// A value that could not be sent or read; the connection is sound. The driver says so in words only.
fn is_conversion(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.starts_with("error serializing") || text.starts_with("error deserializing") || text.contains("parameters")
}

/// By SQLSTATE (PostgreSQL documentation, appendix A).
fn meaning(code: &str) -> (ErrorKind, &'static str, Trouble) {
    use ErrorKind::{Damaged, Internal, InvalidInput, NoSpace, Unavailable};
    match (code.get(..2).unwrap_or_default(), code) {
        // Serialization failure, deadlock; a lock that was not to be had in time.
        ("40", _) | (_, "55P03") => {
            (Unavailable, "other changes kept getting in the way of this one; try again", Trouble::Again)
        }
        // Statement time-out.
        (_, "57014") => (Unavailable, SLOW, Trouble::Statement),
        (_, "53100") => (NoSpace, "the disk that holds the catalogue is full", Trouble::Statement),
        (_, "25006") => (Unavailable, "the catalogue's database takes no changes now; try again", Trouble::Connection),
        ("28", _) => (Unavailable, "the catalogue's database refuses its account or password", Trouble::Connection),
        (_, "3D000") => (Unavailable, "the database server has no database of this name", Trouble::Connection),
        (_, "42501") => (Unavailable, "the catalogue's account may not do this in its database", Trouble::Statement),
        // Connection exceptions, shutting down, starting up, too many connections, idle for too long.
        ("08" | "57", _) | (_, "53300" | "25P03") => (Unavailable, DOWN, Trouble::Connection),
        ("53" | "58", _) => {
            (Unavailable, "the catalogue's database lacks memory or meets a failing disk", Trouble::Statement)
        }
        ("23", _) => (Internal, RULE_BROKEN, Trouble::Statement),
        (_, "22021" | "22P05") => (InvalidInput, "a text has characters that cannot be kept", Trouble::Statement),
        (_, "XX001" | "XX002") => (Damaged, DAMAGED, Trouble::Statement),
        _ => (Internal, DEFECT, Trouble::Statement),
    }
}

/// No answer within the time allowed: nobody knows what became of the statement, so the connection is given up.
pub(super) fn slow() -> DatabaseError {
    let cause = Arc::new(Error::new(ErrorKind::Timeout, "no answer in time"));
    DatabaseError { kind: ErrorKind::Unavailable, message: SLOW, trouble: Trouble::Connection, cause }
}

/// The database is known to be down, so it was not tried.
pub(super) fn down(cause: &str) -> DatabaseError {
    let cause = Arc::new(Error::unavailable(cause));
    DatabaseError { kind: ErrorKind::Unavailable, message: DOWN, trouble: Trouble::Connection, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_a_meaning() {
        for (code, kind, trouble) in [
            ("40001", ErrorKind::Unavailable, Trouble::Again),
            ("40P01", ErrorKind::Unavailable, Trouble::Again),
            ("57P01", ErrorKind::Unavailable, Trouble::Connection),
            ("57014", ErrorKind::Unavailable, Trouble::Statement),
            ("53100", ErrorKind::NoSpace, Trouble::Statement),
            ("53300", ErrorKind::Unavailable, Trouble::Connection),
            ("23514", ErrorKind::Internal, Trouble::Statement),
            ("08006", ErrorKind::Unavailable, Trouble::Connection),
            ("XX001", ErrorKind::Damaged, Trouble::Statement),
            ("42P01", ErrorKind::Internal, Trouble::Statement),
        ] {
            let (is, _, does) = meaning(code);
            assert_eq!((is, does), (kind, trouble), "{code}");
        }
    }
}
