//! The frame every workload runs in: order, preparation, probes, and the collecting of figures and failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context;

use super::DavOptions;
use super::bay::Bay;
use super::session::Failure;
use crate::baseline::BaselineRow;
use crate::data::{self, DataStore, Kind, Origin};
use crate::machine::{Machine, tool_version};
use crate::process;
use crate::report::collect::Collector;
use crate::report::{DataNote, Report, RunError, SeriesInfo, StoredRow, TargetNote};

/// Failures kept word for word; the rest are only counted.
const MAX_KEPT_ERRORS: usize = 50;
/// Memory warmed besides what the run moves: buffers of client, server and kernel.
const EXTRA_WARM_BYTES: u64 = 64 << 20;

/// What one timed run gave.
pub(crate) struct Outcome {
    pub(crate) value: f64,
    pub(crate) latencies: Option<crate::stats::Latencies>,
    /// Connections the server made the client open anew.
    pub(crate) reopened: u64,
}

/// One whole measurement.
pub(crate) struct Lab<'o> {
    pub(crate) options: &'o DavOptions,
    pub(crate) store: DataStore,
    pub(crate) bays: Vec<Bay>,
    stop: Arc<AtomicBool>,
    started: time::OffsetDateTime,
    clock: Instant,
    collector: Collector,
    pub(crate) baselines: Vec<BaselineRow>,
    pub(crate) stored: Vec<StoredRow>,
    data: Vec<DataNote>,
    errors: Vec<RunError>,
    error_count: u64,
    warnings: Vec<String>,
}

impl<'o> Lab<'o> {
    pub(crate) fn new(options: &'o DavOptions, stop: Arc<AtomicBool>) -> anyhow::Result<Self> {
        // From the system's randomness, not the seed: two runs at once must not meet in one folder.
        let name = format!("bench-{:08x}", rand::random::<u32>());
        let bays = options.targets.iter().map(|spec| {
            Bay::new(spec, options, &name, Arc::clone(&stop)).with_context(|| format!("target {}", spec.label))
        });
        let bays = bays.collect::<anyhow::Result<Vec<Bay>>>()?;
        let sources =
            if options.text_sources.is_empty() { data::default_sources() } else { options.text_sources.clone() };
        std::fs::create_dir_all(&options.data_dir)
            .with_context(|| format!("cannot make the data folder {}", options.data_dir.display()))?;
        let labels = options.targets.iter().map(|target| target.label.clone()).collect();
        Ok(Self {
            options,
            store: DataStore { folder: options.data_dir.clone(), seed: options.seed, sources },
            bays,
            stop,
            started: time::OffsetDateTime::now_utc(),
            clock: Instant::now(),
            collector: Collector::new(labels),
            baselines: Vec::new(),
            stored: Vec::new(),
            data: Vec::new(),
            errors: Vec::new(),
            error_count: 0,
            warnings: Vec::new(),
        })
    }

    /// Makes the bench folder of every target; one that refuses is left out, and the report says why.
    pub(crate) fn set_up(&mut self) {
        for index in 0..self.bays.len() {
            if let Err(failure) = self.bays[index].set_up() {
                self.bays[index].usable = false;
                self.fail("set up", index, &failure);
            }
        }
    }

    pub(crate) fn clean_up(&mut self) {
        for index in 0..self.bays.len() {
            if let Err(failure) = self.bays[index].clean_up() {
                self.fail("clean up (the bench folder may be left behind)", index, &failure);
            }
        }
    }

    /// Which targets to measure in this run, in order: each run begins with the next one.
    pub(crate) fn order(&self, run: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.bays.len()).collect();
        order.rotate_left(run as usize % self.bays.len().max(1));
        order.retain(|&index| self.bays[index].usable);
        order
    }

    pub(crate) fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn stop_flag(&self) -> &AtomicBool {
        &self.stop
    }

    pub(crate) fn say(&self, what: &str) {
        if self.options.progress {
            eprintln!("[{:5} s] {what}", self.clock.elapsed().as_secs());
        }
    }

    pub(crate) fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    pub(crate) fn fail(&mut self, step: &str, target: usize, failure: &Failure) {
        if failure.is_interrupt() {
            return;
        }
        let error = RunError {
            step: step.to_owned(),
            target: self.bays[target].spec.label.clone(),
            message: failure.to_string(),
        };
        self.say(&format!("FAILED {} on {}: {}", error.step, error.target, error.message));
        self.error_count += 1;
        if self.errors.len() < MAX_KEPT_ERRORS {
            self.errors.push(error);
        }
    }

    /// Does an untimed step and records its failure; tells whether it went well.
    pub(crate) fn untimed(
        &mut self,
        step: &str,
        target: usize,
        work: impl FnOnce(&Bay) -> Result<(), Failure>,
    ) -> bool {
        if self.interrupted() {
            return false;
        }
        let result = work(&self.bays[target]);
        result.map_err(|failure| self.fail(step, target, &failure)).is_ok()
    }

    /// Puts the machine into the same state before each timed run. `bytes` is what the run will move.
    pub(crate) fn prepare(&self, bytes: u64) {
        if self.options.settle {
            rustix::fs::sync();
        }
        if self.options.warm {
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
        work: impl FnOnce(&Bay) -> Result<Outcome, Failure>,
    ) -> bool {
        if self.interrupted() {
            return false;
        }
        self.prepare(bytes);
        let pids = self.bays[target].spec.pids.clone();
        if !pids.is_empty() && process::reset_peak(&pids).is_err() {
            let label = &self.bays[target].spec.label;
            self.warn(format!(
                "peak memory of {label} counts from its start: its processes' clear_refs is not writable"
            ));
        }
        let own = [std::process::id()];
        let before = (process::cpu_seconds(&pids), process::cpu_seconds(&own));
        let result = work(&self.bays[target]);
        let after = (process::cpu_seconds(&pids), process::cpu_seconds(&own));
        match result {
            Ok(outcome) => {
                let row = self.collector.row(info, target);
                row.values.push(outcome.value);
                row.client_cpu_s.push(after.1 - before.1);
                row.reopened += outcome.reopened;
                if let Some(latencies) = &outcome.latencies {
                    row.latencies.add(latencies);
                }
                if let Some(peak) = process::peak_rss_bytes(&pids) {
                    row.server_cpu_s.push(after.0 - before.0);
                    row.peak_rss_bytes = row.peak_rss_bytes.max(peak);
                }
                let label = &self.bays[target].spec.label;
                self.say(&format!("{}: {label} {:.1} {}", info.title, outcome.value, info.unit));
                true
            }
            Err(failure) => {
                self.fail(&info.title, target, &failure);
                false
            }
        }
    }

    /// Notes where a file's content came from, once.
    pub(crate) fn note_data(&mut self, kind: Kind, bytes: u64, origin: &Origin) {
        let note = DataNote { kind, bytes, origin: origin.clone() };
        if !self.data.contains(&note) {
            self.data.push(note);
        }
    }

    /// Sums everything up.
    pub(crate) fn into_report(self) -> Report {
        let targets = self.bays.iter().map(|bay| TargetNote {
            label: bay.spec.label.clone(),
            url: bay.spec.url.to_string(),
            server: bay.server.clone(),
            command: server_command(bay),
        });
        let mut versions = vec![format!("holdfast-bench {}", env!("CARGO_PKG_VERSION"))];
        for (program, argument) in
            [("cp", "--version"), ("gzip", "--version"), ("zstd", "--version"), ("openssl", "version")]
        {
            versions.push(tool_version(program, argument).unwrap_or_else(|| format!("{program}: not installed")));
        }
        let series = self.collector.finish();
        let seed000 = crate::report::seed000::rows(&series, &self.baselines);
        let format = time::format_description::well_known::Rfc3339;
        Report {
            schema: crate::report::SCHEMA,
            started: self.started.replace_nanosecond(0).unwrap_or(self.started).format(&format).unwrap_or_default(),
            duration_s: self.clock.elapsed().as_secs_f64(),
            interrupted: self.stop.load(Ordering::Relaxed),
            command: self.options.command.clone(),
            seed: self.options.seed,
            runs: self.options.runs,
            machine: Machine::look(&self.options.data_dir),
            versions,
            notes: self.options.notes.clone(),
            targets: targets.collect(),
            data: self.data,
            series,
            baselines: self.baselines,
            stored: self.stored,
            seed000,
            warnings: self.warnings,
            error_count: self.error_count,
            errors: self.errors,
        }
    }
}

/// The command lines of a target's processes, without its password.
fn server_command(bay: &Bay) -> Option<String> {
    let lines: Vec<String> = bay.spec.pids.iter().filter_map(|&pid| process::command_line(pid)).collect();
    let mut text = lines.join(" ; ");
    if let Some((_, password)) = &bay.spec.credentials
        && !password.is_empty()
    {
        text = text.replace(password.as_str(), "***");
    }
    (!text.is_empty()).then_some(text)
}
