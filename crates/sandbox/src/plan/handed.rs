//! Streams that are files of the machine.
//!
//! What a descriptor is of was opened by a mount outside of the view. Attributes can be changed by it, and `/proc/self/fd/0` opens it again, with all that the
//! account may do, whatever policy holds by then. Landlock refuses the latter outside of the view, and knows no attributes. So a file of the view that is handed over
//! for reading, or for appending where that is allowed, is opened once more in the view before the program begins; and where Landlock holds no files, what the view
//! does not have is not handed over if it could be opened again.
//!
//! Where nothing can be sent to the program (no UNIX sockets), Landlock holds what could be gained by opening a stream again, and nothing else: often nothing.

use super::{Plan, Resolved, c_string};
use crate::error::Error;
use crate::landlock::{self, Ruleset};
use crate::sandbox::{Access, Root, Source};
use rustix::fs::{
    Access as May, AtFlags, CWD, FileType, OFlags, accessat, fcntl_getfl, fstat, fstatfs, major, minor, readlinkat,
    stat,
};
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The file system of pipes (`PIPEFS_MAGIC`, `linux/magic.h`).
const PIPES: i64 = 0x5049_5045;
/// `/dev/null` (devices.txt of the kernel).
const NULL: (u32, u32) = (1, 3);

const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

/// Plans which of the streams are opened once more in the view, and leaves to the mounts what nothing passes them for.
///
/// # Errors
/// If a stream would be a way past the view.
pub(crate) fn hand_over(plan: &mut Plan, streams: &[OwnedFd; 3]) -> Result<(), Error> {
    // Whoever is asked about calls is asked about these. Landlock alone holds attributes by a filter, and nothing inside of what it has granted.
    if plan.listener || plan.namespaces == 0 {
        return Ok(());
    }
    let mut gained = 0;
    for (number, stream) in streams.iter().enumerate() {
        let Some(handed) = Handed::of(stream) else {
            gained |= gained_by(stream);
            continue;
        };
        match plan.beyond(&handed) {
            Beyond::Nothing => gained |= gained_by(stream),
            Beyond::InView => plan.again[number] = Some(c_string(handed.path.as_os_str().as_bytes(), "a path")?),
            Beyond::Refused(why) => {
                return Err(Error::Invalid(format!("{} is {}, {why}", NAMES[number], handed.path.display())));
            }
        }
    }
    if !plan.unix {
        plan.rulesets = std::mem::take(&mut plan.rulesets).into_iter().filter_map(|set| set.about(gained)).collect();
    }
    Ok(())
}

/// The rights of Landlock that a stream does not have, and could give if it was opened again.
fn gained_by(stream: &OwnedFd) -> u64 {
    let (Ok(status), Ok(flags)) = (fstat(stream), fcntl_getfl(stream)) else { return u64::MAX };
    let executed = match FileType::from_raw_mode(status.st_mode) {
        _ if flags.contains(OFlags::PATH) => return u64::MAX,
        FileType::RegularFile => landlock::EXECUTE,
        // Without a name, or always the same.
        FileType::Fifo if fstatfs(stream).is_ok_and(|found| found.f_type == PIPES) => return 0,
        FileType::CharacterDevice if (major(status.st_rdev), minor(status.st_rdev)) == NULL => return 0,
        FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice => 0,
        // Files can be sent by a socket.
        _ => return u64::MAX,
    };
    let written = landlock::WRITE_FILE | landlock::TRUNCATE;
    executed
        | match flags & OFlags::RWMODE {
            OFlags::RDONLY => written,
            _ if flags.contains(OFlags::APPEND) => written | landlock::READ_FILE,
            OFlags::WRONLY => landlock::READ_FILE,
            _ => 0,
        }
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
