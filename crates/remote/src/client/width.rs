//! How many connections over TCP a transfer uses: more while that makes it faster.
//!
//! One connection has what its windows and its control of congestion give it, which over a long or lossy way is little; several have more, and take more
//! from others on the same link. So it begins with few, and goes on to half as many more as long as each step brings at least [`GAIN`]; where one did not, the number
//! goes back to what it was, and is tried again after [`SETTLED`], since the way may have changed. A step is judged by the second look after it, when new
//! connections have found their rate, and only while there is more to move than the connections take. None is made while those there are still become faster by
//! themselves: new ones begin by filling the queue of the link, and what that loses costs the old ones many round trips.
//!
//! Nothing here reads a clock or moves a byte: [`Width::look`] is told what was seen, and says the number.

use std::time::Duration;

/// Connections to one server for one transfer, at most: what servers allow an address, and what tools ask for (aria2).
pub const CONNECTIONS_MAX: usize = 16;
/// Connections to begin with, so that one that stalls does not hold up all, and a short transfer need not look for more.
const FIRST: usize = 4;
/// A step that brings less is taken back.
const GAIN: f64 = 1.1;
/// How long a number that was found is kept.
const SETTLED: Duration = Duration::from_secs(30);
/// Between two looks: a step shows after some round trips, in which new connections find their rate.
const LOOK_ROUNDS: u32 = 8;
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));

/// The number of connections.
#[derive(Debug)]
pub(super) struct Width {
    now: usize,
    max: usize,
    /// The number before the last step, and bytes a second with it.
    before: Option<(usize, f64)>,
    /// Bytes a second at the last look without a step.
    last: Option<f64>,
    /// Time until it is tried again whether more are faster.
    settled: Duration,
    /// Connections are new, and still find their rate.
    finding: bool,
}

impl Width {
    pub(super) fn new() -> Self {
        Self { now: FIRST, max: CONNECTIONS_MAX, before: None, last: None, settled: Duration::ZERO, finding: false }
    }

    pub(super) const fn now(&self) -> usize {
        self.now
    }

    /// How long until the next look, at this round trip.
    pub(super) fn every(rtt: Duration) -> Duration {
        (rtt * LOOK_ROUNDS).clamp(LOOK.0, LOOK.1)
    }

    /// What was moved since the last look, and whether all connections had something to do; answers the number from now on.
    pub(super) fn look(&mut self, bytes: u64, time: Duration, busy: bool) -> usize {
        if !busy || time.is_zero() {
            // What was seen says nothing of the connections.
            (self.before, self.last) = (None, None);
            return self.now;
        }
        if std::mem::take(&mut self.finding) {
            return self.now;
        }
        if !self.settled.is_zero() {
            self.settled = self.settled.saturating_sub(time);
            return self.now;
        }
        let rate = bytes as f64 / time.as_secs_f64();
        if self.before.is_none() && self.last.replace(rate).is_none_or(|last| rate > GAIN * last) {
            return self.now;
        }
        self.last = None;
        match self.before.take() {
            Some((count, before)) if rate < GAIN * before => {
                (self.now, self.settled) = (count, SETTLED);
            }
            _ if self.now < self.max => {
                (self.before, self.finding) = (Some((self.now, rate)), true);
                self.now = (self.now + (self.now / 2).max(1)).min(self.max);
            }
            _ => self.settled = SETTLED,
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Numbers at each look over a way that gives each connection `each` bytes a second, and `all` of them at most.
    fn over(width: &mut Width, each: f64, all: f64, looks: usize) -> Vec<usize> {
        let look = |_| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let bytes = (each * width.now() as f64).min(all) as u64;
            width.look(bytes, SECOND, true)
        };
        (0..looks).map(look).collect()
    }

    #[test]
    fn there_are_more_as_long_as_that_is_faster() {
        // One connection has a tenth of the link.
        let numbers = over(&mut Width::new(), 1e6, 10e6, 20);
        let last = *numbers.last().expect("looked");
        assert!((9..=14).contains(&last), "{numbers:?}");
        // Each has so little that all there may be are used, and no more.
        let numbers = over(&mut Width::new(), 1e5, 1e9, 60);
        assert_eq!(
            (numbers.iter().max(), numbers.last()),
            (Some(&CONNECTIONS_MAX), Some(&CONNECTIONS_MAX)),
            "{numbers:?}"
        );
    }

    #[test]
    fn where_more_are_no_faster_there_are_as_few_as_at_first() {
        let mut width = Width::new();
        let numbers = over(&mut width, 1e8, 1e8, 200);
        let more = numbers.iter().filter(|count| **count > FIRST).count();
        assert!(more <= 2 * (200 / 30 + 1), "it is tried for two looks each half minute: {numbers:?}");
        // The way becomes a worse one.
        let numbers = over(&mut width, 1e6, 1e8, 60);
        assert_eq!(numbers.last(), Some(&CONNECTIONS_MAX), "{numbers:?}");
    }

    #[test]
    fn there_are_no_more_while_those_there_become_faster_by_themselves() {
        let mut width = Width::new();
        let mut rate = 1_000.0;
        for _ in 0..12 {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let bytes = rate as u64;
            assert_eq!(width.look(bytes, SECOND, true), FIRST);
            rate *= 1.5;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let bytes = rate as u64;
        width.look(bytes, SECOND, true);
        assert!(width.look(bytes, SECOND, true) > FIRST, "they no longer do");
    }

    #[test]
    fn what_was_not_busy_is_not_judged() {
        let mut width = Width::new();
        for _ in 0..10 {
            assert_eq!(width.look(77, SECOND, false), FIRST);
        }
        assert_eq!(Width::every(Duration::from_millis(1)), LOOK.0);
        assert_eq!(Width::every(Duration::from_millis(300)), Duration::from_millis(2_400));
        assert_eq!(Width::every(Duration::from_secs(9)), LOOK.1);
    }
}
