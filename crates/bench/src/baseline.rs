//! What plain commands do with the same data: the real programs, started as a person would.
//!
//! Each command is repeated with the runs of the file it reads, until its time on that file exceeds a budget (`gzip`
//! of 1 GiB takes half a minute). A program that is not installed is named and left out.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::data::{DataFile, Kind};
use crate::stats::Summary;

/// No baseline command on 1 GiB takes longer on any machine worth measuring; then it is ended.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(10);
/// How often a running command is looked at. Short against its time, long against the cost of a look.
const POLL: Duration = Duration::from_millis(1);
/// A key and counter for `openssl enc`: the value does not change the speed.
const KEY_HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const IV_HEX: &str = "000102030405060708090a0b0c0d0e0f";

/// The figures of one command on one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselineRow {
    /// Short name: `cp`, `gzip`, `zstd`, `zstd-openssl`.
    pub id: String,
    /// The command as one would type it.
    pub command: String,
    /// Kind of the file.
    pub kind: Kind,
    /// Size of the file.
    pub bytes: u64,
    /// Seconds of each run.
    pub seconds: Vec<f64>,
    /// MB/s (10^6 bytes of input per second).
    pub rate: Option<Summary>,
    /// Size of what it wrote, where that went to a file.
    pub output_bytes: Option<u64>,
    /// Why there is no figure.
    pub missing: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Copy,
    Gzip,
    Zstd,
    ZstdOpenssl,
}

impl Tool {
    const ALL: [Self; 4] = [Self::Copy, Self::Gzip, Self::Zstd, Self::ZstdOpenssl];

    fn id(self) -> &'static str {
        match self {
            Self::Copy => "cp",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::ZstdOpenssl => "zstd-openssl",
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Copy => "cp DATA COPY, then fsync of COPY",
            Self::Gzip => "gzip -c <DATA >/dev/null",
            Self::Zstd => "zstd -q -1 -T1 -c <DATA >/dev/null",
            Self::ZstdOpenssl => "zstd -q -1 -T1 -c <DATA | openssl enc -aes-256-ctr -K … -iv … >FILE",
        }
    }
}

/// All baseline commands on one file.
pub(crate) struct Set {
    output: PathBuf,
    budget: Duration,
    rows: Vec<Progress>,
}

/// What one command gave so far.
struct Progress {
    tool: Tool,
    seconds: Vec<f64>,
    output_bytes: Option<u64>,
    missing: Option<String>,
}

impl Set {
    /// Output files go into `folder`.
    pub(crate) fn new(folder: &Path, budget: Duration) -> Self {
        let begin = |tool| Progress { tool, seconds: Vec::new(), output_bytes: None, missing: None };
        let rows = Tool::ALL.into_iter().map(begin).collect();
        Self { output: folder.join("baseline-output"), budget, rows }
    }

    /// One run of each command that still has time; `prepare` is called before each.
    pub(crate) fn run(&mut self, data: &DataFile, stop: &AtomicBool, prepare: impl Fn()) {
        for Progress { tool, seconds, output_bytes, missing } in &mut self.rows {
            let used: f64 = seconds.iter().sum();
            let spent = !seconds.is_empty() && used >= self.budget.as_secs_f64();
            if spent || missing.is_some() || stop.load(Ordering::Relaxed) {
                continue;
            }
            prepare();
            match run_tool(*tool, data, &self.output, stop) {
                Ok(elapsed) => {
                    seconds.push(elapsed.as_secs_f64());
                    *output_bytes = std::fs::metadata(&self.output).ok().map(|metadata| metadata.len());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => *missing = Some(error.to_string()),
            }
            let _ = std::fs::remove_file(&self.output);
        }
    }

    pub(crate) fn finish(self, data: &DataFile) -> Vec<BaselineRow> {
        let rows = self.rows.into_iter().filter(|row| !row.seconds.is_empty() || row.missing.is_some());
        rows.map(|Progress { tool, seconds, output_bytes, missing }| {
            let rates: Vec<f64> = seconds.iter().map(|seconds| data.bytes as f64 / 1e6 / seconds).collect();
            BaselineRow {
                id: tool.id().to_owned(),
                command: tool.command().to_owned(),
                kind: data.kind,
                bytes: data.bytes,
                rate: Summary::of(&rates),
                seconds,
                output_bytes,
                missing,
            }
        })
        .collect()
    }
}

fn run_tool(tool: Tool, data: &DataFile, output: &Path, stop: &AtomicBool) -> io::Result<Duration> {
    let input = || File::open(&data.path).map(Stdio::from);
    let begun = Instant::now();
    match tool {
        Tool::Copy => {
            let copy = spawn(Command::new("cp").arg(&data.path).arg(output).stdin(Stdio::null()))?;
            wait(vec![("cp", copy)], begun, stop)?;
            File::open(output)?.sync_all()?;
        }
        Tool::Gzip => {
            let gzip = spawn(Command::new("gzip").arg("-c").stdin(input()?).stdout(Stdio::null()))?;
            wait(vec![("gzip", gzip)], begun, stop)?;
        }
        Tool::Zstd => {
            let zstd =
                spawn(Command::new("zstd").args(["-q", "-1", "-T1", "-c"]).stdin(input()?).stdout(Stdio::null()))?;
            wait(vec![("zstd", zstd)], begun, stop)?;
        }
        Tool::ZstdOpenssl => {
            let mut zstd =
                spawn(Command::new("zstd").args(["-q", "-1", "-T1", "-c"]).stdin(input()?).stdout(Stdio::piped()))?;
            let pipe = zstd.stdout.take().map_or_else(Stdio::null, Stdio::from);
            let mut openssl = Command::new("openssl");
            openssl.args(["enc", "-aes-256-ctr", "-K", KEY_HEX, "-iv", IV_HEX]);
            let openssl = spawn(openssl.stdin(pipe).stdout(File::create(output)?));
            let openssl = match openssl {
                Ok(child) => child,
                Err(error) => {
                    end(&mut zstd);
                    return Err(error);
                }
            };
            wait(vec![("zstd", zstd), ("openssl", openssl)], begun, stop)?;
        }
    }
    Ok(begun.elapsed())
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stderr(Stdio::null()).spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(error.kind(), format!("{program} is not installed")),
        _ => error,
    })
}

/// Waits for all; ends all when one fails, time is up, or the user wants to stop.
fn wait(mut children: Vec<(&'static str, Child)>, begun: Instant, stop: &AtomicBool) -> io::Result<()> {
    let result = wait_for_all(&mut children, begun, stop);
    if result.is_err() {
        for (_, child) in &mut children {
            end(child);
        }
    }
    result
}

fn wait_for_all(children: &mut [(&'static str, Child)], begun: Instant, stop: &AtomicBool) -> io::Result<()> {
    for (program, child) in children {
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if stop.load(Ordering::Relaxed) {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
            }
            if begun.elapsed() > COMMAND_TIMEOUT {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{program} took longer than 10 minutes")));
            }
            std::thread::sleep(POLL);
        };
        if !status.success() {
            return Err(io::Error::other(format!("{program} failed: {status}")));
        }
    }
    Ok(())
}

fn end(child: &mut Child) {
    // It may have ended by itself; either way nothing is left to wait for.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::DataStore;

    #[test]
    fn commands_that_are_installed_give_a_rate_and_others_are_named() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let store = DataStore { folder: folder.path().to_owned(), seed: 1, sources: Vec::new() };
        let data = store.open(Kind::Txt, 1 << 20)?;
        let mut set = Set::new(folder.path(), Duration::from_mins(1));
        set.run(&data, &AtomicBool::new(false), || ());
        let rows = set.finish(&data);
        assert_eq!(rows.len(), Tool::ALL.len());
        for row in &rows {
            assert_eq!(row.rate.is_some(), row.missing.is_none(), "{row:?}");
        }
        let copy = rows.iter().find(|row| row.id == "cp").expect("cp is in the list");
        assert_eq!(copy.output_bytes, Some(1 << 20), "cp is installed everywhere");
        assert!(!folder.path().join("baseline-output").exists());
        Ok(())
    }

    #[test]
    fn an_interrupt_gives_no_figure_and_no_complaint() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let store = DataStore { folder: folder.path().to_owned(), seed: 1, sources: Vec::new() };
        let data = store.open(Kind::Bin, 4096)?;
        let mut set = Set::new(folder.path(), Duration::from_mins(1));
        set.run(&data, &AtomicBool::new(true), || ());
        assert_eq!(set.finish(&data), []);
        Ok(())
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = spawn(&mut Command::new("no-such-program-here")).expect_err("it does not exist");
        assert_eq!(error.to_string(), "no-such-program-here is not installed");
    }
}
