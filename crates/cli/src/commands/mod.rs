//! The commands, one file each, and the runtime they run on.

pub(crate) mod account;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod bench;
mod bench_catalogue;
mod bench_function;
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod function;
mod function_show;
pub(crate) mod job;
mod job_bars;
mod job_run;
mod job_show;
pub(crate) mod man;
pub(crate) mod member;
pub(crate) mod migrate;
mod mount;
pub(crate) mod mount_care;
pub(crate) mod policy;
pub(crate) mod publish;
pub(crate) mod publish_call;
pub(crate) mod reclaim;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod run_log;
pub(crate) mod search;
mod search_saved;
pub(crate) mod serve;
mod serve_mounts;
pub(crate) mod share;
pub(crate) mod site;
pub(crate) mod space;
pub(crate) mod tag;
pub(crate) mod thumbnail_worker;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod transfer;
pub(crate) mod transfer_args;
mod transfer_metrics;
mod transfer_show;
mod transfer_words;
pub(crate) mod trash;
pub(crate) mod version;

use crate::args::{Cli, Command, Common};
use holdfast_base::{Clock, Error, SystemClock};
use holdfast_meta::AuditNote;
use holdfast_meta::audit::noting;
use holdfast_server::telemetry::{self, LogConfig, LogFormat};
use rustix::fs::Mode;
use std::future::Future;
use std::process::ExitCode;

/// Threads for work that blocks (disk, Argon2id, scans): they come and go, and beyond this work waits its turn.
const BLOCKING_THREADS_MAX: usize = 64;

/// Runs a command.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let common = cli.common;
    if let Command::ThumbnailWorker(args) = cli.command {
        // Before anything is opened or read: it is about to give up that it can.
        return thumbnail_worker::run(&args);
    }
    let peoples_own = matches!(
        cli.command,
        Command::Push(_)
            | Command::Pull(_)
            | Command::Sync(_)
            | Command::Job(_)
            | Command::Run(_)
            | Command::Function(_)
            | Command::Policy(_)
    );
    let public =
        matches!(cli.command, Command::Config(_) | Command::Bench(_) | Command::Completion(_) | Command::Man(_));
    if !peoples_own && !public {
        // Names in a catalogue, or in a backup of it, are nobody else's business.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
    }
    if let Command::Serve(args) = cli.command {
        return serve::run(args, &common);
    }
    log_of_a_command(&common)?;
    match cli.command {
        Command::Serve(_) | Command::ThumbnailWorker(_) => Ok(ExitCode::SUCCESS),
        Command::Account(command) => block_on(noted("command.account", account::run(command, common.json))),
        Command::Space(command) => block_on(noted("command.space", space::run(command, common.json))),
        Command::Token(command) => block_on(noted("command.token", token::run(command, common.json))),
        Command::Version(command) => block_on(version::run(command, common.json)),
        Command::Trash(command) => block_on(trash::run(command, common.json)),
        Command::Tag(command) => block_on(tag::run(command, common.json)),
        Command::Share(command) => block_on(share::run(command, common.json)),
        Command::Search(args) => block_on(search::run(args, common.json)),
        Command::Publish(args) => block_on(publish::run(args, common.json)),
        Command::Site(command) => block_on(site::run(command, common.json)),
        Command::Check(args) => block_on(check::run(args, common.json)),
        Command::Reclaim(args) => block_on(reclaim::run(args, common.json)),
        Command::Backup(args) => block_on(backup::run(args, common.json)),
        Command::Restore(args) => block_on(restore::run(args, common.json)),
        Command::Cluster(command) => block_on(cluster::run(command, common.json)),
        Command::MigrateCatalogue(args) => block_on(migrate::catalogue(args, common.json)),
        Command::MigrateStore(args) => block_on(migrate::store(args, common.json)),
        Command::Audit(args) => block_on(audit::run(args, common.json)),
        Command::Top(args) => block_on(top::run(args, common.json)),
        Command::Mount(line) => mount_care::run(&line, common.json),
        Command::Umount(args) => mount_care::umount(&args, common.json),
        Command::Push(args) | Command::Pull(args) => transfer::push(&args, common.json),
        Command::Sync(args) => transfer::sync(&args, common.json),
        Command::Run(line) => run::run(line, common.json),
        Command::Function(command) => function::run(command, common.json),
        Command::Policy(command) => policy::run(&command, common.json),
        Command::Job(command) => job::run(&command, common.json),
        Command::Config(command) => config::run(command, common.json),
        Command::Bench(command) => bench::run(command, common.json),
        Command::Completion(args) => Ok(completion::run(&args)),
        Command::Man(args) => man::run(&args),
    }
}

/// Has what a command changes written down with the change: nobody is signed in, and there is no address. No argument is a secret.
async fn noted<T>(action: &str, work: impl Future<Output = T>) -> T {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let note = AuditNote {
        at_ms: SystemClock.now_ms(),
        node: holdfast_server::engines::host_name(),
        action: action.to_owned(),
        object: words.join(" "),
        result: "ok".into(),
        ..AuditNote::default()
    };
    noting(note, work).await.0
}

/// Runs a future on a runtime of its own.
pub(crate) fn block_on(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .map_err(Error::from)?;
    runtime.block_on(work)
}

/// Commands say what they have to say themselves; their log has warnings only, unless more is asked for.
fn log_of_a_command(common: &Common) -> anyhow::Result<()> {
    let format = match common.log_format {
        Some(crate::args::LogFormatArg::Json) => LogFormat::Json,
        _ => LogFormat::Human,
    };
    let asked = common.log_level.clone().or_else(|| std::env::var("HOLDFAST_LOG").ok());
    // The kernel may have given up a request of a mount that is answered all the same: that is nobody's trouble.
    let level = asked.unwrap_or_else(|| "warn,fuser::reply=off".into());
    Ok(telemetry::init(&LogConfig { format, level, ..LogConfig::default() })?)
}
