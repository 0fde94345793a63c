//! Rules of the test's own, how they are written, and what they decide: docs/policy.md read once more, from the text alone.
//!
//! It shares nothing with the crate under test but the names of operations. Every rule is asked whether it fits, and of those that fit the best one decides.

use super::Dice;
use holdfast_testkit::pattern::{name_fits, parts_fit};
use std::cmp::Reverse;
use std::fmt::Write;

/// The two programs.
pub(super) const PROGRAMS: [&str; 2] = ["alpha", "beta"];

/// Every operation, as it is written.
pub(super) const OPERATIONS: [&str; 20] = [
    "read", "write", "create", "mkdir", "mknod", "link", "symlink", "rename", "unlink", "rmdir", "lookup", "getattr",
    "setattr", "truncate", "xattr", "readdir", "mmap", "exec", "statfs", "fsync",
];
/// One more than there are in the list above.
const SEEK: &str = "llseek";

/// Names in trees and rules: few, so that they meet.
pub(super) const NAMES: [&str; 4] = ["a", "b", "ab", "c"];

const WAY: [&str; 2] = ["lookup", "getattr"];

#[derive(Clone, Debug)]
enum Place {
    Exact(String),
    Below(String),
    Tree(String),
    /// Folders before the first wildcard, and the parts after them.
    Pattern(String, Vec<&'static str>),
}

#[derive(Clone, Debug)]
struct Rule {
    place: Place,
    allow: Vec<&'static str>,
    deny: Vec<&'static str>,
    program: Option<String>,
    mode: Option<u32>,
}

/// A policy about a tree.
pub(super) struct Rules {
    pub(super) allows_by_default: bool,
    ways: bool,
    lines: Vec<Rule>,
}

/// What is asked: an operation, a path and a mode, if the call has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) operation: &'static str,
    pub(super) path: String,
    pub(super) mode: Option<u32>,
}

fn every() -> impl Iterator<Item = &'static str> {
    OPERATIONS.into_iter().chain([SEEK])
}

fn some(dice: &mut Dice) -> Vec<&'static str> {
    let share = dice.one(&[1, 2, 4, 8]);
    every().filter(|_| dice.once_in(share)).collect()
}

impl Rule {
    fn random(dice: &mut Dice, root: &str) -> Self {
        let path = (0..dice.below(4)).fold(root.to_owned(), |path, _| format!("{path}/{}", dice.one(&NAMES)));
        let place = match dice.below(6) {
            0 => Place::Exact(path),
            1 => Place::Below(path),
            2 => {
                let first = dice.one(&["*", "a*", "?", "*b", "**", "[a-b]"]);
                let rest = (0..dice.below(3)).map(|_| dice.one(&["a", "b", "*", "?b", "**"]));
                Place::Pattern(path, std::iter::once(first).chain(rest).collect())
            }
            _ => Place::Tree(path),
        };
        let (allow, deny) = match dice.below(4) {
            0 => (some(dice), Vec::new()),
            1 => (Vec::new(), some(dice)),
            _ => {
                let allow = some(dice);
                let deny = some(dice).into_iter().filter(|operation| !allow.contains(operation)).collect();
                (allow, deny)
            }
        };
        let with_mode = dice.once_in(6);
        let kept = |operations: Vec<&'static str>| {
            let has_mode = |operation: &&str| !with_mode || matches!(*operation, "mkdir" | "setattr");
            operations.into_iter().filter(has_mode).collect()
        };
        let (allow, deny) = (kept(allow), kept(deny));
        Self {
            place,
            allow,
            deny,
            program: dice
                .once_in(3)
                .then(|| dice.one(&["alpha", "beta", "a*", "*t*", "/**/beta", "python3"]).to_owned()),
            mode: with_mode.then(|| dice.one(&[0o700, 0o755])),
        }
    }

    fn written(&self) -> String {
        let list = |operations: &[&str]| format!("{operations:?}");
        let mut text = String::from("[[rule]]\n");
        for (key, operations) in [("allow", &self.allow), ("deny", &self.deny)] {
            if !operations.is_empty() {
                let _ = writeln!(text, "{key} = {}", list(operations));
            }
        }
        let _ = match &self.place {
            Place::Exact(path) => writeln!(text, "file = {path:?}"),
            Place::Below(path) => writeln!(text, "dir = {path:?}"),
            Place::Tree(path) => writeln!(text, "tree = {path:?}"),
            Place::Pattern(path, parts) => writeln!(text, "glob = \"{path}/{}\"", parts.join("/")),
        };
        if let Some(program) = &self.program {
            let _ = writeln!(text, "program = {program:?}");
        }
        if let Some(mode) = self.mode {
            let _ = writeln!(text, "arguments = {{ mode = 0o{mode:o} }}");
        }
        text
    }

    /// Which kind of place it names a path by, and how deep that is.
    fn fits(&self, path: &str) -> Option<(u8, usize)> {
        let below = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let depth = |path: &str| path.split('/').count();
        match &self.place {
            Place::Exact(at) => (at == path).then_some((3, 0)),
            Place::Tree(at) => (at == path || below(at)).then(|| (1, depth(at))),
            Place::Below(at) => below(at).then(|| (1, depth(at))),
            Place::Pattern(at, parts) => {
                let names: Vec<_> = path.strip_prefix(at.as_str())?.split('/').skip(1).collect();
                (below(at) && parts_fit(parts, &names)).then(|| (2, depth(at)))
            }
        }
    }

    /// How exactly it names a program: by path, by name, by a pattern, or not at all.
    fn names(&self, program: &str) -> Option<u8> {
        let name = program.rsplit('/').next().unwrap_or_default();
        match self.program.as_deref() {
            None => Some(0),
            Some(written) if written == name => Some(2),
            Some("/**/beta") => (name == "beta").then_some(1),
            Some(pattern) => name_fits(pattern.as_bytes(), name.as_bytes()).then_some(1),
        }
    }

    /// Whether a folder lies on the way to what it allows.
    fn is_behind(&self, folder: &str) -> bool {
        let (at, itself) = match &self.place {
            Place::Exact(at) | Place::Tree(at) => (at, false),
            Place::Below(at) | Place::Pattern(at, _) => (at, true),
        };
        !self.allow.is_empty()
            && (at.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')) || itself && at == folder)
    }
}

impl Rules {
    pub(super) fn random(dice: &mut Dice, root: &str) -> Self {
        let allows_by_default = dice.once_in(2);
        let mut rules: Vec<_> = (0..=dice.below(10)).map(|_| Rule::random(dice, root)).collect();
        if !allows_by_default && dice.below(3) > 0 {
            // Else there is seldom anything to be seen.
            let place = Place::Tree(root.to_owned());
            rules.insert(0, Rule { place, allow: every().collect(), deny: Vec::new(), program: None, mode: None });
        }
        rules.retain(|rule| !rule.allow.is_empty() || !rule.deny.is_empty());
        Self { allows_by_default, ways: dice.below(4) > 0, lines: rules }
    }

    /// Whether anything is ever refused: of what is not, nobody is asked.
    pub(super) fn refuse(&self) -> bool {
        !self.allows_by_default || self.lines.iter().any(|rule| !rule.deny.is_empty())
    }

    pub(super) fn head(&self) -> String {
        let default = if self.allows_by_default { "allow" } else { "deny" };
        format!("default = \"{default}\"\nimplied-ways = {}\n", self.ways)
    }

    pub(super) fn written(&self) -> String {
        self.lines.iter().map(Rule::written).collect()
    }

    /// Whether a program may do what it asks.
    pub(super) fn allow(&self, program: &str, ask: &Ask) -> bool {
        let applies = |(order, rule): (usize, &Rule)| {
            let allows = rule.allow.contains(&ask.operation);
            let named = allows || rule.deny.contains(&ask.operation);
            let (kind, depth) = rule.fits(&ask.path).filter(|_| named)?;
            let program = rule.names(program)?;
            let arguments = rule.mode.map_or(Some(0), |mode| (ask.mode == Some(mode)).then_some(1))?;
            Some(((kind, depth, program, arguments, order), allows))
        };
        let best = self.lines.iter().enumerate().filter_map(applies).min_by_key(|(fit, _)| Reverse(*fit));
        let leads = |rule: &Rule| rule.is_behind(&ask.path) && rule.names(program).is_some();
        let on_the_way = self.ways && WAY.contains(&ask.operation) && self.lines.iter().any(leads);
        match best {
            Some(((3, ..), allows)) => allows,
            _ if on_the_way => true,
            Some((_, allows)) => allows,
            None => self.allows_by_default,
        }
    }

    /// Whether another name would allow something that this one does not.
    pub(super) fn gains(&self, program: &str, from: &str, to: &str) -> bool {
        let may = |operation, path: &str| self.allow(program, &Ask { operation, path: path.to_owned(), mode: None });
        from != to && every().any(|operation| may(operation, to) && !may(operation, from))
    }
}
