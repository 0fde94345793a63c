//! What all tables are read with: values of the right kind, known keys, places of mistakes.

use crate::mistake::{self, Lines, MISTAKES_MAX, Mistake, Mistakes};
use crate::{Operations, Rule};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value with its place.
pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// Reads one text and gathers what is wrong with it.
pub(super) struct Reader<'a> {
    file: &'a str,
    pub(super) base: &'a Path,
    lines: Lines<'a>,
    mistakes: Vec<(usize, Mistake)>,
    /// How many rules and patterns there are until now, against the limits.
    pub(super) rules: usize,
    pub(super) patterns: usize,
    pub(super) pattern_bytes: usize,
    pub(super) patterns_exceeded: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str, base: &'a Path, text: &'a str) -> Self {
        Self {
            file,
            base,
            lines: Lines::new(text),
            mistakes: Vec::new(),
            rules: 0,
            patterns: 0,
            pattern_bytes: 0,
            patterns_exceeded: false,
        }
    }

    /// Notes a mistake at a place.
    pub(super) fn wrong(&mut self, at: Range<usize>, text: impl Into<String>) {
        if self.mistakes.len() < MISTAKES_MAX {
            let (line, column) = self.lines.place(at.start);
            let mistake = Mistake { file: self.file.to_owned(), line, column, text: text.into() };
            self.mistakes.push((at.start, mistake));
        }
    }

    pub(super) fn line(&self, at: &Range<usize>) -> usize {
        self.lines.place(at.start).0
    }

    /// What was read, if nothing was wrong.
    pub(super) fn finish<T>(mut self, read: T) -> Result<T, Mistakes> {
        if self.mistakes.is_empty() {
            return Ok(read);
        }
        self.mistakes.sort_by_key(|(at, _)| *at);
        Err(Mistakes(self.mistakes.into_iter().map(|(_, mistake)| mistake).collect()))
    }

    /// Refuses keys that are not known.
    pub(super) fn known(&mut self, table: &DeTable<'_>, kind: &str, known: &[&str]) {
        for (key, _) in table {
            if !known.contains(&key.get_ref().as_ref()) {
                self.wrong(key.span(), mistake::unknown(kind, key.get_ref(), known.iter().copied()));
            }
        }
    }

    /// A table of a table, if it is there.
    pub(super) fn table<'t, 'v>(&mut self, table: &'t DeTable<'v>, key: &str) -> Option<&'t DeTable<'v>> {
        let value = table.get(key)?;
        let found = value.get_ref().as_table();
        if found.is_none() {
            self.kind(value, &format!("`{key}` is a table"));
        }
        found
    }

    /// One of some words.
    pub(super) fn word<'w>(&mut self, table: &DeTable<'_>, key: &str, words: &[&'w str]) -> Option<&'w str> {
        let value = table.get(key)?;
        let text = self.text(value, &format!("`{key}`"))?;
        let found = words.iter().find(|word| **word == text).copied();
        if found.is_none() {
            let text = mistake::unknown(&format!("word for `{key}`"), text, words.iter().copied());
            self.wrong(value.span(), text);
        }
        found
    }

    pub(super) fn boolean(&mut self, table: &DeTable<'_>, key: &str) -> Option<bool> {
        let value = table.get(key)?;
        let found = value.get_ref().as_bool();
        if found.is_none() {
            self.kind(value, &format!("`{key}` is true or false"));
        }
        found
    }

    /// A text; `what` is what it should be, for the mistake.
    pub(super) fn text<'v>(&mut self, value: &'v Value<'_>, what: &str) -> Option<&'v str> {
        let found = value.get_ref().as_str();
        if found.is_none() {
            self.kind(value, &format!("{what} is a text in quotes"));
        }
        found
    }

    /// The values of an array, or the one value that stands for an array of one.
    pub(super) fn several<'v, 't>(value: &'v Value<'t>) -> Vec<&'v Value<'t>> {
        match value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            _ => vec![value],
        }
    }

    /// An integer within bounds.
    pub(super) fn integer(&mut self, value: &Value<'_>, what: &str, bounds: Range<i128>) -> Option<i128> {
        let read = value.get_ref().as_integer();
        let number = read.and_then(|number| i128::from_str_radix(number.as_str(), number.radix()).ok());
        match number {
            Some(number) if bounds.contains(&number) => return Some(number),
            None if read.is_none() => self.kind(value, &format!("{what} is a number")),
            _ => self.wrong(value.span(), format!("{what} is from {} to {}", bounds.start, bounds.end - 1)),
        }
        None
    }

    /// Notes that a value is of the wrong kind.
    pub(super) fn kind(&mut self, value: &Value<'_>, wanted: &str) {
        self.wrong(value.span(), format!("{wanted}, and this is of type {}", value.get_ref().type_str()));
    }

    /// Refuses rules that contradict each other: the same place, programs, arguments and form, and one refuses what the other allows.
    pub(super) fn agree(&mut self, rules: &[Rule]) {
        let mut said: HashMap<Key<'_>, Said> = HashMap::new();
        let mut programs = Interned::default();
        for rule in rules {
            let key = (place(rule), rule.entry, programs.number(rule), rule.conditions.named());
            let before = said.entry(key).or_default();
            if let Some((line, against)) = before.against(rule) {
                let text =
                    format!("line {line} contradicts this: it decides {against} on {} the other way", rule.scope);
                let whole = Mistake { file: self.file.to_owned(), line: rule.line, column: 0, text };
                if self.mistakes.len() < MISTAKES_MAX {
                    let start = self.lines.start(rule.line);
                    self.mistakes.push((start, whole));
                }
            }
            before.say(rule);
        }
    }
}

type Key<'a> = (Place<'a>, bool, usize, Vec<(&'static str, String)>);

/// What two rules must share to be about the same place: `dir` and `tree` meet in what is below.
#[derive(PartialEq, Eq, Hash)]
enum Place<'a> {
    Exact(&'a PathBuf),
    Folder(&'a PathBuf),
    Glob(&'a String),
}

fn place(rule: &Rule) -> Place<'_> {
    match &rule.scope {
        crate::Scope::Exact(path) => Place::Exact(path),
        crate::Scope::Below(path) | crate::Scope::Tree(path) => Place::Folder(path),
        crate::Scope::Glob(pattern) => Place::Glob(pattern),
    }
}

/// Numbers for sets of programs: equal ones have the same.
#[derive(Default)]
struct Interned {
    by_address: HashMap<usize, usize>,
    by_names: HashMap<Vec<String>, usize>,
}

impl Interned {
    fn number(&mut self, rule: &Rule) -> usize {
        let Some(programs) = &rule.programs else { return 0 };
        let next = self.by_names.len() + 1;
        // A role is one set for all rules that use it, and may be long.
        *self
            .by_address
            .entry(Arc::as_ptr(programs) as usize)
            .or_insert_with(|| *self.by_names.entry(programs.written()).or_insert(next))
    }
}

/// What rules of one place have said until now, with the lines.
#[derive(Default)]
struct Said {
    rules: Vec<(usize, Operations, Operations)>,
    allow: Operations,
    deny: Operations,
}

impl Said {
    /// Lines that say the opposite of some operations; the first is enough.
    fn against(&self, rule: &Rule) -> Option<(usize, Operations)> {
        if self.deny.and(rule.allow).with(self.allow.and(rule.deny)).is_empty() {
            return None;
        }
        let clash = |(line, allow, deny): &(usize, Operations, Operations)| {
            let both = deny.and(rule.allow).with(allow.and(rule.deny));
            (!both.is_empty()).then_some((*line, both))
        };
        self.rules.iter().find_map(clash)
    }

    fn say(&mut self, rule: &Rule) {
        self.rules.push((rule.line, rule.allow, rule.deny));
        self.allow = self.allow.with(rule.allow);
        self.deny = self.deny.with(rule.deny);
    }
}
