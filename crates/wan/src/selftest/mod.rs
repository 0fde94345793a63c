//! The emulator under test by itself: what arrives over a real link must be what the link says it did, and what it was asked to do.
//!
//! Every rule of both modes is switched on alone, numbered datagrams with sums are sent through, and three accounts are compared: what was
//! asked for, the link's own counters, and what a socket and the kernel at the other end saw.

mod flood;

use std::fmt::Display;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::count::Tally;
use crate::expect::verify;
use crate::host::WanError;
use crate::settings::{Chance, Impairments, Loss, Mode, Queue};
use crate::wan::{Direction, Wan, WanSettings};
use flood::{PACKET_BYTES, Seen, flood};

/// Five thousand packets a second: far from what a link can forward, so that nothing is lost that was not to be.
const INTERVAL: Duration = Duration::from_micros(200);
const DELAY: Duration = Duration::from_millis(50);
/// 50 Mbit/s.
const RATE: u64 = 6_250_000;
/// A flipped bit can make an IPv4 packet one of IPv6, which nobody counts, or a datagram one without a checksum: one in ten thousand each.
const UNCOUNTED: u64 = 3;
/// How far from the asked delay the median may be, and how far from the asked rate what arrives.
const DELAY_TOLERANCE_MS: f64 = 1.0;
const RATE_TOLERANCE: f64 = 0.01;

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was compared.
    pub what: String,
    /// What it should be.
    pub wanted: String,
    /// What it is.
    pub found: String,
    /// Whether that is the same.
    pub good: bool,
}

/// All comparisons.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfTest {
    /// In the order in which they were made.
    pub findings: Vec<Finding>,
}

impl SelfTest {
    /// Whether all are good.
    pub fn good(&self) -> bool {
        self.findings.iter().all(|finding| finding.good)
    }

    fn note(&mut self, what: String, wanted: &dyn Display, found: &dyn Display, good: bool) {
        self.findings.push(Finding { what, wanted: wanted.to_string(), found: found.to_string(), good });
    }

    fn same(&mut self, what: String, wanted: u64, found: u64) {
        self.note(what, &wanted, &found, wanted == found);
    }
}

/// Tests everything with so many packets each; a thousand say something, ten thousand more. [`prepare`](crate::prepare) must have been called.
pub fn self_test(packets: u32, seed: u64) -> Result<SelfTest, WanError> {
    let mut test = Test { packets, seed, found: SelfTest::default() };
    for mode in [Mode::True, Mode::Netem] {
        test.loss(mode)?;
        test.corruption(mode)?;
        test.duplication(mode)?;
        test.reordering(mode)?;
        test.delay(mode)?;
        test.rate(mode)?;
    }
    Ok(test.found)
}

struct Test {
    packets: u32,
    seed: u64,
    found: SelfTest,
}

/// A flood that is over, with the link that it went over still there.
struct Flooded {
    seen: Seen,
    wan: Wan,
    name: String,
}

impl Test {
    /// Sends a flood over a link that does only this, and compares what must be right for every link.
    fn flood(&mut self, name: &str, to_near: Impairments, interval: Duration) -> Result<Flooded, WanError> {
        let wan = Wan::start(&WanSettings { to_near, seed: self.seed, ..WanSettings::default() })?;
        let seen = flood(&wan, self.packets, interval)?;
        let name = format!("{name}, {} mode", if to_near.mode == Mode::True { "true" } else { "netem" });
        let link = wan.forwarded(Direction::ToNear).link;
        let unread = wan.unread().map_err(|why| WanError::Io { what: "cannot read the device's counters", why })?;
        let sent = link.offered.packets + unread;
        self.found.same(format!("{name}: datagrams sent that the link saw"), u64::from(self.packets), sent);
        self.found.same(format!("{name}: damaged datagrams that a socket got"), 0, seen.damaged);
        for mismatch in verify(&to_near, &link) {
            self.found.note(format!("{name}: chance"), &"possible", &mismatch, false);
        }
        Ok(Flooded { seen, wan, name })
    }

    fn link(mode: Mode) -> Impairments {
        // With netem's rules all that is delayed is in the queue.
        Impairments { mode, queue: Queue { packets: 100_000, bytes: None }, ..Impairments::default() }
    }

    fn share(&mut self, name: &str, asked: &str, tally: Tally) {
        // The bounds were looked at by `verify`; this says what it came to.
        self.found.note(
            format!("{name}: packets chosen"),
            &asked,
            &format!("{:.2} % of {}", tally.percent(), tally.trials),
            true,
        );
    }

    fn loss(&mut self, mode: Mode) -> Result<(), WanError> {
        let to_near = Impairments { loss: Loss::Random(Chance::percent(8.0)), ..Self::link(mode) };
        let Flooded { seen, wan, name } = self.flood("loss", to_near, INTERVAL)?;
        let link = wan.forwarded(Direction::ToNear).link;
        self.share(&name, "8 %", link.loss);
        self.found.same(format!("{name}: datagrams missing"), link.loss.hits, u64::from(self.packets) - seen.different);
        Ok(())
    }

    fn corruption(&mut self, mode: Mode) -> Result<(), WanError> {
        let to_near = Impairments { corruption: Chance::percent(8.0), ..Self::link(mode) };
        let Flooded { seen, wan, name } = self.flood("corruption", to_near, INTERVAL)?;
        let forwarded = wan.forwarded(Direction::ToNear);
        let chosen = forwarded.link.corruption;
        self.share(&name, "8 %", chosen);
        self.found.same(format!("{name}: datagrams missing"), chosen.hits, u64::from(self.packets) - seen.different);
        let counter = |protocol, counter| {
            wan.near()
                .counter(protocol, counter)
                .map_err(|why| WanError::Io { what: "cannot read the kernel's counters", why })
        };
        let (header, datagram) = (counter("Ip", "InHdrErrors")?, counter("Udp", "InCsumErrors")?);
        let refused = header + datagram + forwarded.refused;
        let found = format!("{refused}: {datagram} datagrams, {header} headers, {} no packets", forwarded.refused);
        let good = chosen.hits.abs_diff(refused) <= UNCOUNTED;
        self.found.note(format!("{name}: errors that the kernel found"), &chosen.hits, &found, good);
        Ok(())
    }

    fn duplication(&mut self, mode: Mode) -> Result<(), WanError> {
        let to_near = Impairments { duplication: Chance::percent(8.0), ..Self::link(mode) };
        let Flooded { seen, wan, name } = self.flood("duplication", to_near, INTERVAL)?;
        let link = wan.forwarded(Direction::ToNear).link;
        self.share(&name, "8 %", link.duplication);
        self.found.same(format!("{name}: datagrams that came again"), link.duplication.hits, seen.again);
        Ok(())
    }

    /// With the report's correlation: 32 % are 32 % in one mode and about 16 % in the other.
    fn reordering(&mut self, mode: Mode) -> Result<(), WanError> {
        let reordering = Chance { probability: 0.32, correlation: 0.5 };
        let to_near = Impairments { reordering, delay: DELAY, ..Self::link(mode) };
        let Flooded { seen, wan, name } = self.flood("reordering", to_near, INTERVAL)?;
        let link = wan.forwarded(Direction::ToNear).link;
        self.share(
            &name,
            if mode == Mode::True { "32 % 50 %" } else { "32 % 50 %, which is about 16 %" },
            link.reordering,
        );
        let half = u64::try_from(DELAY.as_nanos() / 2).unwrap_or(0);
        let early = seen.delays.iter().filter(|delay| **delay < half).count() as u64;
        self.found.same(format!("{name}: datagrams that skipped the delay"), link.reordering.hits, early);
        Ok(())
    }

    fn delay(&mut self, mode: Mode) -> Result<(), WanError> {
        let to_near = Impairments { delay: DELAY, ..Self::link(mode) };
        let Flooded { seen, name, .. } = self.flood("delay", to_near, INTERVAL)?;
        let ms = |share| seen.delay(share) as f64 / 1e6;
        let asked = DELAY.as_secs_f64() * 1e3;
        let found = format!("{:.3} ms, 1st to 99th percentile {:.3} to {:.3} ms", ms(0.5), ms(0.01), ms(0.99));
        let good = (ms(0.5) - asked).abs() <= DELAY_TOLERANCE_MS && ms(0.0) >= asked;
        self.found.note(format!("{name}: median delay"), &format!("{asked} ms"), &found, good);
        Ok(())
    }

    /// Half as much again as the rate is offered; the queue is long enough for all of it.
    fn rate(&mut self, mode: Mode) -> Result<(), WanError> {
        let to_near = Impairments { rate: Some(RATE), ..Self::link(mode) };
        let bytes = PACKET_BYTES as f64 + f64::from(to_near.overhead_bytes);
        let interval = Duration::from_secs_f64(bytes / RATE as f64 / 1.5);
        let Flooded { seen, name, .. } = self.flood("rate", to_near, interval)?;
        let arrived = seen.delays.len().saturating_sub(1) as f64 * bytes / (seen.span.max(1) as f64 / 1e9);
        let mbit = |rate: f64| format!("{:.2} Mbit/s", rate * 8.0 / 1e6);
        let good = (arrived / RATE as f64 - 1.0).abs() <= RATE_TOLERANCE;
        self.found.note(format!("{name}: rate"), &mbit(RATE as f64), &mbit(arrived), good);
        Ok(())
    }
}
