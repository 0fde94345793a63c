//! `holdfast backup`.

use super::check;
use crate::args::DataArg;
use crate::local::Local;
use crate::output::show;
use clap::Args;
use holdfast_base::ErrorKind;
use holdfast_base::size::format_bytes;
use holdfast_drive::care::{BackupReport, backup};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// Folder of the backup: a new one, or one with an earlier backup of this drive.
    dest: PathBuf,
    #[command(flatten)]
    data: DataArg,
}

/// Runs it; code 65 if the copy was made and something in it is wrong.
pub(crate) async fn run(args: BackupArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let store = local.store().await?;
    let report = backup(local.opened.in_file("backup")?, &*store, &args.dest).await?;
    show(json, &report, |report| words("backed up", report))?;
    local.close().await?;
    Ok(outcome(&report))
}

/// The exit code of a copy.
pub(super) fn outcome(report: &BackupReport) -> ExitCode {
    if report.check.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(ErrorKind::Damaged.exit_code()) }
}

/// A report for people.
pub(super) fn words(done: &str, report: &BackupReport) -> String {
    format!(
        "{} packs {done}: {} copied ({}), {} of earlier backups removed\n{}",
        report.packs,
        report.packs_copied,
        format_bytes(report.bytes_copied),
        report.packs_removed,
        check::words(&report.check)
    )
}
