//! The command line of `holdfast bench create`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use super::requests::Counter;
use super::{CreateOptions, CreateTarget, Fault, Shape, Sizes, run};
use crate::duration::parse_duration;
use crate::report::Report;
use crate::shared::{CommonArgs, command_line, find};
use crate::target::split_label;

/// A load by name. Options given beside it take the place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// Report 003's first test: 5 clients with one stream, 840 files of 2 MB each, hashed while written.
    T1,
    /// Its second: 6 clients with two streams, files of 50 MB, not hashed. The report does not say how many: 12 for each client.
    T2,
    /// Its test of creation: one client with eight streams, 4,000 files of 4 KiB.
    Small,
}

impl Preset {
    /// Clients, streams, depth, width, files, sizes, hashed.
    const fn load(self) -> (u32, u32, Shape, bool) {
        const fn shape(depth: u32, width: u32, files: u32, bytes: u64) -> Shape {
            Shape { depth, width, files, sizes: Sizes { min: bytes, max: bytes } }
        }
        match self {
            Self::T1 => (5, 1, shape(2, 4, 40, 2_000_000), true),
            Self::T2 => (6, 2, shape(1, 2, 4, 50_000_000), false),
            Self::Small => (1, 8, shape(1, 7, 500, 4 << 10), false),
        }
    }
}

/// Measure how fast files are made in folders: mounted drives, and the disk beside them.
///
/// The load is that of report 003: each client is a process that writes a tree of folders, with one stream or several. Every file is read back and
/// compared; then everything is listed, and removed; --stat and --unpack measure more before that. Runs are interleaved. In each folder only new ones, bench-XXXXXXXX-RUN, are touched.
///
/// The exit status is not 0 when a file could not be made or differs.
#[derive(Debug, Clone, Args)]
pub struct CreateArgs {
    /// Folders to measure, as DIR or LABEL=DIR; ratios are to the first.
    #[arg(required_unless_present = "as_client", value_name = "[LABEL=]DIR")]
    pub folders: Vec<String>,

    /// The load.
    #[arg(long, value_enum, default_value = "small", value_name = "NAME")]
    pub preset: Preset,

    /// Processes that write at the same time.
    #[arg(long, value_name = "N")]
    pub clients: Option<u32>,

    /// Threads of each.
    #[arg(long, value_name = "N")]
    pub streams: Option<u32>,

    /// Levels of folders below a client's own.
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,

    /// Folders in each folder.
    #[arg(long, value_name = "N")]
    pub width: Option<u32>,

    /// Files in each folder.
    #[arg(long, value_name = "N")]
    pub files: Option<u32>,

    /// Size of each file, or a range to draw it from: 4KiB, 1MB..20MB.
    #[arg(long, value_name = "SIZE")]
    pub file_size: Option<Sizes>,

    /// Hash what is written while it is written.
    #[arg(long, value_name = "YES")]
    pub checksum: Option<bool>,

    /// Sync each file before it is closed.
    #[arg(long)]
    pub fsync: bool,

    /// Count a server's requests while files are made, by its page of metrics (Prometheus). METRIC is the counter, that of holdfast by default.
    #[arg(long, value_name = "LABEL=URL[#METRIC]")]
    pub requests: Vec<String>,

    /// Do not read everything back.
    #[arg(long)]
    pub no_verify: bool,

    /// Ask for every file by its name as well: once after the kernel has forgotten all names (root; it forgets those of the whole machine), and once more.
    #[arg(long)]
    pub stat: bool,

    /// Unpack an archive of one client's tree with tar as well.
    #[arg(long)]
    pub unpack: bool,

    /// Try a file that fails again for so long; 0 for not at all.
    #[arg(long, value_parser = parse_duration, default_value = "0s", value_name = "TIME")]
    pub retry: Duration,

    /// Timed runs.
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub runs: u32,

    /// Go on with runs until so much time has passed: a soak.
    #[arg(long, value_parser = parse_duration, value_name = "TIME", conflicts_with = "runs")]
    pub duration: Option<Duration>,

    /// Run a command with `sh -c` again and again while files are written, such as 30s=./kill-and-restart.
    #[arg(long, value_name = "TIME=COMMAND")]
    pub fault: Option<String>,

    /// Options of all measurements.
    #[command(flatten)]
    pub common: CommonArgs,

    /// What a client is started with.
    #[arg(long, hide = true)]
    pub as_client: bool,
}

impl CreateArgs {
    /// Measures, and writes the files of `--output`; nothing comes of a client. The caller prints the report and ends with a failure when
    /// [`Report::failed`] says so.
    pub fn execute(&self) -> anyhow::Result<Option<Report>> {
        if self.as_client {
            super::serve_client()?;
            return Ok(None);
        }
        let mut options = self.options()?;
        options.command = command_line();
        let report = run(&options)?;
        self.common.write(&report)?;
        Ok(Some(report))
    }

    /// The options this command line means.
    pub fn options(&self) -> anyhow::Result<CreateOptions> {
        let (clients, streams, shape, checksum) = self.preset.load();
        let own = std::env::current_exe().context("the path of this program is not known")?;
        let own = own.to_str().context("the path of this program is not UTF-8")?.to_owned();
        Ok(CreateOptions {
            targets: self.targets()?,
            shape: Shape {
                depth: self.depth.unwrap_or(shape.depth),
                width: self.width.unwrap_or(shape.width),
                files: self.files.unwrap_or(shape.files),
                sizes: self.file_size.unwrap_or(shape.sizes),
            },
            clients: self.clients.unwrap_or(clients),
            streams: self.streams.unwrap_or(streams),
            checksum: self.checksum.unwrap_or(checksum),
            fsync: self.fsync,
            verify: !self.no_verify,
            stat: self.stat,
            unpack: self.unpack,
            retry: self.retry,
            runs: self.runs,
            duration: self.duration,
            fault: self.fault.as_deref().map(fault).transpose()?,
            compare_003: true,
            seed: self.common.seed,
            settle: !self.common.no_settle,
            warm: !self.common.no_warm,
            progress: !self.common.no_progress,
            command: String::new(),
            notes: self.common.note.clone(),
            client_command: [own.as_str(), "bench", "create", "--as-client"].map(ToOwned::to_owned).to_vec(),
        })
    }

    fn targets(&self) -> anyhow::Result<Vec<CreateTarget>> {
        let target = |text: &String| {
            let (label, folder) = split_label(text);
            CreateTarget {
                label: label.unwrap_or(folder).to_owned(),
                folder: PathBuf::from(folder),
                pids: Vec::new(),
                requests: None,
            }
        };
        let mut targets: Vec<CreateTarget> = self.folders.iter().map(target).collect();
        let labels: Vec<String> = targets.iter().map(|target| target.label.clone()).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        for (target, pid) in self.common.pids(&labels)? {
            targets[target].pids.push(pid);
        }
        for option in &self.requests {
            let (target, page) = find(&labels, "--requests", option)?;
            targets[target].requests = Some(Counter::parse(page).with_context(|| format!("--requests {option}"))?);
        }
        Ok(targets)
    }
}

fn fault(text: &str) -> anyhow::Result<Fault> {
    let Some((every, command)) = text.split_once('=') else {
        bail!("--fault has the form TIME=COMMAND, such as 30s=./restart")
    };
    let every = parse_duration(every).map_err(anyhow::Error::msg).context("--fault")?;
    if every.is_zero() || command.trim().is_empty() {
        bail!("--fault needs a time above 0 and a command");
    }
    Ok(Fault { every, command: command.to_owned() })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: CreateArgs,
    }

    fn options(words: &[&str]) -> anyhow::Result<CreateOptions> {
        Command::try_parse_from([&["bench"], words].concat())?.args.options()
    }

    #[test]
    fn presets_are_the_loads_of_the_report_and_give_way_to_options() -> anyhow::Result<()> {
        let t1 = options(&["a=/x", "--preset", "t1"])?;
        assert_eq!((t1.clients, t1.streams, t1.checksum, t1.shape.file_count()), (5, 1, true, 840));
        let t2 = options(&["/x", "--preset", "t2", "--files", "1", "--file-size", "1MB..2MB", "--checksum", "true"])?;
        assert_eq!((t2.clients, t2.streams, t2.checksum, t2.shape.file_count()), (6, 2, true, 3));
        assert_eq!(t2.shape.sizes, Sizes { min: 1_000_000, max: 2_000_000 });
        Ok(())
    }

    #[test]
    fn a_fault_has_a_time_and_a_command() {
        let fault = |text| options(&["/x", "--fault", text]).map(|options| options.fault.expect("given"));
        assert_eq!(
            fault("2s=kill 1=2").expect("good"),
            Fault { every: Duration::from_secs(2), command: "kill 1=2".into() }
        );
        for text in ["2s", "0s=x", "2s= ", "x=y"] {
            assert!(fault(text).is_err(), "{text}");
        }
    }

    #[test]
    fn processes_belong_to_folders_by_their_labels() -> anyhow::Result<()> {
        let options = options(&["a=/x", "/y", "--pid", "/y=7"])?;
        assert_eq!((options.targets[0].label.as_str(), options.targets[1].pids.as_slice()), ("a", &[7][..]));
        Ok(())
    }
}
