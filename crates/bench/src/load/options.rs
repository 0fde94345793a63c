//! What a run measures, as plain data.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;

use super::Plan;
use crate::duration::DURATION_MAX;
use crate::shared::check_labels;

/// Runs of each target.
pub(super) const RUNS_MAX: u32 = 100;
/// Threads that make load; one drives thousands of connections, and they share the cores with the servers.
pub(super) const GENERATORS_MAX: u32 = 64;
/// Targets of one measurement.
pub(super) const TARGETS_MAX: usize = 32;

/// One server, site or plan under load.
#[derive(Debug, Clone)]
pub struct LoadTarget {
    /// Its name in the report.
    pub label: String,
    /// Roots of the server's process trees, for CPU and memory figures.
    pub pids: Vec<u32>,
    /// The load on it.
    pub plan: Plan,
}

/// Everything a run needs to know. [`super::HttpArgs`] makes it from a command line; [`LoadOptions::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The targets; ratios are to the first.
    pub targets: Vec<LoadTarget>,
    /// Timed runs of each.
    pub runs: u32,
    /// Load before each timed run that is not counted.
    pub warm_up: Duration,
    /// Threads that make load.
    pub generators: u32,
    /// Seed of think times.
    pub seed: u64,
    /// Accept any TLS certificate.
    pub insecure: bool,
    /// Trust the certificates in this PEM file instead of the machine's.
    pub ca_file: Option<PathBuf>,
    /// Time to open a connection, TLS included.
    pub connect_timeout: Duration,
    /// A request fails when no byte moves for so long.
    pub stall_timeout: Duration,
    /// A request fails when it takes longer.
    pub request_timeout: Duration,
    /// Share of failed requests from which a run counts as failed, in percent.
    pub max_error_percent: f64,
    /// Set the figures of report 004 beside ours.
    pub compare_004: bool,
    /// Write back dirty data before each timed run.
    pub settle: bool,
    /// Touch and free memory before each timed run.
    pub warm: bool,
    /// Tell on standard error what is being measured.
    pub progress: bool,
    /// The command line, as it should stand in the report: without passwords.
    pub command: String,
    /// Remarks for the report.
    pub notes: Vec<String>,
    /// What makes the figures doubtful, known before they are made.
    pub warnings: Vec<String>,
}

impl LoadOptions {
    /// The defaults, which are those of the command line.
    pub fn new(targets: Vec<LoadTarget>) -> Self {
        // Half the cores make load, the other half serve.
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            targets,
            runs: 2,
            warm_up: Duration::ZERO,
            generators: u32::try_from(cores / 2).unwrap_or(1).clamp(1, GENERATORS_MAX),
            seed: 1,
            insecure: false,
            ca_file: None,
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_mins(1),
            max_error_percent: 0.0,
            compare_004: false,
            settle: true,
            warm: true,
            progress: false,
            command: String::new(),
            notes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Refuses what cannot be measured, and counts that are surely mistakes.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.targets.is_empty(), "nothing to measure: name a URL, such as http://127.0.0.1:8080/, or a plan");
        ensure!(self.targets.len() <= TARGETS_MAX, "at most {TARGETS_MAX} targets can be measured side by side");
        check_labels(self.targets.iter().map(|target| target.label.as_str()))?;
        ensure!((1..=RUNS_MAX).contains(&self.runs), "--runs must be 1 to {RUNS_MAX}");
        ensure!((1..=GENERATORS_MAX).contains(&self.generators), "--generators must be 1 to {GENERATORS_MAX}");
        ensure!(self.warm_up <= DURATION_MAX, "--warm-up must be at most a day");
        ensure!((0.0..=100.0).contains(&self.max_error_percent), "--max-error-percent must be 0 to 100");
        for (name, time) in [
            ("--connect-timeout", self.connect_timeout),
            ("--stall-timeout", self.stall_timeout),
            ("--request-timeout", self.request_timeout),
        ] {
            ensure!(!time.is_zero() && time <= DURATION_MAX, "{name} must be more than nothing and at most a day");
        }
        self.targets.iter().try_for_each(|target| target.plan.check())
    }
}
