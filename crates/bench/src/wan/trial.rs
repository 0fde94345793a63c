//! One tool in one cell: a new link, a server on the far host, the tool on the near one, and what came of it.
//!
//! Everything of the network is new in each trial: connections, routes, what the kernel remembers of a path. The clock runs from the start of the
//! tool's first process to the end of its last; servers start before, comparing comes after.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use holdfast_wan::{Direction, Ended, Forwarded, Host, Killer, Mismatch, Task, Wan, WanSettings, verify};

use super::files::{Files, name};
use super::rows::{Cell, HEADER_EFFICIENCY};
use super::ssh;
use super::tool::{Service, Tool, fill};
use crate::process::peak_rss_bytes;
use crate::report::{Course, CoursePoint, Outcome};
use crate::shared::quote;

/// The only servers of their namespace listen here.
const PORT: u16 = 8000;
/// A server that does not listen after so long never will.
const READY_LIMIT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// What arrives is looked at so often, and ever less often in long trials.
const SAMPLE: Duration = Duration::from_millis(100);
const SAMPLES_MAX: usize = 400;
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
    /// Of all its processes that were seen at once, each at its own peak.
    pub(crate) peak_bytes: u64,
}

/// How the tool's processes ended.
#[derive(Default)]
struct Client {
    seconds: f64,
    costs: Costs,
    timed_out: bool,
    /// Of those that ended by themselves and badly, how the first did.
    failed: Option<String>,
}

impl Bench<'_> {
    /// An error is what keeps the trial from being made; what the tool does not manage is its outcome.
    pub(crate) fn run(&self, tool: &Tool, cell: &Cell, seed: u64) -> anyhow::Result<Trial> {
        let settings = cell.settings(seed, self.kernel_netem);
        let wan = Wan::start(&settings)?;
        set(&wan, tool, cell)?;
        let folder = tempfile::Builder::new().prefix("run-").tempdir_in(self.work).context("cannot make a folder")?;
        let values = self.values(&wan, cell, folder.path());
        let (said_server, said_client) = (folder.path().join("server.log"), folder.path().join("client.log"));
        let server = self.serve(&wan, tool, &values, &said_server)?;
        let (client, samples) = self.fetch(&wan, tool, cell, &values, &said_client)?;
        if let Some(failure) = wan.failure() {
            bail!("the link failed: {failure}");
        }
        let (server_died, peak_server) = (server.has_ended(), peak_rss_bytes(&[server.id()]).unwrap_or(0));
        server.kill();
        let server = Costs { cpu_s: costs(&server.wait()?), peak_bytes: peak_server };
        let (to_near, to_far) = (wan.forwarded(Direction::ToNear), wan.forwarded(Direction::ToFar));
        let unread = wan.unread()?;
        drop(wan);
        let mut trial = Trial {
            outcome: Outcome::Done,
            message: None,
            seconds: client.seconds,
            asked: self.files.bytes * self.count(cell) as u64,
            arrived: 0,
            verified: 0,
            client: client.costs,
            server,
            to_near,
            to_far,
            unread,
            mismatches: self.mismatches(&settings, &to_near, &to_far),
            steady_mb_per_s: steady(&samples),
            course: course(&samples),
        };
        self.judge(&mut trial, tool, cell, &client, &values["dir"]);
        if let (Outcome::Failed, Some(message)) = (trial.outcome, &mut trial.message) {
            let said = if server_died { &said_server } else { &said_client };
            *message = format!("{message}; {}", end_of(said));
        }
        Ok(trial)
    }

    /// How many files are fetched.
    fn count(&self, cell: &Cell) -> usize {
        if cell.row.many { self.many } else { 1 }
    }

    /// What stands for the placeholders, but the file's.
    fn values(&self, wan: &Wan, cell: &Cell, folder: &Path) -> HashMap<&'static str, String> {
        let path = |path: &Path| path.display().to_string();
        let bytes = self.files.bytes * self.count(cell) as u64;
        HashMap::from([
            ("host", wan.far().address().to_string()),
            ("port", PORT.to_string()),
            ("dir", path(&folder.join("files"))),
            ("work", path(folder)),
            ("source", path(&self.files.folder)),
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

    fn serve(&self, wan: &Wan, tool: &Tool, values: &HashMap<&str, String>, log: &Path) -> anyhow::Result<Task> {
        let work = PathBuf::from(&values["work"]);
        fs::create_dir_all(&values["dir"])?;
        let command = match &tool.service {
            Service::Http => {
                let at = format!("{}:{PORT}", wan.far().address());
                let words =
                    self.own.iter().map(String::as_str).chain(["--as-server", &at, "--folder", &values["source"]]);
                format!("exec {}", words.map(quote).collect::<Vec<_>>().join(" "))
            }
            Service::Ssh => {
                ssh::make(&work, PORT)?;
                ssh::server(&work, PORT)?
            }
            Service::Command(template) => fill(template, values),
        };
        let task = wan.far().start(shell(&command, &work, log)?, None).context("cannot start the server")?;
        let began = Instant::now();
        while !wan.far().listens(PORT)? {
            ensure!(!task.has_ended(), "the server ended at once: {}; {command}", end_of(log));
            ensure!(began.elapsed() < READY_LIMIT, "the server does not listen at port {PORT}: {command}");
            std::thread::sleep(LOOK);
        }
        Ok(task)
    }

    /// Runs the tool, for all files at once or for so many at a time.
    fn fetch(
        &self,
        wan: &Wan,
        tool: &Tool,
        cell: &Cell,
        values: &HashMap<&'static str, String>,
        log: &Path,
    ) -> anyhow::Result<(Client, Vec<(f64, u64)>)> {
        let runs = if tool.for_each_file() { self.count(cell) } else { 1 };
        let workers = runs.min(cell.row.threads as usize);
        let all = Runs {
            began: Instant::now(),
            limit: self.limit,
            next: AtomicUsize::new(0),
            tasks: Mutex::default(),
            over: AtomicBool::new(false),
        };
        let work = PathBuf::from(&values["work"]);
        let one = |index: usize| -> io::Result<Option<Ended>> {
            let mut values = values.clone();
            values.insert("file", name(index));
            values.insert("dest", Path::new(&values["dir"]).join(name(index)).display().to_string());
            all.one(wan.near(), shell(&fill(&tool.template, &values), &work, log)?)
        };
        let work = || -> io::Result<Client> {
            let mut client = Client::default();
            loop {
                let index = all.next.fetch_add(1, Ordering::Relaxed);
                if index >= runs {
                    return Ok(client);
                }
                let Some(ended) = one(index)? else {
                    client.timed_out = true;
                    return Ok(client);
                };
                client.add(&ended);
            }
        };
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| all.watch(wan, self.stop));
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let ends: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            let seconds = all.began.elapsed().as_secs_f64();
            all.over.store(true, Ordering::Relaxed);
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
            (Outcome::Unfinished, Some(format!("not finished after {:.0} s", self.limit.as_secs_f64())))
        } else if self.stop.load(Ordering::Relaxed) {
            (Outcome::Failed, Some("interrupted".to_owned()))
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

/// The runs of a tool in one trial.
struct Runs {
    began: Instant,
    limit: Duration,
    next: AtomicUsize,
    /// Those that were started, by their processes.
    tasks: Mutex<Vec<(u32, Killer)>>,
    over: AtomicBool,
}

impl Runs {
    /// Runs one command to its end; `None` if there is no time left for it.
    fn one(&self, host: &Host, command: Command) -> io::Result<Option<Ended>> {
        let left = self.limit.saturating_sub(self.began.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        let task = host.start(command, Some(left))?;
        self.tasks().push((task.id(), task.killer()?));
        let id = task.id();
        let ended = task.wait();
        self.tasks().retain(|(task, _)| *task != id);
        ended.map(Some)
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<(u32, Killer)>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until it is over: samples of what the link delivered, in seconds and bytes, and the peak of what the processes that run at once have
    /// of memory; and the end of all runs, should the user wish it.
    fn watch(&self, wan: &Wan, stop: &AtomicBool) -> (Vec<(f64, u64)>, u64) {
        let (mut samples, mut interval, mut next, mut peak_bytes) = (vec![(0.0, 0)], SAMPLE, SAMPLE, 0);
        while !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            if stop.load(Ordering::Relaxed) {
                // Whoever starts another one meanwhile is met the next time.
                self.next.store(usize::MAX / 2, Ordering::Relaxed);
                self.tasks().iter().for_each(|(_, killer)| killer.kill());
            }
            if self.began.elapsed() < next {
                continue;
            }
            next += interval;
            let running: Vec<u32> = self.tasks().iter().map(|(id, _)| *id).collect();
            peak_bytes = peak_bytes.max(peak_rss_bytes(&running).unwrap_or(0));
            samples.push((self.began.elapsed().as_secs_f64(), wan.forwarded(Direction::ToNear).link.delivered.bytes));
            if samples.len() > SAMPLES_MAX {
                // Every second one; the first is the beginning.
                samples = samples.into_iter().step_by(2).collect();
                interval *= 2;
            }
        }
        samples.push((self.began.elapsed().as_secs_f64(), wan.forwarded(Direction::ToNear).link.delivered.bytes));
        (samples, peak_bytes)
    }
}

impl Client {
    fn add(&mut self, ended: &Ended) {
        self.costs.cpu_s += costs(ended);
        self.timed_out |= ended.timed_out;
        if !ended.success() && !ended.timed_out && self.failed.is_none() {
            self.failed = Some(ended.words());
        }
    }

    /// Adds what ran beside it.
    fn join(&mut self, other: Self) {
        self.costs.cpu_s += other.costs.cpu_s;
        self.timed_out |= other.timed_out;
        self.failed = self.failed.take().or(other.failed);
    }
}

/// CPU seconds.
fn costs(ended: &Ended) -> f64 {
    ended.user_s + ended.system_s
}

/// A command of the shell, whose output goes to a file.
fn shell(text: &str, folder: &Path, log: &Path) -> io::Result<Command> {
    let log: File = OpenOptions::new().create(true).append(true).open(log)?;
    let mut command = Command::new("sh");
    command.arg("-c").arg(text).current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
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

/// Rates between samples.
fn course(samples: &[(f64, u64)]) -> Course {
    let piece_s = samples.get(1).map_or(0.0, |sample| sample.0);
    let points = samples.windows(2).filter(|pair| pair[1].0 > pair[0].0).map(|pair| {
        let rate = (pair[1].1 - pair[0].1) as f64 / 1e6 / (pair[1].0 - pair[0].0);
        CoursePoint { at_s: pair[0].0, rate, errors_per_s: 0.0, p50_ms: None, p99_ms: None }
    });
    Course { piece_s, points: points.collect() }
}

/// The rate between the first tenth and the last: without the start and the tail.
fn steady(samples: &[(f64, u64)]) -> Option<f64> {
    let all = samples.last()?.1;
    // Between two samples it is taken to be even.
    let when = |bytes: f64| {
        let place = samples.iter().position(|sample| sample.1 as f64 >= bytes)?;
        let (before, after) = (samples.get(place.checked_sub(1)?)?, samples[place]);
        let share = (bytes - before.1 as f64) / (after.1 - before.1).max(1) as f64;
        Some(before.0 + share * (after.0 - before.0))
    };
    let (from, to) = (when(all as f64 * 0.1)?, when(all as f64 * 0.9)?);
    (to > from).then(|| all as f64 * 0.8 / 1e6 / (to - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_rate_leaves_start_and_tail_out() {
        // A second of nothing, ten seconds at 10 MB/s, five seconds of nothing.
        let mut samples: Vec<(f64, u64)> =
            (0..=10_u32).map(|second| (1.0 + f64::from(second), 10_000_000 * u64::from(second))).collect();
        samples.insert(0, (0.0, 0));
        samples.push((16.0, 100_000_000));
        assert!((steady(&samples).expect("it moved") - 10.0).abs() < 1e-6);
        assert_eq!(steady(&[(0.0, 0), (1.0, 0)]), None);
        let course = course(&samples);
        assert_eq!(course.points.len(), 12);
        assert!((course.points[5].rate - 10.0).abs() < 1e-9 && course.points[11].rate.abs() < 1e-9);
    }

    #[test]
    fn what_was_said_is_told_from_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        assert_eq!(end_of(&log), "it said nothing");
        fs::write(&log, format!("{}\n the\n end ", "x".repeat(1000))).expect("written");
        assert!(end_of(&log).ends_with("x the end") && end_of(&log).len() < 450);
    }
}
