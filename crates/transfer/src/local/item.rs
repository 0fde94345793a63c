//! What a file system says of something, as an [`Item`].

use super::failure::failed;
use super::root::sort_of;
use crate::site::{Item, Kind, Version};
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use rustix::fs::{AtFlags, FileType, Stat, readlinkat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Permission bits that are moved: not those that lend somebody's rights.
const MODE_BITS: u32 = 0o777;
const NS: i64 = 1_000_000_000;

/// What is under `name` in a folder; none if nothing is.
pub(super) fn look(folder: &OwnedFd, name: &NodeName) -> Result<Option<Item>> {
    let stat = match statat(folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat.map_err(|errno| failed("looking at", name, errno))?,
    };
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link(link_text(folder, name)?),
        other => {
            let what = format!("{name} is {}, and only files, folders and links are moved", sort_of(other));
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
    };
    Ok(Some(of(name.clone(), kind, &stat)))
}

fn link_text(folder: &OwnedFd, name: &NodeName) -> Result<String> {
    let text =
        readlinkat(folder, name.as_str(), Vec::new()).map_err(|errno| failed("reading the link", name, errno))?;
    text.into_string().map_err(|_| Error::invalid(format!("the link {name} leads to a name that is not UTF-8")))
}

/// An item of what was found out about it.
pub(super) fn of(name: NodeName, kind: Kind, stat: &Stat) -> Item {
    let folder = kind == Kind::Folder;
    Item {
        name,
        size: if kind == Kind::File { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 },
        modified_ns: (!folder).then(|| modified_ns(stat)),
        mode: Some(stat.st_mode & MODE_BITS),
        version: version(stat, folder),
        kind,
    }
}

fn modified_ns(stat: &Stat) -> i64 {
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    stat.st_mtime.saturating_mul(NS).saturating_add(nanoseconds)
}

/// Of a file or link: size, both times to the nanosecond, and inode, so that neither writing in place nor putting another file there goes unnoticed.
/// Of a folder only the inode: its times change with its members.
pub(super) fn version(stat: &Stat, folder: bool) -> Version {
    if folder {
        return Version(stat.st_ino.to_string());
    }
    let (size, inode) = (stat.st_size, stat.st_ino);
    Version(format!("{size}-{}-{}.{}-{inode}", modified_ns(stat), stat.st_ctime, stat.st_ctime_nsec))
}
