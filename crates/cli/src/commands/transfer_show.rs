//! Where `push`, `pull` and `sync` show how far they are: bars on a terminal, one JSON object a line for programs, and a summary.

use super::transfer_metrics::Metrics;
use super::transfer_words::{
    end_json, end_words, event_json, per_second, progress_json, time_words, trouble_words, would_words,
};
use crate::output::{self, plain};
use holdfast_base::size::format_bytes;
use holdfast_transfer::{Counts, Event, Network, Progress, Report, Site, UnderWay};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::json;
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

/// Between two lines of progress.
const TICK: Duration = Duration::from_secs(1);
/// The rate shown is that of so many ticks.
const RATE_TICKS: usize = 10;
/// Files under way that are named on a terminal; programs are told all.
const NAMED_MAX: usize = 4;

/// Where things are shown.
enum To {
    Json,
    Bars(Bars),
    /// Words, and no progress.
    Words,
    /// Failures only.
    Quiet,
}

/// Shows a transfer.
pub(crate) struct Show {
    to: To,
    dry_run: bool,
    /// The destination's address, before paths for people.
    root: String,
    /// Bytes moved at the last ticks.
    seen: VecDeque<(Instant, u64)>,
    /// Both ends: one of them may know how the network is.
    sites: Vec<Arc<dyn Site>>,
    metrics: Option<Metrics>,
}

impl Show {
    pub(crate) fn new(
        json: bool,
        quiet: bool,
        dry_run: bool,
        sites: Vec<Arc<dyn Site>>,
        metrics: Option<Metrics>,
    ) -> Self {
        let destination = sites.first().map(|site| site.address()).unwrap_or_default();
        let to = match () {
            () if json => To::Json,
            () if quiet => To::Quiet,
            () if std::io::stderr().is_terminal() && !dry_run => To::Bars(Bars::new()),
            () => To::Words,
        };
        if json {
            output::print(&json!({ "event": "begin", "destination": destination, "dry_run": dry_run }).to_string());
        }
        let root = destination.trim_end_matches('/').to_owned();
        Self { to, dry_run, root, seen: VecDeque::from([(Instant::now(), 0)]), sites, metrics }
    }

    /// Shows events and progress until the transfer has ended.
    pub(crate) async fn follow(mut self, mut events: mpsc::Receiver<Event>, progress: Arc<Progress>) -> Self {
        let mut ticks = tokio::time::interval_at(Instant::now() + TICK, TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.event(&event),
                    None => return self,
                },
                _ = ticks.tick() => self.tick(&progress),
            }
        }
    }

    fn event(&self, event: &Event) {
        match &self.to {
            To::Json => output::print(&event_json(event).to_string()),
            To::Bars(bars) => {
                if let Some(words) = trouble_words(event) {
                    bars.all.suspend(|| eprintln!("{words}"));
                }
            }
            To::Words | To::Quiet => match event {
                Event::Would(act) if !matches!(self.to, To::Quiet) => output::print(&would_words(act, &self.root)),
                Event::Retry { .. } if matches!(self.to, To::Quiet) => {}
                event => trouble_words(event).iter().for_each(|words| eprintln!("{words}")),
            },
        }
    }

    fn tick(&mut self, progress: &Progress) {
        let counts = progress.counts();
        let now = (Instant::now(), counts.moved_bytes);
        self.seen.push_back(now);
        if self.seen.len() > RATE_TICKS {
            self.seen.pop_front();
        }
        let under_way = progress.under_way();
        let arrived: u64 = under_way.iter().map(|file| file.arrived.load(Ordering::Relaxed)).sum();
        let rate = self.rate();
        let left = progress.is_walked().then(|| counts.found_bytes.saturating_sub(counts.settled_bytes + arrived));
        let left_s = left.filter(|_| rate > 0).map(|left| left / rate);
        let network = self.sites.iter().find_map(|site| site.network());
        if let Some(metrics) = &mut self.metrics {
            metrics.tick(&counts, rate, network.as_ref());
        }
        match &self.to {
            To::Json => {
                let mut line = progress_json(&counts, &under_way, rate, left_s);
                line["network"] = json!(network);
                output::print(&line.to_string());
            }
            To::Bars(bars) => bars.draw(&counts, &under_way, (arrived, rate, left_s), network.as_ref()),
            To::Words | To::Quiet => {}
        }
    }

    /// Bytes a second over the last ticks.
    fn rate(&self) -> u64 {
        let (Some(first), Some(last)) = (self.seen.front(), self.seen.back()) else { return 0 };
        per_second(last.1.saturating_sub(first.1), last.0.duration_since(first.0))
    }

    /// Shows how it ended.
    pub(crate) fn end(&mut self, report: &Report) {
        if let Some(metrics) = &mut self.metrics {
            metrics.end(report);
        }
        match &self.to {
            To::Json => output::print(&end_json(report).to_string()),
            To::Quiet => {
                if let Some(kept) = &report.kept {
                    eprintln!("Nothing was removed: {kept}");
                }
            }
            To::Bars(_) | To::Words => output::print(&end_words(report, self.dry_run)),
        }
        if let To::Bars(bars) = &self.to {
            // A terminal that is gone needs no clearing.
            let _ = bars.all.clear();
        }
    }
}

/// A bar of everything, and lines of what is under way.
struct Bars {
    all: MultiProgress,
    whole: ProgressBar,
    files: Vec<ProgressBar>,
}

impl Bars {
    fn new() -> Self {
        let all = MultiProgress::new();
        let style = |template| ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let whole = all.add(ProgressBar::new(0).with_style(style("[{bar:24}] {msg}")));
        let files = (0..NAMED_MAX).map(|_| all.add(ProgressBar::new(0).with_style(style("  {wide_msg}")))).collect();
        Self { all, whole, files }
    }

    fn draw(
        &self,
        counts: &Counts,
        under_way: &[UnderWay],
        (arrived, rate, left_s): (u64, u64, Option<u64>),
        network: Option<&Network>,
    ) {
        self.whole.set_length(counts.found_bytes.max(1));
        self.whole.set_position(counts.settled_bytes + arrived);
        let mut words = vec![
            format!("{} of {} files", counts.settled, counts.found),
            format!("{} of {}", format_bytes(counts.settled_bytes + arrived), format_bytes(counts.found_bytes)),
            format!("{}/s", format_bytes(rate)),
        ];
        words.extend(left_s.map(|left_s| format!("{} left", time_words(Duration::from_secs(left_s)))));
        words.extend(network.map(ToString::to_string));
        let troubles =
            [(counts.retries, "retries"), (counts.failed, "failed")].into_iter().filter(|(count, _)| *count > 0);
        words.extend(troubles.map(|(count, what)| format!("{count} {what}")));
        self.whole.set_message(words.join(", "));
        for (index, bar) in self.files.iter().enumerate() {
            bar.set_message(under_way.get(index).map_or_else(String::new, |file| {
                let arrived = file.arrived.load(Ordering::Relaxed);
                format!("{} {} of {}", plain(&file.path.to_string()), format_bytes(arrived), format_bytes(file.size))
            }));
        }
    }
}
