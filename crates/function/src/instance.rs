//! A program that was started under its policy, and has pipes for its standard streams.

use crate::call::read_now;
use crate::code::FOLDER;
use crate::store::Function;
use holdfast_base::{Error, Result};
use holdfast_confine::{Command, Confined, Outcome, Watch};
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::{Receiver, Sender};

/// Longest that the end of a sandbox that was killed is waited for by a call. A process that a file system holds (a network drive that does not answer) ends when that lets it.
const END_TIME: Duration = Duration::from_secs(5);

/// Most of a log that a warning repeats.
const WORDS_BYTES: usize = 500;

/// An instance of a function. Dropping it kills everything in it.
pub(crate) struct Instance {
    process: AsyncFd<Process>,
    /// The program's standard input.
    pub(crate) input: Option<Sender>,
    /// Its standard output.
    pub(crate) output: Receiver,
    /// Its standard error.
    pub(crate) log: Receiver,
    /// When it was started.
    pub(crate) since: Instant,
}

struct Process(Confined);

impl AsRawFd for Process {
    fn as_raw_fd(&self) -> RawFd {
        self.0.process().as_raw_fd()
    }
}

/// Its end, as something that a runtime can wait for.
#[allow(unsafe_code)]
fn watched(confined: Confined) -> std::io::Result<AsyncFd<Process>> {
    // SAFETY: the descriptor is the sandbox's own for as long as `Confined` lives, is the same at each call, and is closed only with it, after `AsyncFd`, which owns it, has let go.
    Ok(unsafe { AsyncFd::register_with_interest(Process(confined), Interest::READABLE) }?)
}

/// The program's ends go to the sandbox, ours wait for nothing.
fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| Error::from(std::io::Error::from(error)).context("a pipe"))
}

impl Instance {
    /// Starts one. Within a runtime.
    pub(crate) async fn start(function: Arc<Function>) -> Result<Self> {
        // Forking, and waiting until the program is executed, keeps the thread.
        let started = tokio::task::spawn_blocking(move || Self::start_here(&function)).await;
        started.map_err(|error| Error::internal(error.to_string()))?
    }

    fn start_here(function: &Function) -> Result<Self> {
        let (their_input, input) = pipe()?;
        let (output, their_output) = pipe()?;
        let (log, their_log) = pipe()?;
        let command = Command {
            words: function.manifest.command.iter().map(Into::into).collect(),
            folder: FOLDER.into(),
            streams: Some([their_input, their_output, their_log]),
            code: Some((FOLDER.into(), function.code.clone())),
            ..Command::default()
        };
        let confined = Confined::start(Arc::clone(&function.policy), &command, Watch::default())?;
        Ok(Self {
            process: watched(confined)?,
            input: Some(Sender::from_owned_fd(input)?),
            output: Receiver::from_owned_fd(output)?,
            log: Receiver::from_owned_fd(log)?,
            since: Instant::now(),
        })
    }

    /// Comes when all of it has ended.
    pub(crate) async fn ended(&self) {
        loop {
            match self.process.readable().await {
                // Its end stays.
                Ok(_) if self.has_ended() => return,
                Ok(mut guard) => guard.clear_ready(),
                Err(_) => std::future::pending().await,
            }
        }
    }

    /// The same, for who looks at several.
    pub(crate) fn poll_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.process.poll_read_ready(context) {
                Poll::Ready(Ok(_)) if self.has_ended() => return Poll::Ready(()),
                Poll::Ready(Ok(mut guard)) => guard.clear_ready(),
                Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// How it ended, and the beginning of what it wrote to its log; none if it has not ended.
    pub(crate) fn last_words(&self) -> Option<String> {
        let outcome = self.outcome().transpose()?;
        let mut log = [0; WORDS_BYTES];
        let bytes = read_now(&self.log, &mut log).unwrap_or(0);
        let log = String::from_utf8_lossy(&log[..bytes]);
        let end = outcome.map_or_else(|error| error.to_string(), |outcome| outcome.status.to_string());
        Some(format!("{end} {}", log.trim()).trim_end().to_owned())
    }

    /// Whether all of it has.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.process.get_ref().0.try_wait(), Ok(None))
    }

    /// How it ended, if it has.
    pub(crate) fn outcome(&self) -> Result<Option<Outcome>> {
        self.process.get_ref().0.try_wait()
    }

    /// Its first process.
    pub(crate) fn pid(&self) -> i32 {
        self.process.get_ref().0.pid()
    }

    /// Kills all of it and waits until it is gone. False if that takes too long: then it is waited for elsewhere, with `held`.
    pub(crate) async fn end(self, held: impl Send + 'static) -> bool {
        self.process.get_ref().0.kill();
        if tokio::time::timeout(END_TIME, self.ended()).await.is_ok() {
            return true;
        }
        tracing::error!(
            pid = self.pid(),
            "a function's process was killed and does not end: a file system may hold it"
        );
        tokio::task::spawn_blocking(move || drop((self, held)));
        false
    }
}
