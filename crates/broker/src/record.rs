//! What a broker tells about what it decided.

use holdfast_policy::Operation;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// One decision.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The thread that asked, in the broker's PID namespace.
    pub pid: i32,
    /// Its executable, as the program sees it.
    pub program: &'a Path,
    /// What it wanted.
    pub operation: Operation,
    /// To what.
    pub path: &'a Path,
    /// The rule that decided.
    pub rule: Option<usize>,
    /// Whether it may.
    pub allowed: bool,
    /// What the program is told if it may not.
    pub errno: Option<i32>,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls that were received.
    pub calls: u64,
    /// Questions that the judge allowed.
    pub allowed: u64,
    /// Questions that the judge refused.
    pub denied: u64,
    /// Calls that were refused because the broker does not serve them, or could not find out what they are about.
    pub unserved: u64,
    /// Processes that were ended because they ran what nobody had allowed them to execute.
    pub killed: u64,
}

/// [`Counters`] under way.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) calls: AtomicU64,
    pub(crate) allowed: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) unserved: AtomicU64,
    pub(crate) killed: AtomicU64,
}

/// Counts one and says how many that makes.
pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}

impl Counting {
    pub(crate) fn read(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            calls: read(&self.calls),
            allowed: read(&self.allowed),
            denied: read(&self.denied),
            unserved: read(&self.unserved),
            killed: read(&self.killed),
        }
    }
}
