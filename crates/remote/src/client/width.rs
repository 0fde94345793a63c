//! How many connections over TCP a transfer uses: more while that makes it faster, and fewer where that makes it no slower.
//!
//! One connection has what its windows and its control of congestion give it, which over a long or lossy way is little; several have more, and take more
//! from others on the same link. So it begins with as many as windows need at this round trip ([`Width::first`]), and goes on to half as many more (while they are few, as many more) as long as each step brings at
//! least [`GAIN`]; where one did not, the number goes back to what it was, and then down, as long as [`KEPT`] of what came before is left: there, something else than connections
//! is the bottleneck. What is found is kept for [`SETTLED`], since the way may change. A step is judged by the second look after it, when new
//! connections have found their rate, and only while there is more to move than the connections take. None is made while those there are still become faster by
//! themselves: new ones begin by filling the queue of the link, and what that loses costs the old ones many round trips.
//!
//! Nothing here reads a clock or moves a byte: [`Width::look`] is told what was seen, and says the number.

use std::time::Duration;

/// Connections to one server for one transfer, at most: what servers allow an address, and what tools ask for (aria2).
pub const CONNECTIONS_MAX: usize = 16;
/// Connections to begin with, at most, so that one that stalls does not hold up all, and a short transfer need not look for more.
const FIRST_MAX: usize = 4;
/// What one connection's window lets through in a round trip: that of an upload at the server.
const WINDOW_BYTES: f64 = (1 << 20) as f64;
/// Bytes a second that windows are to leave room for at first: 1 Gbit/s. So up to 8 ms one connection does, and above 25 ms there are [`FIRST_MAX`].
const ROOM_FOR: f64 = 125e6;
/// A step to more that brings less is taken back.
const GAIN: f64 = 1.1;
/// A step to fewer that leaves less is taken back. All steps down are held against the same, so that together they cost no more.
const KEPT: f64 = 0.95;
/// How long a number that was found is kept.
const SETTLED: Duration = Duration::from_secs(30);
/// Between two looks: a step shows after some round trips, in which new connections find their rate.
const LOOK_ROUNDS: u32 = 8;
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));

/// A step, with the number before it and bytes a second then.
#[derive(Debug, Clone, Copy)]
enum Step {
    More(usize, f64),
    Fewer(usize, f64),
}

/// The number of connections.
#[derive(Debug)]
pub(super) struct Width {
    now: usize,
    max: usize,
    /// The last one, until it is judged.
    step: Option<Step>,
    /// Bytes a second at the last look without a step.
    last: Option<f64>,
    /// Time until it is tried again whether another number is better.
    settled: Duration,
    /// Connections are new, or have just become fewer, and still find their rate.
    finding: bool,
}

impl Width {
    /// To begin with, at this round trip.
    pub(super) fn first(rtt: Duration) -> Self {
        let windows = (rtt.as_secs_f64() * ROOM_FOR / WINDOW_BYTES).ceil();
        // Fewer than what fits in any number.
        let now = (1..FIRST_MAX).find(|count| *count as f64 >= windows).unwrap_or(FIRST_MAX);
        Self { now, max: CONNECTIONS_MAX, step: None, last: None, settled: Duration::ZERO, finding: false }
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
            (self.step, self.last) = (None, None);
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
        match self.step.take() {
            None if self.last.replace(rate).is_none_or(|last| rate > GAIN * last) => return self.now,
            Some(Step::More(before, was)) if rate < GAIN * was => {
                self.now = before;
                self.fewer(was.max(rate));
            }
            None | Some(Step::More(..)) => self.more(rate),
            Some(Step::Fewer(before, was)) if rate < KEPT * was => {
                (self.now, self.settled) = (before, SETTLED);
            }
            Some(Step::Fewer(_, was)) => self.fewer(was),
        }
        self.last = None;
        self.now
    }

    fn more(&mut self, rate: f64) {
        if self.now >= self.max {
            return self.fewer(rate);
        }
        self.step = Some(Step::More(self.now, rate));
        // Where there are few, a step is a large one, so that those that are missing are not missed for long.
        let more = if self.now < FIRST_MAX { self.now } else { self.now / 2 };
        (self.now, self.finding) = ((self.now + more).min(self.max), true);
    }

    /// Down from where more bring nothing.
    fn fewer(&mut self, rate: f64) {
        if self.now <= 1 {
            self.settled = SETTLED;
            return;
        }
        self.step = Some(Step::Fewer(self.now, rate));
        (self.now, self.finding) = (self.now - (self.now / 4).max(1), true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const FAR: Duration = Duration::from_millis(100);

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
    fn a_near_server_is_asked_over_one_and_a_far_one_over_as_many_as_windows_need() {
        for (rtt_ms, first) in
            [(0, 1), (1, 1), (8, 1), (10, 2), (16, 2), (20, 3), (25, 3), (26, 4), (100, 4), (3_000, 4)]
        {
            assert_eq!(Width::first(Duration::from_millis(rtt_ms)).now(), first, "{rtt_ms} ms");
        }
        // A short transfer is over before anybody looks twice.
        let mut near = Width::first(Duration::from_micros(300));
        assert_eq!(near.look(100_000_000, SECOND, true), 1);
        assert_eq!(near.look(700, SECOND, false), 1);
    }

    #[test]
    fn there_are_more_as_long_as_that_is_faster() {
        // One connection has a tenth of the link.
        for rtt in [Duration::ZERO, FAR] {
            let numbers = over(&mut Width::first(rtt), 1e6, 10e6, 40);
            let last = *numbers.last().expect("looked");
            assert!((9..=14).contains(&last), "{numbers:?}");
        }
        // Each has so little that all there may be are used, and no more.
        let numbers = over(&mut Width::first(FAR), 1e5, 1e9, 60);
        assert_eq!(numbers.iter().max(), Some(&CONNECTIONS_MAX), "{numbers:?}");
        let fewer = numbers[20..].iter().filter(|count| **count < CONNECTIONS_MAX).count();
        assert!(fewer <= 2 * 2, "fewer are tried for two looks each half minute: {numbers:?}");
    }

    #[test]
    fn where_fewer_are_no_slower_there_are_fewer() {
        // The window is not the bottleneck: one connection has all that there is.
        let mut width = Width::first(FAR);
        let numbers = over(&mut width, 1e8, 1e8, 200);
        assert_eq!(numbers[20], 1, "{numbers:?}");
        let more = numbers[20..].iter().filter(|count| **count > 1).count();
        assert!(more <= 2 * (200 / 30 + 1), "it is tried for two looks each half minute: {numbers:?}");
        // The way becomes a worse one, and a better one again.
        let numbers = over(&mut width, 1e6, 1e8, 100);
        assert!(numbers.contains(&CONNECTIONS_MAX), "{numbers:?}");
        let numbers = over(&mut width, 1e8, 1e8, 100);
        assert_eq!(numbers.last(), Some(&1), "{numbers:?}");
    }

    #[test]
    fn steps_down_cost_little_together() {
        // Each that is gone costs a little, which alone would not be felt.
        let rate = |width: &Width| 1_000_000 - 30_000 * (4_u64.saturating_sub(width.now() as u64));
        let mut width = Width::first(FAR);
        let mut settled = Vec::new();
        for _ in 0..200 {
            width.look(rate(&width), SECOND, true);
            if !width.settled.is_zero() {
                settled.push(rate(&width));
            }
        }
        assert_eq!(settled.iter().min(), Some(&970_000), "{settled:?}");
    }

    #[test]
    fn there_are_no_more_while_those_there_become_faster_by_themselves() {
        let mut width = Width::first(FAR);
        let mut rate = 1_000.0;
        for _ in 0..12 {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let bytes = rate as u64;
            assert_eq!(width.look(bytes, SECOND, true), FIRST_MAX);
            rate *= 1.5;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let bytes = rate as u64;
        width.look(bytes, SECOND, true);
        assert!(width.look(bytes, SECOND, true) > FIRST_MAX, "they no longer do");
    }

    #[test]
    fn what_was_not_busy_is_not_judged() {
        let mut width = Width::first(FAR);
        for _ in 0..10 {
            assert_eq!(width.look(77, SECOND, false), FIRST_MAX);
        }
        assert_eq!(Width::every(Duration::from_millis(1)), LOOK.0);
        assert_eq!(Width::every(Duration::from_millis(300)), Duration::from_millis(2_400));
        assert_eq!(Width::every(Duration::from_secs(9)), LOOK.1);
    }
}
