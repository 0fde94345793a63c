//! Finding, making, moving and removing names. All is done in a pinned folder, with the last name alone.

use crate::asked::Asked;
use crate::gate::{BELIEVED_NO_MORE, Served};
use crate::handle::Open;
use crate::node::{Node, Nodes, descriptors, path_of, pin, reopen};
use crate::serve::attributes::{attributes, may};
use crate::serve::files::Manner;
use fuser::{FileAttr, FopenFlags, RenameFlags};
use holdfast_policy::{Arguments, Operation};
use rustix::fs::{
    Access, AtFlags, Dir, FileType, Mode, OFlags, RenameFlags as Renaming, linkat, mkdirat, mknodat, openat,
    renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::path::DecInt;
use std::ffi::{CStr, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Files in a folder that is moved, all of which are asked about; and folders in folders, each an open descriptor meanwhile. Beyond, a move is refused.
const MOVED_MAX: u32 = 100_000;
const DEPTH_MAX: u32 = 64;

/// What a program said of new files: bits of permission, and those that it does not want.
#[derive(Clone, Copy)]
pub(crate) struct Bits {
    pub(crate) mode: u32,
    pub(crate) umask: u32,
}

impl Bits {
    fn arguments(self) -> Arguments<'static> {
        Arguments { mode: Some(self.mode & 0o7777), ..Arguments::default() }
    }

    /// The permissions to ask the kernel for, with the program's umask on this thread: so a folder's access control list has its say.
    fn take(self) -> Mode {
        rustix::process::umask(Mode::from_raw_mode(self.umask & 0o777));
        Mode::from_raw_mode(self.mode & 0o7777)
    }
}

/// A file by its name, and how long the kernel may believe that the name leads there.
pub(crate) fn look_up(
    asked: &Asked<'_>,
    (served, nodes): (&Served, &Nodes),
    folder: &Node,
    name: &OsStr,
) -> Result<(FileAttr, Duration), Errno> {
    let begun = Instant::now();
    let pinned = pin(&folder.fd, name);
    // Of what is there, its own path: it may have been moved since its folder was found.
    let path = match &pinned {
        Ok(fd) => path_of(fd)?,
        Err(_) => folder.path_to(name)?,
    };
    asked.ask(Operation::Lookup, &path)?;
    let (node, found) = nodes.enter(pinned?, &path)?;
    let told = attributes(&node, &found);
    let belief = if told.kind == fuser::FileType::Directory { served.belief(&path, begun) } else { Duration::ZERO };
    if belief.is_zero() {
        return Ok((told, belief));
    }
    folder.note_belief(Instant::now() + BELIEVED_NO_MORE);
    // Whoever closes the folder from now on waits for that; somebody may have closed it before.
    let is_open = may(folder, Access::EXEC_OK).is_ok();
    Ok((told, if is_open { belief } else { Duration::ZERO }))
}

/// What was made just now. It is asked about no more: who may make it is told that it is there.
fn made(nodes: &Nodes, folder: &Node, name: &OsStr) -> Result<(Arc<Node>, FileAttr), Errno> {
    let fd = pin(&folder.fd, name)?;
    let path = path_of(&fd)?;
    let (node, found) = nodes.enter(fd, &path)?;
    let told = attributes(&node, &found);
    Ok((node, told))
}

pub(crate) fn make_folder(
    asked: &Asked<'_>,
    nodes: &Nodes,
    folder: &Node,
    name: &OsStr,
    bits: Bits,
) -> Result<FileAttr, Errno> {
    asked.ask_with(Operation::Mkdir, &folder.path_to(name)?, bits.arguments())?;
    mkdirat(&folder.fd, name, bits.take())?;
    Ok(made(nodes, folder, name)?.1)
}

/// A device, FIFO or socket; of a regular file it is a creation.
pub(crate) fn make_node(
    asked: &Asked<'_>,
    nodes: &Nodes,
    folder: &Node,
    name: &OsStr,
    bits: Bits,
    device: u32,
) -> Result<FileAttr, Errno> {
    let kind = FileType::from_raw_mode(bits.mode);
    let path = folder.path_to(name)?;
    if kind == FileType::RegularFile {
        asked.ask_with(Operation::Create, &path, bits.arguments())?;
    } else {
        asked.ask_with(Operation::Mknod, &path, Arguments { device: Some(device.into()), ..bits.arguments() })?;
    }
    let number = rustix::fs::makedev((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
    mknodat(&folder.fd, name, kind, bits.take(), number)?;
    Ok(made(nodes, folder, name)?.1)
}

pub(crate) fn make_link(
    asked: &Asked<'_>,
    nodes: &Nodes,
    folder: &Node,
    name: &OsStr,
    text: &Path,
) -> Result<FileAttr, Errno> {
    let arguments = Arguments { other: Some(text), ..Arguments::default() };
    asked.ask_with(Operation::Symlink, &folder.path_to(name)?, arguments)?;
    symlinkat(text, &folder.fd, name)?;
    Ok(made(nodes, folder, name)?.1)
}

/// A file that is made and opened.
pub(crate) fn create(
    asked: &Asked<'_>,
    nodes: &Nodes,
    folder: &Node,
    name: &OsStr,
    bits: Bits,
    flags: i32,
) -> Result<(FileAttr, Open, FopenFlags), Errno> {
    let path = folder.path_to(name)?;
    asked.ask_with(Operation::Create, &path, bits.arguments())?;
    let manner = Manner::ask(asked, &path, flags)?;
    let how = manner.flags() | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = openat(&folder.fd, name, how, bits.take()).map_err(|errno| match errno {
        // Somebody else made it meanwhile, and the kernel is to look again.
        Errno::EXIST if flags & libc::O_EXCL == 0 => Errno::STALE,
        other => other,
    })?;
    // By the descriptor of what was made, which nobody can exchange.
    let path = path_of(&fd)?;
    let pinned = reopen(&fd, OFlags::PATH)?;
    let (node, found) = nodes.enter(pinned, &path)?;
    let told = attributes(&node, &found);
    let (open, opened) = manner.open(fd, node);
    Ok((told, open, opened))
}

/// Another name of a file.
pub(crate) fn link(
    asked: &Asked<'_>,
    nodes: &Nodes,
    node: &Node,
    folder: &Node,
    name: &OsStr,
) -> Result<FileAttr, Errno> {
    let (old, new) = (node.path()?, folder.path_to(name)?);
    asked.ask_with(Operation::Link, &old, other(&new))?;
    asked.ask_with(Operation::Link, &new, other(&old))?;
    asked.no_gain(Operation::Link, &old, &new)?;
    linkat(descriptors()?, DecInt::from_fd(&node.fd), &folder.fd, name, AtFlags::SYMLINK_FOLLOW)?;
    Ok(made(nodes, folder, name)?.1)
}

fn other(path: &Path) -> Arguments<'_> {
    Arguments { other: Some(path), ..Arguments::default() }
}

/// A folder and a name in it.
pub(crate) struct Slot<'a> {
    pub(crate) folder: &'a Node,
    pub(crate) name: &'a OsStr,
}

pub(crate) fn rename(asked: &Asked<'_>, from: &Slot<'_>, to: &Slot<'_>, flags: RenameFlags) -> Result<(), Errno> {
    let known = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE;
    if !known.contains(flags) {
        return Err(Errno::INVAL);
    }
    let (old, new) = (from.folder.path_to(from.name)?, to.folder.path_to(to.name)?);
    asked.ask_with(Operation::Rename, &old, other(&new))?;
    asked.ask_with(Operation::Rename, &new, other(&old))?;
    moved(asked, from, (&old, &new))?;
    if flags.contains(RenameFlags::RENAME_EXCHANGE) {
        moved(asked, to, (&new, &old))?;
    }
    let how = Renaming::from_bits_truncate(flags.bits());
    renameat_with(&from.folder.fd, from.name, &to.folder.fd, to.name, how)
}

/// That what is moved, and everything in it, gains nothing.
fn moved(asked: &Asked<'_>, slot: &Slot<'_>, (from, to): (&Path, &Path)) -> Result<(), Errno> {
    if from == to {
        return Ok(());
    }
    asked.no_gain(Operation::Rename, from, to)?;
    match statat(&slot.folder.fd, slot.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            let name = std::ffi::CString::new(slot.name.as_bytes()).map_err(|_| Errno::INVAL)?;
            all_below(asked, &slot.folder.fd, &name, (from, to), &mut { MOVED_MAX }, DEPTH_MAX)
        }
        // The call itself says what is wrong.
        _ => Ok(()),
    }
}

fn all_below(
    asked: &Asked<'_>,
    parent: &impl AsFd,
    name: &CStr,
    (from, to): (&Path, &Path),
    left: &mut u32,
    depth: u32,
) -> Result<(), Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // What cannot be listed cannot be asked about.
    let folder = openat(parent, name, flags, Mode::empty()).map_err(|_| Errno::PERM)?;
    let depth = depth.checked_sub(1).ok_or(Errno::PERM)?;
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        *left = left.checked_sub(1).ok_or(Errno::PERM)?;
        let joined = |path: &Path| path.join(OsStr::from_bytes(name.to_bytes()));
        let (from, to) = (joined(from), joined(to));
        asked.no_gain(Operation::Rename, &from, &to)?;
        if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
            match all_below(asked, &folder, name, (&from, &to), left, depth) {
                Err(Errno::PERM) if entry.file_type() == FileType::Unknown && !is_folder(&folder, name) => {}
                result => result?,
            }
        }
    }
    Ok(())
}

fn is_folder(folder: &impl AsFd, name: &CStr) -> bool {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(true, |stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

pub(crate) fn remove(asked: &Asked<'_>, folder: &Node, name: &OsStr, operation: Operation) -> Result<(), Errno> {
    asked.ask(operation, &folder.path_to(name)?)?;
    let flags = if operation == Operation::Rmdir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    unlinkat(&folder.fd, name, flags)
}
