//! The end of whoever looks after mounts.

use super::serve::detach;
use super::{LINE_TIME, REPLY_BYTES_MAX, Reply, Request, folder, key_of, place_of, read, write};
use holdfast_base::{Error, Result};
use rustix::io::Errno;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A mount's socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found(PathBuf);

/// The mounts of this account, or those on one folder. Sockets that nobody listens on are removed.
pub fn find(at: Option<&Path>) -> Result<Vec<Found>> {
    let key = at.map(place_of).transpose()?.map(|place| key_of(&place));
    let folder = folder()?;
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::from(error).context(folder.display())),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_wanted = key.as_ref().is_none_or(|key| name.starts_with(key.as_str()));
        if !is_wanted || path.extension().is_none_or(|extension| extension != "sock") {
            continue;
        }
        match UnixStream::connect(&path) {
            Ok(_) => found.push(Found(path)),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                // Its mount was killed. Another who found it may have been quicker.
                let _ = fs::remove_file(&path);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::from(error).context(path.display())),
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

/// The mount on a folder; of several upon each other, that which was mounted last.
pub fn one(at: &Path) -> Result<Found> {
    let mut since = None;
    for found in find(Some(at))? {
        if let Reply::Status(status) = ask(&found, &Request::Status)?.0
            && since.as_ref().is_none_or(|(ms, _)| *ms <= status.since_ms)
        {
            since = Some((status.since_ms, found));
        }
    }
    let missing = || {
        Error::not_found(format!(
            "no mount of this account on {} is known; `holdfast mount status` lists those that are",
            at.display()
        ))
    };
    since.map(|(_, found)| found).ok_or_else(missing)
}

/// Asks. How a mount does is answered within seconds; the rest takes what it takes. The connection of an answer to [`Request::Unmount`] ends with
/// the mount.
pub fn ask(found: &Found, request: &Request) -> Result<(Reply, UnixStream)> {
    let at = |error: Error| error.context(found.0.display());
    let stream = UnixStream::connect(&found.0).map_err(|error| at(error.into()))?;
    let time: Option<Duration> = (*request == Request::Status).then_some(LINE_TIME);
    stream.set_read_timeout(time).and_then(|()| stream.set_write_timeout(Some(LINE_TIME))).map_err(Error::from)?;
    write(&stream, request).map_err(at)?;
    let reply: Reply = read(&stream, REPLY_BYTES_MAX).map_err(at)?;
    Ok((reply.well()?, stream))
}

/// Frees a folder whose mount does not answer: what it did not save is lost with it.
pub fn unmount_lazily(at: &Path) -> Result<()> {
    detach(&place_of(at)?)
}

/// Takes away what the kernel keeps of a mount that was killed, where nobody is connected any more. Says whether there was one.
pub fn sweep(at: &Path) -> Result<bool> {
    if rustix::fs::statfs(at).err() != Some(Errno::NOTCONN) {
        return Ok(false);
    }
    unmount_lazily(at)?;
    Ok(true)
}
