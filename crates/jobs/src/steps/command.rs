//! Running a program: with little in its environment, in a group of its own, for a limited time, with a limited output.

use holdfast_base::{Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// What is kept of what a program says: the end is what is told when it fails.
const OUTPUT_KEPT: usize = 4 << 10;
/// What a program finds in its environment besides what it is told of the run.
const ENVIRONMENT: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "USER"];

/// This program, also when its file was replaced meanwhile.
const OWN: &str = "/proc/self/exe";

/// Runs a program with `input` on standard input, under a policy if there is one; fails if it does.
pub(super) async fn run(
    (words, policy): (&[String], Option<&Path>),
    folder: &Path,
    environment: &[(&str, String)],
    input: Vec<u8>,
    limit: Duration,
) -> Result<()> {
    let [program, arguments @ ..] = words else {
        return Err(Error::invalid("a command is a program and its arguments"));
    };
    let mut command = match policy {
        None => Command::new(program),
        // Killed, that ends all that it started.
        Some(policy) => {
            let mut command = Command::new(OWN);
            command.args(["run", "--policy"]).arg(policy).arg("--").arg(program);
            command
        }
    };
    command.args(arguments).current_dir(folder).env_clear();
    command.envs(ENVIRONMENT.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
    command.envs(environment.iter().map(|(name, value)| (*name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| Error::from(error).context(program))?;
    // The group has all that it starts, too.
    let _group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).map(Group);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let work = async {
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A program need not read what it is told.
                let _ = stdin.write_all(&input).await;
            }
        };
        let ended = async {
            let (out, err, ()) = tokio::join!(end_of(stdout), end_of(stderr), feed);
            (out, err)
        };
        // What it started may hold its output open for ever.
        let (status, said) = tokio::join!(child.wait(), ended);
        (status, said)
    };
    let Ok((status, (out, err))) = tokio::time::timeout(limit, work).await else {
        return Err(Error::new(ErrorKind::Timeout, format!("{program} took longer than {} s", limit.as_secs_f32())));
    };
    let status = status.map_err(|error| Error::from(error).context(program))?;
    if status.success() {
        return Ok(());
    }
    let said = if err.trim().is_empty() { out } else { err };
    Err(Error::new(ErrorKind::Unavailable, format!("{program} ended with {status}: {}", said.trim())))
}

/// Ends a group of processes when the step is over, however it ended.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

/// The end of what comes from a pipe.
async fn end_of(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let (mut kept, mut piece) = (Vec::new(), vec![0; 16 << 10]);
    let Some(mut pipe) = pipe else { return String::new() };
    while let Ok(count @ 1..) = pipe.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        if kept.len() > OUTPUT_KEPT {
            kept.drain(..kept.len() - OUTPUT_KEPT);
        }
    }
    String::from_utf8_lossy(&kept).chars().filter(|c| !c.is_control() || *c == '\n').collect()
}
