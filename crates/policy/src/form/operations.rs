//! Operations and arguments, as rules and roles name them.

use super::reader::{Reader, Value};
use super::roles::Roles;
use crate::mistake::unknown;
use crate::{ARGUMENTS, Conditions, GROUPS, Operation, Operations};
use toml::de::DeTable;

/// Operations, for some arguments.
#[derive(Clone)]
pub(super) struct Said {
    pub(super) operations: Operations,
    pub(super) conditions: Conditions,
}

/// Words that `deny` takes. `"read"` and `"write"` would be taken for the single operations, and are whole groups.
const DENIED: [(&str, Operations); 2] = [("all", Operations::ALL), ("change", Operations::CHANGE)];

impl Reader<'_> {
    /// What the short form allows: a word for a group, or a list of operations.
    pub(super) fn allowed(&mut self, value: &Value<'_>) -> Option<Operations> {
        match value.get_ref().as_str() {
            Some(word) => self.group(word, value, &GROUPS),
            None => self.listed(value),
        }
    }

    /// What `allow` or `deny` of the long form names: a word, a role, or a list of operations and roles.
    pub(super) fn named(&mut self, key: &str, value: &Value<'_>, roles: &Roles) -> Option<Vec<Said>> {
        let words: &[_] = if key == "deny" { &DENIED } else { &GROUPS };
        match value.get_ref().as_str() {
            Some(word) if !word.starts_with('@') => {
                let operations = self.group(word, value, words)?;
                return Some(vec![Said { operations, conditions: Conditions::default() }]);
            }
            _ => {}
        }
        let mut named = vec![Said { operations: Operations::NONE, conditions: Conditions::default() }];
        for value in Self::several(value) {
            let word = self.text(value, "an operation")?;
            if let Some(role) = word.strip_prefix('@') {
                let role = self.role(&roles.operations, role, "role of operations", value.span())?;
                for said in role.iter() {
                    if said.conditions.count() == 0 {
                        named[0].operations = named[0].operations.with(said.operations);
                    } else {
                        named.push(said.clone());
                    }
                }
            } else {
                named[0].operations = named[0].operations.with(self.operation(word, value)?);
            }
        }
        Some(named)
    }

    /// An item of a role: an operation, or one with arguments.
    pub(super) fn said(&mut self, value: &Value<'_>) -> Option<Said> {
        let Some(table) = value.get_ref().as_table() else {
            let word = self.text(value, "an item of a role of operations, if it has no arguments,")?;
            return Some(Said { operations: self.operation(word, value)?, conditions: Conditions::default() });
        };
        self.known(table, "key of an operation with arguments", &["operation", "arguments"]);
        let Some(operation) = table.get("operation") else {
            self.wrong(value.span(), "`operation` is missing");
            return None;
        };
        let word = self.text(operation, "`operation`")?;
        let operations = self.operation(word, operation)?;
        let conditions = self.table(table, "arguments").map(|table| self.conditions(table)).unwrap_or_default();
        Some(Said { operations, conditions })
    }

    fn group(&mut self, word: &str, value: &Value<'_>, words: &[(&'static str, Operations)]) -> Option<Operations> {
        let found = words.iter().find(|(name, _)| *name == word).map(|(_, set)| *set);
        if found.is_none() {
            let operation = Operation::ALL.iter().any(|operation| operation.name() == word);
            let text = if operation {
                format!("a word alone is a group of operations; for the operation write [\"{word}\"]")
            } else {
                unknown("group of operations", word, words.iter().map(|(name, _)| *name))
            };
            self.wrong(value.span(), text);
        }
        found
    }

    fn listed(&mut self, value: &Value<'_>) -> Option<Operations> {
        let mut set = Operations::NONE;
        if !value.get_ref().is_array() {
            self.kind(value, "what may be done is a word for a group or a list of operations");
            return None;
        }
        for value in Self::several(value) {
            let word = self.text(value, "an operation")?;
            set = set.with(self.operation(word, value)?);
        }
        Some(set)
    }

    fn operation(&mut self, word: &str, value: &Value<'_>) -> Option<Operations> {
        let found = Operation::ALL.into_iter().find(|operation| operation.name() == word);
        if found.is_none() {
            let text = if GROUPS.iter().any(|(name, _)| *name == word) {
                format!("{word:?} is a group of operations, and stands alone and not in a list")
            } else {
                unknown("operation", word, Operation::ALL.map(Operation::name))
            };
            self.wrong(value.span(), text);
        }
        found.map(|operation| Operations::of(&[operation]))
    }

    /// Arguments with the values they must have; `"*"` is any.
    pub(super) fn conditions(&mut self, table: &DeTable<'_>) -> Conditions {
        let names: Vec<_> = ARGUMENTS.iter().map(|(name, _)| *name).chain(["range"]).collect();
        self.known(table, "argument", &names);
        let mut wanted = Conditions::default();
        for (name, value) in table {
            if value.get_ref().as_str() != Some("*") {
                self.condition(&mut wanted, name.get_ref(), value);
            }
        }
        wanted
    }

    fn condition(&mut self, wanted: &mut Conditions, name: &str, value: &Value<'_>) {
        match name {
            "length" => wanted.length = self.number(name, value),
            "offset" => wanted.offset = self.fitting(name, value, i64::MIN.into(), i64::MAX.into()),
            "whence" => wanted.whence = self.fitting(name, value, 0, i32::MAX.into()),
            "mode" => wanted.mode = self.small(name, value),
            "device" => wanted.device = self.number(name, value),
            "uid" => wanted.uid = self.small(name, value),
            "gid" => wanted.gid = self.small(name, value),
            "flags" => wanted.flags = self.number(name, value),
            "size" => wanted.size = self.number(name, value),
            "start" => wanted.start = self.number(name, value),
            "end" => wanted.end = self.number(name, value),
            "other" => wanted.other = self.text(value, name).and_then(|written| self.target(written, value.span())),
            "range" => match Self::several(value).as_slice() {
                [start, end] => {
                    wanted.start = self.number("the start of a range", start);
                    wanted.end = self.number("the end of a range", end);
                }
                _ => {
                    self.wrong(value.span(), "`range` is a list of two numbers: the first byte, and one past the last");
                }
            },
            // Named by `known`.
            _ => {}
        }
    }

    fn number(&mut self, name: &str, value: &Value<'_>) -> Option<u64> {
        self.fitting(name, value, 0, u64::MAX.into())
    }

    fn small(&mut self, name: &str, value: &Value<'_>) -> Option<u32> {
        self.fitting(name, value, 0, u32::MAX.into())
    }

    fn fitting<T: TryFrom<i128>>(&mut self, name: &str, value: &Value<'_>, least: i128, most: i128) -> Option<T> {
        self.integer(value, name, least..most + 1)?.try_into().ok()
    }
}
