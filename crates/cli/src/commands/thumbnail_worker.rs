//! `holdfast thumbnail-worker`: what a server starts to draw thumbnails; nobody calls it by hand but to prove that it is confined.

use crate::output;
use clap::Args;
use holdfast_base::Error;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct ThumbnailWorkerArgs {
    /// Instead of working, try what a worker must not be able to do, and print what became of it.
    #[arg(long)]
    prove: bool,
}

/// Works, or proves.
pub(crate) fn run(args: &ThumbnailWorkerArgs) -> anyhow::Result<ExitCode> {
    if !args.prove {
        holdfast_thumbnail::work()?;
        return Ok(ExitCode::SUCCESS);
    }
    let attempts = holdfast_thumbnail::prove()?;
    output::print(&serde_json::to_string(&attempts).map_err(|error| Error::internal("JSON").with_source(error))?);
    let all = attempts.iter().all(|attempt| attempt.refused);
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
