//! The runs of `holdfast bench http` as tables, the same for terminal and page.

use super::{LoadReport, LoadRun, number};
use crate::stats::{Percentiles, Spread};

/// A table with its title and a sentence.
pub(super) struct Table {
    pub(super) title: &'static str,
    pub(super) remark: String,
    pub(super) head: &'static [&'static str],
    pub(super) rows: Vec<Vec<String>>,
}

/// All tables that have something in them.
pub(super) fn tables(load: &LoadReport) -> Vec<Table> {
    let all = [runs(load), service(load), steps(load), errors(load), seed004(load)];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn dash() -> String {
    "-".to_owned()
}

/// `18/133/2514/103`, in the order and manner of report 004.
fn spread(spread: Option<&Spread>) -> String {
    spread.map_or_else(dash, |found| [found.min_ms, found.avg_ms, found.max_ms, found.dev_ms].map(number).join("/"))
}

fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

/// How much greater `second` is, in percent.
fn change(first: f64, second: f64) -> String {
    if first > 0.0 { format!("{:+.1}%", (second / first - 1.0) * 100.0) } else { dash() }
}

fn ordinal(run: u32) -> String {
    match run {
        1 => "first run".to_owned(),
        2 => "second run".to_owned(),
        other => format!("run {other}"),
    }
}

fn quantiles(latency: Option<&Percentiles>) -> [String; 4] {
    latency.map_or_else(
        || [dash(), dash(), dash(), dash()],
        |found| [found.p50_ms, found.p90_ms, found.p99_ms, found.p999_ms].map(number),
    )
}

fn runs(load: &LoadReport) -> Table {
    let mut rows = Vec::new();
    for run in &load.runs {
        let stopped = if run.interrupted { " (stopped)" } else { "" };
        let mut row = vec![
            format!("{}, {}{stopped}", run.target, ordinal(run.run)),
            number(run.rate),
            spread(run.spread.as_ref()),
            percent(run.error_percent()),
        ];
        row.extend(quantiles(run.latency.as_ref()));
        row.extend([
            number(run.content_mb_per_s),
            run.connect.as_ref().map_or_else(dash, |found| number(found.p50_ms)),
            run.connections.to_string(),
            run.requests.to_string(),
            number(run.seconds),
        ]);
        rows.push(row);
        let first = load.runs.iter().find(|other| other.target == run.target && other.run == 1);
        if let Some(first) = first.filter(|_| run.run == 2) {
            rows.push(difference(first, run));
        }
    }
    Table {
        title: "Every run",
        remark: format!("latency is {}, in ms", load.latency_from),
        head: &[
            "",
            "reqs/s",
            "min/avg/max/dev",
            "errors",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "MB/s",
            "connect p50",
            "connections",
            "requests",
            "s",
        ],
        rows,
    }
}

/// The second run in terms of the first.
fn difference(first: &LoadRun, second: &LoadRun) -> Vec<String> {
    let parts = |spread: &Spread| [spread.min_ms, spread.avg_ms, spread.max_ms, spread.dev_ms];
    let spreads = match (&first.spread, &second.spread) {
        (Some(first), Some(second)) => {
            let changes = parts(first).into_iter().zip(parts(second)).map(|(first, second)| change(first, second));
            changes.collect::<Vec<_>>().join("/")
        }
        _ => dash(),
    };
    let mut row = vec![
        format!("{}, difference", first.target),
        change(first.rate, second.rate),
        spreads,
        format!("{:+.2}", second.error_percent() - first.error_percent()),
    ];
    let parts = |latency: &Percentiles| [latency.p50_ms, latency.p90_ms, latency.p99_ms, latency.p999_ms];
    match (&first.latency, &second.latency) {
        (Some(first), Some(second)) => {
            row.extend(parts(first).into_iter().zip(parts(second)).map(|(first, second)| change(first, second)));
        }
        _ => row.extend([dash(), dash(), dash(), dash()]),
    }
    row.push(change(first.content_mb_per_s, second.content_mb_per_s));
    row
}

fn service(load: &LoadReport) -> Table {
    let rows = load.runs.iter().filter_map(|run| {
        let service = run.service.as_ref()?;
        let mut row = vec![format!("{}, {}", run.target, ordinal(run.run))];
        row.extend(quantiles(Some(service)));
        row.push(number(service.max_ms));
        row.push(run.unsent.to_string());
        Some(row)
    });
    Table {
        title: "Service time",
        remark: "from when a request was really sent, in ms: what a measurement would say that is not corrected"
            .to_owned(),
        head: &["", "p50", "p90", "p99", "p99.9", "max", "never sent"],
        rows: rows.collect(),
    }
}

fn steps(load: &LoadReport) -> Table {
    let mut rows = Vec::new();
    for run in &load.runs {
        for step in &run.steps {
            let share = if step.requests == 0 { 0.0 } else { step.failed as f64 / step.requests as f64 * 100.0 };
            let mut row = vec![
                format!("{}, {}: {}", run.target, ordinal(run.run), step.name),
                step.requests.to_string(),
                spread(step.spread.as_ref()),
                percent(share),
            ];
            row.extend(quantiles(step.latency.as_ref()));
            rows.push(row);
        }
    }
    Table {
        title: "Every request of the plan",
        remark: "latency in ms".to_owned(),
        head: &["", "requests", "min/avg/max/dev", "errors", "p50", "p90", "p99", "p99.9"],
        rows,
    }
}

fn errors(load: &LoadReport) -> Table {
    let mut rows = Vec::new();
    for run in &load.runs {
        for kind in &run.errors {
            let samples = kind.samples.join("; ");
            rows.push(vec![
                format!("{}, {}", run.target, ordinal(run.run)),
                kind.class.clone(),
                kind.count.to_string(),
                samples,
            ]);
        }
    }
    Table {
        title: "Failed requests",
        remark: "by kind, with the first that differ".to_owned(),
        head: &["", "kind", "count", "for example"],
        rows,
    }
}

fn seed004(load: &LoadReport) -> Table {
    let rows = load.seed004.iter().map(|row| {
        vec![
            format!("{} {}, {}", row.page, row.configuration, ordinal(row.run)),
            number(row.their_rate),
            spread(Some(&row.their_spread)),
            percent(row.their_error_percent),
            row.who.clone(),
            number(row.our_rate),
            spread(row.our_spread.as_ref()),
            percent(row.our_error_percent),
            number(row.factor),
        ]
    });
    Table {
        title: "Beside the Yanel cluster test",
        remark: "report 004, of 2011: A four Tomcats with local storage, B four with NFS, C two with local storage, behind one \
                 Apache, on machines of 2004 to 2008; another machine and another program, so the factor is no comparison of \
                 either alone. It has no second run of C, and of the about page only B"
            .to_owned(),
        head: &[
            "",
            "theirs reqs/s",
            "min/avg/max/dev ms",
            "errors",
            "who",
            "ours reqs/s",
            "min/avg/max/dev ms",
            "errors",
            "factor",
        ],
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn the_second_run_stands_behind_the_first_with_their_difference() {
        let table = runs(&testing::load());
        let names: Vec<&str> = table.rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(names[..3], ["ours, first run", "ours, second run", "ours, difference"]);
        assert_eq!(table.rows[0][1..4], ["73.3", "18.0/133/2,514/103", "0.01%"]);
        assert_eq!(table.rows[2][1], "+8.3%", "79.4 after 73.3");
        assert!(table.rows.iter().all(|row| row.len() <= table.head.len()));
    }

    #[test]
    fn tables_without_rows_are_left_out() {
        let mut load = testing::load();
        load.runs.iter_mut().for_each(|run| run.errors.clear());
        let titles: Vec<&str> = tables(&load).iter().map(|table| table.title).collect();
        assert_eq!(titles, ["Every run", "Beside the Yanel cluster test"]);
    }
}
