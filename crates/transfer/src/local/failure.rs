//! From an error of the operating system to one a caller can act on.

use crate::signs;
use holdfast_base::{Error, ErrorKind, Result};
use rustix::io::Errno;
use std::fmt::Display;
use std::time::Duration;

/// How often work that waits for the disk says that it does: far below any time of a stall.
const SIGN: Duration = Duration::from_millis(250);

/// An error of an operation on `path`. Only what may go by itself is [`ErrorKind::Unavailable`].
pub(super) fn failed(doing: &str, path: impl Display, error: Errno) -> Error {
    let of = |kind, what: &str| Error::new(kind, what).with_source(std::io::Error::from(error));
    let converted = match error {
        Errno::NOENT => of(ErrorKind::NotFound, "it is not there"),
        Errno::EXIST => of(ErrorKind::AlreadyExists, "it exists already"),
        Errno::NOTDIR | Errno::LOOP => {
            of(ErrorKind::WrongKind, "it is no folder, or a symbolic link, which is not followed")
        }
        Errno::ISDIR => of(ErrorKind::WrongKind, "it is a folder"),
        Errno::NOTEMPTY => of(ErrorKind::Conflict, "the folder is not empty"),
        Errno::ACCESS | Errno::PERM => of(ErrorKind::Forbidden, "this account may not do that"),
        Errno::ROFS => of(ErrorKind::Forbidden, "the file system is read-only"),
        Errno::NOSPC | Errno::DQUOT => of(ErrorKind::NoSpace, "the disk is full, or this account's share of it"),
        Errno::FBIG => of(ErrorKind::TooLarge, "the file system takes no file of that size"),
        Errno::NAMETOOLONG => of(ErrorKind::TooLarge, "the file system takes no name of that length"),
        Errno::INVAL | Errno::ILSEQ => of(ErrorKind::InvalidInput, "the file system takes no such name or value"),
        Errno::OPNOTSUPP => of(ErrorKind::Unsupported, "the file system has no such thing"),
        Errno::IO => of(ErrorKind::Damaged, "the disk could not read or write it"),
        other => Error::from(std::io::Error::from(other)),
    };
    converted.context(format_args!("{doing} {path}"))
}

/// Runs `work` where waiting for the disk holds nobody up. A disk that is slow is no stall, and one that hangs would hang the next try as well.
///
/// The work goes on when the caller stops waiting, so it must leave things whole by itself.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    joined(&mut tokio::task::spawn_blocking(work)).await
}

/// Waits for work that was begun.
pub(super) async fn joined<T>(work: &mut tokio::task::JoinHandle<Result<T>>) -> Result<T> {
    let signs = signs::current();
    let done = loop {
        tokio::select! {
            biased;
            done = &mut *work => break done,
            () = tokio::time::sleep(SIGN) => signs.alive(),
        }
    };
    done.unwrap_or_else(|stopped| {
        Err(Error::internal("work on the disk stopped before it had answered").with_source(stopped))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_has_to_change_first_is_not_tried_again() {
        for (errno, kind) in [
            (Errno::NOSPC, ErrorKind::NoSpace),
            (Errno::DQUOT, ErrorKind::NoSpace),
            (Errno::ACCESS, ErrorKind::Forbidden),
            (Errno::ROFS, ErrorKind::Forbidden),
            (Errno::IO, ErrorKind::Damaged),
            (Errno::NOENT, ErrorKind::NotFound),
        ] {
            let error = failed("writing", "/a/b", errno);
            assert_eq!((error.kind(), error.is_temporary()), (kind, false), "{error}");
            assert!(error.message().starts_with("writing /a/b: "), "{error}");
        }
        assert!(failed("opening", "/a", Errno::MFILE).is_temporary());
    }
}
