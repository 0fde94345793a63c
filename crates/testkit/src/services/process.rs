//! A process that ends with the test, whatever ends the test.
//!
//! A shell starts the program and reads from a pipe that only the test process holds open. When the test drops its handle, panics,
//! is killed, or exits with the handle in a `static` (which is never dropped), the pipe closes, and the shell ends the program,
//! by its id, and removes its folder and what a file `leftovers` in it names. The program's output is in a file, of which the end is shown when it does not start.

use super::workspace;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts the program, ends it when standard input ends: asks first, insists after five seconds.
const KEEPER: &str = r#"
folder=$1
shift
exec 3<&0 </dev/null
"$@" 3<&- & program=$!
( read -r _ <&3; kill -TERM $program; sleep 5; kill -KILL $program ) 2>/dev/null & keeper=$!
wait $program; status=$?
kill $keeper 2>/dev/null
# A program that failed leaves its log to whoever waits for it.
case $status in 0 | 137 | 143)
    [ -f "$folder/leftovers" ] && xargs rm -f -- <"$folder/leftovers"
    rm -rf -- "$folder"
    ;;
esac
exit $status
"#;

/// How often a start is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes of the log that a failed start shows.
const SHOWN_LOG_BYTES: usize = 8 << 10;

/// The account that services run as when the tests run as root.
const UNPRIVILEGED: (&str, &str) = ("nobody", "nogroup");

/// A running process.
#[derive(Debug)]
pub struct Kept {
    child: Child,
    log: PathBuf,
    label: String,
}

impl Kept {
    /// Starts a program with arguments in `folder`, which is its own and goes with it; its output goes to `log`.
    pub fn start(label: &str, program: &Path, arguments: &[String], folder: &Path, log: PathBuf) -> io::Result<Self> {
        // A checkout may be in a folder that only its owner may enter, so what was installed there runs as its owner.
        if !is_root() || program.starts_with(workspace()) {
            return Self::start_as_is(label, program, arguments, folder, log);
        }
        let (user, group) = UNPRIVILEGED;
        let ids = [format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".into(), "--".into()];
        let arguments = [&ids[..], &[program.display().to_string()], arguments].concat();
        Self::start_as_is(label, Path::new("setpriv"), &arguments, folder, log)
    }

    /// The same as the account that runs the tests, whoever that is.
    pub fn start_as_is(
        label: &str,
        program: &Path,
        arguments: &[String],
        folder: &Path,
        log: PathBuf,
    ) -> io::Result<Self> {
        let output = File::create(&log)?;
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, label]).arg(folder);
        command.arg(program).args(arguments).current_dir(folder).env("HOME", folder).env("TMPDIR", folder);
        // A group of its own: what a terminal or `timeout` sends to the test's group would end the shell before its program.
        command.process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).spawn()?;
        Ok(Self { child, log, label: label.to_owned() })
    }

    /// Waits until `ready` says yes; fails if the process ends or the time is over.
    pub fn wait_until(&mut self, limit: Duration, mut ready: impl FnMut() -> bool) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(self.failed(&format!("ended with {status}")));
            }
            if ready() {
                return Ok(());
            }
            if begun.elapsed() > limit {
                return Err(self.failed(&format!("is not ready after {} seconds", limit.as_secs())));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn failed(&self, what: &str) -> io::Error {
        let log = fs::read(&self.log).unwrap_or_default();
        let end = &log[log.len().saturating_sub(SHOWN_LOG_BYTES)..];
        io::Error::other(format!("{} {what}; the end of its log:\n{}", self.label, String::from_utf8_lossy(end)))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The shell ends when the program has ended.
        let _ = self.child.wait();
    }
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Gives a folder and all in it to the account that services run as.
pub fn hand_over(folder: &Path) -> io::Result<()> {
    if !is_root() {
        return Ok(());
    }
    let (user, group) = UNPRIVILEGED;
    let status = Command::new("chown").args(["-R", &format!("{user}:{group}")]).arg(folder).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("chown of {} failed", folder.display()))) }
}
