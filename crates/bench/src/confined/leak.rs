//! `holdfast bench leak`: report 002's two problems: whether memory or disk is used up when a confined program makes and removes files for long.
//!
//! One confined file server works again and again, and goes on living between: what its supervisor or the kernel keeps for it is kept then. Once it
//! removes its files each time, as in the report's table of memory; once it leaves them and begins with them again, as in that of the disk. Variants
//! are measured one after the other, not in turns, because memory is the whole machine's: keep the machine quiet. What is written is synced before it
//! looks; nothing is dropped, which only root can do, so what caches may give up at once counts as free (`MemAvailable`, not `MemFree`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;

use super::fileserver::ModelArgs;
use super::hire::Worker;
use super::worker::Work;
use super::{Bed, Confined, ConfinedArgs, Model, series, with_signals, worker_command};
use crate::duration::{DURATION_MAX, duration_label};
use crate::frame::{Outcome, Stopped};
use crate::report::{Bench, Better, LeakRow, Report, seed002};
use crate::{paired, process};

/// Measure what is left of memory and disk while a file server works again and again, natively and confined.
///
/// The load is that of `bench fileserver`, --rounds times in one confined process, once with its files removed each time and once without.
#[derive(Debug, Clone, Args)]
pub struct LeakArgs {
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

impl LeakArgs {
    /// Measures, and writes the files of `--output`.
    pub fn execute(&self) -> anyhow::Result<Report> {
        self.confined.finish(run(&LeakOptions {
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
pub struct LeakOptions {
    /// Where.
    pub folder: PathBuf,
    /// The load.
    pub model: Model,
    /// How long each time goes on.
    pub time: Duration,
    /// What starts a worker.
    pub worker_command: Vec<String>,
    /// Variants, and how often.
    pub confined: Confined,
}

/// What is looked at.
const WHAT: [&str; 3] = ["memory available", "disk free", "memory of what confines it"];

/// Measures. Fails only for what makes measuring pointless; what goes wrong with a variant is in the report.
pub fn run(options: &LeakOptions) -> anyhow::Result<Report> {
    options.model.check()?;
    ensure!(!options.time.is_zero() && options.time <= DURATION_MAX, "--seconds must be above 0");
    options.confined.check()?;
    with_signals(|stop| {
        let mut bed = Bed::new(&options.confined, &options.folder, Arc::clone(&stop))?;
        let mut leaks = Vec::new();
        for (number, removed) in [true, false].into_iter().enumerate() {
            for target in bed.frame.order(0) {
                if bed.frame.interrupted() {
                    break;
                }
                let number = u32::try_from(number).unwrap_or(0);
                if let Some(place) = bed.place(number, target) {
                    leaks.extend(measure(options, &mut bed, &stop, target, &place, removed));
                    bed.remove(&place, target);
                }
            }
        }
        let load = format!("{}; {} each time", options.model.words(), duration_label(options.time));
        let mut report = bed.into_report(Bench::Leak, load);
        if let Some(confined) = &mut report.confined {
            leaks.sort_by_key(|leak: &LeakRow| WHAT.iter().position(|what| *what == leak.what));
            confined.leaks = leaks;
            confined.seed002_leaks = seed002::leaks();
        }
        Ok(report)
    })
}

/// One worker with all its times.
fn measure(
    options: &LeakOptions,
    bed: &mut Bed<'_>,
    stop: &AtomicBool,
    target: usize,
    place: &Path,
    removed: bool,
) -> Vec<LeakRow> {
    let (seed, seconds) = (options.confined.seed, options.time.as_secs_f64());
    let work = Work { root: place.to_owned(), model: options.model, seed, seconds, remove: removed };
    let started = options.confined.variants[target]
        .command(place, &options.worker_command)
        .map_err(|error| Stopped::Failed(format!("{error:#}")))
        .and_then(|command| Worker::start(&command, &work, stop));
    let mut worker = match started {
        Ok(worker) => worker,
        Err(Stopped::Interrupted) => return Vec::new(),
        Err(Stopped::Failed(error)) => {
            bed.frame.fail("start", target, &error);
            return Vec::new();
        }
    };
    let mut found = Seen::default();
    found.look(place, Some(worker.memory_around()));
    for round in 0..options.confined.rounds {
        if !once(options, bed, stop, (round, target), &mut worker, removed) {
            return Vec::new();
        }
        found.look(place, Some(worker.memory_around()));
    }
    if let Err(Stopped::Failed(error)) = worker.finish() {
        bed.frame.fail("end", target, &error);
    }
    found.look(place, None);
    found.rows(&options.confined.variants[target].label, removed, options.confined.rounds)
}

fn once(
    options: &LeakOptions,
    bed: &mut Bed<'_>,
    stop: &AtomicBool,
    (round, target): (u32, usize),
    worker: &mut Worker,
    removed: bool,
) -> bool {
    let (id, how) = if removed { ("leak.removed", "removed") } else { ("leak.kept", "kept") };
    let title = format!("Operations, files {how} each time");
    let info = series(id, &title, "ops/s", Better::Higher);
    let bytes = u64::from(options.model.existing()).saturating_mul(options.model.mean);
    let mut told = None;
    bed.frame.measure(&info, target, bytes, || {
        let done = worker.work(stop)?;
        let value = done.count() as f64 / done.seconds.max(1e-9);
        told = Some(value);
        Ok(Outcome { value, latencies: None, reopened: 0 })
    });
    if let Some(value) = told {
        bed.figures.set(&info, target, round, value);
    }
    told.is_some()
}

/// What was there each time.
#[derive(Default)]
struct Seen([Vec<u64>; 3]);

impl Seen {
    fn look(&mut self, place: &Path, around: Option<u64>) {
        rustix::fs::sync();
        let Self([memory, disk, own]) = self;
        memory.push(process::available_bytes());
        disk.extend(rustix::fs::statvfs(place).ok().map(|found| found.f_bavail * found.f_frsize));
        own.extend(around);
    }

    fn rows(self, label: &str, removed: bool, rounds: u32) -> Vec<LeakRow> {
        let row = |(bytes, what): (Vec<u64>, &str)| {
            // Without the state before, when the machine had cached nothing, and without that after the end.
            let after: Vec<f64> = bytes.iter().skip(1).take(rounds as usize).map(|bytes| *bytes as f64).collect();
            LeakRow { target: label.to_owned(), removed, what: what.to_owned(), slope: paired::slope(&after), bytes }
        };
        self.0.into_iter().zip(WHAT).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Seen;

    #[test]
    fn a_slope_is_of_the_times_alone() {
        let found = Seen([vec![1_000, 90, 80, 70, 900], vec![7; 5], vec![1, 5, 5, 5]]);
        let rows = found.rows("x", true, 3);
        let slopes: Vec<f64> = rows.iter().map(|row| row.slope.expect("three times").value).collect();
        assert_eq!(slopes, [-10.0, 0.0, 0.0]);
        assert_eq!((rows[0].bytes.len(), rows[2].bytes.len(), rows[1].what.as_str()), (5, 4, "disk free"));
    }
}
