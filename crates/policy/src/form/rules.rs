//! The long form: `[[rule]]`, with what it allows and refuses, where, to which programs, for which arguments.

use super::RULES_MAX;
use super::operations::Said;
use super::paths::KINDS;
use super::reader::{Reader, Value};
use super::roles::Roles;
use crate::{Conditions, Operations, Rule, Scope};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

const KEYS: [&str; 10] = ["allow", "deny", "path", "file", "dir", "tree", "glob", "program", "arguments", "yields"];

/// Reads all `[[rule]]`, in order of writing.
pub(super) fn read(reader: &mut Reader<'_>, root: &DeTable<'_>, named: &Roles) -> Vec<Rule> {
    let Some(value) = root.get("rule") else { return Vec::new() };
    let DeValue::Array(values) = value.get_ref() else {
        reader.wrong(value.span(), "rules of the long form are written [[rule]], with two brackets");
        return Vec::new();
    };
    values.iter().flat_map(|value| reader.rule(value, named)).collect()
}

impl Reader<'_> {
    /// Counts a rule; false if there are too many.
    pub(super) fn counted(&mut self, at: Range<usize>) -> bool {
        self.rules += 1;
        if self.rules == RULES_MAX + 1 {
            self.wrong(at, format!("a policy has at most {RULES_MAX} rules"));
        }
        self.rules <= RULES_MAX
    }

    fn rule(&mut self, value: &Value<'_>, named: &Roles) -> Vec<Rule> {
        let Some(table) = value.get_ref().as_table() else {
            self.kind(value, "a rule is a table");
            return Vec::new();
        };
        self.known(table, "key of a rule", &KEYS);
        let before = table.get("program").is_some();
        let programs = table.get("program").and_then(|value| self.programs(value, named));
        let conditions = self.table(table, "arguments").map(|table| self.conditions(table)).unwrap_or_default();
        let said = self.decisions(value, table, named, &conditions);
        let scopes = self.scopes(value, table);
        if before && programs.is_none() {
            // The mistake is noted; without its programs the rule would be about all.
            return Vec::new();
        }
        let line = self.line(&value.span());
        let entry = self.boolean(table, "yields").unwrap_or(false);
        let mut rules = Vec::new();
        for scope in &scopes {
            for (allow, deny, conditions) in &said {
                if !self.counted(value.span()) {
                    return rules;
                }
                let (programs, conditions) = (programs.clone(), conditions.clone());
                let rule = Rule { programs, conditions, entry, line, ..Rule::new(scope.clone(), *allow, *deny) };
                rules.push(rule);
            }
        }
        rules
    }

    /// What is allowed and refused, for which arguments.
    fn decisions(
        &mut self,
        value: &Value<'_>,
        table: &DeTable<'_>,
        named: &Roles,
        conditions: &Conditions,
    ) -> Vec<(Operations, Operations, Conditions)> {
        let mut sides = Vec::new();
        for key in ["allow", "deny"] {
            let named = table.get(key).map(|value| self.named(key, value, named));
            sides.push(named);
        }
        if sides.iter().all(Option::is_none) {
            self.wrong(value.span(), "a rule has `allow`, `deny` or both");
            return Vec::new();
        }
        let sides: Vec<Vec<Said>> = sides.into_iter().map(|side| side.flatten().unwrap_or_default()).collect();
        let plain = |side: &[Said]| side.first().map_or(Operations::NONE, |said| said.operations);
        let (allow, deny) = (plain(&sides[0]), plain(&sides[1]));
        if !allow.and(deny).is_empty() {
            self.wrong(value.span(), format!("the rule allows and denies {}", allow.and(deny)));
        }
        let mut said = Vec::new();
        if !allow.with(deny).is_empty() {
            self.possible(value, allow.with(deny), conditions);
            said.push((allow, deny, conditions.clone()));
        }
        for (number, side) in sides.iter().enumerate() {
            for Said { operations, conditions: own } in side.iter().skip(1) {
                if conditions.count() > 0 {
                    self.wrong(value.span(), "`arguments` of the rule, and a role that has its own");
                }
                self.possible(value, *operations, own);
                let (allow, deny) =
                    if number == 0 { (*operations, Operations::NONE) } else { (Operations::NONE, *operations) };
                said.push((allow, deny, own.clone()));
            }
        }
        if said.is_empty() {
            self.wrong(value.span(), "the rule names no operation");
        }
        said
    }

    /// Refuses arguments that none of the operations has.
    fn possible(&mut self, value: &Value<'_>, operations: Operations, conditions: &Conditions) {
        if operations.and(conditions.possible()).is_empty() {
            self.wrong(
                value.span(),
                format!("the rule never applies: no call of {operations} has the arguments {conditions}"),
            );
        }
    }

    fn scopes(&mut self, value: &Value<'_>, table: &DeTable<'_>) -> Vec<Scope> {
        let given: Vec<_> =
            KINDS.iter().filter_map(|(key, kind)| table.get(*key).map(|value| (*kind, value))).collect();
        let [(kind, paths)] = given.as_slice() else {
            self.wrong(value.span(), "a rule has one of `path`, `file`, `dir`, `tree`, `glob`");
            return Vec::new();
        };
        let mut scopes = Vec::new();
        let values = Self::several(paths);
        if values.is_empty() {
            self.wrong(paths.span(), "a list without paths: such a rule never applies");
        }
        for value in values {
            if let Some(written) = self.text(value, "a path") {
                scopes.extend(self.scope(*kind, written, value.span()));
            }
        }
        scopes
    }
}
