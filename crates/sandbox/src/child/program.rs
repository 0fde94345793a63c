//! The program's own process, from its first instruction to `execve`.

use super::{Descriptors, Never};
use crate::error::Step;
use crate::plan::Plan;
use crate::sys;
use crate::wire::{Failure, Message, in_step, tell};
use rustix::fs::{Mode, OFlags, SeekFrom, fcntl_getfl, open, seek, tell as position};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

pub(super) fn run(plan: &Plan, descriptors: &Descriptors<'_>) -> Result<Never, Failure> {
    if plan.session {
        // Without a terminal, and in no group with a process outside.
        rustix::process::setsid().map_err(in_step(Step::Streams))?;
    }
    if plan.namespaces == 0 {
        // With a namespace of processes the kernel does so by itself.
        sys::prctl(libc::PR_SET_PDEATHSIG, 9).map_err(in_step(Step::Streams))?;
    }
    streams(plan, descriptors).map_err(in_step(Step::Streams))?;
    rustix::process::chdir(plan.folder.as_c_str()).map_err(in_step(Step::Folder))?;
    for ruleset in &plan.rulesets {
        ruleset.enforce().map_err(in_step(Step::Landlock))?;
    }
    for &(resource, most) in &plan.limits {
        sys::limit(resource, most).map_err(in_step(Step::Limits))?;
    }
    sys::default_signals();
    if plan.listener {
        // Who answers looks at what the call is about, in this process's memory; it has that of the caller anyway.
        sys::prctl(libc::PR_SET_DUMPABLE, 1).map_err(in_step(Step::Filter))?;
    }
    tell(descriptors.report, Message::Ready, &[]).map_err(in_step(Step::Execute))?;
    let listener = sys::install_filter(&plan.filter, plan.listener).map_err(in_step(Step::Filter))?;
    if let Some(listener) = listener {
        tell(descriptors.report, Message::Listener, &[listener.as_fd()]).map_err(in_step(Step::Filter))?;
        // With a copy here, the calls of this process would wait for ever once nobody else has one.
        drop(listener);
    }
    Err(in_step(Step::Execute)(execute(plan)))
}

/// Puts the streams in their places. None of them is in one of those now, so none overwrites another; all else closes when the program is executed.
fn streams(plan: &Plan, descriptors: &Descriptors<'_>) -> Result<(), Errno> {
    for ((stream, again), place) in descriptors.streams.into_iter().zip(&plan.again).zip(0..) {
        match again {
            Some(path) => sys::duplicate(in_view(stream, path)?.as_raw_fd(), place)?,
            None => sys::duplicate(stream.as_raw_fd(), place)?,
        }
    }
    Ok(())
}

/// What is there in the view, as far read as the stream was.
fn in_view(stream: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = fcntl_getfl(stream)? & (OFlags::ACCMODE | OFlags::APPEND | OFlags::NONBLOCK | OFlags::DIRECT);
    let opened = open(path, flags | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    seek(&opened, SeekFrom::Start(position(stream)?))?;
    // Not in the place of a stream.
    fcntl_dupfd_cloexec(&opened, 3)
}

/// Tries each place where the program may be, as execvp(3) does.
fn execute(plan: &Plan) -> Errno {
    let mut found = Errno::NOENT;
    for candidate in &plan.candidates {
        match sys::execute(candidate, plan.arguments.pointers(), plan.environment.pointers()) {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => found = Errno::ACCESS,
            other => return other,
        }
    }
    found
}
