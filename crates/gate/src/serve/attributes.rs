//! Attributes, also extended ones, of files and of their file system.

use crate::asked::Asked;
use crate::handle::Open;
use crate::node::{Node, descriptors, look, magic, reopen};
use fuser::{AccessFlags, FileAttr, FileType, INodeNo, TimeOrNow};
use holdfast_policy::{Arguments, Operation};
use rustix::fs::{
    Access, AtFlags, Gid, Mode, Statx, StatxTimestamp, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags,
    accessat, chmodat, chownat, ftruncate, utimensat,
};
use rustix::io::Errno;
use rustix::path::DecInt;
use rustix::process::{getegid, geteuid};
use std::ffi::OsStr;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kernel asks for it at each write, to take it away. Where no program gains anything by it, it is not there.
const CAPABILITY: &str = "security.capability";
/// Bytes of a value, and of a list of names (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const XATTR_BYTES_MAX: usize = 65536;
const TYPE: u32 = libc::S_IFMT;
/// Whose process this is: user and group.
static ACCOUNT: LazyLock<(u32, u32)> = LazyLock::new(|| (geteuid().as_raw(), getegid().as_raw()));

/// The type of a file by its mode.
pub(crate) fn kind_of(mode: u32) -> FileType {
    match mode & TYPE {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn time(at: &StatxTimestamp) -> SystemTime {
    let whole = Duration::from_secs(at.tv_sec.unsigned_abs());
    let second = if at.tv_sec < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
    second + Duration::from_nanos(at.tv_nsec.into())
}

/// Attributes as the kernel takes them.
///
/// In the sandbox's account namespace there is one user and one group; nobody may write a file of another, whatever its permissions are, and of those that may be
/// written (by a group this account is in, or by everybody) the numbers are therefore this account's.
pub(crate) fn attributes(node: &Node, found: &Statx) -> FileAttr {
    let (user, group) = *ACCOUNT;
    let foreign = found.stx_uid != user || found.stx_gid != group;
    let writes = || may(node, Access::WRITE_OK).is_ok();
    let is_link = u32::from(found.stx_mode) & TYPE == libc::S_IFLNK;
    let (uid, gid) = if foreign && !is_link && writes() { (user, group) } else { (found.stx_uid, found.stx_gid) };
    FileAttr {
        ino: INodeNo(node.number),
        size: found.stx_size,
        blocks: found.stx_blocks,
        atime: time(&found.stx_atime),
        mtime: time(&found.stx_mtime),
        ctime: time(&found.stx_ctime),
        crtime: UNIX_EPOCH,
        kind: kind_of(found.stx_mode.into()),
        perm: found.stx_mode & 0o7777,
        nlink: found.stx_nlink,
        uid,
        gid,
        rdev: device_number(found.stx_rdev_major, found.stx_rdev_minor),
        blksize: found.stx_blksize,
        flags: 0,
    }
}

/// Whether this account may do something to what is no link.
pub(crate) fn may(node: &Node, wanted: Access) -> Result<(), Errno> {
    accessat(descriptors()?, DecInt::from_fd(&node.fd), wanted, AtFlags::empty())
}

/// As the kernel writes a device's number in 32 bits (`new_encode_dev`).
fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// `stat` and its like. With a handle the kernel asks for itself, about a file that it reads, writes or seeks in: a program's question never has one.
pub(crate) fn get(asked: &Asked<'_>, node: &Node, own: bool) -> Result<FileAttr, Errno> {
    if !own {
        asked.ask(Operation::Getattr, &node.path()?)?;
    }
    Ok(attributes(node, &look(&node.fd)?))
}

/// What is to be changed.
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
}

impl Change {
    fn has_times(&self) -> bool {
        self.accessed.is_some() || self.modified.is_some()
    }
}

pub(crate) fn set(asked: &Asked<'_>, node: &Node, open: Option<&Open>, change: &Change) -> Result<FileAttr, Errno> {
    let path = node.path()?;
    let owner = change.user.is_some() || change.group.is_some();
    if let Some(size) = change.size {
        asked.ask_with(Operation::Truncate, &path, Arguments { size: Some(size), ..Arguments::default() })?;
    }
    if owner || change.mode.is_some() || change.has_times() {
        // With an owner the kernel takes bits of the mode away, of which the program said nothing.
        let mode = change.mode.filter(|_| !owner).map(|mode| mode & 0o7777);
        let arguments = Arguments { mode, uid: change.user, gid: change.group, ..Arguments::default() };
        asked.ask_with(Operation::Setattr, &path, arguments)?;
    }
    make(node, open, change)?;
    let found = look(&node.fd)?;
    if (owner || change.mode.is_some()) && may(node, Access::EXEC_OK).is_err() {
        // Nothing in it can be reached any more, and the kernel is not to go on by where it believes the folders in it to be.
        std::thread::sleep(node.belief_left());
    }
    Ok(attributes(node, &found))
}

fn make(node: &Node, open: Option<&Open>, change: &Change) -> Result<(), Errno> {
    if let Some(size) = change.size {
        match open.map(|open| ftruncate(&open.fd, size)) {
            // Not open for writing: it is asked for by name.
            None | Some(Err(Errno::INVAL | Errno::BADF)) => truncate(node, size)?,
            Some(done) => done?,
        }
    }
    if change.user.is_some() || change.group.is_some() {
        let (user, group) = (change.user.map(Uid::from_raw), change.group.map(Gid::from_raw));
        chownat(&node.fd, c"", user, group, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if let Some(mode) = change.mode {
        if u32::from(look(&node.fd)?.stx_mode) & TYPE == libc::S_IFLNK {
            return Err(Errno::OPNOTSUPP);
        }
        chmodat(descriptors()?, DecInt::from_fd(&node.fd), Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())?;
    }
    if change.has_times() {
        let times = Timestamps { last_access: stamp(change.accessed), last_modification: stamp(change.modified) };
        utimensat(&node.fd, c"", &times, AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

fn truncate(node: &Node, size: u64) -> Result<(), Errno> {
    use rustix::fs::OFlags;
    let file = reopen(&node.fd, OFlags::WRONLY | OFlags::NONBLOCK)?;
    ftruncate(&file, size)
}

fn stamp(time: Option<TimeOrNow>) -> Timespec {
    let at = match time {
        None => return Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => return Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(at)) => at,
    };
    let whole = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    match at.duration_since(UNIX_EPOCH) {
        Ok(since) => Timespec { tv_sec: whole(since.as_secs()), tv_nsec: since.subsec_nanos().into() },
        Err(before) => {
            let before = before.duration();
            let parts = before.subsec_nanos();
            let tv_nsec = if parts == 0 { 0 } else { 1_000_000_000 - i64::from(parts) };
            Timespec { tv_sec: -whole(before.as_secs()) - i64::from(parts > 0), tv_nsec }
        }
    }
}

/// `access`, and entering a folder.
pub(crate) fn access(asked: &Asked<'_>, node: &Node, mask: AccessFlags) -> Result<(), Errno> {
    let is_folder = u32::from(look(&node.fd)?.stx_mode) & TYPE == libc::S_IFDIR;
    if !(is_folder && mask == AccessFlags::X_OK) {
        asked.ask(Operation::Getattr, &node.path()?)?;
    }
    let wanted = Access::from_bits_truncate(mask.bits().unsigned_abs());
    may(node, wanted)
}

/// The text of a symbolic link.
pub(crate) fn read_link(asked: &Asked<'_>, node: &Node) -> Result<Vec<u8>, Errno> {
    asked.ask(Operation::Getattr, &node.path()?)?;
    Ok(rustix::fs::readlinkat(&node.fd, c"", Vec::with_capacity(256))?.into_bytes())
}

/// An extended attribute, or the names of all; how long it is, if there is no room for it.
pub(crate) enum Value {
    Length(u32),
    Bytes(Vec<u8>),
}

fn fill(room: u32, read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) -> Result<Value, Errno> {
    let mut buffer = vec![0; usize::try_from(room).unwrap_or(XATTR_BYTES_MAX).min(XATTR_BYTES_MAX)];
    let length = read(&mut buffer)?;
    if room == 0 {
        return u32::try_from(length).map(Value::Length).map_err(|_| Errno::TOOBIG);
    }
    buffer.truncate(length);
    Ok(Value::Bytes(buffer))
}

pub(crate) fn get_extended(asked: &Asked<'_>, node: &Node, name: &OsStr, room: u32) -> Result<Value, Errno> {
    if name == CAPABILITY {
        return Err(Errno::NODATA);
    }
    asked.ask(Operation::Getattr, &node.path()?)?;
    fill(room, |buffer| rustix::fs::getxattr(magic(&node.fd), name, buffer))
}

pub(crate) fn list_extended(asked: &Asked<'_>, node: &Node, room: u32) -> Result<Value, Errno> {
    asked.ask(Operation::Getattr, &node.path()?)?;
    fill(room, |buffer| rustix::fs::listxattr(magic(&node.fd), buffer))
}

pub(crate) fn set_extended(
    asked: &Asked<'_>,
    node: &Node,
    name: &OsStr,
    value: &[u8],
    flags: i32,
) -> Result<(), Errno> {
    asked.ask(Operation::Xattr, &node.path()?)?;
    let flags = XattrFlags::from_bits_truncate(flags.unsigned_abs());
    rustix::fs::setxattr(magic(&node.fd), name, value, flags)
}

pub(crate) fn remove_extended(asked: &Asked<'_>, node: &Node, name: &OsStr) -> Result<(), Errno> {
    if name == CAPABILITY {
        return Err(Errno::NODATA);
    }
    asked.ask(Operation::Xattr, &node.path()?)?;
    rustix::fs::removexattr(magic(&node.fd), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_what_they_were() {
        let mut at = some_time();
        (at.tv_sec, at.tv_nsec) = (-2, 250_000_000);
        let stamped = stamp(Some(TimeOrNow::SpecificTime(time(&at))));
        assert_eq!((stamped.tv_sec, stamped.tv_nsec), (-2, 250_000_000));
    }

    fn some_time() -> StatxTimestamp {
        look(&std::fs::File::open("/").expect("the root")).expect("its attributes").stx_atime
    }

    #[test]
    fn a_device_has_the_number_that_the_kernel_writes() {
        assert_eq!(device_number(1, 3), 0x103);
        assert_eq!(device_number(8, 0x101), 0x0010_0801);
    }
}
