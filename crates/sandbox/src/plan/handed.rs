//! Streams that are files of the machine.
//!
//! What a descriptor is of was opened by a mount outside of the view. Attributes can be changed by it, and `/proc/self/fd/0` opens it again, with all that the
//! account may do, whatever policy holds by then. Landlock refuses the latter outside of the view, and knows no attributes. So a file of the view that is handed over
//! for reading, or for appending where that is allowed, is opened once more in the view before the program begins; and where Landlock holds no files, what the view
//! does not have is not handed over if it could be opened again.

use super::{Plan, Resolved, c_string};
use crate::error::Error;
use crate::landlock::Ruleset;
use crate::sandbox::{Access, Root, Source};
use rustix::fs::{Access as May, AtFlags, CWD, FileType, OFlags, accessat, fcntl_getfl, fstat, readlinkat, stat};
use rustix::process::geteuid;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

/// Which of the streams are to be opened once more in the view, by their paths there.
///
/// # Errors
/// If one of them would be a way past the view.
pub(crate) fn again(plan: &Plan, streams: &[OwnedFd; 3]) -> Result<[Option<CString>; 3], Error> {
    let mut paths = [const { None }; 3];
    // Whoever is asked about calls is asked about these. Landlock alone holds attributes by a filter, and nothing inside of what it has granted.
    if plan.listener || plan.namespaces == 0 {
        return Ok(paths);
    }
    for ((stream, path), name) in streams.iter().zip(&mut paths).zip(NAMES) {
        let Some(handed) = Handed::of(stream) else { continue };
        match plan.beyond(&handed) {
            Beyond::Nothing => {}
            Beyond::InView => *path = Some(c_string(handed.path.as_os_str().as_bytes(), "a path")?),
            Beyond::Refused(why) => {
                return Err(Error::Invalid(format!("{name} is {}, {why}", handed.path.display())));
            }
        }
    }
    Ok(paths)
}

/// A file with a name.
struct Handed {
    path: PathBuf,
    kind: FileType,
    flags: OFlags,
    /// Whether it is the account's.
    own: bool,
}

impl Handed {
    fn of(stream: &OwnedFd) -> Option<Self> {
        let status = fstat(stream).ok()?;
        let kind = FileType::from_raw_mode(status.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::BlockDevice) {
            return None;
        }
        let link = readlinkat(CWD, format!("/proc/self/fd/{}", stream.as_raw_fd()), Vec::new()).ok()?;
        let path = PathBuf::from(OsStr::from_bytes(link.as_bytes()));
        // A file that has no name any more, or never had one, is in no folder of the view.
        let named = || stat(&path).is_ok_and(|there| (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino));
        let is_somewhere = kind == FileType::Directory || named();
        let own = status.st_uid == geteuid().as_raw();
        is_somewhere.then_some(Self { path, kind, flags: fcntl_getfl(stream).ok()?, own })
    }

    fn is_for(&self, mode: OFlags) -> bool {
        self.flags & OFlags::RWMODE == mode
    }

    /// Where it is written is the same whoever opens it.
    fn appends(&self) -> bool {
        self.is_for(OFlags::WRONLY) && self.flags.contains(OFlags::APPEND) && self.may(May::WRITE_OK)
    }

    fn may(&self, what: May) -> bool {
        accessat(CWD, &self.path, what, AtFlags::EACCESS).is_ok()
    }
}

/// What could be done with a stream beyond what the view allows.
enum Beyond {
    Nothing,
    /// Something, but for what is opened in the view.
    InView,
    Refused(&'static str),
}

impl Plan {
    fn beyond(&self, handed: &Handed) -> Beyond {
        if handed.kind == FileType::Directory {
            let is_all = self.root == Root::Host && self.entries.is_empty();
            let past = "a folder, which leads past the view: files, pipes and the like can be handed over";
            return if is_all { Beyond::Nothing } else { Beyond::Refused(past) };
        }
        let around =
            |entry: &&Resolved| handed.path.starts_with(&entry.path) && !matches!(entry.source, Source::Folder(_));
        // Outermost entries come first.
        match self.entries.iter().rfind(around) {
            Some(entry) if entry.access != Access::Hidden && handed.kind == FileType::RegularFile => {
                return match entry.source {
                    // Nobody opens anything behind a gate before the program is known.
                    Source::Served if handed.is_for(OFlags::RDONLY) => Beyond::Refused(
                        "which is behind a gate, and past it if it is handed over: put a pipe in between, such as from cat(1)",
                    ),
                    Source::Served => Beyond::Nothing,
                    _ if handed.is_for(OFlags::RDONLY) && (handed.own || handed.may(May::READ_OK)) => Beyond::InView,
                    Source::Same if entry.access.writes() && handed.appends() => Beyond::InView,
                    _ => Beyond::Nothing,
                };
            }
            None if self.root == Root::Host => return Beyond::Nothing,
            // A view has no block devices.
            _ => {}
        }
        // Landlock holds what is not in the view, if it holds files.
        if self.rulesets.iter().any(Ruleset::holds_files) {
            return Beyond::Nothing;
        }
        if handed.is_for(OFlags::RDONLY) && handed.may(May::WRITE_OK) {
            return Beyond::Refused(
                "which the program may not write, and could if it opened it again: put a pipe in between, such as from cat(1)",
            );
        }
        if handed.is_for(OFlags::WRONLY) && handed.may(May::READ_OK) {
            return Beyond::Refused(
                "which the program may not read, and could if it opened it again: put a pipe in between, such as to cat(1)",
            );
        }
        Beyond::Nothing
    }
}
