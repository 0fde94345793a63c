//! `policy.txt`: its rules, and who and what has which role.

use super::model::{Field, Match, Model};
use super::words::{Word, arguments, names, word};
use crate::Conditions;
use crate::form::{PATH_MAX_BYTES, PATH_MAX_PARTS};
use crate::mistake::{MISTAKES_MAX, Mistake, Mistakes, unknown};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The longest name of a file on Linux (`NAME_MAX`).
const NAME_MAX_BYTES: usize = 255;

/// A rule, as far as its model looks at it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: usize,
    /// File name of a program, or a role of programs.
    pub(super) subject: Option<String>,
    pub(super) path: Option<PathBuf>,
    /// Operations with arguments; every operation where the model does not look at them.
    pub(super) actions: Actions,
    /// Whether it is about what is below the path.
    pub(super) below: bool,
}

/// Operations, each for some arguments. A role has them once for all rules that use it.
pub(super) type Actions = Arc<Vec<(Word, Conditions)>>;

/// All of a policy.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) rules: Vec<Line>,
    /// Roles of programs, each with file names.
    pub(super) programs: BTreeMap<String, BTreeSet<String>>,
}

struct Parser<'a> {
    file: &'a str,
    model: &'a Model,
    mistakes: Vec<Mistake>,
    warnings: Vec<Mistake>,
    lines: Lines,
    actions: BTreeMap<String, Actions>,
}

/// Reads the lines, and says which of them have no effect.
pub(super) fn parse(file: &str, text: &str, model: &Model) -> Result<(Lines, Vec<Mistake>), Mistakes> {
    let (mistakes, warnings) = (Vec::new(), Vec::new());
    let mut parser = Parser { file, model, mistakes, warnings, lines: Lines::default(), actions: BTreeMap::new() };
    let split: Vec<_> = text.lines().enumerate().map(|(number, line)| (number + 1, fields(line))).collect();
    // A role may be used above the line that gives it.
    for (number, fields) in &split {
        parser.role(*number, fields);
    }
    for (number, fields) in &split {
        parser.rule(*number, fields);
    }
    if parser.mistakes.is_empty() { Ok((parser.lines, parser.warnings)) } else { Err(Mistakes(parser.mistakes)) }
}

/// The fields of a line: what is between commas, where parentheses hold theirs together.
fn fields(line: &str) -> Vec<&str> {
    let line = line.trim();
    // Lines of `=` part the policies of one of the original's own files.
    if line.is_empty() || line.starts_with(['#', '=']) {
        return Vec::new();
    }
    let (mut fields, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, letter) in line.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                fields.push(line[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    fields.push(line[start..].trim());
    fields
}

impl Parser<'_> {
    fn wrong<T>(&mut self, line: usize, text: impl Into<String>) -> Option<T> {
        self.note(line, text);
        None
    }

    fn note(&mut self, line: usize, text: impl Into<String>) {
        if self.mistakes.len() < MISTAKES_MAX {
            self.mistakes.push(Mistake { file: self.file.to_owned(), line, column: 0, text: text.into() });
        }
    }

    fn warn(&mut self, line: usize, text: impl Into<String>) {
        self.warnings.push(Mistake { file: self.file.to_owned(), line, column: 0, text: text.into() });
    }

    /// A line that gives a role.
    fn role(&mut self, number: usize, fields: &[&str]) {
        match fields {
            ["g", program, role] => {
                if let Some(name) = self.file_name(number, program) {
                    self.lines.programs.entry((*role).to_owned()).or_default().insert(name);
                }
            }
            ["a", role, action, given] => {
                let word = self.word(number, action);
                let conditions = word.and_then(|word| self.arguments(number, word, given));
                if let (Some(word), Some(conditions)) = (word, conditions) {
                    let actions = self.actions.entry((*role).to_owned()).or_default();
                    Arc::make_mut(actions).push((word, conditions));
                }
            }
            ["g", ..] => self.note(number, "a role of programs is given so: g, PROGRAM, ROLE"),
            ["a", ..] => {
                let text = "a role of operations is given so: a, ROLE, OPERATION, (ARGUMENTS)";
                self.note(number, text);
            }
            [] | ["p", ..] => {}
            [other, ..] => {
                let text = format!("a line begins with `p`, `g`, `a` or `#`, and not with {other:?}");
                self.note(number, text);
            }
        }
    }

    fn rule(&mut self, number: usize, fields: &[&str]) {
        if let ["p", fields @ ..] = fields
            && let Some(line) = self.line(number, fields)
        {
            self.lines.rules.push(line);
        }
    }

    fn line(&mut self, number: usize, fields: &[&str]) -> Option<Line> {
        let by_role = self.model.action == Match::Role;
        // A role of operations stands for the operation and its arguments.
        let wanted: Vec<_> =
            self.model.fields.iter().copied().filter(|field| !(by_role && *field == Field::Arguments)).collect();
        let [given @ .., kind, effect] = fields else {
            return self.wrong(number, "a rule ends in file or dir, and in allow or deny");
        };
        if given.len() != wanted.len() {
            return self.wrong(
                number,
                format!("the model has {} fields before file or dir, and here are {}", wanted.len(), given.len()),
            );
        }
        let field = |wanted_field| wanted.iter().position(|field| *field == wanted_field).map(|at| given[at]);
        let below = match *kind {
            "file" => false,
            "dir" => true,
            other => return self.wrong(number, unknown("kind of path", other, ["file", "dir"])),
        };
        let allow = match *effect {
            "allow" => true,
            "deny" => false,
            other => return self.wrong(number, unknown("effect", other, ["allow", "deny"])),
        };
        let subject = field(Field::Subject).filter(|_| self.model.subject != Match::Never);
        let subject = match subject {
            Some(name) => Some(self.subject(number, name)?),
            None => None,
        };
        let path = match field(Field::Object).filter(|_| self.model.object) {
            Some(path) => Some(self.path(number, path)?),
            None => None,
        };
        let actions = self.actions(number, field(Field::Action), field(Field::Arguments))?;
        if allow != self.model.allows {
            let other = if allow { "allow" } else { "deny" };
            self.warn(
                number,
                format!("no effect: the model's list is of the other kind, and {other} is nothing in it"),
            );
            return None;
        }
        Some(Line { number, subject, path, actions, below })
    }

    fn subject(&mut self, number: usize, name: &str) -> Option<String> {
        if self.model.subject == Match::Itself {
            return self.file_name(number, name);
        }
        if !self.lines.programs.contains_key(name) {
            self.warn(number, format!("no effect: no program has the role {name:?}"));
        }
        Some(name.to_owned())
    }

    fn file_name(&mut self, number: usize, program: &str) -> Option<String> {
        let good =
            |name: &&str| !matches!(*name, "" | "." | "..") && name.len() <= NAME_MAX_BYTES && !name.contains('\0');
        let name = program.rsplit('/').next().filter(good);
        name.map(str::to_owned).or_else(|| self.wrong(number, format!("{program:?} is no program")))
    }

    fn path(&mut self, number: usize, text: &str) -> Option<PathBuf> {
        let path = Path::new(text);
        let odd = |part: Component<'_>| matches!(part, Component::ParentDir);
        let long = text.len() > PATH_MAX_BYTES || path.components().count() > PATH_MAX_PARTS;
        if !path.is_absolute() || path.components().any(odd) || text.contains('\0') || long {
            return self
                .wrong(number, format!("a path is absolute, without `..`, and no longer than {PATH_MAX_BYTES} bytes and {PATH_MAX_PARTS} parts"));
        }
        Some(path.components().collect())
    }

    fn actions(&mut self, number: usize, action: Option<&str>, given: Option<&str>) -> Option<Actions> {
        let Some(action) = action.filter(|_| self.model.action != Match::Never) else {
            return Some(Arc::new(vec![(Word::Default, Conditions::default())]));
        };
        if self.model.action == Match::Role {
            if let Some(known) = self.actions.get(action) {
                return Some(Arc::clone(known));
            }
            let text = unknown("role of operations", action, self.actions.keys().map(String::as_str));
            return self.wrong(number, text);
        }
        let word = self.word(number, action)?;
        let conditions = match given.filter(|_| self.model.arguments) {
            Some(given) => self.arguments(number, word, given)?,
            None => Conditions::default(),
        };
        if word == Word::Default && self.model.allows {
            self.warn(
                number,
                "`default` allows every operation here; in BoesFS it allowed none, whatever its manual says",
            );
        }
        Some(Arc::new(vec![(word, conditions)]))
    }

    fn word(&mut self, number: usize, name: &str) -> Option<Word> {
        word(name).or_else(|| self.wrong(number, unknown("operation", name, names())))
    }

    fn arguments(&mut self, number: usize, word: Word, text: &str) -> Option<Conditions> {
        let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let Some(inner) = inner else { return self.wrong(number, "arguments are in parentheses, and `*` is any") };
        let given: Vec<_> =
            if inner.trim().is_empty() { Vec::new() } else { inner.split(',').map(str::trim).collect() };
        match arguments(word, &given) {
            Ok(conditions) => Some(conditions),
            Err(text) => self.wrong(number, text),
        }
    }
}
