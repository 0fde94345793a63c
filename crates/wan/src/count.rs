//! What a link did: the truth that a measurement through it is held against.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Packets and what they take on the link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// How many.
    pub packets: u64,
    /// Their bytes, the overhead of the link included.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn count(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }
}

/// How often a rule was asked, and how often it hit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Packets it was asked for.
    pub trials: u64,
    /// Packets it chose.
    pub hits: u64,
}

impl Tally {
    /// Passes the rule's answer on.
    pub(crate) fn count(&mut self, hit: bool) -> bool {
        self.trials += 1;
        self.hits += u64::from(hit);
        hit
    }

    /// Hits of a hundred.
    pub fn percent(self) -> f64 {
        if self.trials == 0 { 0.0 } else { self.hits as f64 / self.trials as f64 * 100.0 }
    }
}

/// What a link did in one direction.
///
/// With netem's rules a packet can be chosen for loss and duplication at once, and then arrives once: the tallies say what rules chose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// What came in.
    pub offered: Traffic,
    /// What found the queue full.
    pub overflowed: Traffic,
    /// Chosen to be lost.
    pub loss: Tally,
    /// Of which one bit was flipped.
    pub corruption: Tally,
    /// Of which a copy was made.
    pub duplication: Tally,
    /// Which skipped the delay.
    pub reordering: Tally,
    /// What came out, copies included.
    pub delivered: Traffic,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.trials += other.trials;
        self.hits += other.hits;
    }
}
