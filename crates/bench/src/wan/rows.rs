//! The matrix: every row of report 001, with levels on both sides of each of its thresholds, and rows that only the link makes possible.

use std::time::Duration;

use clap::ValueEnum;
use holdfast_wan::{Chance, Impairments, Loss, Mode, Queue, WanSettings};
use serde::{Deserialize, Serialize};

/// What a full frame takes on the link, and what of it is the payload of a TCP segment with timestamps.
const FRAME_BYTES: f64 = 1514.0;
const PAYLOAD_BYTES: f64 = 1448.0;
/// What of the link's rate can be payload at best. QUIC's packets have less room, 0.945.
pub(crate) const HEADER_EFFICIENCY: f64 = PAYLOAD_BYTES / FRAME_BYTES;
/// A queue below this drops the bursts that senders make on a path without delay.
const QUEUE_PACKETS_MIN: f64 = 100.0;
/// The kernel's own limit of netem's queue, where the delay needs no more.
const NETEM_PACKETS_MIN: f64 = 1000.0;
/// Where the report's threads were found to do best, and what its later tests use.
const THREADS: u32 = 4;

/// Which way the link does harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// The way the files take. Delay, too, is there alone: it is the round trip's.
    Data,
    /// The way of requests and acknowledgements.
    Ack,
    /// Both, each by itself; the round trip has the delay twice.
    Both,
}

/// What a row does to a link, in the units of the report's commands.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Harm {
    pub(crate) delay_ms: u64,
    /// Percent.
    pub(crate) loss: f64,
    pub(crate) corruption: f64,
    pub(crate) reordering: f64,
    pub(crate) duplication: f64,
    /// Bytes of the buffers of every socket.
    pub(crate) window: Option<u32>,
    /// How long nothing gets through either way, once, in the middle.
    pub(crate) outage_s: u32,
}

/// What the levels of a row are levels of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Nothing is done to the link.
    Clean,
    /// Milliseconds.
    Delay,
    /// Percent.
    Loss,
    /// Percent.
    Corruption,
    /// Percent.
    Reordering,
    /// Percent.
    Duplication,
    /// Bytes.
    Window,
    /// Files at a time.
    Threads,
    /// Percent of loss beside a delay of 100 ms.
    Both,
    /// Seconds.
    Outage,
}

/// A row of the matrix.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) family: Family,
    pub(crate) level: f64,
    pub(crate) harm: Harm,
    /// Whether it is the report's test with a folder of 16 files.
    pub(crate) many: bool,
    pub(crate) threads: u32,
}

impl Row {
    fn one(name: &str, family: Family, level: f64, harm: Harm) -> Self {
        Self { name: name.to_owned(), family, level, harm, many: false, threads: 1 }
    }

    fn many(name: &str, family: Family, level: f64, harm: Harm, threads: u32) -> Self {
        Self { many: true, threads, ..Self::one(name, family, level, harm) }
    }
}

/// All rows, in the report's order.
pub(crate) fn all() -> Vec<Row> {
    let mut rows = vec![Row::one("clean", Family::Clean, 0.0, Harm::default())];
    let mut levels = |name: &str, family, levels: &[u32], many: bool, harm: fn(u32) -> Harm| {
        rows.extend(levels.iter().map(|&level| {
            let (name, harm) = (format!("{name}-{level}"), harm(level));
            let level = f64::from(level);
            if many { Row::many(&name, family, level, harm, THREADS) } else { Row::one(&name, family, level, harm) }
        }));
    };
    let delay: fn(u32) -> Harm = |level| Harm { delay_ms: level.into(), ..Harm::default() };
    let loss: fn(u32) -> Harm = |level| Harm { loss: level.into(), ..Harm::default() };
    let corruption: fn(u32) -> Harm = |level| Harm { corruption: level.into(), ..Harm::default() };
    let percents = [1, 2, 4, 8, 16, 24, 32, 48, 64, 70];
    levels("delay", Family::Delay, &[50, 100, 200, 400, 800, 1000, 1600], false, delay);
    levels("loss", Family::Loss, &percents, false, loss);
    levels("corrupt", Family::Corruption, &percents, false, corruption);
    levels("reorder", Family::Reordering, &[1, 2, 4, 8, 16, 24, 32, 48, 64], false, |level| Harm {
        reordering: level.into(),
        delay_ms: 100,
        ..Harm::default()
    });
    levels("duplicate", Family::Duplication, &[1, 2, 4, 8, 16, 32, 64], false, |level| Harm {
        duplication: level.into(),
        ..Harm::default()
    });
    levels("window", Family::Window, &[128, 256, 512, 1024, 2048, 4096, 8192, 16384], false, |level| Harm {
        window: Some(level),
        ..Harm::default()
    });
    levels("delay-100-loss", Family::Both, &[1, 8, 32], false, |level| Harm {
        loss: level.into(),
        delay_ms: 100,
        ..Harm::default()
    });
    levels("outage", Family::Outage, &[20, 90, 1200], false, |level| Harm { outage_s: level, ..Harm::default() });
    levels("files-delay", Family::Delay, &[100, 200, 400, 800, 1000], true, delay);
    levels("files-loss", Family::Loss, &[1, 2, 4, 8, 16, 24, 32, 64], true, loss);
    levels("files-corrupt", Family::Corruption, &[1, 2, 4, 8, 16, 24, 32, 48], true, corruption);
    let threads = [1, 2, 4, 8, 16].map(|threads| {
        Row::many(&format!("files-threads-{threads}"), Family::Threads, f64::from(threads), Harm::default(), threads)
    });
    // Before the rows that use what these found out.
    let place = rows.iter().position(|row| row.many).unwrap_or(rows.len());
    rows.splice(place..place, threads);
    rows
}

/// One of each kind, for a look at everything in a few minutes.
pub(crate) const SHORT: &[&str] = &[
    "clean",
    "delay-200",
    "loss-1",
    "loss-8",
    "corrupt-8",
    "reorder-16",
    "duplicate-8",
    "window-2048",
    "delay-100-loss-1",
    "files-threads-4",
];

/// Whether a name is what a pattern with `*` and `?` means.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.chars();
    match parts.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = parts.as_str();
            name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| matches(rest, &name[at..]))
        }
        Some(first) => {
            let mut left = name.chars();
            left.next().is_some_and(|found| first == '?' || first == found) && matches(parts.as_str(), left.as_str())
        }
    }
}

/// A row as it is run: on a link with a rate, harmed one way, by one set of rules.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub(crate) row: Row,
    pub(crate) way: Way,
    pub(crate) mode: Mode,
    /// Bytes per second.
    pub(crate) rate: Option<u64>,
}

impl Cell {
    /// Its name in reports: `loss-8.data`, `loss-8.both.netem`.
    pub(crate) fn name(&self) -> String {
        let way = match self.way {
            Way::Data => "data",
            Way::Ack => "ack",
            Way::Both => "both",
        };
        format!("{}.{way}{}", self.row.name, if self.mode == Mode::Netem { ".netem" } else { "" })
    }

    /// What it is, for people.
    pub(crate) fn words(&self) -> String {
        let Harm { delay_ms, loss, corruption, reordering, duplication, window, outage_s } = self.row.harm;
        let mut words = Vec::new();
        let mut say = |there: bool, text: String| words.extend(there.then_some(text));
        say(delay_ms > 0, format!("delay {delay_ms} ms"));
        say(loss > 0.0, format!("loss {loss} %"));
        say(corruption > 0.0, format!("corruption {corruption} %"));
        say(reordering > 0.0, format!("reordering {reordering} % 50 %"));
        say(duplication > 0.0, format!("duplication {duplication} %"));
        if words.is_empty() {
            words.push("clean link".to_owned());
        } else {
            let way = match self.way {
                Way::Data => "data",
                Way::Ack => "acknowledgements",
                Way::Both => "both ways",
            };
            words.push(format!("of {way}"));
        }
        words.extend((outage_s > 0).then(|| format!("down for {outage_s} s after a third")));
        words.extend(window.map(|bytes| format!("socket buffers of {bytes} bytes")));
        words.extend(self.row.many.then(|| format!("many files, {} at a time", self.row.threads)));
        words.extend((self.mode == Mode::Netem).then(|| "netem's rules".to_owned()));
        words.join(", ")
    }

    /// The link.
    pub(crate) fn settings(&self, seed: u64, kernel_netem: bool) -> WanSettings {
        let harmed = |harmed: bool| self.impairments(if harmed { self.row.harm } else { Harm::default() });
        WanSettings { to_near: harmed(self.way != Way::Ack), to_far: harmed(self.way != Way::Data), seed, kernel_netem }
    }

    fn impairments(&self, harm: Harm) -> Impairments {
        let correlated = Chance { probability: harm.reordering / 100.0, correlation: 0.5 };
        Impairments {
            mode: self.mode,
            rate: self.rate,
            queue: Queue { packets: self.queue_packets(), bytes: None },
            delay: Duration::from_millis(harm.delay_ms),
            loss: Loss::Random(Chance::percent(harm.loss)),
            corruption: Chance::percent(harm.corruption),
            duplication: Chance::percent(harm.duplication),
            reordering: if harm.reordering > 0.0 { correlated } else { Chance::NEVER },
            ..Impairments::default()
        }
    }

    /// What the link holds in one round trip, for what waits; and once more, with the rules of netem, for what is delayed.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float becomes the nearest integer in range"
    )]
    fn queue_packets(&self) -> usize {
        let ways = if self.way == Way::Both { 2.0 } else { 1.0 };
        let round_trip_s = ways * self.row.harm.delay_ms as f64 / 1e3;
        // Without a rate nothing waits; what netem delays is limited by memory alone.
        let Some(rate) = self.rate else { return 1_000_000 };
        let product = rate as f64 * round_trip_s / FRAME_BYTES;
        let packets = match self.mode {
            Mode::True => product.max(QUEUE_PACKETS_MIN),
            Mode::Netem => (2.0 * product).max(NETEM_PACKETS_MIN),
        };
        (packets.ceil() as usize).min(1_000_000)
    }

    /// How long the link is down in the middle.
    pub(crate) fn outage(&self) -> Duration {
        Duration::from_secs(self.row.harm.outage_s.into())
    }

    /// The most that can arrive while the link is up, in bytes of content per second: the rate, without headers, without what the link loses and damages on the
    /// way that files take.
    pub(crate) fn ceiling(&self) -> Option<f64> {
        let harm = if self.way == Way::Ack { Harm::default() } else { self.row.harm };
        let arrives = (1.0 - harm.loss / 100.0) * (1.0 - harm.corruption / 100.0);
        self.rate.map(|rate| rate as f64 * HEADER_EFFICIENCY * arrives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str, way: Way, mode: Mode) -> Cell {
        let row = all().into_iter().find(|row| row.name == name).expect(name);
        Cell { row, way, mode, rate: Some(12_500_000) }
    }

    #[test]
    fn every_test_of_the_report_is_there_with_levels_on_both_sides_of_its_thresholds() {
        let rows = all();
        let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        for name in [
            "clean",
            "delay-200",
            "delay-800",
            "delay-1000",
            "loss-64",
            "loss-70",
            "corrupt-32",
            "corrupt-48",
            "reorder-16",
            "reorder-32",
            "duplicate-64",
            "window-128",
            "window-256",
            "window-2048",
            "files-threads-4",
            "files-threads-8",
            "files-delay-1000",
            "files-loss-24",
            "files-loss-32",
            "files-corrupt-24",
            "files-corrupt-32",
            "delay-100-loss-1",
        ] {
            assert!(names.contains(&name), "{name}");
        }
        assert!(SHORT.iter().all(|name| names.contains(name)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows.len(), "no two of one name");
    }

    #[test]
    fn all_rows_make_links_in_every_way_and_mode() {
        for row in all() {
            for way in [Way::Data, Way::Ack, Way::Both] {
                for mode in [Mode::True, Mode::Netem] {
                    for rate in [None, Some(12_500_000)] {
                        let settings = Cell { row: row.clone(), way, mode, rate }.settings(1, false);
                        settings.to_near.check().and(settings.to_far.check()).expect(&row.name);
                    }
                }
            }
        }
    }

    #[test]
    fn harm_is_done_the_way_that_was_asked_for() {
        let lost = |way| {
            let settings = cell("loss-8", way, Mode::True).settings(1, false);
            (settings.to_near.loss.share(), settings.to_far.loss.share())
        };
        assert_eq!([Way::Data, Way::Ack, Way::Both].map(lost), [(0.08, 0.0), (0.0, 0.08), (0.08, 0.08)]);
    }

    #[test]
    fn the_ceiling_is_what_the_link_lets_through() {
        let ceiling = |name, way| cell(name, way, Mode::True).ceiling().expect("a rate") * 8.0 / 1e6;
        assert!((ceiling("clean", Way::Data) - 95.64).abs() < 0.01);
        assert!((ceiling("loss-32", Way::Data) - 65.04).abs() < 0.01);
        assert!((ceiling("corrupt-32", Way::Both) - 65.04).abs() < 0.01);
        assert!((ceiling("loss-32", Way::Ack) - 95.64).abs() < 0.01, "nothing of the data is lost");
    }

    #[test]
    fn queues_hold_what_a_round_trip_does() {
        let queue = |name, way, mode| cell(name, way, mode).settings(1, false).to_near.queue.packets;
        assert_eq!(queue("clean", Way::Data, Mode::True), 100);
        assert_eq!(queue("delay-200", Way::Data, Mode::True), 1652);
        assert_eq!(queue("delay-200", Way::Both, Mode::True), 3303);
        assert_eq!(queue("delay-200", Way::Data, Mode::Netem), 3303);
        assert_eq!(queue("clean", Way::Data, Mode::Netem), 1000);
    }

    #[test]
    fn patterns_choose_rows_by_their_names() {
        for (pattern, name, is) in [
            ("loss-*", "loss-8", true),
            ("loss-*", "files-loss-8", false),
            ("*loss-?", "files-loss-8", true),
            ("*loss-?", "loss-16", false),
            ("*", "", true),
            ("", "x", false),
            ("clean", "clean", true),
            ("clea", "clean", false),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn cells_have_names_and_words() {
        let cell = cell("reorder-16", Way::Both, Mode::Netem);
        assert_eq!(cell.name(), "reorder-16.both.netem");
        assert_eq!(cell.words(), "delay 100 ms, reordering 16 % 50 %, of both ways, netem's rules");
    }
}
