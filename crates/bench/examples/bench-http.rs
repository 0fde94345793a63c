//! `holdfast bench http` as a program of its own: to measure servers without building all of Holdfast.

use std::process::ExitCode;

use clap::Parser;
use holdfast_bench::load::HttpArgs;

#[derive(Parser)]
#[command(version, about)]
struct Command {
    #[command(flatten)]
    args: HttpArgs,
}

fn main() -> anyhow::Result<ExitCode> {
    let Some(report) = Command::parse().args.execute()? else { return Ok(ExitCode::SUCCESS) };
    print!("{}", report.table());
    Ok(if report.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
