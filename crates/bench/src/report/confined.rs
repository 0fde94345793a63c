//! The part of a report that the measurements of confined programs fill, and its tables.

use serde::{Deserialize, Serialize};

use super::load_tables::Table;
use super::seed002::Seed002Row;
use super::{SeriesInfo, mebibytes, number};
use crate::paired::Interval;

/// What was done natively and confined, and how these compare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfinedReport {
    /// The load in words.
    pub load: String,
    /// Each figure beside that of native.
    pub comparisons: Vec<Comparison>,
    /// Each kind of operation by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationRow>,
    /// What is left of memory and disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaks: Vec<LeakRow>,
    /// What was published of the same figures, and ours beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seed002: Vec<Seed002Row>,
    /// What report 002 has of memory and disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seed002_leaks: Vec<LeakRow>,
}

/// A figure of all variants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What was measured.
    #[serde(flatten)]
    pub info: SeriesInfo,
    /// One row for each variant, native first.
    pub rows: Vec<ComparisonRow>,
}

/// A variant's part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// The variant's name.
    pub target: String,
    /// The value of each round; nothing where it failed.
    pub runs: Vec<Option<f64>>,
    /// The mean without the worst fifth: of ten, without the two worst, which is report 002's rule.
    pub mean_without_worst: Option<f64>,
    /// How much greater the values are than native ones of the same rounds, in percent: the geometric mean, and its 95 % interval.
    pub change_percent: Option<Interval>,
    /// The same in the unit of the values: the mean, and its 95 % interval.
    pub difference: Option<Interval>,
}

/// A kind of operation of a variant. Times are medians of the runs', except for the greatest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationRow {
    /// What is done.
    pub operation: String,
    /// The variant's name.
    pub target: String,
    /// How often, in all runs.
    pub count: u64,
    /// How long it took in the mean.
    pub mean_us: f64,
    /// Half took at most this long.
    pub p50_us: f64,
    /// 99 % took at most this long.
    pub p99_us: f64,
    /// The slowest of all runs.
    pub max_us: f64,
    /// The mean in terms of native's.
    pub to_native: Option<f64>,
}

/// What is left of something after each time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeakRow {
    /// The variant's name.
    pub target: String,
    /// Whether files were removed each time.
    pub removed: bool,
    /// What is counted.
    pub what: String,
    /// In bytes: before the first time, after each, and after the end.
    pub bytes: Vec<u64>,
    /// How much more there is after each time than after the one before, from the first to the last: the line of least squares.
    pub slope: Option<Interval>,
}

/// All tables that have something in them.
pub(super) fn tables(report: &ConfinedReport) -> Vec<Table> {
    [comparisons(report), seed002(report), operations(report), leaks(report)]
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect()
}

fn dash() -> String {
    "-".to_owned()
}

/// `+1.2 (-0.3 to +2.7)`, or `+1.2` where the scatter is not known.
fn interval(interval: Option<&Interval>, show: impl Fn(f64) -> String) -> String {
    let signed = |value: f64| if value > 0.0 { format!("+{}", show(value)) } else { show(value) };
    match interval {
        None => dash(),
        Some(Interval { value, low: Some(low), high: Some(high) }) => {
            format!("{} ({} to {})", signed(*value), signed(*low), signed(*high))
        }
        Some(Interval { value, .. }) => signed(*value),
    }
}

/// Whether it is told from nothing.
fn told(interval: Option<&Interval>) -> String {
    match interval {
        Some(interval) if interval.excludes_zero() => "yes".to_owned(),
        Some(Interval { low: Some(_), .. }) => "no".to_owned(),
        _ => dash(),
    }
}

fn comparisons(report: &ConfinedReport) -> Table {
    let mut rows = Vec::new();
    for Comparison { info, rows: targets } in &report.comparisons {
        for row in targets {
            rows.push(vec![
                format!("{}: {}", info.title, row.target),
                row.mean_without_worst.map_or_else(|| "failed".to_owned(), number),
                info.unit.clone(),
                interval(row.change_percent.as_ref(), number),
                interval(row.difference.as_ref(), number),
                told(row.change_percent.as_ref()),
                row.runs.iter().flatten().count().to_string(),
            ]);
        }
    }
    Table {
        title: "Beside native",
        remark: format!(
            "{}. Mean: without the worst fifth, as report 002 leaves out two of ten. Change and difference: to native in the same round, \
             in the mean, with the 95 % interval; told apart: whether it leaves 0 out",
            report.load
        ),
        head: &["", "mean", "unit", "change %", "difference", "told apart", "rounds"],
        rows,
    }
}

fn seed002(report: &ConfinedReport) -> Table {
    let rows = report.seed002.iter().map(|row| {
        vec![
            format!("{}: {}", row.what, row.who),
            number(row.native),
            number(row.confined),
            row.unit.clone(),
            interval(Some(&row.change_percent), number),
        ]
    });
    Table {
        title: "Beside what was published",
        remark: "report 002's columns. BoesFS and SandFS are stacked file systems that ask an eBPF program, on other machines, kernels and disks: only \
                 changes can be set beside changes, and only where the load was not set otherwise. The report has less than 50 % for sandboxes \
                 by ptrace, and less than 80 % for those by FUSE, without figures"
            .to_owned(),
        head: &["", "native", "confined", "unit", "change %"],
        rows: rows.collect(),
    }
}

fn operations(report: &ConfinedReport) -> Table {
    let rows = report.operations.iter().map(|row| {
        vec![
            format!("{}: {}", row.operation, row.target),
            row.count.to_string(),
            number(row.mean_us),
            number(row.p50_us),
            number(row.p99_us),
            number(row.max_us),
            row.to_native.map_or_else(dash, number),
        ]
    });
    Table {
        title: "Each kind of operation",
        remark: "in µs; medians of the runs, and the slowest of all. To native: the mean in terms of native's"
            .to_owned(),
        head: &["", "count", "mean", "p50", "p99", "max", "to native"],
        rows: rows.collect(),
    }
}

fn leaks(report: &ConfinedReport) -> Table {
    let rows = report.leaks.iter().chain(&report.seed002_leaks).map(|row| {
        let bytes: Vec<String> = row.bytes.iter().map(|bytes| mebibytes(*bytes as f64)).collect();
        vec![
            format!("{}: {}, files {}", row.what, row.target, if row.removed { "removed" } else { "kept" }),
            bytes.join("  "),
            interval(row.slope.as_ref(), mebibytes),
            told(row.slope.as_ref()),
        ]
    });
    Table {
        title: "What is left after each time",
        remark: "in MiB: before, after each time, and, but for report 002, after the end of the confined program. Slope: a time more makes so much \
                 difference, from the first to the last, with the 95 % interval; told apart: whether it leaves 0 out"
            .to_owned(),
        head: &["", "MiB", "slope", "told apart"],
        rows: rows.collect(),
    }
}
