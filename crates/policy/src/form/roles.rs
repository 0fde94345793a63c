//! Roles: named lists of programs, and of operations with arguments.

use super::operations::Said;
use super::reader::Reader;
use crate::Programs;
use crate::mistake::unknown;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use toml::de::DeTable;

/// The roles of a policy by name, without the `@` they are used with.
#[derive(Default)]
pub(super) struct Roles {
    pub(super) programs: BTreeMap<String, Arc<Programs>>,
    pub(super) operations: BTreeMap<String, Arc<Vec<Said>>>,
}

/// Reads `[roles.programs]` and `[roles.operations]`.
pub(super) fn read(reader: &mut Reader<'_>, root: &DeTable<'_>) -> Roles {
    let mut roles = Roles::default();
    let Some(table) = reader.table(root, "roles") else { return roles };
    reader.known(table, "kind of role", &["programs", "operations"]);
    for (name, value) in reader.table(table, "programs").into_iter().flatten() {
        if let Some(programs) = reader.program_list(value) {
            roles.programs.insert(name.get_ref().to_string(), Arc::new(programs));
        }
    }
    for (name, value) in reader.table(table, "operations").into_iter().flatten() {
        let said = Reader::several(value).into_iter().filter_map(|value| reader.said(value)).collect();
        roles.operations.insert(name.get_ref().to_string(), Arc::new(said));
    }
    roles
}

impl Reader<'_> {
    /// A role by name.
    pub(super) fn role<T: Clone>(
        &mut self,
        of: &BTreeMap<String, T>,
        name: &str,
        kind: &str,
        at: Range<usize>,
    ) -> Option<T> {
        let found = of.get(name).cloned();
        if found.is_none() {
            self.wrong(at, unknown(kind, name, of.keys().map(String::as_str)));
        }
        found
    }
}
