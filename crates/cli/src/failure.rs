//! How a command ends that did not work: a message on standard error and an exit code scripts can tell apart.
//!
//! docs/operating/exit-codes.md lists the codes; they come from [`ErrorKind::exit_code`](holdfast_base::ErrorKind::exit_code).

use holdfast_base::ErrorKind;
use std::process::ExitCode;

/// A command line that cannot be understood (`EX_USAGE` of sysexits(3)).
const USAGE: u8 = ErrorKind::InvalidInput.exit_code();

/// Ends after clap refused the command line, or showed help or version.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Nothing is left to say if the terminal is gone.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Ends after an error.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let code = code_of(error);
    let message = format!("{error:#}");
    if json {
        eprintln!("{}", serde_json::json!({ "error": { "exit_code": code, "message": message } }));
    } else {
        eprintln!("holdfast: {message}");
    }
    ExitCode::from(code)
}

fn code_of(error: &anyhow::Error) -> u8 {
    let kind =
        error.chain().find_map(|cause| cause.downcast_ref::<holdfast_base::Error>()).map(holdfast_base::Error::kind);
    kind.unwrap_or(ErrorKind::Internal).exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn context_does_not_hide_the_code() {
        let error = Err::<(), _>(holdfast_base::Error::not_found("gone")).context("looking").expect_err("fails");
        assert_eq!(code_of(&error), ErrorKind::NotFound.exit_code());
    }
}
