//! A drive at the other end of an emulated bad network ([`holdfast_wan`]), and transfers with it from the near end.
//!
//! Both ends are network namespaces, for which one has to be root: of the machine, or of a user namespace ([`as_root`]).

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::ServerOptions;
use holdfast_testkit::services::process::is_root;
use holdfast_wan::{Direction, Forwarded, Impairments, Queue, Wan, WanSettings};
use rustix::process::Signal;
use serde_json::Value;

use crate::Outcome;
use crate::rig::{NAME, Rig, make_token};

/// Where the drive listens: it has its namespace alone.
const PORT: u16 = 8443;
/// What does not come within this time does not come.
const COMES: Duration = Duration::from_mins(2);
const LOOK: Duration = Duration::from_millis(10);

/// Runs a test as root, or as what the kernel takes for it: in a process of its own, since one that has threads cannot become that.
///
/// # Errors
/// What the test says, or that it failed there.
pub fn as_root(name: &str, test: impl FnOnce() -> Outcome) -> Outcome {
    if is_root() {
        return test();
    }
    let own = std::env::current_exe()?;
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(own)
        .args(["--exact", name, "--nocapture"])
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("{name} fails as root of a user namespace").into()) }
}

/// A link of so many megabits a second, with a delay each way, and a queue that is full after a tenth of a second.
pub fn link(mbit: u64, delay: Duration) -> Impairments {
    let rate = mbit * 125_000;
    let queue = Queue { packets: 1_000, bytes: Some(rate / 10) };
    Impairments { rate: Some(rate), delay, queue, ..Impairments::default() }
}

/// A drive far away.
#[derive(Debug)]
pub struct Far {
    /// The drive; its server is in the far namespace.
    pub rig: Rig,
    /// The network.
    pub wan: Wan,
    token: PathBuf,
}

impl Far {
    /// A drive behind a link that is the same both ways.
    ///
    /// # Errors
    /// If namespaces cannot be had, or the server does not start.
    pub fn new(both: Impairments) -> Outcome<Self> {
        Self::with(both, |options| options)
    }

    /// One that is served with changed options.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with(both: Impairments, change: impl FnOnce(ServerOptions) -> ServerOptions + Send) -> Outcome<Self> {
        let wan = Wan::start(&WanSettings { to_near: both, to_far: both, seed: 3, ..WanSettings::default() })?;
        let at = wan.far().address().to_string();
        let rig = wan.far().run(|| {
            Rig::with(|options| {
                let options = change(options).argument("--tls-self-signed").argument("--tls-name").argument(&at);
                options.argument("--listen").argument(&format!("https://{at}:{PORT}"))
            })
        })??;
        let token = rig.scratch().join("token");
        fs::write(&token, make_token(rig.server.options())?)?;
        Ok(Self { rig, wan, token })
    }

    /// The address of a path in the account's space.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}:{PORT}/{NAME}/{path}", self.wan.far().address())
    }

    fn command(&self, words: &[impl AsRef<OsStr>]) -> Outcome<Command> {
        let mut command = self.rig.server.options().command()?;
        command.args(words).arg("--token-file").arg(&self.token).arg("--json");
        command.arg("--ca").arg(self.rig.data().join("tls/self-signed.pem"));
        command.env("XDG_STATE_HOME", self.state()).stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(command)
    }

    fn state(&self) -> PathBuf {
        self.rig.scratch().join("state")
    }

    /// Puts a file of random bytes into the space without the bad network; answers where it is on this machine as well.
    ///
    /// # Errors
    /// If it does not arrive.
    pub fn stock(&self, name: &str, bytes: usize) -> Outcome<PathBuf> {
        let file = self.make(name, bytes)?;
        self.without(&["push", &file.display().to_string(), &self.url("")])?;
        Ok(file)
    }

    /// What a file of the space is, got without the bad network.
    ///
    /// # Errors
    /// If it cannot be got.
    pub fn fetch(&self, name: &str) -> Outcome<Vec<u8>> {
        let folder = self.rig.scratch().join("fetched");
        self.without(&["pull", &self.url(name), &folder.display().to_string()])?;
        Ok(fs::read(folder.join(name))?)
    }

    fn without(&self, words: &[&str]) -> Outcome {
        let mut command = self.command(words)?;
        command.args(["--plane", "tcp"]);
        let output = self.wan.far().run(|| command.output())??;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{words:?} without the bad network: {}", String::from_utf8_lossy(&output.stdout)).into())
    }

    /// A file of random bytes on this machine.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn make(&self, name: &str, bytes: usize) -> Outcome<PathBuf> {
        let mut content = vec![0; bytes];
        Prng::new(name.len() as u64 + bytes as u64).fill(&mut content);
        let folder = self.rig.scratch().join("files");
        fs::create_dir_all(&folder)?;
        let file = folder.join(name);
        fs::write(&file, content)?;
        Ok(file)
    }

    /// Starts a command over the bad network.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(&self, words: &[impl AsRef<OsStr>]) -> Outcome<Moving> {
        let mut command = self.command(words)?;
        let mut child = self.wan.near().run(|| command.spawn())??;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        Ok(Moving { child, said: Some(thread::spawn(|| lines.collect())) })
    }

    /// Runs it to its end; answers the last that it says.
    ///
    /// # Errors
    /// If it fails.
    pub fn run(&self, words: &[impl AsRef<OsStr>]) -> Outcome<Value> {
        self.start(words)?.end()
    }

    /// What came over the link to the near end, and to the far one.
    pub fn came(&self) -> [Forwarded; 2] {
        [Direction::ToNear, Direction::ToFar].map(|direction| self.wan.forwarded(direction))
    }

    /// Waits until so many bytes more came to the near end, or to the far one, in packets of both protocols.
    ///
    /// # Errors
    /// If they do not come.
    pub fn until_came(&self, to: Direction, bytes: u64) -> Outcome {
        let came = || {
            let forwarded = self.wan.forwarded(to);
            forwarded.tcp.bytes + forwarded.udp.bytes
        };
        let (began, until) = (Instant::now(), came() + bytes);
        while came() < until {
            if began.elapsed() > COMES {
                return Err(format!("{} of {until} bytes came", came()).into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// What is remembered of the server's planes: which, why, and when that was found out.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn remembered(&self) -> Outcome<Option<[String; 3]>> {
        let Some(file) = self.memory()? else { return Ok(None) };
        let text = fs::read_to_string(file)?;
        let lines: Vec<&str> = text.lines().collect();
        let [_, _, plane, why, at, _] = lines[..] else { return Err(format!("not a memory: {text:?}").into()) };
        Ok(Some([plane, why, at].map(str::to_owned)))
    }

    /// Has so much time go by for what is remembered.
    ///
    /// # Errors
    /// If nothing is.
    pub fn age_memory(&self, by: Duration) -> Outcome {
        let file = self.memory()?.ok_or("nothing is remembered")?;
        let [_, _, at] = self.remembered()?.ok_or("nothing is remembered")?;
        let older = at.parse::<u64>()?.checked_sub(by.as_secs()).ok_or("it is as old as time")?;
        Ok(fs::write(&file, fs::read_to_string(&file)?.replace(&at, &older.to_string()))?)
    }

    /// Has something else remembered, as found out just now.
    ///
    /// # Errors
    /// If nothing is.
    pub fn misremember(&self, plane: &str, why: &str) -> Outcome {
        let file = self.memory()?.ok_or("nothing is remembered")?;
        let text = fs::read_to_string(&file)?;
        let mut lines: Vec<&str> = text.lines().collect();
        lines[2..4].copy_from_slice(&[plane, why]);
        Ok(fs::write(&file, lines.join("\n") + "\n")?)
    }

    fn memory(&self) -> Outcome<Option<PathBuf>> {
        let folder = self.state().join("holdfast/planes");
        if !folder.exists() {
            return Ok(None);
        }
        Ok(fs::read_dir(folder)?.next().transpose()?.map(|entry| entry.path()))
    }
}

/// A command that runs.
#[derive(Debug)]
pub struct Moving {
    child: Child,
    /// What it says is read at once: it waits for whoever does not read.
    said: Option<JoinHandle<io::Result<Vec<String>>>>,
}

impl Moving {
    /// Waits for its end; answers the last that it says.
    ///
    /// # Errors
    /// If it fails.
    pub fn end(mut self) -> Outcome<Value> {
        let status = self.child.wait()?;
        let said = self.said()?;
        match said.last() {
            Some(last) if status.success() => Ok(serde_json::from_str(last)?),
            _ => Err(format!("it ended with {status}: {}", said.join("\n")).into()),
        }
    }

    /// Kills it; answers whether it had not ended before.
    ///
    /// # Errors
    /// If it cannot be killed, or it failed before.
    pub fn kill_9(&mut self) -> Outcome<bool> {
        self.child.kill()?;
        let status = self.child.wait()?;
        if status.success() || status.signal() == Some(Signal::KILL.as_raw()) {
            return Ok(!status.success());
        }
        Err(format!("it ended with {status}: {}", self.said()?.join("\n")).into())
    }

    /// Ends it; answers what it said beside its progress, after which line that was, and how far it was.
    ///
    /// # Errors
    /// If it cannot be ended.
    pub fn last_words(mut self) -> Outcome<String> {
        self.child.kill()?;
        let said = self.said()?;
        let is_kept = |at: usize, line: &str| at + 1 == said.len() || !line.contains("\"event\":\"progress\"");
        let kept = said.iter().enumerate().filter(|(at, line)| is_kept(*at, line));
        Ok(kept.map(|(at, line)| format!("{at}: {line}")).collect::<Vec<_>>().join("\n"))
    }

    fn said(&mut self) -> Outcome<Vec<String>> {
        let said = self.said.take().ok_or("it was asked already")?;
        Ok(said.join().map_err(|_| "the reader of what it says failed")??)
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fails unless both files have the same content.
///
/// # Errors
/// If one cannot be read, or they differ.
pub fn expect_same(one: &Path, other: &Path) -> Outcome {
    if fs::read(one)? == fs::read(other)? {
        return Ok(());
    }
    Err(format!("{} and {} differ", one.display(), other.display()).into())
}
