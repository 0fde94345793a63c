//! `holdfast bench wan`: what tools manage is not judged, but that the link is as asked, and that what arrives is compared.

use serde_json::Value;
use std::io::Read;
use std::process::{Command, Output, Stdio};

fn wan(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(["bench", "wan", "--no-settle", "--no-warm", "--no-progress", "--json"]).args(options);
    command.output().expect("runs")
}

fn found(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn curl_fetches_over_a_clean_link_and_over_one_that_loses_packets() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().to_str().expect("UTF-8");
    let output = wan(&["--short", "--rows", "clean,loss-8", "--size", "1MiB", "--limit", "5m", "--folder", at]);
    assert!(output.status.success(), "{output:?}");
    let found = found(&output);
    let runs = found["wan"]["runs"].as_array().expect("runs");
    let cells: Vec<_> = runs.iter().map(|run| run["cell"].as_str().expect("a name")).collect();
    assert_eq!(cells, ["clean.data", "loss-8.data"]);
    for run in runs {
        assert_eq!((&run["outcome"], &run["verified_bytes"]), (&"done".into(), &(1 << 20).into()), "{run}");
        // Never more than the link can carry; what it carries besides is counted.
        assert!((0.0..=1.001).contains(&number(&run["share"])), "{run}");
        let delivered = number(&run["to_near"]["link"]["delivered"]["bytes"]);
        assert!(delivered > 1.04 * f64::from(1 << 20) && number(&run["sent_per_byte"]) > 1.04, "{run}");
        assert!(number(&run["server_peak_bytes"]) > 1e6, "{run}");
    }
    let lost = |run: &Value, way: &str| number(&run[way]["link"]["loss"]["hits"]);
    assert!(lost(&runs[0], "to_near") == 0.0 && lost(&runs[1], "to_near") > 10.0 && lost(&runs[1], "to_far") == 0.0);
    assert!(number(&runs[1]["sent_per_byte"]) > number(&runs[0]["sent_per_byte"]), "what was lost was sent again");
    let beside = found["wan"]["seed001"].as_array().expect("rows");
    assert!(beside[0]["theirs"] == "the reference" && beside[1]["theirs"] == "significantly longer", "{beside:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("is there").count(), 0, "nothing is left");
}

#[test]
fn an_outage_is_as_long_as_its_row_says() {
    // 8 MiB take 0.7 s.
    let output = wan(&["--rows", "outage-20", "--size", "8MiB", "--limit", "2m"]);
    assert!(output.status.success(), "{output:?}");
    let run = &found(&output)["wan"]["runs"][0];
    assert_eq!((&run["outcome"], &run["verified_bytes"]), (&"done".into(), &(8 << 20).into()), "{run}");
    assert!(number(&run["seconds"]) > 20.0 && number(&run["to_near"]["blocked"]["packets"]) > 0.0, "{run}");
    let share = f64::from(8 << 20) / (number(&run["seconds"]) - 20.0) / (12.5e6 * 1448.0 / 1514.0);
    assert!((number(&run["share"]) - share).abs() < 1e-6, "the outage is no part of it: {run}");
}

#[test]
fn many_files_are_fetched_by_several_at_a_time_and_tools_take_turns() {
    let tools = [
        "--tool",
        "curl",
        "--tool",
        "all=for name in $(seq -f 'file%02g.bin' 0 2); do curl -sSf -o {dir}/$name http://{host}:{port}/$name; done",
    ];
    let options =
        ["--rows", "files-threads-2", "--size", "100KiB", "--files", "3", "--repeat", "2", "--direction", "both"];
    let output = wan(&[&tools[..], &options].concat());
    assert!(output.status.success(), "{output:?}");
    let found = found(&output);
    let runs = found["wan"]["runs"].as_array().expect("runs");
    let order: Vec<_> = runs.iter().map(|run| run["tool"].as_str().expect("a label")).collect();
    assert_eq!(order, ["curl", "all", "all", "curl"]);
    assert!(runs.iter().all(|run| run["outcome"] == "done" && run["verified_bytes"] == 307_200), "{runs:?}");
}

#[test]
fn two_of_our_own_share_a_link_and_each_has_its_drive() {
    let output =
        wan(&["--rows", "clean", "--size", "2MiB", "--limit", "1m", "--tool", "holdfast", "--beside", "holdfast"]);
    assert!(output.status.success(), "{output:?}");
    let found = found(&output);
    let runs = found["wan"]["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2, "{runs:?}");
    // The slower is stopped when the other has ended.
    assert!(runs.iter().any(|run| run["outcome"] == "done" && run["verified_bytes"] == 2 << 20), "{runs:?}");
    assert!(runs.iter().all(|run| run["beside"] == "holdfast" && number(&run["arrived_bytes"]) > 0.0), "{runs:?}");
}

#[test]
fn what_a_tool_does_not_manage_is_a_result_and_wrong_content_a_failure() {
    let outcome = |tool: &str, options: &[&str]| {
        let output =
            wan(&[&["--tool", tool, "--rows", "clean", "--size", "100KiB", "--limit", "1s"], options].concat());
        let found = found(&output);
        let run = &found["wan"]["runs"][0];
        let word = |field: &str| run[field].as_str().unwrap_or_default().to_owned();
        (output.status.code(), word("outcome"), word("message"), number(&run["arrived_bytes"]))
    };
    let fails = outcome("it=echo no such luck >&2; exit 7 {file}", &[]);
    assert!(
        fails.0 == Some(0) && fails.1 == "failed" && fails.2.contains("exit status: 7; it said: no such luck"),
        "{fails:?}"
    );
    let strictly = outcome("it=exit 7 {file}", &["--strict"]);
    assert_eq!((strictly.0, strictly.1.as_str()), (Some(69), "failed"));
    let slow = outcome("it=head -c 5000 /dev/zero >{dest}; sleep 100", &[]);
    assert!(slow.0 == Some(0) && slow.1 == "unfinished" && slow.3 > 4_000.0, "{slow:?}");
    let wrong = outcome("it=head -c 102400 /dev/zero >{dest}", &[]);
    assert!(wrong.0 == Some(69) && wrong.1 == "wrong" && wrong.2.contains("file00.bin"), "{wrong:?}");
    let short = outcome("it=true {dest}", &[]);
    assert!(short.0 == Some(0) && short.1 == "failed" && short.2.contains("0 of 102400 bytes"), "{short:?}");
}

#[test]
fn nothing_outlives_a_measurement_that_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("alive");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    // What the tool starts hides in a session of its own, without its parent, and holds the pipe open.
    let tool = format!("it=setsid sh -c 'exec sleep 1000 >{}' & sleep 1000; true {{dest}}", pipe.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(["bench", "wan", "--no-settle", "--no-warm", "--no-progress", "--rows", "clean", "--size", "1KiB"]);
    command.args(["--tool", &tool, "--folder"]).arg(folder.path()).stdout(Stdio::null());
    let mut measurement = command.spawn().expect("runs");
    let mut reader = std::fs::File::open(&pipe).expect("somebody writes");
    measurement.kill().expect("killed");
    measurement.wait().expect("ended");
    // The end of the file comes when nobody holds it any more, and then only.
    assert_eq!(reader.read_to_end(&mut Vec::new()).expect("read"), 0);
}

#[test]
fn what_cannot_be_measured_is_said() {
    for (options, code, why) in [
        (&["--rows", "nothing-like-it"][..], 70, "no row"),
        (&["--tool", "no-such-preset"], 70, "no preset"),
        (&["--tool", "x=no-such-program-here {file}"], 70, "not installed"),
        (&["--rate", "quick"], 64, "no rate"),
        (&["--size", "1GiB", "--scale", "1000"], 70, "--folder"),
    ] {
        let output = wan(options);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(why), "{options:?} {:?} {said}", output.status);
    }
    let server = wan(&["--rows", "clean", "--size", "1KiB", "--server", "curl=echo cannot >&2; exit 3"]);
    assert_eq!(server.status.code(), Some(69), "{server:?}");
    assert!(
        found(&server)["errors"][0]["message"].as_str().is_some_and(|why| why.contains("it said: cannot")),
        "{server:?}"
    );
    let listed = String::from_utf8(wan(&["--list"]).stdout).expect("text");
    assert!(
        ["files-loss-24", "iperf3-bbr", "reordering 16 % 50 %"].iter().all(|part| listed.contains(part)),
        "{listed}"
    );
}
