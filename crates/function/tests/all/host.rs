//! Functions in a process that stays: warm instances, turns, new versions, stopping.

use crate::support::{Ground, block_on, invoke, named, text, until};
use holdfast_base::ErrorKind;
use holdfast_function::{End, Host};
use std::fs;
use std::time::Duration;

fn ready(host: &Host, name: &str) -> usize {
    host.state(&named(name)).ready
}

#[test]
fn a_warm_instance_is_used_once_and_another_takes_its_place() {
    let ground = Ground::new();
    // What is before the first read happens ahead of the call.
    ground.deploy("f", "set -- $(cat /proc/uptime); read -r line; echo $line", "[limits]\nwarm = 2\n", "");
    block_on(async {
        let host = ground.host();
        let first = invoke(&host, "f", b"one\n").await.expect("a call");
        assert_eq!(
            (first.end, first.cold, text(&first.output).as_str()),
            (End::Done, true, "one\n"),
            "{}",
            text(&first.log)
        );
        for _ in 0..5 {
            until("two that are ready", || ready(&host, "f") == 2).await;
            let call = invoke(&host, "f", b"again\n").await.expect("a call");
            assert_eq!((call.end, call.cold, text(&call.output).as_str()), (End::Done, false, "again\n"));
        }
        let records = host.store().records(&named("f")).last(100, |_| true).expect("read");
        assert_eq!(records.iter().filter(|record| !record.cold && record.by == "ann").count(), 5);
        host.stop(Duration::from_secs(5)).await;
        assert_eq!(ready(&host, "f"), 0);
    });
}

#[test]
fn calls_share_nothing() {
    let ground = Ground::new();
    let script = "read -r line; cat /tmp/left 2>/dev/null; echo $line | tee /tmp/left; (sleep 1000 &) ; ls /proc | grep -c '^[0-9]'";
    ground.deploy("f", script, "[limits]\nwarm = 1\n", "");
    block_on(async {
        let host = ground.host();
        for _ in 0..4 {
            let call = invoke(&host, "f", b"x\n").await.expect("a call");
            assert!(text(&call.output).starts_with("x\n"), "{}", text(&call.output));
            until("one that is ready", || ready(&host, "f") == 1).await;
        }
        host.stop(Duration::from_secs(5)).await;
    });
}

#[test]
fn one_that_does_not_wait_for_its_input_is_given_up_and_still_runs_cold() {
    let ground = Ground::new();
    ground.deploy("hasty", "echo hello; echo too early >&2", "[limits]\nwarm = 1\n", "");
    block_on(async {
        let host = ground.host();
        let call = invoke(&host, "hasty", b"").await.expect("a call");
        assert_eq!((call.end, call.cold, text(&call.output).as_str()), (End::Done, true, "hello\n"));
        until("the trouble", || host.state(&named("hasty")).trouble.is_some()).await;
        let trouble = host.state(&named("hasty")).trouble.expect("said");
        assert!(trouble.contains("exit code 0 too early"), "{trouble}");
        let call = invoke(&host, "hasty", b"").await.expect("a call");
        assert_eq!((call.end, call.cold), (End::Done, true));
        host.stop(Duration::from_secs(5)).await;
    });
}

#[test]
fn one_that_is_killed_while_it_waits_is_replaced() {
    let ground = Ground::new();
    ground.deploy("f", "exec cat", "[limits]\nwarm = 1\n", "");
    block_on(async {
        let host = ground.host();
        invoke(&host, "f", b"").await.expect("a call");
        until("one that is ready", || ready(&host, "f") == 1).await;
        let victim = host.pids(&named("f"))[0];
        let victim = rustix::process::Pid::from_raw(victim).expect("a process");
        rustix::process::kill_process(victim, rustix::process::Signal::KILL).expect("killed");
        until("another", || host.pids(&named("f")).first().is_some_and(|pid| *pid != victim.as_raw_nonzero().get()))
            .await;
        let call = invoke(&host, "f", b"x").await.expect("a call");
        assert_eq!((call.end, call.cold, text(&call.output).as_str()), (End::Done, false, "x"));
        host.stop(Duration::from_secs(5)).await;
    });
}

#[test]
fn over_its_turns_calls_wait_and_over_those_that_wait_they_are_refused() {
    let ground = Ground::new();
    fs::create_dir(ground.path("gate")).expect("a folder");
    let gate = ground.path("gate").display().to_string();
    let script = format!("while [ ! -e {gate}/open ]; do sleep 0.01; done");
    ground.deploy("f", &script, "[limits]\nconcurrency = 1\nwaiting = 1\n", &format!("\"{gate}\" = \"read\"\n"));
    block_on(async {
        let host = ground.host();
        let call = || {
            let host = host.clone();
            tokio::spawn(async move { invoke(&host, "f", b"").await })
        };
        let running = call();
        until("one under way", || host.state(&named("f")).running == 1).await;
        let waiting = call();
        until("one that waits", || host.state(&named("f")).waiting == 1).await;
        let refused = invoke(&host, "f", b"").await.expect_err("full");
        assert!(matches!(refused.kind(), ErrorKind::TooManyRequests { retry_after_s: 1 }), "{refused}");
        fs::write(ground.path("gate/open"), "").expect("opens");
        for call in [running, waiting] {
            assert_eq!(call.await.expect("no panic").expect("a call").end, End::Done);
        }
        let state = host.state(&named("f"));
        assert_eq!((state.running, state.waiting), (0, 0));
        assert_eq!(invoke(&host, "f", b"").await.expect("a turn again").end, End::Done);
        host.stop(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_new_version_is_called_from_then_on_and_a_removed_function_is_gone() {
    let ground = Ground::new();
    ground.deploy("f", "cat; echo first", "[limits]\nwarm = 1\n", "");
    block_on(async {
        let host = ground.host();
        let looking = tokio::spawn({
            let host = host.clone();
            async move { host.run().await }
        });
        // Without a call.
        until("one that is ready", || ready(&host, "f") == 1).await;
        assert_eq!(text(&invoke(&host, "f", b"").await.expect("a call").output), "first\n");
        ground.deploy("f", "cat; echo second", "[limits]\nwarm = 1\n", "");
        assert_eq!(text(&invoke(&host, "f", b"").await.expect("a call").output), "second\n");
        let versions = ground.store.folder().join("f/versions");
        until("the old version goes", || fs::read_dir(&versions).expect("there").count() == 1).await;
        ground.store.remove(&named("f")).expect("removed");
        assert_eq!(invoke(&host, "f", b"").await.expect_err("gone").kind(), ErrorKind::NotFound);
        let aside = ground.store.folder().join(".aside");
        until("all of it goes", || fs::read_dir(&aside).expect("there").count() == 0).await;
        host.stop(Duration::from_secs(5)).await;
        looking.await.expect("no panic");
    });
}

#[test]
fn who_may_not_call_starts_nothing() {
    let ground = Ground::new();
    ground.deploy("f", "true", "invoke = [\"ann\"]\n", "");
    block_on(async {
        let host = ground.host();
        let may = |manifest: &holdfast_function::Manifest| {
            if manifest.invoke.contains("ben") { Ok(()) } else { Err(holdfast_base::Error::forbidden("not ben")) }
        };
        let refused = host.invoke(&named("f"), "ben", may, &b""[..]).await.expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::Forbidden);
        assert!(host.store().records(&named("f")).last(10, |_| true).expect("read").is_empty());
    });
}

#[test]
fn stopping_ends_what_does_not_end_and_records_it() {
    let ground = Ground::new();
    ground.deploy("f", "exec sleep 1000", "[limits]\nwarm = 1\n", "");
    block_on(async {
        let host = ground.host();
        let call = tokio::spawn({
            let host = host.clone();
            async move { invoke(&host, "f", b"").await }
        });
        until("one under way", || host.state(&named("f")).running == 1).await;
        host.stop(Duration::ZERO).await;
        assert_eq!(call.await.expect("no panic").expect("a call").end, End::Stopped);
        let records = ground.store.records(&named("f")).last(10, |_| true).expect("read");
        assert_eq!(records[0].end, End::Stopped.to_string());
        assert_eq!(invoke(&host, "f", b"").await.expect_err("stopped").kind(), ErrorKind::Unavailable);
    });
}
