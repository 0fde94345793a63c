//! A drive mounted by the program itself, and taken away again whatever happens.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use holdfast_testkit::server::ServerOptions;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

use crate::Outcome;
use crate::care::expect_clean;
use crate::rig::{NAME, PASSWORD};

/// A drive of one account and a folder it can be mounted on, without a server.
#[derive(Debug)]
pub struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    /// A new drive.
    pub fn new() -> Outcome<Self> {
        let ground = Self { folder: tempfile::tempdir()? };
        fs::create_dir(ground.folder.path().join("mnt"))?;
        // A process of another account may have to get to the mount.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(ground.folder.path(), open)?;
        let output = ground.options().command()?.args(["serve", "--help"]).output()?;
        if !output.status.success() {
            return Err("the program does not run".into());
        }
        ground.options().add_account(NAME, PASSWORD)?;
        Ok(ground)
    }

    /// Commands on the drive.
    pub fn options(&self) -> ServerOptions {
        ServerOptions::new(self.folder.path().join("data"))
    }

    /// Beside the drive.
    pub fn scratch(&self) -> &Path {
        self.folder.path()
    }

    /// Mounts the account's own space, with more arguments.
    pub fn mount(&self, arguments: &[&str]) -> Outcome<Mount> {
        Mount::of_drive(&self.options(), self.folder.path().join("mnt"), arguments)
    }

    /// Mounts, works, unmounts, and has the drive prove itself.
    pub fn with(&self, work: impl FnOnce(&Path) -> Outcome) -> Outcome {
        self.with_mount(&[], work)
    }

    /// The same with more arguments.
    pub fn with_mount(&self, arguments: &[&str], work: impl FnOnce(&Path) -> Outcome) -> Outcome {
        let mount = self.mount(arguments)?;
        let outcome = work(mount.at());
        let ended = mount.stop();
        outcome?;
        ended?;
        expect_clean(&self.options())
    }
}

/// A mount that runs.
#[derive(Debug)]
pub struct Mount {
    child: Child,
    at: PathBuf,
    _out: BufReader<ChildStdout>,
}

impl Mount {
    /// Mounts the own space of a drive's account, with more arguments.
    pub fn of_drive(drive: &ServerOptions, at: PathBuf, arguments: &[&str]) -> Outcome<Self> {
        let mut command = drive.command()?;
        command.arg("mount").arg(drive.data()).arg(&at);
        command.args(["--user", NAME, "--password-file", "-"]).args(arguments);
        // Any test can be run with it, and without.
        let is_said = arguments.iter().any(|argument| argument.starts_with("--write-behind"));
        if let Some(behind) = std::env::var_os("HOLDFAST_MOUNT_WRITE_BEHIND").filter(|_| !is_said) {
            command.arg(format!("--write-behind={}", behind.to_string_lossy()));
        }
        Self::begin(command, PASSWORD, at)
    }

    /// Mounts with a command that takes a secret on its standard input.
    pub fn begin(mut command: Command, secret: &str, at: PathBuf) -> Outcome<Self> {
        command.args(["--foreground", "--json"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        // One that ended already says why.
        let _ = child.stdin.take().ok_or("no standard input")?.write_all(secret.as_bytes());
        let mut out = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let mut line = String::new();
        out.read_line(&mut line)?;
        let mut mount = Self { child, at, _out: out };
        if line.contains("\"mounted\"") {
            return Ok(mount);
        }
        let said = mount.errors();
        Err(format!("it was not mounted: {said}").into())
    }

    /// Where.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Bytes of memory it has now.
    pub fn rss(&self) -> Outcome<u64> {
        Ok(holdfast_testkit::server::memory(self.child.id(), "VmRSS:")?)
    }

    /// Its process does nothing until it [goes on](Self::go_on).
    pub fn freeze(&self) -> Outcome {
        Ok(kill_process(self.pid()?, Signal::STOP)?)
    }

    /// It does what it did.
    pub fn go_on(&self) -> Outcome {
        Ok(kill_process(self.pid()?, Signal::CONT)?)
    }

    fn pid(&self) -> Outcome<Pid> {
        Pid::from_raw(i32::try_from(self.child.id())?).ok_or_else(|| "no process".into())
    }

    fn errors(&mut self) -> String {
        let mut said = String::new();
        if let Some(errors) = &mut self.child.stderr {
            let _ = std::io::Read::read_to_string(errors, &mut said);
        }
        said
    }

    /// Ends it in good order; an error if it says anything or leaves the folder mounted.
    pub fn stop(mut self) -> Outcome {
        kill_process(self.pid()?, Signal::TERM)?;
        let status = self.child.wait()?;
        let said = self.errors();
        if !status.success() || !said.is_empty() || is_mounted(&self.at)? {
            return Err(format!("the mount ended with {status}: {said}").into());
        }
        Ok(())
    }

    /// Unmounts it from outside, as a person does, and waits for its end.
    pub fn unmount(self) -> Outcome {
        unmount(&self.at, UnmountFlags::empty())?;
        self.wait()
    }

    /// Waits for its end, which is to be a good one.
    pub fn wait(mut self) -> Outcome {
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the mount ended with {status}: {}", self.errors()).into()) }
    }

    /// Ends it as a crash does, and takes away what the kernel keeps of it.
    pub fn kill_9(self) -> Outcome {
        let at = self.at.clone();
        let mut mount = self;
        mount.child.kill()?;
        // First: a thread of it may be telling the kernel of a name in a folder where somebody waits for it, and would not end before that is over.
        let _ = unmount(&at, UnmountFlags::DETACH | UnmountFlags::FORCE);
        mount.child.wait()?;
        // Whoever mounts there next is nothing of this one's.
        mount.at = PathBuf::new();
        Ok(())
    }

    /// Ends it as a crash does.
    pub fn crash(mut self) -> Outcome {
        self.child.kill()?;
        self.child.wait()?;
        // Whoever mounts there next is nothing of this one's.
        self.at = PathBuf::new();
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let runs = matches!(self.child.try_wait(), Ok(None));
        if runs {
            let _ = self.child.kill();
        }
        // In the order of `kill_9`.
        if is_mounted(&self.at).unwrap_or(false) {
            let _ = unmount(&self.at, UnmountFlags::DETACH | UnmountFlags::FORCE);
        }
        if runs {
            let _ = self.child.wait();
        }
    }
}

/// A program that holds a file of a mount open, with bytes in it that were not saved. This process cannot: what it holds open is closed once more in
/// every program it starts.
#[derive(Debug)]
pub struct Holder(Child);

impl Holder {
    /// Makes the file and writes so many bytes.
    pub fn start(path: &Path, bytes: usize) -> Outcome<Self> {
        let program = "import os, sys\n\
                       file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o644)\n\
                       os.write(file, b'x' * int(sys.argv[2]))\n\
                       print('written', flush=True)\n\
                       sys.stdin.read()\n";
        let mut command = Command::new("python3");
        command.args(["-c", program]).arg(path).arg(bytes.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no standard output")?).read_line(&mut line)?;
        let holder = Self(child);
        if line == "written\n" { Ok(holder) } else { Err("the file could not be written".into()) }
    }

    /// Has it end, and close the file.
    pub fn end(mut self) -> Outcome {
        drop(self.0.stdin.take());
        if self.0.wait()?.success() { Ok(()) } else { Err("the program that held a file open failed".into()) }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Whether anything is mounted on a folder.
pub fn is_mounted(at: &Path) -> Outcome<bool> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let at = at.to_string_lossy();
    Ok(table.lines().any(|line| line.split(' ').nth(4) == Some(&*at)))
}

/// Runs a program to its end; an error with what it said unless it succeeds.
pub fn run(command: &mut Command) -> Outcome<String> {
    let Output { status, stdout, stderr } = command.output()?;
    let said = String::from_utf8_lossy(&stdout).into_owned();
    if status.success() {
        return Ok(said);
    }
    Err(format!("{command:?}: {status}\n{said}{}", String::from_utf8_lossy(&stderr)).into())
}
