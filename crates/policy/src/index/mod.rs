//! The rules, laid out so that a decision walks the request's path once.
//!
//! A trie by parts of a path. Each node has the rules that name its path, best first, and knows the nearest node above it (itself included) that has
//! rules for what is below, and the nearest that has patterns. A decision walks down as far as the trie goes, then up over those nodes only,
//! so its cost grows with the depth of the path and with the rules of the nodes it meets, not with the number of rules.
//!
//! Patterns are kept at the folder of their literal part and matched there by one automaton for all of a node.

mod programs;

use crate::program::{Programs, Who};
use crate::{Operations, Request, Rule, Scope};
use globset::{Candidate, GlobBuilder, GlobSet};
use programs::Sets;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A rule at a node, for the programs it names in one way.
#[derive(Clone, Debug)]
struct Entry {
    rule: usize,
    who: Who,
    programs: Option<Arc<Programs>>,
    /// The number of its programs.
    set: usize,
    /// Its pattern's place in the node's automaton.
    pattern: usize,
}

#[derive(Debug, Default)]
struct Node {
    children: HashMap<Box<[u8]>, usize>,
    parent: Option<usize>,
    /// Rules for exactly this path.
    exact: Vec<Entry>,
    /// Allowed rules further down, for whose sake this folder can be passed.
    ways: Vec<Entry>,
    /// Rules for this path and what is below (`true`), or for what is below only.
    folder: Vec<(Entry, bool)>,
    globs: Vec<Entry>,
    patterns: Option<GlobSet>,
    nearest_folder: Option<usize>,
    nearest_globs: Option<usize>,
}

/// The rules by path.
#[derive(Debug)]
pub(crate) struct Index {
    nodes: Vec<Node>,
    sets: Sets,
}

impl Index {
    /// Lays the rules out; `ways` says whether folders on the way to what is allowed can be passed without a rule.
    pub(crate) fn new(rules: &[Rule], ways: bool) -> Result<Self, globset::Error> {
        let mut index = Self { nodes: vec![Node::default()], sets: Sets::default() };
        let mut patterns = HashMap::new();
        let mut seen = HashSet::new();
        for (number, rule) in rules.iter().enumerate() {
            index.place(number, rule, &mut patterns)?;
            if ways && !rule.allow.is_empty() {
                index.open_ways(number, rule, &mut seen);
            }
        }
        index.sort(rules);
        for (node, mut set) in patterns {
            index.nodes[node].patterns = Some(set.build()?);
        }
        index.link();
        Ok(index)
    }

    fn place(
        &mut self,
        number: usize,
        rule: &Rule,
        patterns: &mut HashMap<usize, Patterns>,
    ) -> Result<(), globset::Error> {
        let at = self.node(&rule.scope.folder());
        for mut entry in self.sets.entries(number, rule) {
            match &rule.scope {
                Scope::Exact(_) => self.nodes[at].exact.push(entry),
                Scope::Below(_) => self.nodes[at].folder.push((entry, false)),
                Scope::Tree(_) => self.nodes[at].folder.push((entry, true)),
                Scope::Glob(pattern) => {
                    entry.pattern = patterns.entry(at).or_default().add(pattern)?;
                    self.nodes[at].globs.push(entry);
                }
            }
        }
        Ok(())
    }

    fn open_ways(&mut self, number: usize, rule: &Rule, seen: &mut HashSet<(usize, usize, Who)>) {
        let at = self.node(&rule.scope.folder());
        // A rule on what is below a folder says nothing of the folder itself, which lies on the way.
        let own = matches!(rule.scope, Scope::Below(_) | Scope::Glob(_)).then_some(at);
        let mut next = own.or(self.nodes[at].parent);
        while let Some(node) = next {
            let mut new = false;
            for entry in self.sets.entries(number, rule) {
                if seen.insert((node, entry.set, entry.who)) {
                    self.nodes[node].ways.push(entry);
                    new = true;
                }
            }
            if !new {
                break;
            }
            next = self.nodes[node].parent;
        }
    }

    fn node(&mut self, path: &Path) -> usize {
        let mut at = 0;
        for part in parts(path.as_os_str().as_bytes()) {
            at = if let Some(next) = self.nodes[at].children.get(part) {
                *next
            } else {
                let next = self.nodes.len();
                self.nodes.push(Node { parent: Some(at), ..Node::default() });
                self.nodes[at].children.insert(part.into(), next);
                next
            };
        }
        at
    }

    /// Puts the best rule first: the program named most exactly, then most arguments, then the long form, then the later one.
    fn sort(&mut self, rules: &[Rule]) {
        let rank = |entry: &Entry| {
            let rule = &rules[entry.rule];
            std::cmp::Reverse((entry.who, rule.conditions.count(), !rule.entry, entry.rule))
        };
        for node in &mut self.nodes {
            node.exact.sort_by_key(rank);
            node.globs.sort_by_key(rank);
            node.folder.sort_by_key(|(entry, _)| rank(entry));
            node.ways.sort_by_key(rank);
        }
    }

    /// Parents come before children, so one pass is enough.
    fn link(&mut self) {
        for number in 0..self.nodes.len() {
            let parent = self.nodes[number].parent;
            let (folder, globs) = parent
                .map_or((None, None), |parent| (self.nodes[parent].nearest_folder, self.nodes[parent].nearest_globs));
            let node = &mut self.nodes[number];
            node.nearest_folder = if node.folder.is_empty() { folder } else { Some(number) };
            node.nearest_globs = if node.globs.is_empty() { globs } else { Some(number) };
        }
    }

    /// The most rules that one place has: what a decision there looks through.
    pub(crate) fn crowd(&self) -> usize {
        let most = |node: &Node| node.exact.len().max(node.folder.len()).max(node.globs.len()).max(node.ways.len());
        self.nodes.iter().map(most).max().unwrap_or(0)
    }

    /// The rule that decides, and whether it is one that only lies further on the way. `Err` for a path that is none.
    pub(crate) fn find(&self, rules: &[Rule], request: &Request<'_>) -> Result<Option<(usize, bool)>, NotAPath> {
        let path = request.path.as_os_str().as_bytes();
        let (at, whole) = self.descend(path)?;
        let asking = self.sets.of(request.program);
        let applies = |entry: &Entry| {
            let rule = &rules[entry.rule];
            rule.operations().has(request.operation)
                && asking.is_among(entry)
                && rule.conditions.hold(&request.arguments)
        };
        if whole {
            if let Some(entry) = self.nodes[at].exact.iter().find(|entry| applies(entry)) {
                return Ok(Some((entry.rule, false)));
            }
            let passes = |entry: &&Entry| asking.is_among(entry);
            if let Some(entry) =
                Operations::WAY.has(request.operation).then(|| self.nodes[at].ways.iter().find(passes)).flatten()
            {
                return Ok(Some((entry.rule, true)));
            }
        }
        let found = self.find_glob(at, path, applies).or_else(|| self.find_folder(at, whole, applies));
        Ok(found.map(|rule| (rule, false)))
    }

    /// Everything that may be done to a path: what [`Index::find`] says of each operation, for one walk. `Err` for a path that is none.
    pub(crate) fn allowed(
        &self,
        rules: &[Rule],
        asked: &Request<'_>,
        default: Operations,
    ) -> Result<Operations, NotAPath> {
        let path = asked.path.as_os_str().as_bytes();
        let (at, whole) = self.descend(path)?;
        let asking = self.sets.of(asked.program);
        let mut left = Left { allowed: Operations::NONE, open: Operations::ALL };
        // Each rule decides about what is left of its operations. It never says that it is the one that was looked for, so all of them are asked, best first.
        let says = |left: &mut Left, entry: &Entry| {
            let rule = &rules[entry.rule];
            let decides = left.open.and(rule.operations());
            if !decides.is_empty() && asking.is_among(entry) && rule.conditions.hold(&asked.arguments) {
                left.decide(decides, rule.allow);
            }
            false
        };
        if whole {
            for entry in &self.nodes[at].exact {
                says(&mut left, entry);
            }
            if self.nodes[at].ways.iter().any(|entry| asking.is_among(entry)) {
                left.decide(left.open.and(Operations::WAY), Operations::WAY);
            }
        }
        self.find_glob(at, path, |entry| says(&mut left, entry));
        self.find_folder(at, whole, |entry| says(&mut left, entry));
        Ok(left.allowed.with(left.open.and(default)))
    }

    /// The deepest node on the path, and whether it is the path.
    fn descend(&self, path: &[u8]) -> Result<(usize, bool), NotAPath> {
        if path.first() != Some(&b'/') {
            return Err(NotAPath);
        }
        let (mut at, mut whole) = (0, true);
        for part in parts(path) {
            if part == b"." || part == b".." {
                return Err(NotAPath);
            }
            match self.nodes[at].children.get(part) {
                Some(next) if whole => at = *next,
                // The rest is looked at all the same, for what is no path.
                _ => whole = false,
            }
        }
        Ok((at, whole))
    }

    fn find_glob(&self, at: usize, path: &[u8], mut applies: impl FnMut(&Entry) -> bool) -> Option<usize> {
        let mut next = self.nodes[at].nearest_globs;
        let clean = next.and_then(|_| clean(path))?;
        let candidate = Candidate::from_bytes(clean.as_ref());
        let mut matched = Vec::new();
        while let Some(number) = next {
            let node = &self.nodes[number];
            if let Some(patterns) = &node.patterns {
                patterns.matches_candidate_into(&candidate, &mut matched);
                let found =
                    node.globs.iter().find(|entry| matched.binary_search(&entry.pattern).is_ok() && applies(entry));
                if let Some(entry) = found {
                    return Some(entry.rule);
                }
            }
            next = node.parent.and_then(|parent| self.nodes[parent].nearest_globs);
        }
        None
    }

    fn find_folder(&self, at: usize, whole: bool, mut applies: impl FnMut(&Entry) -> bool) -> Option<usize> {
        let mut next = self.nodes[at].nearest_folder;
        while let Some(number) = next {
            let node = &self.nodes[number];
            let itself = whole && number == at;
            let found = node.folder.iter().find(|(entry, tree)| (*tree || !itself) && applies(entry));
            if let Some((entry, _)) = found {
                return Some(entry.rule);
            }
            next = node.parent.and_then(|parent| self.nodes[parent].nearest_folder);
        }
        None
    }
}

/// What was decided of all operations, and what was not yet.
struct Left {
    allowed: Operations,
    open: Operations,
}

impl Left {
    /// Decides about operations that are open.
    fn decide(&mut self, operations: Operations, allow: Operations) {
        self.allowed = self.allowed.with(operations.and(allow));
        self.open = self.open.without(operations);
    }
}

/// A path that is relative, or has `.` or `..` in it: nobody can say what it means.
#[derive(Debug)]
pub(crate) struct NotAPath;

/// The patterns of one node, before they are made one automaton.
#[derive(Default)]
struct Patterns {
    globs: Vec<globset::Glob>,
}

impl Patterns {
    fn add(&mut self, pattern: &str) -> Result<usize, globset::Error> {
        self.globs.push(compile(pattern)?);
        Ok(self.globs.len() - 1)
    }

    fn build(&mut self) -> Result<GlobSet, globset::Error> {
        GlobSet::new(self.globs.drain(..))
    }
}

/// A pattern of a path, as rules mean it.
pub(crate) fn compile(pattern: &str) -> Result<globset::Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).empty_alternates(true).build()
}

/// A path with one slash between its parts and none at the end, as patterns are matched against. The root is none: it lies in no folder.
fn clean(path: &[u8]) -> Option<Cow<'_, [u8]>> {
    let twice = path.windows(2).any(|pair| pair == b"//");
    match path {
        b"/" => None,
        [.., last] if *last != b'/' && !twice => Some(Cow::Borrowed(path)),
        _ => {
            let clean: Vec<u8> = parts(path).flat_map(|part| [b"/", part].concat()).collect();
            (!clean.is_empty()).then_some(Cow::Owned(clean))
        }
    }
}

/// The parts of a path between its slashes.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
}
