//! The part of a report that `holdfast bench http` fills: every run with its figures, errors and course.

use serde::{Deserialize, Serialize};

use super::seed004::Seed004Row;
use crate::stats::{Percentiles, Spread};

/// What load was made and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// The load in words, once for each target.
    pub shapes: Vec<String>,
    /// From where to where latency is measured.
    pub latency_from: String,
    /// Every run, target by target.
    pub runs: Vec<LoadRun>,
    /// The table beside report 004, when it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seed004: Vec<Seed004Row>,
}

/// One run against one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadRun {
    /// The target's label.
    pub target: String,
    /// 1 for the first run.
    pub run: u32,
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// From the start of the first request to the end of the last.
    pub seconds: f64,
    /// Requests that ended, well or not.
    pub requests: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Good answers per second.
    pub rate: f64,
    /// Bytes of content per second, in MB.
    pub content_mb_per_s: f64,
    /// Latency of the good answers.
    pub spread: Option<Spread>,
    /// Latency of the good answers.
    pub latency: Option<Percentiles>,
    /// With a rate asked for: the time from the real start of each request, which hides how long it had to wait for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Percentiles>,
    /// Time to open a connection, TLS included; part of the latency of the request that needed it.
    pub connect: Option<Percentiles>,
    /// Connections opened.
    pub connections: u64,
    /// Connections that the server had closed between two requests.
    pub reopened: u64,
    /// With a rate asked for: requests that were due and could not be begun before the end.
    pub unsent: u64,
    /// What went wrong.
    pub errors: Vec<ErrorCount>,
    /// The requests of a plan, when it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRow>,
    /// How it went over time.
    pub course: Course,
}

impl LoadRun {
    /// Share of requests that failed, in percent.
    pub fn error_percent(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.failed as f64 / self.requests as f64 * 100.0 }
    }
}

/// Failures of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The kind: `connect`, `tls`, `timeout`, `closed`, `protocol`, `status`, `length`, `content`.
    pub class: String,
    /// How many.
    pub count: u64,
    /// The first few that differ, word for word.
    pub samples: Vec<String>,
}

/// One request of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    /// Its name in the plan.
    pub name: String,
    /// How often it was made.
    pub requests: u64,
    /// How often it failed.
    pub failed: u64,
    /// Latency of the good answers.
    pub spread: Option<Spread>,
    /// Latency of the good answers.
    pub latency: Option<Percentiles>,
}

/// A run over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// Length of a piece; the last may be shorter.
    pub piece_s: f64,
    /// The pieces.
    pub points: Vec<CoursePoint>,
}

/// What happened in one piece of time, by the end of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoursePoint {
    /// Where the piece begins.
    pub at_s: f64,
    /// Good answers per second.
    pub rate: f64,
    /// Failures per second.
    pub errors_per_s: f64,
    /// Half of the good answers took at most this long.
    pub p50_ms: Option<f64>,
    /// 99 % took at most this long.
    pub p99_ms: Option<f64>,
}
