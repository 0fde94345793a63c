//! Metrics for Prometheus, on a listener of their own.
//!
//! Every crate counts through the `metrics` facade; without a metrics listener there is no recorder and counting costs a
//! branch. Process figures are read from `/proc` when somebody asks.

use crate::conn::{Handler, Peer, RequestBody, ResponseBody, Tally};
use crate::web::reply;
use holdfast_base::{Error, Result};
use http::{Method, Request, Response, StatusCode, header};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::sync::Arc;
use std::time::Duration;

/// Upper bounds of latency buckets in seconds: from an answer out of memory to a large upload.
const SECONDS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0];

/// Histograms keep samples until they are gathered; this gathers them even if nobody scrapes.
pub(crate) const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Answers `/metrics`.
pub(crate) struct MetricsFace {
    handle: PrometheusHandle,
}

impl MetricsFace {
    /// Installs the process's recorder. A process has one; a second server in one process shares nothing and is refused.
    pub(crate) fn install() -> Result<Arc<Self>> {
        let unusable = |error: &dyn std::fmt::Display| Error::internal(format!("metrics cannot be set up: {error}"));
        let handle = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)
            .map_err(|error| unusable(&error))?
            .install_recorder()
            .map_err(|error| unusable(&error))?;
        describe();
        Ok(Arc::new(Self { handle }))
    }

    pub(crate) fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

fn describe() {
    metrics::describe_gauge!("holdfast_connections", "Open connections");
    metrics::describe_gauge!("holdfast_quic_connections", "Those of them over QUIC");
    metrics::describe_counter!(
        "holdfast_connections_refused_total",
        "Connections turned away because there were too many"
    );
    metrics::describe_gauge!("holdfast_requests_in_flight", "Requests being worked on");
    metrics::describe_counter!("holdfast_requests_refused_total", "Requests turned away because there were too many");
    metrics::describe_histogram!("holdfast_request_seconds", "From a request's head to the end of its answer");
    metrics::describe_counter!("holdfast_request_bytes_total", "Body bytes received");
    metrics::describe_counter!("holdfast_response_bytes_total", "Body bytes sent");
    metrics::describe_gauge!("holdfast_sites", "Published sites served");
    metrics::describe_gauge!("holdfast_site_cache_bytes", "Contents of sites in memory");
    metrics::describe_histogram!("holdfast_site_request_seconds", "Requests on sites listeners");
    metrics::describe_counter!("holdfast_site_response_bytes_total", "Body bytes sent on sites listeners");
    metrics::describe_counter!("holdfast_thumbnails_total", "Thumbnails asked for, by what came of it");
    metrics::describe_histogram!("holdfast_thumbnail_seconds", "From a thumbnail worker's turn to its answer");
    metrics::describe_gauge!("holdfast_thumbnail_waiting", "Thumbnails that wait or are being made");
    metrics::describe_gauge!("holdfast_thumbnail_cache_bytes", "Thumbnails in memory");
    metrics::describe_counter!("holdfast_thumbnail_workers_started_total", "Thumbnail workers started");
    metrics::describe_gauge!("process_resident_memory_bytes", "Resident memory");
    metrics::describe_gauge!("process_cpu_seconds_total", "CPU time used");
    metrics::describe_gauge!("process_open_fds", "Open file descriptors");
}

impl Handler for MetricsFace {
    async fn handle(
        self: Arc<Self>,
        _peer: Peer,
        tally: Arc<Tally>,
        request: Request<RequestBody>,
    ) -> Response<ResponseBody> {
        let answer = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/metrics") => {
                process_figures();
                let mut answer = reply::text(StatusCode::OK, self.handle.render());
                let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                answer.headers_mut().insert(header::CONTENT_TYPE, kind);
                answer
            }
            _ => reply::text(StatusCode::NOT_FOUND, "The metrics are at /metrics.\n"),
        };
        answer.map(|body| ResponseBody::new(body, tally, None))
    }
}

/// Sets the gauges that describe the process.
fn process_figures() {
    if let Some(bytes) = resident_bytes() {
        metrics::gauge!("process_resident_memory_bytes").set(bytes as f64);
    }
    if let Some(seconds) = cpu_seconds() {
        metrics::gauge!("process_cpu_seconds_total").set(seconds);
    }
    if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
        metrics::gauge!("process_open_fds").set(entries.count() as f64);
    }
}

/// Resident memory of this process: `VmRSS` of `/proc/self/status`, which is in KiB.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// CPU time of this process, user and system: fields 14 and 15 of `/proc/self/stat` (proc(5)), in clock ticks.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses and may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_knows_its_own_memory_and_time() {
        assert!(resident_bytes().expect("has memory") > 0);
        assert!(cpu_seconds().expect("has used time") >= 0.0);
    }
}
