//! The figures of the Yanel cluster test, and what was measured here beside them.
//!
//! Source: report 004, "Cluster performance testing" (2 February 2011): JMeter 2.0.1 on a third machine, 10 threads, 1 s
//! ramp-up, 1000 requests per thread, through one Apache balancer to four Tomcats (A: local storage, B: data repository on
//! NFS) or two (C: local). Page "home" needs no inclusion, page "about" has two. The report has no second run of C, and
//! for the about page only configuration B; rows that it does not have are not made up. Its machines were of 2004 to
//! 2008, with one or two cores each: a factor beside ours says as much about the years as about the servers.

use serde::{Deserialize, Serialize};

use super::LoadRun;
use crate::stats::Spread;

/// One published row.
struct Published {
    page: &'static str,
    configuration: &'static str,
    run: u32,
    rate: f64,
    spread: Spread,
    error_percent: f64,
}

const fn published(
    (page, configuration, run): (&'static str, &'static str, u32),
    rate: f64,
    [min_ms, avg_ms, max_ms, dev_ms]: [f64; 4],
    error_percent: f64,
) -> Published {
    Published { page, configuration, run, rate, spread: Spread { min_ms, avg_ms, max_ms, dev_ms }, error_percent }
}

/// All rows of the report.
const ROWS: [Published; 7] = [
    published(("home", "A", 1), 73.3, [18.0, 133.0, 2514.0, 103.0], 0.01),
    published(("home", "A", 2), 79.4, [17.0, 122.0, 735.0, 93.0], 0.0),
    published(("home", "B", 1), 53.5, [44.0, 183.0, 4017.0, 243.0], 0.0),
    published(("home", "B", 2), 68.9, [41.0, 142.0, 535.0, 52.0], 0.0),
    published(("home", "C", 1), 58.6, [17.0, 167.0, 2151.0, 110.0], 0.0),
    published(("about", "B", 1), 15.1, [6.0, 646.0, 2326.0, 605.0], 0.0),
    published(("about", "B", 2), 15.4, [91.0, 637.0, 13_059.0, 654.0], 0.02),
];

/// A published row with one of our runs beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seed004Row {
    /// Their page: `home` or `about`.
    pub page: String,
    /// Their configuration: `A`, `B` or `C`.
    pub configuration: String,
    /// First or second run, theirs and ours.
    pub run: u32,
    /// Their requests per second.
    pub their_rate: f64,
    /// Their latency.
    pub their_spread: Spread,
    /// Their share of failures, in percent.
    pub their_error_percent: f64,
    /// Our target.
    pub who: String,
    /// Our good answers per second.
    pub our_rate: f64,
    /// Our latency.
    pub our_spread: Option<Spread>,
    /// Our share of failures, in percent.
    pub our_error_percent: f64,
    /// Our rate in terms of theirs.
    pub factor: f64,
}

/// Sets every published row beside the same run of every target. A target whose label begins with `home` or `about` stands
/// beside the rows of that page only.
pub(crate) fn rows(runs: &[LoadRun]) -> Vec<Seed004Row> {
    let mut found = Vec::new();
    for row in &ROWS {
        let ours = runs.iter().filter(|run| run.run == row.run && fits(&run.target, row.page));
        found.extend(ours.map(|run| Seed004Row {
            page: row.page.to_owned(),
            configuration: row.configuration.to_owned(),
            run: row.run,
            their_rate: row.rate,
            their_spread: row.spread,
            their_error_percent: row.error_percent,
            who: run.target.clone(),
            our_rate: run.rate,
            our_spread: run.spread,
            our_error_percent: run.error_percent(),
            factor: run.rate / row.rate,
        }));
    }
    found
}

fn fits(label: &str, page: &str) -> bool {
    let other = if page == "home" { "about" } else { "home" };
    !label.starts_with(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_and_mean_latency_of_the_report_agree_for_ten_users() {
        // Little's law: users = rate x latency, which holds for ten users without think time, but for ramp-up and rounding.
        for row in &ROWS {
            let users = row.rate * row.spread.avg_ms / 1e3;
            assert!((9.0..=10.3).contains(&users), "{} {}: {users}", row.page, row.configuration);
        }
    }

    #[test]
    fn first_runs_stand_beside_first_runs_and_pages_beside_their_page() {
        let mut runs = super::super::testing::load().runs;
        runs.retain(|run| run.target == "ours");
        let all = rows(&runs);
        assert_eq!(all.len(), 7, "every row has a first or second run of ours");
        assert!(all.iter().all(|row| (row.factor - row.our_rate / row.their_rate).abs() < 1e-9));
        for run in &mut runs {
            "about".clone_into(&mut run.target);
        }
        assert!(rows(&runs).iter().all(|row| row.page == "about"));
    }
}
