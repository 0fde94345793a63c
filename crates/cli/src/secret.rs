//! Passwords and codes into a command: from a file, from standard input, or typed without echo. Never from the command line,
//! where every process of the machine can read them.

use anyhow::Context;
use holdfast_auth::Secret;
use holdfast_base::Error;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::Path;
use zeroize::Zeroizing;

/// Longest line that is taken for a secret.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// The first line of a file; `-` is standard input.
pub(crate) fn from_file(path: &Path) -> anyhow::Result<Secret> {
    if path == Path::new("-") {
        return first_line(std::io::stdin().lock()).context("reading a password from standard input");
    }
    let at = || format!("reading a password from {}", path.display());
    let file = std::fs::File::open(path).map_err(Error::from).with_context(at)?;
    first_line(BufReader::new(file)).with_context(at)
}

fn first_line(reader: impl BufRead) -> anyhow::Result<Secret> {
    let mut line = Zeroizing::new(String::new());
    reader.take(SECRET_BYTES_MAX).read_line(&mut line).map_err(|error| Error::invalid(error.to_string()))?;
    let text = line.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return Err(Error::invalid("its first line is empty").into());
    }
    Ok(Secret::new(text))
}

/// Whether somebody can be asked.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal()
}

/// Asks once.
pub(crate) fn ask(prompt: &str) -> anyhow::Result<Secret> {
    if !can_ask() {
        return Err(Error::invalid(
            "there is no terminal to ask for a password: use --password-file FILE, or - for standard input",
        )
        .into());
    }
    let typed = Zeroizing::new(rpassword::prompt_password(prompt).map_err(Error::from)?);
    Ok(Secret::new(typed.as_str()))
}

/// Asks for a new password twice.
pub(crate) fn ask_new(name: &str) -> anyhow::Result<Secret> {
    let first = ask(&format!("New password for {name}: "))?;
    let second = ask("The same again: ")?;
    if first != second {
        return Err(Error::invalid("the two passwords differ").into());
    }
    Ok(first)
}

/// A present password: from the file, or typed.
pub(crate) fn present(name: &str, file: Option<&Path>) -> anyhow::Result<Secret> {
    match file {
        Some(path) => from_file(path),
        None => ask(&format!("Password for {name}: ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_secret_without_its_end() {
        assert_eq!(first_line(&b"pass word \r\nmore\n"[..]).expect("reads").expose(), "pass word ");
        assert_eq!(first_line(&b"no newline"[..]).expect("reads").expose(), "no newline");
        for bad in [&b""[..], b"\nsecond line", b"\xff\xfe\n"] {
            assert!(first_line(bad).is_err(), "{bad:?}");
        }
    }
}
