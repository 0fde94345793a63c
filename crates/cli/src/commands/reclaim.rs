//! `holdfast reclaim`: the space-giving job, at once. A running server does it itself when it is asked with SIGUSR1.

use crate::args::DataArg;
use crate::output::show;
use clap::Args;
use holdfast_base::size::format_bytes;
use holdfast_base::{Error, ErrorKind};
use holdfast_drive::care::{ReclaimReport, reclaim};
use holdfast_server::{DataDir, LocalDrive};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct ReclaimArgs {
    #[command(flatten)]
    data: DataArg,
}

/// Runs it here, or has the running server do it.
pub(crate) async fn run(args: ReclaimArgs, json: bool) -> anyhow::Result<ExitCode> {
    let directory = DataDir::open(&args.data.data)?;
    match LocalDrive::open(directory.clone(), &args.data.config()?).await {
        Ok(drive) => {
            let report = reclaim(drive.engine(), true).await?;
            drive.close().await?;
            show(json, &report, words)?;
        }
        Err(error) if error.kind() == ErrorKind::Conflict => {
            let process = directory.holder().ok_or(error)?;
            ask(process)?;
            show(json, &json!({ "asked_process": process }), |_| {
                format!("The server (process {process}) has been asked to; its log says what came of it.")
            })?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(process: i32) -> anyhow::Result<()> {
    let pid = Pid::from_raw(process).ok_or_else(|| Error::internal("the lock names no process"))?;
    kill_process(pid, Signal::USR1)
        .map_err(|error| Error::forbidden(format!("the server (process {process}) could not be asked: {error}")).into())
}

fn words(report: &ReclaimReport) -> String {
    format!(
        "{} old versions and trash entries had expired, {} rows freed\n{} packs rewritten ({} moved), {} deleted: {} given back\n",
        report.expired,
        report.rows_freed,
        report.packs_rewritten,
        format_bytes(report.bytes_moved),
        report.packs_deleted,
        format_bytes(report.bytes_freed),
    )
}
