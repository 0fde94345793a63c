//! Options that measurements share, and what is done with them alike.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, bail};
use clap::Args;

use crate::http::Trust;
use crate::report::Report;
use crate::target::{TargetSpec, redact_url};

/// Options of measurements of servers.
#[derive(Debug, Clone, Args)]
pub struct SharedArgs {
    /// User for Basic authentication at servers that have no --auth of their own.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub user: Option<String>,

    /// File with that user's password in its first line.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,

    /// User and password file of one server; may be given once for each.
    #[arg(long, value_name = "LABEL=USER:FILE")]
    pub auth: Vec<String>,

    /// Accept any TLS certificate.
    #[arg(long)]
    pub insecure: bool,

    /// Trust the certificates in this PEM file instead of the machine's.
    #[arg(long, alias = "ca", value_name = "FILE", conflicts_with = "insecure")]
    pub ca_file: Option<PathBuf>,

    /// Options of all measurements.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Options of all measurements.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// Process of a server on this machine, for CPU seconds and peak memory of it and its children.
    #[arg(long, value_name = "LABEL=PID")]
    pub pid: Vec<String>,

    /// Seed of test data and random choices.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,

    /// Do not write back dirty data before each timed run.
    #[arg(long)]
    pub no_settle: bool,

    /// Do not touch and free memory before each timed run.
    #[arg(long)]
    pub no_warm: bool,

    /// Write the report to PREFIX.json and PREFIX.html.
    #[arg(long, value_name = "PREFIX")]
    pub output: Option<PathBuf>,

    /// Remark for the report, such as a server's version and settings; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub note: Vec<String>,

    /// Do not tell on standard error what is being measured.
    #[arg(long)]
    pub no_progress: bool,
}

impl SharedArgs {
    /// Gives the targets their credentials and processes. Reads the password files.
    pub(crate) fn apply(&self, targets: &mut [TargetSpec]) -> anyhow::Result<()> {
        for option in &self.auth {
            let (target, value) = find(&labels(targets), "--auth", option)?;
            let target = &mut targets[target];
            let (user, file) = value.split_once(':').context("--auth is LABEL=USER:FILE")?;
            target.credentials = Some((user.to_owned(), read_password(&PathBuf::from(file))?));
        }
        for (target, pid) in self.common.pids(&labels(targets))? {
            targets[target].pids.push(pid);
        }
        if let (Some(user), Some(file)) = (&self.user, &self.password_file) {
            let password = read_password(file)?;
            for target in targets.iter_mut().filter(|target| target.credentials.is_none()) {
                target.credentials = Some((user.clone(), password.clone()));
            }
        }
        Ok(())
    }
}

impl CommonArgs {
    /// The processes by the places of their targets.
    pub(crate) fn pids(&self, labels: &[&str]) -> anyhow::Result<Vec<(usize, u32)>> {
        let pid = |option: &String| {
            let (target, value) = find(labels, "--pid", option)?;
            Ok((target, value.parse().with_context(|| format!("--pid {option}: {value:?} is no process id"))?))
        };
        self.pid.iter().map(pid).collect()
    }

    /// Writes the files of `--output` and says so.
    pub(crate) fn write(&self, report: &Report) -> anyhow::Result<()> {
        let Some(prefix) = &self.output else { return Ok(()) };
        let [json, html] = report.write(prefix)?;
        if !self.no_progress {
            eprintln!("wrote {} and {}", json.display(), html.display());
        }
        Ok(())
    }
}

/// Whom to trust, after `--insecure` and `--ca-file`.
pub(crate) fn trust(insecure: bool, ca_file: Option<&PathBuf>) -> Trust {
    match (insecure, ca_file) {
        (true, _) => Trust::Anything,
        (false, Some(path)) => Trust::File(path.clone()),
        (false, None) => Trust::System,
    }
}

/// This process's command line as a shell would take it, without passwords.
pub(crate) fn command_line() -> String {
    std::env::args().map(|word| quote(&redact_url(&word))).collect::<Vec<_>>().join(" ")
}

/// Whether the shell knows a program, or a word of its own.
pub(crate) fn shell_knows(program: &str) -> bool {
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "command -v -- \"$1\"", "sh", program])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Refuses two targets of one name.
pub(crate) fn check_labels<'l>(labels: impl Iterator<Item = &'l str>) -> anyhow::Result<()> {
    let mut seen = Vec::new();
    for label in labels {
        if seen.contains(&label) {
            bail!("two targets are called {label:?}: give labels, such as one=URL two=URL");
        }
        seen.push(label);
    }
    Ok(())
}

pub(crate) fn labels(targets: &[TargetSpec]) -> Vec<&str> {
    targets.iter().map(|target| target.label.as_str()).collect()
}

/// The place of the target that an option of the form `LABEL=VALUE` speaks of, and the value.
pub(crate) fn find<'o>(labels: &[&str], name: &str, option: &'o str) -> anyhow::Result<(usize, &'o str)> {
    let Some((label, value)) = option.split_once('=') else { bail!("{name} {option}: it has the form LABEL=…") };
    match labels.iter().position(|known| *known == label) {
        Some(target) => Ok((target, value)),
        None => bail!("{name} {option}: nothing is labelled {label:?}; there are {}", labels.join(", ")),
    }
}

fn read_password(file: &PathBuf) -> anyhow::Result<String> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read the password file {}", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A word as a shell would take it.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{check_labels, quote};

    #[test]
    fn words_of_the_command_are_quoted_as_a_shell_needs_it() {
        assert_eq!(quote("--only=upload,small"), "--only=upload,small");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }

    #[test]
    fn two_targets_of_one_name_are_refused() {
        assert!(check_labels(["a", "b"].into_iter()).is_ok());
        assert!(check_labels(["a", "b", "a"].into_iter()).is_err());
    }
}
