//! A policy as a view: a list of trees and files, each hidden, read-only, read and executable, writable, or free. What can be said so, mounts enforce at no cost.
//!
//! A policy is a view if it names no programs, arguments and patterns, and what it decides about each path is one of the five accesses. That is not guessed from
//! the rules but asked of the policy: without patterns and programs its decisions can change only at the paths it names and the folders above them,
//! so asking about each of those, and about a name below it that nobody named, is asking about everything.
//!
//! In a view, a folder that is hidden but has something visible below is there to be passed: it can be looked up, and holds nothing but the way. The root of an entry
//! is a mount: the kernel refuses to remove or move it, whatever the access is, and a file that is named must be there when the view is made.

use crate::{Arguments, Operations, Policy, Scope};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// More paths than this make no view: each is a mount, and the kernel walks through them one by one.
pub const VIEW_PATHS_MAX: usize = 10_000;

/// What may be done to what an entry of a view is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Nothing: it is not there.
    Hidden,
    /// [`Operations::READ`]
    ReadOnly,
    /// [`Operations::READ_EXEC`]
    ReadExec,
    /// [`Operations::WRITE`]: everything but executing.
    Writable,
    /// Everything.
    All,
}

impl Access {
    /// All of them, from nothing to everything.
    pub const EVERY: [Self; 5] = [Self::Hidden, Self::ReadOnly, Self::ReadExec, Self::Writable, Self::All];

    /// What it allows.
    pub fn operations(self) -> Operations {
        match self {
            Self::Hidden => Operations::NONE,
            Self::ReadOnly => Operations::READ,
            Self::ReadExec => Operations::READ_EXEC,
            Self::Writable => Operations::WRITE,
            Self::All => Operations::ALL,
        }
    }

    /// The access that allows exactly this.
    pub fn of(operations: Operations) -> Option<Self> {
        Self::EVERY.into_iter().find(|access| access.operations() == operations)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Hidden => "hidden",
            Self::ReadOnly => "read-only",
            Self::ReadExec => "read and execute",
            Self::Writable => "everything but executing",
            Self::All => "everything",
        })
    }
}

/// An entry of a view: it holds until a longer path below it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewEntry {
    /// An absolute path.
    pub path: PathBuf,
    /// What may be done.
    pub access: Access,
    /// Whether only the path itself is meant. Whoever makes the view must find that it is no folder: a mount over a folder would take in what is below.
    pub exact: bool,
}

/// Why a policy is no view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAView {
    /// The rule that is in the way, by its place in the policy; none where it is the default.
    pub rule: Option<usize>,
    /// What a view cannot do.
    pub reason: String,
}

impl Policy {
    /// The policy as a view, its first entry that of `/`, folders before what is below them, and no entry that says what the one above it says.
    ///
    /// # Errors
    /// What of the policy a view cannot express, for each rule.
    pub fn as_view(&self) -> Result<Vec<ViewEntry>, Vec<NotAView>> {
        let beyond = self.beyond_a_view();
        if !beyond.is_empty() {
            return Err(beyond);
        }
        let Some(paths) = self.turning_points() else {
            let reason = format!(
                "its rules have more than the {VIEW_PATHS_MAX} paths, with those above them, that a view may have"
            );
            return Err(vec![NotAView { rule: None, reason }]);
        };
        let entries = self.entries(&paths)?;
        self.prove(&entries, &paths)?;
        Ok(entries)
    }

    /// Rules that no view can have, whatever the others are.
    fn beyond_a_view(&self) -> Vec<NotAView> {
        let reason = |rule: &crate::Rule| {
            if rule.programs.is_some() {
                Some("it is about some programs, and a view is the same for all")
            } else if rule.conditions.count() > 0 {
                Some("it is about some arguments, and a view does not see them")
            } else if matches!(rule.scope, Scope::Glob(_)) {
                Some("it is a pattern, and names that fit it may come to be")
            } else {
                None
            }
        };
        let rules = self.rules().iter().enumerate();
        rules
            .filter_map(|(number, rule)| Some(NotAView { rule: Some(number), reason: reason(rule)?.to_owned() }))
            .collect()
    }

    /// Where decisions can change: the paths that are named, and all above them; with the kind of place each is. `None` if they are too many.
    fn turning_points(&self) -> Option<BTreeMap<PathBuf, Named>> {
        let mut paths = BTreeMap::from([(PathBuf::from("/"), Named { folder: true, ..Named::default() })]);
        for rule in self.rules() {
            let path = rule.scope.folder();
            for above in path.ancestors().skip(1) {
                match paths.get_mut(above) {
                    // And so are all above it.
                    Some(known) if known.above => break,
                    Some(known) => known.above = true,
                    None => _ = paths.insert(above.to_owned(), Named { above: true, ..Named::default() }),
                }
            }
            let named = paths.entry(path).or_default();
            named.folder |= !matches!(rule.scope, Scope::Exact(_));
            named.exact |= matches!(rule.scope, Scope::Exact(_));
            if paths.len() > VIEW_PATHS_MAX {
                return None;
            }
        }
        Some(paths)
    }

    fn entries(&self, paths: &BTreeMap<PathBuf, Named>) -> Result<Vec<ViewEntry>, Vec<NotAView>> {
        let (mut entries, mut wrong) = (Vec::new(), Vec::new());
        // The access of what is below each folder that has been passed.
        let mut below: HashMap<&Path, Access> = HashMap::new();
        for (path, named) in paths {
            let inherited = path.parent().and_then(|parent| below.get(parent)).copied();
            let mut access = inherited.unwrap_or(Access::Hidden);
            if named.folder {
                match self.access(&unnamed_in(path, named, paths)) {
                    Ok(found) => access = found,
                    Err(reason) => wrong.push(reason),
                }
                if inherited != Some(access) {
                    entries.push(ViewEntry { path: path.clone(), access, exact: false });
                }
            } else if named.exact && !named.above {
                match self.access(path) {
                    Ok(found) if found == access => {}
                    Ok(found) => entries.push(ViewEntry { path: path.clone(), access: found, exact: true }),
                    Err(reason) => wrong.push(reason),
                }
            }
            if named.folder || named.above {
                below.insert(path, access);
            }
        }
        if wrong.is_empty() { Ok(entries) } else { Err(wrong) }
    }

    /// The access to a path, if it is one.
    fn access(&self, path: &Path) -> Result<Access, NotAView> {
        let allowed = self.everything_allowed(path);
        Access::of(allowed).ok_or_else(|| {
            let known = "a view has nothing, read, read+exec, write (everything but exec) and all";
            let reason = format!("it allows {allowed} at {}, and {known}", path.display());
            NotAView { rule: self.decider(path), reason }
        })
    }

    /// Asks policy and view about every place where either can change.
    fn prove(&self, entries: &[ViewEntry], paths: &BTreeMap<PathBuf, Named>) -> Result<(), Vec<NotAView>> {
        let view = View::new(entries);
        let mut wrong = Vec::new();
        for (path, named) in paths {
            let (policy, seen) = (self.everything_allowed(path), view.allowed(path));
            // A file has nothing below; what is named exactly and has no rules below it is to be one.
            let differs_below = || {
                let child = unnamed_in(path, named, paths);
                self.everything_allowed(&child) != view.allowed(&child)
            };
            if policy != seen || ((named.folder || named.above) && differs_below()) {
                let shown = path.display();
                let reason =
                    format!("it allows {policy} to {shown} itself, and a view of what is below it makes that {seen}");
                wrong.push(NotAView { rule: self.decider(path), reason });
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    fn everything_allowed(&self, path: &Path) -> Operations {
        self.allowed(Path::new("/"), path, Arguments::default())
    }

    /// A rule that has a say in what is allowed at a path.
    fn decider(&self, path: &Path) -> Option<usize> {
        use crate::Judge;
        let ask =
            |operation| crate::Request { program: Path::new("/"), operation, path, arguments: Arguments::default() };
        crate::Operation::ALL.into_iter().find_map(|operation| self.judge(&ask(operation)).rule)
    }
}

/// How a path is named.
#[derive(Default)]
struct Named {
    /// With what is below it.
    folder: bool,
    /// By itself.
    exact: bool,
    /// As part of another.
    above: bool,
}

/// A name in a folder that the policy does not have.
fn unnamed_in(folder: &Path, named: &Named, paths: &BTreeMap<PathBuf, Named>) -> PathBuf {
    let mut unnamed = folder.join("_");
    while named.above && paths.contains_key(&unnamed) {
        unnamed.as_mut_os_string().push("_");
    }
    unnamed
}

/// A name in a folder that no policy has: rules are written by people.
pub(crate) fn unnamed_below(folder: &Path) -> PathBuf {
    folder.join("_\u{1}_")
}

/// A view to ask what it allows, as whoever makes it must make it.
pub struct View<'a> {
    trees: HashMap<&'a Path, Access>,
    files: HashMap<&'a Path, Access>,
    /// Folders above something that is visible.
    ways: HashSet<&'a Path>,
}

impl<'a> View<'a> {
    /// The view of some entries.
    pub fn new(entries: &'a [ViewEntry]) -> Self {
        let mut view = Self { trees: HashMap::new(), files: HashMap::new(), ways: HashSet::new() };
        for entry in entries {
            let kind = if entry.exact { &mut view.files } else { &mut view.trees };
            kind.insert(&entry.path, entry.access);
            if entry.access != Access::Hidden {
                // What is above a way is one.
                let _ = entry.path.ancestors().skip(1).find(|above| !view.ways.insert(above));
            }
        }
        view
    }

    /// What is allowed to a path.
    pub fn allowed(&self, path: &Path) -> Operations {
        let tree = || path.ancestors().find_map(|above| self.trees.get(above)).copied();
        let access = self.files.get(path).copied().or_else(tree).unwrap_or(Access::Hidden);
        match access {
            Access::Hidden if self.ways.contains(path) => Operations::WAY,
            access => access.operations(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Decision, Programs, Rule, Settings};

    fn view(default: Decision, ways: bool, rules: Vec<Rule>) -> Result<Vec<(String, Access, bool)>, Vec<NotAView>> {
        let entries = Policy::new(default, ways, rules, Settings::default()).unwrap().as_view()?;
        Ok(entries.into_iter().map(|entry| (entry.path.display().to_string(), entry.access, entry.exact)).collect())
    }

    fn tree(path: &str, allow: Operations) -> Rule {
        Rule::entry(Scope::Tree(path.into()), allow)
    }

    fn file(path: &str, allow: Operations) -> Rule {
        Rule::entry(Scope::Exact(path.into()), allow)
    }

    #[test]
    fn trees_and_files_become_the_shortest_list() {
        let rules = vec![
            tree("/usr", Operations::READ_EXEC),
            tree("/usr/lib", Operations::READ_EXEC),
            tree("/work", Operations::ALL),
            tree("/work/.git", Operations::READ),
            file("/work/key", Operations::NONE),
            file("/etc/passwd", Operations::READ),
        ];
        let expected = [
            ("/", Access::Hidden, false),
            ("/etc/passwd", Access::ReadOnly, true),
            ("/usr", Access::ReadExec, false),
            ("/work", Access::All, false),
            ("/work/.git", Access::ReadOnly, false),
            ("/work/key", Access::Hidden, true),
        ];
        let expected: Vec<_> =
            expected.into_iter().map(|(path, access, exact)| (path.to_owned(), access, exact)).collect();
        assert_eq!(view(Decision::Deny, true, rules).unwrap(), expected);
    }

    #[test]
    fn a_rule_that_takes_executing_away_leaves_a_view() {
        let rules = vec![
            tree("/w", Operations::ALL),
            Rule::new(Scope::Tree("/w".into()), Operations::NONE, Operations::of(&[crate::Operation::Exec])),
        ];
        assert_eq!(view(Decision::Deny, true, rules).unwrap()[1].1, Access::Writable);
    }

    #[test]
    fn what_no_view_can_express_is_named_by_rule() {
        let by = Rule::new(Scope::Tree("/a".into()), Operations::ALL, Operations::NONE).by(Programs::named("sh"));
        let glob = Rule::entry(Scope::Glob("/b/*".into()), Operations::ALL);
        let reasons = view(Decision::Deny, true, vec![tree("/", Operations::ALL), by, glob]).unwrap_err();
        assert_eq!(reasons.iter().map(|reason| reason.rule).collect::<Vec<_>>(), [Some(1), Some(2)]);
        let odd = tree("/a", Operations::of(&[crate::Operation::Unlink]));
        let reasons = view(Decision::Deny, true, vec![tree("/", Operations::ALL), odd]).unwrap_err();
        assert_eq!(reasons[0].rule, Some(1));
        assert!(reasons[0].reason.starts_with("it allows unlink at /a/_"), "{reasons:?}");
    }

    #[test]
    fn what_is_visible_behind_a_closed_way_is_no_view() {
        let rules = || vec![tree("/a/b", Operations::ALL)];
        assert!(view(Decision::Deny, true, rules()).is_ok());
        assert!(view(Decision::Deny, false, rules()).is_err());
        assert!(view(Decision::Deny, true, vec![file("/a", Operations::NONE), tree("/a/b", Operations::ALL)]).is_err());
    }

    #[test]
    fn a_folder_that_differs_from_what_is_below_it_is_no_view() {
        // The folder itself can only be passed.
        assert!(view(Decision::Deny, true, vec![Rule::entry(Scope::Below("/a".into()), Operations::ALL)]).is_err());
        let rules = vec![tree("/", Operations::ALL), Rule::entry(Scope::Below("/a".into()), Operations::ALL)];
        assert_eq!(view(Decision::Deny, true, rules).unwrap().len(), 1);
        let rules = vec![file("/a", Operations::READ), Rule::entry(Scope::Below("/a".into()), Operations::ALL)];
        assert!(view(Decision::Deny, true, rules).is_err());
    }
}
