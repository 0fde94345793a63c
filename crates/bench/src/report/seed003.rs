//! The figures of the FUSEX rate test, and what was measured here beside them.
//!
//! Source: report 003, "FUSEX rate test" (18 March 2018): single-threaded writers on five machines, then six clients with two streams each.

use serde::{Deserialize, Serialize};

use super::{ClientRow, CreateRun};
use crate::stats::Summary;

/// A published figure with ours beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seed003Row {
    /// What it is.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// Theirs.
    pub theirs: f64,
    /// Our folder.
    pub who: String,
    /// The median of our runs.
    pub ours: f64,
    /// Ours in terms of theirs.
    pub factor: f64,
}

/// What a published figure is, its unit, the figure, and how ours is found in a run.
type Published = (&'static str, &'static str, f64, fn(&CreateRun) -> f64);

const PUBLISHED: [Published; 4] = [
    ("files of each client, in the long run", "files/s", 1.0, |run| mean(run, |client| client.files_per_s)),
    ("bytes of each client, best (T2)", "MB/s", 5.0, |run| mean(run, |client| client.mb_per_s)),
    ("bytes of all clients, best (T2)", "MB/s", 60.0, |run| run.bytes as f64 / 1e6 / run.seconds),
    ("files of all clients, where it flattened", "files/s", 1_000.0, |run| run.files as f64 / run.seconds),
];

fn mean(run: &CreateRun, pick: fn(&ClientRow) -> f64) -> f64 {
    run.clients.iter().map(pick).sum::<f64>() / run.clients.len().max(1) as f64
}

/// Every published figure beside the same figure of every folder.
pub(crate) fn rows(runs: &[CreateRun]) -> Vec<Seed003Row> {
    let mut targets: Vec<&str> = Vec::new();
    for run in runs {
        if !targets.contains(&run.target.as_str()) {
            targets.push(&run.target);
        }
    }
    let row = |&(what, unit, theirs, pick): &Published, target: &str| {
        let values: Vec<f64> = runs.iter().filter(|run| run.target == target).map(pick).collect();
        let ours = Summary::of(&values)?.median;
        let (what, unit, who) = (what.to_owned(), unit.to_owned(), target.to_owned());
        Some(Seed003Row { what, unit, theirs, who, ours, factor: ours / theirs })
    };
    PUBLISHED
        .iter()
        .flat_map(|published| targets.iter().filter_map(|target| row(published, target)).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn each_published_figure_stands_beside_that_of_each_folder() {
        let create = testing::create();
        let rows = rows(&create.runs);
        assert_eq!(rows.len(), 2 * PUBLISHED.len());
        let all = rows.iter().find(|row| row.who == "ours" && row.theirs > 999.0).expect("the rate of all clients");
        assert!((all.ours - 2_000.0).abs() < 1e-9 && (all.factor - 2.0).abs() < 1e-9, "{all:?}");
        let each = rows.iter().find(|row| row.who == "ours" && row.theirs < 2.0).expect("the rate of each");
        assert!((each.ours - 1_000.0).abs() < 1e-9, "{each:?}");
    }
}
