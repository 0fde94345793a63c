//! Making, moving and removing names.
//!
//! The call is made in the pinned folder with the last name alone, so a symbolic link that somebody puts in between is not followed.
//!
//! A link or a move gives a file another name, to which other rules may apply. Unless [`crate::Options::may_gain`] is set, it is refused
//! with `EXDEV` (as Landlock does, so that `mv` copies instead, which is decided by itself) if any operation would be allowed by the new name
//! and not by the old one; for a folder, of anything in it.

use crate::job::{At, Job, Outcome, Refers, path_of};
use crate::listener::Reply;
use crate::place::{Kind, Slot, join, magic};
use crate::record::Record;
use crate::sys::{self, call};
use holdfast_policy::{Arguments, Operation};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

const DONE: Outcome = Ok(Reply::Value(0));
/// Files in a folder that is moved, all of which are asked about. Beyond, a move is refused, since it would hold the program up for long.
const MOVED_MAX: u32 = 100_000;
/// Folders in folders that are moved; each is an open descriptor of the broker's while it is looked at.
const DEPTH_MAX: u32 = 64;

fn mode(mode: u32) -> Arguments<'static> {
    Arguments { mode: Some(mode), ..Arguments::default() }
}

/// Takes the program's umask over, which only counts for this thread.
fn take_umask(job: &Job<'_>) -> Result<(), Errno> {
    sys::umask(job.target.status()?.umask);
    job.still_there()
}

/// `mkdir`, `mkdirat`.
pub(crate) fn mkdir(job: &Job<'_>, at: &At, bits: u32) -> Outcome {
    let slot = job.slot(at)?;
    job.ask(Operation::Mkdir, &slot.path, mode(bits & 0o7777))?;
    take_umask(job)?;
    call(libc::SYS_mkdirat, &mut [(&slot.folder).into(), slot.name.as_c_str().into(), u64::from(bits).into()])?;
    DONE
}

/// `mknod`, `mknodat`: of a regular file it is a creation.
pub(crate) fn mknod(job: &Job<'_>, at: &At, bits: u32, device: u32) -> Outcome {
    let slot = job.slot(at)?;
    let is_regular = matches!(bits & libc::S_IFMT, 0 | libc::S_IFREG);
    let operation = if is_regular { Operation::Create } else { Operation::Mknod };
    let device_argument = (!is_regular).then_some(u64::from(device));
    job.ask(operation, &slot.path, Arguments { device: device_argument, ..mode(bits & 0o7777) })?;
    take_umask(job)?;
    let (bits, device) = (u64::from(bits), u64::from(device));
    call(libc::SYS_mknodat, &mut [(&slot.folder).into(), slot.name.as_c_str().into(), bits.into(), device.into()])?;
    DONE
}

/// `symlink`, `symlinkat`.
pub(crate) fn symlink(job: &Job<'_>, text: usize, at: &At) -> Outcome {
    let text = job.text(text)?;
    let slot = job.slot(at)?;
    let other = path_of(&text);
    job.ask(Operation::Symlink, &slot.path, Arguments { other: Some(&other), ..Arguments::default() })?;
    job.still_there()?;
    let arguments = &mut [text.as_c_str().into(), (&slot.folder).into(), slot.name.as_c_str().into()];
    call(libc::SYS_symlinkat, arguments)?;
    DONE
}

/// `link`, `linkat`.
pub(crate) fn link(job: &Job<'_>, old: &At, new: &At, flags: i32) -> Outcome {
    if flags & !(libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno::INVAL);
    }
    let refers = if flags & libc::AT_SYMLINK_FOLLOW == 0 { Refers::Itself } else { Refers::Followed };
    let object = job.object(old, refers, flags)?;
    let slot = job.slot(new)?;
    match &object.kind {
        Kind::Named(path) => {
            job.ask(Operation::Link, path, other(&slot.path))?;
            job.ask(Operation::Link, &slot.path, other(path))?;
            no_gain(job, Operation::Link, path, &slot.path)?;
        }
        // Nobody knows what may be done with what comes from outside by a name.
        Kind::Inherited(_) => return Err(job.core.unserved()),
        Kind::Nameless => job.ask(Operation::Link, &slot.path, Arguments::default())?,
    }
    job.still_there()?;
    let path = magic(&object.fd);
    let arguments = &mut [
        libc::AT_FDCWD.into(),
        path.as_c_str().into(),
        (&slot.folder).into(),
        slot.name.as_c_str().into(),
        libc::AT_SYMLINK_FOLLOW.into(),
    ];
    call(libc::SYS_linkat, arguments)?;
    DONE
}

fn other(path: &Path) -> Arguments<'_> {
    Arguments { other: Some(path), ..Arguments::default() }
}

/// `rename`, `renameat`, `renameat2`.
pub(crate) fn rename(job: &Job<'_>, old: &At, new: &At, flags: u32) -> Outcome {
    if flags & !(libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE) != 0 {
        return Err(if flags & libc::RENAME_WHITEOUT == 0 { Errno::INVAL } else { Errno::PERM });
    }
    let (old, new) = (job.slot(old)?, job.slot(new)?);
    job.ask(Operation::Rename, &old.path, other(&new.path))?;
    job.ask(Operation::Rename, &new.path, other(&old.path))?;
    moved(job, &old, &new.path)?;
    if flags & libc::RENAME_EXCHANGE != 0 {
        moved(job, &new, &old.path)?;
    }
    job.still_there()?;
    let arguments = &mut [
        (&old.folder).into(),
        old.name.as_c_str().into(),
        (&new.folder).into(),
        new.name.as_c_str().into(),
        u64::from(flags).into(),
    ];
    call(libc::SYS_renameat2, arguments)?;
    DONE
}

/// That what is moved, and everything in it, gains nothing.
fn moved(job: &Job<'_>, from: &Slot, to: &Path) -> Result<(), Errno> {
    if job.core.options.may_gain || from.path == to {
        return Ok(());
    }
    no_gain(job, Operation::Rename, &from.path, to)?;
    let mut left = MOVED_MAX;
    let name = std::ffi::CString::new(from.name.to_bytes().split(|byte| *byte == b'/').next().unwrap_or_default());
    let name = name.map_err(|_| Errno::INVAL)?;
    match statat(&from.folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            all_below(job, &from.folder, &name, (&from.path, to), &mut left, DEPTH_MAX)
        }
        // The call itself says what is wrong.
        _ => Ok(()),
    }
}

fn all_below(
    job: &Job<'_>,
    parent: &OwnedFd,
    name: &std::ffi::CStr,
    (from, to): (&Path, &Path),
    left: &mut u32,
    depth: u32,
) -> Result<(), Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // What the broker cannot list, it cannot ask about.
    let folder = openat(parent, name, flags, Mode::empty()).map_err(|_| job.core.unserved())?;
    let depth = depth.checked_sub(1).ok_or_else(|| job.core.unserved())?;
    let entries = Dir::read_from(&folder)?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        *left = left.checked_sub(1).ok_or_else(|| job.core.unserved())?;
        let (from, to) = (join(from, name.to_bytes()), join(to, name.to_bytes()));
        no_gain(job, Operation::Rename, &from, &to)?;
        if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
            match all_below(job, &folder, name, (&from, &to), left, depth) {
                Err(Errno::NOTDIR) if entry.file_type() == FileType::Unknown => {}
                result => result?,
            }
        }
    }
    Ok(())
}

fn no_gain(job: &Job<'_>, operation: Operation, from: &Path, to: &Path) -> Result<(), Errno> {
    let core = job.core;
    if core.options.may_gain || from == to {
        return Ok(());
    }
    for asked in Operation::ALL.into_iter().filter(|operation| core.scope.decides(*operation)) {
        if job.would_allow(asked, to)? && !job.would_allow(asked, from)? {
            let (program, errno, pid) = (job.program()?, Some(libc::EXDEV), job.notice.thread);
            core.deny(&Record { pid, program, operation, path: from, rule: None, allowed: false, errno });
            return Err(Errno::XDEV);
        }
    }
    Ok(())
}

/// `unlink`, `unlinkat`, `rmdir`.
pub(crate) fn unlink(job: &Job<'_>, at: &At, flags: i32) -> Outcome {
    if flags & !libc::AT_REMOVEDIR != 0 {
        return Err(Errno::INVAL);
    }
    let slot = job.slot(at)?;
    let operation = if flags == 0 { Operation::Unlink } else { Operation::Rmdir };
    job.ask(operation, &slot.path, Arguments::default())?;
    job.still_there()?;
    call(libc::SYS_unlinkat, &mut [(&slot.folder).into(), slot.name.as_c_str().into(), flags.into()])?;
    DONE
}
