//! `holdfast bench dav` as a program of its own: to measure servers without building all of Holdfast.

use std::process::ExitCode;

use clap::Parser;
use holdfast_bench::dav::DavArgs;

#[derive(Parser)]
#[command(version, about)]
struct Command {
    #[command(flatten)]
    args: DavArgs,
}

fn main() -> anyhow::Result<ExitCode> {
    let report = Command::parse().args.execute()?;
    print!("{}", report.table());
    Ok(if report.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
