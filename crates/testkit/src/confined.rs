//! The built program confining others: a folder with a policy, and an account.

use crate::server::program;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What a test comes to.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// What any program of the machine needs to start.
pub const SYSTEM: &str = "\"/usr\" = \"read+exec\"\n\"/bin\" = \"read+exec\"\n\"/lib\" = \"read+exec\"\n\"/lib64\" = \"read+exec\"\n\"/etc/ld.so.cache\" = \"read\"\n";
/// An account that owns nothing (nobody's).
pub const ORDINARY: u32 = 65_534;
/// Longest that something is waited for.
const SOON: Duration = Duration::from_secs(20);

/// A folder with a policy, a place where it may write and one that it may not see, and the account that runs programs.
pub struct Ground {
    folder: tempfile::TempDir,
    program: PathBuf,
    ordinary: bool,
    /// Whether everybody may serve file systems, whatever this machine says of that.
    serving: bool,
}

/// `/dev/fuse` of mode 0666, as most distributions have it, in a namespace of its own; then the rest as another account.
const SERVING: &str = "mount -t tmpfs none \"$1\" && mknod -m 666 \"$1/fuse\" c 10 229 && mount --bind \"$1/fuse\" /dev/fuse || exit 99; shift; exec setpriv \"$@\"";

/// A program as an ordinary account; with an empty folder for devices, where everybody may serve file systems.
pub fn as_ordinary(program: impl AsRef<OsStr>, devices: Option<&Path>) -> Command {
    let mut command = Command::new(if devices.is_some() { "unshare" } else { "setpriv" });
    if let Some(devices) = devices {
        command.args(["--mount", "--propagation", "private", "sh", "-c", SERVING, "sh"]).arg(devices);
    }
    let account = ORDINARY.to_string();
    command.args(["--reuid", &account, "--regid", &account, "--clear-groups", "--no-new-privs"]).arg(program);
    command.current_dir("/");
    command
}

impl Ground {
    /// A new one, for this account or an ordinary one.
    pub fn new(ordinary: bool) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        // Where an ordinary account can reach it, wherever it was built.
        let program = {
            let here = folder.path().join("holdfast");
            fs::hard_link(program()?, &here).or_else(|_| fs::copy(program()?, &here).map(drop))?;
            here
        };
        let ground = Self { folder, program, ordinary, serving: false };
        for name in ["devices", "work", "work/kept", "hidden", "runtime", "changes"] {
            fs::create_dir(ground.path(name))?;
        }
        fs::write(ground.path("work/kept/file"), "kept\n")?;
        fs::write(ground.path("hidden/secret"), "secret\n")?;
        ground.policy("policy.toml", &ground.usual())?;
        fs::set_permissions(ground.folder.path(), fs::Permissions::from_mode(0o755))?;
        if ordinary {
            for name in ["work", "work/kept", "work/kept/file", "hidden", "hidden/secret", "runtime", "changes"] {
                chown(ground.path(name), Some(ORDINARY), Some(ORDINARY))?;
            }
        }
        Ok(ground)
    }

    /// The program under test, where either account reaches it.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a policy.
    pub fn policy(&self, name: &str, text: &str) -> Outcome {
        Ok(fs::write(self.path(name), text)?)
    }

    /// A policy that mounts hold: `work` may be written but for `work/kept`, and `hidden` is not there.
    pub fn usual(&self) -> String {
        let work = self.path("work");
        let work = work.display();
        format!(
            "default = \"deny\"\ndirectory = \"{work}\"\ndevices = [\"null\"]\n[environment]\nset = {{ TOLD = \"yes\" }}\n[files]\n{SYSTEM}\"{work}\" = \"all\"\n\"{work}/kept\" = \"read\"\n"
        )
    }

    /// A program as the account that this is about.
    pub fn as_account(&self, program: impl AsRef<OsStr>) -> Command {
        if self.ordinary {
            let devices = self.path("devices");
            return as_ordinary(program, self.serving.then_some(devices.as_path()));
        }
        let mut command = Command::new(program);
        command.current_dir("/");
        command
    }

    /// The program under test with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.as_account(&self.program);
        command.args(arguments).env("XDG_RUNTIME_DIR", self.path("runtime")).env("SECRET", "secret");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a program under `policy.toml` to its end.
    pub fn run(&self, words: &[&str]) -> Outcome<Output> {
        let policy = self.path("policy.toml").display().to_string();
        Ok(self.command(&[&["run", "--policy", &policy, "--"], words].concat()).output()?)
    }

    /// Starts a script under `policy.toml`.
    pub fn start(&self, more: &[&str], script: &str) -> Outcome<Started> {
        let policy = self.path("policy.toml").display().to_string();
        let child =
            self.command(&[&["run", "--policy", &policy], more, &["--", "sh", "-c", script]].concat()).spawn()?;
        Ok(Started(child))
    }

    /// What the program says on standard output to these arguments, which must end well.
    pub fn said(&self, arguments: &[&str]) -> Outcome<Vec<u8>> {
        let output = self.command(arguments).output()?;
        if output.status.success() { Ok(output.stdout) } else { Err(format!("{arguments:?}: {output:?}").into()) }
    }
}

/// A confined program, whose supervisor is killed where a test leaves it behind.
#[derive(Debug)]
pub struct Started(pub Child);

impl Started {
    /// What it says on standard error to its end.
    pub fn errors(&mut self) -> Outcome<String> {
        let stream = self.0.stderr.take().ok_or("it was read before")?;
        Ok(std::io::read_to_string(stream)?)
    }
}

impl Deref for Started {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Started {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Both fail where it has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What was said.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until something is so.
pub fn until(what: &str, mut holds: impl FnMut() -> Outcome<bool>) -> Outcome {
    let deadline = Instant::now() + SOON;
    while !holds()? {
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// As [`as_each`], on a machine where everybody may serve file systems (FUSE).
pub fn as_each_serving(test: impl Fn(&Ground) -> Outcome) -> Outcome {
    let ground = |ordinary| Ground::new(ordinary).map(|ground| Ground { serving: true, ..ground });
    test(&ground(false)?)?;
    if rustix::process::geteuid().is_root() {
        test(&ground(true)?)?;
    }
    Ok(())
}

/// Runs a test as this account, and as an ordinary one if this is root.
pub fn as_each(test: impl Fn(&Ground) -> Outcome) -> Outcome {
    test(&Ground::new(false)?)?;
    if rustix::process::geteuid().is_root() {
        test(&Ground::new(true)?)?;
    }
    Ok(())
}
