//! The socket on which a confined program's supervisor says what it runs, and is told to stop, go on, end it, or hold it to another policy.
//!
//! **Where.** `$XDG_RUNTIME_DIR/holdfast/run`, of root `/run/holdfast/run`: one socket a program, named by its supervisor's process. The folder is its owner's
//! alone; who asks is known by the kernel (`SO_PEERCRED`), and must be the account that runs it, or root. A socket that nobody listens on any more is removed by
//! whoever finds it.
//!
//! **What.** A connection is a question and its answer, a line of JSON each ([`Request`], [`Reply`]). One is answered after another: each takes a moment.

mod ask;
mod serve;

pub use ask::{Found, all, ask, find, one};
pub use serve::{About, Control};

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
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Reply {
    /// What it is.
    Status(Status),
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

/// Reads a line of JSON.
fn read<T: for<'a> Deserialize<'a>>(stream: &UnixStream) -> Result<T> {
    let bad = |why: &str| Error::invalid(format!("what came on the socket cannot be read: {why}"));
    let mut line = Vec::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line)?;
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
