//! `holdfast job`: transfers that are described in files, as the jobs crate runs them.

use super::block_on;
use super::job_run;
use super::job_show::{history_words, list_json, list_words, run_json, state_json, state_words};
use crate::output;
use clap::{Args, Subcommand};
use holdfast_base::Error;
use holdfast_jobs::file::Set;
use holdfast_jobs::import::{self, import};
use holdfast_jobs::runner::{State, default_folder};
use holdfast_jobs::store::Store;
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is done with jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Read job files, and say whether everything in them is right.
    Check(FilesArgs),
    /// List jobs, and when each is due next.
    List(FilesArgs),
    /// Show when a job is due next, and what it would move if it ran now. Nothing is changed.
    Preview(NamedArgs),
    /// Run a job now, in the foreground, and its steps.
    Start(StartArgs),
    /// Keep all jobs to their schedules and inboxes until SIGTERM. SIGHUP reads the files anew.
    Run(RunArgs),
    /// Show which jobs are under way, when they are due, and how each ended last.
    Status(RunArgs),
    /// Show what runs did, the latest first.
    History(HistoryArgs),
    /// Print a job file made of files of OODT's pushpull: RemoteSpecs.xml, ExternalSources.xml, and specs of directory structures.
    Import(ImportArgs),
}

/// Job files.
#[derive(Debug, Args)]
pub(crate) struct FilesArgs {
    /// Job files; sites of one are known in all.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// A job of some files.
#[derive(Debug, Args)]
pub(crate) struct NamedArgs {
    /// The job.
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    /// Job files.
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
}

/// Where state is.
#[derive(Debug, Args)]
pub(crate) struct StateArgs {
    /// Folder of state: what was run, and what is due. Without it /var/lib/holdfast-jobs for root, else holdfast-jobs in `XDG_STATE_HOME`.
    #[arg(long, value_name = "DIR", env = "HOLDFAST_JOBS_STATE")]
    state: Option<PathBuf>,
}

impl StateArgs {
    pub(super) fn open(&self) -> holdfast_base::Result<State> {
        match &self.state {
            Some(folder) => State::open(folder),
            None => State::open(&default_folder()?),
        }
    }
}

/// A job to be run now.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    pub(super) named: NamedArgs,
    #[command(flatten)]
    pub(super) state: StateArgs,
}

/// Jobs to be kept.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Job files.
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) state: StateArgs,
}

/// What was run.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Only runs of this job.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Runs that are shown.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit: u64,
    #[command(flatten)]
    state: StateArgs,
}

/// Files of another tool.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files, of any of the three kinds.
    #[arg(value_name = "XML", required = true)]
    files: Vec<PathBuf>,
}

/// Runs a command.
pub(crate) fn run(command: &JobCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        JobCommand::Check(args) => check(&args.files, json),
        JobCommand::List(args) => list(&args.files, json),
        JobCommand::Preview(args) => block_on(job_run::preview(args, json)),
        JobCommand::Start(args) => block_on(job_run::start(args, json)),
        JobCommand::Run(args) => block_on(job_run::run(args, json)),
        JobCommand::Status(args) => status(args, json),
        JobCommand::History(args) => history(args, json),
        JobCommand::Import(args) => import_files(&args.files, json),
    }
}

fn check(files: &[PathBuf], json: bool) -> anyhow::Result<ExitCode> {
    let set = Set::load(files)?;
    let names = json!({ "jobs": set.jobs.keys().collect::<Vec<_>>(), "sites": set.sites.keys().collect::<Vec<_>>() });
    let words = |_: &_| format!("All is right: {} jobs, {} sites.", set.jobs.len(), set.sites.len());
    output::show(json, &names, words)?;
    Ok(ExitCode::SUCCESS)
}

fn list(files: &[PathBuf], json: bool) -> anyhow::Result<ExitCode> {
    let set = Set::load(files)?;
    output::show(json, &list_json(&set), |_| list_words(&set))?;
    Ok(ExitCode::SUCCESS)
}

fn status(args: &RunArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (set, state) = (Set::load(&args.files)?, args.state.open()?);
    let (running, store) = (state.is_running()?, state.store()?);
    let mut rows = Vec::with_capacity(set.jobs.len());
    for job in set.jobs.values() {
        let last = store.runs(Some(&job.name), 1)?.into_iter().next();
        // What has no end and nobody's lock was killed.
        let held = state.lock_job(&job.name)?.is_none();
        rows.push((job, last, held));
    }
    output::show(json, &state_json(running, &rows), |_| state_words(running, &rows))?;
    Ok(ExitCode::SUCCESS)
}

fn history(args: &HistoryArgs, json: bool) -> anyhow::Result<ExitCode> {
    let runs = args.state.open()?.store()?.runs(args.name.as_deref(), args.limit)?;
    let all: Vec<_> = runs.iter().map(run_json).collect();
    output::show(json, &all, |_| history_words(&runs))?;
    Ok(ExitCode::SUCCESS)
}

fn import_files(files: &[PathBuf], json: bool) -> anyhow::Result<ExitCode> {
    let sources = files.iter().map(|file| source(file)).collect::<holdfast_base::Result<Vec<_>>>()?;
    let text = import(&sources)?;
    output::show(json, &json!({ "file": text }), |_| text.clone())?;
    Ok(ExitCode::SUCCESS)
}

fn source(path: &Path) -> holdfast_base::Result<import::Source> {
    let about = |error: std::io::Error| Error::from(error).context(path.display());
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .map_err(about)?
        .take(import::BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(about)?;
    Ok((path.display().to_string(), bytes))
}
