//! Judges that are functions, and what was told of decisions: for tests of whatever asks judges.

use holdfast_policy::{Judge, Operation, Request, Verdict};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A judge that is a function, and decides about everything.
pub struct By<F>(pub F);

impl<F: Fn(&Request<'_>) -> bool + Send + Sync> Judge for By<F> {
    fn judge(&self, request: &Request<'_>) -> Verdict {
        Verdict { allowed: (self.0)(request), rule: None }
    }
}

/// Allows everything, and is asked about everything.
struct All;

impl Judge for All {
    fn judge(&self, _: &Request<'_>) -> Verdict {
        Verdict { allowed: true, rule: None }
    }

    fn names_programs(&self) -> bool {
        false
    }

    fn finds_all(&self, _: &Path) -> bool {
        true
    }
}

/// Allows everything to everybody, and is asked about everything.
pub fn all() -> Arc<dyn Judge> {
    Arc::new(All)
}

/// A decision that was told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The program that asked.
    pub program: PathBuf,
    /// What for.
    pub operation: Operation,
    /// About what.
    pub path: PathBuf,
    /// Whether it may.
    pub allowed: bool,
}
