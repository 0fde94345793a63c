//! Everything that is decided before the fork, so that the child only makes system calls: strings, lists, the filter, the rulesets.

pub(crate) mod handed;
mod resolve;
mod skeleton;

pub(crate) use resolve::{Resolved, resolve};

use crate::error::Error;
use crate::filter::{self, Sockets, Wanted};
use crate::landlock::{self, Ruleset};
use crate::sandbox::{Access, Device, Network, PATH_BYTES_MAX, Root, Sandbox, Source};
use crate::sys;
use crate::tier;
use skeleton::Skeleton;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Attributes of mounts (`linux/mount.h`).
pub(crate) mod attributes {
    pub(crate) const READ_ONLY: u64 = 1;
    pub(crate) const NO_SETUID: u64 = 2;
    pub(crate) const NO_DEVICES: u64 = 4;
    pub(crate) const NO_EXECUTE: u64 = 8;
}

/// One step of building the view. Paths are relative to the new root.
#[derive(Debug)]
pub(crate) enum Build {
    /// A folder on the way, if it is not there.
    Folder(CString),
    /// An empty file to mount on.
    File(CString),
    /// A symbolic link on the way.
    Link { at: CString, to: CString },
    /// A folder in memory, with its size in bytes and its mode as the kernel takes them.
    Memory { at: CString, bytes: CString, nodes: CString, mode: CString, set: u64 },
    /// What is at `from`, a path of the machine relative to its root.
    Bind { from: CString, at: CString, set: u64 },
    /// Nothing that can be looked at.
    Mask { at: CString, folder: bool },
    /// A copy-on-write folder.
    Overlay { lower: CString, changes: CString, at: CString, set: u64 },
    /// A file system that somebody else serves.
    Serve { at: CString, set: u64 },
    /// The processes.
    Proc { at: CString },
    /// The mount here becomes read-only, now that everything in it is made.
    Seal { at: CString },
}

/// A step, and the number of the path that an error is about.
pub(crate) type Numbered = (u32, Build);

/// What the child does.
pub(crate) struct Plan {
    /// Flags of `clone`; 0 without namespaces.
    pub(crate) namespaces: u64,
    pub(crate) maps: Maps,
    pub(crate) host_root: bool,
    pub(crate) build: Vec<Numbered>,
    pub(crate) rulesets: Vec<Ruleset>,
    pub(crate) filter: Vec<libc::sock_filter>,
    pub(crate) listener: bool,
    pub(crate) limits: Vec<(u32, u64)>,
    pub(crate) wall_ns: Option<u64>,
    /// Processor time of all together.
    pub(crate) cpu_ns: Option<u64>,
    /// How many processors there are.
    pub(crate) processors: u64,
    pub(crate) loopback: bool,
    pub(crate) session: bool,
    pub(crate) folder: CString,
    pub(crate) candidates: Vec<CString>,
    pub(crate) arguments: Words,
    pub(crate) environment: Words,
    /// What errors are about.
    pub(crate) paths: Vec<PathBuf>,
    /// The entries as they are in the view.
    pub(crate) entries: Vec<Resolved>,
    pub(crate) root: Root,
    pub(crate) widen: bool,
    pub(crate) unix: bool,
    /// Streams that are opened once more in the view.
    pub(crate) again: [Option<CString>; 3],
}

/// Strings with the list of pointers that `execve` takes.
pub(crate) struct Words {
    pointers: Vec<*const c_char>,
    _strings: Vec<CString>,
}

impl Words {
    fn new(strings: Vec<CString>) -> Self {
        let pointers = strings.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
        Self { pointers, _strings: strings }
    }

    pub(crate) fn pointers(&self) -> &[*const c_char] {
        &self.pointers
    }
}

pub(crate) fn c_string(bytes: &[u8], what: &str) -> Result<CString, Error> {
    CString::new(bytes).map_err(|_| Error::Invalid(format!("{what} has a zero byte in it")))
}

/// A path without its first slash, as it is looked for below a descriptor.
pub(crate) fn relative(path: &Path) -> Result<CString, Error> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > PATH_BYTES_MAX {
        return Err(Error::Invalid(format!("a path of {} bytes is longer than {PATH_BYTES_MAX}", bytes.len())));
    }
    let bytes = bytes.strip_prefix(b"/").unwrap_or(bytes);
    c_string(if bytes.is_empty() { b"." } else { bytes }, "a path")
}

impl Plan {
    pub(crate) fn new(sandbox: &Sandbox) -> Result<Self, Error> {
        let abi = sys::landlock_abi();
        check(sandbox, abi)?;
        let resolved = resolve(&sandbox.view)?;
        let skeleton = if sandbox.no_namespaces {
            tier::check(sandbox, &resolved.entries, abi)?;
            Skeleton::default()
        } else {
            Skeleton::plan(sandbox, &resolved)?
        };
        let sockets = match &sandbox.network {
            Network::All => Sockets::All,
            Network::None if sandbox.no_namespaces => Sockets::Local,
            Network::None => Sockets::Own,
            Network::Ports { .. } => Sockets::Tcp { local: abi >= landlock::WITH_SCOPES },
        };
        let wanted = Wanted {
            denied: &sandbox.denied,
            sockets,
            unix: !sandbox.no_unix_sockets,
            notify: &sandbox.notify,
            attributes_stay: sandbox.no_namespaces,
        };
        Ok(Self {
            namespaces: if sandbox.no_namespaces { 0 } else { namespaces(sandbox) },
            maps: account_maps(),
            host_root: sandbox.root == Root::Host,
            build: skeleton.build,
            rulesets: rulesets(sandbox, abi, &resolved.entries)?,
            filter: filter::assemble(&wanted),
            listener: !sandbox.notify.is_empty(),
            limits: limits(sandbox),
            wall_ns: sandbox.limits.wall_s.map(|seconds| seconds.saturating_mul(1_000_000_000)),
            cpu_ns: sandbox.limits.cpu_s.map(|seconds| seconds.saturating_mul(1_000_000_000)),
            processors: sys::processors(),
            loopback: sandbox.network == Network::None && !sandbox.no_namespaces,
            session: !sandbox.terminal,
            folder: c_string(sandbox.folder.as_os_str().as_bytes(), "the working directory")?,
            candidates: candidates(sandbox)?,
            arguments: words(sandbox.command.iter().map(|word| word.as_bytes().to_vec()))?,
            environment: words(sandbox.environment.iter().map(|(name, value)| pair(name, value)))?,
            paths: skeleton.paths,
            entries: resolved.entries,
            root: sandbox.root,
            widen: sandbox.widen,
            unix: !sandbox.no_unix_sockets,
            again: [const { None }; 3],
        })
    }
}

/// What is written to `uid_map` and `gid_map`.
pub(crate) struct Maps {
    pub(crate) user: Vec<u8>,
    pub(crate) group: Vec<u8>,
}

/// The account is the same inside and outside, and the only one.
pub(crate) fn account_maps() -> Maps {
    let (uid, gid) = sys::account();
    let map = |id: u32| format!("{id} {id} 1").into_bytes();
    Maps { user: map(uid), group: map(gid) }
}

fn words(words: impl Iterator<Item = Vec<u8>>) -> Result<Words, Error> {
    let strings: Result<_, _> = words.map(|word| c_string(&word, "an argument or a variable")).collect();
    Ok(Words::new(strings?))
}

fn pair(name: &OsStr, value: &OsStr) -> Vec<u8> {
    [name.as_bytes(), b"=", value.as_bytes()].concat()
}

/// What cannot be meant, or cannot be held.
fn check(sandbox: &Sandbox, abi: u32) -> Result<(), Error> {
    let invalid = |why: String| Err(Error::Invalid(why));
    if sandbox.command.first().is_none_or(|program| program.is_empty()) {
        return invalid("there is no program to run".to_owned());
    }
    if !sandbox.folder.is_absolute() {
        return invalid(format!("the working directory {} is not absolute", sandbox.folder.display()));
    }
    if let Some((name, _)) =
        sandbox.environment.iter().find(|(name, _)| name.is_empty() || name.as_bytes().contains(&b'='))
    {
        return invalid(format!("{} is no name of a variable", name.display()));
    }
    if let Some(call) = sandbox.notify.iter().find(|call| filter::RESERVED.contains(call)) {
        return invalid(format!("nobody can be asked about the system call {call}: starting the program needs it"));
    }
    if matches!(sandbox.network, Network::Ports { .. }) && abi < landlock::WITH_PORTS {
        let why = format!("it needs Landlock ABI {} (Linux 6.7), and this kernel has {abi}", landlock::WITH_PORTS);
        return Err(Error::Unsupported { what: "a list of ports".to_owned(), why });
    }
    if sandbox.terminal && abi < landlock::WITH_SCOPES {
        let why = format!(
            "keeping its signals from the caller's processes needs Landlock ABI {} (Linux 6.12), and this kernel has {abi}",
            landlock::WITH_SCOPES
        );
        return Err(Error::Unsupported { what: "the caller's terminal".to_owned(), why });
    }
    Ok(())
}

fn namespaces(sandbox: &Sandbox) -> u64 {
    let always = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    let network = if sandbox.network == Network::None { libc::CLONE_NEWNET } else { 0 };
    u64::from((always | network).unsigned_abs())
}

/// In the order in which they are set: the number of open files last, since it also bounds what setting up needs.
fn limits(sandbox: &Sandbox) -> Vec<(u32, u64)> {
    let wanted = &sandbox.limits;
    // The init process is one of those that are counted.
    let processes = wanted.processes.map(|count| count.saturating_add(1));
    let all = [
        (libc::RLIMIT_CORE, Some(0)),
        // None can have more than all together.
        (libc::RLIMIT_CPU, wanted.process_cpu_s.into_iter().chain(wanted.cpu_s).min()),
        (libc::RLIMIT_AS, wanted.process_memory_bytes),
        (libc::RLIMIT_NPROC, processes),
        (libc::RLIMIT_FSIZE, wanted.file_bytes),
        (libc::RLIMIT_NOFILE, wanted.open_files),
    ];
    all.into_iter().filter_map(|(resource, most)| Some((resource, most?))).collect()
}

/// Where the program may be: where it says, or in each folder of its `PATH`.
fn candidates(sandbox: &Sandbox) -> Result<Vec<CString>, Error> {
    let program = &sandbox.command[0];
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![c_string(program.as_bytes(), "the program")?]);
    }
    let path = sandbox.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let path = path.unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let in_folder = |folder: PathBuf| c_string(&folder.join(program).into_os_string().into_vec(), "the program");
    std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(in_folder).collect()
}

/// What Landlock holds, all of which has to agree.
fn rulesets(sandbox: &Sandbox, abi: u32, entries: &[Resolved]) -> Result<Vec<Ruleset>, Error> {
    let files = sandbox.root == Root::Empty;
    let Some(mut set) = Ruleset::new(abi, files, &sandbox.network) else { return Ok(Vec::new()) };
    if sandbox.no_namespaces {
        grant_alone(&mut set, sandbox, entries)?;
        return Ok(vec![set]);
    }
    // What is reached through the view's root, which is nowhere else: the mounts say what is allowed there.
    let in_view = |set: &mut Ruleset| c_string(b"/", "a path").map(|root| set.rights(root, u64::MAX, true));
    if sandbox.widen {
        in_view(&mut set)?;
        return Ok(vec![set]);
    }
    grant(&mut set, sandbox, entries)?;
    let mut sets = vec![set];
    // By a folder that somebody hands over from outside, nothing inside of it would be closed.
    if files
        && takes_away(entries)
        && let Some(mut set) = Ruleset::new(abi, true, &Network::All)
    {
        in_view(&mut set)?;
        sets.push(set);
    }
    Ok(sets)
}

/// Whether an entry allows less than what is around it, by its mount alone.
fn takes_away(entries: &[Resolved]) -> bool {
    let less = |outer: &Resolved, inner: &Resolved| {
        outer.access != Access::Hidden
            && (inner.access == Access::Hidden
                || outer.access.writes() && !inner.access.writes()
                || !matches!(inner.source, Source::Same | Source::Folder(_)))
    };
    let mut around: Vec<&Resolved> = Vec::new();
    entries.iter().any(|entry| {
        while around.last().is_some_and(|last| !entry.path.starts_with(&last.path)) {
            around.pop();
        }
        let takes = around.last().is_some_and(|outer| less(outer, entry));
        around.push(entry);
        takes
    })
}

/// What Landlock grants: what the view does, and what is there besides.
fn grant(set: &mut Ruleset, sandbox: &Sandbox, entries: &[Resolved]) -> Result<(), Error> {
    let path = |path: &str| c_string(path.as_bytes(), "a path");
    // Folders on the way can be listed; those that are hidden are so by what is mounted on them.
    set.rights(path("/")?, landlock::READ_DIR, true);
    let mut around: Vec<&Resolved> = Vec::new();
    for entry in tier::shown(entries) {
        while around.last().is_some_and(|last| !entry.path.starts_with(&last.path)) {
            around.pop();
        }
        // What is granted to a folder is granted below it, so what is no more than that takes no rule.
        if !around.iter().any(|outer| landlock::includes(outer.access, entry.access)) {
            set.grant(c_string(entry.path.as_os_str().as_bytes(), "a path")?, entry.access, entry.folder);
        }
        around.push(entry);
    }
    if !sandbox.devices.is_empty() {
        set.grant_devices(path("/dev")?, true);
    }
    if sandbox.proc {
        set.grant(path("/proc")?, Access::ReadOnly, true);
    }
    if sandbox.tmp_bytes.is_some() {
        set.grant(path("/tmp")?, Access::All, true);
    }
    Ok(())
}

/// The same where the machine's own paths are all there is.
fn grant_alone(set: &mut Ruleset, sandbox: &Sandbox, entries: &[Resolved]) -> Result<(), Error> {
    for entry in tier::shown(entries) {
        set.grant(c_string(entry.path.as_os_str().as_bytes(), "a path")?, entry.access, entry.folder);
    }
    for device in devices(sandbox) {
        set.grant_devices(c_string(format!("/dev/{}", device.name()).as_bytes(), "a path")?, false);
    }
    Ok(())
}

/// What an access is, in attributes of a mount.
pub(crate) fn restrictions(access: Access) -> u64 {
    let read_only = if access.writes() { 0 } else { attributes::READ_ONLY };
    let no_execute = if access.executes() { 0 } else { attributes::NO_EXECUTE };
    attributes::NO_DEVICES | attributes::NO_SETUID | read_only | no_execute
}

/// Devices in an order that is the same each time.
pub(crate) fn devices(sandbox: &Sandbox) -> Vec<Device> {
    let mut devices = sandbox.devices.clone();
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// Whether changes are kept beside an original.
pub(crate) fn is_copy(source: &Source) -> bool {
    matches!(source, Source::CopyOnWrite { .. })
}
