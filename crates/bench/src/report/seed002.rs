//! What was published of programs confined by a file system, and what was measured here beside it.
//!
//! Sources: report 002, the test of `BoesFS`, a stacked file system that asks an eBPF program at each call: its file server in the first round (2023; 4
//! processors, 2 GB; means of three runs), and what was left of memory and disk. The project's last document (4 GB, means of ten). `SandFS`, on which
//! that was built (2018; 4 processors, SSD).

use serde::{Deserialize, Serialize};

use super::{Comparison, Interval, LeakRow};
use crate::paired::slope;

/// A figure of somebody, natively and confined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seed002Row {
    /// What it is.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// Whose: a published system, or what was measured here.
    pub who: String,
    /// Whether it was published.
    pub published: bool,
    /// The mean natively; of ours without the worst fifth, as in the report.
    pub native: f64,
    /// The same confined.
    pub confined: f64,
    /// How much greater that is, in percent. Of ours by pairs, with the 95 % interval.
    pub change_percent: Interval,
}

const FIRST: &str = "BoesFS, first round (report 002)";
const LAST: &str = "BoesFS, last";
const SANDFS: &str = "SandFS";

/// A figure's series here and its title, if that does not follow; whose it is; natively and confined.
const PUBLISHED: [(&str, Option<&str>, &str, f64, f64); 12] = [
    ("fileserver.operations", None, FIRST, 7_191.683, 5_782.563),
    ("fileserver.operations", None, LAST, 37_595.5, 35_711.4),
    ("fileserver.bytes", None, FIRST, 170.9, 137.0),
    ("fileserver.bytes", None, LAST, 775.6, 736.7),
    ("fileserver.latency-002", None, FIRST, 23.333, 28.933),
    ("fileserver.latency-002", None, LAST, 5.69, 6.0),
    ("source.pack", None, LAST, 82.31, 87.23),
    ("source.pack", None, SANDFS, 61.05, 63.84),
    ("source.unpack", None, LAST, 9.13, 9.67),
    ("source.unpack", None, SANDFS, 5.13, 5.63),
    ("source.build-1", Some("make tinyconfig"), LAST, 7.44, 7.95),
    ("source.build-1", Some("make tinyconfig"), SANDFS, 27.15, 29.67),
];

/// Published figures of what was measured, and behind those of each what was measured here.
pub(crate) fn rows(comparisons: &[Comparison]) -> Vec<Seed002Row> {
    comparisons.iter().flat_map(beside).collect()
}

fn beside(Comparison { info, rows }: &Comparison) -> Vec<Seed002Row> {
    let row = |who: &str, published, (native, confined), change_percent| {
        let (what, unit, who) = (info.title.clone(), info.unit.clone(), who.to_owned());
        Seed002Row { what, unit, who, published, native, confined, change_percent }
    };
    let mut all: Vec<_> = PUBLISHED
        .iter()
        .filter(|(id, title, ..)| *id == info.id && title.is_none_or(|title| title == info.title))
        .map(|&(_, _, who, native, confined)| {
            let percent = (confined / native - 1.0) * 100.0;
            // As it was published.
            let change = Interval { value: (percent * 10.0).round() / 10.0, low: None, high: None };
            row(who, true, (native, confined), change)
        })
        .collect();
    let native = rows.first().and_then(|row| row.mean_without_worst);
    if let (Some(native), false) = (native, all.is_empty()) {
        let ours = rows.iter().filter_map(|ours| {
            let figures = (native, ours.mean_without_worst?);
            Some(row(&ours.target, false, figures, ours.change_percent?))
        });
        all.extend(ours);
    }
    all
}

/// What the report has of memory and disk: it runs its file server again and again, and nothing is told of after that.
pub(crate) fn leaks() -> Vec<LeakRow> {
    let row = |target: &str, removed, what: &str, bytes: Vec<u64>| {
        let after: Vec<f64> = bytes[1..].iter().map(|bytes| *bytes as f64).collect();
        let target = format!("{target} (report 002)");
        LeakRow { target, removed, what: what.to_owned(), slope: slope(&after), bytes }
    };
    let memory = |kib: [u64; 4]| kib.map(|kib| kib << 10).to_vec();
    // In tenths of a GiB, as `df -h` shows them.
    let disk = |tenths: [u64; 6]| tenths.map(|tenths| (tenths << 30) / 10).to_vec();
    vec![
        row("native", true, "memory free", memory([1_234_940, 572_008, 591_948, 579_964])),
        row("BoesFS", true, "memory free", memory([1_227_464, 577_568, 79_336, 0])),
        row("native", false, "disk free", disk([270, 250, 250, 250, 250, 250])),
        row("BoesFS", false, "disk free", disk([270, 190, 130, 67, 16, 0])),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn what_was_published_of_a_figure_stands_before_what_was_measured_of_it() {
        let confined = testing::confined_example().confined.expect("a part of confined programs");
        let rows = rows(&confined.comparisons);
        let who: Vec<&str> = rows.iter().map(|row| row.who.as_str()).collect();
        assert_eq!(who, [FIRST, LAST, "ours"], "what failed has no figure");
        assert!(rows[0].published && (rows[0].change_percent.value + 19.6).abs() < 1e-9, "{:?}", rows[0]);
        assert!(!rows[2].published && rows[2].change_percent.low.is_some(), "{:?}", rows[2]);
        let mut other = confined.comparisons[0].clone();
        other.info.id = "source.build-1".into();
        assert!(super::rows(std::slice::from_ref(&other)).is_empty(), "a build of something else");
        other.info.title = "make tinyconfig".into();
        assert_eq!(super::rows(&[other]).len(), 3);
    }

    #[test]
    fn the_report_lost_memory_and_disk() {
        let slopes: Vec<f64> = leaks().iter().map(|row| row.slope.expect("times enough").value / 1e6).collect();
        assert!(
            slopes[0].abs() < 10.0 && slopes[1] < -250.0 && slopes[2].abs() < 1.0 && slopes[3] < -4_000.0,
            "{slopes:?}"
        );
    }
}
