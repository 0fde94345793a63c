//! `holdfast top`: what the nodes do at the moment.

use crate::args::DataArg;
use crate::local::Local;
use crate::output::{print, table};
use clap::Args;
use holdfast_base::size::format_bytes;
use holdfast_base::{Clock, Error, Result, SystemClock};
use holdfast_meta::Pressure;
use holdfast_server::figures::{Figures, Operations};
use serde::Serialize;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

/// A node says how it does every ten seconds; what it said three times longer ago is not now.
const NOW_MS: i64 = 30_000;

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
        let figures: Figures = serde_json::from_str(&sample.figures)
            .map_err(|error| Error::damaged("what a node said cannot be read").with_source(error))?;
        all.beside(&figures);
        nodes += 1;
    }
    Ok(Top { now_ms, all, nodes, pressure: local.catalogue.pressure().await? })
}

fn words(top: &Top, kinds: usize) -> String {
    let (all, pressure) = (&top.all, &top.pressure);
    let seconds = (all.ms as f64 / 1e3).max(1.0);
    let mut text = format!(
        "{} nodes spoke lately, {} requests running; {} locks, {} uploads, {} packs open, {} rows of garbage, {} names to index\n\n",
        top.nodes, all.running, pressure.locks, pressure.uploads, pressure.packs_open, pressure.garbage, pressure.words
    );
    let mut operations: Vec<(&String, &Operations)> = all.operations.iter().collect();
    operations.sort_by_key(|(_, it)| std::cmp::Reverse(it.count));
    let rows: Vec<Vec<String>> = operations
        .into_iter()
        .take(kinds)
        .map(|(kind, it)| {
            let mean = it.sum_us as f64 / 1e3 / it.count.max(1) as f64;
            let rate = format!("{:.1}", it.count as f64 / seconds);
            let within = |share| format!("{}", it.within_ms(share));
            vec![kind.clone(), rate, format!("{mean:.2}"), within(0.5), within(0.99), it.failed.to_string()]
        })
        .collect();
    text += &table(&["OPERATION", "PER SECOND", "MEAN MS", "50 % IN MS", "99 % IN MS", "FAILED"], &rows);
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
