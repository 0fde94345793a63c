//! What happens between the fork and the program: the view, then init, then the program's own process.
//!
//! ```text
//! caller ── init (process 1 of its namespace): builds the view, gives up every capability, starts the program, waits
//!             └─ program: session, streams, limits, Landlock, seccomp, exec
//! ```
//!
//! The caller may have many threads, and any of them may have held a lock when this process was copied. So nothing here allocates or locks; everything that could
//! was done by [`crate::plan`]. Errors go back as records.

pub(crate) mod build;
mod init;
mod program;

use crate::error::Step;
use crate::plan::{Maps, Plan};
use crate::sys;
use crate::wire::{Failure, Message, in_step, tell};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::ffi::{CStr, c_ulong};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Descriptors of the child. All but the streams close when the program is executed.
pub(crate) struct Descriptors<'a> {
    /// Where failures are told.
    pub(crate) report: BorrowedFd<'a>,
    /// Where the running sandbox is spoken to.
    pub(crate) control: BorrowedFd<'a>,
    /// The caller's process.
    pub(crate) supervisor: BorrowedFd<'a>,
    /// What lets this process into its control groups.
    pub(crate) doors: &'a [BorrowedFd<'a>],
    /// What the kernel has counted of the processor time of all together, in units of so many nanoseconds.
    pub(crate) used: Option<(BorrowedFd<'a>, u64)>,
    /// Becomes readable when there is too little memory.
    pub(crate) overflow: Option<BorrowedFd<'a>>,
    /// The program's standard streams.
    pub(crate) streams: [BorrowedFd<'a>; 3],
}

/// A panic here would run the caller's code a second time.
struct NoReturn;

impl Drop for NoReturn {
    fn drop(&mut self) {
        sys::exit(FAILED);
    }
}

/// Exit code of a sandbox that was not made.
const FAILED: i32 = 125;

/// The child's whole life.
pub(crate) fn run(plan: &Plan, descriptors: &Descriptors<'_>) -> ! {
    or_tell(descriptors, || prepare(plan, descriptors))
}

/// Does what does not return unless it fails, and then says so and ends.
fn or_tell(descriptors: &Descriptors<'_>, work: impl FnOnce() -> Result<Never, Failure>) -> ! {
    let _no_return = NoReturn;
    let Err(failure) = work();
    let _ = tell(descriptors.report, Message::Failed(failure), &[]);
    sys::exit(FAILED)
}

enum Never {}

fn prepare(plan: &Plan, descriptors: &Descriptors<'_>) -> Result<Never, Failure> {
    for door in descriptors.doors {
        rustix::io::write(door, b"0").map_err(in_step(Step::Limits))?;
    }
    close_others(descriptors).map_err(in_step(Step::Streams))?;
    let alone = plan.namespaces == 0;
    if !alone {
        map_account(&plan.maps).map_err(in_step(Step::Account))?;
        build::view(plan, descriptors.report)?;
    }
    if plan.loopback {
        sys::loopback_up().map_err(in_step(Step::Network))?;
    }
    give_up_capabilities(alone).map_err(in_step(Step::Capabilities))?;
    init::run(plan, descriptors)
}

/// Closes everything of the caller's that is not needed here. Copies of other sandboxes' descriptors would keep those alive.
fn close_others(descriptors: &Descriptors<'_>) -> Result<(), Errno> {
    let [input, output, error] = descriptors.streams;
    let report = descriptors.report;
    // What there is not is said twice.
    let (used, overflow) = (descriptors.used.map_or(report, |(file, _)| file), descriptors.overflow.unwrap_or(report));
    let needed = [report, descriptors.control, descriptors.supervisor, used, overflow, input, output, error];
    let mut numbers = needed.map(|one| one.as_raw_fd().unsigned_abs());
    numbers.sort_unstable();
    let mut from = 0;
    for number in numbers {
        if number > from {
            sys::close_range(from, number - 1)?;
        }
        from = number + 1;
    }
    sys::close_range(from, u32::MAX)
}

/// The account is the same inside and outside, and the only one.
pub(crate) fn map_account(maps: &Maps) -> Result<(), Errno> {
    // In this order: groups can be mapped by somebody without rights only when they cannot be given up (user_namespaces(7)).
    write_file(c"/proc/self/setgroups", b"deny")?;
    write_file(c"/proc/self/uid_map", &maps.user)?;
    write_file(c"/proc/self/gid_map", &maps.group)
}

fn write_file(path: &CStr, content: &[u8]) -> Result<(), Errno> {
    let file: OwnedFd = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content).map(|_| ())
}

/// Bits of `PR_SET_SECUREBITS`: the account root is nobody special when it executes something, and nobody can change that.
const SECURE_BITS: c_ulong = 0xef;

/// Gives up every capability for good, also for what is executed later.
fn give_up_capabilities(alone: bool) -> Result<(), Errno> {
    // Nobody in the sandbox may look into this process, which is a copy of the caller's memory.
    sys::prctl(libc::PR_SET_DUMPABLE, 0)?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    for capability in 0..64 {
        match sys::prctl(libc::PR_CAPBSET_DROP, capability) {
            Ok(_) => {}
            // Past the last one that the kernel knows.
            Err(Errno::INVAL) => break,
            // An ordinary account has none, and with `no_new_privs` gets none.
            Err(Errno::PERM) if alone => return sys::no_capabilities(),
            Err(error) => return Err(error),
        }
    }
    sys::prctl(libc::PR_SET_SECUREBITS, SECURE_BITS)?;
    sys::no_capabilities()
}

fn this_process() -> Result<[OwnedFd; 2], Errno> {
    let namespace = |path: &CStr| open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    Ok([namespace(c"/proc/self/ns/user")?, namespace(c"/proc/self/ns/mnt")?])
}

pub(crate) fn tell_namespaces(report: BorrowedFd<'_>) -> Result<(), Errno> {
    let [user, mount] = this_process()?;
    tell(report, Message::Namespaces, &[user.as_fd(), mount.as_fd()])
}
