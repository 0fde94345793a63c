//! What one thread counts, and how the counts of all become a run of the report.

use std::time::{Duration, Instant};

use super::plan::Plan;
use crate::course::Timeline;
use crate::http::HttpError;
use crate::report::{ErrorCount, LoadRun, StepRow};
use crate::stats::{Latencies, Moments};

/// Messages kept of each kind of failure.
const SAMPLES_MAX: usize = 5;
/// Longest message kept.
const SAMPLE_CHARS_MAX: usize = 300;

/// Kinds of failure, in the order in which they can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorClass {
    Connect,
    Tls,
    Timeout,
    Closed,
    Protocol,
    Status,
    Length,
    Content,
}

const CLASSES: [(ErrorClass, &str); 8] = [
    (ErrorClass::Connect, "connect"),
    (ErrorClass::Tls, "tls"),
    (ErrorClass::Timeout, "timeout"),
    (ErrorClass::Closed, "closed"),
    (ErrorClass::Protocol, "protocol"),
    (ErrorClass::Status, "status"),
    (ErrorClass::Length, "length"),
    (ErrorClass::Content, "content"),
];

/// Why a request failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) class: ErrorClass,
    pub(super) message: String,
}

impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        let class = match &error {
            HttpError::Connect { .. } => ErrorClass::Connect,
            HttpError::Tls(_) => ErrorClass::Tls,
            HttpError::Stalled { .. } | HttpError::TooSlow { .. } => ErrorClass::Timeout,
            HttpError::ClosedBeforeAnswer | HttpError::Io { .. } | HttpError::Interrupted => ErrorClass::Closed,
            HttpError::Malformed(_) | HttpError::ShortChunk => ErrorClass::Protocol,
            HttpError::ShortAnswer { .. } | HttpError::ShortFile { .. } => ErrorClass::Length,
            HttpError::Content(_) => ErrorClass::Content,
        };
        Self { class, message: error.to_string() }
    }
}

/// Failures of one kind.
#[derive(Debug, Clone, Default)]
struct Failures {
    count: u64,
    samples: Vec<String>,
}

impl Failures {
    fn sample(&mut self, message: &str) {
        if self.samples.len() < SAMPLES_MAX {
            let message: String = message.chars().take(SAMPLE_CHARS_MAX).collect();
            if !self.samples.contains(&message) {
                self.samples.push(message);
            }
        }
    }
}

/// The requests of one step.
#[derive(Debug, Clone)]
struct StepTally {
    failed: u64,
    moments: Moments,
    latencies: Latencies,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    begun: Instant,
    /// Begin of the first request and end of the last.
    first: Option<Instant>,
    last: Option<Instant>,
    moments: Moments,
    latencies: Latencies,
    /// Only with a rate.
    service: Option<Latencies>,
    connect: Latencies,
    failures: [Failures; CLASSES.len()],
    steps: Vec<StepTally>,
    timeline: Timeline,
    /// The `Server` header of the first answer that has one.
    pub(super) server: Option<String>,
    pub(super) content_bytes: u64,
    pub(super) connections: u64,
    pub(super) reopened: u64,
    pub(super) unsent: u64,
    /// It was no use to go on: nothing succeeded.
    pub(super) gave_up: bool,
}

impl Tally {
    pub(super) fn new(plan: &Plan, begun: Instant) -> Self {
        let step = StepTally { failed: 0, moments: Moments::default(), latencies: Latencies::new() };
        Self {
            begun,
            first: None,
            last: None,
            moments: Moments::default(),
            latencies: Latencies::new(),
            service: plan.rate.map(|_| Latencies::new()),
            connect: Latencies::new(),
            failures: Default::default(),
            // The only step of a plan is the plan.
            steps: if plan.steps.len() > 1 { vec![step; plan.steps.len()] } else { Vec::new() },
            timeline: Timeline::new(),
            server: None,
            content_bytes: 0,
            connections: 0,
            reopened: 0,
            unsent: 0,
            gave_up: false,
        }
    }

    /// A request begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.first.get_or_insert(now);
    }

    pub(super) fn connected(&mut self, after: Duration) {
        self.connect.record(after);
    }

    /// A good answer. `due` is when the request was to begin, `begun` when it did.
    pub(super) fn good(&mut self, step: usize, due: Instant, begun: Instant, now: Instant) {
        let latency = now.duration_since(due);
        self.last = Some(now);
        self.moments.record(latency);
        self.latencies.record(latency);
        if let Some(service) = &mut self.service {
            service.record(now.duration_since(begun));
        }
        if let Some(step) = self.steps.get_mut(step) {
            step.moments.record(latency);
            step.latencies.record(latency);
        }
        self.timeline.good(now.duration_since(self.begun), latency);
    }

    pub(super) fn failed(&mut self, step: usize, failure: &Failure, now: Instant) {
        self.last = Some(now);
        let kind = &mut self.failures[failure.class as usize];
        kind.count += 1;
        kind.sample(&failure.message);
        if let Some(step) = self.steps.get_mut(step) {
            step.failed += 1;
        }
        self.timeline.failed(now.duration_since(self.begun));
    }

    /// Good answers so far.
    pub(super) fn good_count(&self) -> u64 {
        self.moments.count()
    }

    /// Failures so far.
    pub(super) fn failed_count(&self) -> u64 {
        self.failures.iter().map(|kind| kind.count).sum()
    }

    pub(super) fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Adds what another thread counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = self.last.max(other.last);
        self.moments.add(&other.moments);
        self.latencies.add(&other.latencies);
        if let (Some(sum), Some(other)) = (&mut self.service, &other.service) {
            sum.add(other);
        }
        self.connect.add(&other.connect);
        for (sum, other) in self.failures.iter_mut().zip(&other.failures) {
            sum.count += other.count;
            other.samples.iter().for_each(|sample| sum.sample(sample));
        }
        for (sum, other) in self.steps.iter_mut().zip(&other.steps) {
            sum.failed += other.failed;
            sum.moments.add(&other.moments);
            sum.latencies.add(&other.latencies);
        }
        self.timeline.add(&other.timeline);
        if self.server.is_none() {
            self.server.clone_from(&other.server);
        }
        self.content_bytes += other.content_bytes;
        self.connections += other.connections;
        self.reopened += other.reopened;
        self.unsent += other.unsent;
        self.gave_up |= other.gave_up;
    }

    /// Sums up.
    pub(super) fn finish(&self, target: &str, run: u32, plan: &Plan, interrupted: bool) -> LoadRun {
        let (first, last) = (self.first.unwrap_or(self.begun), self.last.unwrap_or(self.begun));
        let seconds = last.saturating_duration_since(first).as_secs_f64();
        let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let (good, failed) = (self.moments.count(), self.failed_count());
        let kinds = self.failures.iter().zip(CLASSES).filter(|(kind, _)| kind.count > 0);
        let steps = self.steps.iter().zip(&plan.steps).map(|(tally, step)| StepRow {
            name: step.name.clone(),
            requests: tally.moments.count() + tally.failed,
            failed: tally.failed,
            spread: tally.moments.spread(),
            latency: tally.latencies.percentiles(),
        });
        LoadRun {
            target: target.to_owned(),
            run,
            interrupted,
            seconds,
            requests: good + failed,
            failed,
            rate: per_second(good as f64),
            content_mb_per_s: per_second(self.content_bytes as f64 / 1e6),
            spread: self.moments.spread(),
            latency: self.latencies.percentiles(),
            service: self.service.as_ref().and_then(Latencies::percentiles),
            connect: self.connect.percentiles(),
            connections: self.connections,
            reopened: self.reopened,
            unsent: self.unsent,
            errors: kinds
                .map(|(kind, (_, name))| ErrorCount {
                    class: name.to_owned(),
                    count: kind.count,
                    samples: kind.samples.clone(),
                })
                .collect(),
            steps: steps.collect(),
            course: self.timeline.finish(last.saturating_duration_since(self.begun)),
        }
    }
}
