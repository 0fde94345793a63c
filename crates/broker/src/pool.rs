//! The threads that serve.
//!
//! So many receive at once as the options say; the kernel gives each call to one of them. Kernels before 6.11 do not wake who receives
//! when the last process has ended, so there one thread at a time waits with `poll` and receives, and the next takes its place.

use crate::core::{Core, locked};
use crate::error::Error;
use crate::listener::{Notice, Ready};
use crate::serve::serve;
use crate::sys;
use rustix::event::Timespec;
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, Scope};

/// Whoever waits for long is replaced.
#[derive(Default)]
pub(crate) struct Replace {
    state: Mutex<State>,
    changed: Condvar,
    leader: Mutex<()>,
}

#[derive(Default)]
struct State {
    live: usize,
    ended: bool,
    failed: Option<Error>,
}

impl Replace {
    /// Has it looked whether there are enough threads.
    pub(crate) fn notify(&self) {
        let _state = locked(&self.state);
        self.changed.notify_all();
    }

    fn end(&self, failed: Option<Error>) {
        let mut state = locked(&self.state);
        state.ended = true;
        state.failed = state.failed.take().or(failed);
        self.changed.notify_all();
    }

    /// Takes a thread out that is one too many.
    fn leave_if_too_many(&self, core: &Core) -> bool {
        let mut state = locked(&self.state);
        let too_many = state.live.saturating_sub(core.waits.count()) > core.options.threads;
        if too_many {
            state.live -= 1;
        }
        too_many
    }
}

/// Serves until the last process that has the filter is gone.
pub(crate) fn run(core: &Core) -> Result<(), Error> {
    let thread = |errno: Errno| Error::Thread(errno.into());
    // What no thread can do is better known before the first call waits.
    let can = std::thread::scope(|scope| scope.spawn(sys::settle_thread).join());
    can.map_err(|_| thread(Errno::IO))?.map_err(thread)?;
    let direct = wakes_at_the_end();
    std::thread::scope(|scope| {
        let watch = Builder::new().name("broker-watch".to_owned());
        watch.spawn_scoped(scope, || core.waits.watch(core)).map_err(Error::Thread)?;
        let result = manage(scope, core, direct);
        core.waits.end();
        result
    })
}

fn manage<'scope>(scope: &'scope Scope<'scope, '_>, core: &'scope Core, direct: bool) -> Result<(), Error> {
    let replace = &core.replace;
    let mut state = locked(&replace.state);
    loop {
        if state.ended && state.live == 0 {
            return state.failed.take().map_or(Ok(()), Err);
        }
        if !state.ended && state.live.saturating_sub(core.waits.count()) < core.options.threads {
            let builder = Builder::new().name("broker".to_owned());
            match builder.spawn_scoped(scope, move || work(core, direct)) {
                Ok(_) => state.live += 1,
                // With fewer threads it is slower.
                Err(_) if state.live > core.waits.count() => {}
                Err(error) => return Err(Error::Thread(error)),
            }
            continue;
        }
        state = replace.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

fn work(core: &Core, direct: bool) {
    let mut failed = sys::settle_thread().err().map(|errno| Error::Thread(errno.into()));
    while failed.is_none() {
        let received = if direct { receive(core) } else { receive_in_turn(core) };
        match received {
            Ok(Received::Call(notice)) => {
                answer(core, notice);
                if core.replace.leave_if_too_many(core) {
                    return;
                }
            }
            Ok(Received::Nothing) => {}
            Ok(Received::End) => break,
            Err(errno) => failed = Some(Error::Listener(errno.into())),
        }
    }
    locked(&core.replace.state).live -= 1;
    core.replace.end(failed);
}

enum Received {
    Call(Notice),
    Nothing,
    End,
}

fn receive(core: &Core) -> Result<Received, Errno> {
    if let Some(notice) = core.listener.receive()? {
        return Ok(Received::Call(notice));
    }
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let ended = core.listener.wait(Some(&now))? == Some(Ready::End);
    Ok(if ended { Received::End } else { Received::Nothing })
}

fn receive_in_turn(core: &Core) -> Result<Received, Errno> {
    let _leader = locked(&core.replace.leader);
    match core.listener.wait(None)? {
        Some(Ready::Call) => Ok(core.listener.receive()?.map_or(Received::Nothing, Received::Call)),
        Some(Ready::End) => Ok(Received::End),
        None => Ok(Received::Nothing),
    }
}

fn answer(core: &Core, notice: Notice) {
    crate::record::count(&core.counting.calls);
    // A judge of somebody else's may panic; the program must not wait for ever, and not get its way.
    let outcome = catch_unwind(AssertUnwindSafe(|| serve(core, notice))).unwrap_or_else(|_| Err(core.unserved()));
    // Who cannot be answered has gone, or the listener fails for all and the next one to receive says so.
    let _ = core.listener.answer(notice.id, outcome);
}

/// Whether the kernel wakes whoever receives when nobody is left.
fn wakes_at_the_end() -> bool {
    sys::kernel() >= (6, 11)
}
