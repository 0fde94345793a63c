//! Load on a real server that behaves and misbehaves: what is counted is what happened.

use std::sync::Arc;
use std::time::Duration;

use crate::pages::Pages;
use holdfast_bench::Report;
use holdfast_bench::load::{LoadOptions, LoadTarget, Method, Plan, Step, Think, run};
use holdfast_bench::report::LoadRun;
use url::Url;

fn step(url: &str) -> Step {
    Step::get(Url::parse(url).expect("a URL"))
}

/// Three users, seven loops each.
fn plan(url: &str) -> Plan {
    Plan { users: 3, loops: Some(7), ..Plan::once(vec![step(url)]) }
}

fn options(targets: Vec<(&str, Plan)>) -> LoadOptions {
    let targets = targets.into_iter().map(|(label, plan)| LoadTarget { label: label.into(), pids: Vec::new(), plan });
    LoadOptions { runs: 1, settle: false, warm: false, generators: 2, ..LoadOptions::new(targets.collect()) }
}

fn measure(plan: Plan) -> (Report, LoadRun) {
    measure_with(&options(vec![("it", plan)]))
}

fn measure_with(options: &LoadOptions) -> (Report, LoadRun) {
    let report = run(options).expect("it runs");
    let run = report.load.clone().expect("a load").runs.remove(0);
    (report, run)
}

/// The kinds of failure with their counts.
fn kinds(run: &LoadRun) -> Vec<(&str, u64)> {
    run.errors.iter().map(|kind| (kind.class.as_str(), kind.count)).collect()
}

#[test]
fn every_user_makes_its_loops_on_one_connection_and_nothing_else_is_asked_for() {
    let server = Pages::start();
    let (report, run) = measure(plan(&format!("{}/bytes/20480", server.url)));
    assert_eq!((run.requests, run.failed, run.connections, run.reopened), (21, 0, 3, 0), "{report:?}");
    assert_eq!((server.count("GET /bytes/20480"), server.connections()), (21, 3));
    assert!(!report.failed(), "{:?}", report.errors);
    let (spread, latency) = (run.spread.expect("21 answers"), run.latency.expect("21 answers"));
    assert_eq!(latency.requests, 21);
    assert!(spread.min_ms <= spread.avg_ms && spread.avg_ms <= spread.max_ms);
    assert!(run.rate > 0.0 && (run.rate * run.seconds - 21.0).abs() < 1e-6);
    assert!((run.content_mb_per_s * run.seconds * 1e6 - 21.0 * 20480.0).abs() < 1.0);
    let course: f64 = run.course.points.iter().map(|point| point.rate).sum();
    assert!(course > 0.0);
    assert_eq!(report.targets[0].server.as_deref(), Some("pages/1"));
}

#[test]
fn without_keeping_there_is_a_connection_for_each_request() {
    let server = Pages::start();
    let mut plan = plan(&format!("{}/bytes/10", server.url));
    plan.steps[0].keep_alive = false;
    let (_, run) = measure(plan);
    assert_eq!((run.requests, run.failed, run.connections, server.connections()), (21, 0, 21, 21));
    assert_eq!(run.connect.expect("21 connections").requests, 21);
    assert!(server.last_request().0.contains("Connection: close\r\n"));
}

#[test]
fn loops_that_begin_on_a_new_connection_keep_it_within() {
    let server = Pages::start();
    let steps = vec![step(&format!("{}/bytes/1", server.url)), step(&format!("{}/bytes/2", server.url))];
    let (_, run) = measure(Plan { users: 2, loops: Some(5), fresh_loops: true, ..Plan::once(steps) });
    assert_eq!((run.requests, run.failed, run.connections), (20, 0, 10));
    assert_eq!(run.steps.iter().map(|step| step.requests).collect::<Vec<_>>(), [10, 10]);
    assert_eq!((server.count("GET /bytes/1"), server.count("GET /bytes/2")), (10, 10));
}

#[test]
fn all_framings_of_an_answer_are_read() {
    let server = Pages::start();
    for (path, connections) in [("chunked", 3), ("until-close", 21), ("bytes/5000000", 3), ("bytes/0", 3)] {
        let (_, run) = measure(plan(&format!("{}/{path}", server.url)));
        assert_eq!((run.requests, run.failed, run.connections), (21, 0, connections), "{path}: {:?}", run.errors);
    }
}

#[test]
fn a_body_and_headers_go_out_as_given_and_head_brings_no_content() {
    let server = Pages::start();
    let mut post = plan(&format!("{}/bytes/3", server.url));
    post.steps[0].method = Method::Post;
    post.steps[0].body = Arc::from(vec![b'b'; 3 << 20]);
    post.steps[0].headers = [("X-Kind".to_owned(), "test".to_owned())].into();
    post.steps[0].credentials = Some(("me".to_owned(), "secret".to_owned()));
    let (report, run) = measure(post);
    assert_eq!((run.requests, run.failed), (21, 0), "{:?}", run.errors);
    let (head, body) = server.last_request();
    assert!(head.contains("X-Kind: test\r\n") && head.contains("Authorization: Basic bWU6c2VjcmV0\r\n"), "{head}");
    assert!(body.len() == 3 << 20 && body.iter().all(|&byte| byte == b'b'));
    assert!(!report.json().expect("it is JSON").contains("secret"));
    let mut head = plan(&format!("{}/bytes/77", server.url));
    head.steps[0].method = Method::Head;
    head.steps[0].expect.bytes = Some(77);
    let (_, run) = measure(head);
    assert_eq!((run.requests, run.failed, run.connections), (21, 0, 3), "{:?}", run.errors);
    assert!(run.content_mb_per_s.abs() < f64::EPSILON);
}

#[test]
fn each_kind_of_failure_is_counted_as_what_it_is_and_sampled() {
    let server = Pages::start();
    let url = |path: &str| format!("{}/{path}", server.url);
    let expecting = |path: &str, spoil: fn(&mut Step)| {
        let mut plan = plan(&url(path));
        spoil(&mut plan.steps[0]);
        plan
    };
    for (plan, kind, sample) in [
        (plan(&url("status/503")), "status", "status 503"),
        (plan(&url("status/302")), "status", "status 302"),
        (plan(&url("short")), "length", "the answer ended after"),
        (plan(&url("closes")), "closed", "closed the connection before"),
        (plan(&url("nonsense")), "protocol", "malformed"),
        (expecting("bytes/10", |step| step.expect.bytes = Some(11)), "length", "10 bytes came, expected 11"),
        (expecting("bytes/10", |step| step.expect.bytes_max = 9), "length", "more than 9 bytes"),
        (expecting("bytes/3", |step| step.expect.content = Some(Arc::from(*b"xyx"))), "content", "differs at byte 1"),
        (
            expecting("bytes/3", |step| step.expect.content = Some(Arc::from(*b"xx"))),
            "length",
            "3 bytes came, expected 2",
        ),
    ] {
        let (report, run) = measure(plan);
        let sampled = run.errors.iter().flat_map(|kind| &kind.samples).any(|text| text.contains(sample));
        assert_eq!(kinds(&run), [(kind, 21)], "{:?}", run.errors);
        assert!(sampled, "{:?} should tell {sample:?}", run.errors);
        assert!(report.failed() && run.latency.is_none() && run.rate.abs() < f64::EPSILON);
        assert!(report.table().contains(kind) && report.html().contains(kind));
    }
}

#[test]
fn some_failures_are_a_share_and_may_be_allowed() {
    let server = Pages::start();
    let mut changing = plan(&format!("{}/changing", server.url));
    changing.users = 1;
    changing.loops = Some(10);
    changing.steps[0].expect.content = Some(Arc::from(*b"xxxx"));
    let strict = options(vec![("it", changing)]);
    let (report, run) = measure_with(&strict);
    assert_eq!((run.requests, run.failed, kinds(&run)), (10, 5, vec![("content", 5)]));
    assert!((run.error_percent() - 50.0).abs() < 1e-9 && report.failed());
    assert!(report.errors[0].message.contains("5 of 10 requests failed (5 content)"), "{:?}", report.errors);
    let (report, _) = measure_with(&LoadOptions { max_error_percent: 50.0, ..strict });
    assert!(!report.failed());
}

#[test]
fn nobody_listening_and_no_tls_are_failures_of_their_own_kind() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = nobody.local_addr().expect("it is bound");
    drop(nobody);
    let (_, run) = measure(plan(&format!("http://{address}/")));
    assert_eq!(kinds(&run), [("connect", 21)]);
    assert!(run.errors[0].samples[0].contains(&address.to_string()));
    let server = Pages::start();
    let secure = server.url.replace("http://", "https://");
    let (_, run) = measure_with(&LoadOptions { insecure: true, ..options(vec![("it", plan(&secure))]) });
    assert_eq!(kinds(&run), [("tls", 21)], "{:?}", run.errors);
}

#[test]
fn a_server_that_never_answers_is_a_time_out() {
    let server = Pages::start();
    let mut plan = plan(&format!("{}/stalls", server.url));
    plan.loops = Some(1);
    let impatient = options(vec![("it", plan)]);
    for (stall, total, text) in [(50, 60_000, "no byte moved for 50 ms"), (60_000, 50, "not finished after 50 ms")] {
        let (_, run) = measure_with(&LoadOptions {
            stall_timeout: Duration::from_millis(stall),
            request_timeout: Duration::from_millis(total),
            ..impatient.clone()
        });
        assert_eq!(kinds(&run), [("timeout", 3)]);
        assert!(run.errors[0].samples[0].contains(text), "{:?}", run.errors);
    }
}

#[test]
fn a_kept_connection_that_the_server_closed_is_opened_anew_and_counted() {
    let server = Pages::start();
    let mut stale = plan(&format!("{}/stale", server.url));
    stale.users = 1;
    stale.loops = Some(9);
    let (_, run) = measure(stale);
    assert_eq!((run.requests, run.failed), (9, 0), "{:?}", run.errors);
    assert_eq!((run.connections, server.connections()), (5, 5), "two requests on each");
    assert_eq!(run.reopened, 4);
}

#[test]
fn a_hopeless_run_is_given_up() {
    let server = Pages::start();
    let mut plan = plan(&format!("{}/status/500", server.url));
    plan.loops = Some(1_000_000);
    let (report, run) = measure(plan);
    assert!((2_000..4_000).contains(&run.requests), "two threads, about 1000 each: {}", run.requests);
    assert!(report.warnings.iter().any(|warning| warning.contains("given up")), "{:?}", report.warnings);
}

#[test]
fn a_duration_ends_a_run_without_loops_and_users_begin_over_the_ramp_up() {
    let server = Pages::start();
    let mut timed = plan(&format!("{}/bytes/1", server.url));
    (timed.loops, timed.duration) = (None, Some(Duration::from_millis(300)));
    timed.steps[0].think = vec![Think::Constant(Duration::from_millis(1))];
    let (report, run) = measure(timed.clone());
    assert!(run.requests > 3 && run.failed == 0 && !report.failed());
    // Users two and three would begin after the end: only the first one's connection is ever opened.
    timed.ramp_up = Duration::from_secs(3);
    let (_, run) = measure(timed);
    assert_eq!(run.connections, 1);
}

#[test]
fn a_rate_makes_all_its_requests_and_counts_latency_from_when_they_were_due() {
    let server = Pages::start();
    let mut open = plan(&format!("{}/bytes/1", server.url));
    (open.rate, open.loops) = (Some(2_000.0), Some(100));
    let (report, run) = measure(open.clone());
    assert_eq!((run.requests, run.failed, run.unsent), (300, 0, 0));
    let (latency, service) = (run.latency.expect("answers"), run.service.expect("a rate was asked for"));
    assert!(latency.max_ms >= service.max_ms, "nothing is answered sooner after it was due than after it was sent");
    assert!(report.load.expect("a load").latency_from.contains("corrected for coordinated omission"));
    // One connection and a server that never answers: everything due after the first request is never sent.
    let mut stalled = open;
    stalled.steps = vec![step(&format!("{}/stalls", server.url))];
    (stalled.users, stalled.loops, stalled.rate) = (1, Some(50), Some(50.0));
    stalled.duration = Some(Duration::from_millis(400));
    let (report, run) =
        measure_with(&LoadOptions { stall_timeout: Duration::from_millis(600), ..options(vec![("it", stalled)]) });
    assert_eq!((run.requests, run.unsent), (1, 19), "20 were due in 400 ms");
    assert!(report.warnings.iter().any(|warning| warning.contains("the rate was not reached")));
}

#[test]
fn targets_are_measured_in_turns_and_compared_with_the_first() {
    let (one, two) = (Pages::start(), Pages::start());
    let targets = vec![("one", plan(&format!("{}/bytes/1", one.url))), ("two", plan(&format!("{}/bytes/1", two.url)))];
    let report = run(&LoadOptions { runs: 2, compare_004: true, ..options(targets) }).expect("it runs");
    let load = report.load.as_ref().expect("a load");
    let runs: Vec<(&str, u32)> = load.runs.iter().map(|run| (run.target.as_str(), run.run)).collect();
    assert_eq!(runs, [("one", 1), ("one", 2), ("two", 1), ("two", 2)]);
    assert_eq!(load.seed004.len(), 2 * 7);
    let rates = &report.series[0];
    assert_eq!((rates.info.id.as_str(), rates.rows[0].speed), ("http.rate", Some(1.0)));
    assert!(rates.rows.iter().all(|row| row.values.len() == 2));
    assert_eq!((one.count("GET /bytes/1"), two.count("GET /bytes/1")), (42, 42));
    let table = report.table();
    for part in
        ["one, first run", "one, second run", "one, difference", "Beside the Yanel cluster test", "home A, first run"]
    {
        assert!(table.contains(part), "{part:?} is missing in {table}");
    }
    assert!(report.html().contains("Run 2: latency"));
}

#[test]
fn a_warm_up_is_not_counted() {
    let server = Pages::start();
    let warm = options(vec![("it", plan(&format!("{}/bytes/1", server.url)))]);
    let (_, run) = measure_with(&LoadOptions { warm_up: Duration::from_millis(50), ..warm });
    assert_eq!(run.requests, 21);
    assert!(server.count("GET /bytes/1") > 21);
}
