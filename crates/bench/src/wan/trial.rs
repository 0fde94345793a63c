//! One tool in one cell, or two at once: a new link, a server on the far host, the tool on the near one, and what came of it.
//!
//! Everything of the network is new in each trial: connections, routes, what the kernel remembers of a path. The clock runs from the start of the
//! tool's first process to the end of its last; servers start before, comparing comes after. Of two tools that share the link, the one that ends first ends
//! the time of both: what had arrived of the other by then is its figure.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use holdfast_wan::{Direction, Ended, Forwarded, Mismatch, Task, Wan, WanSettings, verify};

use super::drive;
use super::files::{Files, name};
use super::rows::{Cell, HEADER_EFFICIENCY};
use super::ssh;
use super::tool::{Service, Tool, fill};
use super::watch::{self, Runs, Sample};
use crate::process::{cpu_seconds, peak_rss_bytes};
use crate::report::{Course, Outcome};
use crate::shared::quote;

/// The only servers of their namespace listen here and at the next.
const PORT: u16 = 8000;
/// A server that does not listen after so long never will.
const READY_LIMIT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// Of what a tool said, the end is told.
const SAID_BYTES: usize = 400;

/// What all trials share.
pub(crate) struct Bench<'b> {
    pub(crate) files: &'b Files,
    /// How many files the rows with many have.
    pub(crate) many: usize,
    /// A folder of this measurement's own.
    pub(crate) work: &'b Path,
    /// What starts the server of files.
    pub(crate) own: &'b [String],
    pub(crate) limit: Duration,
    pub(crate) kernel_netem: bool,
    pub(crate) stop: &'b AtomicBool,
}

/// What came of a trial.
pub(crate) struct Trial {
    pub(crate) outcome: Outcome,
    /// Why it is not [`Outcome::Done`].
    pub(crate) message: Option<String>,
    pub(crate) seconds: f64,
    pub(crate) asked: u64,
    pub(crate) arrived: u64,
    pub(crate) verified: u64,
    pub(crate) client: Costs,
    pub(crate) server: Costs,
    pub(crate) to_near: Forwarded,
    pub(crate) to_far: Forwarded,
    pub(crate) unread: u64,
    pub(crate) mismatches: Vec<Mismatch>,
    /// What the link delivered over time, in MB/s of everything.
    pub(crate) course: Course,
    pub(crate) steady_mb_per_s: Option<f64>,
}

/// What processes cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Costs {
    pub(crate) cpu_s: f64,
    /// Of all that were seen at once, each at its own peak.
    pub(crate) peak_bytes: u64,
}

impl Costs {
    /// Of processes that live, and of all they started, in the steps of the kernel's clock.
    pub(super) fn of(roots: &[u32]) -> Self {
        Self { cpu_s: cpu_seconds(roots), peak_bytes: peak_rss_bytes(roots).unwrap_or(0) }
    }
}

/// How the tool's processes ended.
#[derive(Default)]
struct Client {
    seconds: f64,
    costs: Costs,
    timed_out: bool,
    /// Whether some were stopped.
    stopped: bool,
    /// Of those that ended by themselves and badly, how the first did.
    failed: Option<String>,
}

/// A tool that runs, with its server.
struct Lane<'t> {
    tool: &'t Tool,
    port: u16,
    /// What stands for the placeholders, but the file's.
    values: HashMap<&'static str, String>,
    said_server: PathBuf,
    said_client: PathBuf,
}

impl Bench<'_> {
    /// One tool, or two that share the link; what came of each. An error is what keeps the trial from being made; what a tool does not manage is its outcome.
    pub(crate) fn run(&self, tools: &[&Tool], cell: &Cell, seed: u64) -> anyhow::Result<Vec<Trial>> {
        let settings = cell.settings(seed, self.kernel_netem);
        let wan = Wan::start(&settings)?;
        let folder = tempfile::Builder::new().prefix("run-").tempdir_in(self.work).context("cannot make a folder")?;
        let (mut lanes, mut servers) = (Vec::new(), Vec::new());
        for (port, tool) in (PORT..).zip(tools) {
            set(&wan, tool, cell)?;
            let lane = self.lane(&wan, tool, cell, folder.path(), port);
            servers.push(self.serve(&wan, &lane)?);
            lanes.push(lane);
        }
        let fetched = self.fetch_all(&wan, cell, &lanes)?;
        if let Some(failure) = wan.failure() {
            bail!("the link failed: {failure}");
        }
        let mut ended = Vec::new();
        for server in servers {
            let (died, found) = (server.has_ended(), Costs::of(&[server.id()]));
            server.kill();
            ended.push((died, Costs { cpu_s: cpu_s(&server.wait()?).max(found.cpu_s), ..found }));
        }
        let (to_near, to_far) = (wan.forwarded(Direction::ToNear), wan.forwarded(Direction::ToFar));
        let unread = wan.unread()?;
        drop(wan);
        let seconds = fetched.iter().map(|(client, _)| client.seconds).fold(f64::INFINITY, f64::min);
        let alone = tools.len() == 1;
        let mut trials = Vec::new();
        for ((lane, (client, samples)), (server_died, server)) in lanes.iter().zip(fetched).zip(ended) {
            let mut trial = Trial {
                outcome: Outcome::Done,
                message: None,
                seconds,
                asked: self.files.bytes * self.count(cell) as u64,
                arrived: 0,
                verified: 0,
                client: client.costs,
                server,
                to_near,
                to_far,
                unread,
                mismatches: self.mismatches(&settings, &to_near, &to_far),
                steady_mb_per_s: watch::steady(&samples).filter(|_| alone),
                course: watch::course(&samples),
            };
            self.judge(&mut trial, lane.tool, cell, &client, &lane.values["dir"]);
            if let (Outcome::Failed, Some(message)) = (trial.outcome, &mut trial.message) {
                let said = if server_died { &lane.said_server } else { &lane.said_client };
                *message = format!("{message}; {}", end_of(said));
            }
            trials.push(trial);
        }
        Ok(trials)
    }

    /// A tool's place in a trial's folder.
    fn lane<'t>(&self, wan: &Wan, tool: &'t Tool, cell: &Cell, folder: &Path, port: u16) -> Lane<'t> {
        let work = folder.join(port.to_string());
        let values = self.values(wan, cell, &work, port);
        Lane { tool, port, values, said_server: work.join("server.log"), said_client: work.join("client.log") }
    }

    /// How many files are fetched.
    fn count(&self, cell: &Cell) -> usize {
        if cell.row.many { self.many } else { 1 }
    }

    /// What stands for the placeholders, but the file's.
    fn values(&self, wan: &Wan, cell: &Cell, folder: &Path, port: u16) -> HashMap<&'static str, String> {
        let path = |path: &Path| path.display().to_string();
        let bytes = self.files.bytes * self.count(cell) as u64;
        HashMap::from([
            ("host", wan.far().address().to_string()),
            ("port", port.to_string()),
            ("dir", path(&folder.join("files"))),
            ("work", path(folder)),
            ("source", path(&self.files.folder)),
            ("holdfast", self.own[0].clone()),
            // Two drives that share the link have a folder each.
            ("drive", path(&self.work.join(format!("drive-{port}")))),
            ("threads", cell.row.threads.to_string()),
            ("count", self.count(cell).to_string()),
            ("bytes", bytes.to_string()),
            (
                "user",
                if rustix::process::getuid().is_root() {
                    "root".to_owned()
                } else {
                    std::env::var("USER").unwrap_or_default()
                },
            ),
        ])
    }

    fn serve(&self, wan: &Wan, lane: &Lane<'_>) -> anyhow::Result<Task> {
        let Lane { tool, port, values, said_server: log, .. } = lane;
        let work = PathBuf::from(&values["work"]);
        fs::create_dir_all(&values["dir"])?;
        let command = match &tool.service {
            Service::Http => {
                let at = format!("{}:{port}", wan.far().address());
                let words =
                    self.own.iter().map(String::as_str).chain(["--as-server", &at, "--folder", &values["source"]]);
                format!("exec {}", words.map(quote).collect::<Vec<_>>().join(" "))
            }
            Service::Ssh => {
                ssh::make(&work, *port)?;
                ssh::server(&work, *port)?
            }
            Service::Drive => {
                let (program, folder, host) = (&values["holdfast"], Path::new(&values["drive"]), wan.far().address());
                drive::make(program, folder, &self.files.folder, [1, self.many], host)?;
                drive::server(program, folder, host, *port)
            }
            Service::Command(template) => fill(template, values),
        };
        let task = wan.far().start(shell(&command, &work, log)?, None).context("cannot start the server")?;
        let began = Instant::now();
        while !wan.far().listens(*port)? {
            ensure!(!task.has_ended(), "the server ended at once: {}; {command}", end_of(log));
            ensure!(began.elapsed() < READY_LIMIT, "the server does not listen at port {port}: {command}");
            std::thread::sleep(LOOK);
        }
        Ok(task)
    }

    /// Runs all tools at once, until one of them has ended.
    fn fetch_all(&self, wan: &Wan, cell: &Cell, lanes: &[Lane<'_>]) -> anyhow::Result<Vec<(Client, Vec<Sample>)>> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| self.cut(wan, cell, &over));
            let threads: Vec<_> = lanes.iter().map(|lane| scope.spawn(|| self.fetch(wan, cell, lane, &over))).collect();
            let ends = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            ends.map(|end| end.map_err(|_| anyhow::anyhow!("the thread of a tool panicked"))?).collect()
        })
    }

    /// Takes the link down for as long as the cell says, when a third has arrived. Nobody waits for it when all is over.
    fn cut(&self, wan: &Wan, cell: &Cell, over: &AtomicBool) {
        let third = self.files.bytes * self.count(cell) as u64 / 3;
        let arrived = || wan.forwarded(Direction::ToNear).link.delivered.bytes;
        let wait = |until: &dyn Fn() -> bool| {
            while !over.load(Ordering::Relaxed) && !until() {
                std::thread::sleep(LOOK);
            }
        };
        if cell.outage().is_zero() {
            return;
        }
        wait(&|| arrived() >= third);
        wan.cut(true);
        let began = Instant::now();
        wait(&|| began.elapsed() >= cell.outage());
        wan.cut(false);
    }

    /// Runs the tool, for all files at once or for so many at a time; until it is `over`, which its end makes it for all.
    fn fetch(
        &self,
        wan: &Wan,
        cell: &Cell,
        lane: &Lane<'_>,
        over: &AtomicBool,
    ) -> anyhow::Result<(Client, Vec<Sample>)> {
        let Lane { tool, values, said_client: log, .. } = lane;
        let runs = if tool.for_each_file() { self.count(cell) } else { 1 };
        let workers = runs.min(cell.row.threads as usize);
        let all = Runs::new(runs, self.limit + cell.outage());
        let work = PathBuf::from(&values["work"]);
        let one = |index: usize| -> io::Result<Option<(Ended, f64)>> {
            let mut values = values.clone();
            values.insert("file", name(index));
            values.insert("dest", Path::new(&values["dir"]).join(name(index)).display().to_string());
            all.one(wan.near(), shell(&fill(&tool.template, &values), &work, log)?)
        };
        let work = || -> io::Result<Client> {
            let mut client = Client::default();
            loop {
                let Some(index) = all.next() else { return Ok(client) };
                let Some((ended, seen_s)) = one(index)? else {
                    client.timed_out = true;
                    return Ok(client);
                };
                client.add(&ended, seen_s);
            }
        };
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| all.watch(wan, &[self.stop, over]));
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let ends: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            let seconds = all.end();
            over.store(true, Ordering::Relaxed);
            let (samples, peak_bytes) = watcher.join().map_err(|_| anyhow::anyhow!("the watcher panicked"))?;
            let mut sum = Client { seconds, costs: Costs { cpu_s: 0.0, peak_bytes }, ..Client::default() };
            for end in ends {
                sum.join(end.map_err(|_| anyhow::anyhow!("a worker panicked"))?.context("cannot run the tool")?);
            }
            Ok((sum, samples))
        })
    }

    fn mismatches(&self, settings: &WanSettings, to_near: &Forwarded, to_far: &Forwarded) -> Vec<Mismatch> {
        if self.kernel_netem {
            return Vec::new();
        }
        [verify(&settings.to_near, &to_near.link), verify(&settings.to_far, &to_far.link)].concat()
    }

    /// Looks at what arrived, and says what that is.
    fn judge(&self, trial: &mut Trial, tool: &Tool, cell: &Cell, client: &Client, folder: &str) {
        let mut wrong = Vec::new();
        if tool.fetches {
            let found = self.files.compare(Path::new(folder), self.count(cell));
            (trial.arrived, trial.verified, wrong) = (found.bytes, found.verified, found.wrong);
        } else if client.failed.is_none() && !client.timed_out {
            trial.arrived = trial.asked;
        } else {
            // A meter that was killed says nothing; the link knows what came through it.
            let delivered = trial.to_near.link.delivered.bytes as f64 * HEADER_EFFICIENCY;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a number of bytes")]
            let delivered = delivered as u64;
            trial.arrived = delivered.min(trial.asked);
        }
        (trial.outcome, trial.message) = if client.timed_out {
            (
                Outcome::Unfinished,
                Some(format!("not finished after {:.0} s", (self.limit + cell.outage()).as_secs_f64())),
            )
        } else if self.stop.load(Ordering::Relaxed) {
            (Outcome::Failed, Some("interrupted".to_owned()))
        } else if client.stopped {
            (Outcome::Unfinished, Some("stopped when the tool beside it had ended".to_owned()))
        } else if let Some(how) = &client.failed {
            (Outcome::Failed, Some(how.clone()))
        } else if !wrong.is_empty() {
            (Outcome::Wrong, Some(format!("wrong content: {}", wrong.join(", "))))
        } else if tool.fetches && trial.verified < trial.asked {
            (
                Outcome::Failed,
                Some(format!("it ended with success, and {} of {} bytes are there", trial.arrived, trial.asked)),
            )
        } else {
            (Outcome::Done, None)
        };
    }
}

/// What both hosts' kernels are told before anything runs.
fn set(wan: &Wan, tool: &Tool, cell: &Cell) -> anyhow::Result<()> {
    for host in [wan.near(), wan.far()] {
        host.set_congestion(&tool.congestion)?;
    }
    if let Some(bytes) = cell.row.harm.window {
        // On the host that fetches, as in the report. The buffers of `net.core` are the machine's and not a namespace's.
        let value = format!("{bytes} {bytes} {bytes}");
        wan.near().set("net.ipv4.tcp_rmem", &value)?;
        wan.near().set("net.ipv4.tcp_wmem", &value)?;
    }
    Ok(())
}

impl Client {
    fn add(&mut self, ended: &Ended, seen_s: f64) {
        self.costs.cpu_s += cpu_s(ended).max(seen_s);
        self.timed_out |= ended.timed_out;
        self.stopped |= ended.killed;
        if !ended.success() && !ended.timed_out && !ended.killed && self.failed.is_none() {
            self.failed = Some(ended.words());
        }
    }

    /// Adds what ran beside it.
    fn join(&mut self, other: Self) {
        self.costs.cpu_s += other.costs.cpu_s;
        self.timed_out |= other.timed_out;
        self.stopped |= other.stopped;
        self.failed = self.failed.take().or(other.failed);
    }
}

/// CPU seconds. Of what was killed only the first process's are in it.
fn cpu_s(ended: &Ended) -> f64 {
    ended.user_s + ended.system_s
}

/// A command of the shell, whose output goes to a file.
fn shell(text: &str, folder: &Path, log: &Path) -> io::Result<Command> {
    let log: File = OpenOptions::new().create(true).append(true).open(log)?;
    let mut command = Command::new("sh");
    command.arg("-c").arg(text).current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // What was found out in one trial is not to be known in the next.
    command.env("XDG_STATE_HOME", folder.join("state"));
    // Whatever the user's proxies are, they are not in the namespace.
    for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(name);
    }
    Ok(command)
}

/// The end of what was said, on one line.
fn end_of(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(SAID_BYTES)..]).into_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() { "it said nothing".to_owned() } else { format!("it said: {}", words.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_told_from_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        assert_eq!(end_of(&log), "it said nothing");
        fs::write(&log, format!("{}\n the\n end ", "x".repeat(1000))).expect("written");
        assert!(end_of(&log).ends_with("x the end") && end_of(&log).len() < 450);
    }
}
