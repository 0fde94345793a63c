//! Ctrl-C in the middle of a run. Alone in its process, and one after the other, because a signal is for all of it.

#[path = "all/pages/mod.rs"]
#[allow(dead_code, reason = "the other test program uses the rest")]
mod pages;

use holdfast_bench::confined::{Confined, FileserverOptions, Model, Variant, run_fileserver, serve_worker};
use holdfast_bench::load::{LoadOptions, LoadTarget, Plan, Step, run};
use pages::Pages;
use rustix::process::{Signal, getpid, kill_process};
use std::sync::{Mutex, PoisonError};
use url::Url;

/// Held while signals are about.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn an_interrupted_load_reports_what_it_has_and_asks_no_further() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Pages::start();
    let url = Url::parse(&format!("{}/bytes/1", server.url)).expect("a URL");
    let plan = Plan { users: 2, loops: Some(1_000_000_000), ..Plan::once(vec![Step::get(url)]) };
    let target = LoadTarget { label: "it".to_owned(), pids: Vec::new(), plan };
    let options = LoadOptions { runs: 2, settle: false, warm: false, ..LoadOptions::new(vec![target]) };
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            // A billion loops do not end by themselves: the signal comes in the first run.
            while server.count("GET /bytes/1") < 50 {
                std::thread::yield_now();
            }
            kill_process(getpid(), Signal::INT).expect("a signal to ourselves");
        });
        run(&options).expect("it runs")
    });
    assert!(report.interrupted && report.failed());
    let runs = &report.load.as_ref().expect("a load").runs;
    assert_eq!(runs.len(), 1, "the second run does not begin");
    assert!(runs[0].interrupted && runs[0].failed == 0);
    let asked = server.count("GET /bytes/1");
    assert!(runs[0].requests >= 40 && asked - runs[0].requests <= 2, "{} of {asked}", runs[0].requests);
    for text in [report.table(), report.html()] {
        assert!(text.contains("first run (stopped)") && text.contains("Interrupted"));
    }
}

/// Tells this program that it is a worker.
const AS_WORKER: &str = "HOLDFAST_BENCH_AS_WORKER";

#[test]
fn a_worker_is_this_program_when_it_is_told_so() {
    if std::env::var_os(AS_WORKER).is_some() {
        serve_worker().expect("it works");
        std::process::exit(0);
    }
}

#[test]
fn an_interrupted_worker_ends_and_its_files_are_removed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let own = std::env::current_exe().expect("a path").display().to_string();
    let test = "a_worker_is_this_program_when_it_is_told_so";
    let command = ["env", &format!("{AS_WORKER}=1"), &own, "--exact", test, "--nocapture"].map(ToOwned::to_owned);
    let folder = tempfile::tempdir().expect("a folder");
    let options = FileserverOptions {
        folder: folder.path().to_owned(),
        model: Model { files: 20, width: 4, mean: 4_000, threads: 2, ..Model::REPORT },
        time: std::time::Duration::from_hours(1),
        worker_command: command.to_vec(),
        confined: Confined::quiet(vec![Variant::parse("env=env").expect("good")], 3),
    };
    let seen = || {
        let beds = std::fs::read_dir(folder.path()).expect("is there").flatten();
        beds.map(|bed| bed.path().join("0-0/files")).any(|files| files.exists())
    };
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            // An hour does not end by itself: the signal comes in the first run.
            while !seen() {
                std::thread::yield_now();
            }
            kill_process(getpid(), Signal::INT).expect("a signal to ourselves");
        });
        run_fileserver(&options).expect("it runs")
    });
    assert!(report.interrupted && report.failed() && report.error_count == 0, "{:?}", report.errors);
    assert!(report.series.is_empty() && report.table().contains("Interrupted"));
    assert!(std::fs::read_dir(folder.path()).expect("is there").next().is_none());
}
