//! The listener of a filter: receiving calls and answering them (`seccomp_unotify(2)`).

#![allow(unsafe_code)]

use crate::sys::{last, zeroed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};

/// The program may go on with its call, which the kernel then makes as if nobody had listened.
const CONTINUE: u32 = 1;
/// Runs the program on the processor that answers it (6.6 and later), since the broker sleeps at once.
const SYNC_WAKE_UP: u64 = 1;

/// A call that waits for its answer.
#[derive(Clone, Copy)]
pub(crate) struct Notice {
    pub(crate) id: u64,
    /// The thread, in our PID namespace.
    pub(crate) thread: i32,
    pub(crate) number: libc::c_long,
    pub(crate) arguments: [u64; 6],
}

/// What is answered.
pub(crate) enum Reply {
    /// A result.
    Value(i64),
    /// A new descriptor in the program's table.
    Fd(OwnedFd, Close),
    /// The kernel makes the call. Never where that rests on what a pointer leads to or a descriptor's number means; see `serve::held` for what comes after one.
    Continue,
    /// Nothing more; it was answered.
    Answered,
}

/// Whether a descriptor is closed when its process executes another program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    OnExec,
    Never,
}

/// A listener's descriptor.
pub(crate) struct Listener(OwnedFd);

impl Listener {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        let listener = Self(fd);
        // Older kernels do not know it, and it changes nothing but speed.
        // SAFETY: this request takes a number.
        let _ = unsafe { libc::ioctl(listener.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
        listener
    }

    /// Waits for a call, or for the end of all who could make one. `None` is the end of the wait.
    pub(crate) fn wait(&self, limit: Option<&Timespec>) -> Result<Option<Ready>, Errno> {
        let mut events = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut events, limit) {
            Ok(0) | Err(Errno::INTR) => Ok(None),
            Ok(_) if events[0].revents().contains(PollFlags::IN) => Ok(Some(Ready::Call)),
            Ok(_) => Ok(Some(Ready::End)),
            Err(error) => Err(error),
        }
    }

    /// Receives a call. `None` if whoever made it has gone meanwhile.
    pub(crate) fn receive(&self) -> Result<Option<Notice>, Errno> {
        let mut notice: libc::seccomp_notif = zeroed();
        // SAFETY: the pointer is to a zeroed structure of the kernel's size, which has not grown since it was introduced.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice) };
        if result < 0 {
            return match last() {
                Errno::NOENT | Errno::INTR => Ok(None),
                error => Err(error),
            };
        }
        let thread = i32::try_from(notice.pid).map_err(|_| Errno::SRCH)?;
        let number = libc::c_long::from(notice.data.nr);
        Ok(Some(Notice { id: notice.id, thread, number, arguments: notice.data.args }))
    }

    /// Whether the call still waits, so that its thread is still the one it was.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        // SAFETY: the pointer is to a number that outlives the call.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    /// Answers a call. That nobody waits for it any more is no error.
    pub(crate) fn answer(&self, id: u64, answer: Result<Reply, Errno>) -> Result<(), Errno> {
        let mut response: libc::seccomp_notif_resp = zeroed();
        response.id = id;
        match answer {
            Ok(Reply::Fd(fd, close)) => match self.give(id, &fd, close) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                // Its table is full, or it is going.
                Err(error) => response.error = -error.raw_os_error(),
            },
            Ok(Reply::Value(value)) => response.val = value,
            Ok(Reply::Answered) => return Ok(()),
            Ok(Reply::Continue) => response.flags = CONTINUE,
            Err(error) => response.error = -error.raw_os_error(),
        }
        // SAFETY: the pointer is to a structure of the kernel's size that outlives the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
        if result < 0 && last() != Errno::NOENT { Err(last()) } else { Ok(()) }
    }

    /// Puts a descriptor into the program's table and answers with its number, in one step.
    fn give(&self, id: u64, fd: &OwnedFd, close: Close) -> Result<(), Errno> {
        let mut addfd: libc::seccomp_notif_addfd = zeroed();
        addfd.id = id;
        addfd.flags = u32::try_from(libc::SECCOMP_ADDFD_FLAG_SEND).map_err(|_| Errno::INVAL)?;
        addfd.srcfd = u32::try_from(fd.as_raw_fd()).map_err(|_| Errno::BADF)?;
        if close == Close::OnExec {
            addfd.newfd_flags = libc::O_CLOEXEC.unsigned_abs();
        }
        // SAFETY: the pointer is to a structure of the kernel's size that outlives the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const addfd) };
        if result < 0 { Err(last()) } else { Ok(()) }
    }
}

/// What a wait ended with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    Call,
    End,
}
