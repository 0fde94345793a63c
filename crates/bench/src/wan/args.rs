//! The command line of `holdfast bench wan`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use holdfast_wan::Mode;

use super::rows::{self, Cell, SHORT, Way};
use super::tool::{self, Service, Tool};
use super::{WanOptions, run, server};
use crate::duration::parse_duration;
use crate::frame::Habits;
use crate::report::Report;
use crate::shared::{CommonArgs, command_line, find};
use crate::size::parse_size;

const DEFAULT_TOOL: &str = "curl";
/// The report's file, and how many its folder has.
const BYTES: u64 = 1 << 30;
const FILES: usize = 16;
/// What a short run uses instead.
const SHORT_BYTES: u64 = 8 << 20;
const SHORT_FILES: usize = 4;
const SHORT_LIMIT: Duration = Duration::from_secs(30);
/// What the report's tool was given, by its own clock.
const LIMIT: Duration = Duration::from_mins(15);
/// Datagrams of each part of the self-test.
const SELF_TEST_PACKETS: u32 = 4_000;

/// Whose rules the link follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rules {
    /// Percentages are what comes out; harm is done behind the queue and the rate.
    True,
    /// The kernel's netem, with its correlation; harm is done before the queue and the rate.
    Netem,
}

/// Measure how tools fetch files over networks that delay, lose, corrupt, reorder and duplicate.
///
/// Two network namespaces of this machine are joined by an emulated link, 100 Mbit/s by default. Report 001's matrix is run in them: every row, for
/// every tool, in turns. Everything that arrives is compared with what was sent. A tool is a preset (--list tells them) or a command.
/// Nothing leaves the namespaces, and nothing is left behind. Needs root, or user namespaces and an open /dev/net/tun.
///
/// The exit status is not 0 when wrong content was taken for right, or when the link did not do what it was asked to; a tool that fails or does not
/// finish is a result, unless --strict.
#[derive(Debug, Clone, Args)]
pub struct WanArgs {
    /// A tool: NAME, a preset; or NAME=COMMAND for the shell, with {host} {port} {file} {dest} {dir} {source} {threads} {count} {bytes} {work}. With
    /// {file} it is run once for each file, into {dest}; without, once for all, into the folder {dir}. NAME@bbr has TCP use bbr instead of cubic.
    #[arg(long, value_name = "NAME[=COMMAND]")]
    pub tool: Vec<String>,

    /// What a tool fetches from, instead of a server of files over HTTP/1.1: a command that listens at {host}:{port} and serves {source}.
    #[arg(long, value_name = "NAME=COMMAND")]
    pub server: Vec<String>,

    /// A tool that shares the link with each of the others, at the same time: one of theirs by its name, a preset, or NAME=COMMAND. Both begin at once; when
    /// one has ended, the other is stopped, and what had arrived of both by then is told. Both must use one congestion control.
    #[arg(long, value_name = "NAME[=COMMAND]", conflicts_with = "strict")]
    pub beside: Option<String>,

    /// Rows, by names or patterns: clean, loss-*, files-loss-24. All of them by default.
    #[arg(long, value_name = "PATTERN,...", value_delimiter = ',')]
    pub rows: Vec<String>,

    /// Tell rows and presets, and measure nothing.
    #[arg(long)]
    pub list: bool,

    /// A few rows, files of 8 MiB, at most 30 s each. Options given beside it take the place of its own.
    #[arg(long)]
    pub short: bool,

    /// Which way harm is done, one after the other.
    #[arg(long, value_enum, value_name = "WAY,...", value_delimiter = ',', default_value = "data")]
    pub direction: Vec<Way>,

    /// Whose rules the link follows, one after the other.
    #[arg(long, value_enum, value_name = "RULES,...", value_delimiter = ',', default_value = "true")]
    pub mode: Vec<Rules>,

    /// Rate of the link: 100Mbit, 1Gbit, none.
    #[arg(long, value_name = "RATE", default_value = "100Mbit", value_parser = parse_rate)]
    pub rate: Rate,

    /// Leave harm to the netem of this machine's kernel, where there is one. Sets --mode netem.
    #[arg(long)]
    pub kernel_netem: bool,

    /// Size of each file [default: 1GiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,

    /// Files in the rows with many [default: 16].
    #[arg(long, value_name = "N")]
    pub files: Option<usize>,

    /// Multiply sizes by this, such as 0.125.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub scale: f64,

    /// Time for each tool in each cell; what is not finished then is told with what had arrived. An outage is added to it [default: 15m].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub limit: Option<Duration>,

    /// How often everything is run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub repeat: u32,

    /// End with a failure when a tool fails or does not finish.
    #[arg(long)]
    pub strict: bool,

    /// Folder on the disk that files are fetched from and to [default: that for temporary files].
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Test the link itself: floods of numbered datagrams through every rule of both modes.
    #[arg(long)]
    pub self_test: bool,

    /// Options of all measurements.
    #[command(flatten)]
    pub common: CommonArgs,

    /// What the server of files is started with.
    #[arg(long, hide = true, value_name = "ADDRESS")]
    pub as_server: Option<SocketAddr>,
}

/// Bytes per second, or as fast as it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub Option<u64>);

fn parse_rate(text: &str) -> Result<Rate, String> {
    let lower = text.trim().to_ascii_lowercase();
    if lower == "none" {
        return Ok(Rate(None));
    }
    let digits = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let factor: u64 = match &lower[digits..] {
        "kbit" => 1_000,
        "mbit" => 1_000_000,
        "gbit" => 1_000_000_000,
        _ => return Err(format!("{text:?} is no rate; write for example 100Mbit, 1Gbit or none")),
    };
    let bits = lower[..digits].parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bits.map(|bits| Rate(Some(bits / 8))).ok_or_else(|| format!("{text:?} is no rate"))
}

impl WanArgs {
    /// Measures, and writes the files of `--output`; nothing comes of a list, a self-test or a server. The caller prints the report and ends with a
    /// failure when [`Report::failed`] says so.
    pub fn execute(&self) -> anyhow::Result<Option<Report>> {
        if let Some(address) = self.as_server {
            server::serve(address, self.folder.as_deref().context("--as-server needs a --folder")?)?;
            return Ok(None);
        }
        if self.list {
            list();
            return Ok(None);
        }
        if self.self_test {
            self_test(self.common.seed)?;
            return Ok(None);
        }
        let report = run(&self.options()?)?;
        self.common.write(&report)?;
        Ok(Some(report))
    }

    /// The options this command line means.
    pub(super) fn options(&self) -> anyhow::Result<WanOptions> {
        let short = |short, long| if self.short { short } else { long };
        ensure!(self.scale > 0.0 && self.scale <= 1024.0, "--scale is above 0 and at most 1024");
        let bytes = self.size.unwrap_or(short(SHORT_BYTES, BYTES)) as f64 * self.scale;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float becomes the nearest integer in range"
        )]
        let bytes = bytes.round() as u64;
        ensure!(self.common.pid.is_empty(), "--pid: the servers here are this measurement's own, and counted");
        let (tools, beside) = self.tools()?;
        Ok(WanOptions {
            tools,
            beside,
            cells: self.cells()?,
            bytes,
            files: self.files.unwrap_or(if self.short { SHORT_FILES } else { FILES }),
            limit: self.limit.unwrap_or(if self.short { SHORT_LIMIT } else { LIMIT }),
            runs: self.repeat,
            strict: self.strict,
            kernel_netem: self.kernel_netem,
            folder: self.folder.clone().unwrap_or_else(std::env::temp_dir),
            own: own_command()?,
            habits,
            seed: self.common.seed,
            settle: !self.common.no_settle,
            warm: !self.common.no_warm,
            progress: !self.common.no_progress,
            command: command_line(),
            notes: self.common.note.clone(),
        })
    }

    /// The tools, and the one beside them.
    fn tools(&self) -> anyhow::Result<(Vec<Tool>, Option<Tool>)> {
        let given: Vec<&str> = self.tool.iter().map(String::as_str).collect();
        let given = if given.is_empty() { vec![DEFAULT_TOOL] } else { given };
        let mut tools: Vec<Tool> = given.into_iter().map(Tool::parse).collect::<Result<_, _>>()?;
        let count = tools.len();
        let twin = self.beside.as_ref().and_then(|beside| tools.iter().position(|tool| tool.label == *beside));
        if let Some(beside) = self.beside.as_ref().filter(|_| twin.is_none()) {
            tools.push(Tool::parse(beside)?);
        }
        for option in &self.server {
            let labels: Vec<&str> = tools.iter().map(|tool| tool.label.as_str()).collect();
            let (target, command) = find(&labels, "--server", option)?;
            tools[target].service = Service::Command(command.to_owned());
        }
        let other = tools.split_off(count).pop();
        Ok((tools.clone(), twin.map(|at| tools[at].clone()).or(other)))
    }

    fn cells(&self) -> anyhow::Result<Vec<Cell>> {
        let all: Vec<String> = SHORT.iter().map(ToString::to_string).collect();
        let everything = vec!["*".to_owned()];
        let patterns = match (self.rows.is_empty(), self.short) {
            (false, _) => &self.rows,
            (true, true) => &all,
            (true, false) => &everything,
        };
        let rows = rows::all();
        for pattern in patterns {
            if !rows.iter().any(|row| rows::matches(pattern, &row.name)) {
                bail!("--rows {pattern}: no row has such a name; --list tells them");
            }
        }
        let chosen = rows.into_iter().filter(|row| patterns.iter().any(|pattern| rows::matches(pattern, &row.name)));
        let modes: Vec<Mode> =
            if self.kernel_netem { vec![Mode::Netem] } else { self.mode.iter().map(|mode| mode.rules()).collect() };
        let cells = chosen.flat_map(|row| {
            let ways = self.direction.iter().map(move |&way| (row.clone(), way));
            ways.flat_map(|(row, way)| {
                modes.iter().map(move |&mode| Cell { row: row.clone(), way, mode, rate: self.rate.0 })
            })
            .collect::<Vec<_>>()
        });
        Ok(cells.collect())
    }
}

impl Rules {
    fn rules(self) -> Mode {
        match self {
            Self::True => Mode::True,
            Self::Netem => Mode::Netem,
        }
    }
}

/// What this program was started with, up to the options: `holdfast bench wan`, or a program that is nothing else.
fn own_command() -> anyhow::Result<Vec<String>> {
    let own = std::env::current_exe().context("the path of this program is not known")?;
    let own = own.to_str().context("the path of this program is not UTF-8")?.to_owned();
    let words: Vec<String> = std::env::args().collect();
    let named = words.windows(2).any(|pair| pair == ["bench", "wan"]);
    let command = if named { vec!["bench".to_owned(), "wan".to_owned()] } else { Vec::new() };
    Ok([vec![own], command].concat())
}

fn habits(options: &WanOptions) -> Habits {
    Habits {
        runs: options.runs,
        seed: options.seed,
        settle: options.settle,
        warm: options.warm,
        progress: options.progress,
        command: options.command.clone(),
        notes: options.notes.clone(),
    }
}

/// Rows and presets.
fn list() {
    let mut text = "rows:\n".to_owned();
    for row in rows::all() {
        let cell = Cell { row, way: Way::Data, mode: Mode::True, rate: None };
        let short = if SHORT.contains(&cell.row.name.as_str()) { "  (--short)" } else { "" };
        let _ = writeln!(text, "  {:22} {}{short}", cell.row.name, cell.words());
    }
    let _ = writeln!(text, "tools, each also as NAME@bbr:\n  {}", tool::names().join(", "));
    // Whoever reads may have read enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn self_test(seed: u64) -> anyhow::Result<()> {
    holdfast_wan::prepare()?;
    let found = holdfast_wan::self_test(SELF_TEST_PACKETS, seed)?;
    for finding in &found.findings {
        let mark = if finding.good { "ok " } else { "BAD" };
        println!("{mark} {}: {} ({} asked)", finding.what, finding.found, finding.wanted);
    }
    ensure!(found.good(), "the link did not do what it was asked to");
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: WanArgs,
    }

    fn options(words: &[&str]) -> anyhow::Result<WanOptions> {
        Line::try_parse_from([&["bench"], words].concat())?.args.options()
    }

    #[test]
    fn without_options_it_is_the_reports_matrix_with_curl() -> anyhow::Result<()> {
        let all = options(&[])?;
        assert_eq!((all.cells.len(), all.bytes, all.files, all.runs), (rows::all().len(), 1 << 30, 16, 1));
        assert_eq!((all.tools.len(), all.tools[0].label.as_str(), all.limit), (1, "curl", Duration::from_mins(15)));
        assert_eq!(all.cells[0].rate, Some(12_500_000));
        Ok(())
    }

    #[test]
    fn a_short_run_gives_way_to_options() -> anyhow::Result<()> {
        let short = options(&["--short"])?;
        assert_eq!((short.cells.len(), short.bytes, short.limit), (SHORT.len(), 8 << 20, Duration::from_secs(30)));
        let other = options(&[
            "--short", "--rows", "loss-*", "--size", "1MiB", "--limit", "5s", "--files", "3", "--scale", "0.5",
        ])?;
        assert_eq!(
            (other.cells.len(), other.bytes, other.limit, other.files),
            (10, 512 << 10, Duration::from_secs(5), 3)
        );
        Ok(())
    }

    #[test]
    fn ways_and_modes_multiply_rows() -> anyhow::Result<()> {
        let options = options(&["--rows", "clean,loss-8", "--direction", "data,ack,both", "--mode", "true,netem"])?;
        let names: Vec<String> = options.cells.iter().map(Cell::name).collect();
        assert_eq!(names.len(), 12);
        assert_eq!(names[6..9], ["loss-8.data", "loss-8.data.netem", "loss-8.ack"]);
        Ok(())
    }

    #[test]
    fn servers_belong_to_tools_by_their_labels() -> anyhow::Result<()> {
        let own = options(&["--tool", "a=get {file}", "--tool", "curl", "--server", "a=serve --at {port}=1"])?;
        assert_eq!(own.tools[0].service, Service::Command("serve --at {port}=1".to_owned()));
        assert_eq!(own.tools[1].service, Service::Http);
        Ok(())
    }

    #[test]
    fn what_shares_the_link_is_one_of_the_tools_or_another() -> anyhow::Result<()> {
        let own = ["--tool", "a=get {file}", "--server", "a=serve {port}"];
        let twins = options(&[&own[..], &["--beside", "a"]].concat())?;
        assert_eq!((twins.tools.len(), twins.beside.as_ref()), (1, Some(&twins.tools[0])));
        let others = options(&[&own[..], &["--beside", "b=take {file}", "--server", "b=give {port}"]].concat())?;
        assert_eq!((others.tools.len(), others.beside.as_ref().map(|tool| tool.label.as_str())), (1, Some("b")));
        assert_eq!(others.beside.map(|tool| tool.service), Some(Service::Command("give {port}".to_owned())));
        assert!(options(&["--beside", "curl@bbr"])?.check().is_err(), "one host, one congestion control");
        assert!(options(&["--beside", "iperf3-cubic"])?.check().is_err(), "nobody knows what a meter got");
        Ok(())
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (words, why) in [
            (&["--rows", "no-such"][..], "no row"),
            (&["--scale", "0"], "--scale"),
            (&["--rate", "fast"], "no rate"),
            (&["--server", "x=y"], "nothing is labelled"),
            (&["--direction", "up"], "direction"),
            (&["--pid", "curl=1"], "--pid"),
            (&["--beside", "no-such"], "no preset"),
            (&["--beside", "curl", "--strict"], "--strict"),
        ] {
            let said = options(words).expect_err(why).to_string();
            assert!(said.contains(why), "{words:?}: {said}");
        }
    }

    #[test]
    fn rates_have_units() {
        for (text, rate) in
            [("100Mbit", Some(12_500_000)), ("1gbit", Some(125_000_000)), ("64kbit", Some(8_000)), ("none", None)]
        {
            assert_eq!(parse_rate(text), Ok(Rate(rate)));
        }
        for text in ["", "100", "Mbit", "99999999999999999Gbit", "1 parsec"] {
            assert!(parse_rate(text).is_err(), "{text:?}");
        }
    }
}
