//! `holdfast bench fileserver`, `source`, `start` and `leak`: what it costs to run a program confined, by `holdfast run` or by anything else.
//!
//! Each way of confining is the beginning of a command (`--under NAME=COMMAND`), behind which the same work is done that is done natively beside it, in
//! turns. Figures are those of report 002: its file server, its sources that are packed, unpacked and built, and what is left of memory and disk. To its
//! own rule (the mean without the two worst of ten) differences of pairs are added, with their 95 % intervals.
//!
//! Only new folders in the given one are touched, `bench-XXXXXXXX`, and they are removed at the end.

mod child;
mod fileserver;
mod hire;
mod leak;
mod model;
mod source;
mod start;
mod tally;
mod under;
mod words;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};
use clap::Args;

pub use fileserver::{FileserverArgs, FileserverOptions, ModelArgs, run as run_fileserver};
pub use leak::{LeakArgs, LeakOptions, run as run_leak};
pub use model::Model;
pub use source::{SourceArgs, SourceOptions, run as run_source};
pub use start::{StartArgs, StartOptions, run as run_start};
pub use under::Variant;
pub use worker::serve as serve_worker;

use crate::frame::{Frame, Habits, Handlers, server_command};
use crate::paired;
use crate::report::{
    Bench, Better, Comparison, ComparisonRow, ConfinedReport, Report, SeriesInfo, TargetNote, seed002,
};
use crate::shared::{CommonArgs, check_labels, command_line};
use under::UnderArgs;

/// More rounds than this are a mistake.
const ROUNDS_MAX: u32 = 10_000;

/// Options of the four measurements.
#[derive(Debug, Clone, Args)]
pub struct ConfinedArgs {
    #[command(flatten)]
    under: UnderArgs,

    /// Rounds; in each everything is measured once.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub rounds: u32,

    /// Options of all measurements.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What all four need.
#[derive(Debug, Clone)]
pub struct Confined {
    /// Native first, then what is measured beside it.
    pub variants: Vec<Variant>,
    /// Rounds.
    pub rounds: u32,
    /// Seed of sizes and choices.
    pub seed: u64,
    /// Write back dirty data before each timed run.
    pub settle: bool,
    /// Touch and free memory before each timed run.
    pub warm: bool,
    /// Tell on standard error what is being measured.
    pub progress: bool,
    /// The command, for the report.
    pub command: String,
    /// Remarks for the report.
    pub notes: Vec<String>,
}

impl Confined {
    /// Native and these, with few rounds, quietly.
    pub fn quiet(variants: Vec<Variant>, rounds: u32) -> Self {
        let variants = std::iter::once(Variant::native()).chain(variants).collect();
        let (command, notes) = (String::new(), Vec::new());
        Self { variants, rounds, seed: 1, settle: false, warm: false, progress: false, command, notes }
    }

    fn check(&self) -> anyhow::Result<()> {
        check_labels(self.variants.iter().map(|variant| variant.label.as_str()))?;
        ensure!((1..=ROUNDS_MAX).contains(&self.rounds), "--rounds must be 1 to {ROUNDS_MAX}");
        Ok(())
    }

    fn labels(&self) -> Vec<String> {
        self.variants.iter().map(|variant| variant.label.clone()).collect()
    }
}

impl ConfinedArgs {
    fn options(&self) -> anyhow::Result<Confined> {
        let mut variants = vec![Variant::native()];
        variants.extend(self.under.variants()?);
        let labels: Vec<String> = variants.iter().map(|variant| variant.label.clone()).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        for (target, pid) in self.common.pids(&labels)? {
            variants[target].pids.push(pid);
        }
        Ok(Confined {
            variants,
            rounds: self.rounds,
            seed: self.common.seed,
            settle: !self.common.no_settle,
            warm: !self.common.no_warm,
            progress: !self.common.no_progress,
            command: command_line(),
            notes: self.common.note.clone(),
        })
    }

    fn finish(&self, report: Report) -> anyhow::Result<Report> {
        self.common.write(&report)?;
        Ok(report)
    }
}

/// The frame of one measurement, its folder, and its figures by rounds.
struct Bed<'o> {
    options: &'o Confined,
    frame: Frame,
    /// Everything is made in here.
    folder: tempfile::TempDir,
    figures: Figures,
}

impl<'o> Bed<'o> {
    fn new(options: &'o Confined, folder: &Path, stop: Arc<AtomicBool>) -> anyhow::Result<Self> {
        let folder = std::path::absolute(folder)?;
        ensure!(folder.is_dir(), "{} is no folder", folder.display());
        // The name is from the system's randomness, not the seed: two measurements at once must not meet in one folder.
        let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(&folder);
        let folder = folder.context("cannot make a folder to measure in")?;
        let habits = Habits {
            runs: options.rounds,
            seed: options.seed,
            settle: options.settle,
            warm: options.warm,
            progress: options.progress,
            command: options.command.clone(),
            notes: options.notes.clone(),
        };
        let targets = options.variants.iter().map(|variant| (variant.label.clone(), variant.pids.clone())).collect();
        let figures = Figures { targets: options.variants.len(), rounds: options.rounds as usize, all: Vec::new() };
        Ok(Self { options, frame: Frame::new(habits, targets, stop), folder, figures })
    }

    /// A new folder for one run of one variant.
    fn place(&mut self, round: u32, target: usize) -> Option<PathBuf> {
        let place = self.folder.path().join(format!("{round}-{target}"));
        match std::fs::create_dir(&place) {
            Ok(()) => Some(place),
            Err(error) => {
                self.frame.fail("make a folder", target, &error);
                None
            }
        }
    }

    fn remove(&mut self, place: &Path, target: usize) {
        self.frame.say("removing");
        if let Err(error) = std::fs::remove_dir_all(place)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            self.frame.fail("clean up (the bench folder may be left behind)", target, &error);
        }
    }

    /// A figure beside the main one of a run.
    fn note(&mut self, info: &SeriesInfo, target: usize, round: u32, value: f64) {
        self.frame.note(info, target, value);
        self.figures.set(info, target, round, value);
    }

    fn into_report(self, bench: Bench, load: String) -> Report {
        let (options, place) = (self.options, self.folder.path().to_owned());
        let mut report = self.frame.into_report(bench, &place);
        report.targets = options.variants.iter().map(note).collect();
        for row in report.series.iter_mut().flat_map(|series| &mut series.rows) {
            // Of what a supervisor did not wait for nobody counts the time, so this would be right for some and wrong for others.
            row.client_cpu_s = None;
        }
        let comparisons = self.figures.finish(&options.labels());
        let seed002 = seed002::rows(&comparisons);
        let (operations, leaks, seed002_leaks) = (Vec::new(), Vec::new(), Vec::new());
        report.confined = Some(ConfinedReport { load, comparisons, operations, leaks, seed002, seed002_leaks });
        report
    }
}

fn note(variant: &Variant) -> TargetNote {
    TargetNote {
        label: variant.label.clone(),
        url: variant.words(),
        server: Some("before the program".to_owned()),
        command: server_command(&variant.pids, None),
    }
}

/// Figures by rounds, so that those of one round can be compared.
struct Figures {
    targets: usize,
    rounds: usize,
    all: Vec<(SeriesInfo, Vec<Vec<Option<f64>>>)>,
}

impl Figures {
    fn set(&mut self, info: &SeriesInfo, target: usize, round: u32, value: f64) {
        let at = self.all.iter().position(|(known, _)| known.id == info.id).unwrap_or_else(|| {
            self.all.push((info.clone(), vec![vec![None; self.rounds]; self.targets]));
            self.all.len() - 1
        });
        self.all[at].1[target][round as usize] = Some(value);
    }

    fn finish(self, labels: &[String]) -> Vec<Comparison> {
        let comparison = |(info, targets): (SeriesInfo, Vec<Vec<Option<f64>>>)| {
            let rows = targets.iter().zip(labels).enumerate().map(|(target, (runs, label))| {
                let values: Vec<f64> = runs.iter().copied().flatten().collect();
                let beside = (target > 0).then_some(&targets[0]);
                ComparisonRow {
                    target: label.clone(),
                    runs: runs.clone(),
                    mean_without_worst: paired::mean_without_worst(&values, info.better == Better::Higher),
                    change_percent: beside.and_then(|native| paired::change_percent(native, runs)),
                    difference: beside.and_then(|native| paired::difference(native, runs)),
                }
            });
            let rows = rows.collect();
            Comparison { info, rows }
        };
        self.all.into_iter().map(comparison).collect()
    }
}

/// Handles signals while something is measured.
fn with_signals<T>(measure: impl FnOnce(Arc<AtomicBool>) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let _handlers = Handlers::install(&stop).context("cannot install the signal handlers")?;
    measure(stop)
}

fn series(id: &str, title: &str, unit: &str, better: Better) -> SeriesInfo {
    SeriesInfo { id: id.into(), title: title.into(), unit: unit.into(), better, bytes: None }
}

/// This program, by its path.
fn own_program() -> anyhow::Result<String> {
    let own = std::env::current_exe().context("the path of this program is not known")?;
    Ok(own.to_str().context("the path of this program is not UTF-8")?.to_owned())
}

/// What starts a worker: the hidden command.
fn worker_command() -> anyhow::Result<Vec<String>> {
    Ok(vec![own_program()?, "bench".to_owned(), "fileserver-worker".to_owned()])
}
