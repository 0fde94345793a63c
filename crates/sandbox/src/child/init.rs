//! The first process of the sandbox. It starts the program, takes ended processes away, passes signals on, watches the clock and what all together use, and ends with the
//! program: the kernel then kills whatever is left in the namespace.
//!
//! Until the program is executed it waits for that, unless there is a listener, and only a kill reaches it: where a file system does not answer, it has no clock.
//!
//! It also ends when the caller's process does. It learns that from a descriptor of that process, which cannot be kept open by a copy elsewhere as a pipe
//! could; and not from `PR_SET_PDEATHSIG`, which would tell of the end of the thread that started it.

use super::{Descriptors, Never, program};
use crate::error::Step;
use crate::limit::Limit;
use crate::plan::Plan;
use crate::sys::{self, Forked};
use crate::wire::{Failure, Message, hear, in_step, tell};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Starts the program and stays with it.
pub(super) fn run(plan: &Plan, descriptors: &Descriptors<'_>) -> Result<Never, Failure> {
    let began_ns = sys::now_ns();
    let alone = plan.namespaces == 0;
    if alone {
        // Whoever loses its parent becomes a child of this process.
        sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).map_err(in_step(Step::Fork))?;
    }
    let signals = sys::signal_descriptor().map_err(in_step(Step::Fork))?;
    let program = if plan.listener { fork(plan, descriptors)? } else { spawn(plan, descriptors)? };
    close_streams(descriptors).map_err(in_step(Step::Streams))?;
    // Keys of the terminal are for the program.
    let _ = rustix::process::setpgid(None, None);
    let deadline_ns = plan.wall_ns.map(|most| began_ns.saturating_add(most));
    let cpu_s = plan.limits.iter().find(|(which, _)| *which == libc::RLIMIT_CPU).map(|(_, most)| *most);
    let mut init = Init {
        program,
        control: descriptors.control,
        supervisor: descriptors.supervisor,
        signals,
        deadline_ns,
        cpu_s,
        time: plan.cpu_ns.zip(descriptors.used).map(|(most_ns, (file, unit_ns))| Time {
            file,
            unit_ns,
            most_ns,
            processors: plan.processors,
            look_ns: began_ns,
        }),
        overflow: descriptors.overflow,
        killed: None,
        alone,
    };
    init.serve()
}

/// A process of its own, since somebody who answers decides when the program is executed, and this one has a clock to watch.
fn fork(plan: &Plan, descriptors: &Descriptors<'_>) -> Result<i32, Failure> {
    // SAFETY: the child only makes system calls until it executes the program.
    #[allow(unsafe_code)]
    let forked = unsafe { sys::fork(0, libc::SIGCHLD) }.map_err(in_step(Step::Fork))?;
    match forked {
        Forked::Child => super::or_tell(descriptors, || program::run(plan, descriptors)),
        Forked::Parent(pid, _) => Ok(pid),
    }
}

/// A process that has this one's memory until it executes the program, and waits for that: this one's is the caller's, which may be large.
fn spawn(plan: &Plan, descriptors: &Descriptors<'_>) -> Result<i32, Failure> {
    let start = || -> () { super::or_tell(descriptors, || program::run(plan, descriptors)) };
    // SAFETY: what runs there only makes system calls, writes to nothing but its own stack, and ends by executing or by `_exit`.
    #[allow(unsafe_code)]
    unsafe { sys::spawn(&start) }.map_err(in_step(Step::Fork))
}

/// The program's streams and the report are its own: whoever reads them sees their end when the program closes them.
fn close_streams(descriptors: &Descriptors<'_>) -> Result<(), Errno> {
    let [input, output, error] = descriptors.streams;
    for one in [descriptors.report, input, output, error] {
        let number = one.as_raw_fd().unsigned_abs();
        sys::close_range(number, number)?;
    }
    Ok(())
}

struct Init<'a> {
    program: i32,
    control: BorrowedFd<'a>,
    supervisor: BorrowedFd<'a>,
    signals: OwnedFd,
    deadline_ns: Option<u64>,
    cpu_s: Option<u64>,
    time: Option<Time<'a>>,
    overflow: Option<BorrowedFd<'a>>,
    /// The limit for which all were killed.
    killed: Option<Limit>,
    /// Without namespaces.
    alone: bool,
}

/// Processor time of all together, looked at when it could be used up.
struct Time<'a> {
    /// What the kernel has counted.
    file: BorrowedFd<'a>,
    unit_ns: u64,
    most_ns: u64,
    processors: u64,
    /// When it is looked at next.
    look_ns: u64,
}

/// Shortest time between two looks: what is used beyond the limit is at most so much of each processor.
const LOOK_NS: u64 = 5_000_000;

impl Time<'_> {
    /// Whether it is used up. What cannot be read is taken for that.
    fn is_over(&mut self, now_ns: u64) -> bool {
        if now_ns < self.look_ns {
            return false;
        }
        let mut text = [0; 64];
        let bytes = rustix::io::pread(self.file, &mut text, 0).unwrap_or(0);
        let Some(used) = first_number(&text[..bytes]) else { return true };
        let left_ns = self.most_ns.saturating_sub(used.saturating_mul(self.unit_ns));
        self.look_ns = now_ns.saturating_add((left_ns / self.processors).max(LOOK_NS));
        left_ns == 0
    }
}

/// `cpuacct.usage` is a number, and `cpu.stat` begins with the word and the number of what is used.
fn first_number(text: &[u8]) -> Option<u64> {
    let from = text.iter().position(u8::is_ascii_digit)?;
    let digits = text[from..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

/// Everybody in this namespace but the first process, which this is.
const EVERYBODY: i32 = -1;

impl Init<'_> {
    fn serve(&mut self) -> ! {
        loop {
            let mut events = [
                PollFd::from_borrowed_fd(self.supervisor, PollFlags::IN),
                PollFd::from_borrowed_fd(self.control, PollFlags::IN),
                PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
                // What there is not is said twice.
                PollFd::from_borrowed_fd(self.overflow.unwrap_or(self.supervisor), PollFlags::IN),
            ];
            let left = self.left();
            let _ = poll(&mut events, left.as_ref());
            let [supervisor, control, signals, overflow] =
                [0, 1, 2, 3].map(|at: usize| !events[at].revents().is_empty());
            if supervisor {
                self.leave(super::FAILED);
            }
            if overflow {
                self.overflow = None;
                self.kill_all(Limit::Memory);
            }
            if signals {
                self.signalled();
            }
            if control {
                self.asked();
            }
            self.watch_clock();
        }
    }

    fn left(&self) -> Option<Timespec> {
        let look_ns = self.time.as_ref().map(|time| time.look_ns);
        let next_ns = self.deadline_ns.into_iter().chain(look_ns).min().filter(|_| self.killed.is_none())?;
        let left_ns = next_ns.saturating_sub(sys::now_ns());
        let whole = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        Some(Timespec { tv_sec: whole(left_ns / 1_000_000_000), tv_nsec: whole(left_ns % 1_000_000_000) })
    }

    fn watch_clock(&mut self) {
        if self.killed.is_some() {
            return;
        }
        let now_ns = sys::now_ns();
        if self.deadline_ns.is_some_and(|deadline_ns| now_ns >= deadline_ns) {
            self.kill_all(Limit::Wall);
        } else if self.time.as_mut().is_some_and(|time| time.is_over(now_ns)) {
            self.kill_all(Limit::Cpu);
        }
    }

    fn kill_all(&mut self, limit: Limit) {
        self.killed = self.killed.or(Some(limit));
        // It ends what is stopped as well. If nobody is left, the program has ended, and that is told next.
        if self.alone {
            let _ = sys::kill(self.program, libc::SIGKILL);
        } else {
            let _ = sys::kill(EVERYBODY, libc::SIGKILL);
        }
    }

    fn signalled(&mut self) {
        while let Some(signal) = sys::next_signal(self.signals.as_fd()) {
            if signal == libc::SIGCHLD {
                self.reap();
            } else {
                // It may have ended.
                let _ = sys::kill(self.program, signal);
            }
        }
    }

    fn reap(&mut self) {
        while let Some((pid, status, cpu_us)) = sys::reap() {
            if pid == self.program {
                self.end(status, cpu_us);
            }
        }
    }

    fn end(&mut self, status: i32, cpu_us: u64) -> ! {
        let limit = Limit::of(status, cpu_us, self.cpu_s, self.killed);
        let _ = tell(self.control, Message::Ended { status, limit: Limit::number(limit) }, &[]);
        self.leave(0)
    }

    /// Ends, and with it all that is left.
    fn leave(&self, code: i32) -> ! {
        if self.alone {
            end_children();
        }
        sys::exit(code)
    }

    fn asked(&mut self) {
        let answer = match hear(self.control, RecvFlags::DONTWAIT) {
            Ok(Some((Message::Kill, _))) => self.leave(super::FAILED),
            Ok(Some((Message::Freeze(on), _))) if !self.alone => {
                let signal = if on { libc::SIGSTOP } else { libc::SIGCONT };
                sys::kill(EVERYBODY, signal)
            }
            Ok(Some((Message::Signal(signal), _))) => sys::kill(self.program, signal),
            Ok(Some(_)) => Err(Errno::INVAL),
            Err(Errno::AGAIN) => return,
            // Nobody is there who could ask anything or wait.
            Ok(None) | Err(_) => self.leave(super::FAILED),
        };
        let errno = answer.err().map_or(0, Errno::raw_os_error);
        let _ = tell(self.control, Message::Done(errno), &[]);
    }
}

/// Kills every child until none is left. Children of those become children of this process, and are next.
fn end_children() {
    // Numbers that do not fit are found in the next round.
    let mut text = [0; 4096];
    loop {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let read = open(c"/proc/thread-self/children", flags, Mode::empty());
        let read = read.and_then(|list| rustix::io::read(&list, &mut text)).unwrap_or(0);
        for number in text[..read].split(|byte| !byte.is_ascii_digit()).filter(|number| !number.is_empty()) {
            let pid =
                number.iter().fold(0_i32, |sum, digit| sum.wrapping_mul(10).wrapping_add(i32::from(digit - b'0')));
            // A number that was cut off may be somebody else's, so only children are killed.
            if sys::is_child(pid) {
                let _ = sys::kill(pid, libc::SIGKILL);
            }
        }
        if !sys::reap_one() {
            return;
        }
    }
}
