//! Waiting for many sockets and one alarm at once: epoll, edge-triggered, with a timerfd beside the sockets because
//! epoll's own time-out counts whole milliseconds, and a rate of 10,000 a second does not.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// Marks the alarm; no socket has it.
const ALARM: u64 = u64::MAX;
/// Events taken by one system call.
const BATCH: usize = 256;

/// What happened to a socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    pub(super) token: u64,
    /// It can be written to, or has failed: a connection under way has ended one way or the other.
    pub(super) settled: bool,
    /// The peer will send no more.
    pub(super) hung_up: bool,
}

/// Room for what one system call gives; it stays in its thread.
pub(super) struct Batch(Vec<Event>);

impl Batch {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(BATCH))
    }
}

/// See the module.
pub(super) struct Poll {
    epoll: OwnedFd,
    alarm: OwnedFd,
    armed: Option<Instant>,
}

impl Poll {
    pub(super) fn new() -> std::io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let alarm = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &alarm, EventData::new_u64(ALARM), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll, alarm, armed: None })
    }

    /// Watches a socket until it is closed.
    pub(super) fn watch(&self, socket: impl AsFd, token: u64) -> std::io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), flags)?)
    }

    /// Waits for events, until `wake` or at most for `most`; they are appended to `found`.
    pub(super) fn wait(
        &mut self,
        now: Instant,
        wake: Option<Instant>,
        most: Duration,
        Batch(events): &mut Batch,
        found: &mut Vec<Ready>,
    ) -> std::io::Result<()> {
        let most = if wake.is_some_and(|wake| wake <= now) { Duration::ZERO } else { most };
        if let Some(wake) = wake.filter(|wake| *wake > now && self.armed != Some(*wake)) {
            self.arm(wake - now)?;
            self.armed = Some(wake);
        }
        events.clear();
        let most = timespec(most);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&most)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &*events {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == ALARM {
                self.armed = None;
                continue;
            }
            let failed = EventFlags::ERR | EventFlags::HUP;
            found.push(Ready {
                token,
                settled: flags.intersects(EventFlags::OUT | failed),
                hung_up: flags.intersects(EventFlags::RDHUP | failed),
            });
        }
        Ok(())
    }

    fn arm(&self, after: Duration) -> std::io::Result<()> {
        let never = timespec(Duration::ZERO);
        let value = Itimerspec { it_interval: never, it_value: timespec(after.max(Duration::from_nanos(1))) };
        timerfd_settime(&self.alarm, TimerfdTimerFlags::empty(), &value)?;
        Ok(())
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
