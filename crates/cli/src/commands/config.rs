//! `holdfast config`.

use crate::config::{self, Flags};
use crate::output::{print, table};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the merged configuration and where each value comes from.
    Show(ShowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Data directory, whose holdfast.toml is read.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Configuration file instead.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(command: ConfigCommand, json: bool) -> anyhow::Result<ExitCode> {
    let ConfigCommand::Show(args) = command;
    let mut flags = Flags::default();
    flags.set("data", args.data.as_ref().map(|data| data.display().to_string()));
    let settings = config::load(args.config.as_deref(), args.data.as_deref(), flags)?.settings();
    if json {
        let all: serde_json::Map<_, _> = settings
            .into_iter()
            .map(|it| (it.key, serde_json::json!({ "value": it.value, "origin": it.origin })))
            .collect();
        print(&serde_json::to_string_pretty(&all)?);
    } else {
        let rows: Vec<_> = settings.into_iter().map(|it| vec![it.key, it.value.to_string(), it.origin]).collect();
        print(&table(&["SETTING", "VALUE", "FROM"], &rows));
    }
    Ok(ExitCode::SUCCESS)
}
