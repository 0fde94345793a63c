//! Rules about each call: those that name arguments of reading or writing, which are known only when a program reads or writes.
//!
//! Whoever decides when a file is opened cannot hold them. A *gate* can: a file system that stands before a folder and is told of every call
//! (`holdfast-gate`). Which rules take one, which of them it cannot hold, and what is left of a policy around the folders it stands before, is said here;
//! which folders there are on this machine is not.

use crate::index::compile;
use crate::view::{NotAView, unnamed_below};
use crate::{Arguments, Conditions, Judge, Operation, Operations, Policy, Request, Rule, Scope};
use globset::{GlobSet, GlobSetBuilder};
use std::path::{Path, PathBuf};

/// Most bytes of one read or write that a file system is told of at once: what is longer comes in pieces. It is a MiB less a page, which a buffer that does not
/// begin at a page takes more (`FUSE_MAX_MAX_PAGES`, 256 pages).
pub const PIECE_BYTES_MAX: u64 = (1 << 20) - 4096;

/// What is done call by call with an open file.
const CALLS: Operations = Operations::of(&[Operation::Read, Operation::Write]);

/// What opens a file or a folder.
const OPENS: Operations = Operations::of(&[Operation::Read, Operation::Write, Operation::Readdir]);

/// The rules about each call, to be found by path.
#[derive(Debug, Default)]
pub(crate) struct EachCall {
    plain: Vec<usize>,
    patterns: GlobSet,
    of_patterns: Vec<usize>,
}

impl EachCall {
    pub(crate) fn of(rules: &[Rule]) -> Result<Self, globset::Error> {
        let (mut plain, mut of_patterns, mut patterns) = (Vec::new(), Vec::new(), GlobSetBuilder::new());
        for (number, rule) in rules.iter().enumerate().filter(|(_, rule)| is_about_each_call(rule)) {
            if let Scope::Glob(pattern) = &rule.scope {
                patterns.add(compile(pattern)?);
                of_patterns.push(number);
            } else {
                plain.push(number);
            }
        }
        Ok(Self { plain, patterns: patterns.build()?, of_patterns })
    }

    /// Those that name a path, in order.
    pub(crate) fn about(&self, rules: &[Rule], path: &Path) -> Vec<usize> {
        let mut found: Vec<_> =
            self.plain.iter().copied().filter(|number| covers(&rules[*number].scope, path)).collect();
        found.extend(self.patterns.matches(path).into_iter().map(|place| self.of_patterns[place]));
        found.sort_unstable();
        found
    }
}

fn covers(scope: &Scope, path: &Path) -> bool {
    match scope {
        Scope::Exact(at) => at == path,
        Scope::Below(at) => at != path && path.starts_with(at),
        Scope::Tree(at) => path.starts_with(at),
        Scope::Glob(_) => false,
    }
}

/// The operations of a rule that have all of its arguments: it says nothing of others.
fn possible(rule: &Rule) -> Operations {
    rule.operations().and(rule.conditions.possible())
}

fn is_about_each_call(rule: &Rule) -> bool {
    let about = possible(rule);
    rule.conditions.count() > 0 && (!about.and(CALLS).is_empty() || about.has(Operation::Mmap))
}

impl Policy {
    /// Rules that name arguments of reading, writing or mapping, which nobody knows when a file is opened.
    pub fn rules_of_each_call(&self) -> Vec<usize> {
        let rules = self.rules().iter().enumerate().filter(|(_, rule)| is_about_each_call(rule));
        rules.map(|(number, _)| number).collect()
    }

    /// Whether every program may look a folder up: of the folder itself, a gate before it is not asked.
    pub fn is_found_by_all(&self, folder: &Path) -> bool {
        let finds = |program: &Path| self.allowed(program, folder, Arguments::default()).has(Operation::Lookup);
        self.samples().all(|program| finds(&program))
    }

    /// A program of each kind that rules name, and one of none.
    fn samples(&self) -> impl Iterator<Item = PathBuf> {
        let named =
            self.rules().iter().filter_map(|rule| rule.programs.as_ref()).flat_map(|programs| programs.samples());
        named.chain([PathBuf::from("/")])
    }

    /// What is left of it around folders that gates stand before: all in them is allowed here, since it is decided there.
    ///
    /// # Panics
    /// Never: its patterns have been compiled before.
    #[must_use]
    pub fn around(&self, folders: &[PathBuf]) -> Self {
        let mut rules: Vec<_> = self.rules().iter().filter(|rule| !is_within(rule, folders)).cloned().collect();
        rules.extend(folders.iter().map(|folder| Rule::entry(Scope::Tree(folder.clone()), Operations::ALL)));
        let made = Self::new(self.default(), self.implies_ways(), rules, self.settings.clone());
        made.unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// The rules that are left by [`Self::around`], by their places here.
    pub fn rules_around(&self, folders: &[PathBuf]) -> Vec<usize> {
        let rules = self.rules().iter().enumerate().filter(|(_, rule)| !is_within(rule, folders));
        rules.map(|(number, _)| number).collect()
    }

    /// What gates before some folders would not decide as the policy does, by rule.
    pub fn beyond_gates(&self, folders: &[PathBuf]) -> Vec<NotAView> {
        let touching = |rule: &&Rule| {
            let at = rule.scope.folder();
            folders.iter().any(|folder| at.starts_with(folder) || folder.starts_with(&at))
        };
        let mut wrong = Vec::new();
        for (number, rule) in self.rules().iter().enumerate().filter(|(_, rule)| touching(rule)) {
            let reason = beyond(rule).map(str::to_owned).or_else(|| self.beyond_at(rule, folders));
            wrong.extend(reason.map(|reason| NotAView { rule: Some(number), reason }));
        }
        wrong.extend(folders.iter().filter_map(|folder| self.way_differs(folder)));
        wrong
    }

    /// Whether what is decided where a rule begins can be told by calls that a file system sees.
    fn beyond_at(&self, rule: &Rule, folders: &[PathBuf]) -> Option<String> {
        let at = rule.scope.folder();
        let inside = folders.iter().any(|folder| at.starts_with(folder));
        let begin =
            if inside { vec![at] } else { folders.iter().filter(|folder| folder.starts_with(&at)).cloned().collect() };
        let programs = rule.programs.iter().flat_map(|programs| programs.samples());
        let programs: Vec<_> = programs.chain([PathBuf::from("/")]).collect();
        let paths = begin.into_iter().flat_map(|at| [unnamed_below(&at), at]);
        paths
            .flat_map(|path| programs.iter().map(move |program| (path.clone(), program)))
            .find_map(|(path, program)| self.beyond_for(program, &path))
    }

    fn beyond_for(&self, program: &Path, path: &Path) -> Option<String> {
        let allowed = self.allowed(program, path, Arguments::default());
        let could =
            |operation| self.could_allow(&Request { program, operation, path, arguments: Arguments::default() });
        let (at, opens) = (path.display(), OPENS.iter().any(could));
        if opens && !allowed.has(Operation::Llseek) {
            return Some(format!(
                "seeking is refused at {at}, of which no file system is told: allow `llseek` where files can be opened"
            ));
        }
        if allowed.has(Operation::Exec) && !allowed.has(Operation::Mmap) {
            return Some(format!(
                "executing is allowed and mapping is not at {at}, and what runs is mapped: allow `mmap`, or refuse `exec`"
            ));
        }
        None
    }

    /// A folder above a gate may be passed for the sake of what rules inside allow. Around it that is so for every program, so it must be here.
    fn way_differs(&self, folder: &Path) -> Option<NotAView> {
        let around = self.around(&[folder.to_owned()]);
        let programs: Vec<_> = self.samples().collect();
        let differs = |above: &Path| {
            programs.iter().any(|program| {
                let [here, there] = [self, &around].map(|policy| policy.allowed(program, above, Arguments::default()));
                here.and(Operations::WAY) != there.and(Operations::WAY)
            })
        };
        let above = folder.ancestors().skip(1).find(|above| differs(above))?;
        let reason = format!(
            "the way through {} to {} is open to some programs and not to others, and mounts know no programs: let all of them look it up",
            above.display(),
            folder.display()
        );
        Some(NotAView { rule: None, reason })
    }

    /// Whether some arguments, which are not known yet, would let a request be allowed.
    pub(crate) fn some_call_is_allowed(&self, request: &Request<'_>) -> bool {
        let rules = self.each_call().about(self.rules(), request.path);
        // A rule decides about some call if it decides about one that has just its arguments: what decides about that instead names no others.
        rules.into_iter().map(|number| &self.rules()[number]).any(|rule| {
            let arguments = Arguments { flags: request.arguments.flags, ..rule.conditions.sample() };
            rule.allow.has(request.operation) && self.judge(&Request { arguments, ..*request }).allowed
        })
    }
}

/// Whether a rule is about nothing but what lies in some folders.
fn is_within(rule: &Rule, folders: &[PathBuf]) -> bool {
    let at = rule.scope.folder();
    folders.iter().any(|folder| at.starts_with(folder))
}

/// What a rule says that no file system is told of.
fn beyond(rule: &Rule) -> Option<&'static str> {
    let Conditions { flags, length, .. } = &rule.conditions;
    let about = possible(rule);
    let conditional = rule.conditions.count() > 0;
    match () {
        () if conditional && about.is_empty() => None,
        () if flags.is_some() => Some("it names flags, which the kernel changes before it tells a file system of them"),
        () if conditional && about.has(Operation::Mmap) => Some(
            "it names bytes of a mapping, and a file system is told of pages when they are touched and not of mappings",
        ),
        () if conditional && about.has(Operation::Llseek) => {
            Some("it names arguments of seeking, of which no file system is told")
        }
        () if conditional && about.has(Operation::Fsync) => {
            Some("it names a length of syncing, of which no file system is told")
        }
        () if length.is_some_and(|length| length > PIECE_BYTES_MAX) => {
            Some("it names a length of more than 1,044,480 bytes, and a file system is told of longer calls in pieces")
        }
        () if matches!(rule.scope, Scope::Glob(_)) && seeks_less(rule) => Some(
            "its pattern refuses seeking where files can be opened, and no file system is told of seeking: leave `llseek` out of what it refuses",
        ),
        () => None,
    }
}

/// Whether a rule takes seeking away, and not opening as well.
fn seeks_less(rule: &Rule) -> bool {
    rule.deny.has(Operation::Llseek) && !rule.deny.covers(OPENS)
}
