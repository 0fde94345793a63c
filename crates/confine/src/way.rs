//! Which mechanism holds a policy: a view, gates in a view, or a broker.

use crate::gates::Gates;
use crate::plan::{Plan, Unheld};
use holdfast_policy::{Operation, Operations, Policy};

/// What holds a policy.
#[derive(Clone, Debug)]
pub enum Way {
    /// Mounts and Landlock, at no cost per call.
    View(Plan),
    /// A file system that decides about each call, before the folders of the rules that need it; around them a view.
    Gates {
        /// The folders, and the view.
        gates: Gates,
        /// Why a view alone does not.
        because: Vec<Unheld>,
    },
    /// A supervisor that is asked about calls, and makes them itself.
    Broker {
        /// Why a view does not; empty if the broker was asked for.
        because: Vec<Unheld>,
    },
}

impl Way {
    /// The cheapest way that holds a policy exactly on this machine. `watched` asks for one that sees what is refused.
    ///
    /// # Errors
    /// All rules that no way holds, with the reasons.
    pub fn of(policy: &Policy, watched: bool) -> Result<Self, Vec<Unheld>> {
        let because = match Plan::of(policy) {
            Ok(plan) if !watched => return Ok(Self::View(plan)),
            Ok(_) => Vec::new(),
            Err(because) => because,
        };
        if policy.rules_of_each_call().is_empty() {
            return Ok(Self::Broker { because });
        }
        Ok(Self::Gates { gates: Gates::of(policy)?, because })
    }
}

/// Operations of whose calls rules name arguments.
pub(crate) fn argued(policy: &Policy) -> Vec<Operation> {
    let rules = policy.rules().iter().filter(|rule| rule.conditions.count() > 0);
    let all = rules.fold(Operations::NONE, |all, rule| all.with(rule.operations().and(rule.conditions.possible())));
    all.iter().collect()
}
