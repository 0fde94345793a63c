//! Random rules, requests and paths from a seed, in a world so small that they meet often.

use holdfast_policy::{
    Arguments, Conditions, Decision, Operation, Operations, Policy, Programs, Rule, Scope, Settings,
};
use std::path::PathBuf;

/// A sequence of numbers that a seed determines (xorshift64*, Vigna 2016).
pub(crate) struct Dice(u64);

/// The programs there are.
pub(crate) const PROGRAMS: [&str; 4] = ["/bin/sh", "/bin/cat", "/opt/sh", "/opt/tool-1"];

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap() % bound
    }

    pub(crate) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    pub(crate) fn path(&mut self) -> PathBuf {
        let depth = self.below(5);
        (0..depth).fold("/".into(), |path: PathBuf, _| path.join(self.one(&["a", "b", "ab"])))
    }

    pub(crate) fn operations(&mut self) -> Operations {
        match self.below(4) {
            0 => Operations::ALL,
            1 => Operations::READ,
            _ => Operation::ALL.into_iter().filter(|_| self.below(3) == 0).collect(),
        }
    }

    pub(crate) fn scope(&mut self) -> Scope {
        match self.below(5) {
            0 => Scope::Exact(self.path()),
            1 => Scope::Below(self.path()),
            2 => Scope::Glob(self.pattern()),
            _ => Scope::Tree(self.path()),
        }
    }

    fn pattern(&mut self) -> String {
        let parts = 1 + self.below(4);
        let parts: Vec<&str> = (0..parts).map(|_| self.one(&["a", "b", "*", "a*", "?", "**", "*b"])).collect();
        format!("/{}", parts.join("/"))
    }

    fn programs(&mut self) -> Programs {
        let mut paths = Vec::new();
        let mut names = Vec::new();
        let mut globs = Vec::new();
        for _ in 0..=self.below(2) {
            match self.below(3) {
                0 => paths.push(self.one(&PROGRAMS).into()),
                1 => names.push(self.one(&["sh", "cat", "tool-1"]).into()),
                _ => globs.push(self.one(&["/bin/*", "tool-*", "/**/s?"]).into()),
            }
        }
        Programs::new(paths, names, globs).unwrap()
    }

    fn conditions(&mut self) -> Conditions {
        let number = |dice: &mut Self| (dice.below(2) == 0).then(|| dice.below(2));
        let (length, mode, offset) = (number(self), number(self), number(self));
        Conditions {
            length: length.map(|number| number as u64),
            mode: mode.map(|number| u32::try_from(number).unwrap()),
            offset: offset.map(|number| i64::try_from(number).unwrap()),
            ..Conditions::default()
        }
    }

    /// A rule of the short form or without conditions, which views can be made of.
    pub(crate) fn plain_rule(&mut self) -> Rule {
        let scope = self.scope();
        if self.below(2) == 0 {
            return Rule::entry(scope, self.operations());
        }
        let (allow, deny) = match self.below(3) {
            0 => (self.operations(), Operations::NONE),
            1 => (Operations::NONE, self.operations()),
            _ => (self.operations(), self.operations()),
        };
        Rule::new(scope, allow, deny)
    }

    pub(crate) fn rule(&mut self) -> Rule {
        let mut rule = self.plain_rule();
        if rule.entry {
            return rule;
        }
        if self.below(3) == 0 {
            rule = rule.by(self.programs());
        }
        if self.below(3) == 0 {
            rule = rule.when(self.conditions());
        }
        rule
    }

    pub(crate) fn policy(&mut self) -> Policy {
        let default = self.one(&[Decision::Allow, Decision::Deny]);
        let ways = self.below(2) == 0;
        let rules = (0..self.below(12)).map(|_| self.rule()).collect();
        Policy::new(default, ways, rules, Settings::default()).unwrap()
    }

    pub(crate) fn arguments(&mut self) -> Arguments<'static> {
        Arguments {
            length: (self.below(4) > 0).then(|| self.below(2) as u64),
            mode: (self.below(4) > 0).then(|| u32::try_from(self.below(2)).unwrap()),
            offset: (self.below(4) > 0).then(|| i64::try_from(self.below(2)).unwrap()),
            ..Arguments::default()
        }
    }
}
