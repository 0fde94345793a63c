//! The whole measurement, small, against servers in memory that behave and misbehave.

use std::path::Path;

use crate::common::{Fault, Server};
use holdfast_bench::dav::{DavOptions, TargetSpec, Workload, run};
use holdfast_bench::report::Report;

/// Everything the defaults measure, with tiny files, and no waiting for disks.
fn options(servers: &[(&str, &Server)], folder: &Path) -> DavOptions {
    let targets = servers
        .iter()
        .map(|(label, server)| {
            let text = format!("{label}={}", server.url.replace("http://", "http://me:secret@"));
            TargetSpec::parse(&text).expect("a good URL")
        })
        .collect();
    DavOptions {
        sizes: vec![300_000],
        report_sizes: vec![200_000],
        files: 20,
        connections: 3,
        entries: vec![7],
        random_ranges: 5,
        small_answers: 4,
        runs: 2,
        settle: false,
        warm: false,
        text_sources: vec![folder.join("no-sources")],
        ..DavOptions::new(targets, folder.join("data"))
    }
}

fn measure(fault: Fault, only: &[Workload]) -> (Report, Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(fault);
    let options = DavOptions { workloads: only.to_vec(), ..options(&[("one", &server)], folder.path()) };
    (run(&options).expect("it runs"), server)
}

#[test]
fn every_workload_gives_figures_for_every_target_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (Server::start(Fault::None), Server::start(Fault::None));
    let report = run(&options(&[("one", &one), ("two", &two)], folder.path())).expect("it runs");
    assert_eq!(report.errors, []);
    assert!(!report.failed());
    let ids: Vec<&str> = report.series.iter().map(|series| series.info.id.as_str()).collect();
    let right = [
        "upload.200000B.bin",
        "upload.200000B.txt",
        "upload.300000B.bin",
        "download.300000B.bin",
        "upload.300000B.txt",
        "download.300000B.txt",
        "first-byte.get",
        "first-byte.propfind",
        "range.middle",
        "range.random",
        "propfind.7.named",
        "propfind.7.all",
        "small.put",
        "small.get",
        "small.delete",
    ];
    assert_eq!(ids, right);
    for series in &report.series {
        for row in &series.rows {
            assert_eq!(row.values.len(), 2, "{} {}", series.info.id, row.target);
        }
        assert_eq!(series.rows[0].speed, Some(1.0));
    }
    let gets = &report.series.iter().find(|series| series.info.id == "small.get").expect("it was measured").rows[0];
    assert_eq!(gets.latency.map(|latency| latency.requests), Some(40));
    assert_eq!(report.baselines.len(), 4 * 4, "four commands, two sizes, two kinds");
    for server in [&one, &two] {
        assert_eq!(server.paths(), Vec::<String>::new());
        assert_eq!(server.wrong_credentials(), 0);
        assert_eq!(server.count("DELETE"), 2 * 4 + 40 + 1, "each file once, then the folder");
    }
    assert_eq!(report.targets[0].server.as_deref(), Some("memory/1"));
    assert!(!report.json().expect("it is JSON").contains("secret"));
}

#[test]
fn ranges_are_read_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(Fault::None);
    // Larger than the 1 MiB in its middle.
    let options = DavOptions {
        workloads: vec![Workload::Ranges],
        sizes: vec![3 << 20],
        ..options(&[("one", &server)], folder.path())
    };
    let report = run(&options).expect("it runs");
    assert_eq!(report.errors, []);
    assert_eq!(report.series.len(), 2);
    assert_eq!(report.series[1].rows[0].latency.map(|latency| latency.requests), Some(10));
}

#[test]
fn content_that_comes_back_changed_makes_the_run_fail() {
    for workload in [Workload::Upload, Workload::Small] {
        let (report, _) = measure(Fault::WrongByte, &[workload]);
        assert!(report.failed(), "{workload:?}");
        assert!(report.errors[0].message.contains("differs from what was sent"), "{:?}", report.errors);
    }
}

#[test]
fn a_full_server_is_reported_with_its_status_and_cleaned_up() {
    let (report, server) = measure(Fault::Full, &[Workload::Upload, Workload::Small, Workload::Propfind]);
    assert!(report.failed());
    assert!(report.errors.iter().all(|error| error.message.contains("status 507")), "{:?}", report.errors);
    assert_eq!(server.paths(), Vec::<String>::new());
    assert!(report.table().contains("status 507"));
}

#[test]
fn a_server_that_deletes_no_full_folder_is_cleaned_up_piece_by_piece() {
    let (report, server) = measure(Fault::KeepsFullFolders, &[Workload::Propfind, Workload::Upload]);
    assert_eq!(report.errors, []);
    assert_eq!(server.paths(), Vec::<String>::new());
}

#[test]
fn a_listing_that_leaves_an_entry_out_is_a_failure() {
    let (report, _) = measure(Fault::MissingEntry, &[Workload::Propfind]);
    assert!(report.errors[0].message.contains("7 responses for a folder of 7 entries"), "{:?}", report.errors);
}

#[test]
fn a_target_that_refuses_the_bench_folder_is_left_out_and_the_others_are_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let (good, bad) = (Server::start(Fault::None), Server::start(Fault::ReadOnly));
    let options =
        DavOptions { workloads: vec![Workload::Small], ..options(&[("bad", &bad), ("good", &good)], folder.path()) };
    let report = run(&options).expect("it runs");
    assert!(report.failed());
    assert_eq!(report.errors.len(), 1);
    assert!(report.errors[0].message.contains("status 403"));
    assert_eq!((report.series[0].rows[0].values.len(), report.series[0].rows[1].values.len()), (0, 2));
    assert_eq!(bad.count("PUT"), 0);
}

#[test]
fn two_targets_with_one_label_and_no_target_at_all_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(Fault::None);
    let twice = options(&[("same", &server), ("same", &server)], folder.path());
    assert!(run(&twice).expect_err("refused").to_string().contains("two targets are called"));
    assert!(run(&options(&[], folder.path())).is_err());
    assert_eq!(server.count("MKCOL"), 0);
}
