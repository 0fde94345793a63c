//! The end of whoever looks after mounts.

use super::serve::detach;
use super::{LINE_TIME, REPLY_BYTES_MAX, Reply, Request, folder, key_of, place_of, read, write};
use crate::status::Status;
use holdfast_base::{Error, Result};
use rustix::io::Errno;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};
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
        if let Some(status) = status(&found)?
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

/// The mount that a path is in, and the path from the mount's root on. The path itself is not looked at: what is mounted there may hang.
pub fn within(path: &Path) -> Result<(Found, String)> {
    let mounts: Vec<(PathBuf, i64, Found)> = find(None)?
        .into_iter()
        .filter_map(|found| match ask(&found, &Request::Status) {
            Ok((Reply::Status(status), _)) => Some((PathBuf::from(&status.at), status.since_ms, found)),
            _ => None,
        })
        .collect();
    let whole = std::path::absolute(path).map_err(|error| Error::from(error).context(path.display()))?;
    let mut names: Vec<_> = whole.components().collect();
    if names.contains(&Component::ParentDir) {
        return Err(Error::invalid(format!("{}: write the path without ..", path.display())));
    }
    // From the root down, so that nothing within a mount is ever looked at.
    for end in 1..=names.len() {
        let above: PathBuf = names[..end].iter().collect();
        let Ok(place) = place_of(&above) else { break };
        let here = mounts.iter().filter(|(at, ..)| *at == place).max_by_key(|(_, since_ms, _)| *since_ms);
        if let Some((_, _, found)) = here {
            let inside: PathBuf = names.drain(end..).collect();
            let inside = inside.to_str().ok_or_else(|| Error::invalid("a path in a mount is UTF-8"))?;
            return Ok((found.clone(), inside.to_owned()));
        }
    }
    let message =
        format!("no mount of this account has {}; `holdfast mount status` lists those that are", path.display());
    Err(Error::not_found(message))
}

/// A mount that answers something else than it was asked.
pub fn unexpected() -> Error {
    Error::unavailable("the mount answered something else than it was asked: is it of another release?")
}

/// How a mount does; none if it has ended since it was found.
pub fn status(found: &Found) -> Result<Option<Status>> {
    match ask(found, &Request::Status) {
        Ok((Reply::Status(status), _)) => Ok(Some(*status)),
        Ok(_) => Err(unexpected()),
        Err(_) if UnixStream::connect(&found.0).is_err() => Ok(None),
        Err(error) => Err(error),
    }
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
