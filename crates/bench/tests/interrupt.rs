//! Ctrl-C in the middle of a run. Alone in its process, because a signal is for all of it.

#[path = "all/pages/mod.rs"]
#[allow(dead_code, reason = "the other test program uses the rest")]
mod pages;

use holdfast_bench::load::{LoadOptions, LoadTarget, Plan, Step, run};
use pages::Pages;
use rustix::process::{Signal, getpid, kill_process};
use url::Url;

#[test]
fn an_interrupted_load_reports_what_it_has_and_asks_no_further() {
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
