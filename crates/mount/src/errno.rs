//! Errors as system calls know them.

use fuser::Errno;
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use std::ffi::OsStr;

/// What a program is told. What is a defect of ours or of the disk goes to the log as well: `EIO` says nothing.
pub(crate) fn errno(error: &Error) -> Errno {
    match error.kind() {
        ErrorKind::NotFound => Errno::ENOENT,
        ErrorKind::AlreadyExists => Errno::EEXIST,
        ErrorKind::Forbidden | ErrorKind::Unauthenticated => Errno::EACCES,
        ErrorKind::Conflict => Errno::ENOTEMPTY,
        ErrorKind::WrongKind => Errno::EISDIR,
        ErrorKind::InvalidInput | ErrorKind::RangeNotSatisfiable => Errno::EINVAL,
        ErrorKind::PreconditionFailed => Errno::ESTALE,
        ErrorKind::Locked => Errno::EBUSY,
        ErrorKind::TooLarge => Errno::ENAMETOOLONG,
        ErrorKind::NoSpace => Errno::ENOSPC,
        ErrorKind::TooManyRequests { .. } => Errno::EAGAIN,
        ErrorKind::Timeout => Errno::ETIMEDOUT,
        ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        ErrorKind::Damaged | ErrorKind::WrongChecksum | ErrorKind::Unavailable | ErrorKind::Internal => {
            tracing::error!(?error, "a request of the mount failed");
            Errno::EIO
        }
    }
}

/// The result of a request.
pub(crate) type Answer<T> = std::result::Result<T, Errno>;

/// Errors of the drive as answers.
pub(crate) trait Told<T> {
    /// As a program is told.
    fn told(self) -> Answer<T>;
}

impl<T> Told<T> for Result<T> {
    fn told(self) -> Answer<T> {
        self.map_err(|error| errno(&error))
    }
}

/// A name that something is to have. The drive's names are UTF-8 without control characters: others are `EILSEQ`, as on any file
/// system that takes UTF-8 only.
pub(crate) fn new_name(name: &OsStr) -> Answer<NodeName> {
    let text = name.to_str().ok_or(Errno::EILSEQ)?;
    NodeName::new(text).map_err(|error| match error.kind() {
        ErrorKind::TooLarge => Errno::ENAMETOOLONG,
        _ => Errno::EILSEQ,
    })
}

/// A name that is looked for: one that nothing can have, nothing has.
pub(crate) fn old_name(name: &OsStr) -> Answer<NodeName> {
    new_name(name).map_err(|error| if i32::from(error) == libc::ENAMETOOLONG { error } else { Errno::ENOENT })
}
