//! `holdfast`: one binary for the drive, its care and its measurements.
//!
//! `main` parses, runs one command and turns its outcome into an exit code; each command is one file of `commands`.

mod args;
mod commands;
mod config;
mod failure;
mod local;
mod output;
mod secret;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything is parsed: its one argument is what ssh asks.
    if let Some(code) = holdfast_transfer::sftp::answer_ssh() {
        return code;
    }
    let cli = match args::Cli::read() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    let json = cli.common.json;
    match commands::run(cli) {
        Ok(code) => code,
        Err(error) => failure::report(&error, json),
    }
}
