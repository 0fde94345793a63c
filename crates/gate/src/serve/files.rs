//! Opening, reading and writing.
//!
//! A file about which rules of each call speak, and one that may not be mapped, is opened so that the kernel hands every call on (`FOPEN_DIRECT_IO`) and keeps no pages
//! of it. What it then still asks for as pages (which says so: such a request has no owner of locks) is for a mapping.

use crate::asked::Asked;
use crate::handle::{Entry, Open};
use crate::node::{Node, reopen};
use crate::serve::attributes::kind_of;
use fuser::{FileType, FopenFlags};
use holdfast_policy::{Arguments, Operation};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Dir, FallocateFlags, Mode, OFlags, SeekFrom, openat, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// `__FMODE_EXEC`: the kernel opens it to execute it. No program can set it.
const TO_EXECUTE: i32 = 0x20;

/// What of a program's flags also holds for the real file. Direct input and output would need aligned memory here.
const KEPT: i32 = libc::O_ACCMODE | libc::O_APPEND | libc::O_SYNC | libc::O_DSYNC | libc::O_NOATIME | libc::O_NONBLOCK;

/// How a file is opened, and what was decided about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    flags: i32,
    each_call: bool,
    pages: bool,
}

impl Manner {
    /// Asks whether a file may be opened so.
    pub(crate) fn ask(asked: &Asked<'_>, path: &Path, flags: i32) -> Result<Self, Errno> {
        if flags & TO_EXECUTE != 0 {
            asked.ask(Operation::Exec, path)?;
            return Ok(Self { flags: libc::O_RDONLY, each_call: false, pages: true });
        }
        let reads = flags & libc::O_ACCMODE != libc::O_WRONLY;
        if reads {
            asked.ask_to_open(Operation::Read, path)?;
        }
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            asked.ask_to_open(Operation::Write, path)?;
        }
        let pages = !reads || asked.would_allow(Operation::Mmap, path)?;
        if !pages && asked.would_allow_any(Operation::Mmap, path) {
            // The pages that others may have in memory could be mapped by this one, too.
            asked.ask(Operation::Mmap, path)?;
        }
        Ok(Self { flags: flags & KEPT, each_call: asked.is_decided_by_each_call(path), pages })
    }

    pub(crate) fn flags(self) -> OFlags {
        let flags = if self.flags & libc::O_ACCMODE == libc::O_ACCMODE {
            // The fourth access, without a name, asks for both permissions.
            self.flags & !libc::O_ACCMODE | libc::O_RDWR
        } else {
            self.flags
        };
        OFlags::from_bits_retain(flags.unsigned_abs())
    }

    pub(crate) fn open(self, fd: OwnedFd, node: Arc<Node>) -> (Open, FopenFlags) {
        let direct = self.each_call || !self.pages;
        let opened = if direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() };
        (Open { fd, node, each_call: self.each_call, pages: self.pages, listed: Mutex::default() }, opened)
    }
}

pub(crate) fn open(asked: &Asked<'_>, node: Arc<Node>, flags: i32) -> Result<(Open, FopenFlags), Errno> {
    let manner = Manner::ask(asked, &node.path()?, flags)?;
    let fd = reopen(&node.fd, manner.flags())?;
    Ok(manner.open(fd, node))
}

fn part(offset: u64, length: u64) -> Arguments<'static> {
    Arguments { offset: i64::try_from(offset).ok(), length: Some(length), ..Arguments::default() }
}

/// `direct` says whether a program reads, and not the kernel for its pages.
pub(crate) fn read(asked: &Asked<'_>, open: &Open, offset: u64, length: u32, direct: bool) -> Result<Vec<u8>, Errno> {
    if !direct && !open.pages {
        asked.ask(Operation::Mmap, &open.node.path()?)?;
        // It may be allowed by now; what is open stays as it was opened.
        return Err(Errno::ACCESS);
    }
    if direct && open.each_call {
        asked.ask_with(Operation::Read, &open.node.path()?, part(offset, length.into()))?;
    }
    let wanted = usize::try_from(length).map_err(|_| Errno::INVAL)?;
    let mut bytes = Vec::with_capacity(wanted);
    while bytes.len() < wanted {
        let at = offset + bytes.len() as u64;
        match rustix::io::pread(&open.fd, rustix::buffer::spare_capacity(&mut bytes), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) if bytes.is_empty() => return Err(errno),
            Err(_) => break,
        }
    }
    bytes.truncate(wanted);
    Ok(bytes)
}

/// `cached` says whether the kernel writes back pages that were changed through a mapping.
pub(crate) fn write(asked: &Asked<'_>, open: &Open, offset: u64, bytes: &[u8], cached: bool) -> Result<u32, Errno> {
    if open.each_call {
        if cached {
            return Err(Errno::ACCESS);
        }
        asked.ask_with(Operation::Write, &open.node.path()?, part(offset, bytes.len() as u64))?;
    }
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::pwrite(&open.fd, &bytes[written..], offset + written as u64) {
            Ok(0) => break,
            Ok(more) => written += more,
            Err(Errno::INTR) => {}
            Err(errno) if written == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    u32::try_from(written).map_err(|_| Errno::IO)
}

pub(crate) fn sync(asked: &Asked<'_>, open: &Open, data_only: bool) -> Result<(), Errno> {
    asked.ask(Operation::Fsync, &open.node.path()?)?;
    if data_only { rustix::fs::fdatasync(&open.fd) } else { rustix::fs::fsync(&open.fd) }
}

pub(crate) fn allocate(asked: &Asked<'_>, open: &Open, offset: u64, length: u64, mode: i32) -> Result<(), Errno> {
    let path = open.node.path()?;
    asked.ask_with(Operation::Write, &path, part(offset, length))?;
    if mode & libc::FALLOC_FL_KEEP_SIZE == 0 {
        let size = Some(offset.saturating_add(length));
        asked.ask_with(Operation::Truncate, &path, Arguments { size, ..Arguments::default() })?;
    }
    rustix::fs::fallocate(&open.fd, FallocateFlags::from_bits_retain(mode.unsigned_abs()), offset, length)
}

/// Where data or a hole begins; of other seeking the kernel tells nobody.
pub(crate) fn seek(open: &Open, offset: i64, whence: i32) -> Result<i64, Errno> {
    let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
    let to = match whence {
        libc::SEEK_DATA => SeekFrom::Data(offset),
        libc::SEEK_HOLE => SeekFrom::Hole(offset),
        _ => return Err(Errno::INVAL),
    };
    i64::try_from(rustix::fs::seek(&open.fd, to)?).map_err(|_| Errno::OVERFLOW)
}

pub(crate) fn open_folder(asked: &Asked<'_>, node: Arc<Node>) -> Result<Open, Errno> {
    asked.ask(Operation::Readdir, &node.path()?)?;
    let fd = openat(&node.fd, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(Open { fd, node, each_call: false, pages: false, listed: Mutex::default() })
}

/// What is in a folder, beginning with the entry of a number. It is read again from the beginning.
pub(crate) fn list(open: &Open, from: usize, mut take: impl FnMut(usize, &Entry) -> bool) -> Result<(), Errno> {
    let mut listed = open.listed.lock();
    if from == 0 {
        *listed = entries(open)?;
    }
    for (place, entry) in listed.iter().enumerate().skip(from) {
        if take(place + 1, entry) {
            break;
        }
    }
    Ok(())
}

fn entries(open: &Open) -> Result<Vec<Entry>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(&open.fd)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        let kind = kind(open, &entry);
        found.push(Entry { number: entry.ino(), kind, name });
    }
    Ok(found)
}

fn kind(open: &Open, entry: &rustix::fs::DirEntry) -> FileType {
    use rustix::fs::FileType as Found;
    match entry.file_type() {
        Found::Unknown => {
            let stat = statat(&open.fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            stat.map_or(FileType::RegularFile, |stat| kind_of(stat.st_mode))
        }
        known => kind_of(known.as_raw_mode()),
    }
}
