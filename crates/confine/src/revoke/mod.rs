//! Taking back what open files may still do under another policy.
//!
//! Nothing takes a descriptor or a mapping out of a process, so whoever has one that the new policy refuses is ended, and named. To find all of them:
//!
//! 1. Every process of the sandbox is stopped at once, and waited for until each of its threads stands still (`still`): then nobody opens, maps or hands on anything.
//! 2. Of each, `/proc` says what it has open, maps, and stands in (`held`), and the policy is asked about each of these by the name it has now, or had last.
//! 3. A socket may have descriptors in it that were sent and not yet received (`SCM_RIGHTS`). The kernel says how many and not which, so whoever has such a socket is ended.
//!    So is whoever nobody can look into, and who does not come to stand still: what is not known is not believed.
//! 4. Those are killed while everybody else stands still, and waited for. Then the others go on.
//!
//! What was handed over from outside of the view, such as the standard streams, no policy speaks of, and it stays. Reading and writing behind a gate about which rules
//! of each call speak are asked about anyway; a file that was opened before there were such rules is not, and counts as refused.

mod held;
mod still;

use holdfast_base::{Error, ErrorKind, Result};
use holdfast_policy::Judge;
use holdfast_sandbox::Running;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Since then the kernel counts what was sent on sockets that nobody has accepted yet, too.
const KERNEL_MIN: (u32, u32) = (6, 2);
/// Most processes that are named.
const NAMED_MAX: usize = 100;
/// Most reasons for each.
const REASONS_MAX: usize = 3;
/// Longest that the end of those who are killed is waited for.
const END: Duration = Duration::from_secs(5);

/// What was ended because of what it had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// The processes, the first hundred of them.
    pub ended: Vec<Ended>,
    /// How many more there were.
    pub more: usize,
}

/// A process that was killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its number, as the supervisor's namespace has it.
    pub pid: i32,
    /// What it ran, as it saw it.
    pub program: String,
    /// What it had, the first of it.
    pub had: Vec<String>,
}

impl Revoked {
    /// How many processes were ended.
    pub fn count(&self) -> usize {
        self.ended.len() + self.more
    }

    pub(crate) fn and(mut self, other: Self) -> Self {
        self.ended.extend(other.ended);
        self.more += other.more + self.ended.len().saturating_sub(NAMED_MAX);
        self.ended.truncate(NAMED_MAX);
        self
    }
}

/// What the new policy says.
pub(crate) struct Rights<'a> {
    pub(crate) judge: &'a dyn Judge,
    /// Whether each call of reading and writing a file was asked about however long it is open.
    pub(crate) asked_each_call: &'a dyn Fn(&Path) -> bool,
}

/// Whether this kernel says all that has to be known.
pub(crate) fn is_possible() -> Result<()> {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_bytes().split(|byte| !byte.is_ascii_digit());
    let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse::<u32>().ok();
    let version = (number().unwrap_or(0), number().unwrap_or(0));
    if version >= KERNEL_MIN {
        return Ok(());
    }
    let (major, minor) = KERNEL_MIN;
    let why = "before, nobody can see whether descriptors are on the way in a socket";
    Err(Error::new(ErrorKind::Unsupported, format!("to revoke takes Linux {major}.{minor}: {why}")))
}

/// Waits until all processes stand still, which have been told to. Answers those who do not.
pub(crate) fn wait_until_still(running: &Running) -> Vec<i32> {
    still::wait(|| running.processes())
}

/// Ends every process that has what it may not, and waits for its end. All of them stand still but those who are named.
///
/// # Errors
/// If one of them does not end in time, or there are more than can be looked at.
pub(crate) fn revoke(running: &Running, moving: &[i32], rights: &Rights<'_>) -> Result<Revoked> {
    let processes = running.processes();
    if processes.len() >= still::PROCESSES_MAX {
        return Err(Error::new(ErrorKind::TooLarge, "there are more processes than can be looked at: end all of it"));
    }
    let mounts = held::Mounts::of(running.pid())?;
    let (mut killed, mut revoked) = (Vec::new(), Revoked::default());
    for pid in processes {
        // Its number is its own as long as nobody waits for it, and those who could stand still.
        let Some(process) = open(pid)? else { continue };
        let mut found = held::Found::default();
        if moving.contains(&pid) {
            found.add("does not stand still, so nobody can say what it has".into());
        } else {
            held::look(pid, &mounts, rights, &mut found);
        }
        if found.is_empty() || has_ended(&process, Duration::ZERO)? {
            continue;
        }
        let one = Ended { pid, program: held::program_of(pid), had: found.told(REASONS_MAX) };
        revoked = revoked.and(Revoked { ended: vec![one], more: 0 });
        // It may have ended.
        let _ = pidfd_send_signal(&process, Signal::KILL);
        killed.push(process);
    }
    let deadline = Instant::now() + END;
    for process in &killed {
        if !has_ended(process, deadline.saturating_duration_since(Instant::now()))? {
            let why = "a process that has what the policy refuses was killed, and has not ended yet";
            return Err(Error::new(ErrorKind::Unavailable, why));
        }
    }
    // Whoever let them go on meanwhile, such as a shell that takes up a job, has let them hand things on.
    if !wait_until_still(running).is_empty() {
        return Err(Error::new(ErrorKind::Unavailable, "somebody else let the program go on meanwhile: do it again"));
    }
    Ok(revoked)
}

/// None if it has ended.
fn open(pid: i32) -> Result<Option<OwnedFd>> {
    match Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
        Some(Ok(process)) => Ok(Some(process)),
        None | Some(Err(Errno::SRCH)) => Ok(None),
        Some(Err(errno)) => Err(std::io::Error::from(errno).into()),
    }
}

fn has_ended(process: &OwnedFd, longest: Duration) -> Result<bool> {
    let mut events = [PollFd::new(process, PollFlags::IN)];
    let time = Timespec::try_from(longest).ok();
    match poll(&mut events, time.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(std::io::Error::from(errno).into()),
    }
}
