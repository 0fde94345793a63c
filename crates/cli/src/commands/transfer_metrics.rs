//! Counters of a transfer in a file, in Prometheus' text format, as the node exporter reads them from a folder: what runs for a while and is gone cannot be
//! asked.
//!
//! The file is replaced in one step, so that nobody reads half of it. It says what a machine's people watch: when it ran last, whether all of it went well,
//! and how fast.

use holdfast_transfer::{Counts, Network, Report};
use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Ticks between two writes: exporters are read each 15 s or so.
const EVERY_TICKS: u32 = 5;

/// Where counters go.
pub(crate) struct Metrics {
    path: PathBuf,
    ticks: u32,
    /// It was told that the file cannot be written.
    told: bool,
}

impl Metrics {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, ticks: 0, told: false }
    }

    /// Once a second.
    pub(crate) fn tick(&mut self, counts: &Counts, rate: u64, network: Option<&Network>) {
        if self.ticks.is_multiple_of(EVERY_TICKS) {
            let mut text = words(counts);
            gauge(&mut text, "running", "Whether it runs now.", 1.0);
            gauge(&mut text, "bytes_per_second", "Bytes a second of the last ten seconds.", rate as f64);
            if let Some(network) = network {
                gauge(&mut text, "round_trip_seconds", "Least round trip to the server.", network.rtt.as_secs_f64());
                if let Some(lost) = network.lost {
                    gauge(&mut text, "lost_ratio", "Share of datagrams that did not arrive.", lost);
                }
            }
            self.write(&text);
        }
        self.ticks += 1;
    }

    /// At the end.
    pub(crate) fn end(&mut self, report: &Report) {
        let mut text = words(&report.counts);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let whole = report.counts.failed == 0 && report.kept.is_none() && !report.stopped;
        gauge(&mut text, "running", "Whether it runs now.", 0.0);
        gauge(&mut text, "success", "Whether all of the last one was done.", f64::from(u8::from(whole)));
        gauge(&mut text, "duration_seconds", "How long the last one took.", report.took.as_secs_f64());
        gauge(&mut text, "ended_timestamp_seconds", "When the last one ended.", now.as_secs_f64());
        self.write(&text);
    }

    fn write(&mut self, text: &str) {
        if let Err(error) = replace(&self.path, text)
            && !std::mem::replace(&mut self.told, true)
        {
            eprintln!("{} cannot be written: {error}", self.path.display());
        }
    }
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The exporter runs as somebody else; what does not end in .prom it leaves alone.
    let mut file = tempfile::Builder::new()
        .prefix(".holdfast-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

fn words(counts: &Counts) -> String {
    let mut text = String::new();
    for (name, count) in counts.each() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# TYPE holdfast_transfer_{name}_total counter\nholdfast_transfer_{name}_total {count}");
    }
    text
}

fn gauge(text: &mut String, name: &str, help: &str, value: f64) {
    let name = format!("holdfast_transfer_{name}");
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_how_it_went_and_is_replaced_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.prom");
        let mut metrics = Metrics::new(path.clone());
        let counts = Counts { files: 3, moved_bytes: 77, ..Counts::default() };
        metrics.tick(&counts, 9, None);
        let read = || std::fs::read_to_string(&path).expect("is there");
        assert!(read().contains("\nholdfast_transfer_running 1\n"), "{}", read());
        let report = Report { counts, kept: Some("one failed".into()), ..Report::default() };
        metrics.end(&report);
        for line in
            ["holdfast_transfer_moved_bytes_total 77", "holdfast_transfer_running 0", "holdfast_transfer_success 0"]
        {
            assert!(read().lines().any(|said| said == line), "{line} in {}", read());
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left beside it");
    }
}
