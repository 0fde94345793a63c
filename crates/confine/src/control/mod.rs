//! The socket on which a confined program's supervisor says what it runs and what it was refused, and is told to stop, go on, end it, or hold it to another policy.
//!
//! **Where.** `$XDG_RUNTIME_DIR/holdfast/run`, of root `/run/holdfast/run`: one socket a program, named by its supervisor's process. The folder is its owner's
//! alone; who asks is known by the kernel (`SO_PEERCRED`), and must be the account that runs it, or root. A socket that nobody listens on any more is removed by
//! whoever finds it.
//!
//! **What.** A connection is a question and its answer, a line of JSON each ([`Request`], [`Reply`]). One is answered after another: each takes a moment. Only whoever follows
//! the log gets one answer after another on a connection, by a thread of its own.

mod ask;
mod follow;
mod serve;

pub use ask::{Found, all, ask, find, follow, one};
pub use follow::FOLLOWERS_MAX;
pub use serve::{About, Control};

use crate::recent::Decided;
use crate::revoke::Revoked;
use holdfast_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Longest line: a policy of the largest size, whose characters may be escaped.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// Longest that either side waits for the other's line.
const LINE_TIME: Duration = Duration::from_secs(5);
/// Longest that another policy may take, with the end of those who have what it refuses.
const CHANGE_TIME: Duration = Duration::from_mins(1);

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// What it is; answered by [`Reply::Status`].
    Status,
    /// To stop every process of it.
    Freeze,
    /// To let them go on.
    Thaw,
    /// To kill all of it.
    Kill,
    /// To hold it to another policy.
    Policy {
        /// What mistakes call it.
        file: String,
        /// The folder that relative paths begin at.
        base: PathBuf,
        /// The policy, in its TOML form.
        text: String,
        /// Whether what is open and the policy refuses is to be taken back; answered by [`Reply::Revoked`].
        revoke: bool,
    },
    /// What was decided; answered by [`Reply::Log`].
    Log {
        /// Whether what is decided from now on is to follow, an answer at a time, to the end of the program.
        follow: bool,
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Reply {
    /// What it is.
    Status(Status),
    /// What was decided.
    Log(Log),
    /// Another policy holds, also for what was open.
    Revoked(Revoked),
    /// It was done.
    Done,
    /// It was not done.
    Refused {
        /// The error's kind, as HTTP has it.
        status: u16,
        /// Why.
        message: String,
    },
}

/// A confined program that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its number: its supervisor's process.
    pub id: u32,
    /// Its first process.
    pub pid: i32,
    /// The program and its arguments, as far as they are text.
    pub command: Vec<String>,
    /// Where its policy is from.
    pub policy: String,
    /// When it was started, in milliseconds since 1970.
    pub since_ms: i64,
    /// Whether it is stopped.
    pub frozen: bool,
}

/// Of which calls decisions are seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// Of all that the policy can refuse.
    Everywhere,
    /// Of those in these folders, before which gates stand. Elsewhere mounts hold the policy.
    In(Vec<PathBuf>),
    /// Of none: mounts hold the policy, and the kernel tells the program alone.
    Nowhere,
}

/// How often what happened since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Calls that were received.
    pub calls: u64,
    /// Questions to the policy that it allowed.
    pub allowed: u64,
    /// Questions to the policy that it refused.
    pub denied: u64,
    /// Calls that were refused because nobody serves them, or could find out what they are about.
    pub unserved: u64,
    /// Processes that were killed because they ran what nobody had allowed them to execute.
    pub killed: u64,
}

impl From<holdfast_broker::Counters> for Counts {
    fn from(counters: holdfast_broker::Counters) -> Self {
        let holdfast_broker::Counters { calls, allowed, denied, unserved, killed } = counters;
        Self { calls, allowed, denied, unserved, killed }
    }
}

/// What was decided about a confined program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// Of which calls it is.
    pub seen: Seen,
    /// How often what happened; none where no decision is seen.
    pub counters: Option<Counts>,
    /// The last decisions, in order: all that were refused, and with `--audit-all` those that were allowed.
    pub records: Vec<Decided>,
    /// How many there were before these that are not kept any more.
    pub missed: u64,
    /// Whether the program has ended, so that no more will follow.
    pub ended: bool,
}

impl Reply {
    pub(crate) fn of(result: Result<()>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) => Self::Refused { status: error.kind().status(), message: error.to_string() },
        }
    }

    /// A refusal as an error.
    ///
    /// # Errors
    /// The refusal.
    pub fn well(self) -> Result<Self> {
        const KINDS: [ErrorKind; 5] = [
            ErrorKind::NotFound,
            ErrorKind::Conflict,
            ErrorKind::InvalidInput,
            ErrorKind::Unsupported,
            ErrorKind::TooLarge,
        ];
        match self {
            Self::Refused { status, message } => {
                let kind = KINDS.into_iter().find(|kind| kind.status() == status);
                Err(Error::new(kind.unwrap_or(ErrorKind::Unavailable), message))
            }
            reply => Ok(reply),
        }
    }
}

/// Where the sockets of this account's programs are.
fn folder() -> Result<PathBuf> {
    let who = rustix::process::geteuid();
    if who.is_root() {
        return Ok(PathBuf::from("/run/holdfast/run"));
    }
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let usual = PathBuf::from(format!("/run/user/{}", who.as_raw()));
    let runtime = named.or_else(|| usual.is_dir().then_some(usual));
    let missing = || Error::not_found("XDG_RUNTIME_DIR is not set: it names the folder of sockets");
    Ok(runtime.ok_or_else(missing)?.join("holdfast/run"))
}

/// Makes it, for this account alone.
fn make_folder() -> Result<PathBuf> {
    let folder = folder()?;
    let at = |error: std::io::Error| Error::from(error).context(folder.display());
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(at)?;
    let found = fs::symlink_metadata(&folder).map_err(at)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(Error::forbidden(format!("{} is not this account's folder", folder.display())));
    }
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).map_err(at)?;
    Ok(folder)
}

/// Reads the one line of JSON that is to come.
fn read<T: for<'a> Deserialize<'a>>(stream: &UnixStream) -> Result<T> {
    next(&mut BufReader::new(stream))
}

/// Reads a line of JSON.
fn next<T: for<'a> Deserialize<'a>>(lines: &mut BufReader<&UnixStream>) -> Result<T> {
    let bad = |why: &str| Error::invalid(format!("what came on the socket cannot be read: {why}"));
    let mut line = Vec::new();
    lines.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(bad(if line.len() as u64 == LINE_BYTES_MAX { "it is too long" } else { "it broke off" }));
    }
    serde_json::from_slice(&line).map_err(|error| bad(&error.to_string()))
}

fn write<T: Serialize>(mut stream: &UnixStream, message: &T) -> Result<()> {
    let mut line = serde_json::to_vec(message).map_err(|error| Error::internal(error.to_string()))?;
    line.push(b'\n');
    Ok(stream.write_all(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_broke_off_or_is_of_another_program_is_an_error() {
        let ask = |text: &[u8]| {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            (&theirs).write_all(text).expect("fits");
            drop(theirs);
            read::<Request>(&ours)
        };
        assert_eq!(ask(b"{\"do\":\"freeze\"}\n").expect("reads"), Request::Freeze);
        for bad in ["{\"do\":\"freeze\"}", "{\"do\":\"format\"}\n", "{\"do\":\"policy\"}\n", "GET / HTTP/1.1\r\n", ""] {
            assert!(ask(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
