//! What confining costs, measured small: that figures are there and belong together, and that what goes wrong is told and leaves nothing.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use holdfast_bench::Report;
use holdfast_bench::confined::{
    Confined, FileserverOptions, LeakOptions, Model, SourceOptions, StartOptions, Variant, run_fileserver, run_leak,
    run_source, run_start, serve_worker,
};

/// Tells this program that it is a worker.
const AS_WORKER: &str = "HOLDFAST_BENCH_AS_WORKER";

#[test]
fn a_worker_is_this_program_when_it_is_told_so() {
    if std::env::var_os(AS_WORKER).is_some() {
        serve_worker().expect("it works");
        std::process::exit(0);
    }
}

fn worker() -> Vec<String> {
    let own = std::env::current_exe().expect("a path").display().to_string();
    let test = "confined::a_worker_is_this_program_when_it_is_told_so";
    ["env", &format!("{AS_WORKER}=1"), &own, "--exact", test, "--nocapture"].map(ToOwned::to_owned).to_vec()
}

fn under(variants: &[&str], rounds: u32) -> Confined {
    Confined::quiet(variants.iter().map(|text| Variant::parse(text).expect("good")).collect(), rounds)
}

fn model() -> Model {
    Model { files: 20, width: 4, mean: 4_000, threads: 2, ..Model::REPORT }
}

fn fileserver(folder: &Path, variants: &[&str], rounds: u32) -> FileserverOptions {
    FileserverOptions {
        folder: folder.to_owned(),
        model: model(),
        time: Duration::from_millis(50),
        worker_command: worker(),
        confined: under(variants, rounds),
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("is there").next().is_none()
}

fn comparisons(report: &Report) -> Vec<&str> {
    report.confined.iter().flat_map(|confined| &confined.comparisons).map(|one| one.info.id.as_str()).collect()
}

#[test]
fn a_file_server_is_measured_in_pairs_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    // What is said on the way is not the worker's word.
    let noisy = "noisy=sh -c 'echo to {dir}; exec \"$@\"' sh";
    let report = run_fileserver(&fileserver(folder.path(), &["env=env", noisy], 3)).expect("it runs");
    assert!(!report.failed(), "{:?}", report.errors);
    let ids = ["operations", "bytes", "latency", "latency-002", "make"].map(|id| format!("fileserver.{id}"));
    assert_eq!(comparisons(&report), ids);
    let confined = report.confined.as_ref().expect("its part");
    for comparison in &confined.comparisons {
        let rows = &comparison.rows;
        assert_eq!(rows.iter().map(|row| row.target.as_str()).collect::<Vec<_>>(), ["native", "env", "noisy"]);
        assert!(
            rows.iter().all(|row| row.runs.len() == 3 && row.runs.iter().all(|run| run.is_some_and(|run| run > 0.0)))
        );
        assert!(rows[0].change_percent.is_none() && rows[1].change_percent.is_some_and(|change| change.low.is_some()));
    }
    let (theirs, ours): (Vec<_>, Vec<_>) = confined.seed002.iter().partition(|row| row.published);
    assert_eq!((theirs.len(), ours.len()), (6, 6), "three figures of two published systems and of two variants");
    // Eight kinds of operations; closing is done three times in a turn, opening twice.
    assert_eq!(confined.operations.len(), 24);
    let count = |operation: &str, target: &str| {
        let row = confined.operations.iter().find(|row| row.operation == operation && row.target == target);
        row.expect("a row").count
    };
    for target in ["native", "env", "noisy"] {
        let turns = count("create", target);
        assert!(turns >= 3);
        assert_eq!(
            [count("close", target), count("open", target), count("stat", target)],
            [3 * turns, 2 * turns, turns]
        );
    }
    assert_eq!(report.targets[2].url, "sh -c 'echo to {dir}; exec \"$@\"' sh");
    assert!(is_empty(folder.path()));
}

#[test]
fn what_cannot_be_run_is_told_and_the_others_are_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let variants = [
        "false=false",
        "missing=/nowhere/at/all",
        "mute=sh -c 'exit 0'",
        "loud=sh -c 'echo no such policy >&2; exit 64'",
    ];
    let report = run_fileserver(&fileserver(folder.path(), &variants, 1)).expect("it runs");
    assert!(report.failed());
    let said: Vec<String> = report.errors.iter().map(|error| format!("{}: {}", error.target, error.message)).collect();
    assert_eq!(
        said,
        [
            "false: it ended with exit status: 1 before its work was done",
            "missing: cannot start /nowhere/at/all: No such file or directory (os error 2)",
            "mute: it ended with exit status: 0 before its work was done",
            "loud: it ended with exit status: 64 before its work was done: no such policy",
        ]
    );
    let rows = &report.confined.as_ref().expect("its part").comparisons[0].rows;
    assert_eq!(rows.iter().map(|row| row.runs[0].is_some()).collect::<Vec<_>>(), [true, false, false, false, false]);
    let table = report.table();
    assert!(table.lines().any(|line| line.contains("Operations: loud ") && line.contains("failed")), "{table}");
    assert!(is_empty(folder.path()));
}

#[test]
fn a_disk_that_is_full_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "mount -t tmpfs -o size=32k none {dir} && cd {dir} && exec \"$@\"";
    let small = format!("small=unshare --user --map-root-user --mount sh -c '{script}' sh");
    let report = run_fileserver(&fileserver(folder.path(), &[&small], 1)).expect("it runs");
    let said = &report.errors[0].message;
    assert!(report.error_count == 1 && said.contains("No space left on device"), "{:?}", report.errors);
    assert!(is_empty(folder.path()));
}

#[test]
fn what_cannot_be_measured_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let with = |change: fn(&mut FileserverOptions)| {
        let mut options = fileserver(folder.path(), &["env=env"], 1);
        change(&mut options);
        run_fileserver(&options).expect_err("it is refused").to_string()
    };
    for (said, why) in [
        (with(|options| options.model.files = 0), "--files"),
        (with(|options| options.folder = "/nowhere/at/all".into()), "is no folder"),
        (with(|options| options.folder = "/dev/null".into()), "is no folder"),
        (with(|options| options.time = Duration::ZERO), "--seconds"),
        (with(|options| options.confined.rounds = 0), "--rounds"),
        (with(|options| options.confined.variants.push(Variant::native())), "two targets are called"),
    ] {
        assert!(said.contains(why), "{why}: {said}");
    }
    let options = fileserver(Path::new("/proc"), &[], 1);
    assert!(run_fileserver(&options).is_err(), "nothing can be made in there");
    assert!(is_empty(folder.path()));
}

#[test]
fn starts_are_measured_and_a_program_that_fails_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = |program: &str, variants: &[&str]| {
        let program = program.split(' ').map(ToOwned::to_owned).collect();
        let options =
            StartOptions { program, starts: 3, folder: folder.path().to_owned(), confined: under(variants, 2) };
        run_start(&options).expect("it runs")
    };
    let report = start("/bin/true", &["env=env"]);
    assert!(!report.failed(), "{:?}", report.errors);
    let rows = &report.confined.as_ref().expect("its part").comparisons[0].rows;
    assert!(rows[1].difference.is_some() && rows[1].runs.len() == 2);
    assert_eq!(report.series[0].rows[1].latency.expect("latencies").requests, 6);
    let report = start("ls /nowhere/at/all", &[]);
    assert!(report.error_count == 2 && report.errors[0].message.contains("/nowhere/at/all"), "{:?}", report.errors);
    assert!(is_empty(folder.path()));
}

#[test]
fn sources_are_packed_unpacked_and_built_in_that_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let tree = folder.path().join("tree");
    std::fs::create_dir(&tree).expect("a folder");
    std::fs::write(tree.join("one.txt"), "one").expect("a file");
    let source = |build: &str| {
        let build = vec!["cat one.txt >two.txt".to_owned(), build.to_owned()];
        let options = SourceOptions {
            tree: tree.clone(),
            archive: None,
            build,
            folder: folder.path().to_owned(),
            confined: under(&["env=env"], 2),
        };
        run_source(&options).expect("it runs")
    };
    let report = source("grep -qx one two.txt");
    assert!(!report.failed(), "{:?}", report.errors);
    assert_eq!(comparisons(&report), ["source.pack", "source.unpack", "source.build-1", "source.build-2"]);
    let report = source("cat three.txt");
    assert!(report.error_count == 4 && report.errors[0].message.contains("three.txt"), "{:?}", report.errors);
    assert_eq!(std::fs::read_dir(folder.path()).expect("is there").count(), 1, "the tree alone is there");
    assert_eq!(std::fs::read_dir(&tree).expect("is there").count(), 1, "and as it was");
    // With an archive, that alone is unpacked.
    let packed = folder.path().join("packed");
    std::fs::create_dir(&packed).expect("a folder");
    let archive = packed.join("tree.tar.gz");
    let tar = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(folder.path()).arg("tree").status();
    assert!(tar.expect("runs").success());
    let unpack = |archive: &Path| {
        let (tree, archive) = (tree.clone(), Some(archive.to_owned()));
        let (build, folder) = (vec!["false".to_owned()], packed.clone());
        run_source(&SourceOptions { tree, archive, build, folder, confined: under(&["env=env"], 2) }).expect("it runs")
    };
    let report = unpack(&archive);
    assert!(!report.failed(), "{:?}", report.errors);
    assert_eq!(comparisons(&report), ["source.unpack"]);
    assert!(unpack(&tree.join("one.txt")).failed(), "that is no archive");
    assert!(
        run_source(&SourceOptions {
            tree: "/nowhere/at/all".into(),
            archive: None,
            build: Vec::new(),
            folder: tree,
            confined: under(&[], 1)
        })
        .is_err()
    );
}

#[test]
fn memory_and_disk_are_looked_at_before_after_each_time_and_at_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let FileserverOptions { folder: at, model, time, worker_command, confined } =
        fileserver(folder.path(), &["sh=sh -c '\"$@\"; exit $?' sh"], 3);
    let report = run_leak(&LeakOptions { folder: at, model, time, worker_command, confined }).expect("it runs");
    assert!(!report.failed(), "{:?}", report.errors);
    assert_eq!(comparisons(&report), ["leak.removed", "leak.kept"]);
    let leaks = &report.confined.as_ref().expect("its part").leaks;
    assert_eq!(leaks.len(), 12, "two variants, removed and kept, three things");
    for leak in leaks {
        let around = leak.what == "memory of what confines it";
        // Natively nothing is around the worker.
        let none = around && leak.target == "native";
        assert!(leak.bytes.len() == if around { 4 } else { 5 }, "{leak:?}");
        assert!(leak.bytes.iter().all(|bytes| (*bytes == 0) == none), "{leak:?}");
        assert!(leak.slope.is_some_and(|slope| slope.low.is_some()));
    }
    assert!(is_empty(folder.path()));
}
