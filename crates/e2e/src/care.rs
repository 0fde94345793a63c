//! The commands that care for a drive, run as a person runs them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use holdfast_testkit::server::ServerOptions;
use serde_json::Value;

use crate::Outcome;
use crate::rig::{NAME, PASSWORD};

/// What `holdfast check --read-data --json` says, and its exit code.
pub fn check(options: &ServerOptions) -> Outcome<(Value, Option<i32>)> {
    let output = options.run(&["check", "--read-data", "--json"], b"")?;
    let report = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("check: {error}\n{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok((report, output.status.code()))
}

/// Fails unless a check of everything finds nothing.
pub fn expect_clean(options: &ServerOptions) -> Outcome {
    let (report, code) = check(options)?;
    let findings = report["findings"].as_array().ok_or("no findings in the report")?;
    if findings.is_empty() && code == Some(0) {
        return Ok(());
    }
    Err(format!("check ended with {code:?} and found {findings:#?}").into())
}

/// Runs `holdfast reclaim` on a stopped drive and returns its report.
pub fn reclaim(options: &ServerOptions) -> Outcome<Value> {
    Ok(serde_json::from_str(&options.run_ok(&["reclaim", "--json"], b"")?)?)
}

/// Empties the trash of the account's home space for good.
pub fn empty_trash(options: &ServerOptions) -> Outcome {
    options.run_ok(&["trash", "empty", NAME, "--user", NAME, "--password-file", "-"], PASSWORD.as_bytes())?;
    Ok(())
}

/// Bytes that files below a folder take on the disk. A file that goes away meanwhile counts as nothing.
pub fn disk_use(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => disk_use(&entry.path()),
        // A block of stat(2) has 512 bytes, whatever the file system's are.
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}
