//! `holdfast check`.

use crate::args::DataArg;
use crate::local::Local;
use crate::output::show;
use clap::Args;
use holdfast_base::ErrorKind;
use holdfast_base::size::format_bytes;
use holdfast_drive::care::{CheckOptions, CheckReport, check};
use std::fmt::Write;
use std::process::ExitCode;

/// Exit code when something is wrong that was not repaired: as for damaged data.
const UNCLEAN: u8 = ErrorKind::Damaged.exit_code();

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    data: DataArg,
    /// Read every stored block and prove its sum, not only that it is there.
    #[arg(long)]
    read_data: bool,
    /// Set right what can be set right, and say what was done. The server must be stopped.
    #[arg(long)]
    repair: bool,
}

/// Runs it; code 65 if something is wrong and was not repaired.
pub(crate) async fn run(args: CheckArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    // Looking is harmless beside a server; changing is not.
    let _lock = if args.repair { Some(local.alone().await?) } else { None };
    let store = local.store().await?;
    let options = CheckOptions { read_data: args.read_data, repair: args.repair };
    let report = check(&*local.catalogue, &*store, options).await?;
    show(json, &report, words)?;
    local.close().await?;
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(UNCLEAN) })
}

/// A report for people.
pub(super) fn words(report: &CheckReport) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let weight = if finding.loss { "LOSS" } else { "wrong" };
        let _ = writeln!(text, "{weight}  {}: {}", finding.code, finding.message);
        if let Some(repaired) = &finding.repaired {
            let _ = writeln!(text, "       repaired: {repaired}");
        }
    }
    if report.findings_left_out > 0 {
        let _ = writeln!(text, "and {} more findings that are not listed", report.findings_left_out);
    }
    let _ = writeln!(text, "{} packs, {} blocks, {} contents looked at", report.packs, report.blocks, report.contents);
    if report.bytes_read > 0 {
        let _ = writeln!(text, "{} of stored data read", format_bytes(report.bytes_read));
    }
    text += match (report.findings.is_empty(), report.is_clean(), report.has_loss()) {
        (true, _, _) => "Nothing is wrong.\n",
        (false, true, _) => "Everything that was wrong is repaired.\n",
        (false, false, true) => "Content is lost or unreadable: restore it from a backup.\n",
        (false, false, false) => "Something is wrong, but no content is lost: stop the server and run with --repair.\n",
    };
    text
}
