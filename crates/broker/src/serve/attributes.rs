//! Reading attributes: of a file, of its file system, whether it may be accessed, where a link leads.

use crate::job::{At, Job, Outcome, Refers};
use crate::listener::Reply;
use crate::place::{Kind, Pinned, file_type, look, magic};
use crate::sys::{Arg, bytes_of, bytes_of_mut, call, zeroed};
use crate::walk::Base;
use holdfast_policy::{Arguments, Operation};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;

const DONE: Outcome = Ok(Reply::Value(0));
/// Bytes of a link's text that can be asked for; longer ones are not made.
const LINK_BYTES_MAX: usize = 4096;

/// `stat`, `lstat`, `newfstatat`.
pub(crate) fn stat(job: &Job<'_>, at: &At, refers: Refers, flags: i32, buffer: u64) -> Outcome {
    let known = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_EMPTY_PATH;
    if flags & !known != 0 {
        return Err(Errno::INVAL);
    }
    let object = job.object(at, refers, flags)?;
    stat_object(job, &object, buffer)
}

pub(crate) fn stat_object(job: &Job<'_>, object: &Pinned, buffer: u64) -> Outcome {
    job.ask_of(Operation::Getattr, &object.kind, Arguments::default())?;
    let mut stat: libc::stat = zeroed();
    let arguments =
        &mut [(&object.fd).into(), c"".into(), Arg::Out(bytes_of_mut(&mut stat)), libc::AT_EMPTY_PATH.into()];
    call(libc::SYS_newfstatat, arguments)?;
    (stat.st_uid, stat.st_gid) = job.core.inside(job.target, stat.st_uid, stat.st_gid)?;
    job.write(buffer, bytes_of(&stat))?;
    DONE
}

pub(crate) fn statx(job: &Job<'_>) -> Outcome {
    let (flags, mask) = (job.int(2), u64::from(job.unsigned(3)));
    let at = at_or_empty(job, flags)?;
    let refers = refers(flags);
    let object = job.object(&at, refers, flags)?;
    job.ask_of(Operation::Getattr, &object.kind, Arguments::default())?;
    let mut statx: libc::statx = zeroed();
    let flags = flags & !libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
    let out = Arg::Out(bytes_of_mut(&mut statx));
    call(libc::SYS_statx, &mut [(&object.fd).into(), c"".into(), flags.into(), mask.into(), out])?;
    (statx.stx_uid, statx.stx_gid) = job.core.inside(job.target, statx.stx_uid, statx.stx_gid)?;
    job.write(job.register(4), bytes_of(&statx))?;
    DONE
}

/// Since 6.11 no path at all is as good as an empty one where the flags allow that.
pub(crate) fn at_or_empty(job: &Job<'_>, flags: i32) -> Result<At, Errno> {
    if flags & libc::AT_EMPTY_PATH != 0 && job.register(1) == 0 {
        return Ok(At { base: Base::of(job.register(0)), path: std::ffi::CString::default() });
    }
    job.at(0, 1)
}

pub(crate) fn refers(flags: i32) -> Refers {
    if flags & libc::AT_SYMLINK_NOFOLLOW == 0 { Refers::Followed } else { Refers::Itself }
}

/// `access`, `faccessat`, `faccessat2`. Real and effective users are the same in a sandbox, so either is asked for.
pub(crate) fn access(job: &Job<'_>, at: &At, mode: u32, flags: i32) -> Outcome {
    let known = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EACCESS | libc::AT_EMPTY_PATH;
    if flags & !known != 0 || mode & !7 != 0 {
        return Err(Errno::INVAL);
    }
    let object = job.object(at, refers(flags), flags)?;
    job.ask_of(Operation::Getattr, &object.kind, Arguments { mode: Some(mode), ..Arguments::default() })?;
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    call(libc::SYS_faccessat2, &mut [(&object.fd).into(), c"".into(), u64::from(mode).into(), flags.into()])?;
    DONE
}

/// `readlink`, `readlinkat`.
pub(crate) fn readlink(job: &Job<'_>, at: &At, buffer: u64, size: i32) -> Outcome {
    let size = usize::try_from(size).ok().filter(|size| *size > 0).ok_or(Errno::INVAL)?;
    // An empty path is the link that the descriptor itself is.
    let object = job.object(at, Refers::Itself, libc::AT_EMPTY_PATH)?;
    if file_type(&look(&object.fd)?) != libc::S_IFLNK {
        return Err(if at.path.is_empty() { Errno::NOENT } else { Errno::INVAL });
    }
    job.ask_of(Operation::Getattr, &object.kind, Arguments::default())?;
    let text = text_of(job, &object)?;
    let length = text.len().min(size);
    job.write(buffer, &text[..length])?;
    Ok(Reply::Value(i64::try_from(length).map_err(|_| Errno::INVAL)?))
}

/// What a link says to the program, which in `/proc` is not what it says to the broker.
fn text_of(job: &Job<'_>, link: &Pinned) -> Result<Vec<u8>, Errno> {
    let Kind::Named(path) = &link.kind else { return Err(Errno::INVAL) };
    let is_proc = rustix::fs::fstatfs(&link.fd)?.f_type == libc::PROC_SUPER_MAGIC;
    let name = path.file_name().map(OsStrExt::as_bytes);
    let in_top = is_proc && path.parent().is_some_and(|folder| is_top_of_proc(job, folder.as_os_str().as_bytes()));
    if in_top && matches!(name, Some(b"self" | b"thread-self")) {
        let (process, thread) = job.target.status()?.inner;
        let thread_self = format!("{process}/task/{thread}");
        return Ok(if name == Some(b"self") { process.to_string() } else { thread_self }.into_bytes());
    }
    let text = crate::place::link_text(&link.fd)?.into_bytes();
    let is_path = is_proc && !in_top && text.first() == Some(&b'/');
    let text = if is_path { job.core.below_root(&text).ok_or(Errno::ACCESS)?.to_vec() } else { text };
    Ok(text.into_iter().take(LINK_BYTES_MAX).collect())
}

fn is_top_of_proc(job: &Job<'_>, folder: &[u8]) -> bool {
    // The root of each `/proc` is inode 1 and nothing else in it is.
    job.core.open_exact(folder).is_ok_and(|fd| look(&fd).is_ok_and(|statx| statx.stx_ino == 1))
}

/// `statfs`.
pub(crate) fn statfs(job: &Job<'_>, at: &At, buffer: u64) -> Outcome {
    let object = job.existing(at, Refers::Followed)?;
    statfs_object(job, &object, buffer)
}

pub(crate) fn statfs_object(job: &Job<'_>, object: &Pinned, buffer: u64) -> Outcome {
    job.ask_of(Operation::Statfs, &object.kind, Arguments::default())?;
    let mut statfs: libc::statfs = zeroed();
    let path = magic(&object.fd);
    call(libc::SYS_statfs, &mut [path.as_c_str().into(), Arg::Out(bytes_of_mut(&mut statfs))])?;
    job.write(buffer, bytes_of(&statfs))?;
    DONE
}

/// Watching a file for events, which tells of its attributes and of names in it.
pub(crate) fn watch(job: &Job<'_>) -> Outcome {
    let mask = job.unsigned(2);
    let refers = if mask & libc::IN_DONT_FOLLOW == 0 { Refers::Followed } else { Refers::Itself };
    let object = job.existing(&job.at_cwd(1)?, refers)?;
    job.ask_of(Operation::Getattr, &object.kind, Arguments::default())?;
    if mask & libc::IN_ONLYDIR != 0 && file_type(&look(&object.fd)?) != libc::S_IFDIR {
        return Err(Errno::NOTDIR);
    }
    if file_type(&look(&object.fd)?) == libc::S_IFDIR {
        job.ask_of(Operation::Readdir, &object.kind, Arguments::default())?;
    }
    let queue = job.descriptor(job.int(0))?;
    let path = magic(&object.fd);
    let mask = mask & !libc::IN_DONT_FOLLOW;
    let watch =
        call(libc::SYS_inotify_add_watch, &mut [(&queue).into(), path.as_c_str().into(), u64::from(mask).into()])?;
    Ok(Reply::Value(watch))
}
