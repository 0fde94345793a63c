//! The built program as a server under test.
//!
//! [`TestServer::start`] runs `holdfast serve` on a free port, waits until it has written its
//! address, and stops it when dropped. Its log goes to a file that is printed when the test fails.
//! The program is the one named by `HOLDFAST_BIN`, else the newest of the builds `release`, `ci` and `debug`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::http::{Client, encode_path};

/// How long a start may take: recovery after a power cut on a busy machine included.
const START_LIMIT: Duration = Duration::from_mins(1);
/// How long a clean stop may take: longer than the program's own limit for running uploads.
const STOP_LIMIT: Duration = Duration::from_mins(2);
/// How often a start or stop is looked at: not noticed by a person, not felt by the machine.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Bytes of the log that a failing test prints.
const SHOWN_LOG_BYTES: usize = 16 << 10;

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    program: Option<PathBuf>,
    data: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

/// A running server.
#[derive(Debug)]
pub struct TestServer {
    options: ServerOptions,
    child: Child,
    address: SocketAddr,
    scratch: tempfile::TempDir,
}

/// The program under test.
pub fn program() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("HOLDFAST_BIN") {
        return Ok(PathBuf::from(path));
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| workspace.join("target"));
    let built = ["release", "ci", "debug"].map(|profile| target.join(profile).join("holdfast"));
    let age = |path: &PathBuf| fs::metadata(path).and_then(|m| m.modified()).ok();
    let newest = built.into_iter().filter(|path| age(path).is_some()).max_by_key(age);
    newest.ok_or_else(|| {
        let message = "no holdfast program: run `cargo build`, or set HOLDFAST_BIN";
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}

impl ServerOptions {
    /// A server on the data folder `data`.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self { program: None, data: data.into(), arguments: Vec::new(), environment: Vec::new() }
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// With another program.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// With one more argument after those of `serve`.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// With an environment variable.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it and waits until it answers.
    pub fn start(self) -> io::Result<TestServer> {
        let scratch = tempfile::tempdir()?;
        let address_file = scratch.path().join("address");
        let log = File::create(scratch.path().join("log"))?;
        let mut command = self.command()?;
        command
            .arg("serve")
            .arg("--data")
            .arg(&self.data)
            .args(["--listen", "127.0.0.1:0", "--address-file"])
            .arg(&address_file)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = command.spawn()?;
        let mut server = TestServer { options: self, child, address: SocketAddr::from(([127, 0, 0, 1], 0)), scratch };
        // A failure drops the server, which kills the process.
        server.address = server.wait_for_address(&address_file)?;
        Ok(server)
    }

    /// The program with its environment, without arguments. No `HOLDFAST_…` variable of the test comes through.
    pub fn command(&self) -> io::Result<Command> {
        let program = match &self.program {
            Some(path) => path.clone(),
            None => program()?,
        };
        let mut command = Command::new(program);
        // Variables of tests and of whoever runs them: the program takes each for one of its settings.
        let settings = |name: &std::ffi::OsString| name.as_encoded_bytes().starts_with(b"HOLDFAST_");
        for name in std::env::vars_os().map(|(name, _)| name).filter(settings) {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(n, v)| (n, v)));
        Ok(command)
    }

    /// Runs another command on the data folder (`check`, `reclaim`, `account list`) and returns
    /// what it said, whatever its status. Works with and without a running server.
    pub fn run(&self, arguments: &[&str], input: &[u8]) -> io::Result<Output> {
        let mut command = self.command()?;
        command.args(arguments).arg("--data").arg(&self.data);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(input) {
                // A command that failed early did not read its input; its status says why.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
                _ => {}
            }
        }
        child.wait_with_output()
    }

    /// Runs another command and fails unless it succeeds; returns its standard output.
    pub fn run_ok(&self, arguments: &[&str], input: &[u8]) -> io::Result<String> {
        let output = self.run(arguments, input)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = format!(
            "{arguments:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Err(io::Error::other(message))
    }

    /// Makes an account with its home space.
    pub fn add_account(&self, name: &str, password: &str) -> io::Result<()> {
        let arguments = ["account", "add", name, "--password-file", "-"];
        self.run_ok(&arguments, password.as_bytes()).map(|_| ())
    }
}

impl TestServer {
    /// Starts the program on a data folder.
    pub fn start(data: impl Into<PathBuf>) -> io::Result<Self> {
        ServerOptions::new(data).start()
    }

    /// How it was started; also runs other commands on the same data.
    pub fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// Starts the same server again on the same data, after [`Self::kill_9`] or [`Self::terminate`].
    pub fn start_again(&self) -> io::Result<Self> {
        self.options.clone().start()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every address it listens on, in the order of its address file: the drive's first, then those of sites.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let text = fs::read_to_string(self.scratch.path().join("address"))?;
        let address =
            |line: &str| line.split_once("://").map_or(line, |(_, rest)| rest).parse().map_err(io::Error::other);
        text.lines().map(address).collect()
    }

    /// Its root as a URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The path of a space in the `WebDAV` tree.
    pub fn dav_path(space: &str) -> String {
        format!("/dav/{space}")
    }

    /// The URL of a space in the `WebDAV` tree.
    pub fn dav_url(&self, space: &str) -> String {
        format!("{}{}", self.url(), encode_path(&Self::dav_path(space)))
    }

    /// A client without an account.
    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// A client signed in as an account.
    pub fn client_of(&self, name: &str, password: &str) -> Client {
        self.client().with_account(name, password)
    }

    /// Makes an account with its home space, while the server runs.
    pub fn add_account(&self, name: &str, password: &str) -> io::Result<()> {
        self.options.add_account(name, password)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The largest resident set it ever had, in bytes.
    pub fn rss_peak(&self) -> io::Result<u64> {
        memory(self.pid(), "VmHWM:")
    }

    /// What of its resident set are pages of files, in bytes: of its own program, which has more of them if it was compiled without optimisation.
    pub fn rss_file(&self) -> io::Result<u64> {
        memory(self.pid(), "RssFile:")
    }

    /// Its resident set now, in bytes.
    pub fn rss(&self) -> io::Result<u64> {
        memory(self.pid(), "VmRSS:")
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        fs::read(self.scratch.path().join("log"))
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it without warning and waits until it is gone.
    pub fn kill_9(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }

    /// Asks it to stop (SIGTERM) and waits for its status.
    pub fn terminate(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait()
    }

    /// Sends it any signal. Where that is to stop it, all of it stands still when this returns: its threads are told one after the other.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        kill_process(Pid::from_child(&self.child), signal)?;
        let deadline = Instant::now() + STOP_LIMIT;
        while signal == Signal::STOP && !self.stands_still()? {
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "a thread of it does not stop"));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }

    /// Whether no thread of it runs (`proc_pid_stat(5)`: the state is what follows the name in brackets).
    fn stands_still(&self) -> io::Result<bool> {
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // One that ends meanwhile runs no more.
            let stat = fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            if state.is_some_and(|state| !"TtZX".contains(state)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for it to end by itself.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let deadline = Instant::now() + STOP_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                let message = format!("it did not stop within {STOP_LIMIT:?}\n{}", self.log());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn wait_for_address(&mut self, file: &Path) -> io::Result<SocketAddr> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Some(address) = read_address(file) {
                return Ok(address);
            }
            if let Some(status) = self.child.try_wait()? {
                let message = format!("it ended before it listened: {status}\n{}", self.log());
                return Err(io::Error::other(message));
            }
            if Instant::now() > deadline {
                let message = format!("it did not listen within {START_LIMIT:?}\n{}", self.log());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

/// The first address in a finished address file, with or without a scheme.
fn read_address(file: &Path) -> Option<SocketAddr> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().next().unwrap_or_default();
    let address = line.split_once("://").map_or(line, |(_, rest)| rest);
    address.trim_end_matches('/').parse().ok()
}

/// Reads a figure of proc(5) `status` of a process, which is in KiB there and in bytes here.
///
/// # Errors
/// If the process is gone.
pub fn memory(pid: u32, field: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("the process is gone"))
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // An error means that it has ended already.
        self.kill_9().ok();
        if std::thread::panicking() {
            let log = self.log();
            let mut from = log.len().saturating_sub(SHOWN_LOG_BYTES);
            while !log.is_char_boundary(from) {
                from += 1;
            }
            eprintln!("log of the server under test:\n{}", &log[from..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// One test at a time: a process that another test starts while a script is being written would
    /// hold the script open for writing, and it could not be run.
    static ONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

    /// A program that treats its arguments as `holdfast` does and then runs `then`.
    fn stand_in(dir: &Path, then: &str) -> io::Result<ServerOptions> {
        let path = dir.join("program");
        fs::write(&path, format!("#!/bin/sh\n{then}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(ServerOptions::new(dir).program(path))
    }

    const LISTEN: &str = "echo started with \"$@\"; echo 127.0.0.1:4321 > \"$7\"; exec sleep 1000";

    #[test]
    fn a_server_is_known_by_its_address_and_stops_when_asked_or_killed() -> io::Result<()> {
        let _one = ONE.lock();
        let dir = tempfile::tempdir()?;
        let options = stand_in(dir.path(), LISTEN)?.argument("--more");
        let mut server = options.start()?;
        assert_eq!(server.url(), "http://127.0.0.1:4321");
        assert_eq!(server.dav_url("a b"), "http://127.0.0.1:4321/dav/a%20b");
        assert!(server.log().contains("--address-file") && server.log().contains("--more"));
        assert!(server.rss_peak()? > 0);
        assert!(!server.terminate()?.success());
        let mut again = server.start_again()?;
        assert!(again.is_running());
        again.kill_9()?;
        assert!(!again.is_running());
        Ok(())
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_log() -> io::Result<()> {
        let _one = ONE.lock();
        let dir = tempfile::tempdir()?;
        let failure = stand_in(dir.path(), "echo the disk is on fire; exit 3")?.start();
        let message = failure.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains("on fire") && message.contains('3'), "{message}");
        Ok(())
    }

    #[test]
    fn accounts_are_made_with_the_password_on_standard_input() -> io::Result<()> {
        let _one = ONE.lock();
        let dir = tempfile::tempdir()?;
        let script = "echo \"$@\" > \"$7.args\"; cat > \"$7.password\"";
        let options = ServerOptions::new(dir.path().join("data"));
        let program = stand_in(dir.path(), script)?.program;
        ServerOptions { program, ..options }.add_account("ann", "secret")?;
        assert_eq!(fs::read_to_string(dir.path().join("data.password"))?, "secret");
        Ok(())
    }
}
