//! Lines of a learned policy, and how they are written.

use super::Learned;
use crate::form::{operations_written, quoted};
use crate::{Operations, text};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why there is a line for a name that is not there. Of these there are many, wherever a program looks for others, so they share a rule.
pub(super) const LOOKED_FOR: &str = "looked for, and not there";

/// The most programs that a comment names.
const NAMED_MAX: usize = 4;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A path and what is below.
    Tree,
    /// A path alone.
    Exact,
    /// What is below a folder.
    Below,
    /// The names in a folder, and not what is below those.
    Names,
    /// Names in a folder that begin with the path's last part, and what is below them.
    Begins,
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) operations: Operations,
    /// What is to be known of it besides who needed it.
    pub(super) why: &'static str,
}

/// Lines by place.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: BTreeMap<(PathBuf, Kind), Line>,
}

impl Lines {
    /// Adds a line, or operations to one that is there.
    pub(super) fn add(&mut self, kind: Kind, path: &Path, operations: Operations, why: &'static str) {
        let line = self.lines.entry((path.to_owned(), kind)).or_insert(Line { operations: Operations::NONE, why });
        line.operations = line.operations.with(operations);
    }

    pub(super) fn get_mut(&mut self, key: &(PathBuf, Kind)) -> Option<&mut Line> {
        self.lines.get_mut(key)
    }

    pub(super) fn get(&self, key: &(PathBuf, Kind)) -> Option<&Line> {
        self.lines.get(key)
    }

    /// The line that decides about a path.
    pub(super) fn of(&self, path: &Path) -> Option<(PathBuf, Kind)> {
        let known = |path: &Path, kind| Some((path.to_owned(), kind)).filter(|key| self.lines.contains_key(key));
        if let Some(exact) = known(path, Kind::Exact) {
            return Some(exact);
        }
        let begins = self.lines.keys().find(|(start, kind)| {
            let (Some(folder), Some(name)) = (start.parent(), start.file_name()) else { return false };
            let rest = path.strip_prefix(folder).ok().and_then(|rest| rest.iter().next());
            *kind == Kind::Begins && rest.is_some_and(|first| first.as_bytes().starts_with(name.as_bytes()))
        });
        let above = || {
            path.ancestors()
                .find_map(|at| known(at, Kind::Tree).or_else(|| if at == path { None } else { known(at, Kind::Below) }))
        };
        begins.cloned().or_else(above)
    }

    /// What is allowed to a path; nothing where no line speaks of it.
    pub(super) fn allowed(&self, path: &Path) -> Operations {
        self.of(path).and_then(|key| self.lines.get(&key)).map_or(Operations::NONE, |line| line.operations)
    }

    // Writing to a string cannot fail.
    pub(super) fn written(&self, learned: &Learned, short: bool) -> String {
        let needed = self.needed(learned);
        let comment = |key: &(PathBuf, Kind), line: &Line| {
            let who = needed.get(key).map(Needed::told).unwrap_or_default();
            let both = [who.as_str(), line.why].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
            if both.is_empty() { String::new() } else { format!("# {}\n", both.join("; ")) }
        };
        let (absent, lines): (Vec<_>, Vec<_>) = self.lines.iter().partition(|(_, line)| line.why == LOOKED_FOR);
        let (files, rules): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|((_, kind), _)| short && *kind == Kind::Tree);
        let mut out = String::new();
        if !files.is_empty() {
            out.push_str("\n[files]\n");
        }
        for (key, line) in files {
            let _ = writeln!(out, "{}{} = {}", comment(key, line), name(&key.0), operations_written(line.operations));
        }
        for (key, line) in rules {
            let place = match key.1 {
                Kind::Tree => format!("tree = {}", name(&key.0)),
                Kind::Exact => format!("file = {}", name(&key.0)),
                Kind::Below => format!("dir = {}", name(&key.0)),
                Kind::Names => format!("glob = {}", quoted(&format!("{}/*", escaped(&key.0.to_string_lossy())))),
                Kind::Begins => begins(&key.0),
            };
            let allow = operations_written(line.operations);
            let _ = write!(out, "\n{}[[rule]]\nallow = {allow}\n{place}\n", comment(key, line));
        }
        let mut alike: BTreeMap<u32, (Operations, Vec<String>)> = BTreeMap::new();
        for ((path, _), line) in absent {
            let both = alike.entry(line.operations.bits()).or_insert((line.operations, Vec::new()));
            both.1.push(format!("    {},\n", name(path)));
        }
        for (operations, paths) in alike.into_values() {
            let (allow, paths) = (operations_written(operations), paths.concat());
            let _ = write!(out, "\n# {LOOKED_FOR}\n[[rule]]\nallow = {allow}\ntree = [\n{paths}]\n");
        }
        out
    }

    /// Who needed each line, and for how many names.
    fn needed(&self, learned: &Learned) -> BTreeMap<(PathBuf, Kind), Needed> {
        let mut needed: BTreeMap<_, Needed> = BTreeMap::new();
        for (path, seen) in &learned.seen {
            if let Some(key) = self.of(path) {
                let line = needed.entry(key).or_default();
                line.names += 1;
                let programs = seen.programs.iter().map(|name| String::from_utf8_lossy(name).into_owned());
                line.programs.extend(programs);
            }
        }
        needed
    }
}

#[derive(Default)]
struct Needed {
    programs: BTreeSet<String>,
    names: usize,
}

impl Needed {
    /// A comment has one line, and a program may be called anything.
    fn told(&self) -> String {
        let plain = |name: &String| name.chars().filter(|letter| !letter.is_control()).collect::<String>();
        let mut told = self.programs.iter().take(NAMED_MAX).map(plain).collect::<Vec<_>>().join(", ");
        if let more @ 1.. = self.programs.len().saturating_sub(NAMED_MAX) {
            let _ = write!(told, " and {more} more");
        }
        if self.names > 1 {
            let _ = write!(told, ", {} names", self.names);
        }
        told
    }
}

fn name(path: &Path) -> String {
    quoted(&text::write(path.as_os_str().as_bytes()))
}

/// Patterns for what begins so, and for what is below.
fn begins(start: &Path) -> String {
    let start = escaped(&start.to_string_lossy());
    format!("glob = [{}, {}]", quoted(&format!("{start}*")), quoted(&format!("{start}*/**")))
}

/// A text that a pattern takes as it is.
fn escaped(text: &str) -> String {
    let special = |letter: char| matches!(letter, '*' | '?' | '[' | ']' | '{' | '}' | '\\');
    text.chars().flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter])).collect()
}
