//! From an error of the operating system to one a caller can act on: the kind by what happened, a message that names
//! the operation and the pack, and the path only in the source, which goes to the log.

use holdfast_base::{Error, ErrorKind, PackName, Result};
use std::io;
use std::path::Path;

/// An error of an operation on one pack.
pub(super) fn failed(doing: &str, name: PackName, path: &Path, error: io::Error) -> Error {
    convert(format!("{doing} pack {name}"), path, error)
}

/// An error of an operation on the store as a whole.
pub(super) fn failed_on_store(doing: &str, path: &Path, error: io::Error) -> Error {
    convert(format!("the pack store, {doing}"), path, error)
}

fn convert(context: String, path: &Path, error: io::Error) -> Error {
    let source = format!("{}: {error}", path.display());
    let converted = match error.kind() {
        io::ErrorKind::AlreadyExists => Error::new(ErrorKind::AlreadyExists, "it exists already"),
        io::ErrorKind::NotFound => Error::not_found("there is no such pack"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::new(ErrorKind::NoSpace, "the disk is full: free some space or add a larger disk")
        }
        _ => Error::from(error),
    };
    converted.with_source(source).context(context)
}

/// Runs `work` where waiting for the disk holds nobody up.
///
/// The work goes on when the caller stops waiting, so it must leave the store whole by itself.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(stopped) => {
            Err(Error::internal("the pack store's worker stopped before it had answered").with_source(stopped))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_errno(errno: i32) -> Error {
        failed("writing", PackName([7; 16]), Path::new("/secret/place/07.pack"), io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn a_full_disk_or_quota_is_no_space() {
        assert_eq!(of_errno(libc::ENOSPC).kind(), ErrorKind::NoSpace);
        assert_eq!(of_errno(libc::EDQUOT).kind(), ErrorKind::NoSpace);
    }

    #[test]
    fn an_input_output_error_names_the_operation_and_the_pack_and_no_path() {
        let error = of_errno(libc::EIO);
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().starts_with("writing pack 0707"), "{error}");
        assert!(!error.message().contains("secret"), "{error}");
        assert!(format!("{error:?}").contains("/secret/place"), "the log needs the path");
    }
}
