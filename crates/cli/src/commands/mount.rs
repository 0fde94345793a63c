//! `holdfast mount`: a space as a local folder, straight on a data directory.

use super::block_on;
use crate::args::UserArg;
use crate::config::{self, Flags};
use crate::output;
use crate::secret;
use anyhow::Context;
use clap::Args;
use holdfast_auth::{Proof, Secret};
use holdfast_base::Error;
use holdfast_mount::{MountOptions, Mounted};
use holdfast_server::{DataDir, LocalDrive};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Time between two looks whether somebody else has unmounted it.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct MountArgs {
    /// The drive's data directory. No server may be running on it.
    #[arg(value_name = "DATA_DIR")]
    data: PathBuf,
    /// The folder to mount on.
    #[arg(value_name = "MOUNTPOINT")]
    at: PathBuf,
    /// The space; without it, the account's own.
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// Refuse every change.
    #[arg(long)]
    read_only: bool,
    /// Let other accounts of this machine in, as far as owners and modes allow. Always so where root mounts.
    #[arg(long)]
    allow_other: bool,
    /// Folder for what is written, not saved yet and too much for memory, instead of one in the data directory. It is encrypted there.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Answer small changes when they are in a journal in the data directory, a moment before the catalogue has them. What is closed survives
    /// the end of the mount either way.
    #[arg(long)]
    write_behind: bool,
    /// Stay in the foreground until it is unmounted or interrupted, rather than come back when it is mounted.
    #[arg(long)]
    foreground: bool,
    /// Configuration file instead of holdfast.toml in the data directory.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    user: UserArg,
}

/// Mounts it.
pub(crate) fn run(args: MountArgs, json: bool) -> anyhow::Result<ExitCode> {
    let password = secret::present(&args.user.user, args.user.password_file.as_deref())?;
    if args.foreground { block_on(foreground(args, password, json)) } else { background(&args, &password, json) }
}

async fn foreground(args: MountArgs, password: Secret, json: bool) -> anyhow::Result<ExitCode> {
    let config = config::load(args.config.as_deref(), Some(&args.data), Flags::default())?.config;
    // Before anything is opened, so that no signal ends it half-way.
    let (mut stop, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let drive = LocalDrive::open(DataDir::open(&args.data)?, &config).await?;
    let outcome = async {
        let mounted = mount(&drive, &args, &password).await?;
        announce(&mounted, json);
        let ended = async {
            while !mounted.has_ended() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! { () = ended => {}, _ = stop.recv() => {}, _ = interrupt.recv() => {} }
        anyhow::Ok(mounted.stop().await?)
    }
    .await;
    let closed = drive.close().await;
    outcome?;
    closed?;
    Ok(ExitCode::SUCCESS)
}

async fn mount(drive: &LocalDrive, args: &MountArgs, password: &Secret) -> anyhow::Result<Mounted> {
    let who = drive.accounts().open(&args.user.user, Proof::Password(password)).await?;
    let space = args.space.clone().unwrap_or_else(|| who.name.clone());
    let scratch = args.cache.clone().unwrap_or_else(|| drive.directory().scratch());
    let tree = drive.engine().tree(Arc::new(who), &space).await?;
    let usual = MountOptions::new(format!("holdfast:{space}"), scratch);
    // The root's number is the space's as long as there is a space.
    let journal_folder = Some(drive.directory().mounts().join(tree.root().to_string()));
    let allow_other = usual.allow_other || args.allow_other;
    let options = MountOptions {
        read_only: args.read_only,
        allow_other,
        journal_folder,
        write_behind: args.write_behind,
        ..usual
    };
    Ok(Mounted::start(tree, &args.at, &options).await?)
}

fn announce(mounted: &Mounted, json: bool) {
    let at = mounted.at().display().to_string();
    if json {
        output::print(&json!({"event": "mounted", "at": at, "process": std::process::id()}).to_string());
    } else {
        output::print(&format!("Mounted on {at}. Unmount with: umount {at}"));
    }
}

/// Starts the same in the background, and waits until it is mounted or says why not.
fn background(args: &MountArgs, password: &Secret, json: bool) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().map_err(Error::from)?;
    let mut command = Command::new(program);
    command.arg("mount").arg(&args.data).arg(&args.at).args(["--foreground", "--password-file", "-"]);
    command.arg("--user").arg(&args.user.user);
    let space = args.space.as_ref().map(PathBuf::from);
    for (name, value) in [("--config", &args.config), ("--cache", &args.cache), ("--space", &space)] {
        if let Some(value) = value {
            command.arg(name).arg(value);
        }
    }
    let switches = [
        ("--read-only", args.read_only),
        ("--allow-other", args.allow_other),
        ("--write-behind", args.write_behind),
        ("--json", json),
    ];
    command.args(switches.iter().filter(|(_, on)| *on).map(|(name, _)| name));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(Error::from).context("starting the mount in the background")?;
    if let Some(mut input) = child.stdin.take() {
        // If it ended already, it says why below.
        let _ = writeln!(input, "{}", password.expose());
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
