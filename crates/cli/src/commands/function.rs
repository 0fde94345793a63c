//! `holdfast function`: folders that become functions, and single calls of them.

use super::function_show::{call_json, list, logs};
use crate::output;
use clap::{Args, Subcommand};
use holdfast_base::size::format_bytes;
use holdfast_base::{Error, ErrorKind};
use holdfast_function::{Call, End, Name, Store, invoke_alone};
use serde_json::json;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::AsyncRead;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The call was made, and failed.
const FAILED: u8 = 1;
/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: u8 = 128;

/// What is done with functions.
#[derive(Debug, Subcommand)]
pub(crate) enum FunctionCommand {
    /// Make a folder with a function.toml a function, or the new version of one. It is copied: what becomes of the folder afterwards does not matter.
    Deploy(DeployArgs),
    /// Call a function here and now, without a server. Its output is this command's, and its log goes to standard error.
    Invoke(InvokeArgs),
    /// List functions.
    List(StoreArgs),
    /// Show what calls did, the latest last, with what they wrote to standard error.
    Logs(LogsArgs),
    /// Remove a function, with all that is kept of its calls. Calls under way go on.
    Remove(NamedArgs),
}

/// Where functions are.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Folder of functions. Without it /var/lib/holdfast-functions for root, else holdfast-functions in `XDG_DATA_HOME`.
    #[arg(long = "functions", value_name = "DIR", env = "HOLDFAST_FUNCTIONS")]
    folder: Option<PathBuf>,
}

impl StoreArgs {
    pub(super) fn open(&self) -> holdfast_base::Result<Store> {
        match &self.folder {
            Some(folder) => Store::open(folder),
            None => Store::open(Store::default_folder()?),
        }
    }
}

/// A function.
#[derive(Debug, Args)]
pub(crate) struct NamedArgs {
    /// The function.
    #[arg(value_name = "NAME")]
    pub(super) name: Name,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    /// The folder, with its function.toml.
    #[arg(value_name = "FOLDER")]
    source: PathBuf,
    /// The function's name, if not the folder's.
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct InvokeArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// What it reads on standard input; - is this command's. Without it there is nothing to read: this command's own is left alone, as loops and schedulers need it.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub(super) named: NamedArgs,
    /// Only this call.
    #[arg(long, value_name = "ID", conflicts_with_all = ["limit", "follow"])]
    pub(super) id: Option<String>,
    /// Write the output that was kept of that call, and nothing else.
    #[arg(long, requires = "id")]
    pub(super) output: bool,
    /// Calls that are shown.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=20_000))]
    pub(super) limit: u32,
    /// Go on with calls as they end, until it is interrupted or the function is removed.
    #[arg(long)]
    pub(super) follow: bool,
}

pub(crate) fn run(command: FunctionCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        FunctionCommand::Deploy(args) => deploy(args, json),
        FunctionCommand::Invoke(args) => invoke(&args, json),
        FunctionCommand::List(args) => list(&args.open()?, json),
        FunctionCommand::Logs(args) => logs(&args, json),
        FunctionCommand::Remove(args) => {
            args.store.open()?.remove(&args.name)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn deploy(args: DeployArgs, json: bool) -> anyhow::Result<ExitCode> {
    let deployed = args.store.open()?.deploy(&args.source, args.name)?;
    let (name, version) = (deployed.name.as_str(), deployed.version.to_string());
    let held = deployed.held.to_string();
    let told =
        json!({ "name": name, "version": version, "files": deployed.files, "bytes": deployed.bytes, "held_by": held });
    output::show(json, &told, |_| {
        format!("{name}: version {version}, {} files, {}, held by {held}", deployed.files, format_bytes(deployed.bytes))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn invoke(args: &InvokeArgs, json: bool) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::from)?;
    let done = runtime.block_on(call(args));
    // A read of standard input that nobody waits for any more would keep it.
    runtime.shutdown_background();
    let (call, signalled) = done?;
    if json {
        output::print(&serde_json::to_string_pretty(&call_json(&call))?);
    } else {
        // Nobody is there to be told if they cannot be written.
        let _ = std::io::stderr().write_all(&call.log);
        let _ = std::io::stdout().write_all(&call.output).and_then(|()| std::io::stdout().flush());
    }
    Ok(ExitCode::from(told(args.named.name.as_str(), &call, signalled)))
}

/// Makes the call; also says which signal ended it.
async fn call(args: &InvokeArgs) -> anyhow::Result<(Call, Option<u8>)> {
    let function = Arc::new(args.named.store.open()?.function(&args.named.name)?);
    let mut input = input(args.input.as_deref()).await?;
    let (stop, stopped) = watch::channel(false);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::from)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::from)?;
    let mut signalled = None;
    let mut calling = std::pin::pin!(invoke_alone(function, &mut *input, stopped));
    let call = loop {
        let kind = tokio::select! {
            call = &mut calling => break call?,
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
        };
        signalled = u8::try_from(kind.as_raw_value()).ok();
        stop.send_replace(true);
    };
    Ok((call, signalled))
}

/// Whether somebody has written to a pipe that is standard input, and will not see it read.
fn something_waits() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let own = std::io::stdin();
    let is_pipe =
        rustix::fs::fstat(&own).is_ok_and(|found| rustix::fs::FileType::from_raw_mode(found.st_mode).is_fifo());
    let mut events = [PollFd::new(&own, PollFlags::IN)];
    is_pipe
        && poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
        && events[0].revents().contains(PollFlags::IN)
}

async fn input(file: Option<&Path>) -> anyhow::Result<Box<dyn AsyncRead + Send + Unpin>> {
    Ok(match file {
        None => {
            if something_waits() {
                eprintln!("holdfast: standard input is not read; --input - hands it over");
            }
            Box::new(tokio::io::empty())
        }
        Some(path) if path == Path::new("-") => {
            let own = std::io::stdin().as_fd().try_clone_to_owned().map_err(Error::from)?;
            Box::new(File::from_std(own.into()))
        }
        Some(path) => Box::new(File::open(path).await.map_err(|error| Error::from(error).context(path.display()))?),
    })
}

/// Says how a call failed, and with which code.
fn told(name: &str, call: &Call, signalled: Option<u8>) -> u8 {
    if call.end == End::Done {
        return 0;
    }
    eprintln!("holdfast: {name}: {} (call {})", call.end, call.id);
    match &call.end {
        End::Stopped => SIGNALLED + signalled.unwrap_or(0),
        End::InputTooLarge(_) => ErrorKind::TooLarge.exit_code(),
        End::InputBroken(_) => ErrorKind::Unavailable.exit_code(),
        End::NotStarted(kind, _) => kind.exit_code(),
        _ => FAILED,
    }
}
