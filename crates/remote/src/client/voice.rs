//! By which numbers this mount names itself.
//!
//! The server tells its stream of changes which are this mount's own. A change whose end is not known (its answer is missing, and it may yet be done) must
//! not be one of them, so the number is changed then: what comes under an old one is somebody else's. Another number stays: under that it tells what it has heard of.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct Voice {
    now: AtomicU64,
    stays: u64,
}

impl Voice {
    pub(super) fn new() -> Self {
        Self { now: AtomicU64::new(random()), stays: random() }
    }

    /// The number of now.
    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Acquire)
    }

    /// The one that stays.
    pub(super) const fn stays(&self) -> u64 {
        self.stays
    }

    /// Another number.
    pub(super) fn change(&self) {
        self.now.store(random(), Ordering::Release);
    }
}

/// Random, and not 0, which is nobody.
fn random() -> u64 {
    // Keyed with random bytes of the system.
    RandomState::new().hash_one(std::time::Instant::now()) | 1
}
