//! What can go wrong, in words somebody can act on.

use crate::group::Unbounded;
use std::io;
use std::path::PathBuf;

/// Why a sandbox did not start, or could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for makes no sense, or is beyond a limit.
    #[error("{0}")]
    Invalid(String),
    /// An entry of the view is not on this machine, and is not optional.
    #[error("{path}: {why}", path = path.display())]
    Missing {
        /// The entry, as it was named.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// This kernel, or the way it is set up, cannot hold what was asked for.
    #[error("{what} cannot be held here: {why}")]
    Unsupported {
        /// The feature, in words.
        what: String,
        /// What is missing, and where it can be changed.
        why: String,
    },
    /// No control group holds these limits of all processes together.
    #[error("these limits of all processes together cannot be held here: {}", unbounded(.0))]
    Unbounded(Vec<Unbounded>),
    /// Without namespaces these entries of the view cannot be held.
    #[error("without user namespaces these cannot be held: {}", list(.0))]
    NeedsNamespaces(Vec<Unheld>),
    /// A step of making the sandbox failed.
    #[error("{step}{}: {why}{}", about(.path.as_ref()), step.advice(why))]
    Step {
        /// Which step.
        step: Step,
        /// The path that it was about, if it was about one.
        path: Option<PathBuf>,
        /// What the system said.
        why: io::Error,
    },
    /// The sandbox ended before it was complete: somebody killed it.
    #[error("the sandbox was killed while it was being made")]
    Killed,
    /// Making the sandbox took more memory than it may have.
    #[error("the limit of memory is too small to make the sandbox in")]
    Memory,
    /// It is not running any more.
    #[error("the sandbox has ended")]
    Ended,
    /// A file below the path is open for writing, so the path cannot become read-only now.
    #[error("{} cannot become read-only: a file below it is open for writing (close it, or hide the path)", .0.display())]
    Busy(PathBuf),
    /// A change of the view that cannot be made while the program runs.
    #[error("{path}: {why}", path = path.display())]
    Change {
        /// The entry.
        path: PathBuf,
        /// Why not.
        why: String,
    },
}

/// Something that Landlock alone cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unheld {
    /// The entry or the feature.
    pub what: String,
    /// Why not.
    pub why: &'static str,
}

/// A step between asking the kernel for a process and the first instruction of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// Making the process and its namespaces.
    Namespaces,
    /// Mapping the account into the user namespace.
    Account,
    /// Cutting the mounts off from those of the machine.
    Private,
    /// Making the empty root.
    Root,
    /// Finding an entry on the machine.
    Find,
    /// Making the place for an entry.
    Place,
    /// Mounting an entry.
    Mount,
    /// Setting what an entry allows.
    Restrict,
    /// Mounting a copy-on-write folder.
    Overlay,
    /// Mounting a file system that is served from outside.
    Serve,
    /// Mounting `/proc`.
    Proc,
    /// Mounting a folder in memory.
    Memory,
    /// Leaving the machine's files behind.
    Leave,
    /// The network.
    Network,
    /// Giving capabilities up.
    Capabilities,
    /// Starting the program's process.
    Fork,
    /// Its session, standard streams and signals.
    Streams,
    /// Its limits.
    Limits,
    /// Its working directory.
    Folder,
    /// The Landlock ruleset.
    Landlock,
    /// The filter of system calls.
    Filter,
    /// Executing the program.
    Execute,
}

impl Step {
    const ALL: [Step; 22] = [
        Step::Namespaces,
        Step::Account,
        Step::Private,
        Step::Root,
        Step::Find,
        Step::Place,
        Step::Mount,
        Step::Restrict,
        Step::Overlay,
        Step::Serve,
        Step::Proc,
        Step::Memory,
        Step::Leave,
        Step::Network,
        Step::Capabilities,
        Step::Fork,
        Step::Streams,
        Step::Limits,
        Step::Folder,
        Step::Landlock,
        Step::Filter,
        Step::Execute,
    ];

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|step| *step as u8 == number)
    }

    fn words(self) -> &'static str {
        match self {
            Step::Namespaces => "cannot make the namespaces",
            Step::Account => "cannot map the account into the user namespace",
            Step::Private => "cannot separate the mounts from the machine's",
            Step::Root => "cannot make the root of the view",
            Step::Find => "cannot find what the view names, or a symbolic link has taken its place",
            Step::Place => "cannot make the place for an entry of the view (below an entry it must be there already)",
            Step::Mount => "cannot mount an entry of the view",
            Step::Restrict => "cannot restrict an entry of the view",
            Step::Overlay => "cannot mount a copy-on-write folder",
            Step::Serve => "cannot mount a file system that is served (FUSE)",
            Step::Proc => "cannot mount /proc",
            Step::Memory => "cannot mount a folder in memory",
            Step::Leave => "cannot leave the machine's files behind",
            Step::Network => "cannot prepare the network",
            Step::Capabilities => "cannot give capabilities up",
            Step::Fork => "cannot start a process in the sandbox",
            Step::Streams => "cannot prepare session, streams and signals",
            Step::Limits => "cannot set the limits",
            Step::Folder => "cannot enter the working directory",
            Step::Landlock => "cannot restrict itself with Landlock",
            Step::Filter => "cannot install the filter of system calls",
            Step::Execute => "cannot execute the program",
        }
    }

    /// What somebody could do about it.
    fn advice(self, why: &io::Error) -> &'static str {
        match (self, why.raw_os_error()) {
            (Step::Namespaces, Some(libc::EPERM)) => {
                " (user namespaces are forbidden: see the sysctls kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns; \
                 inside chroot or a container the runtime may forbid them)"
            }
            (Step::Namespaces, Some(libc::ENOSPC)) => {
                " (too many namespaces: see the sysctls user.max_user_namespaces, user.max_mnt_namespaces and their like)"
            }
            (Step::Namespaces | Step::Fork, Some(libc::EAGAIN)) => {
                " (too many processes of this account: see ulimit -u)"
            }
            (Step::Account | Step::Private | Step::Root, Some(libc::EPERM | libc::EACCES)) => {
                " (a security module gives user namespaces no rights: on Ubuntu see the sysctl kernel.apparmor_restrict_unprivileged_userns)"
            }
            (Step::Overlay, Some(libc::EINVAL)) => {
                " (the folder has mounts in it, or the file system of the changes has no extended attributes or is an overlay itself)"
            }
            (Step::Serve, Some(libc::EACCES | libc::EPERM)) => {
                " (this account may not open /dev/fuse: most distributions let everybody, with mode 0666)"
            }
            (Step::Serve, Some(libc::ENOENT | libc::ENODEV | libc::ENXIO)) => {
                " (there is no /dev/fuse, or this kernel has no FUSE)"
            }
            (Step::Proc, Some(libc::EPERM)) => {
                " (a container runtime covers parts of /proc: start it without masked paths)"
            }
            (Step::Execute, Some(libc::ENOENT)) => {
                " (the program, or the interpreter or loader it names, is not in the view)"
            }
            (Step::Execute, Some(libc::EACCES)) => {
                " (not executable, or its entry of the view does not allow to execute)"
            }
            (Step::Execute, Some(libc::ENOSYS)) => " (whoever was to be asked about it does not answer)",
            (_, Some(libc::ENOSYS)) => " (this kernel is too old: Linux 5.12 or later is needed)",
            _ => "",
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.words())
    }
}

fn about(path: Option<&PathBuf>) -> String {
    path.map(|path| format!(": {}", path.display())).unwrap_or_default()
}

fn unbounded(all: &[Unbounded]) -> String {
    all.iter().map(|one| format!("{} ({})", one.limit, one.why)).collect::<Vec<_>>().join(", ")
}

fn list(unheld: &[Unheld]) -> String {
    unheld.iter().map(|one| format!("{} ({})", one.what, one.why)).collect::<Vec<_>>().join(", ")
}
