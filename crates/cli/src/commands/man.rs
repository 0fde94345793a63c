//! `holdfast man`.

use crate::args::Cli;
use clap::{Args, CommandFactory};
use holdfast_base::Error;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page a command to this folder, instead of the main page to standard output.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints or writes the pages.
pub(crate) fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.dir {
        let at = |error: std::io::Error| Error::from(error).context(folder.display());
        std::fs::create_dir_all(folder).map_err(at)?;
        clap_mangen::generate_to(Cli::command(), folder).map_err(at)?;
    } else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(Error::from)?;
        crate::output::print(&String::from_utf8_lossy(&page));
    }
    Ok(ExitCode::SUCCESS)
}
