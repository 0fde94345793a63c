//! Opening and making files.
//!
//! What a program may do with an open file is decided here, by what it opens it for: a descriptor that reads was opened for reading. A file
//! that is not there yet is made with `O_EXCL` in its pinned folder, so that nobody can put another one there between question and deed.

use crate::job::{At, Job, Outcome, Refers};
use crate::listener::{Close, Reply};
use crate::place::{Access, Kind, Pinned, file_type, join, look, magic};
use crate::sys::{self, Arg, call_fd};
use crate::walk::Found;
use holdfast_policy::{Arguments, Operation};
use rustix::fs::fstatfs;
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

/// How often a file may come and go while it is opened; each time somebody else was at work at the same name.
const TRIES_MAX: usize = 32;
/// The device that is each process's own terminal (major 5, minor 0), which for the broker would be another one.
const OWN_TERMINAL: (u32, u32) = (5, 0);
/// Bytes of `struct open_how` as it was introduced; a longer one must be zero beyond.
const HOW_BYTES: usize = 24;

/// What is to be opened, and how.
pub(crate) struct How {
    flags: i32,
    mode: u32,
    resolve: u64,
}

impl How {
    /// As `open(2)` is told; the kernel ignores flags it does not know.
    pub(crate) fn plain(flags: i32, mode: u32) -> Self {
        Self { flags, mode: mode & 0o7777, resolve: 0 }
    }

    fn has(&self, flag: i32) -> bool {
        self.flags & flag == flag
    }

    fn is_path(&self) -> bool {
        self.has(libc::O_PATH)
    }

    fn access(&self) -> Access {
        match self.flags & libc::O_ACCMODE {
            libc::O_RDONLY => Access { read: true, write: false },
            libc::O_WRONLY => Access { read: false, write: true },
            // The fourth, without a name, asks for both permissions.
            _ => Access { read: true, write: true },
        }
    }

    fn close(&self) -> Close {
        if self.has(libc::O_CLOEXEC) { Close::OnExec } else { Close::Never }
    }

    /// Flags of a new opening of what is pinned already. The broker must never get a terminal by it.
    fn reopening(&self) -> i32 {
        self.flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW) | libc::O_CLOEXEC | libc::O_NOCTTY
    }

    fn arguments(&self) -> Arguments<'static> {
        Arguments { flags: Some(u64::from(self.flags.unsigned_abs())), ..Arguments::default() }
    }
}

pub(crate) fn openat2(job: &Job<'_>) -> Outcome {
    let at = job.at(0, 1)?;
    let size = usize::try_from(job.register(3)).map_err(|_| Errno::TOOBIG)?;
    if size < HOW_BYTES {
        return Err(Errno::INVAL);
    }
    if size > usize::try_from(sys::PAGE_BYTES).map_err(|_| Errno::TOOBIG)? {
        return Err(Errno::TOOBIG);
    }
    let bytes = job.bytes(job.register(2), size)?;
    if bytes[HOW_BYTES..].iter().any(|byte| *byte != 0) {
        return Err(Errno::TOOBIG);
    }
    let word = |at: usize| bytes[at..at + 8].try_into().map(u64::from_ne_bytes).map_err(|_| Errno::INVAL);
    let (flags, mode, resolve) = (word(0)?, word(8)?, word(16)?);
    // The kernel's own judgement of flags, bits and their contradictions, asked with an empty path, which is judged last.
    let probe: [u64; 3] = [flags, mode, resolve];
    let arguments =
        &mut [(&job.core.top()?.fd).into(), c"".into(), Arg::In(sys::bytes_of(&probe)), (HOW_BYTES as u64).into()];
    match call_fd(libc::SYS_openat2, arguments) {
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
        Ok(_) => return Err(Errno::INVAL),
    }
    if resolve & libc::RESOLVE_CACHED != 0 {
        return Err(Errno::AGAIN);
    }
    let flags = i32::try_from(flags).map_err(|_| Errno::INVAL)?;
    if flags & libc::O_PATH != 0 {
        // The program would have to make the call itself, whose flags in its memory could be others by then. Libraries fall back to `openat`, whose
        // flags are in a register.
        return Err(job.core.absent());
    }
    let mode = u32::try_from(mode).map_err(|_| Errno::INVAL)?;
    open(job, &at, &How { flags, mode, resolve })
}

pub(crate) fn open(job: &Job<'_>, at: &At, how: &How) -> Outcome {
    let exclusive = how.has(libc::O_CREAT | libc::O_EXCL) && !how.is_path();
    let follow = if how.has(libc::O_NOFOLLOW) || exclusive { Refers::Itself } else { Refers::Followed };
    for _ in 0..TRIES_MAX {
        match job.find(at, follow, how.resolve)? {
            Found::There(pinned) => return open_pinned(job, at, &pinned, how),
            Found::Missing { folder, path, name, as_folder } => {
                if !how.has(libc::O_CREAT) || how.is_path() {
                    return Err(Errno::NOENT);
                }
                if as_folder || at.path.to_bytes().ends_with(b"/") {
                    return Err(Errno::ISDIR);
                }
                match create(job, &folder, &name, &join(&path, name.to_bytes()), how) {
                    // Somebody else made it meanwhile, and it is to be opened if that is allowed.
                    Err(Errno::EXIST) if !exclusive => {}
                    outcome => return outcome,
                }
            }
        }
    }
    Err(Errno::AGAIN)
}

fn create(job: &Job<'_>, folder: &OwnedFd, name: &CString, path: &Path, how: &How) -> Outcome {
    let mode = Some(how.mode);
    job.ask(Operation::Create, path, Arguments { mode, ..how.arguments() })?;
    ask_access(job, &Kind::Named(path.to_owned()), how, Operation::Read)?;
    sys::umask(job.target.status()?.umask);
    job.still_there()?;
    let flags = how.flags | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NOCTTY;
    let arguments = &mut [folder.into(), name.as_c_str().into(), flags.into(), u64::from(how.mode).into()];
    let fd = call_fd(libc::SYS_openat, arguments)?;
    Ok(Reply::Fd(fd, how.close()))
}

fn ask_access(job: &Job<'_>, kind: &Kind, how: &How, reading: Operation) -> Result<(), Errno> {
    let access = how.access();
    if access.read {
        job.ask_of(reading, kind, how.arguments())?;
        if reading == Operation::Read {
            // Only what is open for reading can be mapped, and only the program itself can map it.
            job.ask_of(Operation::Mmap, kind, Arguments::default())?;
        }
    }
    if access.write {
        job.ask_of(Operation::Write, kind, how.arguments())?;
    }
    Ok(())
}

fn open_pinned(job: &Job<'_>, at: &At, pinned: &Pinned, how: &How) -> Outcome {
    let statx = look(&pinned.fd)?;
    let is_folder = file_type(&statx) == libc::S_IFDIR;
    if how.is_path() {
        if how.has(libc::O_DIRECTORY) && !is_folder {
            return Err(Errno::NOTDIR);
        }
        return super::held::pin(job, pinned);
    }
    if how.has(libc::O_TMPFILE) {
        return open_unnamed(job, pinned, how);
    }
    if how.has(libc::O_CREAT) {
        match () {
            () if how.has(libc::O_EXCL) => return Err(Errno::EXIST),
            () if is_folder || at.path.to_bytes().ends_with(b"/") => return Err(Errno::ISDIR),
            () => {}
        }
    }
    if file_type(&statx) == libc::S_IFLNK {
        return Err(Errno::LOOP);
    }
    if how.has(libc::O_DIRECTORY) && !is_folder {
        return Err(Errno::NOTDIR);
    }
    if let Kind::Inherited(had) = pinned.kind {
        // Opening again what was handed over must not make more of it.
        let wanted = how.access();
        let more = wanted.read && !had.read || wanted.write && !had.write || how.has(libc::O_TRUNC) && !had.write;
        if more {
            return Err(job.core.unserved());
        }
    }
    refuse_what_is_ours(job, pinned, &statx)?;
    ask_access(job, &pinned.kind, how, if is_folder { Operation::Readdir } else { Operation::Read })?;
    if how.has(libc::O_TRUNC) && file_type(&statx) == libc::S_IFREG {
        job.ask_of(Operation::Truncate, &pinned.kind, Arguments { size: Some(0), ..how.arguments() })?;
    }
    job.still_there()?;
    let may_block = file_type(&statx) == libc::S_IFIFO && !how.has(libc::O_NONBLOCK) && !how.has(libc::O_RDWR);
    let again = || {
        let path = magic(&pinned.fd);
        call_fd(libc::SYS_openat, &mut [libc::AT_FDCWD.into(), path.as_c_str().into(), how.reopening().into()])
    };
    let fd = if may_block { job.core.waits.wait(job, &pinned.fd, again)? } else { again()? };
    Ok(Reply::Fd(fd, how.close()))
}

/// Files whose content depends on who opens them would be the broker's.
fn refuse_what_is_ours(job: &Job<'_>, pinned: &Pinned, statx: &libc::statx) -> Result<(), Errno> {
    let is_character_device = file_type(statx) == libc::S_IFCHR;
    if is_character_device && (statx.stx_rdev_major, statx.stx_rdev_minor) == OWN_TERMINAL {
        return Err(Errno::NXIO);
    }
    if let Kind::Named(path) = &pinned.kind
        && path.ends_with("mem")
        && fstatfs(&pinned.fd)?.f_type == libc::PROC_SUPER_MAGIC
    {
        // The memory of a process, which is checked when it is opened and never again.
        return Err(job.core.unserved());
    }
    Ok(())
}

/// A file without a name (`O_TMPFILE`) is made in a folder, and asked about as something in it.
fn open_unnamed(job: &Job<'_>, pinned: &Pinned, how: &How) -> Outcome {
    let Kind::Named(folder) = &pinned.kind else { return Err(job.core.unserved()) };
    let path = folder.join("#unnamed");
    job.ask(Operation::Create, &path, Arguments { mode: Some(how.mode), ..how.arguments() })?;
    ask_access(job, &Kind::Named(path), how, Operation::Read)?;
    sys::umask(job.target.status()?.umask);
    job.still_there()?;
    // `O_EXCL` says here that it may never get a name.
    let flags = how.reopening() | how.flags & libc::O_EXCL;
    let path = magic(&pinned.fd);
    let arguments = &mut [libc::AT_FDCWD.into(), path.as_c_str().into(), flags.into(), u64::from(how.mode).into()];
    Ok(Reply::Fd(call_fd(libc::SYS_openat, arguments)?, how.close()))
}
