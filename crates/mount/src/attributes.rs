//! Attributes as the kernel takes them.

use fuser::{FileAttr, FileType, INodeNo};
use holdfast_drive::{Entry, NodeKind, Posix, Special};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the kernel calls a block, in [`FileAttr::blocks`].
const STAT_BLOCK_BYTES: u64 = 512;
/// Sensible size of a write: what one request carries.
const WRITE_BYTES: u32 = 1 << 20;

/// What a node is, to the kernel.
pub(crate) fn file_type(entry: &Entry) -> FileType {
    match (entry.node.kind, entry.posix.map(|posix| posix.special).unwrap_or_default()) {
        (NodeKind::Folder, _) => FileType::Directory,
        (NodeKind::File, Special::None) => FileType::RegularFile,
        (NodeKind::File, Special::Link) => FileType::Symlink,
        (NodeKind::File, Special::Fifo) => FileType::NamedPipe,
        (NodeKind::File, Special::Socket) => FileType::Socket,
        (NodeKind::File, Special::Character) => FileType::CharDevice,
        (NodeKind::File, Special::Block) => FileType::BlockDevice,
    }
}

/// A node's attributes, under this inode number.
pub(crate) fn attributes(entry: &Entry, ino: INodeNo, usual: &Posix, links: u32, sparse: bool) -> FileAttr {
    let posix = entry.attributes(usual);
    FileAttr {
        ino,
        size: entry.node.size,
        blocks: stat_blocks(entry.node.size, sparse),
        atime: time(posix.atime_ns),
        mtime: time(posix.mtime_ns),
        ctime: time(posix.ctime_ns),
        crtime: time(entry.node.created_ms.saturating_mul(1_000_000)),
        kind: file_type(entry),
        perm: (posix.mode & 0o7777) as u16,
        nlink: links,
        uid: posix.uid,
        gid: posix.gid,
        rdev: posix.rdev,
        blksize: WRITE_BYTES,
        flags: 0,
    }
}

/// What a file of so many bytes takes on the disk is not known: blocks shrink, and lie there once for all that have them. One with holes says a little
/// less than its size, so that programs that copy files ask where they are (`cp`, `tar -S`).
const fn stat_blocks(size: u64, sparse: bool) -> u64 {
    // `cp` looks whether there are fewer than whole ones fit in, `tar` whether fewer than hold it.
    if sparse { (size / STAT_BLOCK_BYTES).saturating_sub(1) } else { size.div_ceil(STAT_BLOCK_BYTES) }
}

fn time(ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    let moved = if ns < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    moved.unwrap_or(UNIX_EPOCH)
}

/// A time as the drive keeps it; what is further away than that, as far as it goes.
pub(crate) fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    }
}

/// Now.
pub(crate) fn now_ns() -> i64 {
    nanoseconds(SystemTime::now())
}

/// Without what lets a program run as its owner: what becomes of a file that somebody else changes.
pub(crate) const fn without_privileges(mode: u32) -> u32 {
    // Without the right to execute, set-group-id means something else.
    let group = if mode & 0o010 == 0 { 0 } else { 0o2000 };
    mode & !(0o4000 | group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_to_the_nanosecond_on_both_sides_of_the_epoch() {
        for ns in [0, 1, -1, 1_700_000_000_123_456_789, -77_000_000_001, i64::MAX] {
            assert_eq!(nanoseconds(time(ns)), ns);
        }
    }

    #[test]
    fn privileges_go() {
        assert_eq!(without_privileges(0o6755), 0o755);
        assert_eq!(without_privileges(0o2644), 0o2644);
    }
}
