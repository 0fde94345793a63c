//! Executing, changing the working directory, and pinning.
//!
//! Nobody can do these for another process, so the kernel makes the call itself once the judge has said yes, and reads the path again: another thread can have
//! changed it, or a rename what is there. So nothing rests on that yes. The thread is seized before it goes on (`ptrace`(2)), stops as it comes out
//! of the call, before its next instruction, and what became of it is compared:
//! - after `execve`, its executable must be the very file that was asked about;
//! - after `open` with `O_PATH`, the descriptor must be of the file that was asked about, or the judge must allow that one as well. (What is done by
//!   such a descriptor is asked about then; having it tells that the file is there.)
//! - after `chdir`, its working directory must be the one it was in or the one that was asked about, or the judge must allow it as well (another thread may have
//!   changed it lawfully).
//!
//! Whoever won a race by that is killed and has executed nothing. It also dies if the broker does while it is held.
//!
//! Asked are the file and, if it is a script, its interpreters. The dynamic linker is not asked about: to name it as the program is. A script can be exchanged for
//! another between question and call; that is started by the interpreter that was asked about, which has to open it.
//!
//! Limits: a process that shares its working directory or its descriptors with the one that is killed (`CLONE_FS`, `CLONE_FILES`) keeps what was won,
//! and learns by that that a folder or a file is there; whatever it does with it is asked about. An executable that the user cannot read, and formats
//! that the kernel has somebody else run (`binfmt_misc`), are not executed.

use crate::core::Core;
use crate::job::{At, Job, Outcome, Refers};
use crate::listener::{Notice, Reply};
use crate::place::{Key, Kind, Pinned, file_type, key_of, look, magic};
use crate::record::count;
use crate::sys::{Arg, Stop, Traced, call, call_fd};
use crate::target::Target;
use crate::walk::Base;
use holdfast_policy::{Arguments, Operation};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Interpreters of interpreters that the kernel goes through.
const SCRIPTS_MAX: usize = 5;
/// Bytes of a script that the kernel looks at (`BINPRM_BUF_SIZE`).
const HEAD_BYTES: usize = 256;
/// The number of the first program in its namespace; the first process is the sandbox's own.
const FIRST_PROGRAM: i32 = 2;

/// Whether this is the sandbox itself that is about to execute the program: its first process but one, which has executed nothing yet. Nobody but the
/// sandbox's own code is in
/// it, and which program that executes was chosen outside.
pub(crate) fn is_the_start(core: &Core, notice: &Notice) -> Result<bool, Errno> {
    if core.top().is_ok() || !matches!(notice.number, libc::SYS_execve | libc::SYS_execveat) {
        // A program has been served already, or makes another call.
        return Ok(false);
    }
    let target = Target { thread: notice.thread };
    let starts = target.status()?.inner == (FIRST_PROGRAM, FIRST_PROGRAM) && target.never_executed()?;
    if core.listener.is_waiting(notice.id) { Ok(starts) } else { Err(Errno::SRCH) }
}

/// `execve`, `execveat`.
pub(crate) fn execute(job: &Job<'_>, at: &At, flags: i32) -> Outcome {
    let object = job.object(at, super::attributes::refers(flags), flags)?;
    let expected = executable(job, &object, SCRIPTS_MAX)?;
    go_on(job, |stop, _, target| match stop {
        Stop::Executed => Ok(key_of(&look(&target.pinned_executable()?)?) == expected),
        // It failed, and the same program runs on.
        Stop::Returned => Ok(true),
    })
}

/// Asks about a file and its interpreters, and says which of them will be the executable.
fn executable(job: &Job<'_>, object: &Pinned, left: usize) -> Result<Key, Errno> {
    let statx = look(&object.fd)?;
    match file_type(&statx) {
        libc::S_IFREG => {}
        libc::S_IFLNK => return Err(Errno::LOOP),
        _ => return Err(Errno::ACCESS),
    }
    match &object.kind {
        Kind::Named(path) => job.ask(Operation::Exec, path, Arguments::default())?,
        Kind::Inherited(_) | Kind::Nameless if !job.core.scope.decides(Operation::Exec) => {}
        // What has no name can have any content.
        Kind::Inherited(_) | Kind::Nameless => return Err(job.core.unserved()),
    }
    let Some(interpreter) = interpreter(&object.fd)? else { return Ok(key_of(&statx)) };
    let left = left.checked_sub(1).ok_or(Errno::LOOP)?;
    let next = job.existing(&At { base: Base::Cwd, path: interpreter }, Refers::Followed)?;
    executable(job, &next, left)
}

/// The interpreter a script names in its first line.
fn interpreter(fd: &OwnedFd) -> Result<Option<CString>, Errno> {
    let path = magic(fd);
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK).into();
    let file = call_fd(libc::SYS_openat, &mut [libc::AT_FDCWD.into(), path.as_c_str().into(), flags])?;
    let mut head = [0; HEAD_BYTES];
    let size = (HEAD_BYTES as u64).into();
    let length = call(libc::SYS_read, &mut [(&file).into(), Arg::Out(&mut head), size])?;
    let head = &head[..usize::try_from(length).map_err(|_| Errno::IO)?];
    let line = head.strip_prefix(b"#!").and_then(|line| line.split(|byte| *byte == b'\n').next());
    let Some(line) = line else { return Ok(None) };
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !is_space(byte)).ok_or(Errno::NOEXEC)?;
    let name = line[start..].split(|byte| is_space(byte) || *byte == 0).next().unwrap_or_default();
    CString::new(name).map(Some).map_err(|_| Errno::NOEXEC)
}

/// `chdir`.
pub(crate) fn change_folder(job: &Job<'_>, at: &At) -> Outcome {
    let object = job.existing(at, Refers::Followed)?;
    let statx = look(&object.fd)?;
    if file_type(&statx) != libc::S_IFDIR {
        return Err(Errno::NOTDIR);
    }
    let lawful = [key_of(&statx), key_of(&look(&job.target.cwd()?)?)];
    go_on(job, |_, _, target| {
        let now = target.cwd()?;
        if lawful.contains(&key_of(&look(&now)?)) {
            return Ok(true);
        }
        let place = job.core.place_of(&now, target)?;
        Ok(job.ask(Operation::Lookup, &place, Arguments::default()).is_ok())
    })
}

/// `open` and `openat` for a descriptor that only pins a file (`O_PATH`), which the kernel gives nobody through a listener. That this is all they do
/// is in a register.
pub(crate) fn pin(job: &Job<'_>, object: &Pinned) -> Outcome {
    let expected = key_of(&look(&object.fd)?);
    go_on(job, |_, traced, target| {
        let Ok(number @ 0..) = i32::try_from(traced.returned()?) else { return Ok(true) };
        let now = target.descriptor(number)?;
        if !rustix::fs::fcntl_getfl(&now)?.contains(rustix::fs::OFlags::PATH) {
            return Ok(false);
        }
        if key_of(&look(&now)?) == expected {
            return Ok(true);
        }
        let place = job.core.place_of(&now, target)?;
        Ok(job.ask(Operation::Lookup, &place, Arguments::default()).is_ok())
    })
}

/// Lets the kernel make the call, and looks at what became of it before the program goes on.
fn go_on(job: &Job<'_>, is_lawful: impl Fn(Stop, &Traced, Target) -> Result<bool, Errno>) -> Outcome {
    let refused = |_| job.core.unserved();
    let mut traced = Traced::seize(job.target.thread).map_err(refused)?;
    // That it was this thread's call which was asked about, and still is: from here on its number cannot become another's.
    if job.still_there().is_err() {
        traced.let_go();
        return Err(Errno::SRCH);
    }
    job.core.listener.answer(job.notice.id, Ok(Reply::Continue))?;
    let Some(stop) = traced.wait() else {
        // It was killed.
        return Ok(Reply::Answered);
    };
    // A thread that executes gets the number of its process.
    let target = Target { thread: traced.thread() };
    // A judge of somebody else's may panic; nobody but this thread can let the program go.
    let lawful = catch_unwind(AssertUnwindSafe(|| is_lawful(stop, &traced, target)));
    if !matches!(lawful, Ok(Ok(true))) {
        count(&job.core.counting.killed);
        kill(target);
    }
    traced.let_go();
    Ok(Reply::Answered)
}

/// The thread is stopped, so its number is its own.
fn kill(target: Target) {
    let process = target.status().map_or(target.thread, |status| status.process);
    if let Some(pid) = Pid::from_raw(process) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
