//! New names for files: a template, filled from each file's path, and perhaps from what an expression matches in that.
//!
//! What comes out is checked as any path of a destination is, so no name of a source leads out of it. A part of it that is empty (a parent that is
//! none) is left out.

use super::{Combination, FILE_PARTS, Fill, Template};
use holdfast_base::{DrivePath, Error, Result};
use holdfast_transfer::Item;
use jiff::{Timestamp, ZonedDateTime};
use regex::Regex;

/// Gives files new names.
#[derive(Debug, Clone)]
pub struct Renamer {
    /// What they become.
    pub template: Template,
    /// What their path must match; others keep it.
    pub expression: Option<Regex>,
    /// When the run is due.
    pub due: ZonedDateTime,
    /// Variables.
    pub variables: Combination,
}

impl Renamer {
    /// The new path of a file.
    pub fn rename(&self, path: &DrivePath, item: &Item) -> Result<DrivePath> {
        let text = path.to_string();
        let text = text.trim_start_matches('/');
        let captures = match &self.expression {
            Some(expression) => match expression.captures(text) {
                Some(captures) => Some(captures),
                None => return Ok(path.clone()),
            },
            None => None,
        };
        let named = |name: &str| {
            let of_group = || {
                let captures = captures.as_ref()?;
                let group = name.parse().ok().map_or_else(|| captures.name(name), |number| captures.get(number));
                // A group that took no part is empty.
                let known = group.is_some() || is_group(self.expression.as_ref()?, name);
                known.then(|| group.map_or_else(String::new, |group| group.as_str().to_owned()))
            };
            part_of(path, name).or_else(of_group).or_else(|| self.variables.get(name).cloned())
        };
        let modified = item.modified_ns.and_then(|ns| Timestamp::from_nanosecond(i128::from(ns)).ok());
        let filled = self.template.fill(&Fill { due: &self.due, modified, named: &named })?;
        DrivePath::parse(&filled)
            .map_err(|error| Error::new(error.kind(), error.message()).context(format!("its new name {filled:?}")))
    }
}

/// Whether an expression has such a group.
pub(crate) fn is_group(expression: &Regex, name: &str) -> bool {
    match name.parse::<usize>() {
        Ok(number) => number < expression.captures_len(),
        Err(_) => expression.capture_names().flatten().any(|group| group == name),
    }
}

/// A part of a file's path.
fn part_of(path: &DrivePath, part: &str) -> Option<String> {
    if !FILE_PARTS.contains(&part) {
        return None;
    }
    let name = path.name()?.as_str();
    // A dot that begins a name is no extension.
    let (stem, extension) = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).unwrap_or((name, ""));
    Some(match part {
        "name" => name.to_owned(),
        "stem" => stem.to_owned(),
        "extension" => extension.to_owned(),
        _ => path.parent().unwrap_or_default().to_string().trim_matches('/').to_owned(),
    })
}
