//! Who asks, as numbers: each set of programs that a rule names has one.

use super::Entry;
use crate::Rule;
use crate::program::Who;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Which sets of programs a program is in by its path and by its name, found once for a decision: many rules of one place may each name another program.
#[derive(Debug, Default)]
pub(super) struct Sets {
    /// Numbers by address: a role is one set for all rules that use it.
    numbers: HashMap<usize, usize>,
    by_path: HashMap<Vec<u8>, Vec<usize>>,
    by_name: HashMap<Vec<u8>, Vec<usize>>,
}

/// The program that asks, with the numbers of the sets it is in, in order.
pub(super) struct Asking<'a> {
    program: &'a Path,
    by_path: &'a [usize],
    by_name: &'a [usize],
}

impl Sets {
    /// A rule for each way in which it names programs.
    pub(super) fn entries(&mut self, rule: usize, of: &Rule) -> Vec<Entry> {
        let entry = |who, set| Entry { rule, who, programs: of.programs.clone(), set, pattern: 0 };
        let Some(programs) = &of.programs else { return vec![entry(Who::Any, 0)] };
        let next = self.numbers.len() + 1;
        let set = *self.numbers.entry(Arc::as_ptr(programs) as usize).or_insert(next);
        if set == next {
            let (paths, names) = programs.literal();
            paths.for_each(|path| self.by_path.entry(path.to_owned()).or_default().push(set));
            names.for_each(|name| self.by_name.entry(name.to_owned()).or_default().push(set));
        }
        programs.ways().map(|who| entry(who, set)).collect()
    }

    pub(super) fn of<'a>(&'a self, program: &'a Path) -> Asking<'a> {
        if self.numbers.is_empty() {
            return Asking { program, by_path: &[], by_name: &[] };
        }
        let find = |map: &'a HashMap<Vec<u8>, Vec<usize>>, key: &[u8]| map.get(key).map_or(&[][..], Vec::as_slice);
        let name = program.file_name().map_or(&[][..], OsStrExt::as_bytes);
        Asking {
            program,
            by_path: find(&self.by_path, program.as_os_str().as_bytes()),
            by_name: find(&self.by_name, name),
        }
    }
}

impl Asking<'_> {
    pub(super) fn is_among(&self, entry: &Entry) -> bool {
        match entry.who {
            Who::Any => true,
            Who::Path => self.by_path.binary_search(&entry.set).is_ok(),
            Who::Name => self.by_name.binary_search(&entry.set).is_ok(),
            Who::Glob => entry.programs.as_ref().is_some_and(|programs| programs.has(Who::Glob, self.program)),
        }
    }
}
