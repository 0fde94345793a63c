//! A limit on bytes a second: a bucket that fills at the rate and holds a second of it.

use crate::signs;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A sign is given this often while something waits for its turn, far below any time of a stall.
const SIGN: Duration = Duration::from_millis(250);

/// What the bucket holds: a second of the rate, so that a pause is made up for and no more.
const HELD: Duration = Duration::from_secs(1);

/// The bucket, as the time at which it is empty: who takes bytes moves that on, and waits until it has come.
#[derive(Debug)]
pub(super) struct Rate {
    bytes_per_second: u64,
    empty_at: Mutex<Instant>,
}

impl Rate {
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), empty_at: Mutex::new(Instant::now()) }
    }

    /// Waits until `bytes` more may go.
    pub(super) async fn take(&self, bytes: u64) {
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let turn = {
            let mut empty_at = self.empty_at.lock();
            let from = (*empty_at).max(Instant::now().checked_sub(HELD).unwrap_or(*empty_at));
            *empty_at = from + cost;
            *empty_at
        };
        // Who takes first, waits for what it takes: so the mean is right from the first byte.
        let signs = signs::current();
        loop {
            let left = turn.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sleep(left.min(SIGN)).await;
            signs.alive();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_who_take_together_get_the_rate_and_no_more() {
        let rate = Rate::new(1_000);
        let begun = Instant::now();
        futures_util::future::join_all((0..100).map(|_| rate.take(100))).await;
        assert!(begun.elapsed() >= Duration::from_secs(9) && begun.elapsed() <= Duration::from_millis(10_100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_made_up_for_by_a_second_at_most() {
        let rate = Rate::new(1_000);
        sleep(Duration::from_hours(1)).await;
        let begun = Instant::now();
        rate.take(3_000).await;
        assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}
