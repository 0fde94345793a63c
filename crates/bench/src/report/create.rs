//! The part of a report that `holdfast bench create` fills, and its tables.

use serde::{Deserialize, Serialize};

use super::load_tables::Table;
use super::seed003::Seed003Row;
use super::{Course, number};

/// What files were made, and how it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateReport {
    /// The load in words.
    pub load: String,
    /// Every run, in the order in which they were made.
    pub runs: Vec<CreateRun>,
    /// The table beside report 003.
    pub seed003: Vec<Seed003Row>,
}

/// One run in one folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateRun {
    /// The folder's label.
    pub target: String,
    /// 1 for the first run.
    pub run: u32,
    /// From the start of all clients to the end of the last file.
    pub seconds: f64,
    /// Files made.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Files that could not be made.
    pub failed: u64,
    /// Attempts beyond the first.
    pub retried: u64,
    /// Files that were read back and are as they were written.
    pub verified: u64,
    /// Requests that the server had for each file, in the background too, if they were counted.
    pub requests_per_file: Option<f64>,
    /// Each client by itself.
    pub clients: Vec<ClientRow>,
    /// The first failures of each client.
    pub errors: Vec<String>,
    /// How it went over time.
    pub course: Course,
}

/// What one client did, in its own time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClientRow {
    /// Files per second.
    pub files_per_s: f64,
    /// Bytes per second, in MB.
    pub mb_per_s: f64,
}

/// All tables that have something in them.
pub(super) fn tables(report: &CreateReport) -> Vec<Table> {
    [runs(report), seed003(report)].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn runs(report: &CreateReport) -> Table {
    let rows = report.runs.iter().map(|run| {
        let clients = |pick: fn(&ClientRow) -> f64| {
            let (min, max) =
                run.clients.iter().map(pick).fold((f64::MAX, 0.0), |(min, max), it| (it.min(min), it.max(max)));
            format!("{}–{}", number(min), number(max))
        };
        vec![
            format!("{}, run {}", run.target, run.run),
            number(run.seconds),
            run.files.to_string(),
            number(run.files as f64 / run.seconds),
            number(run.bytes as f64 / 1e6 / run.seconds),
            clients(|client| client.files_per_s),
            clients(|client| client.mb_per_s),
            run.retried.to_string(),
            run.verified.to_string(),
            run.requests_per_file.map_or_else(|| "-".to_owned(), number),
        ]
    });
    Table {
        title: "Every run",
        remark: format!("{}; of each client the slowest and the fastest", report.load),
        head: &[
            "",
            "s",
            "files",
            "files/s",
            "MB/s",
            "client files/s",
            "client MB/s",
            "tried again",
            "read back",
            "requests/file",
        ],
        rows: rows.collect(),
    }
}

fn seed003(report: &CreateReport) -> Table {
    let rows = report.seed003.iter().map(|row| {
        let rate = |value: f64| format!("{} {}", number(value), row.unit);
        vec![row.what.clone(), rate(row.theirs), row.who.clone(), rate(row.ours), number(row.factor)]
    });
    Table {
        title: "Beside the FUSEX rate test",
        remark: "report 003, of 2018: eosxd 4.2.17 on small virtual machines, to a server across a network; another machine, so the factor \
                 is no comparison of the programs alone. Ours is the median of the runs"
            .to_owned(),
        head: &["", "theirs", "who", "ours", "factor"],
        rows: rows.collect(),
    }
}
