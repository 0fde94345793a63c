//! The pair `model.txt` and `policy.txt` of `BoesFS`, accepted as it is.
//!
//! The model says what is compared and whether the list allows or refuses; the policy has a line for each rule. There, the nearest node of the tree that has
//! a rule decides about **all** operations: an operation that it does not name gets what the list gives to everything else. So each node becomes one
//! rule that says something of every operation.
//!
//! Its operations are not quite ours (`words.rs` has the table): it has `open`, which here is part of reading, writing, listing and executing. Its subject
//! is the program that was launched; [`Subject`] says whether it still is. Folders on the way need their own rules, as they did.

mod lines;
mod model;
mod translate;
mod words;

use crate::form::{RULES_MAX, decoded};
use crate::mistake::{Mistake, Mistakes};
use crate::{Decision, Policy, Rule, Scope, Settings};
use std::path::Path;

/// Which program a subject of a rule is.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// The one that was launched: its rules hold for everything it starts, others are left out. So it was in `BoesFS`.
    Launched(&'a Path),
    /// Each one that asks, by the file name of its executable. What it starts has rules of its own, or only the default.
    Calling,
}

/// How a pair is meant.
#[derive(Clone, Copy, Debug)]
pub struct PairOptions<'a> {
    /// Which program a subject is.
    pub subject: Subject<'a>,
    /// The absolute folder the pair is about, as that which `BoesFS` was mounted over; an allowing list leaves what is outside alone. The whole tree where it is `None`.
    pub mounted: Option<&'a Path>,
}

/// What went through without being a rule, with what was made of the rest.
pub(crate) type WithWarnings = (Policy, Vec<Mistake>);

impl Policy {
    /// Reads a pair; each text comes with the name that mistakes call it by.
    ///
    /// # Errors
    /// All mistakes of the model, or else all of the policy, with their lines.
    pub fn from_pair(model: (&str, &[u8]), policy: (&str, &[u8]), options: PairOptions<'_>) -> Result<Self, Mistakes> {
        read(model, policy, options).map(|(policy, _)| policy)
    }
}

/// Reads a pair, and says which of its lines have no effect.
pub(crate) fn read(
    (model_file, model): (&str, &[u8]),
    (file, text): (&str, &[u8]),
    options: PairOptions<'_>,
) -> Result<WithWarnings, Mistakes> {
    let model = model::parse(model_file, decoded(model_file, model)?)?;
    let (lines, warnings) = lines::parse(file, decoded(file, text)?, &model)?;
    let mut rules = outside(&model, options);
    let own = translate::rules(&model, &lines, options);
    rules.extend(own.ok_or_else(|| {
        Mistakes::whole(
            file,
            format!("a policy has at most {RULES_MAX} rules, and with its roles written out this one has more"),
        )
    })?);
    let default = if model.allows { Decision::Deny } else { Decision::Allow };
    let policy = Policy::new(default, false, rules, Settings::default());
    policy.map(|policy| (policy, warnings)).map_err(|error| Mistakes::whole(file, error.to_string()))
}

/// What leaves everything outside the mounted folder alone.
fn outside(model: &model::Model, options: PairOptions<'_>) -> Vec<Rule> {
    let Some(folder) = options.mounted.filter(|folder| model.allows && *folder != Path::new("/")) else {
        return Vec::new();
    };
    let tree = |path: &Path, allow| Rule::entry(Scope::Tree(path.to_owned()), allow);
    vec![tree(Path::new("/"), crate::Operations::ALL), tree(folder, crate::Operations::NONE)]
}

#[cfg(test)]
mod tests;
