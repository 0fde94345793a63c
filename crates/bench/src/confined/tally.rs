//! What a worker counts, and what its threads need, made once.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::model::Model;

/// The slowest operation kept apart.
const SLOWEST_NS: u64 = 60_000_000_000;
/// What files are filled with, again and again: as much as a call writes at most.
const FILL_SEED: u64 = 2;

/// What is done with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Create,
    Write,
    Open,
    Append,
    Read,
    Close,
    Delete,
    Stat,
}

/// All of them, in order.
pub(super) const KINDS: [&str; 8] = ["create", "write", "open", "append", "read", "close", "delete", "stat"];

/// How often one kind of operation was done, and how long it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Operations {
    pub(super) count: u64,
    pub(super) sum_ns: u64,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) max_ns: u64,
}

/// Latencies of one kind in one thread.
pub(super) struct Tally {
    histogram: Histogram<u32>,
    pub(super) sum_ns: u64,
}

impl Tally {
    pub(super) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, SLOWEST_NS, 2);
        Self { histogram: histogram.expect("bounds and digits are constants the histogram accepts"), sum_ns: 0 }
    }

    pub(super) fn record(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.histogram.saturating_record(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
        self.sum_ns += other.sum_ns;
    }

    pub(super) fn clear(&mut self) {
        self.histogram.reset();
        self.sum_ns = 0;
    }

    pub(super) fn tell(&self) -> Operations {
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        let max_ns = if self.histogram.is_empty() { 0 } else { self.histogram.max() };
        Operations { count: self.histogram.len(), sum_ns: self.sum_ns, p50_ns: at(0.5), p99_ns: at(0.99), max_ns }
    }
}

/// What a thread needs.
pub(super) struct Kit {
    /// What is read goes here.
    pub(super) buffer: Vec<u8>,
    pub(super) tallies: [Tally; 8],
}

impl Kit {
    pub(super) fn new(bytes: u64) -> Self {
        let buffer = vec![0; usize::try_from(bytes).unwrap_or(0)];
        Self { buffer, tallies: std::array::from_fn(|_| Tally::new()) }
    }

    pub(super) fn clear(&mut self) {
        self.tallies.iter_mut().for_each(Tally::clear);
    }
}

/// What a worker needs.
pub(super) struct Kits {
    pub(super) content: Vec<u8>,
    pub(super) sum: Kit,
    pub(super) threads: Vec<Kit>,
}

impl Kits {
    pub(super) fn new(model: &Model) -> Self {
        let threads = (0..model.threads).map(|_| Kit::new(model.io_size)).collect();
        Self { content: fill(model), sum: Kit::new(0), threads }
    }
}

/// What is written, the same always: bytes that nothing can compress.
fn fill(model: &Model) -> Vec<u8> {
    let largest = usize::try_from(model.io_size.max(model.append)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; largest];
    crate::data::small_content(FILL_SEED, 0, 0, &mut bytes);
    bytes
}
