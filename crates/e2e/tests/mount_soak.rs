//! A mount that is written to for long while its server dies and freezes: report 003's "soak" with a fault plan.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::knob::knob;
use holdfast_e2e::networked::Net;
use rustix::process::Signal;
use serde_json::Value;

/// From the end of one fault to the next.
const HEALTHY: Duration = Duration::from_secs(6);
/// For how long a server is frozen or not there; an operation of a mount waits for longer than that.
const AWAY: Duration = Duration::from_secs(9);
/// Memory that may come and go with what is written at the time.
const SWAY: u64 = 128 << 20;

/// What was seen of memory: when, and how many bytes the mount and the server had.
type Seen = Vec<(Duration, [u64; 2])>;

/// The most that one of them had in a part of the time, in thirds.
fn most(seen: &Seen, whose: usize, third: u32) -> u64 {
    let all = seen.last().map_or(Duration::ZERO, |(at, _)| *at);
    let within = |at: Duration| at >= all * third / 3 && at <= all * (third + 1) / 3;
    seen.iter().filter(|(at, _)| within(*at)).map(|(_, bytes)| bytes[whose]).max().unwrap_or(0)
}

/// `HOLDFAST_SOAK_SECONDS` of writing. Every file is written by a program that tells of any error, read back and compared; then all is removed and it
/// begins anew.
#[test]
fn hours_of_writing_while_the_server_dies_and_freezes_lose_nothing_and_take_no_more_memory() -> Outcome {
    let mut net = Net::new()?;
    let mount = net.mount_first("mnt", &["--cache-size", "1G"])?;
    let seconds = knob("HOLDFAST_SOAK_SECONDS", 60);
    let mut command: Command = net.rig.server.options().command()?;
    command.args(["bench", "create"]).arg(format!("soak={}", mount.at().display()));
    command.args([
        "--clients",
        "2",
        "--streams",
        "2",
        "--depth",
        "1",
        "--width",
        "4",
        "--files",
        "20",
        "--checksum",
        "true",
    ]);
    command.args(["--file-size", "1KiB..1500KiB", "--fsync", "--no-settle", "--no-warm", "--no-progress", "--json"]);
    command.arg("--duration").arg(format!("{seconds}s"));
    let bench = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let began = Instant::now();
    let (mut seen, mut faults) = (Seen::new(), 0_u32);
    // Whoever measures ends by itself; faults stop before that, so that what was written can be read back in any case.
    while began.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..6 {
            std::thread::sleep(HEALTHY / 6);
            seen.push((began.elapsed(), [mount.rss()?, net.rig.server.rss()?]));
        }
        // Seldom enough that the server gives the space of what was removed back in between, which it does each minute.
        if faults % 6 == 5 {
            net.rig.server.kill_9()?;
            std::thread::sleep(AWAY);
            net.rig.start_again()?;
        } else {
            net.rig.server.signal(Signal::STOP)?;
            std::thread::sleep(AWAY);
            net.rig.server.signal(Signal::CONT)?;
        }
        faults += 1;
    }
    let output = bench.wait_with_output()?;
    let said = || format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {}", said()))?;
    assert!(output.status.success(), "{}: {}", said(), report["errors"]);
    let runs = report["create"]["runs"].as_array().ok_or("no runs")?;
    let sum = |key: &str| runs.iter().filter_map(|run| run[key].as_u64()).sum::<u64>();
    let (files, verified) = (sum("files"), sum("verified"));
    println!(
        "{} runs, {files} files, {} MB, {faults} faults; MiB of mount and server at most in each third: {:?} {:?}",
        runs.len(),
        sum("bytes") / 1_000_000,
        [0, 1, 2].map(|third| most(&seen, 0, third) >> 20),
        [0, 1, 2].map(|third| most(&seen, 1, third) >> 20),
    );
    assert!(files > 0 && verified == files && sum("failed") == 0, "{verified} of {files}: {report}");
    for whose in [0, 1] {
        let (first, last) = (most(&seen, whose, 0), most(&seen, whose, 2));
        assert!(last <= first + SWAY, "memory grows: {seen:?}");
    }
    assert_eq!(fs::read_dir(mount.at())?.count(), 0, "something is left");
    mount.stop()?;
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}
