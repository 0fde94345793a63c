//! What report 001 says of each row, and what was measured here beside it.
//!
//! Source: report 001, the test of OODT `PushPull` 0.6 under network impairment: a table of times for windows, one time for the clean link, and
//! words for everything else (its plots are not in the text).

use serde::{Deserialize, Serialize};

use super::wan::{Outcome, WanCell, WanRun};
use crate::stats::Summary;
use crate::wan::Family;

/// Seconds for 1024 MB when nothing was done to the network.
const CLEAN_S: f64 = 332.416;
/// Seconds by window, on a link on which windows that do not matter take about 51.
const WINDOWS: [(f64, f64); 7] = [
    (256.0, 91.13),
    (512.0, 86.56),
    (1024.0, 71.2),
    (2048.0, 51.41),
    (4096.0, 51.59),
    (8192.0, 50.43),
    (16384.0, 50.97),
];
/// The time in that table with the largest window.
const WINDOWS_CLEAN_S: f64 = 50.97;

/// A row of the report beside one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seed001Row {
    /// The cell.
    pub cell: String,
    /// What the report says.
    pub theirs: String,
    /// Its time, where it gives one.
    pub their_s: Option<f64>,
    /// In terms of its time on the same link without harm.
    pub their_ratio: Option<f64>,
    /// Our tool.
    pub who: String,
    /// The median of the runs that were done.
    pub our_s: Option<f64>,
    /// In terms of its own median on the clean link, for rows with one file and with many.
    pub our_ratio: Option<f64>,
    /// How the runs ended.
    pub outcome: String,
}

/// Every cell and tool beside what the report says of the row.
pub(crate) fn rows(cells: &[WanCell], runs: &[WanRun]) -> Vec<Seed001Row> {
    let mut tools: Vec<&str> = Vec::new();
    for run in runs {
        if !tools.contains(&run.tool.as_str()) {
            tools.push(&run.tool);
        }
    }
    let of = |cell: &WanCell, tool: &str| -> Vec<&WanRun> {
        runs.iter().filter(|run| run.cell == cell.name && run.tool == tool && run.beside.is_none()).collect()
    };
    let row = |cell: &WanCell, tool: &str| {
        let made = of(cell, tool);
        let our_s = median(&made);
        let clean = |other: &&WanCell| {
            let plain = matches!(other.family, Family::Clean)
                || (other.family == Family::Threads && other.row == "files-threads-4");
            plain && other.many == cell.many && other.to_near.mode == cell.to_near.mode
        };
        let clean_s = cells.iter().find(clean).and_then(|clean| median(&of(clean, tool)));
        let done = made.iter().filter(|run| run.outcome == Outcome::Done).count();
        let (their_s, their_clean_s, words) = of_report(cell);
        (!made.is_empty()).then(|| Seed001Row {
            cell: cell.name.clone(),
            theirs: words.to_owned(),
            their_s,
            their_ratio: their_s.zip(their_clean_s).map(|(theirs, clean)| theirs / clean),
            who: tool.to_owned(),
            our_s,
            our_ratio: our_s.zip(clean_s).map(|(ours, clean)| ours / clean),
            outcome: format!("{done} of {} done", made.len()),
        })
    };
    cells.iter().flat_map(|cell| tools.iter().filter_map(|tool| row(cell, tool)).collect::<Vec<_>>()).collect()
}

/// Of the runs that were done.
fn median(runs: &[&WanRun]) -> Option<f64> {
    let seconds: Vec<f64> = runs.iter().filter(|run| run.outcome == Outcome::Done).map(|run| run.seconds).collect();
    Summary::of(&seconds).map(|summary| summary.median)
}

/// The report's time, that of its clean link, and its words.
fn of_report(cell: &WanCell) -> (Option<f64>, Option<f64>, &'static str) {
    let level = cell.level;
    let words = match (cell.family, cell.many) {
        (Family::Clean, _) => return (Some(CLEAN_S), Some(CLEAN_S), "the reference"),
        (Family::Window, _) => {
            let time = WINDOWS.iter().find(|(window, _)| (window - level).abs() < 0.5).map(|(_, seconds)| *seconds);
            return (time, Some(WINDOWS_CLEAN_S), if time.is_some() { "works" } else { "ERROR" });
        }
        (Family::Delay, false) if level > 800.0 => "stalled, gave up after 15 minutes, again and again",
        (Family::Delay, false) if level > 200.0 => "longer with the delay",
        (Family::Delay, true) => "works, slower",
        (Family::Loss, false) if level > 64.0 => "RemoteConnectionException",
        (Family::Loss, false) if level >= 8.0 => "significantly longer",
        (Family::Loss, true) if level > 24.0 => "could not transfer",
        (Family::Loss, true) if level > 16.0 => "exponentially longer",
        (Family::Loss, true) if level >= 4.0 => "longer",
        (Family::Corruption, false) if level > 32.0 => "unresponsive",
        (Family::Corruption, false) if level > 8.0 => "longer",
        (Family::Corruption, false) => "no significant change",
        (Family::Corruption, true) if level > 24.0 => "unresponsive",
        (Family::Corruption, true) if level >= 24.0 => "half of the clean rate",
        (Family::Corruption, true) => "not told",
        (Family::Reordering, _) if (level - 32.0).abs() < 0.5 => "less time than with less of it, again and again",
        (Family::Reordering, _) if level > 16.0 => "significantly longer",
        (Family::Duplication, _) => "longer, not steadily; never stalled",
        (Family::Threads, _) if (level - 4.0).abs() < 0.5 => "the best number of threads",
        (Family::Threads, _) => "not as good as 4",
        (Family::Both | Family::Outage, _) => "not in the report",
        (Family::Delay | Family::Loss | Family::Reordering, _) => "little change",
    };
    (None, None, words)
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn each_row_stands_beside_the_words_of_the_report_and_its_own_clean_run() {
        let wan = testing::wan();
        let rows = rows(&wan.cells, &wan.runs);
        assert_eq!(rows.len(), 6, "three cells, two tools");
        let row =
            |cell: &str, who: &str| rows.iter().find(|row| row.cell == cell && row.who == who).expect("it was run");
        let clean = row("clean.data", "ours");
        assert_eq!((clean.their_s, clean.our_ratio), (Some(CLEAN_S), Some(1.0)));
        let loss = row("loss-8.data", "ours");
        assert!(loss.theirs.contains("longer") && loss.their_s.is_none() && loss.outcome == "1 of 1 done");
        assert!(loss.our_ratio > Some(1.0), "{loss:?}");
        let unfinished = row("loss-8.data", "theirs");
        assert_eq!((unfinished.our_s, unfinished.outcome.as_str()), (None, "0 of 1 done"));
        let window = row("window-256.data", "ours");
        assert!((window.their_ratio.expect("a time") - 91.13 / 50.97).abs() < 1e-9);
    }
}
