//! The end of whoever looks after running programs.

use super::{CHANGE_TIME, LINE_TIME, Log, Reply, Request, Status, folder, next, read, write};
use holdfast_base::{Error, Result};
use std::fs;
use std::io::{BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The socket of a program that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    id: u32,
    path: PathBuf,
}

/// Those of this account, by number. Sockets that nobody listens on are removed.
///
/// # Errors
/// If the folder of sockets cannot be read.
pub fn find() -> Result<Vec<Found>> {
    let folder = folder()?;
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::from(error).context(folder.display())),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let Some(id) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()) else { continue };
        match UnixStream::connect(&path) {
            Ok(_) => found.push(Found { id, path }),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                // Its supervisor was killed, and the program with it. Another who found it may have been quicker.
                let _ = fs::remove_file(&path);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::from(error).context(path.display())),
        }
    }
    found.sort_by_key(|one| one.id);
    Ok(found)
}

/// The program with this number.
///
/// # Errors
/// `NotFound` if there is none.
pub fn one(id: u32) -> Result<Found> {
    let missing = || {
        Error::not_found(format!(
            "no confined program {id} of this account runs; `holdfast run ps` lists those that do"
        ))
    };
    find()?.into_iter().find(|found| found.id == id).ok_or_else(missing)
}

/// Asks.
///
/// # Errors
/// What it refused, and why; or that it does not answer.
pub fn ask(found: &Found, request: &Request) -> Result<Reply> {
    let at = |error: Error| error.context(found.path.display());
    let stream = UnixStream::connect(&found.path).map_err(|error| at(error.into()))?;
    let longest = if matches!(request, Request::Policy { .. }) { CHANGE_TIME } else { LINE_TIME };
    stream
        .set_read_timeout(Some(longest))
        .and_then(|()| stream.set_write_timeout(Some(LINE_TIME)))
        .map_err(Error::from)?;
    write(&stream, request).map_err(at)?;
    read::<Reply>(&stream).map_err(at)?.well()
}

/// Hears of what is decided until the program ends, or `tell` says that it is enough. First comes what was decided before.
///
/// # Errors
/// What it refused, and why; or that it stopped telling before the program's end.
pub fn follow(found: &Found, mut tell: impl FnMut(Log) -> bool) -> Result<()> {
    let at = |error: Error| error.context(found.path.display());
    let stream = UnixStream::connect(&found.path).map_err(|error| at(error.into()))?;
    stream.set_write_timeout(Some(LINE_TIME)).map_err(Error::from)?;
    write(&stream, &Request::Log { follow: true }).map_err(at)?;
    let mut lines = BufReader::new(&stream);
    let gave_up = |error: Error| {
        let why = "the program's supervisor was killed, or gave up on this reader, which was too slow";
        at(Error::new(holdfast_base::ErrorKind::Unavailable, format!("{why} ({error})")))
    };
    loop {
        let Reply::Log(log) = next::<Reply>(&mut lines).map_err(gave_up)?.well()? else {
            return Err(at(Error::invalid("it answers something else")));
        };
        let ended = log.ended;
        if !tell(log) || ended {
            return Ok(());
        }
    }
}

/// What runs now. One that ended meanwhile is left out.
///
/// # Errors
/// As [`find`].
pub fn all() -> Result<Vec<Status>> {
    let asked = find()?.into_iter().map(|found| ask(&found, &Request::Status));
    Ok(asked.filter_map(|reply| if let Ok(Reply::Status(status)) = reply { Some(status) } else { None }).collect())
}
