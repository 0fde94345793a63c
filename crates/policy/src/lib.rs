//! What a confined program may do: policies, the two forms they are written in, and the decision.

mod ask;
mod check;
mod conditions;
mod diff;
mod form;
mod glob;
mod index;
mod learn;
mod mistake;
mod operation;
mod operations;
mod pair;
mod policy;
mod program;
mod rule;
mod settings;
mod text;
mod view;

pub use ask::{Arguments, Judge, Request, Verdict};
pub use check::{Report, check, check_pair};
pub use conditions::{ARGUMENTS, Conditions};
pub use diff::{ASKED_MAX, Change, Difference, diff};
pub use form::{PATH_MAX_BYTES, PATH_MAX_PARTS, PATTERNS_MAX, PATTERNS_MAX_BYTES, RULES_MAX, TEXT_MAX_BYTES};
pub use learn::{LEARNED_MAX, LearnOptions, Learned};
pub use mistake::{MISTAKES_MAX, Mistake, Mistakes};
pub use operation::Operation;
pub use operations::{GROUPS, Operations};
pub use pair::{PairOptions, Subject};
pub use policy::{Decision, NoPattern, Policy};
pub use program::{Programs, Who};
pub use rule::{Rule, Scope};
pub use settings::{Device, Environment, Limits, Network, Settings};
pub use view::{Access, NotAView, VIEW_PATHS_MAX, View, ViewEntry};
