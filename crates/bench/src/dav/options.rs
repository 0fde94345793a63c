//! What a run measures, as plain data.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::ValueEnum;

use super::TargetSpec;
use crate::shared::check_labels;

/// A part of the measurement that can be chosen by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Workload {
    /// PUT of large files of both kinds.
    Upload,
    /// GET of large files of both kinds.
    Download,
    /// PUT of exactly the sizes of the CESNET test in report 000, to set beside its figures.
    #[value(name = "report-000")]
    Report000,
    /// `cp`, `gzip`, `zstd` and `zstd | openssl` on the same data.
    Baselines,
    /// Time to the first byte of small answers on a kept connection.
    FirstByte,
    /// Ranges out of the largest file.
    Ranges,
    /// PROPFIND of large folders.
    Propfind,
    /// PUT, GET and DELETE of many small files over several connections.
    Small,
}

/// Everything a run needs to know. [`super::DavArgs`] makes it from a command line; [`DavOptions::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct DavOptions {
    /// The servers; ratios are to the first.
    pub targets: Vec<TargetSpec>,
    /// What to measure.
    pub workloads: Vec<Workload>,
    /// Bytes of the large files.
    pub sizes: Vec<u64>,
    /// Bytes of the files set beside the `CloudDrive` test.
    pub report_sizes: Vec<u64>,
    /// Count of small files per run.
    pub files: u64,
    /// Bytes of each small file.
    pub file_bytes: usize,
    /// Connections that move small files.
    pub connections: usize,
    /// Entries of the folders that PROPFIND lists.
    pub entries: Vec<u64>,
    /// Random ranges per run.
    pub random_ranges: u32,
    /// Small answers per run in the first-byte workload.
    pub small_answers: u32,
    /// Timed runs of each workload and target.
    pub runs: u32,
    /// Seed of test data and of random choices.
    pub seed: u64,
    /// Where test data is made and kept.
    pub data_dir: PathBuf,
    /// Folders whose text makes the text files; empty for those of this machine.
    pub text_sources: Vec<PathBuf>,
    /// Accept any TLS certificate.
    pub insecure: bool,
    /// Trust the certificates in this PEM file instead of the machine's.
    pub ca_file: Option<PathBuf>,
    /// A request fails when no byte moves for so long.
    pub stall_timeout: Duration,
    /// A request fails when it takes longer.
    pub request_timeout: Duration,
    /// All repetitions of one baseline command on one file together; the first is always made.
    pub baseline_budget: Duration,
    /// Write back dirty data before each timed run.
    pub settle: bool,
    /// Touch and free memory before each timed run.
    pub warm: bool,
    /// Tell on standard error what is being measured.
    pub progress: bool,
    /// The command line, as it should stand in the report: without passwords.
    pub command: String,
    /// Remarks for the report, such as versions and settings of the servers.
    pub notes: Vec<String>,
}

impl DavOptions {
    /// The defaults, which are those of the command line.
    pub fn new(targets: Vec<TargetSpec>, data_dir: PathBuf) -> Self {
        Self {
            targets,
            workloads: Workload::value_variants().to_vec(),
            sizes: vec![100 << 20, 1 << 30],
            report_sizes: crate::report::seed000::SIZES.to_vec(),
            files: 5_000,
            file_bytes: 4096,
            connections: 8,
            entries: vec![2_000, 10_000],
            random_ranges: 100,
            small_answers: 200,
            runs: 5,
            seed: 1,
            data_dir,
            text_sources: Vec::new(),
            insecure: false,
            ca_file: None,
            stall_timeout: Duration::from_mins(2),
            request_timeout: Duration::from_mins(15),
            baseline_budget: Duration::from_mins(1),
            settle: true,
            warm: true,
            progress: false,
            command: String::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn wants(&self, workload: Workload) -> bool {
        self.workloads.contains(&workload)
    }

    /// Refuses what cannot be measured, and counts that are surely mistakes.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        /// A folder with more entries than any server here lists in one answer.
        const MAX_ENTRIES: u64 = 1_000_000;
        /// 64 threads already keep every server here busy; more only measure the client.
        const MAX_CONNECTIONS: usize = 64;
        const MAX_RUNS: u32 = 1_000;
        /// Small files are held in memory, once per connection.
        const MAX_SMALL_BYTES: usize = 1 << 20;
        ensure!(
            !self.targets.is_empty(),
            "no URL given: name at least one WebDAV folder, such as http://127.0.0.1:8080/dav/alice/"
        );
        check_labels(self.targets.iter().map(|target| target.label.as_str()))?;
        ensure!((1..=MAX_RUNS).contains(&self.runs), "--runs must be 1 to {MAX_RUNS}");
        ensure!((1..=MAX_CONNECTIONS).contains(&self.connections), "--connections must be 1 to {MAX_CONNECTIONS}");
        ensure!((1..=MAX_ENTRIES).contains(&self.files), "--files must be 1 to {MAX_ENTRIES}");
        ensure!((1..=MAX_SMALL_BYTES).contains(&self.file_bytes), "--file-size must be 1 to {MAX_SMALL_BYTES} bytes");
        ensure!(
            self.entries.iter().all(|entries| (1..=MAX_ENTRIES).contains(entries)),
            "--entries must be 1 to {MAX_ENTRIES}"
        );
        ensure!(self.sizes.iter().all(|&bytes| bytes > 0), "--sizes must be at least one byte");
        Ok(())
    }
}
