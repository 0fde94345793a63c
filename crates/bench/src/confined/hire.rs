//! The side of a [worker](super::worker) that starts it, through whatever confines it, and hears what came of its work.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::child::{Complaints, GRACE, Running, say};
use super::worker::{Done, MARK, READY, Work};
use crate::frame::Stopped;
use crate::process;

/// How often a wait looks whether it is to be given up.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// For making files before and removing them after, however slow the disk: the report's are 1 GiB.
const AROUND_MAX: Duration = Duration::from_mins(15);
/// What has not begun until then will not.
const START_MAX: Duration = Duration::from_mins(2);

/// A worker that was started.
pub(super) struct Worker {
    running: Running,
    lines: Receiver<String>,
    complaints: Complaints,
    limit: Duration,
    /// What it calls itself.
    inner: u32,
}

impl Worker {
    /// Starts it, and waits until it waits to be told.
    pub(super) fn start(command: &[String], work: &Work, stop: &AtomicBool) -> Result<Self, Stopped> {
        let mut worker = Self::begin(command, work).map_err(|error| Stopped::Failed(format!("{error:#}")))?;
        let line = worker.line(stop, START_MAX)?;
        let own = line.strip_prefix(READY).and_then(|own| own.parse().ok());
        worker.inner = own.ok_or_else(|| Stopped::Failed(format!("it said {line:?} where it should be ready")))?;
        Ok(worker)
    }

    fn begin(command: &[String], work: &Work) -> anyhow::Result<Self> {
        let mut complaints = Complaints::new()?;
        let mut running = Running::start(command, Some(&work.root), [Stdio::piped(), Stdio::piped()], &mut complaints)?;
        let output = running.child().stdout.take().context("a worker has no output")?;
        let (told, lines) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix(MARK) {
                    // The one who listens may have given up.
                    let _ = told.send(line.to_owned());
                }
            }
        });
        // One that has ended says why when it is asked for work.
        let _ = say(&mut running, &serde_json::to_string(work)?);
        let limit = Duration::from_secs_f64(work.seconds).saturating_add(AROUND_MAX);
        Ok(Self { running, lines, complaints, limit, inner: 0 })
    }

    /// What those have in memory that are between this process and the worker.
    pub(super) fn memory_around(&self) -> u64 {
        process::rss_bytes_besides(self.running.pid(), self.inner)
    }

    /// Has it work once.
    pub(super) fn work(&mut self, stop: &AtomicBool) -> Result<Done, Stopped> {
        let _ = say(&mut self.running, "go");
        let line = self.line(stop, self.limit)?;
        let done: Done = serde_json::from_str(&line).map_err(|error| Stopped::Failed(error.to_string()))?;
        match &done.error {
            _ if stop.load(Ordering::Relaxed) => Err(Stopped::Interrupted),
            Some(error) => Err(Stopped::Failed(error.clone())),
            None => Ok(done),
        }
    }

    /// Waits for its end, now that there is no more to do.
    pub(super) fn finish(mut self) -> Result<(), Stopped> {
        self.running.child().stdin = None;
        let status = self.running.wait(&AtomicBool::new(false), self.limit)?;
        if status.success() { Ok(()) } else { Err(self.ended(&status.to_string())) }
    }

    fn ended(&mut self, how: &str) -> Stopped {
        Stopped::Failed(self.complaints.behind(&format!("it ended with {how}")))
    }

    fn line(&mut self, stop: &AtomicBool, limit: Duration) -> Result<String, Stopped> {
        let mut until = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(LOOK_EVERY) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.running.wait(stop, GRACE)?;
                    return Err(self.ended(&format!("{status} before its work was done")));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                    return Err(Stopped::Failed(format!("not finished after {} s", limit.as_secs())));
                }
                // It ends by itself when its input does, and says what it did until then.
                Err(RecvTimeoutError::Timeout)
                    if stop.load(Ordering::Relaxed) && self.running.child().stdin.is_some() =>
                {
                    self.running.child().stdin = None;
                    until = Instant::now() + GRACE;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
