//! Tests that count what a process or the machine has, apart from other tests and other suites, whose descriptors, children and mounts come and go.

use std::env;
use std::fs;
use std::io;
use std::process::Command;

/// Set in the process that [`alone`] starts.
const MARK: &str = "HOLDFAST_TEST_ALONE";

/// Takes mounts of FUSE and those below a folder (its first word) out of the table of mounts, and then runs a program (the others). Odd characters
/// of a path are octal numbers in the table (`proc_pid_mounts(5)`).
const OWN_TABLE: &str = r#"
temporary=$1; shift
cat /proc/self/mounts | while read -r _ at type _; do
    case $type:$at in fuse:* | fuse.*:* | *":$temporary/"*) umount -l "$(printf %b "$at")" 2>/dev/null || true ;; esac
done
mount --make-rshared / && exec "$@"
"#;

/// Runs the test of that whole name once more in a process of its own and answers `false`; in that process it answers `true`.
///
/// For root the process has a table of mounts of its own as well. Mounts of others do not come into it, but whatever is mounted below it and not kept
/// apart does, as on any machine (`mount_namespaces(7)`, "shared subtrees"). Those that other tests have when it begins are taken out of it: it would keep
/// their servers from ending, and they would go with the folders they are on.
///
/// # Errors
///
/// When the process cannot be started, or the test fails in it: what it printed is in the error.
pub fn alone(test: &str) -> io::Result<bool> {
    if env::var_os(MARK).is_some() {
        return Ok(true);
    }
    let program = env::current_exe()?;
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        command.args([OWN_TABLE, "sh"]).arg(env::temp_dir()).arg(program);
        command
    } else {
        Command::new(program)
    };
    let output = command.args(["--exact", test, "--nocapture"]).env(MARK, "1").output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    // A wrong name runs nothing and succeeds.
    if output.status.success() && printed.contains("1 passed") {
        return Ok(false);
    }
    Err(io::Error::other(format!(
        "{test}, alone: {}\n{printed}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    )))
}

/// How many mounts there are in the table of a test that is [`alone`]. Always none for an ordinary account: without a table of its own it would count those
/// of other suites, and what its sandboxes mount cannot come out of their user namespaces.
///
/// # Panics
///
/// In a test that is not alone.
#[must_use]
pub fn mounts() -> usize {
    assert!(env::var_os(MARK).is_some(), "mounts are counted where no others come and go");
    if !rustix::process::geteuid().is_root() {
        return 0;
    }
    fs::read_to_string("/proc/thread-self/mounts").expect("a table of mounts").lines().count()
}
