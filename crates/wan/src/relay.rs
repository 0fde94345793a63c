//! The threads that carry packets from one device through a [`Link`] to the other, one for each direction.
//!
//! Before the link stands what is no chance and can be changed while packets go: whether it is cut, and what a middle box does to UDP ([`Datagrams`]).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::count::{Counters, Traffic};
use crate::link::{Link, Nanos};
use crate::settings::Datagrams;

/// The longest packet a TUN device can hand over.
const PACKET_BYTES_MAX: usize = 65_536;
/// Packets that are read before those that are due are written again.
const BATCH: usize = 64;
/// Sleeps are not shorter than this, so at high rates several packets leave together: at 1 Gbit/s four. Their times are kept all the same.
const SLEEP_MIN: Nanos = 50_000;
/// A packet that leaves later than this was not treated as asked.
const LATE: Nanos = 1_000_000;
/// How often the forwarder looks what it has cost.
const COST_INTERVAL: Nanos = 100_000_000;
/// How much sooner the forwarders run than others who want the processor, where they may not simply come first.
const NICE: i32 = -15;
/// What UDP may be ahead of its own rate: what a policer lets through at once.
const BURST: Nanos = 50_000_000;
/// Protocols of IPv4 (RFC 790).
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What was forwarded in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarded {
    /// What the link did.
    pub link: Counters,
    /// Packets that the receiving kernel did not take: those of which the flipped bit made them no IP packet.
    pub refused: u64,
    /// Packets that left more than 1 ms later than they should have, because the forwarder did not get the processor.
    pub late: u64,
    /// The latest of them, in microseconds.
    pub worst_late_us: u64,
    /// Packets of TCP that came out, with their bytes, the link's overhead not included.
    #[serde(default)]
    pub tcp: Traffic,
    /// The same of UDP.
    #[serde(default)]
    pub udp: Traffic,
    /// What was kept from the link: all while it was cut, UDP by a middle box ([`Datagrams`]).
    #[serde(default)]
    pub blocked: Traffic,
    /// CPU time of the forwarder, in microseconds, as of a tenth of a second ago: with what the receiving kernel does with packets.
    pub cpu_us: u64,
}

/// What a forwarder shares with those who look at it.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    forwarded: Mutex<Forwarded>,
    datagrams: Mutex<Datagrams>,
    is_cut: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Watched {
    pub(crate) fn forwarded(&self) -> Forwarded {
        *self.forwarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What ended the forwarder, if it is not the end of the link.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What becomes of UDP from now on.
    pub(crate) fn treat(&self, datagrams: Datagrams) {
        *self.datagrams.lock().unwrap_or_else(PoisonError::into_inner) = datagrams;
    }

    /// Whether anything gets through from now on.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    fn datagrams(&self) -> Datagrams {
        *self.datagrams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, forwarded: Forwarded) {
        *self.forwarded.lock().unwrap_or_else(PoisonError::into_inner) = forwarded;
    }
}

/// The monotonic clock.
pub(crate) fn now() -> Nanos {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> Nanos {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    Nanos::try_from(tv_sec).unwrap_or(0) * 1_000_000_000 + Nanos::try_from(tv_nsec).unwrap_or(0)
}

/// Forwards until `stop` can be read.
pub(crate) fn forward(from: &OwnedFd, to: &OwnedFd, link: Link, watched: &Arc<Watched>, stop: &OwnedFd) {
    // Without it the kernel may add 50 µs to each sleep.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
    // A network does not wait until programs leave it a processor. Where the user may not ask for that, packets are late, and counted.
    if crate::sys::run_first().is_err() {
        let _ = rustix::process::setpriority_process(None, NICE);
    }
    let relay =
        Relay { from, to, link, forwarded: Forwarded::default(), buffer: vec![0; PACKET_BYTES_MAX], policed_until: 0 };
    if let Err(error) = relay.run(watched, stop) {
        *watched.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }
}

struct Relay<'r> {
    from: &'r OwnedFd,
    to: &'r OwnedFd,
    link: Link,
    forwarded: Forwarded,
    buffer: Vec<u8>,
    /// When what UDP has sent would have gone at its own rate.
    policed_until: Nanos,
}

/// Whose packet it is.
fn protocol(packet: &[u8]) -> u8 {
    packet.get(9).copied().unwrap_or_default()
}

impl Relay<'_> {
    fn run(mut self, watched: &Watched, stop: &OwnedFd) -> io::Result<()> {
        let mut look_at = 0;
        loop {
            if now() >= look_at {
                look_at = now() + COST_INTERVAL;
                self.forwarded.cpu_us = read(ClockId::ThreadCPUTime) / 1_000;
            }
            let more = self.take(watched)?;
            self.give()?;
            self.forwarded.link = *self.link.counters();
            watched.set(self.forwarded);
            if !more && self.sleep(stop)? {
                return Ok(());
            }
        }
    }

    /// Reads what has arrived; answers whether there may be more.
    fn take(&mut self, watched: &Watched) -> io::Result<bool> {
        let (is_cut, datagrams) = (watched.is_cut.load(Ordering::Relaxed), watched.datagrams());
        for _ in 0..BATCH {
            match rustix::io::read(self.from, &mut self.buffer) {
                Ok(length) if is_cut || self.blocks(datagrams, length) => self.forwarded.blocked.count(length as u64),
                Ok(length) => self.link.push(now(), self.buffer[..length].to_vec()),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Whether a packet of this length, which is in the buffer, is kept from the link.
    fn blocks(&mut self, datagrams: Datagrams, length: usize) -> bool {
        if protocol(&self.buffer[..length]) != UDP {
            return false;
        }
        match datagrams {
            Datagrams::Pass => false,
            Datagrams::Drop => true,
            Datagrams::Police(rate) => {
                let (now, slot) = (now(), length as u64 * 1_000_000_000 / rate.max(1));
                let begins = self.policed_until.max(now);
                let is_late = begins > now + BURST;
                if !is_late {
                    self.policed_until = begins + slot;
                }
                is_late
            }
        }
    }

    /// Writes what is due.
    fn give(&mut self) -> io::Result<()> {
        loop {
            let (now, due) = (now(), self.link.next_due());
            let Some(packet) = self.link.pop(now) else { return Ok(()) };
            // What goes to the front has no time of its own.
            let late = due.filter(|&due| due > 0).map_or(0, |due| now.saturating_sub(due));
            self.forwarded.late += u64::from(late > LATE);
            self.forwarded.worst_late_us = self.forwarded.worst_late_us.max(late / 1_000);
            match rustix::io::write(self.to, &packet) {
                Ok(bytes) => match protocol(&packet) {
                    TCP => self.forwarded.tcp.count(bytes as u64),
                    UDP => self.forwarded.udp.count(bytes as u64),
                    _ => {}
                },
                // No IP packet any more; or the kernel has no memory for it, which a network answers with loss, too.
                Err(Errno::INVAL | Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN) => self.forwarded.refused += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for a packet or until one is due; answers whether the link ends.
    fn sleep(&self, stop: &OwnedFd) -> io::Result<bool> {
        let wait = self.link.next_due().map(|due| due.saturating_sub(now()).max(SLEEP_MIN));
        let wait = wait.and_then(|nanos| Timespec::try_from(Duration::from_nanos(nanos)).ok());
        let mut events = [PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut events, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(!events[1].revents().is_empty()),
            Err(error) => Err(error.into()),
        }
    }
}
