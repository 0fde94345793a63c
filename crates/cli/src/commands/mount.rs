//! `holdfast mount`: a space as a local folder, straight on a data directory or from a server.

use super::block_on;
use crate::config::{self, Flags};
use crate::output;
use crate::secret;
use anyhow::Context;
use clap::Args;
use clap::builder::BoolishValueParser;
use holdfast_auth::{Proof, Secret};
use holdfast_base::size::{format_bytes, parse_bytes};
use holdfast_base::{Error, ErrorKind, Result, Uid};
use holdfast_drive::Tree;
use holdfast_mount::control::Released;
use holdfast_mount::{MountOptions, Mounted, note_owner, with_journal};
use holdfast_remote::client::{DiskOptions, Options, Plane, Remote, Roots, Target};
use holdfast_server::{DataDir, LocalDrive, MetricsListener};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Time between two looks whether somebody else has unmounted it.
const LOOK: Duration = Duration::from_millis(200);

/// Least room of a cache: with less, sixteen blocks that are fetched ahead would push each other out.
const CACHE_BYTES_MIN: u64 = 64 << 20;

#[derive(Debug, Args)]
pub(crate) struct MountArgs {
    /// The drive: the address of its server (<https://drive.example.org>), or its data directory, on which no server may be running.
    #[arg(value_name = "URL|DATA_DIR")]
    drive: String,
    /// The folder to mount on.
    #[arg(value_name = "MOUNTPOINT")]
    at: PathBuf,
    /// The space; without it, the account's own.
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// From a server: file with an app token in its first line; - is standard input.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// From a server: PEM file of the certificates that are believed, instead of this machine's authorities.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// From a server: seconds until an operation that gets no answer ends in an error (ETIMEDOUT).
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    deadline: u32,
    /// Refuse every change.
    #[arg(long)]
    read_only: bool,
    /// Let other accounts of this machine in, as far as owners and modes allow. Otherwise only the one that mounts gets in.
    #[arg(long)]
    allow_other: bool,
    /// Folder for what is written, not saved yet and too much for memory, instead of one in the data directory or for temporary files. It
    /// is encrypted there. From a server, also for a cache of what is read, sealed as it lies in the server's store: without this, there is none. With --write-behind,
    /// also for the journal, instead of one among the state of the account that mounts (~/.local/state/holdfast/mounts). It must be the same each time.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// From a server, with --cache: bytes that the cache of what is read takes on the disk at most; 0 for none.
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = cache_size)]
    cache_size: u64,
    /// Answer changes, with files of up to 64 MiB on a data directory and 16 MiB from a server, when they are in a journal on this machine, a moment before the catalogue
    /// or the server has them and their content is synced. What is closed survives the end of the mount either way; from a server, content of such changes is sealed here, and writing goes on while it is away.
    /// So it is on a data directory with the embedded catalogue, which has no other writers, unless this says no; from a server if this says yes.
    #[arg(long, value_name = "YES|NO", num_args = 0..=1, require_equals = true, default_missing_value = "yes", value_parser = BoolishValueParser::new())]
    write_behind: Option<bool>,
    /// From a server: transport. quic is for networks that lose, reorder or delay much; the server takes it at its port of UDP.
    #[arg(long, value_name = "tcp|quic", default_value = "tcp", value_parser = plane)]
    plane: Plane,
    /// Serve Prometheus metrics of the mount on this address.
    #[arg(long, value_name = "ADDR")]
    metrics_listen: Option<String>,
    /// Stay in the foreground until it is unmounted or interrupted, rather than come back when it is mounted.
    #[arg(long)]
    foreground: bool,
    /// On a data directory: configuration file instead of holdfast.toml there.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// On a data directory: the account that acts.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// On a data directory: file with that account's password in its first line; - is standard input. Without it the terminal is asked.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

fn cache_size(text: &str) -> std::result::Result<u64, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    if bytes == 0 || bytes >= CACHE_BYTES_MIN {
        return Ok(bytes);
    }
    Err(format!("a cache has {} at least, or 0 for none", format_bytes(CACHE_BYTES_MIN)))
}

fn plane(text: &str) -> std::result::Result<Plane, String> {
    match text {
        "tcp" => Ok(Plane::Tcp),
        "quic" => Ok(Plane::Quic),
        _ => Err("it is tcp or quic".into()),
    }
}

/// Where the drive is, and who asks for it.
enum Source {
    Server(Target, Secret),
    Directory(PathBuf, String, Secret),
}

impl MountArgs {
    /// Checks what goes together, and reads the secret.
    fn source(&self) -> anyhow::Result<Source> {
        let refuse = |given: bool, what: &str, of: &str| {
            if given { Err(Error::invalid(format!("{what} is for a mount {of}"))) } else { Ok(()) }
        };
        if self.drive.contains("://") {
            let of = "on a data directory; from a server, --token-file says who you are";
            refuse(self.user.is_some(), "--user", of)?;
            refuse(self.password_file.is_some(), "--password-file", of)?;
            refuse(self.config.is_some(), "--config", "on a data directory")?;
            let target = self.drive.parse()?;
            let file = self.token_file.as_deref().ok_or_else(|| {
                Error::invalid(
                    "--token-file FILE is missing: a file with an app token (`holdfast token create`, or the pages)",
                )
            })?;
            let token = secret::from_file(file)?;
            return Ok(Source::Server(target, token));
        }
        refuse(self.token_file.is_some(), "--token-file", "from a server (https://…)")?;
        refuse(self.ca.is_some(), "--ca", "from a server (https://…)")?;
        let user = self.user.clone().ok_or_else(|| Error::invalid("--user NAME is missing: whose space is it?"))?;
        let password = secret::present(&user, self.password_file.as_deref())?;
        Ok(Source::Directory(PathBuf::from(&self.drive), user, password))
    }

    /// Where caches of what is read are; none if there are to be none.
    fn caches(&self) -> Option<PathBuf> {
        self.cache.as_ref().filter(|_| self.cache_size > 0).map(|cache| cache.join("read"))
    }

    /// Where journals of mounts from servers are; none if this account has no place for such things.
    fn journals(&self) -> Option<PathBuf> {
        let state = || {
            let named = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
            Some(named.or_else(home)?.join("holdfast"))
        };
        Some(self.cache.clone().or_else(state)?.join("mounts"))
    }

    fn options(&self, name: String, of: (String, String), scratch: PathBuf) -> MountOptions {
        let usual = MountOptions::new(name, of, scratch);
        MountOptions { read_only: self.read_only, allow_other: self.allow_other, ..usual }
    }
}

/// Mounts it.
pub(crate) fn run(args: &MountArgs, json: bool) -> anyhow::Result<ExitCode> {
    let source = args.source()?;
    if !args.foreground {
        return background(args, &source, json);
    }
    holdfast_drive::care::share_heaps();
    block_on(async {
        let _metrics = args.metrics_listen.as_deref().map(MetricsListener::start).transpose()?;
        // Before anything is opened, so that no signal ends it half-way.
        let signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        match source {
            Source::Server(target, token) => from_server(args, target, &token, signals, json).await,
            Source::Directory(data, user, password) => {
                on_directory(args, &data, (&user, &password), signals, json).await
            }
        }
    })
}

async fn from_server(
    args: &MountArgs,
    target: Target,
    token: &Secret,
    mut signals: (Signal, Signal),
    json: bool,
) -> anyhow::Result<ExitCode> {
    let options = Options {
        roots: args.ca.clone().map_or(Roots::System, Roots::File),
        plane: args.plane,
        space: args.space.clone(),
        deadline: Duration::from_secs(u64::from(args.deadline)),
        ..Options::new(target)
    };
    // Others may write there, to whom a name that was taken first has to be taken.
    let behind = args.write_behind.unwrap_or(false) && !args.read_only;
    let server = options.target.to_string().replace("://", "-");
    let (mut remote, away) = connect(args, options, token, &server).await?;
    let of = (args.drive.trim_end_matches('/').to_owned(), remote.space().to_owned());
    let name = format!("{}#{}", of.0, of.1);
    let scratch = args.cache.clone().unwrap_or_else(std::env::temp_dir);
    let options = args.options(name, of, scratch).followed();
    let keys = match away {
        Some(space) => Ok(space),
        None => remote.take_keys(token).await,
    };
    if let Some(caches) = args.caches() {
        match &keys {
            Ok(space) => {
                let folder = caches.join(format!("{server}-{space}"));
                remote.keep_on_disk(&DiskOptions { folder, bytes_max: args.cache_size }).await?;
            }
            Err(error) => {
                tracing::warn!(%error, "this token opens no keys, so nothing that is read is kept on the disk");
            }
        }
    }
    let tree: Arc<dyn Tree> = match (keys, args.journals()) {
        (Ok(space), journals) if away.is_some() => {
            let journal = journals.map(|journals| journals.join(format!("{server}-{space}")));
            refuse_what_waits(journal.as_deref())?;
            if behind {
                tracing::warn!("the server is away: nothing is answered first until this is mounted again");
            }
            Arc::new(remote)
        }
        // What a mount before this answered is handed over in any case.
        (Ok(space), Some(journals)) => {
            let journal = journals.join(format!("{server}-{space}"));
            if behind {
                private_folder(&journal)?;
                remote.answers_first();
            }
            remote.spool_in(&journal).await?;
            // On a slow network what waits there takes its time.
            tokio::select! {
                tree = with_journal(Arc::new(remote), &journal, behind) => tree?,
                () = told(&mut signals) => {
                    let why = "stopped before all that the last mount answered was handed over: the rest stays in its journal";
                    return Err(Error::unavailable(why).into());
                }
            }
        }
        (Ok(_), None) if behind => {
            let why = "there is no place for the journal: name one with --cache DIR, or set XDG_STATE_HOME or HOME";
            return Err(Error::invalid(why).into());
        }
        (Err(error), _) if behind => return Err(error.into()),
        _ => Arc::new(remote),
    };
    let _released = stay(Mounted::start(tree, &args.at, &options)?, signals, json).await?;
    Ok(ExitCode::SUCCESS)
}

/// Connects; to a server that is away, if a cache has what it takes to begin without it. Answers the space's random name then.
async fn connect(args: &MountArgs, options: Options, token: &Secret, server: &str) -> Result<(Remote, Option<Uid>)> {
    let error = match Remote::connect(options.clone(), token).await {
        Ok(remote) => return Ok((remote, None)),
        Err(error) => error,
    };
    let caches = args.caches().filter(|_| matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout));
    let Some(caches) = caches else { return Err(error) };
    match Remote::away(options, token, (&caches, &format!("{server}-")))? {
        Some((remote, space)) => {
            tracing::warn!(%error, "the server is away: what the cache has is shown as it was last");
            Ok((remote, Some(space)))
        }
        None => Err(error),
    }
}

/// What a mount before this answered would not be seen until the server has it.
fn refuse_what_waits(journal: Option<&Path>) -> Result<()> {
    let entries = journal.and_then(|journal| std::fs::read_dir(journal).ok());
    let is_journal = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("journal-");
    if entries.into_iter().flatten().flatten().any(is_journal) {
        return Err(Error::unavailable(
            "the server is away, and a mount before this has answered changes that it does not have: they are handed over, and seen, when it is back",
        ));
    }
    Ok(())
}

/// A folder that only this account may look into: names are in clear in a journal.
fn private_folder(path: &Path) -> anyhow::Result<()> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    Ok(made.map_err(|error| Error::from(error).context(path.display()))?)
}

async fn on_directory(
    args: &MountArgs,
    data: &Path,
    (user, password): (&str, &Secret),
    signals: (Signal, Signal),
    json: bool,
) -> anyhow::Result<ExitCode> {
    let config = config::load(args.config.as_deref(), Some(data), Flags::default())?.config;
    let drive = LocalDrive::open(DataDir::open(data)?, &config).await?;
    let behind = args.write_behind.unwrap_or(config.catalogue.url.is_none()) && !args.read_only;
    let outcome = async {
        let who = drive.accounts().open(user, Proof::Password(password)).await?;
        let space = args.space.clone().unwrap_or_else(|| who.name.clone());
        let scratch = args.cache.clone().unwrap_or_else(|| drive.directory().scratch());
        let account = who.account;
        let tree = drive.engine().only_tree(Arc::new(who), &space).await?;
        // The root's number is the space's as long as there is a space.
        let journal = drive.directory().mounts().join(tree.root().to_string());
        if behind {
            // For a server that comes before the next mount.
            let root = tree.entry(tree.root()).await?.ok_or_else(|| Error::not_found("the space is gone"))?;
            note_owner(&journal, account, root.node.space)?;
        }
        let tree = with_journal(tree, &journal, behind).await?;
        drive.seal_left().await?;
        let target = data.canonicalize().unwrap_or_else(|_| data.to_owned()).display().to_string();
        let options = args.options(format!("holdfast:{space}"), (target, space), scratch);
        stay(Mounted::start(tree, &args.at, &options)?, signals, json).await
    }
    .await;
    let closed = drive.close().await;
    // Whoever asked it to end may use the directory when it knows of the end.
    let _released = outcome?;
    closed?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until it is told to stop.
async fn told((stop, interrupt): &mut (Signal, Signal)) {
    tokio::select! { _ = stop.recv() => {}, _ = interrupt.recv() => {} }
}

/// Stays until it is unmounted or told to stop.
async fn stay(mounted: Mounted, mut signals: (Signal, Signal), json: bool) -> anyhow::Result<Released> {
    announce(&mounted, json);
    let ended = async {
        while !mounted.has_ended() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! { () = ended => {}, () = told(&mut signals) => {} }
    Ok(mounted.stop().await?)
}

fn announce(mounted: &Mounted, json: bool) {
    let at = mounted.at().display().to_string();
    if json {
        output::print(&json!({"event": "mounted", "at": at, "process": std::process::id()}).to_string());
    } else {
        output::print(&format!("Mounted on {at}. Unmount with: holdfast umount {at}"));
    }
}

/// Starts the same in the background, and waits until it is mounted or says why not.
fn background(args: &MountArgs, source: &Source, json: bool) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().map_err(Error::from)?;
    let mut command = Command::new(program);
    command.arg("mount").arg(&args.drive).arg(&args.at).arg("--foreground");
    let secret = match source {
        Source::Server(_, token) => {
            command.args(["--token-file", "-", "--deadline"]).arg(args.deadline.to_string());
            command.arg("--cache-size").arg(args.cache_size.to_string());
            token
        }
        Source::Directory(_, user, password) => {
            command.args(["--password-file", "-", "--user"]).arg(user);
            password
        }
    };
    let space = args.space.as_ref().map(PathBuf::from);
    let metrics = args.metrics_listen.as_ref().map(PathBuf::from);
    let values = [
        ("--config", &args.config),
        ("--cache", &args.cache),
        ("--ca", &args.ca),
        ("--space", &space),
        ("--metrics-listen", &metrics),
    ];
    for (name, value) in values {
        if let Some(value) = value {
            command.arg(name).arg(value);
        }
    }
    if let Some(behind) = args.write_behind {
        command.arg(if behind { "--write-behind=yes" } else { "--write-behind=no" });
    }
    if args.plane == Plane::Quic {
        command.args(["--plane", "quic"]);
    }
    let switches = [("--read-only", args.read_only), ("--allow-other", args.allow_other), ("--json", json)];
    command.args(switches.iter().filter(|(_, on)| *on).map(|(name, _)| name));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(Error::from).context("starting the mount in the background")?;
    if let Some(mut input) = child.stdin.take() {
        // If it ended already, it says why below.
        let _ = writeln!(input, "{}", secret.expose());
    }
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(Error::from)?;
    }
    if line.is_empty() {
        let status = child.wait().map_err(Error::from)?;
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        return Ok(ExitCode::from(code));
    }
    output::print(&line);
    Ok(ExitCode::SUCCESS)
}
