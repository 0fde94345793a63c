//! Processes that are measured: started in a group of their own, so that Ctrl-C is for this program alone and their end is in its hands.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::frame::Stopped;

/// How often a wait looks whether it is to be given up. Ends are seen at once.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// For a process that was told to end, before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// Of what a process said last, when it failed.
const SAID_MAX_BYTES: u64 = 600;

/// Where a process complains: a file without a name, so that nobody has to read along.
pub(super) struct Complaints(File);

impl Complaints {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(tempfile::tempfile().context("no temporary file for what processes say")?))
    }

    fn handle(&mut self) -> anyhow::Result<Stdio> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        Ok(self.0.try_clone()?.into())
    }

    /// The end of what was said, on one line.
    pub(super) fn last(&mut self) -> String {
        let mut bytes = Vec::new();
        let length = self.0.metadata().map_or(0, |metadata| metadata.len());
        let from = self.0.seek(SeekFrom::Start(length.saturating_sub(SAID_MAX_BYTES)));
        if from.is_err() || self.0.read_to_end(&mut bytes).is_err() {
            return String::new();
        }
        String::from_utf8_lossy(&bytes)
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Puts what was said behind a failure.
    pub(super) fn behind(&mut self, failure: &str) -> String {
        let said = self.last();
        if said.is_empty() { failure.to_owned() } else { format!("{failure}: {said}") }
    }
}

/// A process and its group.
pub(super) struct Running {
    child: Child,
    handle: OwnedFd,
}

impl Running {
    /// Starts it. What it says goes to `stdout`, what it complains of to `complaints`.
    pub(super) fn start(
        words: &[String],
        folder: Option<&Path>,
        [stdin, stdout]: [Stdio; 2],
        complaints: &mut Complaints,
    ) -> anyhow::Result<Self> {
        let [program, arguments @ ..] = words else { bail!("there is no command") };
        let mut command = Command::new(program);
        command.args(arguments).stdin(stdin).stdout(stdout).stderr(complaints.handle()?).process_group(0);
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        let mut child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(handle) => Ok(Self { child, handle }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error).context("no handle of a process")
            }
        }
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended after this time.
    fn ended_within(&self, time: Duration) -> bool {
        let timeout = Timespec::try_from(time).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut fds = [PollFd::from_borrowed_fd(self.handle.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }

    /// Waits for its end. When `stop` is raised or the limit is over it is told to end, and killed if it does not.
    pub(super) fn wait(&mut self, stop: &AtomicBool, limit: Duration) -> Result<ExitStatus, Stopped> {
        let until = Instant::now() + limit;
        loop {
            if self.ended_within(LOOK_EVERY) {
                return self.child.wait().map_err(|error| Stopped::Failed(error.to_string()));
            }
            if stop.load(Ordering::Relaxed) {
                self.end();
                return Err(Stopped::Interrupted);
            }
            if Instant::now() >= until {
                self.end();
                return Err(Stopped::Failed(format!("not finished after {} s", limit.as_secs())));
            }
        }
    }

    fn signal(&self, signal: Signal) {
        // It may have ended this moment.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    /// Ends it and its group, with patience.
    fn end(&mut self) {
        self.signal(Signal::TERM);
        if !self.ended_within(GRACE) {
            self.signal(Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// Runs a command to its end and tells how long that took.
pub(super) fn time(
    words: &[String],
    folder: Option<&Path>,
    stop: &AtomicBool,
    limit: Duration,
    complaints: &mut Complaints,
) -> Result<Duration, Stopped> {
    let failed = |error: anyhow::Error| Stopped::Failed(format!("{error:#}"));
    let began = Instant::now();
    let mut running = Running::start(words, folder, [Stdio::null(), Stdio::null()], complaints).map_err(failed)?;
    let status = running.wait(stop, limit)?;
    let took = began.elapsed();
    if stop.load(Ordering::Relaxed) {
        return Err(Stopped::Interrupted);
    }
    if !status.success() {
        return Err(Stopped::Failed(complaints.behind(&format!("it ended with {status}"))));
    }
    Ok(took)
}

/// A line to a process that listens.
pub(super) fn say(running: &mut Running, line: &str) -> std::io::Result<()> {
    let input = running.child().stdin.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
    writeln!(input, "{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(ToOwned::to_owned).to_vec()
    }

    fn timed(words: &[String], stop: bool, limit: Duration) -> Result<Duration, String> {
        let mut complaints = Complaints::new().expect("a file");
        time(words, None, &AtomicBool::new(stop), limit, &mut complaints).map_err(|stopped| match stopped {
            Stopped::Interrupted => "interrupted".to_owned(),
            Stopped::Failed(why) => why,
        })
    }

    #[test]
    fn a_command_that_fails_is_told_with_what_it_said() {
        let hour = Duration::from_hours(1);
        assert!(timed(&sh("exit 0"), false, hour).is_ok());
        let failed = timed(&sh("echo one >&2; echo two >&2; exit 3"), false, hour).expect_err("it fails");
        assert_eq!(failed, "it ended with exit status: 3: one; two");
        let missing = timed(&["/nowhere/at/all".to_owned()], false, hour).expect_err("it is not there");
        assert!(missing.contains("cannot start /nowhere/at/all"), "{missing}");
        assert!(timed(&[], false, hour).is_err());
    }

    #[test]
    fn a_command_that_goes_on_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let pid = folder.path().join("pid");
        let endless = sh(&format!("sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000' & wait", pid.display()));
        let mut running =
            Running::start(&endless, None, [Stdio::null(), Stdio::null()], &mut Complaints::new().expect("a file"))
                .expect("it starts");
        while !pid.exists() {
            std::thread::yield_now();
        }
        let below: i32 = std::fs::read_to_string(&pid).expect("is there").trim().parse().expect("a number");
        let handle = pidfd_open(Pid::from_raw(below).expect("a process"), PidfdFlags::empty()).expect("it lives");
        assert!(matches!(running.wait(&AtomicBool::new(true), Duration::MAX / 4), Err(Stopped::Interrupted)));
        // Readable once it has ended.
        let mut fds = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
        assert!(poll(&mut fds, Some(&Timespec { tv_sec: 30, tv_nsec: 0 })).is_ok_and(|ready| ready == 1));
        let late = timed(&sh("exec sleep 1000"), false, Duration::ZERO).expect_err("no time at all");
        assert_eq!(late, "not finished after 0 s");
    }
}
