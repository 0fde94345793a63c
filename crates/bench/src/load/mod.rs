//! `holdfast bench http`: load on any web pages, measured side by side.
//!
//! Users ask for a page, or for the requests of a plan one after the other, over and over. In the closed model a user begins
//! its next request when its last is answered; with a rate (open model) requests become due at fixed times, and latency
//! counts from then. A few threads drive all users with an event loop each, because the load generator usually shares the
//! cores with what it measures: [`worker`] is the loop, [`link`] a connection, [`tally`] what is counted.
//!
//! Latency is from the moment a request could have been sent (with a rate: was due) to the last byte of its answer, and
//! includes opening a connection where one had to be opened. It is of good answers only, as is the throughput; what failed
//! is counted by kind. Each run of each target stands by itself in the report, the second beside the first, because a first
//! run finds caches cold.
//!
//! Limits: HTTP/1.1, no pipelining, no redirects followed, no cookies, no caches, no content decoded. Only the given URLs
//! are asked for.

mod args;
mod engine;
pub mod jmx;
mod link;
mod options;
mod plan;
mod poll;
mod request;
mod schedule;
mod tally;
mod think;
mod traffic;
mod user;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;

pub use args::HttpArgs;
pub use options::{LoadOptions, LoadTarget};
pub use plan::{Expect, Method, Plan, Step};
pub use think::Think;

use crate::frame::{Frame, Habits, Handlers, Outcome, Stopped, server_command};
use crate::http::Limits;
use crate::report::{Bench, Better, LoadReport, LoadRun, Report, SeriesInfo, TargetNote, seed004};
use crate::shared::trust;
use engine::{Extent, allow_descriptors, fire};
use request::Ready;
use tally::Tally;

/// Runs the load against all targets.
///
/// Fails only for what makes measuring pointless (no target, a name nobody knows); what goes wrong with requests is in the
/// report, and [`Report::failed`] tells.
pub fn run(options: &LoadOptions) -> anyhow::Result<Report> {
    options.check()?;
    let stop = Arc::new(AtomicBool::new(false));
    let handlers = Handlers::install(&stop).context("cannot install the signal handlers")?;
    let report = measure(options, &stop);
    drop(handlers);
    report
}

fn measure(options: &LoadOptions, stop: &Arc<AtomicBool>) -> anyhow::Result<Report> {
    let trust = trust(options.insecure, options.ca_file.as_ref());
    let limits =
        Limits { connect: options.connect_timeout, stall: options.stall_timeout, total: options.request_timeout };
    let mut ready = Vec::with_capacity(options.targets.len());
    for target in &options.targets {
        let made = Ready::new(&target.plan, &trust, limits, stop);
        ready.push(made.with_context(|| format!("target {}", target.label))?);
    }
    for ready in &ready {
        allow_descriptors(u64::from(ready.plan.users) * ready.servers.len() as u64)?;
    }
    let mut session = Session { options, ready, frame: frame(options, stop), runs: Vec::new(), servers: Vec::new() };
    session.servers.resize(options.targets.len(), None);
    for run in 0..options.runs {
        for target in session.frame.order(run) {
            session.measure(target, run)?;
        }
    }
    Ok(session.into_report())
}

fn frame(options: &LoadOptions, stop: &Arc<AtomicBool>) -> Frame {
    let habits = Habits {
        runs: options.runs,
        seed: options.seed,
        settle: options.settle,
        warm: options.warm,
        progress: options.progress,
        command: options.command.clone(),
        notes: options.notes.clone(),
    };
    let targets = options.targets.iter().map(|target| (target.label.clone(), target.pids.clone())).collect();
    let mut frame = Frame::new(habits, targets, Arc::clone(stop));
    options.warnings.iter().for_each(|warning| frame.warn(warning.clone()));
    frame
}

/// One whole measurement.
struct Session<'o> {
    options: &'o LoadOptions,
    ready: Vec<Ready<'o>>,
    frame: Frame,
    runs: Vec<LoadRun>,
    /// `Server` headers.
    servers: Vec<Option<String>>,
}

impl Session<'_> {
    /// One run of one target, with its warm-up.
    fn measure(&mut self, target: usize, run: u32) -> anyhow::Result<()> {
        let Self { options, ready, frame, .. } = self;
        let ready = &ready[target];
        let threads = (options.generators, options.seed);
        if !options.warm_up.is_zero() && !frame.interrupted() {
            fire(ready, Extent::For(options.warm_up), threads, frame.stop_flag())?;
        }
        let stop = frame.stop_handle();
        let mut result = None;
        frame.measure(&rate_series(), target, 0, || {
            let tally =
                fire(ready, Extent::Plan, threads, &stop).map_err(|error| Stopped::Failed(format!("{error:#}")))?;
            let interrupted = stop.load(std::sync::atomic::Ordering::Relaxed);
            let made = tally.finish(&options.targets[target].label, run + 1, ready.plan, interrupted);
            let outcome =
                Outcome { value: made.rate, latencies: Some(tally.latencies().clone()), reopened: tally.reopened };
            result = Some((tally, made));
            Ok(outcome)
        });
        if let Some((tally, made)) = result {
            self.take(target, &tally, made);
        }
        Ok(())
    }

    /// Keeps a run, and judges it.
    fn take(&mut self, target: usize, tally: &Tally, run: LoadRun) {
        if let Some(latency) = &run.latency {
            for (id, title, value) in [
                ("http.p50", "Latency, half of the requests", latency.p50_ms),
                ("http.p99", "Latency, 99 % of the requests", latency.p99_ms),
            ] {
                self.frame.note(&latency_series(id, title), target, value);
            }
        }
        let step = format!("run {}", run.run);
        if run.failed > 0 && run.error_percent() > self.options.max_error_percent {
            let kinds: Vec<String> = run.errors.iter().map(|kind| format!("{} {}", kind.count, kind.class)).collect();
            let failure = format!(
                "{} of {} requests failed ({}), the first: {}",
                run.failed,
                run.requests,
                kinds.join(", "),
                run.errors.first().and_then(|kind| kind.samples.first()).map_or("", String::as_str)
            );
            self.frame.fail(&step, target, &failure);
        } else if run.requests == 0 && !run.interrupted {
            self.frame.fail(&step, target, &"no request was made");
        }
        let label = self.frame.label(target).to_owned();
        if tally.gave_up {
            self.frame
                .warn(format!("{label}, {step}: given up after {} failures and no good answer", worker::HOPELESS));
        }
        if run.unsent > 0 {
            self.frame.warn(format!(
                "{label}, {step}: {} requests were due and found no free connection before the end; the rate was not reached",
                run.unsent
            ));
        }
        if let Some(server) = tally.server.as_ref() {
            self.servers[target] = Some(server.clone());
        }
        self.runs.push(run);
    }

    fn into_report(mut self) -> Report {
        // Target by target, first run first.
        let order: Vec<&str> = self.options.targets.iter().map(|target| target.label.as_str()).collect();
        self.runs.sort_by_key(|run| (order.iter().position(|label| *label == run.target), run.run));
        let notes = self.options.targets.iter().zip(&self.servers).map(|(target, server)| {
            let step = &target.plan.steps[0];
            let password = step.credentials.as_ref().map(|(_, password)| password.as_str());
            TargetNote {
                label: target.label.clone(),
                url: step.url.to_string(),
                server: server.clone(),
                command: server_command(&target.pids, password),
            }
        });
        let mut report = self.frame.into_report(Bench::Http, Path::new("."));
        report.targets = notes.collect();
        report.load = Some(LoadReport {
            shapes: shapes(self.options),
            latency_from: latency_from(self.options).to_owned(),
            seed004: if self.options.compare_004 { seed004::rows(&self.runs) } else { Vec::new() },
            runs: self.runs,
        });
        report
    }
}

/// The load in words: once if all targets have the same.
fn shapes(options: &LoadOptions) -> Vec<String> {
    let shapes: Vec<String> = options.targets.iter().map(|target| target.plan.shape()).collect();
    let threads = format!("generator threads: {}", options.generators);
    if shapes.iter().all(|shape| *shape == shapes[0]) {
        return vec![format!("{}; {threads}", shapes[0])];
    }
    options.targets.iter().zip(shapes).map(|(target, shape)| format!("{}: {shape}; {threads}", target.label)).collect()
}

fn latency_from(options: &LoadOptions) -> &'static str {
    let open = options.targets.iter().filter(|target| target.plan.rate.is_some()).count();
    if open == options.targets.len() {
        "from when a request was due, so corrected for coordinated omission; service time is from when it was really sent"
    } else if open == 0 {
        "from when a user sent its request; a user who waits sends none, so not corrected for coordinated omission"
    } else {
        "from when a request was due where a rate was asked for (corrected for coordinated omission), else from when it was sent"
    }
}

fn rate_series() -> SeriesInfo {
    SeriesInfo {
        id: "http.rate".to_owned(),
        title: "Good answers per second".to_owned(),
        unit: "requests/s".to_owned(),
        better: Better::Higher,
        bytes: None,
    }
}

fn latency_series(id: &str, title: &str) -> SeriesInfo {
    SeriesInfo { id: id.to_owned(), title: title.to_owned(), unit: "ms".to_owned(), better: Better::Lower, bytes: None }
}
