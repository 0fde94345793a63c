//! Looks at a policy for what its writer will not have meant: rules that decide nothing, files that cannot be reached, operations that need another.

use crate::mistake::{Mistake, Mistakes};
use crate::pair::{self, PairOptions};
use crate::{Arguments, Judge, Operation, Operations, Policy, Request, Rule, Scope, glob};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// What is wrong with a policy, and what is odd about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Why the text is no policy.
    pub errors: Vec<Mistake>,
    /// What its writer will not have meant.
    pub warnings: Vec<Mistake>,
}

impl Report {
    /// Whether there is nothing to say.
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.warnings.is_empty()
    }

    fn of(read: Result<(Policy, Vec<Mistake>), Mistakes>, file: &str) -> Self {
        match read {
            Ok((policy, mut warnings)) => {
                warnings.extend(policy.warnings(file));
                warnings.sort_by_key(|warning| warning.line);
                Self { errors: Vec::new(), warnings }
            }
            Err(mistakes) => Self { errors: mistakes.0, warnings: Vec::new() },
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.errors.iter().try_for_each(|mistake| writeln!(out, "error: {mistake}"))?;
        self.warnings.iter().try_for_each(|mistake| writeln!(out, "warning: {mistake}"))
    }
}

/// Checks a policy in TOML; what the arguments are, [`Policy::from_toml`] says.
pub fn check(file: &str, base: &Path, text: &[u8]) -> Report {
    Report::of(Policy::from_toml(file, base, text).map(|policy| (policy, Vec::new())), file)
}

/// Checks a pair; what the arguments are, [`Policy::from_pair`] says.
pub fn check_pair(model: (&str, &[u8]), policy: (&str, &[u8]), options: PairOptions<'_>) -> Report {
    Report::of(pair::read(model, policy, options), policy.0)
}

/// A program nobody names.
const NOBODY: &str = "/\u{1}";

impl Policy {
    /// What a rule's writer will not have meant, in order of the rules; `file` is what the places are called by.
    pub fn warnings(&self, file: &str) -> Vec<Mistake> {
        let mut warnings = Vec::new();
        let overridden = self.overridden();
        for (number, rule) in self.rules().iter().enumerate() {
            let mut warn = |text: String| {
                warnings.push(Mistake { file: file.to_owned(), line: rule.line, column: 0, text });
            };
            if let Some(line) = overridden[number] {
                warn(format!("never reached: line {line} decides about {} too, and comes before it", rule.scope));
            } else if self.says_nothing_new(rule) {
                warn(format!("changes nothing: without it the same is decided about {}", rule.scope));
            }
            arguments_missing(rule).into_iter().for_each(&mut warn);
            if number < NEEDS_MAX {
                self.needs(rule).into_iter().for_each(&mut warn);
            }
        }
        if self.rules().len() > NEEDS_MAX {
            let text = format!("only the first {NEEDS_MAX} rules were looked at for what they need beside themselves");
            warnings.push(Mistake { file: file.to_owned(), line: 0, column: 0, text });
        }
        warnings
    }

    /// For each rule the line of another that wins over it in all it says, where there is one: the same place, programs and arguments, and of the long form
    /// where it is of the short one, or later.
    fn overridden(&self) -> Vec<Option<usize>> {
        let mut later: HashMap<_, Vec<(&Rule, Operations)>> = HashMap::new();
        let mut found = vec![None; self.rules().len()];
        let order = |entry: bool| self.rules().iter().enumerate().rev().filter(move |(_, rule)| rule.entry == entry);
        for (number, rule) in order(false).chain(order(true)) {
            let programs = rule.programs.as_ref().map(|programs| std::sync::Arc::as_ptr(programs) as usize);
            let stronger = later.entry((&rule.scope, programs, rule.conditions.named())).or_default();
            let said = stronger.last().map_or(Operations::NONE, |(_, said)| *said);
            if said.covers(rule.operations()) {
                found[number] = stronger.last().map(|(rule, _)| rule.line);
            }
            stronger.push((rule, said.with(rule.operations())));
        }
        found
    }

    /// Whether a rule for all only repeats what the folder above it has.
    fn says_nothing_new(&self, rule: &Rule) -> bool {
        let (Scope::Tree(path) | Scope::Exact(path)) = &rule.scope else { return false };
        let alone =
            |other: &Rule| std::ptr::eq(other, rule) || other.is_unconditional() && other.scope.folder() != *path;
        // With patterns or rules for some programs about, what a rule is for cannot be seen from the folder above.
        let plain = self.rules().len() <= PLAIN_MAX
            && self.rules().iter().all(|other| alone(other) && !matches!(other.scope, Scope::Glob(_)));
        if !plain {
            return false;
        }
        let before = match path.parent() {
            Some(parent) => self.allowed_to_nobody(&self.unnamed_in(parent)),
            None if self.default() == crate::Decision::Allow => Operations::ALL,
            None => Operations::NONE,
        };
        // A rule that allows opens the way to its path, which may be closed otherwise.
        let way = rule.allow.is_empty() || before.covers(Operations::WAY) || !self.implies_ways();
        // And an exact one that refuses closes it.
        let closes = matches!(rule.scope, Scope::Exact(_)) && !rule.deny.and(Operations::WAY).is_empty();
        way && !(closes && self.implies_ways()) && before.covers(rule.allow) && before.and(rule.deny).is_empty()
    }

    fn allowed_to_nobody(&self, path: &Path) -> Operations {
        self.allowed(Path::new(NOBODY), path, Arguments::default())
    }

    /// A name in a folder that no rule has.
    fn unnamed_in(&self, folder: &Path) -> PathBuf {
        let mut name = String::from("_");
        let path = |name: &str| folder.join(name);
        while self.rules().iter().any(|rule| rule.scope.folder().starts_with(path(&name))) {
            name.push('_');
        }
        path(&name)
    }

    /// What an allowed operation needs beside itself, and does not have.
    fn needs(&self, rule: &Rule) -> Vec<String> {
        let mut missing = Vec::new();
        let Some(path) = sample(&rule.scope).filter(|_| !rule.allow.is_empty()) else { return missing };
        let program = rule.programs.as_ref().and_then(|programs| programs.samples().next());
        let program = program.unwrap_or_else(|| NOBODY.into());
        let ask = |path: &Path| self.allowed(&program, path, rule.conditions.sample());
        let allowed = ask(&path);
        if allowed.has(Operation::Exec) && rule.allow.has(Operation::Exec) && !allowed.has(Operation::Read) {
            missing.push("`exec` without `read`: the loader and interpreters read what they execute".to_owned());
        }
        let content = rule.allow.without(Operations::WAY);
        if !content.is_empty() && !allowed.has(Operation::Lookup) {
            missing.push(format!("{content} without `lookup`: what cannot be found cannot be opened"));
        }
        let found = |path: &Path| {
            let arguments = rule.conditions.sample();
            self.judge(&Request { program: &program, operation: Operation::Lookup, path, arguments }).allowed
        };
        let closed = path.ancestors().skip(1).find(|above| !found(above));
        if let Some(closed) = closed {
            let text = format!("cannot be reached: `lookup` is refused at {}, which is on the way", closed.display());
            missing.push(text);
        }
        missing
    }
}

/// For as many rules it is looked at what they need: each asks the policy some hundred times, and not every policy answers at once.
const NEEDS_MAX: usize = 2000;

/// With more rules than this nobody looks for one that repeats another: it would take each with each.
const PLAIN_MAX: usize = 1000;

/// A path that a rule is about.
fn sample(scope: &Scope) -> Option<PathBuf> {
    match scope {
        Scope::Exact(path) | Scope::Tree(path) => Some(path.clone()),
        Scope::Below(path) => Some(path.join("_")),
        Scope::Glob(pattern) => glob::sample(pattern),
    }
}

/// Operations of a rule that do not have the arguments it names.
fn arguments_missing(rule: &Rule) -> Option<String> {
    let never = rule.operations().without(rule.conditions.possible());
    let some = rule.conditions.count() > 0 && rule.operations() != Operations::ALL && !never.is_empty();
    some.then(|| format!("never applies to {never}, which has no such arguments: {}", rule.conditions))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn checked(text: &str) -> Vec<String> {
        let report = check("p", Path::new("/"), text.as_bytes());
        assert!(report.errors.is_empty(), "{report}");
        report.warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_sound_policy_has_nothing_to_say_of() {
        let text = "[files]\n\"/usr\" = \"read+exec\"\n\"/w\" = \"all\"\n\"/w/.git\" = \"read\"\n[[rule]]\ndeny = [\"unlink\"]\npath = \"/w/*.log\"\n";
        assert_eq!(checked(text), [""; 0]);
        assert!(check("p", Path::new("/"), text.as_bytes()).is_clean());
    }

    #[test]
    fn each_oddity_is_named_with_its_line() {
        for (text, said) in [
            (
                "[files]\n\"/w\" = \"all\"\n[[rule]]\nallow = \"all\"\npath = \"/w\"",
                "p:2: never reached: line 3 decides",
            ),
            (
                "[[rule]]\nallow = [\"lookup\"]\npath = \"/w\"\n[[rule]]\nallow = [\"lookup\"]\npath = \"/w\"",
                "p:1: never reached: line 4",
            ),
            ("[files]\n\"/w\" = \"read\"\n\"/w/a\" = \"read\"", "p:3: changes nothing"),
            ("default = \"allow\"\n[files]\n\"/\" = \"all\"", "p:3: changes nothing"),
            ("[files]\n\"/w\" = [\"exec\", \"lookup\"]", "p:2: `exec` without `read`"),
            ("[files]\n\"/w\" = [\"read\"]", "p:2: read without `lookup`"),
            ("implied-ways = false\n[files]\n\"/w\" = \"read\"", "p:3: cannot be reached: `lookup` is refused at /,"),
            ("[files]\n\"/home/*/x\" = \"read\"", "p:2: cannot be reached: `lookup` is refused at /home/_"),
            (
                "[[rule]]\ndeny = [\"read\", \"unlink\"]\npath = \"/w\"\narguments = { length = 1 }",
                "p:1: never applies to unlink",
            ),
        ] {
            let warnings = checked(text);
            assert!(warnings.iter().any(|warning| warning.starts_with(said)), "{text}\n{warnings:?}");
        }
    }

    #[test]
    fn what_is_wrong_comes_before_what_is_odd() {
        let report = check("p", Path::new("/"), b"x = 1");
        assert!(report.to_string().starts_with("error: p:1:1: \"x\" is no key"));
        assert!(report.warnings.is_empty() && !report.is_clean());
    }
}
