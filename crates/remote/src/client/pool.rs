//! The connections of a [`Space`](super::Space): which one a call takes, and over TCP how many there are ([`Width`]).
//!
//! A call takes the connection with the fewest under way. Those that are not in use are not made; those that no longer are end when nothing is under way on them
//! and the server closes them. There is one until the round trip is known, which says how many windows are worth having at first.
//!
//! A pool is given up when its transport no longer carries anything: whoever waits for it is told so, and goes by another.

use super::link::Link;
use super::lossy::Packets;
use super::voice::Voice;
use super::width::{CONNECTIONS_MAX, Width};
use super::{Network, Options, Plane};
use holdfast_auth::Secret;
use holdfast_base::Result;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// The round trip while none is known.
const RTT_UNKNOWN: Duration = Duration::from_millis(100);

/// Looks running at which a connection had something on its way, and the time between them: a ping alone is there sooner.
const BEHIND: (u32, Duration) = (3, Duration::from_secs(1));

/// Connections.
pub(super) struct Pool {
    plane: Plane,
    lines: Vec<Arc<Line>>,
    /// Whether their number follows what is worth it.
    adapts: bool,
    given_up: watch::Sender<bool>,
    /// How many of them are used.
    wide: watch::Sender<usize>,
    /// Bytes of content that all of them were given, or brought.
    moved: AtomicU64,
}

struct Line {
    link: Link,
    /// Calls under way.
    calls: AtomicUsize,
}

/// A connection, for a call.
pub(super) struct Turn(Arc<Line>);

impl Deref for Turn {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.0.link
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    /// So many connections; without a number, one over QUIC, and over TCP as many as the network is worth, once [`Self::begin`] was called.
    pub(super) fn new(options: &Options, connections: Option<usize>, token: &Secret) -> Result<Arc<Self>> {
        let adapts = connections.is_none() && options.plane == Plane::Tcp;
        let most = if adapts { CONNECTIONS_MAX } else { connections.unwrap_or(1).max(1) };
        // Authorities are read once.
        let tls = options.tls()?;
        let line = || {
            let link = Link::with(options, tls.clone(), token, Arc::new(Voice::new()))?;
            Ok(Arc::new(Line { link, calls: AtomicUsize::new(0) }))
        };
        let lines = (0..most).map(|_| line()).collect::<Result<Vec<_>>>()?;
        let (wide, given_up) = (watch::Sender::new(if adapts { 1 } else { most }), watch::Sender::new(false));
        Ok(Arc::new(Self { plane: options.plane, lines, adapts, given_up, wide, moved: AtomicU64::new(0) }))
    }

    /// The first answer has come, and with it the round trip. Within a runtime.
    pub(super) fn begin(self: &Arc<Self>) {
        if self.adapts {
            let width = Width::first(self.network().map_or(RTT_UNKNOWN, |network| network.rtt));
            self.wide.send_replace(width.now());
            tokio::spawn(adapt(Arc::downgrade(self), width));
        }
    }

    /// By which transport they are.
    pub(super) const fn plane(&self) -> Plane {
        self.plane
    }

    /// Whether there are several, or may come to be.
    pub(super) fn is_wide(&self) -> bool {
        self.adapts || self.width() > 1
    }

    /// Nothing comes by it any more.
    pub(super) fn give_up(&self) {
        self.given_up.send_replace(true);
    }

    /// What `work` answers, or nothing if this is given up before.
    pub(super) async fn unless_given_up<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut given_up = self.given_up.subscribe();
        tokio::select! {
            biased;
            done = work => Some(done),
            _ = given_up.wait_for(|given_up| *given_up) => None,
        }
    }

    /// For how long the plane of QUIC has heard nothing of the server though something is under way.
    pub(super) fn silence(&self) -> Option<Duration> {
        let is_used = self.lines.iter().any(|line| line.calls.load(Ordering::Relaxed) > 0);
        let silence = self.lines.iter().filter_map(|line| line.link.dial().silence()).min()?;
        is_used.then_some(silence)
    }

    /// How many connections are used.
    pub(super) fn width(&self) -> usize {
        *self.wide.borrow()
    }

    /// The same, to be followed.
    pub(super) fn widths(&self) -> watch::Receiver<usize> {
        self.wide.subscribe()
    }

    /// The connection with the fewest calls under way.
    pub(super) fn link(&self) -> Turn {
        let used = &self.lines[..self.width().clamp(1, self.lines.len())];
        let least = used.iter().min_by_key(|line| line.calls.load(Ordering::Relaxed));
        Self::take(least.unwrap_or(&self.lines[0]))
    }

    /// This one.
    pub(super) fn at(&self, index: usize) -> Turn {
        Self::take(&self.lines[index % self.lines.len()])
    }

    fn take(line: &Arc<Line>) -> Turn {
        line.calls.fetch_add(1, Ordering::Relaxed);
        Turn(line.clone())
    }

    /// Content was given to a connection, or came by it.
    pub(super) fn moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of content that went through all of them: what lies in the kernel's queues did not. A new connection has one that takes megabytes at once.
    pub(super) fn bytes(&self) -> u64 {
        self.moved.load(Ordering::Relaxed).saturating_sub(self.queued())
    }

    /// Bytes that were given to connections and have not arrived, as far as it is known.
    pub(super) fn queued(&self) -> u64 {
        self.lines.iter().map(|line| line.link.dial().queued()).sum()
    }

    /// The round trip by now, over TCP. What [`Self::network`] tells is how long it took to connect, which one packet that overtook others makes short.
    pub(super) fn smoothed_rtt(&self) -> Option<Duration> {
        self.lines.iter().find_map(|line| line.link.dial().smoothed_rtt())
    }

    /// What the kernel counts of all of them, over TCP.
    pub(super) fn packets(&self) -> Packets {
        self.lines.iter().map(|line| line.link.dial().packets()).sum()
    }

    /// Waits until one of the connections has something on its way for a while: who waits for it then waits for the network, and not for what the server does
    /// with all that it has.
    pub(super) async fn behind(&self) {
        let mut looks = vec![0; self.lines.len()];
        while looks.iter().all(|looks| *looks < BEHIND.0) {
            sleep(BEHIND.1).await;
            for (line, looks) in self.lines.iter().zip(&mut looks) {
                *looks = if line.link.dial().carries() { *looks + 1 } else { 0 };
            }
        }
    }

    /// How the network is, as far as it is known.
    pub(super) fn network(&self) -> Option<Network> {
        let seen = self.lines.iter().find_map(|line| line.link.dial().network())?;
        Some(Network { connections: self.width(), ..seen })
    }

    fn is_busy(&self) -> bool {
        let calls: usize = self.lines.iter().map(|line| line.calls.load(Ordering::Relaxed)).sum();
        calls >= self.width()
    }
}

/// Looks again and again how many connections are worth it, as long as they are used.
async fn adapt(pool: Weak<Pool>, mut width: Width) {
    let (mut before, mut at, mut was_busy) = (0, Instant::now(), false);
    loop {
        let rtt = {
            let Some(pool) = pool.upgrade() else { return };
            pool.network().map_or(RTT_UNKNOWN, |network| network.rtt)
        };
        sleep(Width::every(rtt)).await;
        let Some(pool) = pool.upgrade() else { return };
        let (moved, now, is_busy) = (pool.bytes(), Instant::now(), pool.is_busy());
        let count = width.look(moved.saturating_sub(before), now - at, was_busy && is_busy);
        if count != pool.width() {
            tracing::debug!(from = pool.width(), to = count, "another number of connections");
            pool.wide.send_replace(count);
        }
        (before, at, was_busy) = (moved, now, is_busy);
    }
}
