//! `holdfast bench fileserver`: report 002's first method.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;

use super::hire::Worker;
use super::tally::{KINDS, Operations};
use super::worker::{Done, Work};
use super::{Bed, Confined, ConfinedArgs, Model, series, with_signals, worker_command};
use crate::duration::{DURATION_MAX, duration_label, parse_duration};
use crate::frame::{Outcome, Stopped};
use crate::report::{Bench, Better, OperationRow, Report};
use crate::size::parse_size;
use crate::stats::Summary;

/// Measure a file server, natively and confined, side by side.
///
/// The load is that of report 002, filebench's file server: threads that create and write files, append to them, read them whole, delete and look. Each
/// round makes the files anew for each, with the same sizes. In the folder only a new one, bench-XXXXXX, is touched.
///
/// The exit status is not 0 when an operation failed.
#[derive(Debug, Clone, Args)]
pub struct FileserverArgs {
    /// Folder to measure in.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// The load.
    #[command(flatten)]
    pub model: ModelArgs,

    /// What it is measured under, and how often.
    #[command(flatten)]
    pub confined: ConfinedArgs,
}

/// The load of the file server.
#[derive(Debug, Clone, Args)]
pub struct ModelArgs {
    /// Names of files; --prealloc says how many of them are files at the beginning.
    #[arg(long, default_value_t = Model::REPORT.files, value_name = "N")]
    pub files: u32,

    /// Mean of files in a folder, and of folders in a folder.
    #[arg(long, default_value_t = Model::REPORT.width, value_name = "N")]
    pub width: u32,

    /// Mean size of a file.
    #[arg(long, value_parser = parse_size, default_value = "131072", value_name = "SIZE")]
    pub mean: u64,

    /// Shape of the gamma distribution of sizes.
    #[arg(long, default_value_t = Model::REPORT.gamma, value_name = "SHAPE")]
    pub gamma: f64,

    /// Percentage of files that are there at the beginning.
    #[arg(long, default_value_t = Model::REPORT.prealloc, value_name = "PERCENT")]
    pub prealloc: u32,

    /// Threads.
    #[arg(long, default_value_t = Model::REPORT.threads, value_name = "N")]
    pub threads: u32,

    /// Bytes that one call reads or writes.
    #[arg(long, value_parser = parse_size, default_value = "1MiB", value_name = "SIZE")]
    pub io_size: u64,

    /// The most that is appended at once; how much is drawn evenly from 1 byte to that.
    #[arg(long, value_parser = parse_size, default_value = "16KiB", value_name = "SIZE")]
    pub append: u64,

    /// How long each run goes on, in seconds or with a unit.
    #[arg(long, value_parser = parse_duration, default_value = "60s", value_name = "TIME")]
    pub seconds: Duration,
}

impl ModelArgs {
    /// The load without its time.
    pub(super) fn model(&self) -> Model {
        let &Self { files, width, mean, gamma, prealloc, threads, io_size, append, .. } = self;
        Model { files, width, mean, gamma, prealloc, threads, io_size, append }
    }
}

impl FileserverArgs {
    /// Measures, and writes the files of `--output`.
    pub fn execute(&self) -> anyhow::Result<Report> {
        self.confined.finish(run(&FileserverOptions {
            folder: self.folder.clone(),
            model: self.model.model(),
            time: self.model.seconds,
            worker_command: worker_command()?,
            confined: self.confined.options()?,
        })?)
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct FileserverOptions {
    /// Where.
    pub folder: PathBuf,
    /// The load.
    pub model: Model,
    /// How long each run goes on.
    pub time: Duration,
    /// What starts a worker.
    pub worker_command: Vec<String>,
    /// Variants and rounds.
    pub confined: Confined,
}

impl FileserverOptions {
    fn check(&self) -> anyhow::Result<()> {
        self.model.check()?;
        ensure!(!self.time.is_zero() && self.time <= DURATION_MAX, "--seconds must be above 0");
        self.confined.check()
    }

    /// About what one run moves.
    fn bytes(&self) -> u64 {
        u64::from(self.model.existing()).saturating_mul(self.model.mean)
    }
}

/// Measures. Fails only for what makes measuring pointless; what goes wrong with a variant is in the report.
pub fn run(options: &FileserverOptions) -> anyhow::Result<Report> {
    options.check()?;
    with_signals(|stop| {
        let mut lab = Lab {
            options,
            bed: Bed::new(&options.confined, &options.folder, Arc::clone(&stop))?,
            stop,
            done: Vec::new(),
        };
        lab.run();
        Ok(lab.into_report())
    })
}

struct Lab<'o> {
    options: &'o FileserverOptions,
    bed: Bed<'o>,
    stop: Arc<AtomicBool>,
    /// Of each run that went well, its target and what was done.
    done: Vec<(usize, Done)>,
}

impl Lab<'_> {
    fn run(&mut self) {
        for round in 0..self.options.confined.rounds {
            for target in self.bed.frame.order(round) {
                if self.bed.frame.interrupted() {
                    return;
                }
                let Some(place) = self.bed.place(round, target) else { continue };
                self.measure(round, target, &place);
                self.bed.remove(&place, target);
            }
        }
    }

    fn measure(&mut self, round: u32, target: usize, place: &Path) {
        let (options, stop) = (self.options, Arc::clone(&self.stop));
        let info = series("fileserver.operations", "Operations", "ops/s", Better::Higher);
        let mut told = None;
        self.bed.frame.measure(&info, target, options.bytes(), || {
            let work = Work {
                root: place.to_owned(),
                model: options.model,
                seed: options.confined.seed.wrapping_add(u64::from(round)),
                seconds: options.time.as_secs_f64(),
                remove: false,
            };
            let failed = |error: anyhow::Error| Stopped::Failed(format!("{error:#}"));
            let variant = &options.confined.variants[target];
            let command = variant.command(place, &options.worker_command).map_err(failed)?;
            let mut worker = Worker::start(&command, &work, &stop)?;
            let done = worker.work(&stop)?;
            worker.finish()?;
            let value = done.count() as f64 / done.seconds.max(1e-9);
            told = Some(done);
            Ok(Outcome { value, latencies: None, reopened: 0 })
        });
        let Some(done) = told else { return };
        self.bed.figures.set(&info, target, round, done.count() as f64 / done.seconds.max(1e-9));
        self.note(round, target, &done);
        self.done.push((target, done));
    }

    /// The other figures of a run.
    fn note(&mut self, round: u32, target: usize, done: &Done) {
        let (seconds, count) = (done.seconds.max(1e-9), done.count().max(1) as f64);
        for (info, value) in [
            (
                series("fileserver.bytes", "Bytes read and written", "MB/s", Better::Higher),
                (done.read + done.written) as f64 / 1e6 / seconds,
            ),
            (series("fileserver.latency", "Latency of an operation", "ms/op", Better::Lower), done.sum_ms() / count),
            (
                series("fileserver.latency-002", "Latency as filebench counts it", "ms/op", Better::Lower),
                done.sum_ms() / done.moving().max(1) as f64,
            ),
            (series("fileserver.make", "Making the files", "s", Better::Lower), done.made_s),
        ] {
            self.bed.note(&info, target, round, value);
        }
    }

    fn into_report(self) -> Report {
        let labels = self.options.confined.labels();
        let load = format!("{}; {} a run", self.options.model.words(), duration_label(self.options.time));
        let mut report = self.bed.into_report(Bench::Fileserver, load);
        if let Some(confined) = &mut report.confined {
            confined.operations = operations(&labels, &self.done);
        }
        report
    }
}

/// Each kind of operation by itself.
fn operations(labels: &[String], done: &[(usize, Done)]) -> Vec<OperationRow> {
    let mut rows: Vec<OperationRow> = Vec::new();
    for (kind, name) in KINDS.iter().enumerate() {
        for (target, label) in labels.iter().enumerate() {
            let of = |pick: fn(&Operations) -> f64| -> Vec<f64> {
                let runs = done.iter().filter(|(of, _)| *of == target).map(|(_, done)| &done.operations[kind]);
                runs.filter(|run| run.count > 0).map(pick).collect()
            };
            let Some(mean) = Summary::of(&of(|run| run.sum_ns as f64 / run.count as f64 / 1e3)) else { continue };
            let median = |values: &[f64]| Summary::of(values).map_or(0.0, |found| found.median);
            let native = rows.iter().find(|row| row.operation == *name && row.target == labels[0]);
            rows.push(OperationRow {
                operation: (*name).to_owned(),
                target: label.clone(),
                count: done.iter().filter(|(of, _)| *of == target).map(|(_, done)| done.operations[kind].count).sum(),
                mean_us: mean.median,
                p50_us: median(&of(|run| run.p50_ns as f64 / 1e3)),
                p99_us: median(&of(|run| run.p99_ns as f64 / 1e3)),
                max_us: of(|run| run.max_ns as f64 / 1e3).into_iter().fold(0.0, f64::max),
                to_native: native.filter(|_| target > 0).map(|native| mean.median / native.mean_us),
            });
        }
    }
    rows
}
