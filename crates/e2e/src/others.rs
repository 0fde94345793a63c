//! The suites of other people's clients (`tests/third-party`), run on a drive that is there.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use holdfast_testkit::services::{find_program, need, workspace};

use crate::Outcome;
use crate::mounted::run;
use crate::rig::{HOME, NAME, PASSWORD};

/// A suite and the tools it needs.
#[derive(Debug, Clone, Copy)]
pub struct Suite(&'static str, &'static [&'static str]);

/// litmus: what a WebDAV server must do.
pub const LITMUS: Suite = Suite("litmus", &["litmus"]);
/// cadaver, as a person uses it.
pub const CADAVER: Suite = Suite("cadaver", &["cadaver"]);
/// curl: ranges, conditions, resuming.
pub const CURL: Suite = Suite("curl", &["curl"]);
/// rclone: trees, both ways.
pub const RCLONE: Suite = Suite("rclone", &["rclone"]);
/// cadaver and rclone in smart folders.
pub const SMART: Suite = Suite("smart", &["curl", "cadaver", "rclone"]);
/// tuspy and tus-js-client: uploads that are resumed. Has a drive of its own, since it kills the server.
pub const TUS: Suite = Suite("tus", &["curl"]);

/// unzip and Python: archives past the bounds of the old format.
pub const ARCHIVE: Suite = Suite("archive", &["curl", "unzip"]);

/// schemathesis: requests made up from the API's description. Has a drive of its own, since an administrator takes part.
pub const API: Suite = Suite("api", &["curl"]);

impl Suite {
    /// Runs it in the home space of the tests' account at an address, and shows what it says.
    pub fn run(self, drive: SocketAddr) -> Outcome {
        let Self(name, tools) = self;
        need(tools)?;
        let folder = tempfile::tempdir()?;
        let output = Command::new("bash")
            .arg(workspace().join(format!("tests/third-party/suites/{name}.bash")))
            .env("DAV", format!("http://{drive}{HOME}"))
            .env("ACCOUNT", NAME)
            .env("PASSWORD", PASSWORD)
            // Clients keep their configuration there.
            .env("HOME", folder.path())
            .env("WORK", folder.path())
            .output()?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        println!("== {name}\n{said}");
        if output.status.success() { Ok(()) } else { Err(format!("{name}: {said}").into()) }
    }
}

/// A program that cargo installed.
pub fn cargo_program(name: &str) -> Outcome<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo/bin").join(name));
    let found = find_program(name).or(home.filter(|path| path.is_file()));
    Ok(found.ok_or_else(|| format!("{name} is not installed: scripts/need.sh {name}"))?)
}

/// What one process of the file system exerciser does at most: each read by a mapping leaves that in its memory, of which the kernel allows 65,530, and each
/// truncation goes through all of them.
const FSX_OPERATIONS_MAX: u64 = 10_000;

/// The file system exerciser (`scripts/need.sh fsx`), with settings of its own.
#[derive(Debug, Clone, Copy)]
pub struct Fsx<'f> {
    /// A file in its format.
    pub settings: &'f Path,
    /// Where it leaves what it saw if it finds a fault.
    pub scratch: &'f Path,
}

impl Fsx<'_> {
    /// So many operations on a file, as this seed has them.
    pub fn exercise(self, file: &Path, seed: u64, operations: u64) -> Outcome {
        let fsx = cargo_program("fsx")?;
        for done in (0..operations).step_by(usize::try_from(FSX_OPERATIONS_MAX)?) {
            let mut command = Command::new(&fsx);
            command.args(["-N", &(operations - done).min(FSX_OPERATIONS_MAX).to_string()]);
            command.args(["-S", &(seed + 1_000 * (done / FSX_OPERATIONS_MAX)).to_string(), "-f"]);
            run(command.arg(self.settings).arg(file).current_dir(self.scratch))?;
        }
        Ok(())
    }
}

/// What pjdfstest has to be told: what there is to be tried, and accounts that are on any machine.
pub const PJDFSTEST_SETTINGS: &str = "[features]\nposix_fallocate = {}\nutime_now = {}\nutimensat = {}\nrename_ctime = {}\n[settings]\nnaptime = 0.02\n[dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"], [\"bin\", \"bin\"]]\n";
