//! Which files are moved.
//!
//! Paths are those below what was named: `sub/a.txt` of a folder, `a.txt` of a file. A glob without a slash is held against the name at any depth,
//! one with a slash against the whole path; `*` and `?` match no slash, `**` does; one that ends in a slash matches folders only. A regular expression
//! is looked for anywhere in the path. What is excluded is out, with all that is below it. If anything is included, files and links must match
//! it, or be below a folder that does. Sizes hold for files, times for files and links; a time that is not known is outside any bound.

use crate::site::{Item, Kind};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use holdfast_base::{DrivePath, Error, NodeName, Result};
use regex::RegexSet;
use std::fmt;
use std::time::Duration;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};

const NS: i128 = 1_000_000_000;

/// Patterns, as they were given.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    /// Globs.
    pub globs: Vec<String>,
    /// Regular expressions.
    pub expressions: Vec<String>,
}

/// Which files are moved; by default all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    include: Option<Set>,
    exclude: Option<Set>,
    bounds: Bounds,
}

/// Bounds on files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds {
    /// Least size of a file.
    pub min_size: Option<u64>,
    /// Largest size.
    pub max_size: Option<u64>,
    /// Only what changed after this, in nanoseconds since 1970.
    pub newer_than_ns: Option<i64>,
    /// Only what changed before this.
    pub older_than_ns: Option<i64>,
}

/// What a filter says of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderView {
    /// It is made, and all in it is looked at.
    In,
    /// It is looked into, and made when something in it is moved.
    Through,
    /// It and all in it is left out.
    Out,
}

impl Filter {
    /// Compiles patterns.
    pub fn new(include: &Patterns, exclude: &Patterns, bounds: Bounds) -> Result<Self> {
        Ok(Self { include: Set::new(include)?, exclude: Set::new(exclude)?, bounds })
    }

    /// Whether a file or link is moved. `path` is below what was named.
    pub fn takes(&self, path: &DrivePath, item: &Item) -> bool {
        self.takes_path(path, false) && self.takes_size(item) && self.takes_time(item)
    }

    /// What becomes of a folder.
    pub fn folder(&self, path: &DrivePath) -> FolderView {
        if self.exclude.as_ref().is_some_and(|set| set.matches(path, true)) {
            FolderView::Out
        } else if self.include.as_ref().is_some_and(|set| !set.matches(path, true)) || self.has_bounds() {
            FolderView::Through
        } else {
            FolderView::In
        }
    }

    /// Whether something that could not be looked at would be moved, by its name alone.
    pub fn takes_name(&self, folder: &DrivePath, name: &str) -> bool {
        let path = NodeName::new(name).and_then(|name| folder.join(name));
        // What has no name that could be matched is left out by no pattern.
        path.map_or(true, |path| self.takes_path(&path, false))
    }

    fn takes_path(&self, path: &DrivePath, folder: bool) -> bool {
        !self.exclude.as_ref().is_some_and(|set| set.matches(path, folder))
            && self.include.as_ref().is_none_or(|set| set.matches(path, folder))
    }

    fn takes_size(&self, item: &Item) -> bool {
        let Bounds { min_size, max_size, .. } = self.bounds;
        item.kind != Kind::File
            || (min_size.is_none_or(|min| item.size >= min) && max_size.is_none_or(|max| item.size <= max))
    }

    fn takes_time(&self, item: &Item) -> bool {
        let Bounds { newer_than_ns, older_than_ns, .. } = self.bounds;
        if newer_than_ns.is_none() && older_than_ns.is_none() {
            return true;
        }
        item.modified_ns.is_some_and(|at| {
            newer_than_ns.is_none_or(|bound| at > bound) && older_than_ns.is_none_or(|bound| at < bound)
        })
    }

    fn has_bounds(&self) -> bool {
        let Bounds { min_size, max_size, newer_than_ns, older_than_ns } = self.bounds;
        min_size.is_some() || max_size.is_some() || newer_than_ns.is_some() || older_than_ns.is_some()
    }
}

/// Compiled patterns.
#[derive(Clone)]
struct Set {
    /// As they were given.
    text: Patterns,
    /// Held against names.
    names: GlobSet,
    /// Held against whole paths.
    paths: GlobSet,
    /// Those of folders alone.
    folder_names: GlobSet,
    folder_paths: GlobSet,
    expressions: RegexSet,
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Set {
    fn new(patterns: &Patterns) -> Result<Option<Self>> {
        if patterns.globs.is_empty() && patterns.expressions.is_empty() {
            return Ok(None);
        }
        let mut builders: [GlobSetBuilder; 4] = std::array::from_fn(|_| GlobSetBuilder::new());
        for text in &patterns.globs {
            let bad = |error| Error::invalid(format!("the pattern {text:?} cannot be read: {error}"));
            let (pattern, folder) = text.strip_suffix('/').map_or((text.as_str(), false), |rest| (rest, true));
            if pattern.trim_start_matches('/').is_empty() {
                return Err(Error::invalid(format!("the pattern {text:?} matches nothing")));
            }
            let whole = pattern.contains('/');
            let glob =
                GlobBuilder::new(pattern.trim_start_matches('/')).literal_separator(true).build().map_err(bad)?;
            builders[usize::from(whole) + 2 * usize::from(folder)].add(glob);
        }
        let built = |builder: &GlobSetBuilder| {
            builder.build().map_err(|error| Error::invalid(format!("the patterns cannot be used together: {error}")))
        };
        let [names, paths, folder_names, folder_paths] = &builders;
        let expressions = RegexSet::new(&patterns.expressions)
            .map_err(|error| Error::invalid(format!("a regular expression cannot be read: {error}")))?;
        Ok(Some(Self {
            text: patterns.clone(),
            names: built(names)?,
            paths: built(paths)?,
            folder_names: built(folder_names)?,
            folder_paths: built(folder_paths)?,
            expressions,
        }))
    }

    /// Whether a path matches, or a folder above it does.
    fn matches(&self, path: &DrivePath, folder: bool) -> bool {
        let names = path.names();
        let mut text = String::new();
        names.iter().enumerate().any(|(depth, name)| {
            if depth > 0 {
                text.push('/');
            }
            text.push_str(name.as_str());
            self.matches_one(name.as_str(), &text, folder || depth + 1 < names.len())
        })
    }

    fn matches_one(&self, name: &str, path: &str, folder: bool) -> bool {
        let of_any = self.names.is_match(name) || self.paths.is_match(path);
        of_any
            || (folder && (self.folder_names.is_match(name) || self.folder_paths.is_match(path)))
            || self.expressions.is_match(path)
    }
}

/// Reads a moment: `2026-01-31`, `2026-01-31T12:00:00Z` or an age before `now_ns` like `90s`, `30m`, `12h`, `7d`, `2w`. Days without a time begin
/// in UTC.
pub fn parse_moment(text: &str, now_ns: i64) -> Result<i64> {
    let bad = || {
        let what = format!("{text:?} is no time: write 2026-01-31, 2026-01-31T12:00:00Z or an age like 12h, 7d, 2w");
        Error::invalid(what)
    };
    let ns = if let Ok(age) = parse_age(text) {
        i128::from(now_ns) - i128::try_from(age.as_nanos()).map_err(|_| bad())?
    } else if let Ok(date) = Date::parse(text, format_description!("[year]-[month]-[day]")) {
        date.midnight().assume_utc().unix_timestamp_nanos()
    } else {
        OffsetDateTime::parse(text, &Rfc3339).map_err(|_| bad())?.unix_timestamp_nanos()
    };
    i64::try_from(ns).map_err(|_| bad())
}

/// Reads a length of time: `90s`, `30m`, `12h`, `7d`, `2w`.
pub fn parse_age(text: &str) -> Result<Duration> {
    let bad = || Error::invalid(format!("{text:?} is no length of time: write for example 90s, 30m, 12h, 7d or 2w"));
    let unit = text.chars().last().ok_or_else(bad)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 24 * 3_600,
        'w' => 7 * 24 * 3_600,
        _ => return Err(bad()),
    };
    let digits = &text[..text.len() - unit.len_utf8()];
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let count: u64 = digits.parse().map_err(|_| bad())?;
    let total = count.checked_mul(seconds).filter(|total| i128::from(*total) * NS < i128::from(i64::MAX));
    total.map(Duration::from_secs).ok_or_else(bad)
}

#[cfg(test)]
mod tests;
