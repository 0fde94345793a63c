//! `holdfast bench`: what it measures here is not judged, but that it is measured, and that what goes wrong is told.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

#[test]
fn the_catalogue_is_measured_at_each_size_and_one_in_use_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = |on: &str, sizes: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(["bench", "catalogue", on, "--nodes", sizes, "--operations", "20", "--json"]);
        command.output().expect("runs")
    };
    let on = folder.path().join("new").display().to_string();
    let output = bench(&on, "10000,12000");
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let nodes: Vec<_> = found["sizes"].as_array().expect("sizes").iter().map(|size| &size["nodes"]).collect();
    assert_eq!(nodes, [&Value::from(9_010), &Value::from(11_012)]);
    for size in found["sizes"].as_array().expect("sizes") {
        let operations = size["operations"].as_array().expect("operations");
        assert_eq!(operations.len(), 13);
        assert!(
            operations.iter().all(|cost| cost["samples"] == 20 && cost["median_us"].as_f64() > Some(0.0)),
            "{size}"
        );
    }
    for (on, sizes, code, why) in [
        (on.as_str(), "10000", 75, "in use"),
        ("elsewhere", "20000,10000", 64, "sizes that rise"),
        ("elsewhere", "5", 64, "sizes that rise"),
        ("postgres://u:secret@127.0.0.1/d", "10000", 64, "password"),
    ] {
        let output = bench(on, sizes);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(why), "{on} {sizes}: {:?} {said}", output.status);
        assert!(!std::path::Path::new("elsewhere").exists());
    }
}

fn create(folders: &[&str], options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(["bench", "create"]).args(folders);
    command.args(["--no-settle", "--no-warm", "--no-progress", "--json"]).args(options);
    command.output().expect("runs")
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("is there").next().is_none()
}

#[test]
fn files_are_made_in_folders_side_by_side_and_nothing_is_left() {
    let (one, two) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folders = [format!("one={}", one.path().display()), format!("two={}", two.path().display())];
    let shape = ["--clients", "2", "--streams", "2", "--depth", "1", "--width", "2", "--files", "5", "--file-size"];
    let more = ["1KiB..3KiB", "--runs", "2", "--stat", "--unpack"];
    let output = create(&folders.each_ref().map(String::as_str), &[&shape[..], &more].concat());
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let runs = found["create"]["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4);
    for run in runs {
        // Two trees of three folders with five files each.
        assert_eq!((&run["files"], &run["verified"], &run["failed"]), (&30.into(), &30.into(), &0.into()), "{run}");
        assert!((30 << 10..=90 << 10).contains(&run["bytes"].as_u64().expect("bytes")), "{run}");
        assert_eq!(run["clients"].as_array().map(Vec::len), Some(2));
    }
    let series: Vec<_> = found["series"].as_array().expect("series").iter().map(|series| &series["id"]).collect();
    let left_out = found["warnings"].to_string().contains("stat.cold is left out: /proc/sys/vm/drop_caches");
    let cold = if left_out { &[][..] } else { &["stat.cold"] };
    let usual = ["create", "create.bytes", "read", "read.bytes", "list"];
    assert_eq!(series, [&usual[..], cold, &["stat.warm", "unpack", "remove"]].concat());
    assert!(is_empty(one.path()) && is_empty(two.path()));
}

#[test]
fn a_file_that_changes_after_it_was_made_fails_the_measurement() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().to_str().expect("UTF-8");
    let fault = format!("10ms=find {target} -name f0 | head -1 | while read -r file; do echo other >\"$file\"; done");
    let shape = ["--clients", "1", "--depth", "0", "--files", "3000", "--runs", "1", "--fault", &fault];
    let output = create(&[target], &shape);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let said = found["errors"].to_string();
    assert!(said.contains("1 files differ, such as") && said.contains("f0: 6 bytes instead of 4096"), "{said}");
    assert_eq!(found["create"]["runs"][0]["verified"], 2_999);
    assert!(is_empty(folder.path()));
}

#[test]
fn a_folder_that_takes_nothing_is_told_and_one_that_recovers_is_waited_for() {
    let (folder, elsewhere) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (target, once) = (folder.path().to_str().expect("UTF-8"), elsewhere.path().join("once"));
    // As when a server is away for a moment, and comes back.
    let away = "for it in bench-*; do mv $it away; sleep 0.2; mv away $it; done";
    let fault = format!("10ms=cd {target} && [ ! -e {0} ] && touch {0} && {away}", once.display());
    let load = ["--clients", "1", "--depth", "0", "--files", "3000", "--runs", "1", "--fault", &fault, "--retry"];
    let output = create(&[target], &[&load[..], &["10s"]].concat());
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let run = &found["create"]["runs"][0];
    assert!(run["verified"] == 3_000 && run["retried"].as_u64() > Some(0), "{run}");
    std::fs::remove_file(&once).expect("the fault was");
    let output = create(&[target], &[&load[..], &["0s"]].concat());
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("files could not be made"), "{output:?}");
    for (arguments, code, why) in [
        (vec!["/nowhere/at/all"], 70, "is no folder"),
        (vec![target, "--file-size", "2KiB..1KiB"], 64, "begins above its end"),
        (vec![target, "--files", "0"], 70, "at least 1"),
        (vec![target, "--requests", "x=http://127.0.0.1:1/"], 70, "nothing is labelled"),
        (vec![], 64, "DIR"),
    ] {
        let output = create(&arguments, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(why), "{arguments:?} {:?} {said}", output.status);
    }
    assert!(is_empty(folder.path()));
}
