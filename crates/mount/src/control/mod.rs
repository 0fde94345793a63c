//! The socket on which a mount says how it does, and is told to save, to forget and to end.
//!
//! **Where.** `$XDG_RUNTIME_DIR/holdfast/mounts`, of root `/run/holdfast/mounts`: one socket a mount, by a hash of its folder and its process. The folder is its
//! owner's alone; who asks is known by the kernel (`SO_PEERCRED`), and must be the account that mounts, or root. A socket that nobody listens on any more is
//! removed by whoever finds it.
//!
//! **What.** A connection is a question and its answer, a line of JSON each ([`Request`], [`Reply`]).
//!
//! **Never through the mount.** Threads of their own answer, the folder is never looked into, and a status takes no lock that is held while anything is waited
//! for. So a mount that hangs says so.

mod ask;
mod serve;

pub use ask::{Found, ask, find, one, status, sweep, unexpected, unmount_lazily, within};
pub use serve::Released;
pub(crate) use serve::{Control, Served};

use crate::status::Status;
use holdfast_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Longest question: a path is 4 KiB at most, and its characters may be escaped.
const REQUEST_BYTES_MAX: u64 = 64 << 10;
/// Longest answer: a hundred refusals and two hundred operations of a few hundred bytes are far below.
const REPLY_BYTES_MAX: u64 = 4 << 20;
/// Longest that either side waits for the other's line once it has begun.
const LINE_TIME: Duration = Duration::from_secs(5);
/// Symbolic links that are followed to a mount's folder (`MAXSYMLINKS` of Linux).
const LINKS_MAX: usize = 40;

/// What a mount is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How it does; answered by [`Reply::Status`].
    Status,
    /// To have everything on disk; answered by [`Reply::Flushed`].
    Flush,
    /// To let go of content that is kept here; answered by [`Reply::Evicted`].
    Evict {
        /// Of a file or what is below a folder, by its path in the mount; without one, of all.
        path: Option<String>,
        /// Of what is pinned, too.
        #[serde(default)]
        pinned: bool,
    },
    /// To keep a file or what is below a folder here, by its path in the mount; answered by [`Reply::Pinned`].
    Pin {
        /// The path.
        path: String,
    },
    /// To keep it no more; answered by [`Reply::Pinned`].
    Unpin {
        /// The path.
        path: String,
    },
    /// To end; answered by [`Reply::Unmounted`], and the connection ends with the mount.
    Unmount {
        /// Though somebody uses it, and though not everything can be saved before.
        force: bool,
    },
}

/// What a mount answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Reply {
    /// How it does.
    Status(Box<Status>),
    /// Everything that was written before is on disk.
    Flushed {
        /// Open files that had something to be saved.
        files: u64,
    },
    /// The content is forgotten.
    Evicted {
        /// Files whose content the kernel was told to forget.
        files: u64,
    },
    /// What is pinned is another from now on, and that is on disk.
    Pinned,
    /// The folder is free.
    Unmounted {
        /// Why not everything could be saved before; the mount goes on trying until it ends.
        unsaved: Option<String>,
    },
    /// It was not done.
    Refused {
        /// The error's kind, as HTTP has it.
        status: u16,
        /// Why.
        message: String,
    },
}

impl Reply {
    fn refused(error: &Error) -> Self {
        Self::Refused { status: error.kind().status(), message: error.to_string() }
    }

    /// A refusal as an error.
    pub fn well(self) -> Result<Self> {
        const KINDS: [ErrorKind; 8] = [
            ErrorKind::Unsupported,
            ErrorKind::TooLarge,
            ErrorKind::NotFound,
            ErrorKind::Conflict,
            ErrorKind::InvalidInput,
            ErrorKind::Forbidden,
            ErrorKind::NoSpace,
            ErrorKind::Timeout,
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

/// Where the sockets of this account's mounts are.
fn folder() -> Result<PathBuf> {
    let who = rustix::process::geteuid();
    if who.is_root() {
        return Ok(PathBuf::from("/run/holdfast/mounts"));
    }
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let usual = PathBuf::from(format!("/run/user/{}", who.as_raw()));
    let runtime = named.or_else(|| usual.is_dir().then_some(usual));
    let runtime =
        runtime.ok_or_else(|| Error::not_found("XDG_RUNTIME_DIR is not set: it names the folder of sockets"))?;
    Ok(runtime.join("holdfast/mounts"))
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

/// How the sockets of mounts on a folder begin.
fn key_of(at: &Path) -> String {
    format!("{:016x}-", xxh3_64(at.as_os_str().as_bytes()))
}

/// A mount's folder as it was when it was mounted. What is mounted there is not asked: it may hang.
pub fn place_of(path: &Path) -> Result<PathBuf> {
    let at = |error: std::io::Error| Error::from(error).context(path.display());
    let mut place: PathBuf = std::path::absolute(path).map_err(at)?.components().collect();
    for _ in 0..LINKS_MAX {
        let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else { return Ok(place) };
        let parent = parent.canonicalize().map_err(at)?;
        let whole = parent.join(name);
        match whole.read_link() {
            Ok(target) => place = parent.join(target).components().collect(),
            Err(_) => return Ok(whole),
        }
    }
    Err(Error::invalid(format!("{} is a circle of symbolic links", path.display())))
}

/// Reads a line of JSON.
fn read<T: for<'a> Deserialize<'a>>(stream: &UnixStream, bytes_max: u64) -> Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(bytes_max)).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        let what = if line.len() as u64 == bytes_max { "it is too long" } else { "it broke off" };
        return Err(Error::invalid(format!("what came on the mount's socket cannot be read: {what}")));
    }
    serde_json::from_slice(&line)
        .map_err(|error| Error::invalid(format!("what came on the mount's socket cannot be read: {error}")))
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
    fn a_question_that_is_too_long_broken_or_of_another_program_is_an_error() {
        let ask = |text: &[u8]| {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            (&theirs).write_all(text).expect("fits");
            drop(theirs);
            read::<Request>(&ours, 100)
        };
        assert_eq!(ask(b"{\"do\":\"status\"}\n").expect("reads"), Request::Status);
        assert_eq!(
            ask(b"{\"do\":\"evict\",\"path\":\"a/b\"}\n").expect("reads"),
            Request::Evict { path: Some("a/b".into()), pinned: false }
        );
        for bad in ["{\"do\":\"status\"}", "{\"do\":\"format\"}\n", "{\"do\":\"unmount\"}\n", "GET / HTTP/1.1\r\n", ""]
        {
            assert!(ask(bad.as_bytes()).is_err(), "{bad}");
        }
        let error = ask(&[b' '; 200]).expect_err("too long");
        assert!(error.message().contains("too long"), "{error}");
    }

    #[test]
    fn a_folder_is_found_through_links_and_dots() {
        let temp = tempfile::tempdir().expect("a folder");
        let root = temp.path().canonicalize().expect("is there");
        fs::create_dir(root.join("mnt")).expect("made");
        std::os::unix::fs::symlink("mnt", root.join("one")).expect("made");
        std::os::unix::fs::symlink(root.join("one"), root.join("two")).expect("made");
        for path in ["mnt", "mnt/", "one", "two", "./two", "mnt/../one"] {
            assert_eq!(place_of(&root.join(path)).expect(path), root.join("mnt"), "{path}");
        }
        std::os::unix::fs::symlink("circle", root.join("circle")).expect("made");
        assert!(place_of(&root.join("circle")).is_err());
    }

    #[test]
    fn refusals_keep_their_kind() {
        for kind in [ErrorKind::Conflict, ErrorKind::NoSpace, ErrorKind::NotFound] {
            let reply = Reply::refused(&Error::new(kind, "why"));
            assert_eq!(reply.well().expect_err("refused").kind(), kind);
        }
    }
}
