//! A folder with functions' sources and a store, and calls of the built program.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_testkit::confined::{ORDINARY, SYSTEM, as_ordinary};
pub(crate) use holdfast_testkit::confined::{text, until};
use holdfast_testkit::server::program;
use serde_json::Value;

/// Longest that something is waited for.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A folder with functions' sources and a store, and the account whose they are.
pub(crate) struct Ground {
    folder: tempfile::TempDir,
    program: PathBuf,
    ordinary: bool,
}

impl Ground {
    pub(crate) fn new(ordinary: bool) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        // Where an ordinary account can reach it, wherever it was built.
        let here = folder.path().join("holdfast");
        fs::hard_link(program()?, &here).or_else(|_| fs::copy(program()?, &here).map(drop))?;
        let ground = Self { folder, program: here, ordinary };
        fs::set_permissions(ground.folder.path(), fs::Permissions::from_mode(0o755))?;
        for name in ["sources", "shared", "store"] {
            fs::create_dir(ground.path(name))?;
            fs::set_permissions(ground.path(name), fs::Permissions::from_mode(0o755))?;
            if ordinary {
                chown(ground.path(name), Some(ORDINARY), Some(ORDINARY))?;
            }
        }
        Ok(ground)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn store(&self) -> String {
        self.path("store").display().to_string()
    }

    /// A folder with a script, and what its manifest and its policy say besides.
    pub(crate) fn source(&self, name: &str, script: &str, manifest: &str) -> Outcome<String> {
        let source = self.path("sources").join(name);
        fs::create_dir_all(&source)?;
        fs::write(source.join("handler"), format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(source.join("handler"), fs::Permissions::from_mode(0o755))?;
        fs::write(
            source.join("function.toml"),
            format!("command = [\"./handler\", \"{}\"]\npolicy = \"policy.toml\"\n{manifest}", self.marker()),
        )?;
        fs::write(
            source.join("policy.toml"),
            format!(
                "default = \"deny\"\ndevices = [\"null\"]\n[files]\n{SYSTEM}\"{}\" = \"all\"\n",
                self.path("shared").display()
            ),
        )?;
        Ok(source.display().to_string())
    }

    /// A word in the command line of every process of these functions.
    pub(crate) fn marker(&self) -> String {
        format!("marked-{}", self.folder.path().file_name().unwrap_or_default().to_string_lossy())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = if self.ordinary { as_ordinary(&self.program, None) } else { Command::new(&self.program) };
        command.args(["function"]).args(arguments).env("HOLDFAST_FUNCTIONS", self.store()).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome<Output> {
        Ok(self.command(arguments).output()?)
    }

    pub(crate) fn ok(&self, arguments: &[&str]) -> Outcome<String> {
        let output = self.run(arguments)?;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        Ok(text(&output.stdout))
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Outcome<Value> {
        Ok(serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())?)?)
    }

    pub(crate) fn deploy(&self, name: &str, script: &str, manifest: &str) -> Outcome {
        let source = self.source(name, script, manifest)?;
        self.ok(&["deploy", &source]).map(drop)
    }

    pub(crate) fn fed(&self, arguments: &[&str], input: &[u8]) -> Outcome<Output> {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn()?;
        // It may want none of it.
        let _ = child.stdin.take().ok_or("no input")?.write_all(input);
        Ok(child.wait_with_output()?)
    }

    /// Processes of these functions, wherever they are.
    pub(crate) fn processes(&self) -> usize {
        let marker = self.marker();
        let is_one = |entry: fs::DirEntry| {
            fs::read(entry.path().join("cmdline")).is_ok_and(|line| text(&line).contains(&marker))
        };
        fs::read_dir("/proc").map_or(0, |all| all.flatten().filter_map(|entry| is_one(entry).then_some(())).count())
    }
}

pub(crate) fn as_each(test: impl Fn(&Ground) -> Outcome) -> Outcome {
    test(&Ground::new(false)?)?;
    if rustix::process::geteuid().is_root() {
        test(&Ground::new(true)?)?;
    }
    Ok(())
}

pub(crate) fn files(folder: &Path) -> usize {
    let count = |entry: fs::DirEntry| {
        1 + if entry.path().is_dir() && !entry.path().is_symlink() { files(&entry.path()) } else { 0 }
    };
    fs::read_dir(folder).map_or(0, |all| all.flatten().map(count).sum())
}
