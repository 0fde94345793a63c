//! What a program is confined by: the beginning of a command, and a name for it.

use std::path::Path;

use anyhow::{Context, ensure};
use clap::Args;

use super::words;
use crate::shared::quote;

/// Stands for the folder of a run in a command.
const FOLDER: &str = "{dir}";

/// What is measured beside native.
#[derive(Debug, Clone, Args)]
pub(super) struct UnderArgs {
    /// Measure behind this command too, such as 'holdfast=holdfast run --policy p.toml --'; may be repeated. {dir} in it is the folder of the run.
    #[arg(long, visible_alias = "against", value_name = "NAME=COMMAND")]
    under: Vec<String>,
}

impl UnderArgs {
    pub(super) fn variants(&self) -> anyhow::Result<Vec<Variant>> {
        self.under.iter().map(|text| Variant::parse(text).with_context(|| format!("--under {text}"))).collect()
    }
}

/// A way to run a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Its name in the report.
    pub label: String,
    /// What stands before the program; nothing for native.
    pub prefix: Vec<String>,
    /// Processes that make it one: of a mount, a server.
    pub pids: Vec<u32>,
}

impl Variant {
    /// The program by itself.
    pub fn native() -> Self {
        Self { label: "native".to_owned(), prefix: Vec::new(), pids: Vec::new() }
    }

    /// Reads `NAME=COMMAND`.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let (label, command) = text.split_once('=').context("it has the form NAME=COMMAND")?;
        let prefix = words::split(command)?;
        ensure!(!label.is_empty() && !label.contains(char::is_whitespace), "a name is a word");
        ensure!(!prefix.is_empty(), "there is no command");
        Ok(Self { label: label.to_owned(), prefix, pids: Vec::new() })
    }

    /// The command with which `program` is run, in this folder.
    pub(super) fn command(&self, folder: &Path, program: &[String]) -> anyhow::Result<Vec<String>> {
        let folder = folder.to_str().context("the folder's name is not UTF-8")?;
        let prefix = self.prefix.iter().map(|word| word.replace(FOLDER, folder));
        Ok(prefix.chain(program.iter().cloned()).collect())
    }

    /// For the report.
    pub(super) fn words(&self) -> String {
        if self.prefix.is_empty() {
            return "nothing".to_owned();
        }
        self.prefix.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_a_name_and_the_runs_folder_in_the_place_of_its_mark() {
        let found = Variant::parse("bwrap=bwrap --bind {dir} {dir}/x --chdir='a b' --").expect("good");
        assert_eq!(found.label, "bwrap");
        let command = found.command(Path::new("/t"), &["true".to_owned()]).expect("UTF-8");
        assert_eq!(command, ["bwrap", "--bind", "/t", "/t/x", "--chdir=a b", "--", "true"]);
        assert_eq!(found.words(), "bwrap --bind '{dir}' '{dir}/x' '--chdir=a b' --");
        assert_eq!(Variant::native().command(Path::new("/t"), &["true".to_owned()]).expect("UTF-8"), ["true"]);
    }

    #[test]
    fn a_name_or_a_command_that_is_missing_is_refused() {
        for text in ["bwrap --bind / /", "=x", "a=", "a= ", "a b=c", "a='b"] {
            assert!(Variant::parse(text).is_err(), "{text}");
        }
    }
}
