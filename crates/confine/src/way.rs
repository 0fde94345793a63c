//! Which mechanism holds a policy: a view, or a broker.

use crate::plan::{Plan, Unheld};
use holdfast_policy::{Operation, Operations, Policy};

/// What holds a policy.
#[derive(Clone, Debug)]
pub enum Way {
    /// Mounts and Landlock, at no cost per call.
    View(Plan),
    /// A supervisor that is asked about calls, and makes them itself.
    Broker {
        /// Why a view does not; empty if the broker was asked for.
        because: Vec<Unheld>,
    },
}

/// Decided once, when a file is opened.
const AT_OPEN: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Mmap, Operation::Readdir];

impl Way {
    /// The cheapest way that holds a policy exactly on this machine. `watched` asks for the one that sees what is refused.
    ///
    /// # Errors
    /// All rules that no way holds, with the reasons.
    pub fn of(policy: &Policy, watched: bool) -> Result<Self, Vec<Unheld>> {
        let because = match Plan::of(policy) {
            Ok(plan) if !watched => return Ok(Self::View(plan)),
            Ok(_) => Vec::new(),
            Err(because) => because,
        };
        let unheld: Vec<_> = policy.rules().iter().enumerate().filter_map(|(number, rule)| {
            let about = rule.operations();
            let at_open = rule.conditions.count() > 0 && AT_OPEN.iter().any(|operation| about.has(*operation));
            at_open.then(|| Unheld {
                rule: Some(number),
                reason: "it names arguments of reading, writing, mapping or listing, which are decided once, when a file is opened".into(),
            })
        }).collect();
        if unheld.is_empty() { Ok(Self::Broker { because }) } else { Err(unheld) }
    }
}

/// Operations of whose calls rules name arguments.
pub(crate) fn argued(policy: &Policy) -> Vec<Operation> {
    let rules = policy.rules().iter().filter(|rule| rule.conditions.count() > 0);
    let all = rules.fold(Operations::NONE, |all, rule| all.with(rule.operations()));
    all.iter().collect()
}
