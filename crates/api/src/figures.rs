//! How a node does: what it counts in a while, as it is kept in the catalogue and put together of several.

use holdfast_meta::figures::{BUCKETS_US, Timed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Kinds of operations that are told of one while; the rest is `others`.
pub const KINDS_MAX: usize = 24;
/// Accounts and clients that are told of one while; the rest is `others`.
pub const SOURCES_MAX: usize = 12;
/// Name of the rest.
const OTHERS: &str = "others";

/// Operations of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Operations {
    /// How many.
    pub count: u64,
    /// Of them, answered with an error of the server, or refused by the catalogue.
    pub failed: u64,
    /// Time of all, in microseconds.
    pub sum_us: u64,
    /// How many took up to 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250 ms, 1, 5, 30 and 120 s, and longer.
    pub buckets: Vec<u64>,
}

impl From<Timed> for Operations {
    fn from(timed: Timed) -> Self {
        Self { count: timed.count, failed: timed.failed, sum_us: timed.sum_us, buckets: timed.buckets.to_vec() }
    }
}

impl Operations {
    fn add(&mut self, more: &Self) {
        self.count += more.count;
        self.failed += more.failed;
        self.sum_us += more.sum_us;
        self.buckets.resize(self.buckets.len().max(more.buckets.len()), 0);
        for (sum, more) in self.buckets.iter_mut().zip(&more.buckets) {
            *sum += more;
        }
    }

    /// Milliseconds within which so large a part of them was done: the upper bound of the bucket.
    pub fn within_ms(&self, share: f64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let wanted = (self.count as f64 * share).ceil();
        let mut seen = 0;
        for (count, bound) in self.buckets.iter().zip(BUCKETS_US) {
            seen += count;
            if seen as f64 >= wanted {
                return bound as f64 / 1e3;
            }
        }
        BUCKETS_US.last().map_or(0.0, |bound| *bound as f64 / 1e3)
    }
}

/// What came from and went to somebody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bytes {
    /// Requests.
    pub requests: u64,
    /// Body bytes received.
    pub bytes_in: u64,
    /// Body bytes sent.
    pub bytes_out: u64,
}

impl Bytes {
    /// Adds another.
    pub fn add(&mut self, more: Self) {
        self.requests += more.requests;
        self.bytes_in += more.bytes_in;
        self.bytes_out += more.bytes_out;
    }
}

/// A while of a node, or of several put together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figures {
    /// How long the while was, in milliseconds.
    pub ms: u64,
    /// Operations by kind: `dav PUT`, `api GET folders`, `site GET`, `catalogue commit_file`.
    pub operations: BTreeMap<String, Operations>,
    /// Bytes by account, those with most of them.
    pub accounts: BTreeMap<String, Bytes>,
    /// Bytes by client (address and program), those with most of them.
    pub clients: BTreeMap<String, Bytes>,
    /// Requests being worked on at its end.
    pub running: u64,
    /// Memory at its end.
    pub memory_bytes: u64,
}

impl Figures {
    /// Whether nothing happened.
    pub fn is_idle(&self) -> bool {
        self.operations.is_empty() && self.accounts.is_empty() && self.clients.is_empty()
    }

    /// Adds what another node did in the same while.
    pub fn beside(&mut self, other: &Self) {
        let ms = self.ms.max(other.ms);
        self.join(other);
        self.ms = ms;
        self.running += other.running;
        self.memory_bytes += other.memory_bytes;
    }

    /// Adds the while after it.
    pub fn then(&mut self, next: &Self) {
        self.join(next);
        self.running = next.running;
        self.memory_bytes = next.memory_bytes;
    }

    fn join(&mut self, other: &Self) {
        self.ms += other.ms;
        for (kind, more) in &other.operations {
            self.operations.entry(kind.clone()).or_default().add(more);
        }
        for (sums, more) in [(&mut self.accounts, &other.accounts), (&mut self.clients, &other.clients)] {
            for (name, more) in more {
                sums.entry(name.clone()).or_default().add(*more);
            }
        }
    }

    /// Keeps the most of everything, and puts the rest together.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.operations = most(self.operations, KINDS_MAX, |it| it.count, |sum, more| sum.add(&more));
        let bytes = |it: &Bytes| it.bytes_in + it.bytes_out;
        self.accounts = most(self.accounts, SOURCES_MAX, bytes, Bytes::add);
        self.clients = most(self.clients, SOURCES_MAX, bytes, Bytes::add);
        self
    }
}

fn most<T: Default>(
    all: BTreeMap<String, T>,
    most: usize,
    weight: impl Fn(&T) -> u64,
    add: impl Fn(&mut T, T),
) -> BTreeMap<String, T> {
    if all.len() <= most {
        return all;
    }
    let mut all: Vec<(String, T)> = all.into_iter().collect();
    all.sort_by_key(|(_, it)| std::cmp::Reverse(weight(it)));
    let mut kept = BTreeMap::new();
    for (at, (name, it)) in all.into_iter().enumerate() {
        let name = if at < most - 1 { name } else { OTHERS.to_owned() };
        add(kept.entry(name).or_default(), it);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_put_together_is_the_sum_and_stays_small() {
        let mut figures = Figures { ms: 10_000, running: 1, ..Figures::default() };
        for number in 0..100_u64 {
            let bytes = Bytes { requests: 1, bytes_in: number, bytes_out: 0 };
            figures.accounts.insert(format!("account-{number}"), bytes);
        }
        let small = figures.clone().bounded();
        assert_eq!(small.accounts.len(), SOURCES_MAX);
        assert_eq!(small.accounts.values().map(|it| it.bytes_in).sum::<u64>(), 4_950);
        assert!(small.accounts.contains_key("account-99") && small.accounts.contains_key(OTHERS));
        let (mut together, mut after) = (figures.clone(), figures.clone());
        together.beside(&figures);
        after.then(&figures);
        assert_eq!((together.ms, together.running, after.ms, after.running), (10_000, 2, 20_000, 1));
    }

    #[test]
    fn latencies_are_told_by_the_bucket_that_has_them() {
        let mut timed = Timed::default();
        for ms in [1, 1, 1, 1, 1, 1, 1, 1, 1, 400] {
            timed.add(Duration::from_millis(ms), true);
        }
        let operations = Operations::from(timed);
        assert_eq!((operations.within_ms(0.5), operations.within_ms(0.99)), (1.0, 1_000.0));
        assert!(Operations::default().within_ms(0.5) < 1.0);
    }
}
