//! `holdfast bench`: every measurement of the documentation, as a command.

use crate::output::print;
use clap::Subcommand;
use holdfast_base::ErrorKind;
use holdfast_bench::dav::DavArgs;
use std::process::ExitCode;

/// Exit code when a measured server answered wrongly: as for a dependency that failed.
const FAILED: u8 = ErrorKind::Unavailable.exit_code();

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure WebDAV servers side by side.
    Dav(Box<DavArgs>),
}

/// Runs one of them.
pub(crate) fn run(command: BenchCommand, json: bool) -> anyhow::Result<ExitCode> {
    let BenchCommand::Dav(args) = command;
    let report = args.execute()?;
    print(&if json { report.json()? } else { report.table() });
    Ok(if report.failed() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
