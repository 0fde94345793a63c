//! Templates: text with dates, variables and parts of names in braces.
//!
//! | in braces | |
//! |---|---|
//! | `today`, `today-1d`, `today+2w`, `today-6h` | the day a run is due, or one before or after it; `:` and a format of strftime(3) may follow, else it is `%Y-%m-%d` |
//! | a name | a variable of the job |
//! | `modified:%Y` | when the file changed; in new names only, as are the others below |
//! | `name`, `stem`, `extension`, `parent` | parts of the file's path |
//! | `1`, `year` | what a group of `rename-match` matched, by number or name |
//!
//! `{{` and `}}` are braces. What a template becomes has [`FILLED_MAX`] bytes at most.

mod rename;
mod variables;

pub use rename::Renamer;
pub(crate) use rename::is_group;
pub use variables::{Combination, Range, Variable, combinations};

use holdfast_base::{Error, ErrorKind, Result};
use jiff::{Span, Timestamp, ZonedDateTime};

/// Longest template.
const TEXT_MAX: usize = 4_096;
/// Longest text that one becomes: four times what a path can have is more than any place takes.
const FILLED_MAX: usize = 16_384;
/// Furthest shift of a date, in days: a hundred years.
const SHIFT_DAYS_MAX: i64 = 36_525;

/// Names of what a new name can be made of.
pub const FILE_PARTS: [&str; 4] = ["name", "stem", "extension", "parent"];

/// A template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Name(String),
    Date { of: Of, hours: i64, days: i64, format: String },
}

/// Which date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Run,
    File,
}

/// What a template is filled with.
pub struct Fill<'f> {
    /// When the run is due, in the job's zone.
    pub due: &'f ZonedDateTime,
    /// When the file changed, if it is known.
    pub modified: Option<Timestamp>,
    /// What a name stands for.
    pub named: &'f dyn Fn(&str) -> Option<String>,
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::invalid("there is nothing in it"));
        }
        if text.len() > TEXT_MAX {
            return Err(Error::invalid(format!("it can have {TEXT_MAX} bytes at most")));
        }
        if text.chars().any(char::is_control) {
            return Err(Error::invalid("it has a control character in it"));
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            literal.push_str(before);
            rest = if let Some(after) = brace.strip_prefix("{{") {
                literal.push('{');
                after
            } else if let Some(after) = brace.strip_prefix("}}") {
                literal.push('}');
                after
            } else if let Some((inside, after)) = brace.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(part(inside)?);
                after
            } else {
                return Err(Error::invalid(format!(
                    "{text:?} has a brace without its other one: {{{{ and }}}} are braces themselves"
                )));
            };
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names it uses.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether it speaks of a file's time.
    pub fn asks_for_time_of_file(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Date { of: Of::File, .. }))
    }

    /// What it begins with, as far as that is fixed.
    pub fn beginning(&self) -> &str {
        match self.parts.first() {
            Some(Part::Text(text)) => text,
            _ => "",
        }
    }

    /// Fills it.
    pub fn fill(&self, with: &Fill<'_>) -> Result<String> {
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Name(name) => filled.push_str(&(with.named)(name).ok_or_else(|| unknown(name))?),
                Part::Date { of, hours, days, format } => {
                    let from = match of {
                        Of::Run => with.due.clone(),
                        Of::File => {
                            let at = with.modified.ok_or_else(|| Error::invalid("nobody knows when it changed"))?;
                            at.to_zoned_datetime(with.due.time_zone().clone())
                        }
                    };
                    filled.push_str(&date(&from, *hours, *days, format)?);
                }
            }
            if filled.len() > FILLED_MAX {
                return Err(Error::new(
                    ErrorKind::TooLarge,
                    format!("{:?} becomes longer than {FILLED_MAX} bytes", self.text),
                ));
            }
        }
        Ok(filled)
    }
}

fn unknown(name: &str) -> Error {
    Error::invalid(format!("{{{name}}} is no variable of the job"))
}

fn date(from: &ZonedDateTime, hours: i64, days: i64, format: &str) -> Result<String> {
    let bad = |error: jiff::Error| Error::invalid(format!("the date {format:?} cannot be written: {error}"));
    let span = Span::new().try_hours(hours).and_then(|span| span.try_days(days)).map_err(bad)?;
    let at = from.checked_add(span).map_err(bad)?;
    jiff::fmt::strtime::format(format, &at).map_err(bad)
}

fn part(inside: &str) -> Result<Part> {
    let (name, format) = inside.split_once(':').map_or((inside, None), |(name, format)| (name, Some(format)));
    let word = name.split(['+', '-']).next().unwrap_or(name);
    let of = match word {
        "today" => Of::Run,
        "modified" => Of::File,
        _ if format.is_some() => {
            return Err(Error::invalid(format!("{{{inside}}}: only today and modified have a format after a colon")));
        }
        _ if is_name(name) => return Ok(Part::Name(name.to_owned())),
        _ => {
            let what = "in braces are today, today-1d:%Y%m%d, or the name of a variable of letters, digits, - and _";
            return Err(Error::invalid(format!("{{{inside}}}: {what}")));
        }
    };
    let (hours, days) = shift(&name[word.len()..]).ok_or_else(|| {
        Error::invalid(format!("{{{inside}}}: after {word} comes nothing, or + or - and hours, days or weeks, as in {{today-6h}}, {{today-1d}}, {{today+2w}}"))
    })?;
    let format = format.unwrap_or("%Y-%m-%d").to_owned();
    date(&ZonedDateTime::default(), hours, days, &format)?;
    Ok(Part::Date { of, hours, days, format })
}

/// Hours and days.
fn shift(text: &str) -> Option<(i64, i64)> {
    if text.is_empty() {
        return Some((0, 0));
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let count: i64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    let (hours, days) = match &rest[digits.len()..] {
        "h" => (count, 0),
        "d" => (0, count),
        "w" => (0, count.checked_mul(7)?),
        _ => return None,
    };
    (days <= SHIFT_DAYS_MAX && hours <= SHIFT_DAYS_MAX * 24).then_some((sign * hours, sign * days))
}

/// Whether this can be the name of a site, a job, a login or a variable.
pub fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        && !text.starts_with('-')
}

#[cfg(test)]
mod tests;
