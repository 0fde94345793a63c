//! When requests become due in the open model: every so often, whatever became of the earlier ones.
//!
//! A request that finds no free connection waits, and its latency counts from when it was due. So a server that stalls
//! for a second is seen by all requests of that second, not by one for each connection (coordinated omission).

use std::time::{Duration, Instant};

/// The requests one thread has to begin: every `threads`-th of all.
#[derive(Debug)]
pub(super) struct Schedule {
    first: Instant,
    gap: Duration,
    /// Requests begun.
    issued: u64,
    /// Requests there are, when their number is limited.
    total: Option<u64>,
    until: Option<Instant>,
}

impl Schedule {
    /// `rate` of all threads together; this is thread `index` of `threads`.
    pub(super) fn new(
        begun: Instant,
        rate: f64,
        (index, threads): (u32, u32),
        total: Option<u64>,
        until: Option<Instant>,
    ) -> Self {
        let all = Duration::from_secs_f64(1.0 / rate);
        let mine = total.map(|total| (total + u64::from(threads - 1 - index)) / u64::from(threads));
        Self { first: begun + all * index, gap: all * threads, issued: 0, total: mine, until }
    }

    /// When the next request is due; `None` when there is none.
    pub(super) fn next(&self) -> Option<Instant> {
        if self.total.is_some_and(|total| self.issued >= total) {
            return None;
        }
        let due = self.first + Duration::from_nanos(nanos(self.gap).saturating_mul(self.issued));
        self.until.is_none_or(|until| due < until).then_some(due)
    }

    /// Takes the next request if it is due.
    pub(super) fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next().filter(|&due| due <= now)?;
        self.issued += 1;
        Some(due)
    }

    /// Requests that were due by `now` and have not begun.
    pub(super) fn overdue(&self, now: Instant) -> u64 {
        let by = self.until.map_or(now, |until| until.min(now));
        let passed = nanos(by.saturating_duration_since(self.first));
        // Those due at 0, gap, 2 gap, … before `by`.
        let due = passed.div_ceil(nanos(self.gap).max(1));
        let due = self.total.map_or(due, |total| total.min(due));
        due.saturating_sub(self.issued)
    }
}

/// Runs last at most a day, which is far from the limit.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn threads_share_the_requests_of_a_rate_without_a_gap_or_a_double() {
        let begun = Instant::now();
        let mut all: Vec<Instant> = Vec::new();
        for index in 0..3 {
            let mut schedule = Schedule::new(begun, 1000.0, (index, 3), Some(10), None);
            all.extend(std::iter::from_fn(|| schedule.take(begun + 100 * MS)));
            assert_eq!(schedule.next(), None);
        }
        all.sort_unstable();
        assert_eq!(all, (0..10).map(|index| begun + index * MS).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_due_before_its_time_or_after_the_end() {
        let begun = Instant::now();
        let mut schedule = Schedule::new(begun, 100.0, (0, 1), None, Some(begun + 25 * MS));
        assert_eq!(schedule.take(begun), Some(begun));
        assert_eq!(schedule.take(begun + 9 * MS), None);
        assert_eq!(schedule.next(), Some(begun + 10 * MS));
        assert_eq!(schedule.take(begun + 60 * MS), Some(begun + 10 * MS));
        assert_eq!(schedule.take(begun + 60 * MS), Some(begun + 20 * MS));
        assert_eq!(schedule.take(begun + 60 * MS), None);
    }

    #[test]
    fn what_was_due_and_not_begun_is_counted() {
        let begun = Instant::now();
        let mut schedule = Schedule::new(begun, 100.0, (0, 1), None, Some(begun + 35 * MS));
        schedule.take(begun);
        assert_eq!(schedule.overdue(begun + 15 * MS), 1);
        assert_eq!(schedule.overdue(begun + 500 * MS), 3, "at 10, 20 and 30 ms");
    }
}
