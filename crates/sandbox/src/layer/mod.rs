//! Changes of a copy-on-write folder: looking at them, and what to do with them.
//!
//! An overlay shows a folder (the lower) with changes laid over it (the upper). What was made or modified is in the upper as it is; what was removed is there as a
//! character device 0:0 (a whiteout); a folder that was removed and made again is marked (opaque), so that nothing of the lower one shows through.
//!
//! The folder of changes has four names in it: `upper`, `work` (the kernel's own), `lock`, and `committed` while a commit that has done its work takes the changes away.
//!
//! Limits: a file with several names becomes several files in a commit; holes become zeros; sockets cannot be committed; an original with other file systems
//! mounted in it cannot be the lower of an overlay. Nobody else should write to the original meanwhile.

mod changes;
mod commit;
mod patch;
mod tree;

pub use changes::{Change, Changes, Kind};
pub use commit::{commit, discard};
pub use patch::patch;

use crate::error::Error;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Most changes of one folder that are looked at: each takes some hundred bytes of memory.
pub const CHANGES_MAX: usize = 1_000_000;

/// What can go wrong with changes.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// A running sandbox or another command uses the changes.
    #[error("{}: a running sandbox, or another command, uses these changes", .0.display())]
    Used(PathBuf),
    /// More than [`CHANGES_MAX`].
    #[error("more than {CHANGES_MAX} changes in {}", .0.display())]
    TooMany(PathBuf),
    /// Something that cannot be committed.
    #[error("{}: {why}", path.display())]
    Unsupported {
        /// What it is.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// The system refused something.
    #[error("{what} {}: {why}", path.display())]
    Io {
        /// What was done.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's answer.
        why: io::Error,
    },
}

/// For `map_err`.
pub(crate) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LayerError {
    let path = path.to_owned();
    move |why| LayerError::Io { what, path, why }
}

/// Held while somebody uses the changes. The kernel lets go of it when its holder ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: OwnedFd,
    changes: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The kernel's own folder is one without permissions, which an ordinary account could not remove by usual means.
        let _ = fs::set_permissions(self.changes.join("work/work"), PermissionsExt::from_mode(0o700));
        // Not only by closing it: a process that is just being forked may have a copy for a moment.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Lock {
    pub(crate) fn take(changes: &Path) -> Result<Self, LayerError> {
        let path = changes.join("lock");
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = open(&path, flags, Mode::from_raw_mode(0o600));
        let file = file.map_err(|errno| failed("opening", &path)(errno.into()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file, changes: changes.to_owned() }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LayerError::Used(changes.to_owned())),
            Err(errno) => Err(failed("locking", &path)(errno.into())),
        }
    }
}

/// Makes what an overlay needs.
pub(crate) fn prepare(lower: &Path, changes: &Path) -> Result<Lock, Error> {
    let refused = |error: LayerError| Error::Invalid(format!("changes cannot be kept: {error}"));
    let lock = Lock::take(changes).map_err(refused)?;
    if changes.join(COMMITTED).exists() {
        let why = format!("a commit of {} was interrupted: commit it again first", changes.display());
        return Err(Error::Invalid(why));
    }
    let make = || -> io::Result<()> {
        let (upper, work) = (changes.join(UPPER), changes.join("work"));
        if !upper.exists() {
            // The attributes of the upper are those that the program sees.
            fs::create_dir(&upper)?;
            let original = fs::metadata(lower)?;
            fs::set_permissions(&upper, original.permissions())?;
            let own = fs::metadata(&upper)?;
            if (own.uid(), own.gid()) != (original.uid(), original.gid()) {
                // An ordinary account may not, and then the folder is its own.
                let _ = std::os::unix::fs::chown(&upper, Some(original.uid()), Some(original.gid()));
            }
        }
        if !work.exists() {
            fs::create_dir(&work)?;
        }
        Ok(())
    };
    make().map_err(|why| refused(failed("preparing", changes)(why)))?;
    Ok(lock)
}

pub(crate) const UPPER: &str = "upper";
pub(crate) const COMMITTED: &str = "committed";
