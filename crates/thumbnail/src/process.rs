//! One worker, seen from the server.

use crate::wire::{Head, NONE, PICTURE, READY};
use crate::{FEED_TIME_MAX, PICTURE_BYTES_MAX, PICTURES_MAX, START_TIME_MAX, TIME_MAX, WORKER_COMMAND};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use holdfast_base::{Error, ErrorKind, Result, Uid};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// What became of a picture.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was drawn, or cannot be; the worker goes on.
    Answered(Option<Bytes>),
    /// The worker died of it, took too long, or answered nonsense.
    Broke,
    /// Somebody ended the worker: the picture is not to blame.
    Ended,
}

/// A running worker. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// Whose pictures it has seen.
    pub(crate) space: Uid,
    pictures: u32,
    pub(crate) idle_since: Instant,
}

impl Worker {
    /// Starts one and waits until it has given everything up; none if somebody ended it before.
    pub(crate) async fn start(program: &Path, space: Uid) -> Result<Option<Self>> {
        let cannot = |error: &dyn std::fmt::Display| Error::unavailable(format!("no thumbnail worker: {error}"));
        let mut command = Command::new(program);
        // So that lists of processes say what it is.
        command.arg0("holdfast").arg(WORKER_COMMAND).env_clear().current_dir("/").process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| cannot(&error))?;
        let (Some(input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::internal("a thumbnail worker has no pipes"));
        };
        match timeout(START_TIME_MAX, output.read_u8()).await {
            Ok(Ok(READY)) => {}
            Ok(Err(_)) if matches!(ending(&mut child).await, Outcome::Ended) => return Ok(None),
            Ok(_) => return Err(cannot(&"it could not confine itself; `holdfast thumbnail-worker --prove` says more")),
            Err(_) => return Err(cannot(&"it did not start in time")),
        }
        metrics::counter!("holdfast_thumbnail_workers_started_total").increment(1);
        Ok(Some(Self { child, input, output, space, pictures: 0, idle_since: Instant::now() }))
    }

    /// Whether it may have another picture of this space.
    pub(crate) fn may_go_on(&self) -> bool {
        self.pictures < PICTURES_MAX
    }

    /// Has a file drawn. An error is one of reading the file. After anything but an answer the worker must not be used again.
    pub(crate) async fn draw<S>(&mut self, head: Head, source: S) -> Result<Outcome>
    where
        S: Stream<Item = Result<Bytes>> + Unpin,
    {
        self.pictures += 1;
        let late = || Error::new(ErrorKind::Unavailable, "the file could not be read in time for a thumbnail");
        if !timeout(FEED_TIME_MAX, self.feed(head, source)).await.map_err(|_| late())?? {
            return Ok(ending(&mut self.child).await);
        }
        let Ok(answer) = timeout(TIME_MAX, self.answer()).await else {
            tracing::info!("a picture took too long for a thumbnail; its worker is ended");
            return Ok(Outcome::Broke);
        };
        match answer {
            Ok(Some(answer)) => Ok(Outcome::Answered(answer)),
            Ok(None) => Ok(Outcome::Broke),
            Err(_) => Ok(ending(&mut self.child).await),
        }
    }

    /// Sends the file; false if the worker takes no more.
    async fn feed<S>(&mut self, head: Head, mut source: S) -> Result<bool>
    where
        S: Stream<Item = Result<Bytes>> + Unpin,
    {
        if self.input.write_all(&head.bytes()).await.is_err() {
            return Ok(false);
        }
        let mut left = head.length;
        while let Some(piece) = source.next().await {
            let piece = piece?;
            left =
                left.checked_sub(piece.len() as u64).ok_or_else(|| Error::internal("a file has more than its size"))?;
            if self.input.write_all(&piece).await.is_err() {
                return Ok(false);
            }
        }
        if left > 0 {
            return Err(Error::internal("a file has less than its size"));
        }
        Ok(true)
    }

    /// What it says; none if that is nonsense.
    async fn answer(&mut self) -> std::io::Result<Option<Option<Bytes>>> {
        match self.output.read_u8().await? {
            NONE => Ok(Some(None)),
            PICTURE => {
                let length = self.output.read_u32_le().await? as usize;
                if length > PICTURE_BYTES_MAX {
                    return Ok(None);
                }
                let mut picture = vec![0; length];
                self.output.read_exact(&mut picture).await?;
                Ok(Some(Some(picture.into())))
            }
            _ => Ok(None),
        }
    }
}

/// Why a worker closed its pipe. Its own limits and mistakes end it by other signals than the one that people and the kernel's last resort send.
async fn ending(child: &mut Child) -> Outcome {
    const SIGKILL: i32 = 9;
    const MOMENT: Duration = Duration::from_secs(1);
    match timeout(MOMENT, child.wait()).await {
        Ok(Ok(status)) if status.signal() == Some(SIGKILL) => Outcome::Ended,
        ended => {
            tracing::info!(?ended, "a thumbnail worker has ended");
            Outcome::Broke
        }
    }
}
