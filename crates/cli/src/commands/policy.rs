//! `holdfast policy`: looking at policies for confined programs before anything runs under them.

mod learn;

use crate::output;
use clap::{Args, Subcommand};
use holdfast_base::{Error, ErrorKind};
use holdfast_confine::{Bound, Gates, Line, Plan, Unheld, Way, bounds};
use holdfast_policy::{
    Decision, Limits, PairOptions, Policy, Report, Subject, TEXT_MAX_BYTES, check, check_pair, diff,
};
use serde_json::json;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Which policy.
#[derive(Debug, Args)]
pub(crate) struct PolicyArg {
    /// The policy, in TOML; - is standard input. Relative paths in it begin at its folder.
    #[arg(value_name = "FILE", required_unless_present = "model", conflicts_with = "model")]
    file: Option<PathBuf>,
    #[command(flatten)]
    pair: PairArgs,
}

/// A pair of the older form.
#[derive(Debug, Args)]
pub(crate) struct PairArgs {
    /// The model (model.txt) of a pair in the form of the system of report 002.
    #[arg(long, value_name = "FILE", requires = "rules")]
    model: Option<PathBuf>,
    /// The rules of the pair (policy.txt).
    #[arg(long, value_name = "FILE", requires = "model")]
    rules: Option<PathBuf>,
    /// The folder that the pair is about; what is outside stays as it is. Without it, the pair is about everything.
    #[arg(long, value_name = "DIR", requires = "model")]
    mounted: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say what is wrong with a policy, and what its writer will not have meant.
    Check(PolicyArg),
    /// Say what enforces each part of a policy on this machine, or why nothing does.
    Explain(PolicyArg),
    /// Write a policy in TOML, whichever form it has.
    Convert(PolicyArg),
    /// Run a program, allow what it asks for, and write the policy that it needed.
    Learn(learn::LearnArgs),
    /// Say what may be done under another policy that may not be done now, and the other way round.
    Diff {
        /// The policy that holds now, in TOML.
        #[arg(value_name = "BEFORE")]
        before: PathBuf,
        /// The other one.
        #[arg(value_name = "AFTER")]
        after: PathBuf,
    },
}

pub(crate) fn run(command: &PolicyCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        PolicyCommand::Learn(args) => learn::run(args),
        PolicyCommand::Check(which) => look(which, json),
        PolicyCommand::Explain(which) => explain(which, json),
        PolicyCommand::Convert(which) => {
            output::print(&read(which.file.as_deref(), &which.pair, None)?.to_toml());
            Ok(ExitCode::SUCCESS)
        }
        PolicyCommand::Diff { before, after } => differ(before, after, json),
    }
}

/// A policy's text, with the name that mistakes call it by and the folder that its relative paths begin at.
pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) base: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl Text {
    pub(crate) fn of(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let folder = if path == Path::new("-") { None } else { path.parent() };
        let base = std::path::absolute(folder.filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")))
            .map_err(Error::from)?;
        // A byte more than is allowed, so that more is noticed.
        let mut bytes = Vec::new();
        let most = TEXT_MAX_BYTES as u64 + 1;
        let read = match path.to_str() {
            Some("-") => std::io::stdin().take(most).read_to_end(&mut bytes),
            _ => File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)),
        };
        read.map_err(|error| Error::from(error).context(&name))?;
        Ok(Self { name, base, bytes })
    }

    pub(crate) fn policy(&self) -> anyhow::Result<Policy> {
        Ok(Policy::from_toml(&self.name, &self.base, &self.bytes)
            .map_err(|mistakes| Error::invalid(mistakes.to_string()))?)
    }
}

/// The texts of a pair.
struct Pair(Text, Text);

impl Pair {
    fn of(args: &PairArgs) -> anyhow::Result<Option<Self>> {
        let (Some(model), Some(rules)) = (&args.model, &args.rules) else { return Ok(None) };
        Ok(Some(Self(Text::of(model)?, Text::of(rules)?)))
    }

    fn texts(&self) -> [(&str, &[u8]); 2] {
        [(&self.0.name, &self.0.bytes), (&self.1.name, &self.1.bytes)]
    }
}

fn options<'a>(args: &'a PairArgs, launched: Option<&'a Path>) -> PairOptions<'a> {
    let subject = launched.map_or(Subject::Calling, Subject::Launched);
    PairOptions { subject, mounted: args.mounted.as_deref() }
}

/// Reads a policy of either form. Of a pair, the subject is the program that is launched, where one is.
pub(crate) fn read(file: Option<&Path>, pair: &PairArgs, launched: Option<&Path>) -> anyhow::Result<Policy> {
    if let Some(texts) = Pair::of(pair)? {
        let [model, rules] = texts.texts();
        let read = Policy::from_pair(model, rules, options(pair, launched));
        return Ok(read.map_err(|mistakes| Error::invalid(mistakes.to_string()))?);
    }
    Text::of(file.ok_or_else(|| Error::invalid("which policy? name a file, or a pair by --model and --rules"))?)?
        .policy()
}

/// What messages call a policy.
pub(crate) fn name_of(file: Option<&Path>, pair: &PairArgs) -> String {
    file.or(pair.rules.as_deref()).map(|path| path.display().to_string()).unwrap_or_default()
}

fn look(which: &PolicyArg, json: bool) -> anyhow::Result<ExitCode> {
    let report = if let Some(texts) = Pair::of(&which.pair)? {
        let [model, rules] = texts.texts();
        check_pair(model, rules, options(&which.pair, None))
    } else {
        let text = Text::of(which.file.as_deref().unwrap_or(Path::new("-")))?;
        check(&text.name, &text.base, &text.bytes)
    };
    let list = |mistakes: &[holdfast_policy::Mistake]| {
        let one = |it: &holdfast_policy::Mistake| json!({ "file": it.file, "line": it.line, "column": it.column, "text": it.text });
        mistakes.iter().map(one).collect::<Vec<_>>()
    };
    let told = json!({ "errors": list(&report.errors), "warnings": list(&report.warnings) });
    output::show(
        json,
        &told,
        |_| if report.is_clean() { "nothing is wrong with it".into() } else { report.to_string() },
    )?;
    Ok(verdict(&report))
}

fn verdict(report: &Report) -> ExitCode {
    if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(ErrorKind::InvalidInput.exit_code()) }
}

fn explain(which: &PolicyArg, json: bool) -> anyhow::Result<ExitCode> {
    let policy = read(which.file.as_deref(), &which.pair, None)?;
    let default = match policy.default() {
        Decision::Allow => "allowed",
        Decision::Deny => "refused",
    };
    let rules = policy.describe();
    let limits = bounds(&policy.settings);
    let bounded: Vec<_> = limits.iter().map(limit_json).collect();
    // Where a limit is not held, nothing is started.
    let code = if limits.iter().all(|it| it.held.is_ok()) { 0 } else { ErrorKind::Unsupported.exit_code() };
    let code = ExitCode::from(code);
    match Way::of(&policy, false) {
        Ok(Way::Broker { because }) => {
            let reasons = reasons(&because);
            let told = json!({ "default": default, "rules": rules, "exact": true, "mechanism": "broker", "no_view_because": reasons, "limits": bounded });
            output::show(json, &told, |_| brokered(default, &rules, &because) + &limited(&limits))?;
            Ok(code)
        }
        Ok(Way::Gates { gates, because }) => {
            let entries: Vec<_> = gates.around.lines.iter().map(entry).collect();
            let folders: Vec<_> = gates.folders.iter().map(|folder| folder.display().to_string()).collect();
            let numbers: Vec<_> = gates.rules.iter().map(|number| number + 1).collect();
            let told = json!({ "default": default, "rules": rules, "exact": true, "mechanism": "gate", "folders": folders, "rules_of_gates": numbers, "no_view_because": reasons(&because), "entries": entries, "open_to_fifos": gates.around.open_to_fifos(), "unix_sockets": gates.around.unix_sockets, "limits": bounded });
            output::show(json, &told, |_| gated(default, &rules, &gates) + &limited(&limits))?;
            Ok(code)
        }
        Ok(Way::View(plan)) => {
            let entries: Vec<_> = plan.lines.iter().map(entry).collect();
            let told = json!({ "default": default, "rules": rules, "exact": true, "mechanism": "view", "entries": entries, "open_to_fifos": plan.open_to_fifos(), "unix_sockets": plan.unix_sockets, "limits": bounded });
            output::show(json, &told, |_| held(default, &rules, &plan) + &limited(&limits))?;
            Ok(code)
        }
        Err(unheld) => {
            let reasons = reasons(&unheld);
            let told = json!({ "default": default, "rules": rules, "exact": false, "not_held": reasons });
            output::show(json, &told, |_| not_held(default, &rules, &unheld))?;
            Ok(ExitCode::from(ErrorKind::Unsupported.exit_code()))
        }
    }
}

fn reasons(unheld: &[Unheld]) -> Vec<serde_json::Value> {
    unheld.iter().map(|it| json!({ "rule": it.rule.map(|number| number + 1), "reason": it.reason })).collect()
}

fn entry(line: &Line) -> serde_json::Value {
    json!({ "path": line.path.display().to_string(), "access": line.access.to_string(), "held_by": line.held.to_string() })
}

fn as_written(default: &str, rules: &[String]) -> String {
    let mut text = format!("What no rule names is {default}.\n");
    for (number, rule) in rules.iter().enumerate() {
        let _ = writeln!(text, "rule {}: {rule}", number + 1);
    }
    text
}

/// The entries of a view that mounts hold, and those before which gates stand.
fn gated(default: &str, rules: &[String], gates: &Gates) -> String {
    let mut text = as_written(default, rules);
    let numbers = gates.rules.iter().map(|number| (number + 1).to_string()).collect::<Vec<_>>().join(", ");
    let _ = write!(
        text,
        "\nAll of it is enforced exactly. Rules {numbers} are decided by a gate: a file system (FUSE) before their folders, which the kernel asks about every call there, with its arguments. That costs time per call, and what is refused there can be written down (--audit). What is around is held by {}; of refusals there the kernel tells the program alone. In the whole sandbox splice, sendfile and copy_file_range answer EINVAL.\n{}\n",
        mounts(&gates.around),
        open(&gates.around)
    );
    let inside = |line: &&Line| !gates.folders.iter().any(|folder| line.path.starts_with(folder));
    let row = |line: &Line| vec![line.path.display().to_string(), line.access.to_string(), line.held.to_string()];
    let mut rows: Vec<_> = gates.around.lines.iter().filter(inside).map(row).collect();
    rows.extend(
        gates.folders.iter().map(|folder| vec![folder.display().to_string(), "by its rules".into(), "a gate".into()]),
    );
    text + &output::table(&["PATH", "ACCESS", "HELD BY"], &rows)
}

/// What holds a view.
fn mounts(plan: &Plan) -> &'static str {
    if plan.unix_sockets {
        "mounts in the program's own view, with Landlock behind them"
    } else {
        "mounts in the program's own view, with Landlock behind them for streams that are files"
    }
}

/// What mounts do not hold, a line for each.
fn open(plan: &Plan) -> String {
    let mut text = String::new();
    let fifos = plan.open_to_fifos().into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    if !fifos.is_empty() {
        let _ = writeln!(
            text,
            "But for this: a FIFO can be written to in what may only be read ({fifos}). That changes no file."
        );
    }
    if plan.unix_sockets {
        text += "UNIX sockets are held by their paths: in all that may be found, the program may speak to whoever listens there. `unix-sockets = \"none\"` closes them.\n";
    }
    text
}

fn held(default: &str, rules: &[String], plan: &Plan) -> String {
    let mut text = as_written(default, rules);
    let by = mounts(plan);
    let _ = writeln!(
        text,
        "\nAll of it is enforced exactly, by {by}. Who supervises it sees no refusals: the kernel tells the program alone."
    );
    text += &open(plan);
    text.push('\n');
    let rows: Vec<_> = plan
        .lines
        .iter()
        .map(|line| vec![line.path.display().to_string(), line.access.to_string(), line.held.to_string()])
        .collect();
    text + &output::table(&["PATH", "ACCESS", "HELD BY"], &rows)
}

fn brokered(default: &str, rules: &[String], because: &[Unheld]) -> String {
    let mut text = as_written(default, rules);
    text += "\nAll of it is enforced exactly, by a broker: the kernel stops the program at the calls that are to be decided, and its supervisor makes them. That costs time per call, and what is refused can be written down (--audit). Mounts, which cost nothing, do not hold it:\n";
    text + &lines(because)
}

fn limit_json(it: &Bound) -> serde_json::Value {
    // As a number, whole where it is.
    let most = serde_json::from_str::<serde_json::Value>(&Limits::written(it.limit, it.most)).unwrap_or_default();
    let (held_by, not_held) = (it.held.as_ref().ok(), it.held.as_ref().err());
    json!({ "limit": it.limit, "most": most, "of": it.of, "exact": it.held.is_ok(), "held_by": held_by, "not_held": not_held })
}

/// What each limit bounds, and what holds it, where there are any.
fn limited(limits: &[Bound]) -> String {
    if limits.is_empty() {
        return String::new();
    }
    let row = |it: &Bound| {
        let held = it.held.clone().map_or_else(|_| "nothing here".to_owned(), str::to_owned);
        vec![it.limit.to_owned(), Limits::written(it.limit, it.most), it.of.to_owned(), held]
    };
    let rows: Vec<_> = limits.iter().map(row).collect();
    let mut text = "\n\n".to_owned() + &output::table(&["LIMIT", "MOST", "OF", "HELD BY"], &rows);
    let open: Vec<_> = limits.iter().filter_map(|it| Some((it.limit, it.held.as_ref().err()?))).collect();
    if !open.is_empty() {
        text += "\n\nLimits that nothing holds here keep the program from starting, unless --allow-degraded is given: then memory and processor time are added up by the supervisor every 20 ms, which is not exact, and the rest is not bounded.\n";
        let _ = open.iter().try_for_each(|(limit, why)| writeln!(text, "{limit}: {why}"));
    }
    text
}

fn lines(unheld: &[Unheld]) -> String {
    let line = |it: &Unheld| match it.rule {
        Some(number) => format!("rule {}: {}", number + 1, it.reason),
        None => it.reason.clone(),
    };
    unheld.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn not_held(default: &str, rules: &[String], unheld: &[Unheld]) -> String {
    let mut text = as_written(default, rules);
    text += "\nIt cannot be enforced here exactly, and would not be run:\n";
    text + &lines(unheld)
}

/// As diff(1), it ends with 1 if there is a difference.
fn differ(before: &Path, after: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let difference = diff(&Text::of(before)?.policy()?, &Text::of(after)?.policy()?);
    let files: Vec<_> = difference.files.iter().map(ToString::to_string).collect();
    let told = json!({ "files": files, "settings": difference.settings, "complete": difference.complete });
    output::show(json, &told, |_| {
        if difference.is_empty() { "they decide the same".into() } else { difference.to_string() }
    })?;
    Ok(ExitCode::from(u8::from(!difference.is_empty())))
}
