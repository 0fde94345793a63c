//! What a sandbox is to be: plain data, with defaults that allow nothing.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Most entries of one view. The kernel allows 100,000 mounts in a namespace (`fs.mount-max`); a policy of thousands of paths is a mistake.
pub const ENTRIES_MAX: usize = 8192;

/// Bytes of a path, the kernel's own limit (`PATH_MAX` with its final zero).
pub const PATH_BYTES_MAX: usize = 4095;

/// What a program may do with a file, or with a folder and all below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// It is there, and cannot be looked at. Folders that lead to other entries of the view show those and nothing else.
    Hidden,
    /// Everything that only reads; nothing can be executed.
    ReadOnly,
    /// Everything that only reads, and executing.
    ReadExec,
    /// Everything but executing.
    Writable,
    /// Everything that the account may do. Devices stay closed, and set-user-ID programs gain nothing.
    All,
}

impl Access {
    /// Whether content and attributes can change.
    pub fn writes(self) -> bool {
        matches!(self, Self::Writable | Self::All)
    }

    /// Whether programs can be executed.
    pub fn executes(self) -> bool {
        matches!(self, Self::ReadExec | Self::All)
    }
}

/// Where the content of an entry comes from.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Source {
    /// From the same path of the machine.
    #[default]
    Same,
    /// From another path of the machine.
    Folder(PathBuf),
    /// From the same path; what is changed goes to a folder beside it, and the original stays as it is. See [`crate::layer`].
    CopyOnWrite {
        /// Where the changes are kept: an existing folder that belongs to them alone, outside of the original.
        changes: PathBuf,
    },
    /// From whoever serves it: a file system of its own (FUSE), for [`Sandbox::start_serving`].
    Served,
}

/// An entry of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// An absolute path. Symbolic links in it are resolved when the sandbox starts: the entry is where they lead, and in an empty root the links are
    /// there as well.
    pub path: PathBuf,
    /// What the program may do.
    pub access: Access,
    /// Where the content is from.
    pub source: Source,
    /// Whether it may be missing on the machine. Then it is left out.
    pub optional: bool,
}

impl Mount {
    /// An entry with the content of the same path, which must be there.
    pub fn new(path: impl Into<PathBuf>, access: Access) -> Self {
        Self { path: path.into(), access, source: Source::Same, optional: false }
    }

    /// The same with its content from elsewhere.
    #[must_use]
    pub fn from(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// The same, left out where it is missing.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }
}

/// What is there before any entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Root {
    /// Nothing: only what the view names, with the folders on the way.
    #[default]
    Empty,
    /// The machine's files with the account's own rights, except devices, `/proc` and `/sys`: `/dev` has only [`Sandbox::devices`] and `/dev/shm`, `/proc` is empty unless asked for,
    /// and `/sys` is read-only (with the account root, writing there would be the machine's).
    Host,
}

/// A device that may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// `/dev/null`
    Null,
    /// `/dev/zero`
    Zero,
    /// `/dev/full`
    Full,
    /// `/dev/random`
    Random,
    /// `/dev/urandom`
    Urandom,
    /// `/dev/tty`
    Tty,
}

impl Device {
    /// All of them.
    pub const ALL: [Device; 6] =
        [Device::Null, Device::Zero, Device::Full, Device::Random, Device::Urandom, Device::Tty];

    /// Its name below `/dev`.
    pub fn name(self) -> &'static str {
        match self {
            Device::Null => "null",
            Device::Zero => "zero",
            Device::Full => "full",
            Device::Random => "random",
            Device::Urandom => "urandom",
            Device::Tty => "tty",
        }
    }
}

/// Which network there is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Network {
    /// A loopback device of its own. Sockets with a path in the view can still be connected to.
    #[default]
    None,
    /// The machine's.
    All,
    /// The machine's, for TCP over these ports, and for nothing else (no UDP, so no names are looked up). Needs Landlock ABI 4.
    Ports {
        /// Ports it may connect to.
        connect: Vec<u16>,
        /// Ports it may listen at. (Listening without binding first takes a port that the kernel chooses, and is not prevented.)
        bind: Vec<u16>,
    },
}

/// Bounds. None is a bound of the account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Seconds of processor time of all together. It takes a control group, if it is not to be [counted](Sandbox::count).
    pub cpu_s: Option<u64>,
    /// Thousandths of a processor that all together have at a time, at least 10. It takes a control group.
    pub cpu_thousandths: Option<u64>,
    /// Bytes of memory of all together, with what the kernel has for them (files they made it read, pipes, sockets). It takes a control group, if it is not to be
    /// [counted](Sandbox::count).
    pub memory_bytes: Option<u64>,
    /// Processes and threads at a time. For the account root the kernel does not count them itself, and a control group does it.
    pub processes: Option<u64>,
    /// Seconds of processor time of each process.
    pub process_cpu_s: Option<u64>,
    /// Bytes of address space of each process.
    pub process_memory_bytes: Option<u64>,
    /// Seconds from start to end, by the clock; frozen time counts.
    pub wall_s: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
    /// Bytes of each file it writes.
    pub file_bytes: Option<u64>,
}

/// Operations that are refused whatever the file, with `EPERM` if nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Denied {
    /// `fsync`, `fdatasync`, `sync`, `syncfs`, `sync_file_range`, `msync`.
    Fsync,
    /// `statfs`, `fstatfs`, `ustat`.
    Statfs,
    /// `lseek`.
    Llseek,
    /// What reads a file by its pages in memory and not by reading: `splice`, `sendfile` and `copy_file_range`, with `EINVAL`, which they answer where a file has no such
    /// pages; and attributes as they were once (`statx` with `AT_STATX_DONT_SYNC`), the same. Whoever serves a file system is not asked about those.
    Unserved,
}

/// A standard stream of the program.
#[derive(Debug, Default)]
pub enum Stream {
    /// The caller's.
    #[default]
    Inherit,
    /// Nothing to read, and what is written is forgotten.
    Null,
    /// This one.
    Given(OwnedFd),
}

/// A program and what it is confined to. [`Sandbox::new`] allows nothing: no file, no network, no device, no variable.
#[derive(Debug, Default)]
pub struct Sandbox {
    /// The program and its arguments. A name without a slash is looked for in the `PATH` of `environment`, inside the view.
    pub command: Vec<OsString>,
    /// All variables the program has.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory, inside the view.
    pub folder: PathBuf,
    /// What is there before any entry.
    pub root: Root,
    /// Entries, in any order: one inside of another prevails there.
    pub view: Vec<Mount>,
    /// Devices in `/dev`.
    pub devices: Vec<Device>,
    /// Whether there is a `/proc`, with the sandbox's own processes alone. It is read-only.
    pub proc: bool,
    /// Bytes of a private `/tmp` in memory, if there is one.
    pub tmp_bytes: Option<u64>,
    /// The network.
    pub network: Network,
    /// Whether no UNIX socket can be made, but connected pairs (no datagrams). Then nothing is handed over to the program by others while it runs, and Landlock,
    /// which takes time at each file that is opened, has only to hold what could be gained by opening its streams again.
    pub no_unix_sockets: bool,
    /// Bounds.
    pub limits: Limits,
    /// Where no control group holds a limit of all processes together: do without instead of refusing to start. Memory and processor time are counted by the caller's
    /// process then, which is not exact; [`crate::Running::weaker`] lists what is so and what is not held at all.
    pub count: bool,
    /// Operations that are refused whatever the file.
    pub denied: Vec<Denied>,
    /// Standard input.
    pub stdin: Stream,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
    /// Numbers of system calls that a supervisor answers (seccomp user notification). If there are any, [`crate::Running::listener`] is what to read
    /// them from, and the program waits in them (in `execve` already, if that is one) until somebody does.
    pub notify: Vec<i64>,
    /// Keep the caller's terminal and session, so that keys like Ctrl-C work in the program. Needs Landlock ABI 6, which keeps its signals inside.
    pub terminal: bool,
    /// Whether [`crate::Running::change_view`] may ever allow more than the view does at the start. Landlock's rules for files cannot be widened, so there is one
    /// then, for the view's root, and the mounts alone say what is allowed there.
    pub widen: bool,
    /// Do not use namespaces, as if the kernel had none: Landlock and seccomp alone, for views that they can hold. What is weaker then is listed in
    /// [`crate::WITHOUT_NAMESPACES`]; what was asked for and cannot be held is refused by name ([`crate::Error::NeedsNamespaces`]).
    pub no_namespaces: bool,
}

impl Sandbox {
    /// A program that may do nothing: it cannot even be executed before the view has it.
    pub fn new<Words>(command: Words) -> Self
    where
        Words: IntoIterator,
        Words::Item: Into<OsString>,
    {
        let command = command.into_iter().map(Into::into).collect();
        Self { command, folder: PathBuf::from("/"), ..Self::default() }
    }

    /// Adds an entry to the view.
    #[must_use]
    pub fn mount(mut self, path: impl Into<PathBuf>, access: Access) -> Self {
        self.view.push(Mount::new(path, access));
        self
    }
}
