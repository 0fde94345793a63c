//! The frame every measurement runs in: order, preparation, probes, and the collecting of figures and failures.
//!
//! Runs are interleaved: run 1 of every target, then run 2 of every target, each run beginning with another target, so
//! that a disk or host that slows down with time slows all of them. Before each timed run the client writes back what is
//! dirty (`sync`) and warms memory, alike for all; around it CPU seconds and peak memory are read.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::machine::{Machine, memory_note};
use crate::process;
use crate::report::collect::Collector;
use crate::report::{Bench, Report, RunError, SCHEMA, SeriesInfo};
use crate::stats::Latencies;

/// Failures kept word for word; the rest are only counted.
const MAX_KEPT_ERRORS: usize = 50;
/// Memory warmed besides what the run moves: buffers of client, server and kernel.
const EXTRA_WARM_BYTES: u64 = 64 << 20;
/// Signals that end a run early; a second one ends the process at once.
const STOP_SIGNALS: [i32; 2] = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];

/// What one timed run gave.
pub(crate) struct Outcome {
    pub(crate) value: f64,
    pub(crate) latencies: Option<Latencies>,
    /// Connections the server made the client open anew.
    pub(crate) reopened: u64,
}

/// Why a step gave nothing.
pub(crate) enum Stopped {
    /// The user's wish; not a failure.
    Interrupted,
    /// What went wrong.
    Failed(String),
}

/// How the frame behaves.
pub(crate) struct Habits {
    pub(crate) runs: u32,
    pub(crate) seed: u64,
    /// Write back dirty data before each timed run.
    pub(crate) settle: bool,
    /// Touch and free memory before each timed run.
    pub(crate) warm: bool,
    /// Tell on standard error what is being measured.
    pub(crate) progress: bool,
    pub(crate) command: String,
    pub(crate) notes: Vec<String>,
}

/// A target as the frame knows it.
struct Place {
    label: String,
    pids: Vec<u32>,
    /// False once the target could not be set up: it is left out from then on.
    usable: bool,
}

/// One whole measurement.
pub(crate) struct Frame {
    habits: Habits,
    stop: Arc<AtomicBool>,
    started: time::OffsetDateTime,
    clock: Instant,
    places: Vec<Place>,
    collector: Collector,
    errors: Vec<RunError>,
    error_count: u64,
    warnings: Vec<String>,
}

impl Frame {
    /// `targets` are labels with the roots of their process trees.
    pub(crate) fn new(habits: Habits, targets: Vec<(String, Vec<u32>)>, stop: Arc<AtomicBool>) -> Self {
        let labels = targets.iter().map(|(label, _)| label.clone()).collect();
        Self {
            habits,
            stop,
            started: time::OffsetDateTime::now_utc(),
            clock: Instant::now(),
            places: targets.into_iter().map(|(label, pids)| Place { label, pids, usable: true }).collect(),
            collector: Collector::new(labels),
            errors: Vec::new(),
            error_count: 0,
            warnings: Vec::new(),
        }
    }

    /// Which targets to measure in this run, in order: each run begins with the next one.
    pub(crate) fn order(&self, run: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.rotate_left(run as usize % self.places.len().max(1));
        order.retain(|&index| self.places[index].usable);
        order
    }

    /// Leaves a target out from now on.
    pub(crate) fn leave_out(&mut self, target: usize) {
        self.places[target].usable = false;
    }

    pub(crate) fn label(&self, target: usize) -> &str {
        &self.places[target].label
    }

    pub(crate) fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn stop_flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// The flag, to be looked at while the frame itself is in use.
    pub(crate) fn stop_handle(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Adds a value that a timed run gave besides its main figure.
    pub(crate) fn note(&mut self, info: &SeriesInfo, target: usize, value: f64) {
        self.collector.row(info, target).values.push(value);
    }

    pub(crate) fn say(&self, what: &str) {
        if self.habits.progress {
            eprintln!("[{:5} s] {what}", self.clock.elapsed().as_secs());
        }
    }

    pub(crate) fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    pub(crate) fn fail(&mut self, step: &str, target: usize, failure: &dyn Display) {
        let label = self.label(target).to_owned();
        let error = RunError { step: step.to_owned(), target: label, message: failure.to_string() };
        self.say(&format!("FAILED {} on {}: {}", error.step, error.target, error.message));
        self.error_count += 1;
        if self.errors.len() < MAX_KEPT_ERRORS {
            self.errors.push(error);
        }
    }

    /// Puts the machine into the same state before each timed run. `bytes` is what the run will move.
    pub(crate) fn prepare(&self, bytes: u64) {
        if self.habits.settle {
            rustix::fs::sync();
        }
        if self.habits.warm {
            // Once for the client's or kernel's copy, once for the server's.
            process::warm_memory(bytes.saturating_mul(2).saturating_add(EXTRA_WARM_BYTES));
        }
    }

    /// Times one run of `work` on one target with the probes around it. Tells whether it gave a figure.
    pub(crate) fn measure(
        &mut self,
        info: &SeriesInfo,
        target: usize,
        bytes: u64,
        work: impl FnOnce() -> Result<Outcome, Stopped>,
    ) -> bool {
        if self.interrupted() {
            return false;
        }
        self.prepare(bytes);
        let pids = self.places[target].pids.clone();
        if !pids.is_empty() && process::reset_peak(&pids).is_err() {
            let label = self.label(target);
            self.warn(format!(
                "peak memory of {label} counts from its start: its processes' clear_refs is not writable"
            ));
        }
        let own = [std::process::id()];
        let before = (process::cpu_seconds(&pids), process::cpu_seconds(&own));
        let result = work();
        let after = (process::cpu_seconds(&pids), process::cpu_seconds(&own));
        match result {
            Ok(outcome) => {
                let peak = process::peak_rss_bytes(&pids);
                let server_cpu_s = peak.map(|_| after.0 - before.0);
                self.collect(info, target, &outcome, server_cpu_s, after.1 - before.1, peak);
                self.say(&format!("{}: {} {:.1} {}", info.title, self.label(target), outcome.value, info.unit));
                true
            }
            Err(Stopped::Interrupted) => false,
            Err(Stopped::Failed(why)) => {
                self.fail(&info.title, target, &why);
                false
            }
        }
    }

    /// Takes the figures of one run in.
    pub(crate) fn collect(
        &mut self,
        info: &SeriesInfo,
        target: usize,
        outcome: &Outcome,
        server_cpu_s: Option<f64>,
        client_cpu_s: f64,
        peak: Option<u64>,
    ) {
        let row = self.collector.row(info, target);
        row.values.push(outcome.value);
        row.client_cpu_s.push(client_cpu_s);
        row.server_cpu_s.extend(server_cpu_s);
        row.peak_rss_bytes = row.peak_rss_bytes.max(peak.unwrap_or(0));
        row.reopened += outcome.reopened;
        if let Some(latencies) = &outcome.latencies {
            row.latencies.add(latencies);
        }
    }

    /// Sums everything up. What only some measurements have is left empty; `data` is a path on the file system of
    /// interest.
    pub(crate) fn into_report(self, bench: Bench, data: &Path) -> Report {
        let format = time::format_description::well_known::Rfc3339;
        Report {
            schema: SCHEMA,
            bench,
            started: self.started.replace_nanosecond(0).unwrap_or(self.started).format(&format).unwrap_or_default(),
            duration_s: self.clock.elapsed().as_secs_f64(),
            interrupted: self.stop.load(Ordering::Relaxed),
            command: self.habits.command,
            seed: self.habits.seed,
            runs: self.habits.runs,
            machine: Machine::look(data),
            versions: vec![format!("holdfast-bench {}", env!("CARGO_PKG_VERSION"))],
            notes: self.habits.notes.into_iter().chain(memory_note()).collect(),
            targets: Vec::new(),
            data: Vec::new(),
            series: self.collector.finish(),
            baselines: Vec::new(),
            stored: Vec::new(),
            seed000: Vec::new(),
            load: None,
            create: None,
            wan: None,
            confined: None,
            warnings: self.warnings,
            error_count: self.error_count,
            errors: self.errors,
        }
    }
}

/// The command lines of these processes, without `password`.
pub(crate) fn server_command(pids: &[u32], password: Option<&str>) -> Option<String> {
    let lines: Vec<String> = pids.iter().filter_map(|&pid| process::command_line(pid)).collect();
    let mut text = lines.join(" ; ");
    if let Some(password) = password.filter(|password| !password.is_empty()) {
        text = text.replace(password, "***");
    }
    (!text.is_empty()).then_some(text)
}

/// The signal handlers of one run, taken away again at its end.
pub(crate) struct Handlers(Vec<signal_hook::SigId>);

impl Handlers {
    pub(crate) fn install(stop: &Arc<AtomicBool>) -> std::io::Result<Self> {
        let mut installed = Self(Vec::new());
        for signal in STOP_SIGNALS {
            // In this order: the first signal finds the flag down and only raises it, the second one ends the process.
            let end = signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(stop))?;
            installed.0.push(end);
            installed.0.push(signal_hook::flag::register(signal, Arc::clone(stop))?);
        }
        Ok(installed)
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for &handler in &self.0 {
            signal_hook::low_level::unregister(handler);
        }
    }
}
