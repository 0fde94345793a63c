//! Learns a policy from what a program did: requests are noted while everything is allowed, and the policy that allows them is written.
//!
//! What is noted is exact: a path with the operations it was asked for, and by which programs. What is written ([`Learned::lines`]) is what people would
//! write (`general`): the folders of the system are read and executed; a folder in which names were made or removed may be written, since the next run will make
//! other names; one that was listed, or many of whose files were used in the same way, is one line; what only lies on the way is left out. So it allows more
//! than was seen, and every line says what needed it. [`LearnOptions::exact`] allows what was seen and nothing else.

mod general;
mod lines;

use crate::{Operation, Operations, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most paths that are noted: beyond, a policy is not learned but guessed.
pub const LEARNED_MAX: usize = 100_000;

/// The most programs that are named with a line.
const PROGRAMS_MAX: usize = 8;

/// What there is at a path after the program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A folder.
    Folder,
    /// Something else.
    File,
    /// Nothing.
    Missing,
}

/// How a learned policy is written.
#[derive(Clone, Copy, Debug)]
pub struct LearnOptions<'a> {
    /// Whether nothing is allowed but what was seen.
    pub exact: bool,
    /// A folder becomes one line when at least as many of its files were used in the same way; 0 for never.
    pub fold_at: usize,
    /// Trees and files of the system: once something in one was read or executed, all of them may be. What is in `/etc` is only read.
    pub system: &'a [PathBuf],
    /// Folders that no line may open as a whole, such as somebody's home.
    pub broad: &'a [PathBuf],
    /// Folders in which everybody makes names: what is made there becomes a pattern.
    pub shared: &'a [PathBuf],
    /// What is at a path.
    pub look: fn(&Path) -> Found,
}

impl Default for LearnOptions<'_> {
    fn default() -> Self {
        // Three files of a folder may be all a program ever needs; with more, it is likely to need the next one too.
        Self { exact: false, fold_at: 4, system: &[], broad: &[], shared: &[], look: |_| Found::Missing }
    }
}

/// What was asked of a path, and by whom.
#[derive(Clone, Debug, Default)]
struct Seen {
    operations: Operations,
    /// Names of programs.
    programs: BTreeSet<Box<[u8]>>,
}

/// What a program was seen to do.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    seen: BTreeMap<PathBuf, Seen>,
    /// Names that files had before and after a move, and the two names of a file that was linked.
    moves: BTreeSet<(PathBuf, PathBuf)>,
    /// Symbolic links that were followed, and where they led.
    links: BTreeMap<PathBuf, PathBuf>,
    missed: u64,
}

/// What makes names or does away with them.
const NAMES: Operations = Operations::of(&[
    Operation::Create,
    Operation::Mkdir,
    Operation::Mknod,
    Operation::Link,
    Operation::Symlink,
    Operation::Rename,
    Operation::Unlink,
    Operation::Rmdir,
]);

/// What marks lines that allow names of others.
const REVIEW: &str = "REVIEW: ";

impl Learned {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a request. False if there are too many paths to note another one; such a request is counted and forgotten.
    pub fn note(&mut self, request: &Request<'_>) -> bool {
        let room = self.seen.contains_key(request.path) || self.seen.len() < LEARNED_MAX && request.path.is_absolute();
        if !room {
            self.missed += 1;
            return false;
        }
        let seen = if let Some(seen) = self.seen.get_mut(request.path) {
            seen
        } else {
            self.seen.entry(request.path.to_owned()).or_default()
        };
        seen.operations = seen.operations.with(Operations::of(&[request.operation]));
        let program = request.program.file_name().map_or(&[][..], OsStrExt::as_bytes);
        if seen.programs.len() < PROGRAMS_MAX && !seen.programs.contains(program) {
            seen.programs.insert(program.into());
        }
        if matches!(request.operation, Operation::Rename | Operation::Link)
            && let Some(other) = request.arguments.other
            && self.moves.len() < LEARNED_MAX
        {
            // Both names are asked about, each with the other.
            let (first, second) = if request.path < other { (request.path, other) } else { (other, request.path) };
            self.moves.insert((first.to_owned(), second.to_owned()));
        }
        true
    }

    /// Notes a symbolic link that was followed, and the place that it led to.
    pub fn note_link(&mut self, link: &Path, to: &Path) {
        if self.links.len() < LEARNED_MAX && !self.links.contains_key(link) {
            self.links.insert(link.to_owned(), to.to_owned());
        }
    }

    /// How many paths were noted.
    pub fn paths(&self) -> usize {
        self.seen.len()
    }

    /// How many requests were not noted because there were too many paths, or because theirs was none.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The rules in TOML that allow what was noted. `short` says whether there is no `[files]` yet in the text that they are added to.
    pub fn lines(&self, options: LearnOptions<'_>, short: bool) -> String {
        let lines = if options.exact { self.exact() } else { self.general(options) };
        lines.written(self, short)
    }

    /// The policy in TOML that allows what was noted, and refuses the rest.
    pub fn to_toml(&self, options: LearnOptions<'_>) -> String {
        let mut text = String::from("# Learned from what a program did.\n");
        if self.missed > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# {} requests are not in it: there were too many paths.", self.missed);
        }
        let lines = self.lines(options, true);
        if lines.contains(REVIEW) {
            text.push_str("# Look over what is marked REVIEW: it allows more than this program's own names.\n");
        }
        text + "default = \"deny\"\n" + &lines
    }

    /// What is noted of a path and of all below it.
    fn tree<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a Seen)> {
        self.seen.range(path.to_owned()..).take_while(move |(at, _)| at.starts_with(path))
    }

    fn has_below(&self, path: &Path) -> bool {
        self.tree(path).any(|(at, _)| at != path)
    }

    /// Whether a path needs no rule because something below it has one.
    fn lies_on_the_way(&self, path: &Path, seen: Operations) -> bool {
        Operations::WAY.covers(seen) && self.has_below(path)
    }
}

#[cfg(test)]
mod tests;
