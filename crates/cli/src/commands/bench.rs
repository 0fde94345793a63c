//! `holdfast bench`: every measurement of the documentation, as a command.

use super::bench_catalogue::{self, CatalogueBenchArgs};
use super::bench_function::{self, FunctionBenchArgs};
use super::block_on;
use crate::output::print;
use clap::Subcommand;
use holdfast_base::ErrorKind;
use holdfast_bench::Report;
use holdfast_bench::confined::{FileserverArgs, LeakArgs, SourceArgs, StartArgs, serve_worker};
use holdfast_bench::create::CreateArgs;
use holdfast_bench::dav::DavArgs;
use holdfast_bench::load::HttpArgs;
use holdfast_bench::wan::WanArgs;
use std::process::ExitCode;

/// Exit code when a measured server answered wrongly: as for a dependency that failed.
const FAILED: u8 = ErrorKind::Unavailable.exit_code();

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure WebDAV servers side by side.
    Dav(Box<DavArgs>),
    /// Put load on web pages and measure them side by side.
    Http(Box<HttpArgs>),
    /// Measure how fast files are made in folders, mounted drives before all, side by side.
    Create(Box<CreateArgs>),
    /// Measure how tools fetch files over networks that delay, lose, corrupt, reorder and duplicate, side by side.
    Wan(Box<WanArgs>),
    /// Measure a file server as report 002 did, natively and under what confines it, side by side.
    Fileserver(Box<FileserverArgs>),
    /// What a confined file server is started with.
    #[command(hide = true)]
    FileserverWorker,
    /// Measure packing, unpacking and building sources, natively and under what confines it, side by side.
    Source(Box<SourceArgs>),
    /// Measure the start of a program, natively and under what confines it, side by side.
    Start(Box<StartArgs>),
    /// Measure what is left of memory and disk while a file server works again and again, natively and under what confines it.
    Leak(Box<LeakArgs>),
    /// Measure calls of a function, cold and warm, beside the same program started natively, and what many calls leave behind.
    Function(FunctionBenchArgs),
    /// Measure what operations of the catalogue cost as the drive grows, on SQLite or PostgreSQL.
    Catalogue(CatalogueBenchArgs),
}

/// Runs one of them.
pub(crate) fn run(command: BenchCommand, json: bool) -> anyhow::Result<ExitCode> {
    let report: Option<Report> = match command {
        BenchCommand::Dav(args) => Some(args.execute()?),
        BenchCommand::Http(args) => args.execute()?,
        BenchCommand::Create(args) => args.execute()?,
        BenchCommand::Wan(args) => args.execute()?,
        BenchCommand::Fileserver(args) => Some(args.execute()?),
        BenchCommand::FileserverWorker => {
            serve_worker()?;
            None
        }
        BenchCommand::Source(args) => Some(args.execute()?),
        BenchCommand::Start(args) => Some(args.execute()?),
        BenchCommand::Leak(args) => Some(args.execute()?),
        BenchCommand::Function(args) => return block_on(bench_function::run(args, json)),
        BenchCommand::Catalogue(args) => return block_on(bench_catalogue::run(args, json)),
    };
    let Some(report) = report else { return Ok(ExitCode::SUCCESS) };
    print(&if json { report.json()? } else { report.table() });
    Ok(if report.failed() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
