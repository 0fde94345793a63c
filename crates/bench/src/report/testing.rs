//! A made-up report for the tests of its forms, and the comparison with files that hold the right ones.

use std::path::Path;

use super::collect::Collector;
use super::*;

/// Two targets, a rate, a latency, one baseline; the second target has no figure for the latency.
pub(crate) fn example() -> Report {
    let upload = SeriesInfo {
        id: "upload.100MiB.bin".into(),
        title: "PUT 100MiB incompressible".into(),
        unit: "MB/s".into(),
        better: Better::Higher,
        bytes: Some(104_857_600),
    };
    let get = SeriesInfo {
        id: "first-byte.get".into(),
        title: "GET, first byte".into(),
        unit: "ms".into(),
        better: Better::Lower,
        bytes: None,
    };
    let mut collector = Collector::new(vec!["ours".into(), "theirs".into()]);
    for (target, value) in [(0, 800.0), (1, 400.0), (0, 1000.0), (1, 410.5), (0, 900.0), (1, 390.0)] {
        let row = collector.row(&upload, target);
        row.values.push(value);
        row.server_cpu_s.push(0.25);
        row.client_cpu_s.push(0.03);
        row.peak_rss_bytes = 70 << 20;
    }
    let row = collector.row(&get, 0);
    row.values.push(0.25);
    row.reopened = 2;
    for micros in [200, 250, 300, 41_000] {
        row.latencies.record(std::time::Duration::from_micros(micros));
    }
    let series = collector.finish();
    let baselines = vec![BaselineRow {
        id: "gzip".into(),
        command: "gzip -c <DATA >/dev/null".into(),
        kind: Kind::Bin,
        bytes: 104_857_600,
        seconds: vec![2.5],
        rate: Summary::of(&[41.94]),
        output_bytes: None,
        missing: None,
    }];
    Report {
        schema: SCHEMA,
        started: "2026-01-02T03:04:05Z".into(),
        duration_s: 61.5,
        interrupted: false,
        command: "holdfast bench dav ours=http://127.0.0.1:1/ theirs=http://127.0.0.1:2/".into(),
        seed: 1,
        runs: 3,
        machine: Machine {
            cpu: "Example CPU".into(),
            cores: 2,
            memory_bytes: 4 << 30,
            kernel: "6.0".into(),
            system: "Example Linux 1".into(),
            file_system: "ext4 (rw)".into(),
        },
        versions: vec!["holdfast-bench 0".into(), "gzip 1".into()],
        notes: vec!["theirs: as packaged".into()],
        targets: vec![note("ours", 1), note("theirs", 2)],
        data: Vec::new(),
        seed000: seed000::rows(&series, &baselines),
        series,
        baselines,
        stored: vec![StoredRow {
            target: "ours".into(),
            kind: Kind::Bin,
            bytes: 104_857_600,
            stored_bytes: 105_000_000,
        }],
        warnings: vec!["theirs stalls".into()],
        error_count: 0,
        errors: Vec::new(),
    }
}

fn note(label: &str, port: u16) -> TargetNote {
    TargetNote {
        label: label.into(),
        url: format!("http://127.0.0.1:{port}/"),
        server: Some("Example/1".into()),
        command: None,
    }
}

/// Compares with `tests/golden/NAME`; with `HOLDFAST_UPDATE_GOLDEN` set it writes that file instead.
pub(crate) fn assert_golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("HOLDFAST_UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder in the source tree");
        std::fs::write(&path, found).expect("a file in the source tree");
    }
    let right = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, right, "tests/golden/{name} differs; set HOLDFAST_UPDATE_GOLDEN=1 if the change is meant");
}
