//! `holdfast top`: what the nodes do at the moment, and what they did in the last hour.

use crate::args::DataArg;
use crate::local::Local;
use crate::output::{print, table};
use clap::Args;
use holdfast_base::size::format_bytes;
use holdfast_base::{Clock, Error, Result, SystemClock};
use holdfast_meta::{Pressure, Sample};
use holdfast_server::figures::{Figures, Operations};
use serde::Serialize;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

/// A node says how it does every ten seconds; what it said three times longer ago is not now.
const NOW_MS: i64 = 30_000;
const MINUTE_MS: i64 = 60_000;
/// Whiles beside the present: so many minutes, those that are over.
const WHILES: [(&str, i64); 3] = [("1 MIN", 1), ("5 MIN", 5), ("1 H", 60)];
/// Rows of nodes read for an hour: of a hundred nodes.
const MINUTES_MAX: usize = 60 * 100;

/// Options of `holdfast top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    data: DataArg,
    /// Say it once and end, as is done anyway when the output is no terminal.
    #[arg(long)]
    once: bool,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    every: u64,
    /// Kinds of operations shown.
    #[arg(long, value_name = "N", default_value_t = 10)]
    kinds: usize,
}

/// What is told.
#[derive(Debug, Serialize)]
struct Top {
    now_ms: i64,
    /// Ten seconds of all nodes.
    all: Figures,
    /// The last minute that is over, the last five and the last sixty.
    minutes: [Figures; WHILES.len()],
    nodes: usize,
    pressure: Pressure,
}

/// Runs it. As JSON it prints one document and ends.
pub(crate) async fn run(args: TopArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let live = !args.once && !json && std::io::stdout().is_terminal();
    loop {
        let top = look(&local).await?;
        if json {
            print(&serde_json::to_string_pretty(&top)?);
        } else {
            // Home and clear: what a terminal needs to show the next look in the place of the last.
            let clear = if live { "\u{1b}[H\u{1b}[2J" } else { "" };
            print(&format!("{clear}{}", words(&top, args.kinds)));
        }
        if !live {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(args.every)) => {}
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    local.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn look(local: &Local) -> Result<Top> {
    let now_ms = SystemClock.now_ms();
    let (mut all, mut nodes) = (Figures::default(), 0);
    for sample in local.catalogue.samples().await?.iter().filter(|sample| sample.at_ms >= now_ms - NOW_MS) {
        all.beside(&read(sample)?);
        nodes += 1;
    }
    let hour_ms = begin_of_minute(now_ms) - 60 * MINUTE_MS;
    let minutes = whiles(&local.catalogue.sample_minutes(hour_ms, MINUTES_MAX).await?, now_ms)?;
    Ok(Top { now_ms, all, minutes, nodes, pressure: local.catalogue.pressure().await? })
}

fn read(sample: &Sample) -> Result<Figures> {
    serde_json::from_str(&sample.figures)
        .map_err(|error| Error::damaged("what a node said cannot be read").with_source(error))
}

/// What was done in the whiles. A minute in which nothing happened has no row, so a while is as long as it is called.
fn whiles(samples: &[Sample], now_ms: i64) -> Result<[Figures; WHILES.len()]> {
    let begun_ms = begin_of_minute(now_ms);
    let mut sums = WHILES.map(|_| Figures::default());
    for sample in samples {
        let figures = read(sample)?;
        for (sum, (_, minutes)) in sums.iter_mut().zip(WHILES) {
            if (begun_ms - minutes * MINUTE_MS..begun_ms).contains(&sample.at_ms) {
                sum.then(&figures);
            }
        }
    }
    for (sum, (_, minutes)) in sums.iter_mut().zip(WHILES) {
        sum.ms = (minutes * MINUTE_MS).unsigned_abs();
    }
    Ok(sums)
}

fn begin_of_minute(now_ms: i64) -> i64 {
    now_ms.div_euclid(MINUTE_MS) * MINUTE_MS
}

fn words(top: &Top, kinds: usize) -> String {
    let (all, pressure) = (&top.all, &top.pressure);
    let mut text = format!(
        "{} nodes spoke lately, {} requests running; {} locks, {} uploads, {} packs open, {} rows of garbage, {} names to index\n\
         Operations a second; their times and failures are of the shortest while in which there were any.\n\n",
        top.nodes, all.running, pressure.locks, pressure.uploads, pressure.packs_open, pressure.garbage, pressure.words
    );
    let none = Operations::default();
    let of = |figures: &Figures, kind: &str| figures.operations.get(kind).map_or(0, |it| it.count);
    let whiles: Vec<&Figures> = std::iter::once(all).chain(&top.minutes).collect();
    let mut operations: Vec<&String> = whiles.iter().flat_map(|figures| figures.operations.keys()).collect();
    operations.sort_unstable();
    operations.dedup();
    operations.sort_by_key(|kind| std::cmp::Reverse((of(all, kind), of(whiles[WHILES.len()], kind))));
    let rows: Vec<Vec<String>> = operations
        .into_iter()
        .take(kinds)
        .map(|kind| {
            let rate =
                |figures: &&Figures| format!("{:.1}", of(figures, kind) as f64 * 1e3 / figures.ms.max(1_000) as f64);
            let mut row = vec![kind.clone()];
            row.extend(whiles.iter().map(rate));
            // Of the shortest while in which there was any.
            let it = whiles.iter().find_map(|figures| figures.operations.get(kind)).unwrap_or(&none);
            let mean = it.sum_us as f64 / 1e3 / it.count.max(1) as f64;
            row.extend([format!("{mean:.2}"), it.within_ms(0.5).to_string(), it.within_ms(0.99).to_string()]);
            row.push(it.failed.to_string());
            row
        })
        .collect();
    let mut head = vec!["OPERATION", "10 S"];
    head.extend(WHILES.map(|(name, _)| name));
    head.extend(["MEAN MS", "50 % IN MS", "99 % IN MS", "FAILED"]);
    text += &table(&head, &rows);
    for (title, sums) in [("ACCOUNT", &all.accounts), ("CLIENT", &all.clients)] {
        let mut sums: Vec<_> = sums.iter().collect();
        sums.sort_by_key(|(_, it)| std::cmp::Reverse(it.bytes_in + it.bytes_out));
        let rate = |bytes: u64| format!("{}/s", format_bytes(bytes.saturating_mul(1_000) / all.ms.max(1_000)));
        let rows: Vec<Vec<String>> = sums
            .into_iter()
            .take(5)
            .map(|(name, it)| vec![name.clone(), rate(it.bytes_in), rate(it.bytes_out)])
            .collect();
        text += "\n";
        text += &table(&[title, "IN", "OUT"], &rows);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_now_and_of_the_minutes_that_are_over() -> Result<()> {
        let figures = |count, failed| {
            let buckets = vec![0, 0, count];
            let put = Operations { count, failed, sum_us: count * 800, buckets };
            Figures { ms: 10_000, operations: [("dav PUT".to_owned(), put)].into(), ..Figures::default() }
        };
        let now_ms = 100 * MINUTE_MS + 30_000;
        let minute = |ago: i64, count| {
            let figures = serde_json::to_string(&figures(count, 7)).expect("is JSON");
            Sample { node: "n".into(), at_ms: (100 - ago) * MINUTE_MS, figures }
        };
        let minutes =
            whiles(&[minute(61, 9_999), minute(60, 3_000), minute(5, 300), minute(1, 120), minute(0, 9_999)], now_ms)?;
        assert_eq!(minutes.each_ref().map(|it| it.operations["dav PUT"].count), [120, 420, 3_420]);
        let top = Top { now_ms, all: figures(50, 1), minutes, nodes: 1, pressure: Pressure::default() };
        let text = words(&top, 5);
        let row: Vec<&str> =
            text.lines().find(|line| line.starts_with("dav PUT")).expect("a row").split_whitespace().collect();
        assert_eq!(row[2..], ["5.0", "2.0", "1.4", "0.9", "0.80", "1", "1", "1"]);
        let idle = words(&Top { all: Figures::default(), ..top }, 5);
        assert!(idle.contains("dav PUT") && idle.contains("0.0"), "{idle}");
        Ok(())
    }
}
