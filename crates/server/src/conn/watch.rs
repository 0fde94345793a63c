//! What a connection's timer knows of it: whether a request head is under way, whether requests run, whether a write is stuck.
//!
//! hyper tells none of this to its caller, so it is seen from both sides: the socket wrapper ([`super::socket`]) reports bytes, the
//! service reports requests. One small lock a connection; it is never contended in HTTP/1.

use crate::limits::{HEAD_BYTES_MAX, Limits};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Why a connection is ended by its timer or its socket wrapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing asked for too long: close politely.
    Idle,
    /// The request head takes too long.
    SlowHead,
    /// The request head is too large.
    LargeHead,
    /// The peer does not take what we send.
    StuckWrite,
}

#[derive(Debug)]
struct Facts {
    /// HTTP/2 has no head phase of its own: hyper bounds its header lists.
    http2: bool,
    requests: usize,
    /// Since when there has been no request.
    idle_since: Instant,
    /// When the first byte of a head came, and how many there are.
    head: Option<(Instant, usize)>,
    /// Since when a write has moved nothing.
    stuck_since: Option<Instant>,
    verdict: Option<Verdict>,
}

/// The shared view of one connection.
#[derive(Debug)]
pub(crate) struct Watch(Mutex<Facts>);

impl Watch {
    pub(crate) fn new(http2: bool, now: Instant) -> Self {
        Self(Mutex::new(Facts { http2, requests: 0, idle_since: now, head: None, stuck_since: None, verdict: None }))
    }

    /// Before a read: an HTTP/1 head that already has too many bytes and is still not whole ends the connection.
    pub(crate) fn before_read(&self) -> Option<Verdict> {
        let mut facts = self.0.lock();
        if facts.head.is_some_and(|(_, bytes)| bytes > HEAD_BYTES_MAX) {
            facts.verdict = Some(Verdict::LargeHead);
        }
        facts.verdict
    }

    /// `bytes` came in; `first` are the first of them.
    pub(crate) fn read(&self, bytes: usize, first: &[u8], now: Instant) {
        let mut facts = self.0.lock();
        if facts.http2 || facts.requests > 0 || bytes == 0 {
            return;
        }
        if facts.head.is_none() && first.starts_with(b"PRI") {
            facts.http2 = true;
            return;
        }
        let (since, before) = facts.head.unwrap_or((now, 0));
        facts.head = Some((since, before + bytes));
    }

    /// A write moved bytes (`true`) or found the socket full.
    pub(crate) fn wrote(&self, moved: bool, now: Instant) {
        let mut facts = self.0.lock();
        facts.stuck_since = if moved { None } else { facts.stuck_since.or(Some(now)) };
    }

    pub(crate) fn request_begins(&self) {
        let mut facts = self.0.lock();
        facts.requests += 1;
        facts.head = None;
    }

    pub(crate) fn request_ends(&self, now: Instant) {
        let mut facts = self.0.lock();
        facts.requests = facts.requests.saturating_sub(1);
        facts.idle_since = now;
    }

    /// What the timer finds at `now`. A verdict stays.
    pub(crate) fn judge(&self, limits: &Limits, now: Instant) -> Option<Verdict> {
        let mut facts = self.0.lock();
        let past = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        if facts.verdict.is_none() {
            facts.verdict = if facts.stuck_since.is_some_and(|since| past(since, limits.stall_timeout())) {
                Some(Verdict::StuckWrite)
            } else if facts.requests > 0 {
                None
            } else if let Some((since, _)) = facts.head {
                past(since, limits.head_timeout()).then_some(Verdict::SlowHead)
            } else {
                past(facts.idle_since, limits.idle_timeout()).then_some(Verdict::Idle)
            };
        }
        facts.verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn limits() -> Limits {
        Limits { head_timeout_s: 10, idle_timeout_s: 100, stall_timeout_s: 50, ..Limits::default() }
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_head_that_trickles_in_is_slow_and_a_silent_connection_is_idle() {
        let start = Instant::now();
        let watch = Watch::new(false, start);
        assert_eq!(watch.judge(&limits(), after(start, 99)), None);
        watch.read(1, b"G", after(start, 99));
        assert_eq!(watch.judge(&limits(), after(start, 108)), None);
        watch.read(1, b"E", after(start, 108));
        assert_eq!(watch.judge(&limits(), after(start, 109)), Some(Verdict::SlowHead));

        let silent = Watch::new(false, start);
        assert_eq!(silent.judge(&limits(), after(start, 100)), Some(Verdict::Idle));
    }

    #[test]
    fn a_running_request_is_never_idle_and_the_clock_starts_when_it_ends() {
        let start = Instant::now();
        let watch = Watch::new(false, start);
        watch.read(100, b"GET", start);
        watch.request_begins();
        assert_eq!(watch.judge(&limits(), after(start, 1_000)), None);
        watch.request_ends(after(start, 1_000));
        assert_eq!(watch.judge(&limits(), after(start, 1_099)), None);
        assert_eq!(watch.judge(&limits(), after(start, 1_100)), Some(Verdict::Idle));
    }

    #[test]
    fn a_write_that_moves_nothing_is_stuck_and_one_byte_frees_it() {
        let start = Instant::now();
        let watch = Watch::new(false, start);
        watch.request_begins();
        watch.wrote(false, start);
        watch.wrote(false, after(start, 40));
        watch.wrote(true, after(start, 49));
        assert_eq!(watch.judge(&limits(), after(start, 60)), None);
        watch.wrote(false, after(start, 60));
        assert_eq!(watch.judge(&limits(), after(start, 110)), Some(Verdict::StuckWrite));
    }

    #[test]
    fn a_head_over_its_size_ends_at_the_next_read_unless_it_became_a_request() {
        let start = Instant::now();
        let watch = Watch::new(false, start);
        watch.read(HEAD_BYTES_MAX + 1, b"GET", start);
        assert_eq!(watch.before_read(), Some(Verdict::LargeHead));

        let upload = Watch::new(false, start);
        upload.read(HEAD_BYTES_MAX + 1, b"PUT", start);
        upload.request_begins();
        assert_eq!(upload.before_read(), None);
    }
}
