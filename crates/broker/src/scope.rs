//! Which operations are asked about.

use holdfast_policy::{Judge, Operation};

/// The operations a judge can refuse.
///
/// A filter is made for a scope and holds for the life of the program, so a judge that comes later must not go beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope(u32);

impl Scope {
    /// What this judge can refuse.
    pub(crate) fn of(judge: &dyn Judge) -> Self {
        let decided = Operation::ALL.into_iter().filter(|operation| judge.decides(*operation));
        Self(decided.fold(0, |bits, operation| bits | bit(operation)))
    }

    /// Whether the operation is asked about.
    pub(crate) fn decides(self, operation: Operation) -> bool {
        self.0 & bit(operation) != 0
    }

    /// Whether any of these is asked about.
    pub(crate) fn decides_any(self, operations: &[Operation]) -> bool {
        operations.iter().any(|operation| self.decides(*operation))
    }
}

fn bit(operation: Operation) -> u32 {
    1 << (operation as u32)
}
