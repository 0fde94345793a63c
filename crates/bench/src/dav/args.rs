//! The command line of `holdfast bench dav`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use super::{DavOptions, TargetSpec, Workload, run};
use crate::parse_size;
use crate::report::Report;
use crate::shared::{SharedArgs, command_line, find, labels};

/// Measure WebDAV servers side by side.
///
/// Runs are interleaved (run 1 of every server, then run 2 of every server), so that all meet the same machine. Each
/// server gets one new folder, bench-XXXXXXXX, which is deleted at the end. Only the given URLs are contacted.
///
/// The exit status is not 0 when anything failed: a wrong status, a short answer, content that differs.
#[derive(Debug, Clone, Args)]
pub struct DavArgs {
    /// WebDAV folders to measure, as URL or LABEL=URL; ratios are to the first.
    #[arg(required = true, value_name = "[LABEL=]URL")]
    pub urls: Vec<String>,

    /// Data folder of a server on this machine, to measure the disk that uploads take.
    #[arg(long, value_name = "LABEL=DIR")]
    pub store_dir: Vec<String>,

    /// Measure only these parts.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART,...")]
    pub only: Vec<Workload>,

    /// Timed runs of each part and server.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub runs: u32,

    /// Sizes of the large files.
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "100MiB,1GiB", value_name = "SIZE,...")]
    pub sizes: Vec<u64>,

    /// Number of small files.
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    pub files: u64,

    /// Size of each small file.
    #[arg(long, value_parser = parse_size, default_value = "4KiB", value_name = "SIZE")]
    pub file_size: u64,

    /// Connections that move small files.
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub connections: usize,

    /// Entries in the folders that PROPFIND lists.
    #[arg(long, value_delimiter = ',', default_value = "2000,10000", value_name = "N,...")]
    pub entries: Vec<u64>,

    /// Multiply sizes and numbers of files by this, for a quick look: 0.01 is a hundredth.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub scale: f64,

    /// Folder for test data, made once and kept; large enough for four of the largest files.
    #[arg(long, default_value = "bench-data", value_name = "DIR")]
    pub data_dir: PathBuf,

    /// Folder whose text makes the text files, instead of this machine's headers and documentation; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub text_from: Vec<PathBuf>,

    /// A request fails when no byte moves for so many seconds.
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub stall_timeout: u64,

    /// A request fails when it takes longer than so many seconds.
    #[arg(long, default_value_t = 900, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub request_timeout: u64,

    /// Options of measurements of servers.
    #[command(flatten)]
    pub shared: SharedArgs,
}

impl DavArgs {
    /// Measures, and writes the files of `--output`. The caller prints the report ([`Report::table`] or
    /// [`Report::json`]) and ends with a failure when [`Report::failed`] says so.
    pub fn execute(&self) -> anyhow::Result<Report> {
        let mut options = self.options()?;
        options.command = command_line();
        let report = run(&options)?;
        self.shared.common.write(&report)?;
        Ok(report)
    }

    /// The options this command line means. Reads the password files.
    pub fn options(&self) -> anyhow::Result<DavOptions> {
        if !(self.scale > 0.0 && self.scale <= 1000.0) {
            bail!("--scale must be above 0 and at most 1000");
        }
        let defaults = DavOptions::new(self.targets()?, self.data_dir.clone());
        let file_bytes = usize::try_from(self.file_size).context("--file-size is too large")?;
        Ok(DavOptions {
            workloads: if self.only.is_empty() { defaults.workloads.clone() } else { self.only.clone() },
            sizes: self.sizes.iter().map(|&bytes| self.scaled_size(bytes)).collect(),
            report_sizes: defaults.report_sizes.iter().map(|&bytes| self.scaled_size(bytes)).collect(),
            files: self.scaled(self.files),
            file_bytes,
            connections: self.connections,
            entries: self.entries.iter().map(|&entries| self.scaled(entries)).collect(),
            runs: self.runs,
            seed: self.shared.common.seed,
            text_sources: self.text_from.clone(),
            insecure: self.shared.insecure,
            ca_file: self.shared.ca_file.clone(),
            stall_timeout: Duration::from_secs(self.stall_timeout),
            request_timeout: Duration::from_secs(self.request_timeout),
            settle: !self.shared.common.no_settle,
            warm: !self.shared.common.no_warm,
            progress: !self.shared.common.no_progress,
            notes: self.shared.common.note.clone(),
            ..defaults
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive size times a positive factor; huge saturates"
    )]
    fn scaled(&self, value: u64) -> u64 {
        ((value as f64 * self.scale).round() as u64).max(1)
    }

    /// Scaled, and rounded down to whole MiB or KiB, so that titles stay readable.
    fn scaled_size(&self, bytes: u64) -> u64 {
        let scaled = self.scaled(bytes);
        let unit = [1 << 20, 1 << 10].into_iter().find(|unit| scaled >= *unit).unwrap_or(1);
        if scaled == bytes { bytes } else { scaled / unit * unit }
    }

    fn targets(&self) -> anyhow::Result<Vec<TargetSpec>> {
        let mut targets = Vec::with_capacity(self.urls.len());
        for url in &self.urls {
            targets.push(TargetSpec::parse(url)?);
        }
        for option in &self.store_dir {
            let (target, value) = find(&labels(&targets), "--store-dir", option)?;
            targets[target].store_dir = Some(PathBuf::from(value));
        }
        self.shared.apply(&mut targets)?;
        Ok(targets)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: DavArgs,
    }

    fn options(words: &[&str]) -> anyhow::Result<DavOptions> {
        Command::try_parse_from([&["bench"], words].concat())?.args.options()
    }

    #[test]
    fn the_defaults_are_the_measurement_the_documents_describe() -> anyhow::Result<()> {
        let options = options(&["http://h/"])?;
        assert_eq!(options.sizes, [100 << 20, 1 << 30]);
        assert_eq!((options.files, options.file_bytes, options.connections, options.runs), (5_000, 4096, 8, 5));
        assert_eq!(options.entries, [2_000, 10_000]);
        assert!(options.settle && options.warm && options.wants(Workload::Report000));
        Ok(())
    }

    #[test]
    fn options_of_one_server_find_it_by_its_label() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("password");
        std::fs::write(&file, "secret\n")?;
        let auth = format!("a=me:{}", file.display());
        let options = options(&[
            "a=http://h/",
            "b=http://i/",
            "--auth",
            &auth,
            "--pid",
            "b=12",
            "--pid",
            "b=13",
            "--store-dir",
            "a=/x",
        ])?;
        assert_eq!(options.targets[0].credentials, Some(("me".to_owned(), "secret".to_owned())));
        assert_eq!(options.targets[0].store_dir, Some(PathBuf::from("/x")));
        assert_eq!(options.targets[1].pids, [12, 13]);
        assert_eq!(options.targets[1].credentials, None);
        Ok(())
    }

    #[test]
    fn a_label_nobody_has_is_an_error_that_names_those_there_are() {
        let error = options(&["a=http://h/", "--pid", "b=1"]).expect_err("no such label");
        assert!(error.to_string().contains("there are a"), "{error}");
    }

    #[test]
    fn scale_makes_everything_smaller_but_never_nothing() -> anyhow::Result<()> {
        let options = options(&["http://h/", "--scale", "0.0001", "--only", "upload,small"])?;
        assert_eq!(options.sizes, [10 << 10, 104 << 10]);
        assert_eq!((options.files, options.entries), (1, vec![1, 1]));
        assert_eq!(options.workloads, [Workload::Upload, Workload::Small]);
        Ok(())
    }
}
