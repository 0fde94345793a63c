//! The command line of `holdfast bench http`.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};

use super::plan::{BODY_BYTES_MAX, Expect, Method, Plan, RESPONSE_BYTES_DEFAULT, Step};
use super::{LoadOptions, LoadTarget, Think, jmx, run};
use crate::duration::parse_duration;
use crate::parse_size;
use crate::report::Report;
use crate::shared::{SharedArgs, command_line};
use crate::target::{TargetSpec, split_label};

/// A published table to set beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Comparison {
    /// The Yanel cluster test: home and about page, configurations A, B and C.
    #[value(name = "report-004")]
    Report004,
}

/// Put load on web pages and measure them side by side.
///
/// Without options this is the load of report 004: 10 threads, begun over 1 second, 1000 requests each, a first and a second
/// run. Runs are interleaved (run 1 of every target, then run 2 of every target). Only the given URLs are asked for.
///
/// The exit status is not 0 when more requests failed than --max-error-percent allows.
#[derive(Debug, Clone, Args)]
pub struct HttpArgs {
    /// Pages to measure, as URL or LABEL=URL; ratios are to the first.
    #[arg(value_name = "[LABEL=]URL", required_unless_present = "jmx")]
    pub urls: Vec<String>,

    /// JMeter plans to measure, behind the URLs; options given here take the place of the plan's.
    #[arg(long, value_name = "[LABEL=]FILE")]
    pub jmx: Vec<String>,

    /// Value of ${__P(NAME)} in plans; may be repeated.
    #[arg(long = "property", short = 'J', value_name = "NAME=VALUE")]
    pub properties: Vec<String>,

    /// Users at the same time; with --rate the most connections.
    #[arg(long, short = 't', alias = "users", value_name = "N")]
    pub threads: Option<u32>,

    /// The users begin evenly spread over this time.
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub ramp_up: Option<Duration>,

    /// Requests of each user (of a plan: loops); without a --duration 1000.
    #[arg(long, short = 'n', value_name = "N")]
    pub loops: Option<u64>,

    /// No request begins later than this after the start.
    #[arg(long, short = 'd', value_parser = parse_duration, value_name = "TIME")]
    pub duration: Option<Duration>,

    /// Requests per second of all users together, whatever the answers (open model).
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,

    /// A new connection for each request.
    #[arg(long)]
    pub no_keep_alive: bool,

    /// Time a user thinks before each request: TIME, uniform:LEAST,MOST or gaussian:MEAN,DEVIATION.
    #[arg(long, value_name = "TIME", conflicts_with = "rate")]
    pub think: Option<Think>,

    /// Method of the URLs' requests.
    #[arg(long, short = 'X', value_enum, value_name = "METHOD", ignore_case = true)]
    pub method: Option<Method>,

    /// Header of the URLs' requests; may be repeated.
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub header: Vec<String>,

    /// Body of the URLs' requests, which are POST then unless --method says otherwise.
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub body: Option<String>,

    /// File with that body.
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,

    /// Statuses of good answers.
    #[arg(long, value_delimiter = ',', value_parser = parse_statuses, value_name = "STATUS,...", default_value = "2xx")]
    pub expect_status: Vec<RangeInclusive<u16>>,

    /// Length of good answers.
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub expect_length: Option<u64>,

    /// File whose content good answers have.
    #[arg(long, value_name = "FILE")]
    pub expect_file: Option<PathBuf>,

    /// Longest answer; a longer one is a failure and its connection is closed.
    #[arg(long, value_parser = parse_size, value_name = "SIZE", default_value = "64MiB")]
    pub max_response: u64,

    /// Timed runs of each target.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub runs: u32,

    /// The same load before each timed run for this long, not counted.
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "0s")]
    pub warm_up: Duration,

    /// Threads of this program that make load [default: half the cores].
    #[arg(long, value_name = "N")]
    pub generators: Option<u32>,

    /// Time to open a connection, TLS included.
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "10s")]
    pub connect_timeout: Duration,

    /// A request fails when no byte moves for this long.
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "30s")]
    pub stall_timeout: Duration,

    /// A request fails when it takes longer.
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "60s")]
    pub request_timeout: Duration,

    /// Share of failed requests that is no failure of the command.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    pub max_error_percent: f64,

    /// Set a published table beside ours.
    #[arg(long, value_enum, value_name = "REPORT")]
    pub compare: Option<Comparison>,

    /// Write the load on the only target as a JMeter plan, and measure nothing.
    #[arg(long, value_name = "FILE")]
    pub write_jmx: Option<PathBuf>,

    /// Options of measurements of servers.
    #[command(flatten)]
    pub shared: SharedArgs,
}

impl HttpArgs {
    /// Measures, and writes the files of `--output`; `None` when only a plan was to be written. The caller prints the report
    /// ([`Report::table`] or [`Report::json`]) and ends with a failure when [`Report::failed`] says so.
    pub fn execute(&self) -> anyhow::Result<Option<Report>> {
        let mut options = self.options()?;
        if let Some(path) = &self.write_jmx {
            return write_plan(&options, path).map(|()| None);
        }
        options.command = command_line();
        let report = run(&options)?;
        self.shared.common.write(&report)?;
        Ok(Some(report))
    }

    /// The options this command line means. Reads the files it names.
    pub fn options(&self) -> anyhow::Result<LoadOptions> {
        let mut warnings = Vec::new();
        let mut targets = self.plans(&mut warnings)?;
        for (_, plan) in &mut targets {
            self.override_plan(plan);
        }
        let mut specs: Vec<TargetSpec> = targets.iter().map(|(spec, _)| spec.clone()).collect();
        self.shared.apply(&mut specs)?;
        let targets = specs.into_iter().zip(targets).map(|(spec, (_, mut plan))| {
            for step in plan.steps.iter_mut().filter(|step| step.credentials.is_none()) {
                // Credentials belong to the server they were given for.
                if step.url.origin() == spec.url.origin() {
                    step.credentials.clone_from(&spec.credentials);
                }
            }
            LoadTarget { label: spec.label, pids: spec.pids, plan }
        });
        let defaults = LoadOptions::new(targets.collect());
        let shared = &self.shared;
        Ok(LoadOptions {
            runs: self.runs,
            warm_up: self.warm_up,
            generators: self.generators.unwrap_or(defaults.generators),
            seed: shared.common.seed,
            insecure: shared.insecure,
            ca_file: shared.ca_file.clone(),
            connect_timeout: self.connect_timeout,
            stall_timeout: self.stall_timeout,
            request_timeout: self.request_timeout,
            max_error_percent: self.max_error_percent,
            compare_004: self.compare == Some(Comparison::Report004),
            settle: !shared.common.no_settle,
            warm: !shared.common.no_warm,
            progress: !shared.common.no_progress,
            notes: shared.common.note.clone(),
            warnings,
            ..defaults
        })
    }

    /// Every target with the plan that its URL or file means by itself.
    fn plans(&self, warnings: &mut Vec<String>) -> anyhow::Result<Vec<(TargetSpec, Plan)>> {
        let mut found = Vec::with_capacity(self.urls.len() + self.jmx.len());
        for text in &self.urls {
            let spec = TargetSpec::parse_page(text)?;
            let step = self.page(&spec)?;
            let mut plan = Plan::once(vec![step]);
            plan.users = 10;
            plan.ramp_up = Duration::from_secs(u64::from(self.rate.is_none()));
            plan.loops = if self.duration.is_some() { None } else { Some(1000) };
            found.push((spec, plan));
        }
        let properties = self.jmx_properties()?;
        for text in &self.jmx {
            let (label, path) = split_label(text);
            let file = read_file(Path::new(path), jmx::FILE_BYTES_MAX)?;
            let read = jmx::read(&file, &properties).with_context(|| path.to_owned())?;
            let label = label.map_or_else(|| read.name.clone(), str::to_owned);
            warnings.extend(read.warnings.iter().map(|warning| format!("{label}: {warning}")));
            let Some(first) = read.plan.steps.first() else { bail!("{path}: the plan makes no request") };
            let url = first.url.clone();
            found.push((TargetSpec { label, url, credentials: None, pids: Vec::new(), store_dir: None }, read.plan));
        }
        Ok(found)
    }

    fn page(&self, spec: &TargetSpec) -> anyhow::Result<Step> {
        let mut step = Step::get(spec.url.clone());
        step.credentials.clone_from(&spec.credentials);
        if let Some(path) = &self.body_file {
            step.body = Arc::from(read_file(path, BODY_BYTES_MAX)?);
        } else if let Some(text) = &self.body {
            step.body = Arc::from(text.as_bytes());
        }
        let with_body = self.body.is_some() || self.body_file.is_some();
        step.method = self.method.unwrap_or(if with_body { Method::Post } else { Method::Get });
        let header = |text: &String| {
            let (name, value) =
                text.split_once(':').with_context(|| format!("--header {text:.80?} is not NAME: VALUE"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        step.headers = self.header.iter().map(header).collect::<anyhow::Result<_>>()?;
        step.expect = self.expect()?;
        Ok(step)
    }

    fn expect(&self) -> anyhow::Result<Expect> {
        let content = match &self.expect_file {
            Some(path) => Some(Arc::from(read_file(path, BODY_BYTES_MAX)?)),
            None => None,
        };
        Ok(Expect {
            statuses: self.expect_status.clone(),
            bytes: self.expect_length,
            content,
            bytes_max: self.max_response,
        })
    }

    /// What was given with the command takes the place of what the plan says.
    fn override_plan(&self, plan: &mut Plan) {
        plan.users = self.threads.unwrap_or(plan.users);
        plan.ramp_up = self.ramp_up.unwrap_or(plan.ramp_up);
        plan.loops = self.loops.or(plan.loops);
        plan.duration = self.duration.or(plan.duration);
        plan.rate = self.rate.or(plan.rate);
        for step in &mut plan.steps {
            if let Some(think) = self.think {
                step.think = vec![think];
            }
            step.keep_alive &= !self.no_keep_alive;
            if self.max_response != RESPONSE_BYTES_DEFAULT {
                step.expect.bytes_max = self.max_response;
            }
        }
    }

    fn jmx_properties(&self) -> anyhow::Result<jmx::Properties> {
        let pair = |text: &String| {
            let (name, value) =
                text.split_once('=').with_context(|| format!("--property {text:.80?} is not NAME=VALUE"))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        self.properties.iter().map(pair).collect()
    }
}

fn write_plan(options: &LoadOptions, path: &Path) -> anyhow::Result<()> {
    let [target] = &options.targets[..] else { bail!("--write-jmx writes the load on one target; there are several") };
    target.plan.check()?;
    let (text, warnings) = jmx::write(&target.plan, &target.label)?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    for warning in warnings {
        eprintln!("{}: {warning}", path.display());
    }
    Ok(())
}

fn read_file(path: &Path, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
    use std::io::Read;
    let mut content = Vec::new();
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(bytes_max as u64 + 1)
        .read_to_end(&mut content)
        .with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(content.len() <= bytes_max, "{} is longer than {bytes_max} bytes", path.display());
    Ok(content)
}

/// `204`, or `2xx` for a hundred of them.
fn parse_statuses(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || format!("{text:?} is no status; write for example 200 or 3xx");
    let (least, most) = match text.trim().strip_suffix("xx") {
        Some(hundreds) => (format!("{hundreds}00"), format!("{hundreds}99")),
        None => (text.trim().to_owned(), text.trim().to_owned()),
    };
    let least: u16 = least.parse().map_err(|_| wrong())?;
    let most: u16 = most.parse().map_err(|_| wrong())?;
    if (100..=599).contains(&least) && most <= 599 { Ok(least..=most) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: HttpArgs,
    }

    fn options(words: &[&str]) -> anyhow::Result<LoadOptions> {
        Command::try_parse_from([&["bench"], words].concat())?.args.options()
    }

    #[test]
    fn the_defaults_are_the_load_of_report_004() -> anyhow::Result<()> {
        let options = options(&["http://h/a?b=c"])?;
        let plan = &options.targets[0].plan;
        assert_eq!((plan.users, plan.ramp_up, plan.loops), (10, Duration::from_secs(1), Some(1000)));
        assert_eq!((plan.duration, plan.rate, options.runs), (None, None, 2));
        assert_eq!(plan.steps[0].url.as_str(), "http://h/a?b=c");
        assert_eq!(plan.steps[0].expect, Expect::default());
        plan.check()
    }

    #[test]
    fn a_duration_lifts_the_limit_of_loops_and_a_rate_the_ramp_up() -> anyhow::Result<()> {
        let options = options(&["http://h/", "-d", "5s", "--rate", "100"])?;
        let plan = &options.targets[0].plan;
        assert_eq!((plan.loops, plan.ramp_up, plan.rate), (None, Duration::ZERO, Some(100.0)));
        plan.check()
    }

    #[test]
    fn a_body_makes_a_post_and_credentials_stay_with_their_server() -> anyhow::Result<()> {
        let options = options(&["a=http://me:pw@h/", "b=http://i/", "--body", "x=1", "-H", "Content-Type: a/b"])?;
        let step = &options.targets[0].plan.steps[0];
        assert_eq!((step.method, &*step.body), (Method::Post, &b"x=1"[..]));
        assert_eq!(step.headers[0], ("Content-Type".to_owned(), "a/b".to_owned()));
        assert_eq!(step.credentials, Some(("me".to_owned(), "pw".to_owned())));
        assert_eq!(options.targets[1].plan.steps[0].credentials, None);
        Ok(())
    }

    #[test]
    fn statuses_are_numbers_or_hundreds() {
        assert_eq!(parse_statuses("304"), Ok(304..=304));
        assert_eq!(parse_statuses("2xx"), Ok(200..=299));
        for text in ["", "xx", "9xx", "20", "600", "abc", "2x"] {
            assert!(parse_statuses(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_command_without_a_target_or_with_words_that_mean_nothing_is_refused() {
        for words in [
            &[][..],
            &["http://h/", "--think", "poisson:1s"],
            &["http://h/", "-H", "nothing"],
            &["http://h/", "-J", "nothing"],
            &["http://h/", "--jmx", "/nonexistent/plan.jmx"],
            &["http://h/", "--rate", "5", "--think", "1s"],
            &["ftp://h/"],
        ] {
            assert!(options(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_plan_that_is_written_and_read_is_the_same_and_options_take_the_place_of_what_it_says() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("plan.jmx");
        let words = ["http://h:81/a?b", "-t", "7", "--ramp-up", "2s", "-n", "9", "--think", "uniform:1ms,5ms"];
        let made = options(&words)?;
        write_plan(&made, &path)?;
        let read = options(&["--jmx", &format!("x={}", path.display())])?;
        assert_eq!(read.targets[0].plan, made.targets[0].plan);
        assert_eq!(read.targets[0].label, "x");
        let other = options(&["--jmx", &path.display().to_string(), "-t", "8", "-d", "1s", "--no-keep-alive"])?;
        let plan = &other.targets[0].plan;
        assert_eq!((plan.users, plan.loops, plan.duration), (8, Some(9), Some(Duration::from_secs(1))));
        assert!(!plan.steps[0].keep_alive);
        Ok(())
    }
}
