//! What of a program's doings is written as what.

use super::lines::{Kind, LOOKED_FOR, Lines};
use super::{Found, LearnOptions, Learned, NAMES, Seen};
use crate::{Operation, Operations};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What only a file is asked for.
const OF_FILES: Operations =
    Operations::of(&[Operation::Read, Operation::Write, Operation::Truncate, Operation::Mmap, Operation::Exec]);

/// Shorter beginnings of names are those of anything.
const BEGINNING_MIN: usize = 2;

/// Rounds in which moves make lines alike; each can only add.
const ROUNDS_MAX: usize = 20;

impl Learned {
    /// A line for each path, with the operations that were seen.
    pub(super) fn exact(&self) -> Lines {
        let mut lines = Lines::default();
        for (path, seen) in &self.seen {
            if !self.lies_on_the_way(path, seen.operations) {
                lines.add(Kind::Exact, path, seen.operations, "");
            }
        }
        self.make_moves_alike(&mut lines);
        lines
    }

    /// Lines as people would write them.
    pub(super) fn general(&self, options: LearnOptions<'_>) -> Lines {
        let writer = Writer { learned: self, options };
        let mut lines = Lines::default();
        writer.system(&mut lines);
        writer.changed(&mut lines);
        writer.folders(&mut lines);
        writer.rest(&mut lines);
        self.make_moves_alike(&mut lines);
        writer.links(&mut lines);
        lines
    }

    /// A file may not gain anything by a move, so its two names are allowed the same.
    fn make_moves_alike(&self, lines: &mut Lines) {
        for _ in 0..ROUNDS_MAX {
            let mut changed = false;
            for (one, other) in &self.moves {
                let keys = [lines.of(one), lines.of(other)];
                let [Some(one), Some(other)] = &keys else { continue };
                let both = [one, other].map(|key| lines.get(key).map_or(Operations::NONE, |line| line.operations));
                if both[0] != both[1] {
                    changed = true;
                    for key in [one, other] {
                        if let Some(line) = lines.get_mut(key) {
                            line.operations = both[0].with(both[1]);
                        }
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }
}

struct Writer<'a> {
    learned: &'a Learned,
    options: LearnOptions<'a>,
}

impl Writer<'_> {
    fn is_broad(&self, path: &Path) -> bool {
        path.parent().is_none() || self.options.broad.iter().any(|broad| broad == path) || self.is_shared(path)
    }

    fn is_shared(&self, path: &Path) -> bool {
        self.options.shared.iter().any(|shared| shared == path)
    }

    /// Operations of a path; a library is mapped to be executed, which nobody is asked about, but a mount can refuse.
    fn of(path: &Path, seen: &Seen) -> Operations {
        let name = path.file_name().map_or(&[][..], OsStrExt::as_bytes);
        let is_versioned = |part: &[u8]| part.starts_with(b".so.") && part[4].is_ascii_digit();
        let is_library = name.ends_with(b".so") || name.windows(5).any(is_versioned);
        let maps = is_library && seen.operations.has(Operation::Mmap);
        if maps { seen.operations.with(Operations::of(&[Operation::Exec])) } else { seen.operations }
    }

    /// All that was done in a tree.
    fn all_of(&self, root: &Path) -> Operations {
        self.learned.tree(root).fold(Operations::NONE, |all, (path, seen)| all.with(Self::of(path, seen)))
    }

    /// Programs and libraries.
    fn system(&self, lines: &mut Lines) {
        let is_in = |path: &Path| self.options.system.iter().any(|tree| path.starts_with(tree));
        let used = self.learned.seen.iter().any(|(path, seen)| is_in(path) && is_only_used(seen));
        for tree in self.options.system.iter().filter(|_| used) {
            let operations = if tree.starts_with("/etc") { Operations::READ } else { Operations::READ_EXEC };
            lines.add(Kind::Tree, tree, operations, "programs and libraries");
        }
    }

    /// Where names were made or removed: in a folder of which that is known the next run makes others.
    fn changed(&self, lines: &mut Lines) {
        let mut roots = BTreeSet::new();
        let mut shared: BTreeMap<&Path, Vec<&PathBuf>> = BTreeMap::new();
        let changing = self.learned.seen.iter().filter(|(_, seen)| !seen.operations.and(NAMES).is_empty());
        for (path, _) in changing {
            let Some(folder) = path.parent() else { continue };
            if self.is_shared(folder) {
                shared.entry(folder).or_default().push(path);
            } else if self.is_broad(folder) {
                self.own_name(path, lines);
            } else {
                roots.insert(folder.to_owned());
            }
        }
        for (one, other) in &self.learned.moves {
            // Between two lines nothing can be moved.
            let common = one.parent().into_iter().flat_map(Path::ancestors).find(|at| other.starts_with(at));
            roots.extend(common.filter(|common| !self.is_broad(common)).map(Path::to_owned));
        }
        let inner = |root: &PathBuf| root.ancestors().skip(1).any(|above| roots.contains(above));
        for root in roots.iter().filter(|root| !inner(root)) {
            if !lines.allowed(root).covers(self.all_of(root)) {
                lines.add(Kind::Tree, root, self.all_of(root).rounded_up(), "names in it are made or removed");
            }
        }
        for (folder, names) in shared {
            self.shared(folder, &names, lines);
        }
    }

    /// A name in a folder that must not be opened as a whole. Named by its operations, it is held by a broker: what is mounted cannot be moved or removed.
    fn own_name(&self, path: &Path, lines: &mut Lines) {
        let all = self.all_of(path);
        let is_folder = all.has(Operation::Mkdir) || (self.options.look)(path) == Found::Folder;
        let operations = if is_folder { all.rounded_up() } else { all.with(Self::remaking()) };
        lines.add(Kind::Tree, path, operations, "only this name: the folder around it is more than this program's");
    }

    /// What a program does to a file that it made once, when it makes it again.
    fn remaking() -> Operations {
        Operations::of(&[
            Operation::Create,
            Operation::Write,
            Operation::Truncate,
            Operation::Unlink,
            Operation::Lookup,
        ])
    }

    /// Names in a folder of everybody's, by how they begin, if they begin alike.
    fn shared(&self, folder: &Path, names: &[&PathBuf], lines: &mut Lines) {
        let all_of_them = names.iter().fold(Operations::NONE, |all, path| all.with(self.all_of(path)));
        let bytes = |path: &PathBuf| path.file_name().map_or(&[][..], OsStrExt::as_bytes).to_vec();
        let first = bytes(names[0]);
        let alike = |other: &Vec<u8>| first.iter().zip(other).take_while(|(one, other)| one == other).count();
        let length = names.iter().skip(1).map(|path| alike(&bytes(path))).min().unwrap_or(0);
        // A pattern is text.
        let beginning = std::str::from_utf8(&first[..length]).ok().filter(|text| text.len() >= BEGINNING_MIN);
        if let Some(text) = beginning {
            lines.add(
                Kind::Begins,
                &folder.join(text),
                all_of_them.rounded_up(),
                "REVIEW: names that begin alike in a folder of everybody's, also those of others",
            );
        } else {
            let why = "REVIEW: a folder of everybody's, with the names of others: give the program one of its own by TMPDIR, and it needs less";
            let kind = if all_of_them.has(Operation::Mkdir) { Kind::Below } else { Kind::Names };
            lines.add(kind, folder, all_of_them.rounded_up(), why);
        }
    }

    /// Folders that were listed, and those of which many files were used in the same way.
    fn folders(&self, lines: &mut Lines) {
        let mut wanted: BTreeMap<&Path, (Operations, &'static str)> = BTreeMap::new();
        let mut alike: BTreeMap<(&Path, u32), (Operations, usize)> = BTreeMap::new();
        for (path, seen) in &self.learned.seen {
            let operations = Self::of(path, seen);
            if operations.has(Operation::Readdir) && !self.is_broad(path) {
                wanted.entry(path).or_insert((operations, "listed")).0 = operations;
            }
            if let Some(folder) = path.parent().filter(|folder| !self.is_broad(folder))
                && !operations.and(OF_FILES).is_empty()
                && !self.learned.has_below(path)
            {
                let entry = alike.entry((folder, operations.rounded_up().bits())).or_default();
                *entry = (entry.0.with(operations), entry.1 + 1);
            }
        }
        // Of several ways of use the commonest is that of the folder.
        let mut commonest: BTreeMap<&Path, (Operations, usize)> = BTreeMap::new();
        for ((folder, _), (operations, count)) in alike {
            let best = commonest.entry(folder).or_insert((operations, count));
            if count > best.1 {
                *best = (operations, count);
            }
        }
        for (folder, (operations, count)) in commonest {
            match wanted.get_mut(folder) {
                Some(line) => line.0 = line.0.with(operations),
                None if self.options.fold_at > 0 && count >= self.options.fold_at => {
                    wanted.insert(folder, (operations, "files used alike"));
                }
                None => {}
            }
        }
        for (folder, (operations, why)) in wanted {
            if !lines.allowed(folder).covers(operations) {
                let around = lines.allowed(folder);
                lines.add(Kind::Tree, folder, operations.with(around).rounded_up(), why);
            }
        }
    }

    /// Every path that no line holds yet.
    fn rest(&self, lines: &mut Lines) {
        for (path, seen) in &self.learned.seen {
            let operations = Self::of(path, seen);
            let around = lines.allowed(path);
            if around.covers(operations) || self.learned.lies_on_the_way(path, operations) {
                continue;
            }
            // A line of its own replaces what the folder above has, so it holds that too.
            let own = operations.with(around).rounded_up();
            match (self.options.look)(path) {
                Found::Folder => lines.add(Kind::Exact, path, own, "the folder alone"),
                Found::Missing if Operations::WAY.covers(operations) => {
                    lines.add(Kind::Tree, path, around.with(Operations::READ), LOOKED_FOR);
                }
                _ => lines.add(Kind::Tree, path, own, ""),
            }
        }
    }

    /// Links that are followed must be there, where a view is all there is; they show what they lead to.
    fn links(&self, lines: &mut Lines) {
        for (link, to) in &self.learned.links {
            let shown = lines.allowed(to);
            if !shown.is_empty() && lines.of(link).is_none() {
                lines.add(Kind::Tree, link, shown, "a link");
            }
        }
    }
}

/// Whether something was only read and executed.
fn is_only_used(seen: &Seen) -> bool {
    Operations::READ_EXEC.covers(seen.operations)
}
