//! How often this process does each operation of a catalogue, and how long that takes.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Upper bounds of the buckets of latencies in microseconds; one more has what is longer.
pub const BUCKETS_US: [u64; 14] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    1_000_000,
    5_000_000,
    30_000_000,
    120_000_000,
];

/// An operation's count and latencies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timed {
    /// How often.
    pub count: u64,
    /// Of them, refused or failed.
    pub failed: u64,
    /// Time of all.
    pub sum_us: u64,
    /// How many took so long.
    pub buckets: [u64; BUCKETS_US.len() + 1],
}

impl Timed {
    /// One more.
    pub fn add(&mut self, took: Duration, well: bool) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.count += 1;
        self.failed += u64::from(!well);
        self.sum_us = self.sum_us.saturating_add(us);
        let bucket = BUCKETS_US.iter().position(|&bound| us <= bound).unwrap_or(BUCKETS_US.len());
        self.buckets[bucket] += 1;
    }
}

/// By name; names are those of operations, so there are few.
static OPERATIONS: Mutex<BTreeMap<&'static str, Timed>> = Mutex::new(BTreeMap::new());

/// Runs an operation and counts it.
pub(crate) async fn timed<T, E>(name: &'static str, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let began = Instant::now();
    let done = work.await;
    OPERATIONS.lock().entry(name).or_default().add(began.elapsed(), done.is_ok());
    done
}

/// What was counted since this was asked last.
pub fn take() -> BTreeMap<&'static str, Timed> {
    std::mem::take(&mut *OPERATIONS.lock())
}
