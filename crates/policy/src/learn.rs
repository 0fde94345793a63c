//! Learns a policy from what a program did: requests are noted while everything is allowed, and the policy that allows them is written.
//!
//! What is noted is exact: a path with the operations it was asked for. Written, it is what people would write: a folder of which enough entries were used
//! in the same way becomes one line, files become lines of the short form, and what only lies on the way is left out. With `rounded`, operations
//! become the smallest word that
//! holds them, which allows more than was seen.

use crate::form::{operations_written, quoted};
use crate::{Operation, Operations, Request, text};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most paths that are noted: beyond, a policy is not learned but guessed.
pub const LEARNED_MAX: usize = 100_000;

/// How a learned policy is written.
#[derive(Clone, Copy, Debug)]
pub struct LearnOptions {
    /// A folder becomes one line when at least as many of its entries were used in the same way; 0 for never.
    pub fold_at: usize,
    /// Whether operations are rounded up to words.
    pub rounded: bool,
}

impl Default for LearnOptions {
    fn default() -> Self {
        // Three files of a folder may be all a program ever needs; with more, it is likely to need the next one too.
        Self { fold_at: 4, rounded: true }
    }
}

/// What a program was seen to do.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    seen: BTreeMap<PathBuf, Operations>,
    missed: u64,
}

/// What only a file, or a name that comes and goes in a folder, is asked for.
const OF_FILES: Operations = Operations::of(&[
    Operation::Read,
    Operation::Write,
    Operation::Create,
    Operation::Mknod,
    Operation::Symlink,
    Operation::Link,
    Operation::Unlink,
    Operation::Truncate,
    Operation::Mmap,
    Operation::Exec,
]);

impl Learned {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a request. False if there are too many paths to note another one; such a request is counted and forgotten.
    pub fn note(&mut self, request: &Request<'_>) -> bool {
        let operation = Operations::of(&[request.operation]);
        if let Some(seen) = self.seen.get_mut(request.path) {
            *seen = seen.with(operation);
            return true;
        }
        let room = self.seen.len() < LEARNED_MAX && request.path.is_absolute();
        if room {
            self.seen.insert(request.path.to_owned(), operation);
        } else {
            self.missed += 1;
        }
        room
    }

    /// How many paths were noted.
    pub fn paths(&self) -> usize {
        self.seen.len()
    }

    /// How many requests were not noted because there were too many paths, or because theirs was none.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The policy in TOML that allows what was noted, and refuses the rest.
    pub fn to_toml(&self, options: LearnOptions) -> String {
        let mut lines = Lines::default();
        let folded = self.folded(options);
        for (folder, operations) in &folded {
            lines.add("dir", folder, rounded(*operations, options));
        }
        for (path, seen) in &self.seen {
            let covered = path.parent().and_then(|parent| folded.get(parent));
            if covered.is_some_and(|covered| covered.covers(*seen)) || self.lies_on_the_way(path, *seen) {
                continue;
            }
            let key = if self.is_file(path, *seen) { "path" } else { "file" };
            // A line of its own replaces what the folder above has, so it holds that too.
            let own = seen.with(covered.copied().unwrap_or_default());
            lines.add(key, path, rounded(own, options));
        }
        lines.written(self.missed)
    }

    /// Folders whose entries were used in the same way, with what was done to them.
    fn folded(&self, options: LearnOptions) -> BTreeMap<&Path, Operations> {
        let mut uses: BTreeMap<(&Path, u32), (Operations, usize)> = BTreeMap::new();
        for (path, seen) in &self.seen {
            let operations = rounded(*seen, options);
            if let Some(folder) = path.parent().filter(|_| self.is_file(path, *seen)) {
                let entry = uses.entry((folder, operations.bits())).or_insert((operations, 0));
                entry.0 = entry.0.with(*seen);
                entry.1 += 1;
            }
        }
        let mut folded: BTreeMap<&Path, (Operations, usize)> = BTreeMap::new();
        for ((folder, _), (operations, count)) in uses {
            // Of several ways of use the commonest is that of the folder.
            if options.fold_at > 0
                && count >= options.fold_at
                && folded.get(folder).is_none_or(|(_, best)| count > *best)
            {
                folded.insert(folder, (operations, count));
            }
        }
        folded.into_iter().map(|(folder, (operations, _))| (folder, operations)).collect()
    }

    fn is_file(&self, path: &Path, seen: Operations) -> bool {
        !seen.and(OF_FILES).is_empty() && !self.has_below(path)
    }

    fn has_below(&self, path: &Path) -> bool {
        let after = (std::ops::Bound::Excluded(path.to_owned()), std::ops::Bound::Unbounded);
        self.seen.range(after).next().is_some_and(|(next, _)| next.starts_with(path))
    }

    /// Whether a path needs no rule because something below it has one.
    fn lies_on_the_way(&self, path: &Path, seen: Operations) -> bool {
        Operations::WAY.covers(seen) && self.has_below(path)
    }
}

fn rounded(operations: Operations, options: LearnOptions) -> Operations {
    if options.rounded { operations.rounded_up() } else { operations }
}

/// What is written, by key and operations: paths that are used in the same way share a rule.
#[derive(Default)]
struct Lines<'a> {
    short: Vec<(&'a Path, Operations)>,
    long: BTreeMap<(&'static str, u32), (Operations, Vec<&'a Path>)>,
}

impl<'a> Lines<'a> {
    fn add(&mut self, key: &'static str, path: &'a Path, operations: Operations) {
        if key == "path" {
            self.short.push((path, operations));
        } else {
            let rule = self.long.entry((key, operations.bits())).or_insert((operations, Vec::new()));
            rule.1.push(path);
        }
    }

    // Writing to a string cannot fail.
    fn written(&self, missed: u64) -> String {
        let mut out = String::from("# Learned from what a program did.\n");
        if missed > 0 {
            let _ = writeln!(out, "# {missed} requests are not in it: there were too many paths.");
        }
        out.push_str("default = \"deny\"\n");
        if !self.short.is_empty() {
            out.push_str("\n[files]\n");
        }
        for (path, operations) in &self.short {
            let _ = writeln!(out, "{} = {}", name(path), operations_written(*operations));
        }
        for ((key, _), (operations, paths)) in &self.long {
            let paths: Vec<_> = paths.iter().map(|path| format!("    {},\n", name(path))).collect();
            let _ = write!(
                out,
                "\n[[rule]]\nallow = {}\n{key} = [\n{}]\n",
                operations_written(*operations),
                paths.concat()
            );
        }
        out
    }
}

fn name(path: &Path) -> String {
    quoted(&text::write(path.as_os_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Arguments, Policy};

    fn seen(requests: &[(&str, &[Operation])]) -> Learned {
        let mut learned = Learned::new();
        for (path, operations) in requests {
            for operation in *operations {
                let (program, path) = (Path::new("/p"), Path::new(path));
                assert!(learned.note(&Request {
                    program,
                    operation: *operation,
                    path,
                    arguments: Arguments::default()
                }));
            }
        }
        learned
    }

    const READING: &[Operation] = &[Operation::Lookup, Operation::Read];

    #[test]
    fn a_folder_of_files_used_alike_becomes_one_line() {
        let mut requests =
            vec![("/", &[Operation::Lookup][..]), ("/lib", &[Operation::Lookup]), ("/etc/passwd", READING)];
        requests.extend(["/lib/a", "/lib/b", "/lib/c", "/lib/d"].map(|path| (path, READING)));
        requests.push(("/lib/tool", &[Operation::Lookup, Operation::Exec]));
        let text = seen(&requests).to_toml(LearnOptions::default());
        let expected = "# Learned from what a program did.\ndefault = \"deny\"\n\n[files]\n\"/etc/passwd\" = \"read\"\n\"/lib/tool\" = \"read+exec\"\n\n\
             [[rule]]\nallow = \"read\"\ndir = [\n    \"/lib\",\n]\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn without_rounding_and_folding_nothing_but_what_was_seen_is_allowed() {
        let learned = seen(&[("/d", &[Operation::Lookup, Operation::Readdir]), ("/d/a", READING), ("/d/b", READING)]);
        let text = learned.to_toml(LearnOptions { fold_at: 0, rounded: false });
        let policy = Policy::from_toml("p", Path::new("/"), text.as_bytes()).unwrap();
        let allowed = |path| policy.allowed(Path::new("/p"), Path::new(path), Arguments::default());
        assert_eq!(allowed("/d/a"), Operations::of(READING));
        assert_eq!(allowed("/d/c"), Operations::NONE);
        assert!(allowed("/d").has(Operation::Readdir) && !allowed("/d").has(Operation::Create));
    }

    #[test]
    fn more_paths_than_the_limit_are_counted_and_not_kept() {
        let mut learned = Learned::new();
        let mut note = |path: &str| {
            let (program, path) = (Path::new("/p"), Path::new(path));
            learned.note(&Request { program, operation: Operation::Read, path, arguments: Arguments::default() })
        };
        assert!(!note("relative"));
        assert!((0..LEARNED_MAX).all(|number| note(&format!("/{number}"))));
        assert!(!note("/one-more") && note("/7"));
        assert_eq!((learned.paths(), learned.missed()), (LEARNED_MAX, 2));
        assert!(learned.to_toml(LearnOptions::default()).contains("2 requests are not in it"));
    }
}
