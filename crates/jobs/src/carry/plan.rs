//! What a run is made of: its paths with dates and variables filled in, and its options.

use super::{Run, wrong};
use crate::file::{self, Job};
use crate::place::{Spot, fill};
use crate::template::{Combination, Renamer, Template, Variable, combinations};
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use holdfast_transfer::filter::parse_moment;
use holdfast_transfer::options::{Compare, Delete, IfExists, Links};
use holdfast_transfer::{Bounds, Filter, Options, Patterns, Rename};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Paths that one run may name: each is a walk of its own.
const PATHS_MAX: usize = 10_000;
/// A list of names.
const LIST_BYTES_MAX: u64 = 16 << 20;
const NAMES_MAX: usize = 100_000;

/// What of a job is wanted: by default all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Order {
    /// Paths below `from`; none is all of it.
    #[serde(default)]
    pub names: Option<Vec<String>>,
    /// Other values of the job's variables.
    #[serde(default)]
    pub variables: BTreeMap<String, Variable>,
    /// Instead of the job's.
    #[serde(default)]
    pub include: Vec<String>,
    /// More than the job's.
    #[serde(default)]
    pub exclude: Vec<String>,
}

impl Order {
    /// Whether a job can be asked for this.
    pub fn check(&self, job: &Job) -> Result<()> {
        variables(job, self)?;
        let names = self.names.as_deref().unwrap_or_default();
        names.iter().try_for_each(|name| DrivePath::parse(name).map(|_| ()))
    }
}

/// Sources of one destination.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) from: Vec<Spot>,
    pub(super) to: Spot,
    /// Paths below the one source.
    pub(super) names: Option<Vec<DrivePath>>,
    /// Values that are the same for all of it.
    values: Combination,
}

/// All transfers of a run, in order of their destinations.
pub(super) fn transfers(run: &Run<'_>) -> Result<Vec<Transfer>> {
    let (job, text) = (run.job, &run.job.text);
    let variables = variables(job, &run.order)?;
    let templates: Vec<&Template> =
        text.from.0.iter().map(|from| &**from).chain([&*text.to]).chain(text.names_from.as_deref()).collect();
    let names = templates.iter().flat_map(|template| template.names());
    // Those of new names have one value, which is not combined.
    let names = names.chain(text.rename.iter().flat_map(|rename| rename.names()));
    let (mut all, mut paths): (Vec<(String, Transfer)>, usize) = (Vec::new(), 0);
    for values in combinations(&variables, names)? {
        let to = fill(&text.to, &run.due, &values)?;
        for from in &text.from.0 {
            let from = fill(from, &run.due, &values)?;
            let spot = Spot::parse(&from, run.set, job.folder())?;
            let at = if let Some(at) = all.iter().position(|(known, _)| *known == to) {
                at
            } else {
                let names = names_of(run, &values)?;
                let to_spot = Spot::parse(&to, run.set, job.folder())?;
                all.push((to.clone(), Transfer { from: Vec::new(), to: to_spot, names, values: values.clone() }));
                all.len() - 1
            };
            let known = &mut all[at].1.from;
            if !known.iter().any(|known| known.address == spot.address) {
                known.push(spot);
                paths += 1;
            }
            if paths > PATHS_MAX {
                return Err(Error::new(ErrorKind::TooLarge, format!("a run can name {PATHS_MAX} paths at most")));
            }
        }
    }
    let all: Vec<Transfer> = all.into_iter().map(|(_, transfer)| transfer).collect();
    if all.iter().any(|transfer| transfer.names.is_some() && transfer.from.len() != 1) {
        return Err(wrong("a list of names is of one from, and its variables make several of it"));
    }
    Ok(all)
}

/// The job's variables, with those of an order. What an order says stays a name, so that no path of it leads elsewhere.
fn variables(job: &Job, order: &Order) -> Result<BTreeMap<String, Variable>> {
    let mut all = job.text.variables.clone();
    for (name, variable) in &order.variables {
        if !all.contains_key(name) {
            return Err(wrong(format!("the job has no variable {name}")));
        }
        variable.check()?;
        if variable.values()?.iter().any(|value| value.contains('/') || matches!(value.as_str(), "" | "." | "..")) {
            return Err(wrong(format!("{name}: the value of a variable in an order is a name, without slashes")));
        }
        all.insert(name.clone(), variable.clone());
    }
    Ok(all)
}

fn names_of(run: &Run<'_>, values: &Combination) -> Result<Option<Vec<DrivePath>>> {
    let texts = match (&run.order.names, &run.job.text.names_from) {
        (Some(names), _) => names.clone(),
        (None, Some(file)) => read_list(&run.job.folder().join(fill(file, &run.due, values)?))?,
        (None, None) => return Ok(None),
    };
    let mut paths = texts
        .iter()
        .map(|text| DrivePath::parse(text).map_err(|error| error.context(format!("the name {text:?}"))))
        .collect::<Result<Vec<_>>>()?;
    if paths.len() > NAMES_MAX || paths.iter().any(DrivePath::is_root) {
        return Err(wrong(format!("a list has {NAMES_MAX} names at most, each below what from says")));
    }
    paths.sort();
    // What is below another comes with it.
    paths.dedup_by(|next, before| before.contains(next));
    Ok(Some(paths))
}

/// Lines of a file but empty ones and those that begin with #.
fn read_list(path: &Path) -> Result<Vec<String>> {
    let about = |error: std::io::Error| Error::from(error).context(format!("the list {}", path.display()));
    let mut text = Vec::new();
    std::fs::File::open(path).map_err(about)?.take(LIST_BYTES_MAX + 1).read_to_end(&mut text).map_err(about)?;
    lines(&text).map_err(|error| error.context(format!("the list {}", path.display())))
}

/// Names of a list.
pub(crate) fn lines(text: &[u8]) -> Result<Vec<String>> {
    if text.len() as u64 > LIST_BYTES_MAX {
        return Err(Error::new(ErrorKind::TooLarge, format!("it has more than {LIST_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(text).map_err(|_| wrong("it is not UTF-8"))?;
    let lines = text
        .lines()
        .map(|line| line.trim_end_matches('\r'))
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    Ok(lines.map(ToOwned::to_owned).collect())
}

/// Options of a transfer.
pub(super) fn options(run: &Run<'_>, transfer: &Transfer) -> Result<Options> {
    let text = &run.job.text;
    let default = Options::default();
    Ok(Options {
        compare: if text.checksum { Compare::Content } else { Compare::SizeAndTime },
        if_exists: match text.if_exists {
            file::IfExists::Replace => IfExists::Replace,
            file::IfExists::Skip => IfExists::Skip,
            file::IfExists::KeepBoth => IfExists::KeepBoth,
            file::IfExists::Fail => IfExists::Fail,
        },
        update: text.update,
        links: match text.links {
            file::Links::Copy => Links::Copy,
            file::Links::Skip => Links::Skip,
        },
        delete: match text.delete {
            file::Delete::No => Delete::No,
            file::Delete::AfterSuccess => Delete::AfterSuccess,
            file::Delete::Anyway => Delete::Anyway,
        },
        delete_if_empty: text.delete_empty,
        delete_source: text.delete_source,
        dry_run: run.dry_run,
        filter: filter(run)?,
        rename: rename(run, transfer),
        large_files: text.parallel.map_or(default.large_files, usize::from),
        small_files: text.parallel_small.map_or(default.small_files, usize::from),
        stall: text.stall.as_ref().map_or(default.stall, |stall| stall.0),
        retry_for: text.retry_for.as_ref().map_or(default.retry_for, |retry| retry.0),
        rate: None,
        tags: text.tags.0.iter().map(|tag| (**tag).clone()).collect(),
    })
}

fn filter(run: &Run<'_>) -> Result<Filter> {
    let (text, order) = (&run.job.text, &run.order);
    let globs = |said: &[file::said::Said<file::said::Glob>]| {
        said.iter().map(|glob| glob.text().to_owned()).collect::<Vec<_>>()
    };
    let expressions = |said: &[file::said::Said<regex::Regex>]| said.iter().map(|one| one.text().to_owned()).collect();
    let mut include = Patterns { globs: globs(&text.include.0), expressions: expressions(&text.include_regex.0) };
    if !order.include.is_empty() {
        include = Patterns { globs: order.include.clone(), expressions: Vec::new() };
    }
    let mut exclude = Patterns { globs: globs(&text.exclude.0), expressions: expressions(&text.exclude_regex.0) };
    exclude.globs.extend(order.exclude.iter().cloned());
    let now_ns = i64::try_from(run.due.timestamp().as_nanosecond()).unwrap_or(i64::MAX);
    let moment = |said: &Option<file::said::Said<file::said::Moment>>| {
        said.as_ref().map(|moment| parse_moment(&moment.0, now_ns)).transpose()
    };
    let bounds = Bounds {
        min_size: text.min_size.as_ref().map(|size| size.0),
        max_size: text.max_size.as_ref().map(|size| size.0),
        newer_than_ns: moment(&text.newer_than)?,
        older_than_ns: moment(&text.older_than)?,
    };
    Filter::new(&include, &exclude, bounds)
}

fn rename(run: &Run<'_>, transfer: &Transfer) -> Option<Rename> {
    let text = &run.job.text;
    let renamer = Renamer {
        template: (**text.rename.as_ref()?).clone(),
        expression: text.rename_match.as_deref().cloned(),
        due: run.due.clone(),
        variables: transfer.values.clone(),
    };
    Some(Rename(Arc::new(move |path, item| renamer.rename(path, item))))
}
