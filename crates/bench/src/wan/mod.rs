//! `holdfast bench wan`: tools that fetch files, over report 001's bad networks.
//!
//! Two network namespaces and an emulated link between them (`holdfast_wan`) are made for each trial. `rows` is the matrix, `tool` what is
//! measured, `server` and `ssh` what it fetches from, `files` what is fetched and how it is compared, `trial` one tool in one cell, which `watch` looks at.
//! Trials are interleaved: in each cell every tool has its turn before the next cell begins, and another one begins each run.
//!
//! A tool that dies or does not finish is a result. A failure is what makes a figure worthless: a link that did not do what it was asked to,
//! wrong content that a tool was content with, a server that does not start.

mod args;
mod drive;
mod files;
mod rows;
mod server;
mod ssh;
mod tool;
mod trial;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast_wan::Forwarded;

pub use args::WanArgs;
pub use rows::{Family, Way};

use crate::frame::{Frame, Habits, Handlers, Outcome as Figure};
use crate::machine::tool_version;
use crate::report::{
    Bench as Kind, Better, Outcome, Report, SeriesInfo, TargetNote, WanCell, WanReport, WanRun, seed001,
};
use crate::shared::{check_labels, shell_knows};
use files::Files;
use rows::Cell;
use tool::{Service, Tool};
use trial::{Bench, Trial};

/// Packets that left late, of a hundred, from which on the machine was too busy to say anything about a tool.
const LATE_PERCENT_MAX: f64 = 1.0;

/// What is measured.
#[derive(Debug, Clone)]
pub(crate) struct WanOptions {
    pub(crate) tools: Vec<Tool>,
    /// What shares the link with each of them.
    pub(crate) beside: Option<Tool>,
    pub(crate) cells: Vec<Cell>,
    /// Of each file.
    pub(crate) bytes: u64,
    /// Of the rows with many.
    pub(crate) files: usize,
    pub(crate) limit: Duration,
    pub(crate) runs: u32,
    /// Count what is not finished as a failure.
    pub(crate) strict: bool,
    pub(crate) kernel_netem: bool,
    /// Where files are made and fetched to.
    pub(crate) folder: PathBuf,
    /// What starts the server of files.
    pub(crate) own: Vec<String>,
    pub(crate) habits: fn(&WanOptions) -> Habits,
    pub(crate) seed: u64,
    pub(crate) settle: bool,
    pub(crate) warm: bool,
    pub(crate) progress: bool,
    pub(crate) command: String,
    pub(crate) notes: Vec<String>,
}

impl WanOptions {
    fn check(&self) -> anyhow::Result<()> {
        check_labels(self.tools.iter().map(|tool| tool.label.as_str()))?;
        ensure!(!self.cells.is_empty(), "no row has a name that --rows chooses; --list tells them");
        ensure!(self.runs > 0, "--repeat must be at least 1");
        ensure!(self.bytes > 0, "files have at least one byte");
        ensure!((1..=100).contains(&self.files), "--files must be 1 to 100");
        if let Some(beside) = &self.beside {
            for tool in &self.tools {
                ensure!(
                    tool.fetches && beside.fetches,
                    "--beside: what a meter of links got of a shared one is not known"
                );
                let alike = tool.congestion == beside.congestion;
                ensure!(
                    alike,
                    "--beside: hosts have one congestion control, and not {} beside {}",
                    tool.label,
                    beside.label
                );
            }
        }
        for tool in self.tools.iter().chain(&self.beside) {
            if let Some(program) = tool.program() {
                ensure!(shell_knows(program), "{}: the program {program} is not installed", tool.label);
            }
        }
        Ok(())
    }
}

/// Measures. Fails only for what makes measuring pointless.
pub(crate) fn run(options: &WanOptions) -> anyhow::Result<Report> {
    options.check()?;
    // While there is but one thread.
    holdfast_wan::prepare()?;
    let stop = Arc::new(AtomicBool::new(false));
    let handlers = Handlers::install(&stop).context("cannot install the signal handlers")?;
    let work = tempfile::Builder::new().prefix("holdfast-wan-").tempdir_in(&options.folder);
    let work = work.with_context(|| format!("cannot make a folder in {}", options.folder.display()))?;
    let many = if options.cells.iter().any(|cell| cell.row.many) { options.files } else { 1 };
    let mut lab = Lab { options, frame: frame(options, Arc::clone(&stop)), runs: Vec::new() };
    lab.frame.say("making the files to fetch");
    let copies = 1 + usize::from(options.beside.is_some());
    let files = Files::make(work.path().join("source"), many, copies, options.bytes, options.seed)?;
    let WanOptions { limit, kernel_netem, .. } = *options;
    let bench = Bench { files: &files, many, work: work.path(), own: &options.own, limit, kernel_netem, stop: &stop };
    lab.run(&bench);
    drop(handlers);
    Ok(lab.into_report())
}

fn frame(options: &WanOptions, stop: Arc<AtomicBool>) -> Frame {
    let targets = options.tools.iter().map(|tool| (tool.label.clone(), Vec::new())).collect();
    Frame::new((options.habits)(options), targets, stop)
}

struct Lab<'o> {
    options: &'o WanOptions,
    frame: Frame,
    runs: Vec<WanRun>,
}

impl Lab<'_> {
    fn run(&mut self, bench: &Bench<'_>) {
        for run in 0..self.options.runs {
            for cell in &self.options.cells {
                for target in self.frame.order(run) {
                    if self.frame.interrupted() {
                        return;
                    }
                    self.frame.prepare(self.options.bytes);
                    let tools: Vec<&Tool> =
                        std::iter::once(&self.options.tools[target]).chain(&self.options.beside).collect();
                    // The same harm for every tool, another one in each run.
                    match bench.run(&tools, cell, self.options.seed.wrapping_add(u64::from(run))) {
                        Ok(trials) => self.take(run, target, cell, &tools, trials),
                        Err(error) => self.frame.fail(&cell.name(), target, &format!("{error:#}")),
                    }
                }
            }
        }
    }

    fn take(&mut self, run: u32, target: usize, cell: &Cell, tools: &[&Tool], trials: Vec<Trial>) {
        if self.frame.interrupted() {
            return;
        }
        for (at, trial) in trials.into_iter().enumerate() {
            let own = at == 0;
            for mismatch in trial.mismatches.iter().filter(|_| own) {
                self.frame.fail(&cell.name(), target, mismatch);
            }
            let strictly = self.options.strict && trial.outcome != Outcome::Done;
            // Of two, one has to end by itself.
            let broken = tools.len() > 1 && trial.outcome == Outcome::Failed;
            if trial.outcome == Outcome::Wrong || strictly || broken {
                self.frame.fail(&cell.name(), target, &trial.message.clone().unwrap_or_default());
            }
            let other = tools.iter().enumerate().find(|(other, _)| *other != at);
            let run = row(tools[at], other.map(|(_, other)| *other), run, cell, trial);
            if own {
                self.doubt(&run);
            }
            self.frame.say(&format!("{}: {} {}", run.cell, run.who(), run.words()));
            if own && matches!(run.outcome, Outcome::Done | Outcome::Unfinished) {
                let figure = Figure { value: run.mb_per_s, latencies: None, reopened: 0 };
                let peak = run.client_peak_bytes + run.server_peak_bytes;
                self.frame.collect(&info(cell), target, &figure, Some(run.server_cpu_s), run.client_cpu_s, Some(peak));
            }
            self.runs.push(run);
        }
    }

    /// What makes a run's figure doubtful.
    fn doubt(&mut self, run: &WanRun) {
        if run.unread > 0 {
            self.frame.warn(format!(
                "{}: {} packets of {} were lost before the link, for want of processor",
                run.cell, run.unread, run.tool
            ));
        }
        let late = |way: &Forwarded| way.late as f64 / way.link.delivered.packets.max(1) as f64 * 100.0;
        let percent = late(&run.to_near).max(late(&run.to_far));
        if percent > LATE_PERCENT_MAX {
            let worst_ms = run.to_near.worst_late_us.max(run.to_far.worst_late_us) as f64 / 1e3;
            self.frame.warn(format!(
                "{}: {percent:.1} % of the packets of {} left late, up to {worst_ms:.0} ms: the machine was busy",
                run.cell, run.tool
            ));
        }
    }

    fn into_report(self) -> Report {
        let Self { options, frame, runs } = self;
        let mut report = frame.into_report(Kind::Wan, &options.folder);
        report.targets = options.tools.iter().map(note).collect();
        let mut programs: Vec<&str> = options.tools.iter().filter_map(Tool::program).collect();
        programs.dedup();
        report.versions.extend(programs.iter().filter_map(|program| tool_version(program, "--version")));
        let cells: Vec<WanCell> = options.cells.iter().map(|cell| describe(cell, options)).collect();
        let seed001 = seed001::rows(&cells, &runs);
        report.wan = Some(WanReport { load: words(options), cells, runs, seed001 });
        report
    }
}

/// What is alike in all cells.
fn words(options: &WanOptions) -> String {
    let rate = options.cells.first().and_then(|cell| cell.rate);
    format!(
        "files of {}, {} in rows with many; {}; at most {} s each; {}harm by {}",
        crate::size::size_label(options.bytes),
        options.files,
        rate.map_or_else(|| "no limit to the rate".to_owned(), |rate| format!("{} Mbit/s", rate as f64 * 8.0 / 1e6)),
        options.limit.as_secs_f64(),
        options.beside.as_ref().map_or_else(String::new, |beside| {
            format!("the link shared with {}, until one of the two has ended; ", beside.label)
        }),
        if options.kernel_netem { "the kernel's netem" } else { "a link in user space" },
    )
}

fn describe(cell: &Cell, options: &WanOptions) -> WanCell {
    let settings = cell.settings(options.seed, options.kernel_netem);
    WanCell {
        name: cell.name(),
        words: cell.words(),
        row: cell.row.name.clone(),
        family: cell.row.family,
        level: cell.row.level,
        many: cell.row.many,
        way: cell.way,
        ceiling_mb_per_s: cell.ceiling().map(|bytes| bytes / 1e6),
        to_near: settings.to_near,
        to_far: settings.to_far,
    }
}

fn note(tool: &Tool) -> TargetNote {
    let service = match &tool.service {
        Service::Http => "holdfast's server of files over HTTP/1.1",
        Service::Ssh => "OpenSSH's server",
        Service::Drive => "holdfast serve, with the files in a drive",
        Service::Command(command) => command,
    };
    TargetNote {
        label: tool.label.clone(),
        url: tool.template.clone(),
        server: Some(format!("from {service}; TCP with {}", tool.congestion)),
        command: None,
    }
}

fn info(cell: &Cell) -> SeriesInfo {
    SeriesInfo {
        id: format!("wan.{}", cell.name()),
        title: format!("{}: {}", cell.name(), cell.words()),
        unit: "MB/s".to_owned(),
        better: Better::Higher,
        bytes: None,
    }
}

/// A trial in the form of the report.
fn row(tool: &Tool, beside: Option<&Tool>, run: u32, cell: &Cell, trial: Trial) -> WanRun {
    let mb_per_s = trial.arrived as f64 / 1e6 / trial.seconds.max(1e-6);
    let up_s = trial.seconds - cell.outage().as_secs_f64();
    let share = cell.ceiling().filter(|_| up_s > 0.0).map(|ceiling| trial.arrived as f64 / up_s / ceiling);
    let sent = trial.to_near.link.offered.bytes as f64;
    WanRun {
        tool: tool.label.clone(),
        beside: beside.map(|beside| beside.label.clone()),
        cell: cell.name(),
        run: run + 1,
        outcome: trial.outcome,
        message: trial.message,
        seconds: trial.seconds,
        asked_bytes: trial.asked,
        arrived_bytes: trial.arrived,
        verified_bytes: tool.fetches.then_some(trial.verified),
        mb_per_s,
        share,
        steady_mb_per_s: trial.steady_mb_per_s,
        sent_per_byte: (trial.arrived > 0 && beside.is_none()).then(|| sent / trial.arrived as f64),
        client_cpu_s: trial.client.cpu_s,
        server_cpu_s: trial.server.cpu_s,
        client_peak_bytes: trial.client.peak_bytes,
        server_peak_bytes: trial.server.peak_bytes,
        to_near: trial.to_near,
        to_far: trial.to_far,
        unread: trial.unread,
        course: trial.course,
    }
}
