//! `holdfast bench fileserver`, `source`, `start` and `leak`: what they measure here is not judged, but that it is measured natively and under
//! `holdfast run`, that figures stand in pairs, and that what a policy forbids is told.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
/// Twenty files for a fifth of a second, twice.
const SMALL: [&str; 12] =
    ["--files", "20", "--width", "4", "--mean", "4000", "--threads", "2", "--seconds", "0.2", "--rounds", "2"];

fn command(measurement: &str, options: &[&str]) -> Command {
    let mut command = Command::new(HOLDFAST);
    command.args(["bench", measurement, "--no-settle", "--no-warm", "--no-progress", "--json"]).args(options);
    command
}

fn bench(measurement: &str, options: &[&str]) -> Output {
    command(measurement, options).output().expect("runs")
}

fn found(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Below which everything takes place.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a folder"));
        std::fs::create_dir(place.0.path().join("at")).expect("a folder");
        place
    }

    fn at(&self) -> String {
        self.0.path().join("at").display().to_string()
    }

    /// `holdfast run` with a policy that allows this in the place.
    fn under(&self, access: &str) -> String {
        let policy = self.0.path().join(format!("{access}.toml"));
        let own = Path::new(HOLDFAST).parent().expect("a folder").display();
        let folders =
            ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"].into_iter().filter(|path| Path::new(path).exists());
        let folders: Vec<_> = folders.map(|folder| format!("\"{folder}\" = \"read+exec\"\n")).collect();
        let text = format!(
            "default = \"deny\"\n[environment]\nkeep = [\"PATH\"]\n[files]\n\"{own}\" = \"read+exec\"\n{}\"{}\" = \"{access}\"\n",
            folders.concat(),
            self.at()
        );
        std::fs::write(&policy, text).expect("a policy");
        format!("confined={HOLDFAST} run --policy {} --", policy.display())
    }

    fn is_empty(&self) -> bool {
        std::fs::read_dir(self.at()).expect("is there").next().is_none()
    }
}

fn ids(found: &Value) -> Vec<&str> {
    let comparisons = found["confined"]["comparisons"].as_array().expect("comparisons");
    comparisons.iter().map(|comparison| comparison["id"].as_str().expect("a name")).collect()
}

#[test]
fn a_file_server_is_measured_natively_and_confined_and_what_a_policy_forbids_is_told() {
    let place = Place::new();
    let (at, under) = (place.at(), place.under("all"));
    let output = bench("fileserver", &[&SMALL[..], &[&at, "--under", &under]].concat());
    assert!(output.status.success(), "{output:?}");
    let found_all = found(&output);
    assert_eq!(found_all["bench"], "fileserver");
    let operations = &found_all["confined"]["comparisons"][0];
    for (row, label) in ["native", "confined"].into_iter().enumerate() {
        let row = &operations["rows"][row];
        assert_eq!(row["target"], label);
        assert!(row["runs"].as_array().is_some_and(|runs| runs.len() == 2 && runs.iter().all(Value::is_f64)), "{row}");
    }
    assert!(operations["rows"][1]["change_percent"]["low"].is_f64(), "{operations}");
    assert_eq!(found_all["confined"]["operations"].as_array().map(Vec::len), Some(16));
    let forbidden = place.under("read");
    let output = bench("fileserver", &[&SMALL[..], &[&at, "--against", &forbidden]].concat());
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let errors = found(&output)["errors"].to_string();
    assert!(errors.contains("Read-only file system") || errors.contains("denied"), "{errors}");
    assert!(place.is_empty());
}

#[test]
fn the_start_of_a_program_is_measured_natively_and_confined() {
    let place = Place::new();
    let under = place.under("all");
    let options = ["--folder", &place.at(), "--rounds", "2", "--starts", "2", "--under", &under];
    let output = bench("start", &options);
    assert!(output.status.success(), "{output:?}");
    let all = found(&output);
    assert_eq!(ids(&all), ["start"]);
    assert!(all["confined"]["comparisons"][0]["rows"][1]["difference"]["value"].is_f64(), "{all}");
    assert!(place.is_empty());
}

#[test]
fn sources_are_measured_natively_and_confined() {
    let (place, tree) = (Place::new(), tempfile::tempdir().expect("a folder"));
    std::fs::write(tree.path().join("one.c"), "int one;\n").expect("a file");
    // Packing reads the tree, so it is where the program may read.
    let inside = format!("{}/tree", place.at());
    std::fs::rename(tree.path(), &inside).expect("is moved");
    let under = place.under("all");
    let options = [&inside, "--build", "grep -c one one.c >count", "--rounds", "2", "--under", &under];
    let output = bench("source", &options);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(ids(&found(&output)), ["source.pack", "source.unpack", "source.build-1"]);
    assert_eq!(std::fs::read_dir(place.at()).expect("is there").count(), 1, "the tree alone is there");
}

#[test]
fn what_is_left_is_looked_at_natively_and_confined() {
    let place = Place::new();
    let (at, under) = (place.at(), place.under("all"));
    let output = bench("leak", &[&SMALL[..], &[&at, "--under", &under]].concat());
    assert!(output.status.success(), "{output:?}");
    let all = found(&output);
    assert_eq!(ids(&all), ["leak.removed", "leak.kept"]);
    assert_eq!(all["confined"]["leaks"].as_array().map(Vec::len), Some(12));
    assert!(place.is_empty());
}

#[test]
fn an_interrupted_measurement_ends_the_confined_program_and_removes_its_files() {
    let place = Place::new();
    let (at, under) = (place.at(), place.under("all"));
    // The round begins with native; 0-1 is the confined one.
    let options = [&SMALL[..8], &["--seconds", "1", "--rounds", "1000", &at, "--under", &under]].concat();
    let mut running = command("fileserver", &options).stdout(Stdio::piped()).spawn().expect("starts");
    let confined = || {
        let beds = std::fs::read_dir(&at).expect("is there").flatten();
        beds.map(|bed| bed.path().join("0-1/files")).any(|files| files.exists())
    };
    while !confined() {
        assert!(running.try_wait().expect("is asked").is_none(), "it has not ended by itself");
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args(["-INT", &running.id().to_string()]).status().expect("runs");
    assert!(killed.success());
    let output = running.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let all = found(&output);
    assert!(all["interrupted"] == true && all["error_count"] == 0, "{all}");
    assert!(place.is_empty());
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let place = Place::new();
    let at = place.at();
    for (measurement, options, code, why) in [
        ("fileserver", vec![at.as_str(), "--files", "0"], 70, "--files must be"),
        ("fileserver", vec!["/nowhere/at/all"], 70, "is no folder"),
        ("fileserver", vec![&at, "--under", "bwrap"], 70, "NAME=COMMAND"),
        ("fileserver", vec![&at, "--under", "native=env"], 70, "two targets"),
        ("fileserver", vec![], 64, "DIR"),
        ("leak", vec![&at, "--seconds", "0"], 70, "--seconds must be"),
        ("source", vec!["/nowhere/at/all"], 70, "/nowhere/at/all"),
        ("start", vec!["--starts", "0"], 70, "--starts must be"),
        ("start", vec!["--program", "'x"], 70, "--program"),
    ] {
        let output = bench(measurement, &options);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(why), "{options:?} {:?} {said}", output.status);
    }
    assert!(place.is_empty());
}
