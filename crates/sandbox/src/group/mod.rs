//! Control groups: what the processes of a sandbox use together, bounded and counted by the kernel.
//!
//! The sandbox's first process moves itself into its groups before anything else, through files that the caller has opened; the program cannot leave them, since no
//! file of theirs can be written in the sandbox. A group is removed with the sandbox. Whoever made one holds a lock on its folder (`flock`(2)), which ends with the process
//! whatever ends it: a group that nobody holds is removed when the next one is made.
//!
//! | | version 2 | version 1 |
//! |---|---|---|
//! | memory | `memory.max`; the kernel kills all of it (`memory.oom.group`) | `memory.limit_in_bytes`; the kernel kills one process and tells the first, which kills the others |
//! | processor time | `cpu.stat`, which the first process reads when it could be used up | `cpuacct.usage`, the same |
//! | processors at a time | `cpu.max` | `cpu.cfs_quota_us` |
//! | processes | `pids.max` | `pids.max` |

mod place;

use crate::count;
use crate::sandbox::Limits;
use crate::sys;
use place::{Hierarchy, Version};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FlockOperation, flock};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Groups that nobody holds, looked at when one is made: more are left to the next start.
const SWEPT_MAX: usize = 64;
/// Names that are tried for a group.
const NAMES_MAX: usize = 16;
/// How often it is tried to remove a group, a moment apart: the kernel may not have put the last process away.
const REMOVALS_MAX: usize = 20;
const MOMENT: Duration = Duration::from_millis(1);
/// In which processors are shared out (`cpu.max`): the kernel's usual one.
const PERIOD_US: u64 = 100_000;

const PREFIX: &str = "holdfast-";

/// A limit of all processes of a sandbox together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// [`Limits::memory_bytes`]
    Memory,
    /// [`Limits::cpu_s`]
    CpuTime,
    /// [`Limits::cpu_thousandths`]
    Cpus,
    /// [`Limits::processes`], of the account root.
    Processes,
}

impl fmt::Display for Whole {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Memory => "memory",
            Self::CpuTime => "processor time",
            Self::Cpus => "processors at a time",
            Self::Processes => "processes",
        })
    }
}

/// A limit of all processes together that no control group holds here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbounded {
    /// Which.
    pub limit: Whole,
    /// Why not.
    pub why: String,
}

impl Unbounded {
    /// What there is instead where it is [counted](crate::Sandbox::count).
    pub(crate) fn instead(&self) -> String {
        let Self { limit, why } = self;
        match limit {
            Whole::Memory | Whole::CpuTime => format!(
                "{limit} of all together is added up by the supervisor every {} ms, which is not exact: {why}",
                count::PERIOD.as_millis()
            ),
            Whole::Cpus | Whole::Processes => format!("{limit} are not bounded: {why}"),
        }
    }
}

/// What holds a limit of all processes together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// Which.
    pub limit: Whole,
    /// The version of the control group's interface, 1 or 2.
    pub version: u8,
}

/// What control groups hold of these limits here, and what they do not, found out by making them.
pub fn bounding(limits: &Limits) -> (Vec<Bounded>, Vec<Unbounded>) {
    let (groups, unbounded) = Groups::new(&wanted(limits));
    (groups.map(|groups| groups.bounded.clone()).unwrap_or_default(), unbounded)
}

/// What of these limits takes a control group, and how much is allowed.
pub(crate) fn wanted(limits: &Limits) -> Vec<(Whole, u64)> {
    // The kernel counts the processes of every account but root by itself.
    let processes = limits.processes.filter(|_| sys::account().0 == 0);
    let all = [
        (Whole::Memory, limits.memory_bytes),
        (Whole::CpuTime, limits.cpu_s),
        (Whole::Cpus, limits.cpu_thousandths),
        (Whole::Processes, processes),
    ];
    all.into_iter().filter_map(|(limit, most)| Some((limit, most?))).collect()
}

/// What the kernel has counted, in units of so many nanoseconds.
#[derive(Debug)]
pub(crate) struct Used {
    pub(crate) file: File,
    pub(crate) unit_ns: u64,
}

/// The groups of a sandbox, one in each hierarchy that it takes, until they are dropped.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    made: Vec<Group>,
    bounded: Vec<Bounded>,
    /// The processor time of all together.
    pub(crate) used: Option<Used>,
    /// Becomes readable when there is too little memory and the kernel kills one process only.
    pub(crate) overflow: Option<OwnedFd>,
    memory: Option<(PathBuf, Version)>,
}

impl Groups {
    /// Makes them for what can be held, and says what cannot.
    pub(crate) fn new(wanted: &[(Whole, u64)]) -> (Option<Self>, Vec<Unbounded>) {
        if wanted.is_empty() {
            return (None, Vec::new());
        }
        let (mut groups, mut unbounded) = (Self::default(), Vec::new());
        let (placed, missing) = place::share_out(wanted.iter().map(|(limit, _)| *limit));
        unbounded.extend(missing);
        for (hierarchy, limits) in placed {
            let amounts: Vec<_> = wanted.iter().filter(|(limit, _)| limits.contains(limit)).copied().collect();
            if let Err(why) = groups.add(&hierarchy, &amounts) {
                unbounded.extend(limits.into_iter().map(|limit| Unbounded { limit, why: why.clone() }));
            }
        }
        ((!groups.made.is_empty()).then_some(groups), unbounded)
    }

    fn add(&mut self, hierarchy: &Hierarchy, wanted: &[(Whole, u64)]) -> Result<(), String> {
        let version = hierarchy.version;
        let above = hierarchy.above(wanted.iter().map(|(limit, _)| *limit))?;
        let fail = |why: io::Error| format!("no control group can be made in {}: {why}", above.display());
        sweep(&above);
        let group = Group::new(&above).map_err(fail)?;
        let mut new = Self::default();
        for (limit, most) in wanted {
            new.bound(&group.path, version, *limit, *most).map_err(fail)?;
        }
        let number = if version == Version::Second { 2 } else { 1 };
        self.bounded.extend(wanted.iter().map(|(limit, _)| Bounded { limit: *limit, version: number }));
        self.made.push(group);
        self.used = self.used.take().or(new.used);
        self.overflow = self.overflow.take().or(new.overflow);
        self.memory = self.memory.take().or(new.memory);
        Ok(())
    }

    fn bound(&mut self, group: &Path, version: Version, limit: Whole, most: u64) -> io::Result<()> {
        let set = |file: &str, value: String| put(&group.join(file), &value);
        // Where swapped memory is not counted, there is no such file.
        let set_if_there = |file: &str, value: String| match set(file, value) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        let count =
            |file: &str, unit_ns| -> io::Result<_> { Ok(Some(Used { file: File::open(group.join(file))?, unit_ns })) };
        match (limit, version) {
            (Whole::Memory, Version::Second) => {
                set("memory.max", most.to_string())?;
                set_if_there("memory.swap.max", "0".into())?;
                set("memory.oom.group", "1".into())?;
                self.memory = Some((group.join("memory.events"), version));
            }
            (Whole::Memory, Version::First) => {
                set("memory.limit_in_bytes", most.to_string())?;
                set_if_there("memory.memsw.limit_in_bytes", most.to_string())?;
                self.overflow = Some(overflow(group)?);
                self.memory = Some((group.join("memory.oom_control"), version));
            }
            // Both are of the kernel's own resolution, whatever the unit.
            (Whole::CpuTime, Version::Second) => self.used = count("cpu.stat", 1_000)?,
            (Whole::CpuTime, Version::First) => self.used = count("cpuacct.usage", 1)?,
            (Whole::Cpus, Version::Second) => set("cpu.max", format!("{} {PERIOD_US}", quota_us(most)))?,
            (Whole::Cpus, Version::First) => {
                set("cpu.cfs_period_us", PERIOD_US.to_string())?;
                set("cpu.cfs_quota_us", quota_us(most).to_string())?;
            }
            // The first process of the sandbox is not the program's.
            (Whole::Processes, _) => set("pids.max", most.saturating_add(1).to_string())?,
        }
        Ok(())
    }

    /// Who writes `0` to each of them is in the groups.
    pub(crate) fn doors(&self) -> Vec<BorrowedFd<'_>> {
        self.made.iter().map(|group| group.door.as_fd()).collect()
    }

    /// Whether there was less memory than the processes wanted, so that the kernel killed.
    pub(crate) fn overflowed(&self) -> bool {
        let Some((path, version)) = &self.memory else { return false };
        let text = fs::read_to_string(path).unwrap_or_default();
        let counted = |name: &str| {
            text.lines().any(|line| line.split_once(' ').is_some_and(|(key, value)| key == name && value != "0"))
        };
        // In the second version groups around this one may be the reason; then it is not its own limit.
        counted("oom_kill") && (*version == Version::First || counted("oom"))
    }
}

/// Microseconds of each period.
fn quota_us(thousandths: u64) -> u64 {
    thousandths.saturating_mul(PERIOD_US / 1_000)
}

/// Asks to be told when there is too little memory (`memory.oom_control` and `cgroup.event_control` of the first version).
fn overflow(group: &Path) -> io::Result<OwnedFd> {
    let told = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    // Not among the standard streams, even if the caller has closed those.
    let told = rustix::io::fcntl_dupfd_cloexec(&told, 3)?;
    let about = File::open(group.join("memory.oom_control"))?;
    put(&group.join("cgroup.event_control"), &format!("{} {}", told.as_raw_fd(), about.as_raw_fd()))?;
    Ok(told)
}

/// Writes to a file of the kernel's, which is there or not.
fn put(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A folder of the kernel's that is a group.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    door: File,
    /// Says that somebody uses it.
    _held: File,
}

impl Group {
    fn new(above: &Path) -> io::Result<Self> {
        for _ in 0..NAMES_MAX {
            let path = above.join(format!("{PREFIX}{:016x}", random()?));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                other => other?,
            }
            if let Some(held) = hold(&path) {
                let door = OpenOptions::new().write(true).open(path.join("cgroup.procs"));
                return door.map(|door| Self { path: path.clone(), door, _held: held }).inspect_err(|_| remove(&path));
            }
            // Somebody took it for one that nobody holds, and removes it.
            let _ = fs::remove_dir(&path);
        }
        Err(io::Error::other("none stayed until it was held"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// What cannot be removed now is left to the next sweep.
fn remove(path: &Path) {
    for _ in 0..REMOVALS_MAX {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(MOMENT),
            _ => return,
        }
    }
}

/// Takes a group's lock, if nobody has it and the group is still there.
fn hold(path: &Path) -> Option<File> {
    let held = File::open(path).ok()?;
    flock(&held, FlockOperation::NonBlockingLockExclusive).ok()?;
    let number = |found: fs::Metadata| found.ino();
    (fs::metadata(path).ok().map(number) == held.metadata().ok().map(number)).then_some(held)
}

/// Removes groups that nobody holds. One that has processes refuses.
fn sweep(above: &Path) {
    let Ok(entries) = fs::read_dir(above) else { return };
    let ours =
        entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)));
    for entry in ours.take(SWEPT_MAX) {
        let path = entry.path();
        if let Some(_held) = hold(&path) {
            let _ = fs::remove_dir(&path);
        }
    }
}
