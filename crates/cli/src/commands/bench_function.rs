//! `holdfast bench function`: what a call of a function costs beside the same program started natively, cold and warm, and what many calls leave behind.
//!
//! In each round the three are measured in turns, whose order rotates: so many calls one after another, each from its beginning to the answer, with the record written. A warm
//! call is one for which an instance was ready. Then a thousand calls are made, sixteen at a time, and processes, descriptors, mounts, memory and files are counted before and
//! after. It runs in this process: what HTTP costs besides is not in it.

use crate::output::{show, table};
use anyhow::{Context, ensure};
use clap::Args;
use holdfast_base::Error;
use holdfast_function::{End, Host, Name, Store};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// Folders of the machine that programs need to start.
const SYSTEM: [&str; 4] = ["/usr", "/bin", "/lib", "/lib64"];
/// Longest that instances are waited for.
const READY_TIME: Duration = Duration::from_secs(30);
/// Pause between looks.
const LOOK: Duration = Duration::from_millis(1);

#[derive(Debug, Args)]
pub(crate) struct FunctionBenchArgs {
    /// The program: it gives back what it reads, as cat does
    #[arg(long, value_name = "PATH", default_value = "/bin/cat")]
    program: String,

    /// Rounds of each kind
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,

    /// Calls of each kind in a round
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    calls: u32,

    /// Bytes of input
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    input: u32,

    /// Instances that are kept ready
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    warm: u32,

    /// Calls of the load
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    load: u32,

    /// Calls of the load at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=64))]
    at_a_time: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Native,
    Cold,
    Warm,
}

const KINDS: [Kind; 3] = [Kind::Native, Kind::Cold, Kind::Warm];

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// What was found.
#[derive(Debug, Serialize)]
struct Findings {
    program: String,
    rounds: u32,
    calls_a_round: u32,
    input_bytes: u32,
    kinds: Vec<Cost>,
    load: Load,
}

/// Milliseconds of a kind of call.
#[derive(Debug, Serialize)]
struct Cost {
    kind: &'static str,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// The median of a round less that of the native calls of the same round: the median of all rounds, the least and the most.
    over_native_ms: [f64; 3],
}

#[derive(Debug, Serialize)]
struct Load {
    calls: u32,
    at_a_time: u32,
    calls_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    warm: usize,
    before: Left,
    after: Left,
}

/// What there is of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Left {
    processes: usize,
    descriptors: usize,
    mounts: usize,
    memory_kib: u64,
    files: usize,
}

/// The functions that are measured.
struct Bed {
    host: Host,
    folder: tempfile::TempDir,
    program: String,
    input: Vec<u8>,
    warm: usize,
}

/// Runs it.
pub(crate) async fn run(args: FunctionBenchArgs, json: bool) -> anyhow::Result<ExitCode> {
    let bed = Bed::new(&args)?;
    let findings = measure(&bed, &args).await;
    bed.host.stop(Duration::ZERO).await;
    show(json, &findings?, words)?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(bed: &Bed, args: &FunctionBenchArgs) -> anyhow::Result<Findings> {
    let mut times = [const { Vec::new() }; KINDS.len()];
    let mut medians = [const { Vec::new() }; KINDS.len()];
    for kind in KINDS {
        // What they read is in memory then, and instances are started.
        bed.call(kind).await?;
    }
    for round in 0..args.rounds {
        for turn in 0..KINDS.len() {
            let number = (turn + usize::try_from(round)?) % KINDS.len();
            let mut taken = Vec::new();
            for _ in 0..args.calls {
                taken.push(bed.call(KINDS[number]).await?);
            }
            taken.sort_by(f64::total_cmp);
            medians[number].push(percentile(&taken, 50));
            times[number].extend(taken);
        }
    }
    let kinds =
        KINDS.iter().enumerate().map(|(number, kind)| cost(*kind, &mut times[number], &medians[number], &medians[0]));
    let kinds = kinds.collect();
    Ok(Findings {
        program: args.program.clone(),
        rounds: args.rounds,
        calls_a_round: args.calls,
        input_bytes: args.input,
        kinds,
        load: load(bed, args).await?,
    })
}

fn cost(kind: Kind, times: &mut [f64], medians: &[f64], native: &[f64]) -> Cost {
    times.sort_by(f64::total_cmp);
    let mut over: Vec<f64> = medians.iter().zip(native).map(|(this, native)| this - native).collect();
    over.sort_by(f64::total_cmp);
    Cost {
        kind: kind.name(),
        p50_ms: percentile(times, 50),
        p90_ms: percentile(times, 90),
        p99_ms: percentile(times, 99),
        max_ms: percentile(times, 100),
        over_native_ms: [50, 0, 100].map(|percent| percentile(&over, percent)),
    }
}

/// Of sorted values.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * percent / 100).copied().unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

async fn load(bed: &Bed, args: &FunctionBenchArgs) -> anyhow::Result<Load> {
    let (warm, lanes) = (named("warm")?, args.at_a_time);
    let round = |calls: u32| {
        let host = bed.host.clone();
        let (warm, input) = (warm.clone(), bed.input.clone());
        async move {
            let mut tasks = tokio::task::JoinSet::new();
            for lane in 0..lanes {
                let (host, warm, input) = (host.clone(), warm.clone(), input.clone());
                tasks.spawn(async move {
                    let mut times = Vec::new();
                    for _ in (lane..calls).step_by(usize::try_from(lanes).unwrap_or(1)) {
                        let began = Instant::now();
                        called(&host, &warm, &input).await?;
                        times.push(ms(began.elapsed()));
                    }
                    anyhow::Ok(times)
                });
            }
            let mut all = Vec::new();
            while let Some(times) = tasks.join_next().await {
                all.extend(times??);
            }
            all.sort_by(f64::total_cmp);
            anyhow::Ok(all)
        }
    };
    // Threads and buffers are there before it is counted.
    round(4 * lanes).await?;
    bed.ready().await?;
    let before = Left::now(bed.folder.path())?;
    let warm_before = bed.warm_calls(&warm)?;
    let began = Instant::now();
    let times = round(args.load).await?;
    let took = began.elapsed();
    bed.ready().await?;
    Ok(Load {
        calls: args.load,
        at_a_time: args.at_a_time,
        calls_s: f64::from(args.load) / took.as_secs_f64(),
        p50_ms: percentile(&times, 50),
        p99_ms: percentile(&times, 99),
        warm: bed.warm_calls(&warm)?.saturating_sub(warm_before),
        before,
        after: Left::now(bed.folder.path())?,
    })
}

fn named(name: &str) -> anyhow::Result<Name> {
    Ok(name.parse()?)
}

async fn called(host: &Host, name: &Name, input: &[u8]) -> anyhow::Result<bool> {
    let call = host.invoke(name, "", |_| Ok(()), Cursor::new(input.to_vec())).await?;
    ensure!(call.end == End::Done, "{name}: {}", call.end);
    ensure!(call.output == input, "{name} does not give back what it reads");
    Ok(call.cold)
}

impl Bed {
    fn new(args: &FunctionBenchArgs) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().map_err(Error::from)?;
        let store = Store::open(folder.path().join("store"))?;
        for (name, warm) in [("cold", 0), ("warm", args.warm)] {
            let source = folder.path().join(name);
            fs::create_dir(&source)?;
            let command = serde_json::to_string(&args.program)?;
            let manifest = format!(
                "command = {command}\npolicy = \"policy.toml\"\n[limits]\nconcurrency = {}\nwarm = {warm}\n",
                args.at_a_time
            );
            fs::write(source.join("function.toml"), manifest)?;
            let seen = SYSTEM.iter().filter(|folder| Path::new(folder).exists());
            let lines: Vec<String> = seen.map(|folder| format!("\"{folder}\" = \"read+exec\"\n")).collect();
            fs::write(source.join("policy.toml"), format!("default = \"deny\"\n[files]\n{}", lines.concat()))?;
            store.deploy(&source, None)?;
        }
        let input = vec![b'x'; usize::try_from(args.input)?];
        let warm = usize::try_from(args.warm)?;
        Ok(Self { host: Host::new(store), folder, program: args.program.clone(), input, warm })
    }

    /// Makes one call, and says how many milliseconds it took.
    async fn call(&self, kind: Kind) -> anyhow::Result<f64> {
        if kind == Kind::Native {
            return self.native().await;
        }
        let name = named(kind.name())?;
        let is_first = kind == Kind::Warm && self.host.state(&name).ready == 0;
        if kind == Kind::Warm && !is_first {
            self.ready().await?;
        }
        let began = Instant::now();
        let cold = called(&self.host, &name, &self.input).await?;
        let took = ms(began.elapsed());
        if kind == Kind::Warm {
            self.ready().await?;
            ensure!(is_first || !cold, "a call was cold although an instance was ready");
        }
        Ok(took)
    }

    async fn native(&self) -> anyhow::Result<f64> {
        let began = Instant::now();
        let mut command = Command::new(&self.program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut to = child.stdin.take().context("no input")?;
        let mut from = child.stdout.take().context("no output")?;
        let mut output = Vec::new();
        let feed = async {
            let written = to.write_all(&self.input).await;
            drop(to);
            written
        };
        let (given, read) = tokio::join!(feed, from.read_to_end(&mut output));
        let status = child.wait().await?;
        let took = ms(began.elapsed());
        given.and(read)?;
        ensure!(status.success() && output == self.input, "{} does not give back what it reads", self.program);
        Ok(took)
    }

    /// Waits until as many instances are ready as are kept.
    async fn ready(&self) -> anyhow::Result<()> {
        let (name, until) = (named("warm")?, Instant::now() + READY_TIME);
        loop {
            let state = self.host.state(&name);
            if state.ready == self.warm {
                return Ok(());
            }
            if let Some(trouble) = state.trouble {
                anyhow::bail!(Error::unavailable(trouble));
            }
            ensure!(Instant::now() < until, "no instance was ready within {} s", READY_TIME.as_secs());
            tokio::time::sleep(LOOK).await;
        }
    }

    fn warm_calls(&self, name: &Name) -> anyhow::Result<usize> {
        let mut warm = 0;
        self.host.store().records(name).last(0, |record| {
            warm += usize::from(!record.cold);
            false
        })?;
        Ok(warm)
    }
}

impl Left {
    fn now(folder: &Path) -> anyhow::Result<Self> {
        let tasks = fs::read_dir("/proc/self/task")?.flatten();
        let children = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
        let status = fs::read_to_string("/proc/self/status")?;
        let memory =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
        Ok(Self {
            processes: children.map(|line| line.split_whitespace().count()).sum(),
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            mounts: fs::read_to_string("/proc/self/mounts")?.lines().count(),
            memory_kib: memory.unwrap_or(0),
            files: files(folder)?,
        })
    }
}

fn files(folder: &Path) -> anyhow::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        count += 1 + if entry.file_type()?.is_dir() { files(&entry.path())? } else { 0 };
    }
    Ok(count)
}

fn words(findings: &Findings) -> String {
    let cell = |ms: f64| format!("{ms:.2}");
    let row = |cost: &Cost| {
        let [over, least, most] = cost.over_native_ms;
        let over =
            if cost.kind == Kind::Native.name() { "-".into() } else { format!("{over:.2} ({least:.2} to {most:.2})") };
        vec![cost.kind.into(), cell(cost.p50_ms), cell(cost.p90_ms), cell(cost.p99_ms), cell(cost.max_ms), over]
    };
    let rows: Vec<_> = findings.kinds.iter().map(row).collect();
    let mut text = format!(
        "Milliseconds from beginning to answer: {}, {} bytes, {} rounds of {} calls.\n\n",
        findings.program, findings.input_bytes, findings.rounds, findings.calls_a_round
    );
    text += &table(&["CALL", "P50", "P90", "P99", "MAX", "OVER NATIVE (MEDIANS OF ROUNDS)"], &rows);
    let load = &findings.load;
    let _ = write!(
        text,
        "\n{} calls, {} at a time: {:.0} a second, p50 {:.2} ms, p99 {:.2} ms, {} of them warm.\n\n",
        load.calls, load.at_a_time, load.calls_s, load.p50_ms, load.p99_ms, load.warm
    );
    let left = |name: &str, left: &Left| {
        let numbers = [left.processes, left.descriptors, left.mounts, left.files].map(|number| number.to_string());
        let [processes, descriptors, mounts, files] = numbers;
        vec![name.into(), processes, descriptors, mounts, format!("{} KiB", left.memory_kib), files]
    };
    let rows = [left("before", &load.before), left("after", &load.after)];
    text + &table(&["", "PROCESSES", "DESCRIPTORS", "MOUNTS", "MEMORY", "FILES"], &rows)
}
