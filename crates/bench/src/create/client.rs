//! A client: a process of its own, which writes one tree with several streams.
//!
//! It is this program again. It reads its [`Work`] as a line of JSON, says `ready`, begins when a second line comes, and writes what came of
//! it ([`Done`]) as its last. When whoever started it is gone, so is its standard input, and it ends.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::tree::{Content, Shape};
use crate::course::{Timeline, Told};
use crate::stats::Latencies;

/// How often a client that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Failures told word for word.
const ERRORS_MAX: usize = 5;
/// Between two attempts at a file.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// What a client is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Work {
    /// The folder for the tree, which is there.
    pub(super) root: PathBuf,
    pub(super) shape: Shape,
    pub(super) seed: u64,
    /// See [`Content::new`].
    pub(super) tree: u64,
    pub(super) streams: u32,
    /// Hash what is written, as report 003's first writer did.
    pub(super) checksum: bool,
    /// Sync each file.
    pub(super) fsync: bool,
    /// A file that fails is tried again for so long.
    pub(super) retry_ms: u64,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Files that could not be made.
    pub(super) failed: u64,
    /// Attempts beyond the first.
    pub(super) retried: u64,
    pub(super) course: Told,
    /// Latencies in microseconds, and how often each.
    pub(super) latencies: Vec<(u64, u64)>,
    /// From the start to the end of the last file.
    pub(super) took_us: u64,
    /// The first failures that differ.
    pub(super) errors: Vec<String>,
}

/// What came of one stream, before it is told.
struct Stream {
    done: Done,
    course: Timeline,
    latencies: Latencies,
}

impl Stream {
    fn new() -> Self {
        Self { done: Done::default(), course: Timeline::new(), latencies: Latencies::new() }
    }

    fn add(&mut self, other: &Self) {
        let (sum, more) = (&mut self.done, &other.done);
        sum.files += more.files;
        sum.bytes += more.bytes;
        sum.failed += more.failed;
        sum.retried += more.retried;
        sum.took_us = sum.took_us.max(more.took_us);
        for error in &more.errors {
            sum.note(error.clone());
        }
        self.course.add(&other.course);
        self.latencies.add(&other.latencies);
    }
}

impl Done {
    fn note(&mut self, error: String) {
        if self.errors.len() < ERRORS_MAX && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }
}

/// The client itself: what the hidden option of the command runs.
pub(super) fn serve() -> anyhow::Result<()> {
    let mut lines = BufReader::new(std::io::stdin()).lines();
    let work: Work = serde_json::from_str(&lines.next().context("nothing to do")??)?;
    println!("ready");
    lines.next().context("never begun")??;
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    thread::spawn(move || {
        // Ends with whoever started this.
        while matches!(lines.next(), Some(Ok(_))) {}
        raised.store(true, Ordering::Relaxed);
    });
    println!("{}", serde_json::to_string(&write_tree(&work, &stop))?);
    Ok(())
}

/// Writes a tree with all its streams.
pub(super) fn write_tree(work: &Work, stop: &AtomicBool) -> Done {
    let (next, began) = (AtomicU64::new(0), Instant::now());
    let streams: Vec<_> = thread::scope(|scope| {
        let started: Vec<_> = (0..work.streams).map(|_| scope.spawn(|| stream(work, &next, began, stop))).collect();
        started.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut all = Stream::new();
    for stream in streams {
        if let Ok(stream) = stream {
            all.add(&stream);
        } else {
            all.done.failed += 1;
            all.done.note("a stream ended by itself".to_owned());
        }
    }
    Done { course: all.course.tell(), latencies: all.latencies.pairs(), ..all.done }
}

/// Writes folder after folder until none is left.
fn stream(work: &Work, next: &AtomicU64, began: Instant, stop: &AtomicBool) -> Stream {
    let mut all = Stream::new();
    let mut content = Content::new(work.seed, work.tree);
    let files = u64::from(work.shape.files);
    loop {
        let folder = next.fetch_add(1, Ordering::Relaxed);
        if folder >= work.shape.folders() {
            return all;
        }
        let path = work.shape.folder(&work.root, folder);
        if let Err(error) = patiently(work, stop, &mut all.done.retried, || std::fs::create_dir_all(&path)) {
            all.done.note(format!("{}: {error}", path.display()));
        }
        for file in folder * files..(folder + 1) * files {
            if stop.load(Ordering::Relaxed) {
                return all;
            }
            let path = work.shape.file(&work.root, file);
            let start = Instant::now();
            let retried = &mut all.done.retried;
            let written = patiently(work, stop, retried, || write_file(work, &path, file, &mut content));
            let now = began.elapsed();
            all.done.took_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
            match written {
                Ok(bytes) => {
                    all.course.good(now, start.elapsed());
                    all.latencies.record(start.elapsed());
                    all.done.files += 1;
                    all.done.bytes += bytes;
                }
                Err(error) => {
                    all.course.failed(now);
                    all.done.failed += 1;
                    all.done.note(format!("{}: {error}", path.display()));
                }
            }
        }
    }
}

/// Does something until it goes well or its time has passed.
fn patiently<T>(
    work: &Work,
    stop: &AtomicBool,
    retried: &mut u64,
    mut attempt: impl FnMut() -> std::io::Result<T>,
) -> std::io::Result<T> {
    let until = Instant::now() + Duration::from_millis(work.retry_ms);
    loop {
        let done = attempt();
        if done.is_ok() || Instant::now() >= until || stop.load(Ordering::Relaxed) {
            return done;
        }
        *retried += 1;
        thread::sleep(RETRY_EVERY);
    }
}

/// Makes a file; one that an attempt before left is made anew. Where errors of writing are told is closing, so that is looked at.
fn write_file(work: &Work, path: &Path, number: u64, content: &mut Content) -> std::io::Result<u64> {
    let size = content.size(work.shape.sizes, number);
    let mut options = OpenOptions::new();
    options.write(true);
    let mut file = match options.create_new(true).open(path) {
        Err(error) if work.retry_ms > 0 && error.kind() == std::io::ErrorKind::AlreadyExists => {
            options.create_new(false).truncate(true).open(path)?
        }
        opened => opened?,
    };
    let mut hasher = work.checksum.then(blake3::Hasher::new);
    let (mut left, mut piece) = (size, 0);
    while left > 0 {
        let bytes = content.piece(number, piece, left);
        if let Some(hasher) = &mut hasher {
            hasher.update(bytes);
        }
        file.write_all(bytes)?;
        left -= bytes.len() as u64;
        piece += 1;
    }
    if work.fsync {
        file.sync_all()?;
    }
    if let Some(hasher) = hasher {
        std::hint::black_box(hasher.finalize());
    }
    nix::unistd::close(file)?;
    Ok(size)
}

/// A client that was started.
pub(super) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<std::io::Result<String>>,
}

impl Client {
    /// Starts a client, which then waits to [begin](Self::begin).
    pub(super) fn start(command: &[String], work: &Work) -> anyhow::Result<Self> {
        let [program, arguments @ ..] = command else { bail!("no command for clients") };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let output = child.stdout.take().context("a client has no output")?;
        let (told, lines) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                // The one who listens may have given up.
                let _ = told.send(line);
            }
        });
        let mut client = Self { input: child.stdin.take(), child, lines };
        client.say(&serde_json::to_string(work)?)?;
        let said = client.line(&AtomicBool::new(false))?;
        if said != "ready" {
            bail!("a client said {said:?} where it should be ready");
        }
        Ok(client)
    }

    /// Has it begin.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        self.say("go")
    }

    /// Waits for its end. When `stop` is raised it is told to end; what it did until then counts.
    pub(super) fn finish(mut self, stop: &AtomicBool) -> anyhow::Result<Done> {
        let line = self.line(stop);
        self.input = None;
        self.child.wait()?;
        serde_json::from_str(&line?).context("a client said something else than what it did")
    }

    fn line(&mut self, stop: &AtomicBool) -> anyhow::Result<String> {
        loop {
            match self.lines.recv_timeout(LOOK_EVERY) {
                Ok(line) => return Ok(line?),
                Err(RecvTimeoutError::Disconnected) => bail!("a client ended without a word"),
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => self.input = None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("a client was told to end")?;
        writeln!(input, "{line}").context("a client does not listen")
    }
}
