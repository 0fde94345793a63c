//! `holdfast bench start`: how long it takes until a program that does nothing has run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;

use super::child::{Complaints, time};
use super::{Bed, Confined, ConfinedArgs, series, with_signals, words};
use crate::frame::{Outcome, Stopped};
use crate::report::{Bench, Better, Report};
use crate::stats::Latencies;

/// More starts in a round only take time.
const STARTS_MAX: u32 = 100_000;
/// A start that takes longer is none.
const LIMIT: Duration = Duration::from_mins(1);
/// Starts before each round that are not counted: what they read is in memory then.
const WARM_UPS: u32 = 2;

/// Measure how long it takes to start a program and see it end, natively and confined, side by side.
///
/// The figure of a round is the median of its starts. The exit status is not 0 when a program failed.
#[derive(Debug, Clone, Args)]
pub struct StartArgs {
    /// The program and its arguments.
    #[arg(long, default_value = "/bin/true", value_name = "COMMAND")]
    pub program: String,

    /// Starts in each round.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub starts: u32,

    /// Folder to start it in; {dir} is one below it.
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// What it is measured under, and how often.
    #[command(flatten)]
    pub confined: ConfinedArgs,
}

impl StartArgs {
    /// Measures, and writes the files of `--output`.
    pub fn execute(&self) -> anyhow::Result<Report> {
        self.confined.finish(run(&StartOptions {
            program: words::split(&self.program).context("--program")?,
            starts: self.starts,
            folder: self.folder.clone().unwrap_or_else(std::env::temp_dir),
            confined: self.confined.options()?,
        })?)
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// Starts in each round.
    pub starts: u32,
    /// Where.
    pub folder: PathBuf,
    /// Variants and rounds.
    pub confined: Confined,
}

/// Measures. Fails only for what makes measuring pointless; what goes wrong with a variant is in the report.
pub fn run(options: &StartOptions) -> anyhow::Result<Report> {
    options.confined.check()?;
    ensure!(!options.program.is_empty(), "--program is empty");
    ensure!((1..=STARTS_MAX).contains(&options.starts), "--starts must be 1 to {STARTS_MAX}");
    with_signals(|stop| {
        let mut bed = Bed::new(&options.confined, &options.folder, Arc::clone(&stop))?;
        for round in 0..options.confined.rounds {
            for target in bed.frame.order(round) {
                if let Some(place) = bed.place(round, target) {
                    measure(options, &mut bed, &stop, round, target, &place);
                    bed.remove(&place, target);
                }
            }
        }
        let load = format!("{}, {} starts a round, one after the other", options.program.join(" "), options.starts);
        Ok(bed.into_report(Bench::Start, load))
    })
}

fn measure(options: &StartOptions, bed: &mut Bed<'_>, stop: &AtomicBool, round: u32, target: usize, place: &Path) {
    let info = series("start", "From start to end", "ms", Better::Lower);
    let mut told = None;
    bed.frame.measure(&info, target, 0, || {
        let failed = |error: anyhow::Error| Stopped::Failed(format!("{error:#}"));
        let command = options.confined.variants[target].command(place, &options.program).map_err(failed)?;
        let mut complaints = Complaints::new().map_err(failed)?;
        let mut latencies = Latencies::new();
        for start in 0..WARM_UPS + options.starts {
            let took = time(&command, Some(place), stop, LIMIT, &mut complaints)?;
            if start >= WARM_UPS {
                latencies.record(took);
            }
        }
        told = Some(latencies.median_ms());
        Ok(Outcome { value: latencies.median_ms(), latencies: Some(latencies), reopened: 0 })
    });
    if let Some(value) = told {
        bed.figures.set(&info, target, round, value);
    }
}
