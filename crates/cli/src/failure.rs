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
    let message = message_of(error);
    if json {
        eprintln!("{}", serde_json::json!({ "error": { "exit_code": code, "message": message } }));
    } else {
        eprintln!("holdfast: {message}");
    }
    ExitCode::from(code)
}

/// What went wrong, with the causes that are not told in it already: errors of files have the system's words in their own.
fn message_of(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        _ if told.ends_with(&cause) => told,
        _ => format!("{told}: {cause}"),
    })
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
    fn what_the_system_said_is_told_once() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error = anyhow::Error::from(holdfast_base::Error::from(full()).context("a/b"));
        assert_eq!(message_of(&error), format!("a/b: {}", full()));
        let error = Err::<(), _>(holdfast_base::Error::from(full())).context("copying").expect_err("fails");
        assert_eq!(message_of(&error), format!("copying: {}", full()));
    }

    #[test]
    fn context_does_not_hide_the_code() {
        let error = Err::<(), _>(holdfast_base::Error::not_found("gone")).context("looking").expect_err("fails");
        assert_eq!(code_of(&error), ErrorKind::NotFound.exit_code());
    }
}
