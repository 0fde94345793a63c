//! The part of a report that `holdfast bench wan` fills, and its tables.

use holdfast_wan::{Forwarded, Impairments};
use serde::{Deserialize, Serialize};

use super::load_tables::Table;
use super::seed001::Seed001Row;
use super::{Course, mebibytes, number};
use crate::wan::{Family, Way};

/// What was fetched over what, and how it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WanReport {
    /// What all cells share, in words.
    pub load: String,
    /// The cells, in order.
    pub cells: Vec<WanCell>,
    /// Every run, in the order in which they were made.
    pub runs: Vec<WanRun>,
    /// The table beside report 001.
    pub seed001: Vec<Seed001Row>,
}

/// A row of the matrix, one way, by one set of rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WanCell {
    /// Its name, such as `loss-8.data`.
    pub name: String,
    /// What it is.
    pub words: String,
    /// The row's name, such as `loss-8`.
    pub row: String,
    /// What its level is one of.
    pub family: Family,
    /// The level.
    pub level: f64,
    /// Whether many files are fetched.
    pub many: bool,
    /// Which way harm is done.
    pub way: Way,
    /// The most that can arrive: the rate, less headers, less what is lost and damaged on the way that files take. With netem's rules harm is done
    /// before the rate, and more can arrive.
    pub ceiling_mb_per_s: Option<f64>,
    /// The link that files come over.
    pub to_near: Impairments,
    /// The link back.
    pub to_far: Impairments,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Everything arrived and is right.
    Done,
    /// The time was over first.
    Unfinished,
    /// The tool ended with a failure, or without everything.
    Failed,
    /// The tool ended with success and wrong content.
    Wrong,
}

/// One tool in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WanRun {
    /// The tool's label.
    pub tool: String,
    /// What shared the link with it, until one of the two had ended.
    #[serde(default)]
    pub beside: Option<String>,
    /// The cell's name.
    pub cell: String,
    /// 1 for the first run.
    pub run: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, if it is not done.
    pub message: Option<String>,
    /// From the start of the first process to the end of the last.
    pub seconds: f64,
    /// What was to arrive.
    pub asked_bytes: u64,
    /// What did.
    pub arrived_bytes: u64,
    /// What of it is in files that are whole and right; nothing for meters, whose bytes nobody can compare.
    pub verified_bytes: Option<u64>,
    /// What arrived, in the time it took.
    pub mb_per_s: f64,
    /// That as a share of the cell's ceiling, of the time in which the link was up.
    pub share: Option<f64>,
    /// What the link delivered between the first tenth of it and the last: the rate without start and tail.
    pub steady_mb_per_s: Option<f64>,
    /// Bytes that were sent for each that arrived, headers included: 1.046 at best. Of a shared link nobody knows whose they are.
    pub sent_per_byte: Option<f64>,
    /// CPU seconds of the tool.
    pub client_cpu_s: f64,
    /// CPU seconds of its server.
    pub server_cpu_s: f64,
    /// Peak memory of the tool's processes that were seen at once, each at its own peak; 0 if it ended before anybody looked, after 0.1 s.
    pub client_peak_bytes: u64,
    /// Of the server's processes at the end.
    pub server_peak_bytes: u64,
    /// What the link did to files.
    pub to_near: Forwarded,
    /// What it did to what asks for them.
    pub to_far: Forwarded,
    /// Packets that were lost before the link.
    pub unread: u64,
    /// What the link delivered over time, in MB/s.
    pub course: Course,
}

impl WanRun {
    /// The tool, and what was beside it.
    pub(crate) fn who(&self) -> String {
        self.beside.as_ref().map_or_else(|| self.tool.clone(), |beside| format!("{} beside {beside}", self.tool))
    }

    /// How it went, on one line.
    pub(crate) fn words(&self) -> String {
        let share = self.share.map_or_else(String::new, |share| format!(", {:.1} % of the ceiling", share * 100.0));
        let rate = format!("{} MB/s in {} s{share}", number(self.mb_per_s), number(self.seconds));
        match &self.message {
            None => rate,
            Some(why) => format!(
                "{rate}: {} of {} MiB; {why}",
                mebibytes(self.arrived_bytes as f64),
                mebibytes(self.asked_bytes as f64)
            ),
        }
    }
}

/// All tables that have something in them.
pub(super) fn tables(report: &WanReport) -> Vec<Table> {
    [runs(report), beside_001(report)].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn runs(report: &WanReport) -> Table {
    let rows = report.runs.iter().map(|run| {
        let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        let how = match run.outcome {
            Outcome::Done => "done".to_owned(),
            Outcome::Unfinished => {
                format!("{} %", number(run.arrived_bytes as f64 / run.asked_bytes.max(1) as f64 * 100.0))
            }
            Outcome::Failed => "failed".to_owned(),
            Outcome::Wrong => "WRONG".to_owned(),
        };
        vec![
            format!("{}, {}, run {}", run.cell, run.who(), run.run),
            how,
            number(run.seconds),
            number(run.mb_per_s),
            run.share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
            optional(run.steady_mb_per_s),
            optional(run.sent_per_byte),
            number(run.client_cpu_s),
            number(run.server_cpu_s),
            mebibytes(run.client_peak_bytes as f64),
            mebibytes(run.server_peak_bytes as f64),
        ]
    });
    Table {
        title: "Every run",
        remark: format!(
            "{}. A share in the place of \"done\" is what had arrived when the time was over. The ceiling is the rate × 0.956 (payload of TCP in full \
             frames) × what is neither lost nor damaged on the way that files take, for as long as the link is up",
            report.load
        ),
        head: &[
            "",
            "",
            "s",
            "MB/s",
            "of ceiling",
            "link MB/s, middle 80 %",
            "sent/byte",
            "client CPU s",
            "server CPU s",
            "client MiB",
            "server MiB",
        ],
        rows: rows.collect(),
    }
}

fn beside_001(report: &WanReport) -> Table {
    let rows = report.seed001.iter().map(|row| {
        let seconds = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        let ratio = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{}×", number(value)));
        vec![
            row.cell.clone(),
            row.theirs.clone(),
            seconds(row.their_s),
            ratio(row.their_ratio),
            row.who.clone(),
            seconds(row.our_s),
            ratio(row.our_ratio),
            row.outcome.clone(),
        ]
    });
    Table {
        title: "Beside the test of OODT PushPull",
        remark: "report 001: a file of 1024 MB, or 16 of them, on links of which it does not tell the rate, and which differ between its tests: 332.4 s \
                 when nothing was done to the first, about 51 s with windows that are not small. So times are no comparison; what harm makes of each \
                 tool's own time without it is"
            .to_owned(),
        head: &["", "PushPull", "s", "of its own", "who", "s", "of its own clean", "outcome"],
        rows: rows.collect(),
    }
}
