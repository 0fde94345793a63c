//! `holdfast restore`.

use super::backup::{outcome, words};
use crate::args::DataArg;
use crate::output::show;
use clap::Args;
use holdfast_blob::fs::FsStore;
use holdfast_drive::care::restore;
use holdfast_server::DataDir;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Folder of the backup.
    source: PathBuf,
    #[command(flatten)]
    data: DataArg,
}

/// Runs it; the data directory becomes one only when the copy is whole.
pub(crate) async fn run(args: RestoreArgs, json: bool) -> anyhow::Result<ExitCode> {
    let unfinished = DataDir::begin(&args.data.data)?;
    let store = FsStore::open(unfinished.directory().packs())?;
    let report = restore(&args.source, &unfinished.directory().catalogue(), &store).await?;
    unfinished.finish()?;
    show(json, &report, |report| words("restored", report))?;
    Ok(outcome(&report))
}
