//! Confined programs in a drive that is mounted as a folder, through the built program.

use holdfast_e2e::Outcome;
use holdfast_e2e::mounted::{Ground, run};
use holdfast_testkit::confined::{SYSTEM, text};
use holdfast_testkit::server::program;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The program under test with these words.
fn holdfast(words: &[&str]) -> Outcome<Output> {
    Ok(Command::new(program()?).args(words).output()?)
}

#[test]
fn changes_of_a_mounted_drive_are_kept_apart_looked_at_and_made_there() -> Outcome {
    let apart = tempfile::tempdir()?;
    let changes = apart.path().join("changes");
    fs::create_dir(&changes)?;
    Ground::new()?.with(|at| {
        let folder = at.join("project");
        fs::create_dir_all(folder.join("sub"))?;
        for (name, content) in [("kept", "kept\n"), ("changed", "before\n"), ("sub/gone", "gone\n"), ("moved", "moved\n")] {
            fs::write(folder.join(name), content)?;
        }
        let shown = folder.display();
        let policy = apart.path().join("policy.toml");
        fs::write(&policy, format!("directory = \"{shown}\"\n[files]\n{SYSTEM}\"{shown}\" = \"all\"\n"))?;
        let of = format!("{shown}={}", changes.display());
        let script = "cat kept; echo after >> changed; rm sub/gone; mv moved sub/there; mkdir made; echo new > made/new; ls sub; cat changed";
        let policy = policy.display().to_string();
        let output = holdfast(&["run", "--policy", &policy, "--cow", &of, "--", "sh", "-ec", script])?;
        assert!(output.status.success(), "{output:?}");
        assert_eq!(text(&output.stdout), "kept\nthere\nbefore\nafter\n");
        assert_eq!(fs::read_to_string(folder.join("changed"))?, "before\n");
        assert!(folder.join("sub/gone").exists() && !folder.join("made").exists());
        let diff = text(&holdfast(&["run", "diff", &of])?.stdout);
        for line in ["changed", "sub/gone", "moved", "sub/there", "made/new"] {
            assert!(diff.lines().any(|it| it.ends_with(line)), "{line}: {diff}");
        }
        let committed = holdfast(&["run", "commit", &of])?;
        assert!(committed.status.success(), "{committed:?}");
        assert_eq!(content(&folder)?, ["changed: before\nafter\n", "kept: kept\n", "made/new: new\n", "sub/there: moved\n"]);
        Ok(())
    })
}

/// What is in every file, by name.
fn content(folder: &Path) -> Outcome<Vec<String>> {
    let listed = run(Command::new("find").current_dir(folder).args([".", "-type", "f"]))?;
    let mut all = Vec::new();
    for name in listed.lines().filter_map(|line| line.strip_prefix("./")) {
        all.push(format!("{name}: {}", fs::read_to_string(folder.join(name))?));
    }
    all.sort();
    Ok(all)
}

#[test]
fn a_mounted_drive_is_what_its_policy_says() -> Outcome {
    let apart = tempfile::tempdir()?;
    Ground::new()?.with(|at| {
        for (name, content) in [("work/file", "work\n"), ("read/file", "read\n"), ("work/hidden/file", "hidden\n")] {
            fs::create_dir_all(at.join(name).parent().ok_or("it is in a folder")?)?;
            fs::write(at.join(name), content)?;
        }
        let shown = at.display();
        let policy = apart.path().join("policy.toml");
        let lines = format!(
            "directory = \"{shown}/work\"\n[files]\n{SYSTEM}\"{shown}/work\" = \"all\"\n\"{shown}/work/hidden\" = \"none\"\n\"{shown}/read\" = \"read\"\n"
        );
        let script = "cat file ../read/file; echo new > new; mv new newer; cat newer; cat hidden/file; echo x > ../read/new; ls ..";
        for more in ["", &format!("[[rule]]\ndeny = [\"unlink\"]\npath = \"{shown}/work/*.log\"\n")] {
            fs::write(&policy, format!("{lines}{more}"))?;
            let output = holdfast(&["run", "--policy", &policy.display().to_string(), "--", "sh", "-c", script])?;
            assert!(text(&output.stdout).starts_with("work\nread\nnew\n"), "{more}: {output:?}");
            assert!(!text(&output.stdout).contains("hidden") && !at.join("read/new").exists(), "{more}: {output:?}");
            assert_eq!(fs::read_to_string(at.join("work/newer"))?, "new\n");
        }
        Ok(())
    })
}
