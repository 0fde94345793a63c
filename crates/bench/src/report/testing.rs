//! A made-up report for the tests of its forms, and the comparison with files that hold the right ones.

use std::path::Path;

use super::collect::Collector;
use super::*;

/// One of each kind.
pub(crate) fn examples() -> [Report; 5] {
    [example(), load_example(), create_example(), wan_example(), confined_example()]
}

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
        bench: Bench::Dav,
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
        load: None,
        create: None,
        wan: None,
        confined: None,
        warnings: vec!["theirs stalls".into()],
        error_count: 0,
        errors: Vec::new(),
    }
}

/// The made-up report of a load: the figures of report 004's first page, and a second target.
pub(crate) fn load_example() -> Report {
    let info = SeriesInfo {
        id: "http.rate".into(),
        title: "Good answers per second".into(),
        unit: "requests/s".into(),
        better: Better::Higher,
        bytes: None,
    };
    let load = load();
    let mut collector = Collector::new(vec!["ours".into(), "theirs".into()]);
    for run in &load.runs {
        collector.row(&info, usize::from(run.target == "theirs")).values.push(run.rate);
    }
    let series = collector.finish();
    let command = "holdfast bench http ours=http://127.0.0.1:1/ theirs=http://127.0.0.1:2/".into();
    let (baselines, stored, seed000) = (Vec::new(), Vec::new(), Vec::new());
    Report { bench: Bench::Http, command, series, baselines, stored, seed000, load: Some(load), runs: 2, ..example() }
}

pub(crate) fn load() -> LoadReport {
    let mut runs = Vec::new();
    for (target, run, rate, avg_ms, failed) in [
        ("ours", 1, 73.3, 133.0, 1),
        ("ours", 2, 79.4, 122.0, 0),
        ("theirs", 1, 58.6, 167.0, 0),
        ("theirs", 2, 60.0, 160.0, 0),
    ] {
        runs.push(load_run(target, run, rate, avg_ms, failed));
    }
    LoadReport {
        shapes: vec!["10 users, ramp-up 1 s, 1000 loops each".into()],
        latency_from: "from when a user sent its request".into(),
        seed004: seed004::rows(&runs),
        runs,
    }
}

/// The made-up report of files made in two folders, by two clients.
pub(crate) fn create_example() -> Report {
    let info = SeriesInfo {
        id: "create".into(),
        title: "Making files".into(),
        unit: "files/s".into(),
        better: Better::Higher,
        bytes: None,
    };
    let create = create();
    let mut collector = Collector::new(vec!["ours".into(), "theirs".into()]);
    for run in &create.runs {
        collector.row(&info, usize::from(run.target == "theirs")).values.push(run.files as f64 / run.seconds);
    }
    let command = "holdfast bench create ours=/mnt/drive theirs=/mnt/other".into();
    let (baselines, stored, seed000) = (Vec::new(), Vec::new(), Vec::new());
    let (series, create) = (collector.finish(), Some(create));
    Report { bench: Bench::Create, command, series, baselines, stored, seed000, create, runs: 1, ..example() }
}

pub(crate) fn create() -> CreateReport {
    let run = |target: &str, files_per_s: f64| {
        let client = |share: f64| ClientRow { files_per_s: files_per_s * share, mb_per_s: files_per_s * share * 0.004 };
        let point = |at_s, rate| CoursePoint { at_s, rate, errors_per_s: 0.0, p50_ms: Some(0.5), p99_ms: Some(2.0) };
        CreateRun {
            target: target.to_owned(),
            run: 1,
            seconds: 4_000.0 / files_per_s,
            files: 4_000,
            bytes: 16_000_000,
            failed: 0,
            retried: 0,
            verified: 4_000,
            requests_per_file: (target == "ours").then_some(1.5),
            clients: vec![client(0.4), client(0.6)],
            errors: Vec::new(),
            course: Course { piece_s: 1.0, points: vec![point(0.0, files_per_s), point(1.0, files_per_s / 2.0)] },
        }
    };
    let runs = vec![run("ours", 2_000.0), run("theirs", 500.0)];
    CreateReport { load: "2 clients of 1 stream".into(), seed003: seed003::rows(&runs), runs }
}

/// The made-up report of transfers: two tools, one of which does not finish where packets are lost.
pub(crate) fn wan_example() -> Report {
    let wan = wan();
    let mut collector = Collector::new(vec!["ours".into(), "theirs".into()]);
    for run in &wan.runs {
        let info = SeriesInfo {
            id: format!("wan.{}", run.cell),
            title: run.cell.clone(),
            unit: "MB/s".into(),
            better: Better::Higher,
            bytes: None,
        };
        collector.row(&info, usize::from(run.tool == "theirs")).values.push(run.mb_per_s);
    }
    let command = "holdfast bench wan --tool ours --tool theirs".into();
    let (series, wan) = (collector.finish(), Some(wan));
    let (baselines, stored, seed000) = (Vec::new(), Vec::new(), Vec::new());
    Report { bench: Bench::Wan, command, series, baselines, stored, seed000, wan, runs: 1, ..example() }
}

/// The made-up report of a file server, natively and confined, in ten rounds of which one failed, and what both leave.
pub(crate) fn confined_example() -> Report {
    let info = SeriesInfo {
        id: "fileserver.operations".into(),
        title: "Operations".into(),
        unit: "ops/s".into(),
        better: Better::Higher,
        bytes: None,
    };
    let confined = confined(&info);
    let mut collector = Collector::new(vec!["native".into(), "ours".into(), "broken".into()]);
    for (target, row) in confined.comparisons[0].rows.iter().enumerate() {
        collector.row(&info, target).values.extend(row.runs.iter().flatten());
    }
    let command = "holdfast bench fileserver /srv --under 'ours=holdfast run --policy p.toml --'".into();
    let place = |label: &str, words: &str| TargetNote {
        label: label.into(),
        url: words.into(),
        server: Some("before the program".into()),
        command: None,
    };
    let targets = vec![place("native", "nothing"), place("ours", "holdfast run --policy p.toml --")];
    let (baselines, stored, seed000) = (Vec::new(), Vec::new(), Vec::new());
    let (mut series, confined) = (collector.finish(), Some(confined));
    for row in series.iter_mut().flat_map(|series| &mut series.rows) {
        row.speed = row.speed.map(short);
    }
    Report {
        bench: Bench::Fileserver,
        command,
        targets,
        series,
        baselines,
        stored,
        seed000,
        confined,
        runs: 10,
        ..example()
    }
}

/// A number that has the same digits again after it was written in decimal ones.
fn short(value: f64) -> f64 {
    (value * 64.0).round() / 64.0
}

fn confined(info: &SeriesInfo) -> ConfinedReport {
    use crate::paired;
    let rounded = |interval: Interval| Interval {
        value: short(interval.value),
        low: interval.low.map(short),
        high: interval.high.map(short),
    };
    let native: Vec<Option<f64>> = (0..10).map(|round| Some(7000.0 + f64::from(round * round % 7) * 50.0)).collect();
    let ours: Vec<Option<f64>> = native
        .iter()
        .enumerate()
        .map(|(round, value)| value.filter(|_| round != 3).map(|value| value * 0.99 + round as f64))
        .collect();
    let row = |target: &str, runs: &[Option<f64>]| ComparisonRow {
        target: target.into(),
        runs: runs.to_vec(),
        mean_without_worst: paired::mean_without_worst(&runs.iter().copied().flatten().collect::<Vec<_>>(), true),
        change_percent: (target != "native").then(|| paired::change_percent(&native, runs)).flatten().map(rounded),
        difference: (target != "native").then(|| paired::difference(&native, runs)).flatten().map(rounded),
    };
    let operation = |target: &str, mean_us: f64| OperationRow {
        operation: "create".into(),
        target: target.into(),
        count: 40_000,
        mean_us,
        p50_us: 9.5,
        p99_us: 80.0,
        max_us: 4_100.0,
        to_native: (target != "native").then_some(mean_us / 20.0),
    };
    let leak = |target: &str, removed: bool, mebibytes: &[u64]| {
        let bytes: Vec<u64> = mebibytes.iter().map(|mebibytes| mebibytes << 20).collect();
        let after: Vec<f64> = bytes[1..bytes.len() - 1].iter().map(|bytes| *bytes as f64).collect();
        LeakRow {
            target: target.into(),
            removed,
            what: "memory available".into(),
            slope: paired::slope(&after).map(rounded),
            bytes,
        }
    };
    let failed = row("broken", &[None; 10]);
    let rows = vec![row("native", &native), row("ours", &ours), failed];
    let comparisons = vec![Comparison { info: info.clone(), rows }];
    ConfinedReport {
        load: "10000 files".into(),
        seed002: seed002::rows(&comparisons),
        comparisons,
        operations: vec![operation("native", 20.0), operation("ours", 21.5)],
        leaks: vec![
            leak("native", true, &[1200, 580, 585, 579, 581, 1100]),
            leak("ours", false, &[1200, 577, 380, 179, 0, 0]),
        ],
        seed002_leaks: seed002::leaks(),
    }
}

pub(crate) fn wan() -> WanReport {
    use crate::wan::{Family, Way};
    use holdfast_wan::{Forwarded, Impairments};
    let cell = |row: &str, family, level| WanCell {
        name: format!("{row}.data"),
        words: row.to_owned(),
        row: row.to_owned(),
        family,
        level,
        many: false,
        way: Way::Data,
        ceiling_mb_per_s: Some(11.95),
        to_near: Impairments::default(),
        to_far: Impairments::default(),
    };
    let run = |cell: &str, tool: &str, seconds: f64, outcome| WanRun {
        tool: tool.to_owned(),
        beside: None,
        cell: format!("{cell}.data"),
        run: 1,
        outcome,
        message: (outcome != Outcome::Done).then(|| "not finished after 30 s".to_owned()),
        seconds,
        asked_bytes: 8 << 20,
        arrived_bytes: if outcome == Outcome::Done { 8 << 20 } else { 1 << 20 },
        verified_bytes: Some(if outcome == Outcome::Done { 8 << 20 } else { 0 }),
        mb_per_s: if outcome == Outcome::Done { 8.0 } else { 1.0 } / seconds,
        share: Some(0.5),
        steady_mb_per_s: Some(9.0),
        sent_per_byte: Some(1.1),
        client_cpu_s: 0.1,
        server_cpu_s: 0.2,
        client_peak_bytes: 10 << 20,
        server_peak_bytes: 20 << 20,
        to_near: Forwarded::default(),
        to_far: Forwarded::default(),
        unread: 0,
        course: Course { piece_s: 0.1, points: Vec::new() },
    };
    let cells = vec![
        cell("clean", Family::Clean, 0.0),
        cell("loss-8", Family::Loss, 8.0),
        cell("window-256", Family::Window, 256.0),
    ];
    let runs = vec![
        run("clean", "ours", 0.5, Outcome::Done),
        run("clean", "theirs", 1.0, Outcome::Done),
        run("loss-8", "ours", 1.0, Outcome::Done),
        run("loss-8", "theirs", 32.0, Outcome::Unfinished),
        run("window-256", "ours", 2.0, Outcome::Done),
        run("window-256", "theirs", 4.0, Outcome::Done),
    ];
    let seed001 = seed001::rows(&cells, &runs);
    WanReport { load: "files of 8MiB; 100 Mbit/s".into(), cells, runs, seed001 }
}

fn load_run(target: &str, run: u32, rate: f64, avg_ms: f64, failed: u64) -> LoadRun {
    let point = |at_s, errors_per_s| CoursePoint {
        at_s,
        rate: rate + at_s,
        errors_per_s,
        p50_ms: Some(avg_ms * 0.9),
        p99_ms: Some(avg_ms * 2.0),
    };
    let samples = vec!["http://127.0.0.1:1/: status 503".to_owned()];
    let error = ErrorCount { class: "status".into(), count: failed, samples };
    LoadRun {
        target: target.into(),
        run,
        interrupted: false,
        seconds: 136.4,
        requests: 10_000,
        failed,
        rate,
        content_mb_per_s: 1.5,
        spread: Some(Spread { min_ms: 18.0, avg_ms, max_ms: 2514.0, dev_ms: 103.0 }),
        latency: Some(Percentiles {
            requests: 10_000 - failed,
            p50_ms: avg_ms * 0.9,
            p90_ms: avg_ms * 1.5,
            p99_ms: avg_ms * 2.0,
            p999_ms: avg_ms * 5.0,
            max_ms: 2514.0,
        }),
        service: None,
        connect: None,
        connections: 10,
        reopened: 0,
        unsent: 0,
        errors: if failed > 0 { vec![error] } else { Vec::new() },
        steps: Vec::new(),
        course: Course { piece_s: 1.0, points: vec![point(0.0, failed as f64), point(1.0, 0.0)] },
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
