//! A command in a host, with a limit of time and what it cost.
//!
//! A thread of its own enters the host's namespace, asks for a new PID namespace and starts the command, which is the first process of that
//! namespace. So killing it ends everything it started, however that tried to get away; and since the kernel kills it when its thread ends,
//! nothing outlives this process, whatever ends it.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::UnshareFlags;

use crate::host::Host;
use crate::sys;

/// How a command ended, and what it cost.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// From its start to its end.
    pub elapsed: Duration,
    /// Whether it was killed because its time was over.
    pub timed_out: bool,
    /// Whether it was killed by [`Task::kill`].
    pub killed: bool,
    /// CPU seconds in user space, of it and of all that it started and waited for.
    pub user_s: f64,
    /// CPU seconds in the kernel, likewise. What the kernel does with arriving packets is the forwarder's and not in it.
    pub system_s: f64,
}

impl Ended {
    /// Whether it ended by itself and with success.
    pub fn success(&self) -> bool {
        self.status.success() && !self.timed_out && !self.killed
    }

    /// How it ended, in words.
    pub fn words(&self) -> String {
        match (self.timed_out, self.killed) {
            (true, _) => format!("not finished after {:.0} s", self.elapsed.as_secs_f64()),
            (false, true) => "stopped".to_owned(),
            (false, false) => self.status.to_string(),
        }
    }
}

/// A running command.
#[derive(Debug)]
pub struct Task {
    id: u32,
    kill: Killer,
    /// `None` once it was waited for.
    thread: Option<JoinHandle<io::Result<Ended>>>,
}

impl Host {
    /// Starts a command here, and kills it when `limit` is over.
    pub fn start(&self, mut command: Command, limit: Option<Duration>) -> io::Result<Task> {
        let host = self.share()?;
        let kill = eventfd(0, EventfdFlags::CLOEXEC)?;
        let killed = kill.try_clone()?;
        let (said, heard) = mpsc::sync_channel(1);
        let work = move || {
            let mut begin = || -> io::Result<_> {
                host.enter()?;
                sys::unshare(UnshareFlags::NEWPID)?;
                sys::end_with_parent(&mut command);
                let began = Instant::now();
                let child = command.spawn()?;
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
                Ok((pid, pidfd_open(pid, PidfdFlags::empty())?, began))
            };
            match begin() {
                Ok((pid, process, at)) => {
                    let _ = said.send(Ok(pid));
                    watch(pid, &process, &killed, at, limit)
                }
                Err(error) => {
                    let _ = said.send(Err(error));
                    Err(io::Error::other("it did not start"))
                }
            }
        };
        let thread = std::thread::Builder::new().name("wan-task".to_owned()).spawn(work)?;
        let pid: Pid = heard.recv().map_err(|_| io::Error::other("its thread ended"))??;
        Ok(Task { id: pid.as_raw_nonzero().get().unsigned_abs(), kill: Killer(kill), thread: Some(thread) })
    }
}

/// What kills a [`Task`] from another thread than the one that waits for it.
#[derive(Debug)]
pub struct Killer(OwnedFd);

impl Killer {
    /// Kills the command and everything it started, if it has not ended.
    pub fn kill(&self) {
        // An event counter takes a one unless it is full, and then it says what it should.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Task {
    /// Kills the command and everything it started.
    pub fn kill(&self) {
        self.kill.kill();
    }

    /// What does so from elsewhere.
    pub fn killer(&self) -> io::Result<Killer> {
        Ok(Killer(self.kill.0.try_clone()?))
    }

    /// The command's process, as everybody outside of its namespace knows it.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its end.
    pub fn wait(mut self) -> io::Result<Ended> {
        self.join()
    }

    fn join(&mut self) -> io::Result<Ended> {
        let Some(thread) = self.thread.take() else { return Err(io::Error::other("it was waited for")) };
        thread.join().map_err(|_| io::Error::other("the thread of a task panicked"))?
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.kill();
        let _ = self.join();
    }
}

fn watch(pid: Pid, process: &OwnedFd, kill: &OwnedFd, began: Instant, limit: Option<Duration>) -> io::Result<Ended> {
    let (mut timed_out, mut killed) = (false, false);
    loop {
        let ended = PollFd::new(process, PollFlags::IN);
        let asked = PollFd::new(kill, PollFlags::IN);
        let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
        let wait = left.and_then(|left| Timespec::try_from(left).ok());
        // Once it is killed, only its end counts.
        let mut events = [ended, asked];
        let watched = if killed || timed_out { &mut events[..1] } else { &mut events[..] };
        let wait = if killed || timed_out { None } else { wait.as_ref() };
        match poll(watched, wait) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !events[0].revents().is_empty() {
            break;
        }
        killed |= !events[1].revents().is_empty();
        timed_out |= !killed && left.is_some_and(|left| left.is_zero());
        if killed || timed_out {
            // It may have ended meanwhile.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
    let elapsed = began.elapsed();
    let sys::Usage { status, user_s, system_s } = sys::wait(pid)?;
    Ok(Ended { status, elapsed, timed_out, killed, user_s, system_s })
}
