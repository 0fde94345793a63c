//! From what a server answers to an error a caller can act on.

use super::wire::{Reply, broken, code};
use holdfast_base::{Error, ErrorKind, Result};
use std::fmt::Display;

/// How something went that did not go well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: u32,
    message: String,
}

impl Status {
    pub(super) fn of(reply: Reply) -> Result<Self> {
        match reply {
            Reply::Status { code, message } => Ok(Self { code, message }),
            _ => Err(broken("an answer to another question")),
        }
    }

    /// Whether nothing is there.
    pub(super) fn is_missing(&self) -> bool {
        self.code == code::NO_SUCH_FILE
    }

    /// Whether the server neither forbids it nor says that it cannot do such a thing: a full disk, a name that is taken and a broken disk are all that.
    pub(super) fn is_unclear(&self) -> bool {
        !matches!(self.code, code::NO_SUCH_FILE | code::PERMISSION_DENIED | code::UNSUPPORTED)
    }

    /// An error of an operation on `path`.
    pub(super) fn error(self, doing: &str, path: impl Display) -> Error {
        let Self { code, message } = self;
        let said = if message.is_empty() { String::new() } else { format!(" ({message})") };
        let of = |kind, what: &str| Error::new(kind, format!("{doing} {path}: {what}{said}"));
        match code {
            code::NO_SUCH_FILE => of(ErrorKind::NotFound, "it is not there"),
            code::PERMISSION_DENIED => of(ErrorKind::Forbidden, "this account may not do that"),
            code::BAD_MESSAGE => of(ErrorKind::Internal, "the server does not understand it"),
            code::NO_CONNECTION | code::CONNECTION_LOST => {
                of(ErrorKind::Unavailable, "the server lost what is behind it")
            }
            code::UNSUPPORTED => of(ErrorKind::Unsupported, "the server cannot do that"),
            code => of(ErrorKind::Conflict, &format!("the server could not, and says no more than code {code}")),
        }
    }
}

/// The error of a full disk.
pub(super) fn full(doing: &str, path: impl Display) -> Error {
    Error::new(ErrorKind::NoSpace, format!("{doing} {path}: the server's disk is full"))
}
