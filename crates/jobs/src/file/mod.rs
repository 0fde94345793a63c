//! Job files: reading them, with the line of whatever is wrong, and all of them together.
//!
//! TOML, in which every key is known and every value is read into what it means ([`said`]); what two values together get wrong is found by [`check`].
//! Files have [`FILE_BYTES_MAX`] bytes at most, and all together [`JOBS_MAX`] jobs.

mod check;
mod described;
pub mod said;
mod shape;

pub use described::Described;
pub use shape::{
    Delete, IfExists, JobFile, JobText, Links, LoginText, Mail, Mailbox, Plane, RateIn, Retries, SiteText, Step, What,
};

use crate::schedule::{Schedule, When};
use crate::template::is_name;
use holdfast_base::{Error, ErrorKind, Result};
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Largest file.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Jobs and sites of all files.
pub const JOBS_MAX: usize = 1_000;
/// How late a run may begin, unless its job says so.
const TOLERANCE: Duration = Duration::from_hours(1);

/// A file that was read.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Where it is.
    pub path: PathBuf,
    text: Arc<str>,
    /// What it says.
    pub file: JobFile,
}

/// A site of a job file.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// What is said of it.
    pub text: SiteText,
    /// The folder of its file, below which its paths are.
    pub folder: PathBuf,
}

/// A job of a job file.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// What is said of it.
    pub text: JobText,
    /// How its file sends mail.
    pub mail: Option<Mail>,
    /// Where it is described.
    pub file: PathBuf,
    /// The line.
    pub line: usize,
    /// When it is due.
    pub schedule: Schedule,
}

/// Everything that job files say.
#[derive(Debug, Clone, Default)]
pub struct Set {
    /// Sites by alias.
    pub sites: BTreeMap<String, Arc<Site>>,
    /// Jobs by name.
    pub jobs: BTreeMap<String, Arc<Job>>,
}

impl Loaded {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let absolute = std::path::absolute(path).map_err(|error| Error::from(error).context(&shown))?;
        let file = std::fs::File::open(&absolute).map_err(|error| Error::from(error).context(&shown))?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::from(error).context(&shown))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("{shown} has more than {FILE_BYTES_MAX} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|_| Error::invalid(format!("{shown} is not UTF-8")))?;
        Self::parse(absolute, &text).map_err(|error| Error::new(error.kind(), error.message()))
    }

    /// Reads the text of a file.
    pub fn parse(path: PathBuf, text: &str) -> Result<Self> {
        let file: JobFile = toml::from_str(text).map_err(|error| {
            // Its own words would show the line, which may have a secret in it.
            let line = error.span().map_or(1, |span| line_of(text, &span));
            Error::invalid(format!("{}:{line}: {}", path.display(), error.message().trim()))
        })?;
        let loaded = Self { path, text: text.into(), file };
        check::file(&loaded)?;
        Ok(loaded)
    }

    /// An error at a place of the file.
    fn error(&self, span: &Range<usize>, what: impl std::fmt::Display) -> Error {
        Error::invalid(format!("{}:{}: {what}", self.path.display(), line_of(&self.text, span)))
    }

    fn folder(&self) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("/")).to_owned()
    }

    fn job(&self, name: &str, text: &toml::Spanned<JobText>) -> Job {
        Job {
            name: name.to_owned(),
            text: text.get_ref().clone(),
            mail: self.file.mail.clone(),
            file: self.path.clone(),
            line: line_of(&self.text, &text.span()),
            schedule: schedule_of(text.get_ref()),
        }
    }
}

impl Job {
    /// How late a run may begin.
    pub fn tolerance(&self) -> Duration {
        self.text.tolerance.as_ref().map_or(TOLERANCE, |leeway| leeway.0)
    }

    /// What makes it run, in words.
    pub fn when(&self) -> String {
        let text = &self.text;
        let mut words = Vec::new();
        words.extend(text.cron.as_ref().map(|cron| format!("cron {}", cron.text())));
        words.extend(text.every.as_ref().map(|every| format!("every {}", every.text())));
        if text.every.is_none() {
            words.extend(text.start.as_ref().map(|start| format!("once {}", start.text())));
        }
        words.extend(text.window.as_ref().map(|window| format!("in {}", window.text())));
        words.extend(text.inbox.as_ref().map(|inbox| format!("inbox {}", inbox.display())));
        words.extend(text.mailbox.as_ref().map(|mailbox| format!("mails to {}", mailbox.at)));
        if text.run_on_start {
            words.push("on start".into());
        }
        if words.is_empty() { "by hand".into() } else { words.join(", ") }
    }

    /// The folder of its file.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }
}

impl Set {
    /// Puts files together. A name that two of them have is refused with both places, and so is what names a site that none has.
    pub fn of(files: &[Loaded]) -> Result<Self> {
        let mut set = Self::default();
        for loaded in files {
            for (alias, site) in &loaded.file.sites {
                let new = Arc::new(Site { text: site.get_ref().clone(), folder: loaded.folder() });
                if set.sites.insert(alias.clone(), new).is_some() {
                    return Err(loaded.error(&site.span(), format!("another file has a site {alias} already")));
                }
            }
            for (name, text) in &loaded.file.jobs {
                let job = loaded.job(name, text);
                if let Some(other) = set.jobs.insert(name.clone(), Arc::new(job)) {
                    let what =
                        format!("the job {name} is described in {}:{} already", other.file.display(), other.line);
                    return Err(loaded.error(&text.span(), what));
                }
            }
        }
        if set.jobs.len() + set.sites.len() > JOBS_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("there can be {JOBS_MAX} jobs and sites at most")));
        }
        for loaded in files {
            for (name, text) in &loaded.file.jobs {
                let job = &set.jobs[name];
                check::places(job, &set)
                    .map_err(|error| loaded.error(&text.span(), format!("job {name}: {}", error.message())))?;
            }
        }
        Ok(set)
    }

    /// Reads files and puts them together.
    pub fn load(paths: &[PathBuf]) -> Result<Self> {
        Described::read(paths.to_vec()).map(|described| Self::clone(&described.now()))
    }

    /// A job by name.
    pub fn job(&self, name: &str) -> Result<&Arc<Job>> {
        self.jobs.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.jobs.keys().map(String::as_str).take(20).collect();
            Error::not_found(format!("there is no job {name:?}; there are: {}", names.join(", ")))
        })
    }
}

fn schedule_of(text: &JobText) -> Schedule {
    let when = match (&text.every, &text.cron) {
        (Some(period), _) => When::Every(**period, text.start.as_deref().copied()),
        (None, Some(cron)) => When::Cron(Box::new((**cron).clone())),
        (None, None) => match text.start.as_deref() {
            Some(start) => When::Once(*start),
            None => When::Never,
        },
    };
    let zone = text.time_zone.as_ref().map_or_else(TimeZone::system, |zone| zone.0.clone());
    Schedule { when, zone, window: text.window.as_deref().copied() }
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    let before = text.floor_char_boundary(span.start);
    text[..before].matches('\n').count() + 1
}

fn check_name(what: &str, name: &str) -> Result<()> {
    if is_name(name) {
        Ok(())
    } else {
        Err(Error::invalid(format!("{name:?} is no name of a {what}: 1 to 64 letters, digits, - and _")))
    }
}

#[cfg(test)]
mod tests;
