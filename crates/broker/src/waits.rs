//! Calls that may take long: opening a FIFO whose other end nobody has, connecting.
//!
//! While one of them waits, another thread takes its place among those that serve, up to a limit. If the program is killed meanwhile nobody
//! would end the wait, so a watch looks whether each call is still waited for, and pokes those that are not: the other end is opened for a
//! moment, or the socket is shut. Limit: what waits for the same FIFO in another process is poked with it.

use crate::core::{Core, locked};
use crate::job::Job;
use crate::place::magic;
use crate::sys::{call, call_fd};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Calls that wait at once. Each is a thread of the broker's; a program that wants more is told to try again.
const WAITING_MAX: usize = 64;
/// How often it is looked whether those who wait are still there.
const LOOK: Duration = Duration::from_millis(20);

/// How a wait is ended from outside.
enum Poke {
    Fifo(OwnedFd),
    Socket(OwnedFd),
}

#[derive(Default)]
pub(crate) struct Waits {
    under_way: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: HashMap<u64, Poke>,
    ended: bool,
}

impl Waits {
    /// How many threads wait and do not serve.
    pub(crate) fn count(&self) -> usize {
        locked(&self.under_way).waiting.len()
    }

    /// Opens a FIFO.
    pub(crate) fn wait(
        &self,
        job: &Job<'_>,
        fifo: &OwnedFd,
        act: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Result<OwnedFd, Errno> {
        self.run(job, Poke::Fifo(fifo.try_clone().map_err(|_| Errno::MFILE)?), act)
    }

    /// Connects a socket.
    pub(crate) fn connect(
        &self,
        job: &Job<'_>,
        socket: &OwnedFd,
        act: impl FnOnce() -> Result<i64, Errno>,
    ) -> Result<i64, Errno> {
        self.run(job, Poke::Socket(socket.try_clone().map_err(|_| Errno::MFILE)?), act)
    }

    fn run<T>(&self, job: &Job<'_>, poke: Poke, act: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let id = job.notice.id;
        {
            let mut state = locked(&self.under_way);
            if state.waiting.len() >= WAITING_MAX {
                return Err(Errno::AGAIN);
            }
            state.waiting.insert(id, poke);
        }
        self.changed.notify_all();
        job.core.replace.notify();
        let result = act();
        locked(&self.under_way).waiting.remove(&id);
        result
    }

    /// Watches until the end.
    pub(crate) fn watch(&self, core: &Core) {
        let mut state = locked(&self.under_way);
        loop {
            if state.ended && state.waiting.is_empty() {
                return;
            }
            if state.waiting.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            for (id, poke) in &state.waiting {
                if !core.listener.is_waiting(*id) {
                    poke.act();
                }
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// No more calls will come.
    pub(crate) fn end(&self) {
        locked(&self.under_way).ended = true;
        self.changed.notify_all();
    }
}

impl Poke {
    fn act(&self) {
        match self {
            Poke::Fifo(fifo) => {
                let path = magic(fifo);
                let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
                // Closed at once: it was only to be there.
                let _ = call_fd(libc::SYS_openat, &mut [libc::AT_FDCWD.into(), path.as_c_str().into(), flags.into()]);
            }
            Poke::Socket(socket) => {
                let _ = call(libc::SYS_shutdown, &mut [socket.into(), libc::SHUT_RDWR.into()]);
            }
        }
    }
}
