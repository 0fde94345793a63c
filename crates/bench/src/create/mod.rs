//! `holdfast bench create`: report 003's writer, on any folders side by side.
//!
//! Clients are processes, each with streams that are threads; each client makes one tree. A run is: all clients begin together and write;
//! every file is read back and compared with what was written, past the kernel's cache; every folder is listed with the attributes of
//! its entries; if that is wished, every file is asked for by its name, and an archive of a tree is unpacked; everything is removed. All of
//! these are timed. Runs are interleaved as those of all measurements.
//!
//! Only the given folders are touched: everything is made below new ones in each, `bench-XXXXXXXX-RUN`.

mod args;
mod client;
mod requests;
mod stat;
mod tree;
mod unpack;
mod verify;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

pub use args::CreateArgs;
pub use requests::Counter;
pub use tree::{Shape, Sizes};

use crate::course::Timeline;
use crate::frame::{Frame, Habits, Handlers, Outcome, Stopped, server_command};
use crate::report::{Bench, Better, ClientRow, CreateReport, CreateRun, Report, SeriesInfo, TargetNote, seed003};
use crate::shared::check_labels;
use crate::stats::Latencies;
use client::{Client, Done, Work};
use unpack::Archive;

/// More clients or streams only measure the scheduler.
const WRITERS_MAX: u32 = 256;
/// What runs make in one folder is kept until the last of them if it is no more than this; else each removes its own.
const KEPT_BYTES_MAX: u64 = 4 << 30;

/// A folder to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTarget {
    /// Its name in the report.
    pub label: String,
    /// The folder.
    pub folder: PathBuf,
    /// Processes that make it one: of a mount, a server.
    pub pids: Vec<u32>,
    /// What counts its server's requests.
    pub requests: Option<Counter>,
}

/// A command that is run again and again while files are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// From one to the next.
    pub every: Duration,
    /// For the shell.
    pub command: String,
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// The folders; ratios are to the first.
    pub targets: Vec<CreateTarget>,
    /// Of each client's tree.
    pub shape: Shape,
    /// Processes that write.
    pub clients: u32,
    /// Threads of each.
    pub streams: u32,
    /// Hash what is written while it is written.
    pub checksum: bool,
    /// Sync each file.
    pub fsync: bool,
    /// Read everything back and compare it.
    pub verify: bool,
    /// Ask for the attributes of every file, with nothing in the kernel's cache and with everything.
    pub stat: bool,
    /// Unpack an archive of one client's tree with `tar`.
    pub unpack: bool,
    /// How long a file that fails is tried again.
    pub retry: Duration,
    /// Timed runs.
    pub runs: u32,
    /// Go on with runs until this time has passed, however many that are.
    pub duration: Option<Duration>,
    /// What goes wrong meanwhile.
    pub fault: Option<Fault>,
    /// Put the published figures beside.
    pub compare_003: bool,
    /// Seed of contents and sizes.
    pub seed: u64,
    /// See [`Habits`].
    pub settle: bool,
    /// See [`Habits`].
    pub warm: bool,
    /// See [`Habits`].
    pub progress: bool,
    /// The command, for the report.
    pub command: String,
    /// Remarks for the report.
    pub notes: Vec<String>,
    /// What starts a client.
    pub client_command: Vec<String>,
}

impl CreateOptions {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.targets.is_empty(), "no folder given");
        check_labels(self.targets.iter().map(|target| target.label.as_str()))?;
        self.shape.check()?;
        ensure!((1..=WRITERS_MAX).contains(&self.clients), "--clients must be 1 to {WRITERS_MAX}");
        ensure!((1..=WRITERS_MAX).contains(&self.streams), "--streams must be 1 to {WRITERS_MAX}");
        ensure!(self.runs > 0, "--runs must be at least 1");
        for target in &self.targets {
            ensure!(target.folder.is_dir(), "{} is no folder", target.folder.display());
        }
        Ok(())
    }

    /// Bytes that one run writes.
    fn bytes(&self) -> u64 {
        self.shape.bytes().saturating_mul(u64::from(self.clients))
    }

    /// Whether what was made stays until all runs are over. A file system may give the numbers of removed files out again only after minutes,
    /// and then look past each of them until it finds a free one (ext4 does), so runs after a removal would be of something else.
    fn keeps(&self) -> bool {
        self.duration.is_none() && self.bytes().saturating_mul(u64::from(self.runs)) <= KEPT_BYTES_MAX
    }

    /// The load in words.
    fn words(&self) -> String {
        let Shape { depth, width, files, sizes } = self.shape;
        let plural = |count: u32, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        format!(
            "{} of {}, each a tree of depth {depth} and width {width} with {files} files of {} in a folder{}{}",
            plural(self.clients, "client", "clients"),
            plural(self.streams, "stream", "streams"),
            sizes.label(),
            if self.checksum { ", hashed while written" } else { "" },
            if self.fsync { ", each synced" } else { "" },
        )
    }
}

/// Measures. Fails only for what makes measuring pointless; what goes wrong with a folder is in the report.
pub fn run(options: &CreateOptions) -> anyhow::Result<Report> {
    options.check()?;
    let stop = Arc::new(AtomicBool::new(false));
    let handlers = Handlers::install(&stop).context("cannot install the signal handlers")?;
    let mut lab = Lab::new(options, stop);
    lab.run();
    drop(handlers);
    Ok(lab.into_report())
}

/// A client as it runs: a client's own command, never a user's.
pub fn serve_client() -> anyhow::Result<()> {
    client::serve()
}

struct Lab<'o> {
    options: &'o CreateOptions,
    frame: Frame,
    /// Of everything that is made.
    name: String,
    host: String,
    /// Packed when it is needed first.
    archive: Option<Archive>,
    runs: Vec<CreateRun>,
}

impl<'o> Lab<'o> {
    fn new(options: &'o CreateOptions, stop: Arc<AtomicBool>) -> Self {
        let habits = Habits {
            runs: options.runs,
            seed: options.seed,
            settle: options.settle,
            warm: options.warm,
            progress: options.progress,
            command: options.command.clone(),
            notes: options.notes.clone(),
        };
        let targets = options.targets.iter().map(|target| (target.label.clone(), target.pids.clone())).collect();
        let host = rustix::system::uname().nodename().to_string_lossy().replace(['/', '_'], "-");
        // From the system's randomness, not the seed: two measurements at once must not meet in one folder.
        let name = format!("bench-{:08x}", rand::random::<u32>());
        Self { options, frame: Frame::new(habits, targets, stop), name, host, archive: None, runs: Vec::new() }
    }

    fn run(&mut self) {
        let began = Instant::now();
        let (mut run, mut kept) = (0, Vec::new());
        loop {
            for target in self.frame.order(run) {
                let root = self.options.targets[target].folder.join(format!("{}-{run}", self.name));
                let made = self.measure(run, target, &root);
                if made && self.options.keeps() {
                    kept.push((target, root));
                } else {
                    self.remove(target, &root, made);
                }
            }
            run += 1;
            let on = match self.options.duration {
                Some(duration) => began.elapsed() < duration,
                None => run < self.options.runs,
            };
            if !on || self.frame.interrupted() {
                break;
            }
        }
        for (target, root) in kept {
            self.remove(target, &root, true);
        }
    }

    /// One run on one target; answers whether everything was made.
    fn measure(&mut self, run: u32, target: usize, root: &Path) -> bool {
        match self.works(root, run, target) {
            Ok(works) => self.write_verify_list(run, target, root, &works),
            Err(error) => {
                self.frame.fail("set up", target, &format!("{error:#}"));
                false
            }
        }
    }

    /// Each client's work, with the folder it is to be done in.
    fn works(&self, root: &Path, run: u32, target: usize) -> anyhow::Result<Vec<Work>> {
        let work = |client: u32| {
            let name = self.options.shape.name(&self.host, std::process::id());
            let root = root.join(format!("c{client}")).join(name);
            std::fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
            let tree = u64::from(run) << 32 | (target as u64) << 16 | u64::from(client);
            let CreateOptions { shape, seed, streams, checksum, fsync, retry, .. } = *self.options;
            let retry_ms = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
            Ok(Work { root, shape, seed, tree, streams, checksum, fsync, retry_ms })
        };
        (0..self.options.clients).map(work).collect()
    }

    fn write_verify_list(&mut self, run: u32, target: usize, root: &Path, works: &[Work]) -> bool {
        let Some(mut made) = self.write(run, target, works) else { return false };
        if self.options.verify {
            self.read_back(target, works, &mut made);
        }
        self.runs.push(made);
        let (entries, stop) = (self.entries(), self.frame.stop_handle());
        let info = series("list", "Listing everything with attributes, as ls -lR", "entries/s");
        self.frame.measure(&info, target, 0, || {
            let began = Instant::now();
            let seen = verify::list(root, &stop).map_err(|error| Stopped::Failed(error.to_string()))?;
            if stop.load(Ordering::Relaxed) {
                return Err(Stopped::Interrupted);
            }
            // The folders of the clients are beside those of the trees.
            if seen < entries {
                return Err(Stopped::Failed(format!("{seen} of {entries} entries were listed")));
            }
            Ok(rate(seen, began.elapsed()))
        });
        if self.options.stat {
            self.stat(target, works);
        }
        if self.options.unpack {
            self.unpack(target, root, &works[0]);
        }
        true
    }

    /// Reads every file and compares it with what was written.
    fn read_back(&mut self, target: usize, works: &[Work], made: &mut CreateRun) {
        let stop = self.frame.stop_handle();
        let info = series("read", "Reading everything back, past the kernel's cache, and comparing it", "files/s");
        let mut took = Duration::ZERO;
        let read = self.frame.measure(&info, target, made.bytes, || {
            let began = Instant::now();
            let found = verify::compare(works, &stop);
            took = began.elapsed();
            made.verified = found.good;
            match found.error {
                _ if stop.load(Ordering::Relaxed) => Err(Stopped::Interrupted),
                Some(error) => Err(Stopped::Failed(error)),
                None => Ok(rate(found.good, took)),
            }
        });
        if read {
            let bandwidth = series("read.bytes", "Reading everything back: bytes", "MB/s");
            self.frame.note(&bandwidth, target, made.bytes as f64 / 1e6 / took.as_secs_f64().max(1e-9));
        }
    }

    /// Files and folders of all trees.
    fn entries(&self) -> u64 {
        let shape = &self.options.shape;
        (shape.folders() + shape.file_count()) * u64::from(self.options.clients)
    }

    fn write(&mut self, run: u32, target: usize, works: &[Work]) -> Option<CreateRun> {
        let (options, stop) = (self.options, self.frame.stop_handle());
        let info = series("create", &format!("Making files: {}", options.words()), "files/s");
        let mut made = None;
        let before = self.requests(target);
        self.frame.measure(&info, target, options.bytes(), || {
            let told = write_all(options, works, &stop).map_err(|error| Stopped::Failed(format!("{error:#}")))?;
            let (sum, latencies) = self::sum(&options.targets[target].label, run, told);
            let (files, took) = (sum.files, Duration::from_secs_f64(sum.seconds));
            let failure = (sum.failed > 0).then(|| {
                format!(
                    "{} of {} files could not be made: {}",
                    sum.failed,
                    sum.files + sum.failed,
                    sum.errors.join("; ")
                )
            });
            made = Some(sum);
            match failure {
                _ if stop.load(Ordering::Relaxed) => Err(Stopped::Interrupted),
                Some(failure) => Err(Stopped::Failed(failure)),
                None => Ok(Outcome { latencies: Some(latencies), ..rate(files, took) }),
            }
        });
        let made = made.filter(|made| made.failed == 0)?;
        let bandwidth = series("create.bytes", "Making files: bytes", "MB/s");
        self.frame.note(&bandwidth, target, made.bytes as f64 / 1e6 / made.seconds);
        let requests = before.zip(self.requests(target)).map(|(before, after)| (after - before) / made.files as f64);
        Some(CreateRun { requests_per_file: requests, ..made })
    }

    /// How many requests the target's server has had.
    fn requests(&mut self, target: usize) -> Option<f64> {
        let counter = self.options.targets[target].requests.as_ref()?;
        match counter.read() {
            Ok(count) => Some(count),
            Err(error) => {
                self.frame.fail("count requests", target, &format!("{error:#}"));
                None
            }
        }
    }

    fn remove(&mut self, target: usize, root: &Path, made: bool) {
        let shape = &self.options.shape;
        let unpacked = if self.options.unpack { shape.folders() + shape.file_count() } else { 0 };
        let entries = self.entries() + unpacked;
        let info = series("remove", "Removing everything, as rm -r", "entries/s");
        if !made || self.frame.interrupted() {
            // Nothing to be timed; what there is goes all the same.
            if let Err(error) = std::fs::remove_dir_all(root)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                self.frame.fail("clean up (the bench folder may be left behind)", target, &error);
            }
            return;
        }
        self.frame.measure(&info, target, 0, || {
            let began = Instant::now();
            std::fs::remove_dir_all(root).map_err(|error| Stopped::Failed(error.to_string()))?;
            Ok(rate(entries, began.elapsed()))
        });
    }

    fn into_report(self) -> Report {
        let options = self.options;
        let targets = options.targets.iter().map(|target| TargetNote {
            label: target.label.clone(),
            url: target.folder.display().to_string(),
            server: Some(crate::machine::file_system_at(&target.folder)),
            command: server_command(&target.pids, None),
        });
        let mut report = self.frame.into_report(Bench::Create, &options.targets[0].folder);
        report.targets = targets.collect();
        let seed003 = if options.compare_003 { seed003::rows(&self.runs) } else { Vec::new() };
        report.create = Some(CreateReport { load: options.words(), runs: self.runs, seed003 });
        report
    }
}

fn series(id: &str, title: &str, unit: &str) -> SeriesInfo {
    SeriesInfo { id: id.into(), title: title.into(), unit: unit.into(), better: Better::Higher, bytes: None }
}

fn rate(count: u64, took: Duration) -> Outcome {
    Outcome { value: count as f64 / took.as_secs_f64().max(1e-9), latencies: None, reopened: 0 }
}

/// All clients at once, with what goes wrong meanwhile.
fn write_all(options: &CreateOptions, works: &[Work], stop: &AtomicBool) -> anyhow::Result<Vec<Done>> {
    let started: anyhow::Result<Vec<Client>> =
        works.iter().map(|work| Client::start(&options.client_command, work)).collect();
    let mut clients = started?;
    for client in &mut clients {
        client.begin()?;
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if let Some(fault) = &options.fault {
            scope.spawn(|| do_harm(fault, &over));
        }
        let done = clients.into_iter().map(|client| client.finish(stop)).collect();
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// Runs the command again and again until it is over. What it says goes to standard error; what comes of it is seen by the clients.
fn do_harm(fault: &Fault, over: &AtomicBool) {
    let look = fault.every.min(Duration::from_millis(50));
    let mut next = Instant::now() + fault.every;
    let mut running: Option<Child> = None;
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(look);
        if Instant::now() < next || running.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
            continue;
        }
        next = Instant::now() + fault.every;
        match Command::new("sh").args(["-c", &fault.command]).stdout(std::process::Stdio::null()).spawn() {
            Ok(child) => running = Some(child),
            Err(error) => eprintln!("the fault {:?} could not be caused: {error}", fault.command),
        }
    }
    // What it began, such as starting a server again, is let to its end.
    if let Some(mut child) = running {
        let _ = child.wait();
    }
}

/// What all clients did, as one run.
fn sum(target: &str, run: u32, told: Vec<Done>) -> (CreateRun, Latencies) {
    let (mut course, mut latencies) = (Timeline::new(), Latencies::new());
    let seconds = |done: &Done| done.took_us as f64 / 1e6;
    let whole_s = told.iter().map(seconds).fold(1e-6, f64::max);
    let mut made = CreateRun {
        target: target.to_owned(),
        run: run + 1,
        seconds: whole_s,
        files: 0,
        bytes: 0,
        failed: 0,
        retried: 0,
        verified: 0,
        requests_per_file: None,
        clients: Vec::new(),
        errors: Vec::new(),
        course: crate::report::Course::default(),
    };
    for done in told {
        course.add(&Timeline::hear(&done.course));
        latencies.add_pairs(&done.latencies);
        made.files += done.files;
        made.bytes += done.bytes;
        made.failed += done.failed;
        made.retried += done.retried;
        let own_s = seconds(&done).max(1e-6);
        made.clients
            .push(ClientRow { files_per_s: done.files as f64 / own_s, mb_per_s: done.bytes as f64 / 1e6 / own_s });
        made.errors.extend(done.errors);
    }
    made.course = course.finish(Duration::from_secs_f64(whole_s));
    (made, latencies)
}
