//! `model.txt`: which fields a rule has, which of them are compared, and whether the list allows or refuses.

use crate::mistake::{Mistake, Mistakes, unknown};

/// A field of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Subject,
    Object,
    Action,
    Arguments,
}

/// What a model says.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// The fields of a rule, in their order.
    pub(super) fields: Vec<Field>,
    /// Whether the list allows; or else it refuses.
    pub(super) allows: bool,
    /// What is compared, and how.
    pub(super) subject: Match,
    pub(super) object: bool,
    pub(super) action: Match,
    pub(super) arguments: bool,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Match {
    /// Not at all.
    #[default]
    Never,
    /// By itself.
    Itself,
    /// By a role.
    Role,
}

const FIELDS: [(&str, Field); 4] =
    [("sub", Field::Subject), ("obj", Field::Object), ("act", Field::Action), ("args", Field::Arguments)];
const SECTIONS: [&str; 5] =
    ["[request_definition]", "[policy_definition]", "[role_definition]", "[policy_effect]", "[matchers]"];
const TERMS: [&str; 6] = [
    "r.sub==p.sub",
    "g(r.sub,p.sub)",
    "r.obj==p.obj",
    "r.act==p.act",
    "r.args==p.args",
    "a(r.act,p.act;r.args,p.args)",
];

/// Combinations of terms (by their place in `TERMS`) that mean something: `BoesFS` has these, the second one without saying so.
const COMBINATIONS: [&[usize]; 13] = [
    &[0, 2],
    &[1, 2],
    &[0, 3],
    &[1, 3],
    &[2, 3],
    &[0, 2, 3],
    &[1, 2, 3],
    &[0, 2, 3, 4],
    &[1, 2, 3, 4],
    &[2, 3, 4],
    &[0, 2, 5],
    &[1, 2, 5],
    &[2, 5],
];

/// A line without its white space, with its number.
type Line = (usize, String);

struct Sections {
    file: String,
    lines: Vec<(&'static str, Line)>,
}

/// Reads a model.
pub(super) fn parse(file: &str, text: &str) -> Result<Model, Mistakes> {
    let sections = Sections::of(file, text)?;
    let request = sections.one("[request_definition]", "r=")?;
    sections.fields(&request)?;
    let definition = sections.one("[policy_definition]", "p=")?;
    let fields = sections.fields(&definition)?;
    let roles = sections.roles()?;
    let effect = sections.one("[policy_effect]", "e=")?;
    let allows = match effect.1.as_str() {
        "some(where(p.eft==allow))" => true,
        "!some(where(p.eft==deny))" => false,
        other => {
            let known = ["some(where(p.eft==allow))", "!some(where(p.eft==deny))"];
            return Err(sections.wrong(effect.0, unknown("effect", other, known)));
        }
    };
    let matchers = sections.one("[matchers]", "m=")?;
    let terms = sections.terms(&matchers, &fields, roles)?;
    let has = |term| terms.contains(&term);
    let by = |itself, role| match (has(itself), has(role)) {
        (true, _) => Match::Itself,
        (_, true) => Match::Role,
        _ => Match::Never,
    };
    Ok(Model { fields, allows, subject: by(0, 1), object: has(2), action: by(3, 5), arguments: has(4) || has(5) })
}

impl Sections {
    fn of(file: &str, text: &str) -> Result<Self, Mistakes> {
        let mut sections = Self { file: file.to_owned(), lines: Vec::new() };
        let mut section = None;
        for (number, line) in text.lines().enumerate() {
            let line: String = line.chars().filter(|letter| !letter.is_whitespace()).collect();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.starts_with('[') {
                let known = SECTIONS.iter().find(|known| **known == line);
                section = Some(
                    *known.ok_or_else(|| sections.wrong(number + 1, unknown("part of a model", &line, SECTIONS)))?,
                );
            } else if let Some(section) = section {
                sections.lines.push((section, (number + 1, line)));
            } else {
                return Err(sections.wrong(number + 1, "a model begins with [request_definition]"));
            }
        }
        Ok(sections)
    }

    fn wrong(&self, line: usize, text: impl Into<String>) -> Mistakes {
        Mistakes(vec![Mistake { file: self.file.clone(), line, column: 0, text: text.into() }])
    }

    /// The only line of a section, after what it begins with.
    fn one(&self, section: &str, begin: &str) -> Result<Line, Mistakes> {
        let lines: Vec<_> = self.lines.iter().filter(|(of, _)| *of == section).map(|(_, line)| line).collect();
        match lines.as_slice() {
            [] => Err(self.wrong(0, format!("{section} is missing, or has no line"))),
            [(number, line)] => {
                let rest = line.strip_prefix(begin);
                rest.map(|rest| (*number, rest.to_owned()))
                    .ok_or_else(|| self.wrong(*number, format!("a line of {section} begins with `{begin}`")))
            }
            [_, second, ..] => Err(self.wrong(second.0, format!("{section} has one line"))),
        }
    }

    fn fields(&self, (number, text): &Line) -> Result<Vec<Field>, Mistakes> {
        let mut fields = Vec::new();
        for word in text.split(',') {
            let known = FIELDS.iter().position(|(name, _)| *name == word);
            let known =
                known.ok_or_else(|| self.wrong(*number, unknown("field", word, FIELDS.map(|(name, _)| name))))?;
            fields.push(known);
        }
        if fields.len() < 2 || !fields.is_sorted_by(|one, next| one < next) {
            return Err(self.wrong(*number, "two or more of the fields sub, obj, act, args, in this order"));
        }
        Ok(fields.into_iter().map(|field| FIELDS[field].1).collect())
    }

    /// Which roles are defined: those of subjects, those of actions.
    fn roles(&self) -> Result<[bool; 2], Mistakes> {
        let mut roles = [false; 2];
        for (_, (number, line)) in self.lines.iter().filter(|(of, _)| *of == "[role_definition]") {
            match line.as_str() {
                "g=_,_" => roles[0] = true,
                "a=_,_;_,_" => roles[1] = true,
                other => return Err(self.wrong(*number, unknown("definition of roles", other, ["g=_,_", "a=_,_;_,_"]))),
            }
        }
        Ok(roles)
    }

    /// What is compared, as places in `TERMS`.
    fn terms(&self, (number, text): &Line, fields: &[Field], roles: [bool; 2]) -> Result<Vec<usize>, Mistakes> {
        let mut terms = Vec::new();
        for word in text.split("&&") {
            let known = TERMS.iter().position(|term| *term == word);
            terms.push(known.ok_or_else(|| self.wrong(*number, unknown("comparison", word, TERMS)))?);
        }
        terms.sort_unstable();
        if !COMBINATIONS.contains(&terms.as_slice()) {
            return Err(self.wrong(
                *number,
                "these comparisons do not go together: arguments need object and action, and a field is compared once",
            ));
        }
        let needs = |term, field| !terms.contains(&term) || fields.contains(&field);
        let defined = needs(0, Field::Subject)
            && needs(1, Field::Subject)
            && needs(2, Field::Object)
            && needs(3, Field::Action)
            && needs(4, Field::Arguments)
            && needs(5, Field::Action)
            && needs(5, Field::Arguments);
        if !defined {
            return Err(self.wrong(*number, "a field is compared that [policy_definition] does not have"));
        }
        if terms.contains(&1) && !roles[0] || terms.contains(&5) && !roles[1] {
            return Err(self.wrong(*number, "a role is compared that [role_definition] does not have"));
        }
        Ok(terms)
    }
}
