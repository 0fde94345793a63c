//! A policy, and its decisions.
//!
//! A request is decided by the rules that name its operation and fit its program and arguments. Of those, the first of these that there is:
//!
//! 1. a rule for exactly the path;
//! 2. the way: a folder above something that is allowed may be looked up and its attributes read (unless the policy has no implied ways);
//! 3. a pattern that matches, the one with the longest literal folder first;
//! 4. a rule for the nearest folder above;
//! 5. the default.
//!
//! At one place a program named more exactly wins (path, file name, pattern, any), then more arguments named, then the long form over the short one, then
//! the later rule. Two rules of the same place, programs, arguments and form that contradict each other are refused when the policy is read.

use crate::each::EachCall;
use crate::index::Index;
use crate::settings::Settings;
use crate::{Arguments, Judge, Operation, Operations, Request, Rule, Scope, Verdict};
use std::path::Path;

/// What is decided where no rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

/// Why rules are no policy.
#[derive(Debug, thiserror::Error)]
#[error("a pattern is not understood: {0}")]
pub struct NoPattern(#[from] globset::Error);

/// Rules and a default, and what a confined program is given.
#[derive(Debug)]
pub struct Policy {
    default: Decision,
    rules: Vec<Rule>,
    ways: bool,
    /// Everything that is not about files.
    pub settings: Settings,
    index: Index,
    each_call: EachCall,
    refusable: Operations,
    names_programs: bool,
}

impl Policy {
    /// A policy of rules in order of writing. `ways` says whether folders on the way to what is allowed can be passed without a rule.
    ///
    /// # Errors
    /// A pattern that cannot be compiled.
    pub fn new(default: Decision, ways: bool, rules: Vec<Rule>, settings: Settings) -> Result<Self, NoPattern> {
        let index = Index::new(&rules, ways)?;
        let each_call = EachCall::of(&rules)?;
        let refusable = refusable(default, &rules);
        let names_programs = rules.iter().any(|rule| rule.programs.is_some());
        Ok(Self { default, rules, ways, settings, index, each_call, refusable, names_programs })
    }

    /// What is decided where no rule applies.
    pub fn default(&self) -> Decision {
        self.default
    }

    /// The rules in order of writing; a [`Verdict`] counts them from 0.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether folders on the way to what is allowed can be passed without a rule.
    pub fn implies_ways(&self) -> bool {
        self.ways
    }

    /// Everything a program may do to a path with some arguments.
    pub fn allowed(&self, program: &Path, path: &Path, arguments: Arguments<'_>) -> Operations {
        let default = if self.default == Decision::Allow { Operations::ALL } else { Operations::NONE };
        // Of the request, the operation is not looked at.
        let request = Request { program, operation: Operation::Lookup, path, arguments };
        self.index.allowed(&self.rules, &request, default).unwrap_or_default()
    }

    /// The most rules that are for one place.
    pub(crate) fn crowd(&self) -> usize {
        self.index.crowd()
    }

    pub(crate) fn each_call(&self) -> &EachCall {
        &self.each_call
    }

    /// Each rule in words, in order.
    pub fn describe(&self) -> Vec<String> {
        self.rules.iter().map(ToString::to_string).collect()
    }
}

impl Judge for Policy {
    fn judge(&self, request: &Request<'_>) -> Verdict {
        match self.index.find(&self.rules, request) {
            Ok(Some((rule, way))) => {
                Verdict { allowed: way || self.rules[rule].allow.has(request.operation), rule: Some(rule) }
            }
            Ok(None) => Verdict { allowed: self.default == Decision::Allow, rule: None },
            // Where the path is no path, even a policy that allows by default refuses: a rule might be about what is meant.
            Err(_) => Verdict { allowed: false, rule: None },
        }
    }

    fn decides(&self, operation: Operation) -> bool {
        self.refusable.has(operation)
    }

    fn names_programs(&self) -> bool {
        self.names_programs
    }

    fn finds_all(&self, folder: &Path) -> bool {
        let depth_around = |rule: &Rule| match &rule.scope {
            Scope::Tree(path) | Scope::Below(path) if folder.starts_with(path) => Some(path.iter().count()),
            _ => None,
        };
        let allows = |rule: &&Rule| rule.is_unconditional() && rule.allow.has(Operation::Lookup);
        let nearest = self.rules.iter().filter(allows).filter_map(depth_around).max();
        // Of those that are around it as well, what is nearer overrides what is farther.
        let refuses = |rule: &Rule| {
            rule.deny.has(Operation::Lookup)
                && rule.scope.may_be_in(folder)
                && depth_around(rule).is_none_or(|depth| Some(depth) >= nearest)
        };
        (nearest.is_some() || self.default == Decision::Allow) && !self.rules.iter().any(refuses)
    }

    fn could_allow(&self, request: &Request<'_>) -> bool {
        self.judge(request).allowed || self.some_call_is_allowed(request)
    }

    fn of_each_call(&self, path: &Path) -> Vec<usize> {
        self.each_call.about(&self.rules, path)
    }
}

/// What can be refused at all: what some rule refuses, and what the default refuses unless the whole tree is allowed to all.
fn refusable(default: Decision, rules: &[Rule]) -> Operations {
    let denied = rules.iter().fold(Operations::NONE, |set, rule| set.with(rule.deny));
    if default == Decision::Allow {
        return denied;
    }
    let root =
        |rule: &&Rule| rule.is_unconditional() && matches!(&rule.scope, Scope::Tree(path) if path == Path::new("/"));
    let everywhere = rules.iter().filter(root).fold(Operations::NONE, |set, rule| set.with(rule.allow));
    denied.with(Operations::ALL.without(everywhere))
}
