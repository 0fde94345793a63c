//! What a run found out, and its three forms: JSON for programs, a table for terminals, a page for people.
//!
//! Units are in names and titles: MB is 10^6 bytes, MiB is 2^20. A figure is the median of its runs, shown with least
//! and greatest; `speed` compares medians with the first target's and is above 1 for what is faster than it, for
//! rates and latencies alike.

pub(crate) mod collect;
mod confined;
mod create;
mod html;
mod load;
mod load_tables;
mod plot;
pub mod seed000;
pub mod seed001;
pub mod seed002;
pub mod seed003;
pub mod seed004;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod timeline;
mod wan;
mod wan_plot;

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::baseline::BaselineRow;
pub use crate::data::{Kind, Origin};
pub use crate::machine::Machine;
pub use crate::paired::Interval;
pub use crate::stats::{Percentiles, Spread, Summary};
pub use confined::{Comparison, ComparisonRow, ConfinedReport, LeakRow, OperationRow};
pub use create::{ClientRow, CreateReport, CreateRun};
pub use load::*;
use seed000::Seed000Row;
pub use wan::{Outcome, WanCell, WanReport, WanRun};

/// Version of the JSON form; raised when a field changes its meaning.
pub const SCHEMA: u32 = 1;

/// Which command made a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bench {
    /// `holdfast bench dav`.
    #[default]
    Dav,
    /// `holdfast bench http`.
    Http,
    /// `holdfast bench create`.
    Create,
    /// `holdfast bench wan`.
    Wan,
    /// `holdfast bench fileserver`.
    Fileserver,
    /// `holdfast bench source`.
    Source,
    /// `holdfast bench start`.
    Start,
    /// `holdfast bench leak`.
    Leak,
}

impl Bench {
    fn name(self) -> &'static str {
        match self {
            Self::Dav => "dav",
            Self::Http => "http",
            Self::Create => "create",
            Self::Wan => "wan",
            Self::Fileserver => "fileserver",
            Self::Source => "source",
            Self::Start => "start",
            Self::Leak => "leak",
        }
    }
}

/// Everything one run of a measurement found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// The command.
    #[serde(default)]
    pub bench: Bench,
    /// When it began, in UTC (RFC 3339).
    pub started: String,
    /// How long it all took.
    pub duration_s: f64,
    /// Whether the user stopped it early.
    pub interrupted: bool,
    /// The command that made it, without passwords.
    pub command: String,
    /// Seed of data and choices.
    pub seed: u64,
    /// Runs asked for.
    pub runs: u32,
    /// Where it ran.
    pub machine: Machine,
    /// Versions of this program and of the baseline commands.
    pub versions: Vec<String>,
    /// Remarks given with the command.
    pub notes: Vec<String>,
    /// The servers, in order; ratios are to the first.
    pub targets: Vec<TargetNote>,
    /// Where the test data came from.
    pub data: Vec<DataNote>,
    /// The figures.
    pub series: Vec<Series>,
    /// The plain commands on the same data.
    pub baselines: Vec<BaselineRow>,
    /// Disk used by the uploads.
    pub stored: Vec<StoredRow>,
    /// The table beside the `CloudDrive` test.
    pub seed000: Vec<Seed000Row>,
    /// The runs of `holdfast bench http`, one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadReport>,
    /// The runs of `holdfast bench create`, one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<CreateReport>,
    /// The cells and runs of `holdfast bench wan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wan: Option<WanReport>,
    /// What confining programs costs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confined: Option<ConfinedReport>,
    /// What makes a figure doubtful.
    pub warnings: Vec<String>,
    /// How many runs or steps failed.
    pub error_count: u64,
    /// The first of them.
    pub errors: Vec<RunError>,
}

/// A server or folder as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetNote {
    /// Its name in this report.
    pub label: String,
    /// Its URL without user and password, or the folder.
    pub url: String,
    /// Its `Server` header, or the folder's file system.
    pub server: Option<String>,
    /// Its processes' command lines, when their ids were given.
    pub command: Option<String>,
}

/// Where a test file's content came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataNote {
    /// Incompressible or text.
    pub kind: Kind,
    /// Size of the file.
    pub bytes: u64,
    /// How it was made.
    pub origin: Origin,
}

/// Which values are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Rates.
    Higher,
    /// Latencies.
    Lower,
}

/// What a series measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesInfo {
    /// Stable name, such as `upload.100MiB.bin`.
    pub id: String,
    /// Title for people.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Whether high or low is good.
    pub better: Better,
    /// Bytes each run moved, where the figure is a rate of one transfer.
    pub bytes: Option<u64>,
}

/// One measurement of all targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What was measured.
    #[serde(flatten)]
    pub info: SeriesInfo,
    /// One row for each target, in the targets' order.
    pub rows: Vec<Row>,
}

/// One target's part of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The target's label.
    pub target: String,
    /// The value of each run that went well.
    pub values: Vec<f64>,
    /// Their summary; `None` when no run went well.
    pub summary: Option<Summary>,
    /// Speed in terms of the first target's: above 1 is faster.
    pub speed: Option<f64>,
    /// Latencies of the single requests, where there are many.
    pub latency: Option<Percentiles>,
    /// CPU seconds of the server per run.
    pub server_cpu_s: Option<Summary>,
    /// CPU seconds of this client per run.
    pub client_cpu_s: Option<Summary>,
    /// Greatest sum of the server's peak resident sets in any run.
    pub peak_rss_bytes: Option<u64>,
    /// Connections the server closed between two requests of a run.
    pub reopened: u64,
}

/// Disk one upload took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRow {
    /// The target's label.
    pub target: String,
    /// Kind of the file.
    pub kind: Kind,
    /// Size of the file.
    pub bytes: u64,
    /// Growth of the target's data folder, in bytes of disk; negative when it shrank meanwhile.
    pub stored_bytes: i64,
}

/// A run or step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// What was being done.
    pub step: String,
    /// To which target.
    pub target: String,
    /// What went wrong.
    pub message: String,
}

impl Report {
    /// Whether the command has to end with a failure: something failed, or nothing was measured at all.
    pub fn failed(&self) -> bool {
        let transfers = self.wan.iter().any(|wan| !wan.runs.is_empty());
        let nothing = self.series.is_empty() && self.baselines.is_empty() && !transfers;
        self.error_count > 0 || self.interrupted || nothing
    }

    /// Tables beside the series.
    fn tables(&self) -> Vec<load_tables::Table> {
        let load = self.load.iter().flat_map(load_tables::tables);
        let create = self.create.iter().flat_map(create::tables);
        let confined = self.confined.iter().flat_map(confined::tables);
        load.chain(create).chain(self.wan.iter().flat_map(wan::tables)).chain(confined).collect()
    }

    /// The table for a terminal.
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// The self-contained page.
    pub fn html(&self) -> String {
        html::render(self)
    }

    /// The JSON form.
    pub fn json(&self) -> anyhow::Result<String> {
        serde_json::to_string_pretty(self).context("cannot write the report as JSON")
    }

    /// Writes `PREFIX.json` and `PREFIX.html`, making the folder they are in; returns the two paths.
    pub fn write(&self, prefix: &Path) -> anyhow::Result<[PathBuf; 2]> {
        if let Some(folder) = prefix.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let with_ending = |ending: &str| {
            let mut name = prefix.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        let (json, html) = (with_ending(".json"), with_ending(".html"));
        for (path, text) in [(&json, self.json()?), (&html, self.html())] {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok([json, html])
    }
}

/// A number with as many digits as its size deserves, thousands apart: `1,234`, `56.7`, `8.90`, `0.123`.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    let text = match magnitude {
        0.0 => "0".to_owned(),
        m if m >= 100.0 => format!("{value:.0}"),
        m if m >= 10.0 => format!("{value:.1}"),
        m if m >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

/// `median (min–max)`.
pub(crate) fn spread(summary: &Summary) -> String {
    format!("{} ({}–{})", number(summary.median), number(summary.min), number(summary.max))
}

/// Bytes as MiB.
pub(crate) fn mebibytes(bytes: f64) -> String {
    number(bytes / f64::from(1_u32 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_or_all_of_their_whole_part() {
        for (value, text) in [
            (1_234_567.8, "1,234,568"),
            (999.6, "1,000"),
            (56.78, "56.8"),
            (8.9, "8.90"),
            (0.1234, "0.123"),
            (-1234.0, "-1,234"),
            (0.0, "0"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_report_survives_its_json_form() -> anyhow::Result<()> {
        for report in testing::examples() {
            let again: Report = serde_json::from_str(&report.json()?)?;
            assert_eq!(again, report);
        }
        Ok(())
    }

    #[test]
    fn a_report_with_errors_or_without_figures_has_failed() {
        let mut report = testing::example();
        assert!(!report.failed());
        report.error_count = 1;
        assert!(report.failed());
        report.error_count = 0;
        report.series.clear();
        report.baselines.clear();
        assert!(report.failed());
    }

    #[test]
    fn both_files_are_written_beside_each_other_in_a_new_folder() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let [json, html] = testing::example().write(&folder.path().join("new/v1.2"))?;
        assert!(json.ends_with("new/v1.2.json") && html.ends_with("new/v1.2.html"));
        assert!(std::fs::read_to_string(html)?.starts_with("<!doctype html>"));
        Ok(())
    }
}
