//! `holdfast bench wan` as a program of its own: to measure tools without building all of Holdfast.

use std::process::ExitCode;

use clap::Parser;
use holdfast_bench::wan::WanArgs;

#[derive(Parser)]
#[command(version, about)]
struct Command {
    #[command(flatten)]
    args: WanArgs,
}

fn main() -> anyhow::Result<ExitCode> {
    let Some(report) = Command::parse().args.execute()? else { return Ok(ExitCode::SUCCESS) };
    print!("{}", report.table());
    Ok(if report.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
