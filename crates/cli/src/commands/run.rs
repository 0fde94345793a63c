//! `holdfast run`: a program that may do what a policy names and nothing else; and looking after such programs.

use super::policy::{self, PairArgs, Text};
use super::run_log;
use crate::output::{self, table};
use clap::{Args, Subcommand};
use holdfast_base::{Clock, Error, SystemClock};
use holdfast_confine::control::{self, About, Control, Reply, Request};
use holdfast_confine::{Change, Command, Confined, Copy, Outcome, Status, Watch};
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: i32 = 128;

/// Without a command of its own, it runs a program.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct RunLine {
    #[command(subcommand)]
    command: Option<RunCommand>,
    #[command(flatten)]
    begin: RunArgs,
}

/// Looking after programs that run. A program with such a name is written after --.
#[derive(Debug, Subcommand)]
enum RunCommand {
    /// List this account's confined programs.
    Ps,
    /// Stop every process of one, at once.
    Freeze(Which),
    /// Let one that is stopped go on.
    Thaw(Which),
    /// Kill all of one, whatever it ignores.
    Kill(Which),
    /// Show what one was refused so far: the last 1,000 decisions (of at most 1 MiB), and how often what happened. With --audit-all, what was allowed is among them. Where
    /// mounts alone hold its policy there are none, and that is said.
    Logs {
        #[command(flatten)]
        which: Which,
        /// Go on to its end, with each decision as it is made. With --json, each is a line.
        #[arg(long, short)]
        follow: bool,
    },
    /// Change what one may do.
    #[command(subcommand)]
    Policy(PolicyChange),
    /// Say what was changed in a folder that was kept as it is by --cow.
    Diff(Layer),
    /// Write such changes as an archive in the form of a layer of an image (tar, with whiteouts for what is gone).
    Patch {
        #[command(flatten)]
        layer: Layer,
        /// The archive; - is standard output. A file of this name is not overwritten.
        #[arg(value_name = "FILE")]
        to: PathBuf,
    },
    /// Make such changes in the folder itself, durably, and forget them. Killed at any point, it goes on when it is run again.
    Commit(Layer),
    /// Forget such changes.
    Discard(Layer),
}

#[derive(Debug, Args)]
struct Which {
    /// Its number, as `holdfast run ps` shows it.
    #[arg(value_name = "ID")]
    id: u32,
}

#[derive(Debug, Subcommand)]
enum PolicyChange {
    /// Put another policy in the place of the one it runs under, without stopping it. What it has open stays open, without --revoke; environment, network, UNIX sockets, devices and limits stay
    /// as they were at the start. Allowing more than then takes a start with --widen.
    Set {
        /// Its number, as `holdfast run ps` shows it.
        #[arg(value_name = "ID")]
        id: u32,
        /// The policy, in TOML.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Take back what is open as well: all of it is stopped for a moment, and each process that has a file or a mapping open that the policy refuses, or stands in
        /// such a folder, is killed and named. So is one of which that cannot be known. It takes Linux 6.2.
        #[arg(long)]
        revoke: bool,
    },
}

#[derive(Debug, Args)]
struct Layer {
    /// The folder, and where its changes are, as --cow had them. Nothing may run with them now.
    #[arg(value_name = "FOLDER=CHANGES", value_parser = parse_copy)]
    of: Copy,
}

/// Options of `holdfast run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What the program may do, in TOML; - is standard input. Relative paths in it begin at its folder.
    #[arg(long, value_name = "FILE", required_unless_present = "model", conflicts_with = "model")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    pair: PairArgs,
    /// Keep what is changed in a folder apart: FOLDER stays as it is, and CHANGES, an existing folder outside of it, gets the changes.
    #[arg(long, value_name = "FOLDER=CHANGES", value_parser = parse_copy)]
    cow: Vec<Copy>,
    /// Let `holdfast run policy set` allow more than the policy at the start. Then mounts alone say what is allowed in the view.
    #[arg(long)]
    widen: bool,
    #[command(flatten)]
    watch: WatchArgs,
    /// Start although this machine does not hold all of it: without user namespaces, be content with what Landlock and seccomp hold alone; without control groups, count
    /// memory and processor time of all processes together, and do without the rest. What is weaker then is listed. Without this, nothing is started there.
    #[arg(long)]
    allow_degraded: bool,
    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// What is watched. A supervisor then answers every call that the policy could refuse, which costs time, also where mounts would have held the policy.
#[derive(Debug, Args)]
struct WatchArgs {
    /// Write each refusal to a file, a line of JSON each, added to what is there; - is standard error.
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Write what was allowed as well.
    #[arg(long, requires = "audit")]
    audit_all: bool,
    /// Kill the program, and all that it started, at this number of refusals.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    kill_after: Option<u64>,
}

fn watch(args: &WatchArgs) -> anyhow::Result<Watch> {
    let log = |path: &PathBuf| -> anyhow::Result<Box<dyn Write + Send>> {
        if path == Path::new("-") {
            return Ok(Box::new(std::io::stderr()));
        }
        let opened = File::options().create(true).append(true).open(path);
        Ok(Box::new(opened.map_err(|error| Error::from(error).context(path.display()))?))
    };
    Ok(Watch {
        log: args.audit.as_ref().map(log).transpose()?,
        everything: args.audit_all,
        kill_after: args.kill_after,
    })
}

fn parse_copy(text: &str) -> Result<Copy, String> {
    let (path, changes) =
        text.split_once('=').ok_or("say FOLDER=CHANGES: the folder, and where its changes are kept")?;
    let absolute = |path: &str| std::path::absolute(path).map_err(|error| error.to_string());
    Ok(Copy { path: absolute(path)?, changes: absolute(changes)? })
}

/// Runs a program, or looks after those that run.
pub(crate) fn run(line: RunLine, json: bool) -> anyhow::Result<ExitCode> {
    match line.command {
        Some(RunCommand::Ps) => list(json),
        Some(RunCommand::Freeze(which)) => tell(which.id, &Request::Freeze),
        Some(RunCommand::Thaw(which)) => tell(which.id, &Request::Thaw),
        Some(RunCommand::Kill(which)) => tell(which.id, &Request::Kill),
        Some(RunCommand::Logs { which, follow }) => run_log::show(which.id, follow, json),
        Some(RunCommand::Policy(PolicyChange::Set { id, file, revoke })) => set(id, &file, revoke, json),
        Some(RunCommand::Diff(layer)) => changes(&holdfast_confine::changes(&layer.of)?, json),
        Some(RunCommand::Patch { layer, to }) => patch(&layer.of, &to),
        Some(RunCommand::Commit(layer)) => changes(&holdfast_confine::commit(&layer.of)?, json),
        Some(RunCommand::Discard(layer)) => {
            holdfast_confine::discard(&layer.of)?;
            Ok(ExitCode::SUCCESS)
        }
        None => start(line.begin),
    }
}

fn start(args: RunArgs) -> anyhow::Result<ExitCode> {
    let program = args.words.first().map(PathBuf::from);
    let policy = policy::read(args.policy.as_deref(), &args.pair, program.as_deref())?;
    let about = About {
        command: args.words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        policy: policy::name_of(args.policy.as_deref(), &args.pair),
        since_ms: SystemClock.now_ms(),
    };
    let command = Command {
        words: args.words,
        folder: std::env::current_dir().map_err(|error| Error::from(error).context("the working directory"))?,
        copies: args.cow,
        terminal: std::io::stdin().is_terminal(),
        widen: args.widen,
        allow_degraded: args.allow_degraded,
        ..Command::default()
    };
    let watched = watch(&args.watch)?;
    let (confined, outcome) = to_its_end(about, || Ok(Confined::start(policy, &command, watched)?))?;
    if let (Some(most), Some(counters)) = (args.watch.kill_after, confined.counters())
        && counters.denied >= most
    {
        eprintln!("holdfast: it was killed: {} of its calls were refused", counters.denied);
    }
    if let missing @ 1.. = confined.finish() {
        eprintln!("holdfast: {missing} lines of the log of refusals could not be written");
    }
    Ok(told(outcome))
}

/// Starts a program, hands signals on to it, lets others look after it, and waits for its end.
pub(super) fn to_its_end(
    about: About,
    start: impl FnOnce() -> anyhow::Result<Confined>,
) -> anyhow::Result<(Arc<Confined>, Outcome)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(Error::from)?;
    // Before the program is there, so that none is lost; and it is started before there are any threads.
    let signals = runtime.block_on(async { Signals::catch() })?;
    let confined = Arc::new(start()?);
    if let [first, rest @ ..] = confined.seen_only_in() {
        let folders =
            rest.iter().fold(first.display().to_string(), |all, folder| format!("{all}, {}", folder.display()));
        eprintln!("holdfast: refusals are seen in {folders}; of those elsewhere the kernel tells the program alone");
    }
    for weaker in confined.weaker() {
        eprintln!("holdfast: {weaker}");
    }
    let control = Control::start(confined.clone(), about);
    let control =
        control.inspect_err(|error| tracing::info!(%error, "`holdfast run ps` will not find this program")).ok();
    let outcome = runtime.block_on(signals.hand_on(&confined))?;
    // Whoever follows the log is told of everything.
    confined.finish();
    drop(control);
    Ok((confined, outcome))
}

/// What the supervisor is told by the system, and tells the program.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    /// Whether keys of the terminal tell the program as well.
    terminal: bool,
}

impl Signals {
    fn catch() -> anyhow::Result<Self> {
        let caught = |kind: SignalKind| signal(kind).map_err(Error::from);
        Ok(Self {
            hangup: caught(SignalKind::hangup())?,
            terminate: caught(SignalKind::terminate())?,
            interrupt: caught(SignalKind::interrupt())?,
            quit: caught(SignalKind::quit())?,
            terminal: std::io::stdin().is_terminal(),
        })
    }

    /// Hands them on until the program has ended.
    async fn hand_on(mut self, confined: &Arc<Confined>) -> anyhow::Result<Outcome> {
        let waiting = confined.clone();
        let mut ended = tokio::task::spawn_blocking(move || waiting.wait());
        loop {
            let (kind, is_the_terminals) = tokio::select! {
                outcome = &mut ended => return Ok(outcome.map_err(|error| Error::internal(error.to_string()))??),
                _ = self.hangup.recv() => (SignalKind::hangup(), false),
                _ = self.terminate.recv() => (SignalKind::terminate(), false),
                _ = self.interrupt.recv() => (SignalKind::interrupt(), true),
                _ = self.quit.recv() => (SignalKind::quit(), true),
            };
            if !(is_the_terminals && self.terminal) {
                // It may have ended this moment.
                let _ = confined.signal(kind.as_raw_value());
            }
        }
    }
}

pub(super) fn told(outcome: Outcome) -> ExitCode {
    if let Some(limit) = outcome.limit {
        eprintln!("holdfast: it was ended by its limit: {limit}");
    }
    let code = match outcome.status {
        Status::Exited(code) => code,
        Status::Signalled(signal) => SIGNALLED + signal,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn list(json: bool) -> anyhow::Result<ExitCode> {
    let all = control::all()?;
    output::show(json, &json!(all), |_| {
        let row = |status: &control::Status| {
            let state = if status.frozen { "frozen" } else { "running" };
            vec![
                status.id.to_string(),
                state.into(),
                output::time(status.since_ms),
                status.policy.clone(),
                status.command.join(" "),
            ]
        };
        table(&["ID", "STATE", "SINCE", "POLICY", "COMMAND"], &all.iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn tell(id: u32, request: &Request) -> anyhow::Result<ExitCode> {
    control::ask(&control::one(id)?, request)?;
    Ok(ExitCode::SUCCESS)
}

fn set(id: u32, file: &Path, revoke: bool, json: bool) -> anyhow::Result<ExitCode> {
    let Text { name, base, bytes } = Text::of(file)?;
    let text = String::from_utf8(bytes).map_err(|_| Error::invalid(format!("{name} is not text")))?;
    if let Reply::Revoked(revoked) =
        control::ask(&control::one(id)?, &Request::Policy { file: name, base, text, revoke })?
    {
        output::show(json, &revoked, run_log::ended)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn patch(of: &Copy, to: &Path) -> anyhow::Result<ExitCode> {
    if to == Path::new("-") {
        holdfast_confine::patch(of, &mut std::io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    let at = |error: std::io::Error| Error::from(error).context(to.display());
    let mut file = BufWriter::new(File::create_new(to).map_err(at)?);
    holdfast_confine::patch(of, &mut file)?;
    file.into_inner().map_err(|error| at(error.into_error()))?.sync_all().map_err(at)?;
    Ok(ExitCode::SUCCESS)
}

fn changes(changes: &[Change], json: bool) -> anyhow::Result<ExitCode> {
    let told: Vec<_> = changes
        .iter()
        .map(|it| json!({ "path": it.path.display().to_string(), "change": it.kind.to_string() }))
        .collect();
    output::show(json, &told, |_| {
        if changes.is_empty() {
            return "nothing was changed".into();
        }
        changes
            .iter()
            .map(|it| format!("{:<10}{}", it.kind.to_string(), it.path.display()))
            .collect::<Vec<_>>()
            .join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}
