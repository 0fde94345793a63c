//! What a link does to packets, in one direction.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What an Ethernet frame has besides the packet that a TUN device sees, without preamble and checksum: what netem counts as well.
pub(crate) const ETHERNET_BYTES: u32 = 14;
/// Longer delays are of no use, and what is on its way is held in memory.
const DELAY_MAX: Duration = Duration::from_mins(1);
/// The kernel draws a number of 32 bits of nanoseconds over twice the jitter.
const JITTER_MAX: Duration = Duration::from_secs(2);
/// Below this a packet takes hours, above it no user-space link can follow: 1 kB/s and 100 Gbit/s.
const RATE_RANGE: std::ops::RangeInclusive<u64> = 1_000..=12_500_000_000;
/// A million packets of full size are 1.5 GB.
const QUEUE_PACKETS_MAX: usize = 1_000_000;

/// Whose rules are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A queue and a rate, and behind them a wire that does the harm: percentages are what comes out, with correlation too; a lost packet
    /// has used the link, a doubled one uses it once, and one out of order saves the delay and nothing else.
    #[default]
    True,
    /// The kernel's netem: harm first, then one queue with delay and rate; correlation changes the percentages; a lost packet uses nothing,
    /// a copy is judged again and uses the rate, one out of order skips delay and rate.
    Netem,
}

/// How often something happens to a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Chance {
    /// From 0 (never) to 1.
    pub probability: f64,
    /// How much a packet shares the last one's fate: from 0 (not at all) to below 1. What that means depends on the [`Mode`].
    #[serde(default)]
    pub correlation: f64,
}

impl Chance {
    /// It does not happen.
    pub const NEVER: Self = Self { probability: 0.0, correlation: 0.0 };

    /// It happens to so many of a hundred, independently.
    pub fn percent(percent: f64) -> Self {
        Self { probability: percent / 100.0, correlation: 0.0 }
    }

    fn check(self, what: &'static str) -> Result<(), Invalid> {
        if (0.0..=1.0).contains(&self.probability) && (0.0..1.0).contains(&self.correlation) {
            Ok(())
        } else {
            Err(Invalid(format!("{what}: a probability is 0 to 1, a correlation below 1, not {self:?}")))
        }
    }
}

/// How packets are lost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// Each by chance.
    Random(Chance),
    /// In bursts (Gilbert and Elliott): two states, each with its own probability.
    Bursts {
        /// From the good state into the bad one, for each packet.
        to_bad: f64,
        /// And back.
        to_good: f64,
        /// Loss in the bad state.
        in_bad: f64,
        /// Loss in the good state.
        in_good: f64,
    },
}

impl Default for Loss {
    fn default() -> Self {
        Self::Random(Chance::NEVER)
    }
}

impl Loss {
    /// The share of packets that are lost in the long run, 0 to 1, where it is the same in both modes (without correlation).
    pub fn share(self) -> f64 {
        match self {
            Self::Random(chance) => chance.probability,
            Self::Bursts { to_bad, to_good, in_bad, in_good } => {
                let bad = if to_bad + to_good > 0.0 { to_bad / (to_bad + to_good) } else { 0.0 };
                bad * in_bad + (1.0 - bad) * in_good
            }
        }
    }
}

/// How much may wait; what comes on top is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Packets: with [`Mode::Netem`] all that are delayed or wait, with [`Mode::True`] those that wait for the rate.
    pub packets: usize,
    /// Bytes, [`Impairments::overhead_bytes`] included; with [`Mode::True`] only.
    pub bytes: Option<u64>,
}

impl Default for Queue {
    /// The kernel's default.
    fn default() -> Self {
        Self { packets: 1000, bytes: None }
    }
}

/// What a middle box in front of a link does to UDP, whatever the link does to packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Datagrams {
    /// Nothing.
    #[default]
    Pass,
    /// None gets through, and nobody is told.
    Drop,
    /// So many bytes a second get through, and the rest is dropped.
    Police(u64),
}

/// What a link does in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Impairments {
    /// Whose rules.
    pub mode: Mode,
    /// Bytes per second, `overhead_bytes` of each packet included; without one, as fast as it goes.
    pub rate: Option<u64>,
    /// Bytes that a packet takes on the link besides its own.
    pub overhead_bytes: u32,
    /// What may wait.
    pub queue: Queue,
    /// What every packet takes, besides its time at the rate.
    pub delay: Duration,
    /// Delays are spread evenly over the delay plus and minus this; packets overtake each other then, if there is no rate that stands against it.
    pub jitter: Duration,
    /// How much a packet's jitter is the last one's; with [`Mode::Netem`] only.
    pub jitter_correlation: f64,
    /// Packets that do not arrive.
    pub loss: Loss,
    /// Packets of which exactly one bit is flipped.
    pub corruption: Chance,
    /// Packets that arrive twice.
    pub duplication: Chance,
    /// Packets that skip the delay, and so overtake those before them.
    pub reordering: Chance,
    /// With reordering: at most one of so many packets skips the delay.
    pub gap: u32,
}

impl Default for Impairments {
    /// A perfect link.
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            rate: None,
            overhead_bytes: ETHERNET_BYTES,
            queue: Queue::default(),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            jitter_correlation: 0.0,
            loss: Loss::default(),
            corruption: Chance::NEVER,
            duplication: Chance::NEVER,
            reordering: Chance::NEVER,
            gap: 1,
        }
    }
}

/// Settings that make no link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such link: {0}")]
pub struct Invalid(pub String);

impl Impairments {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Invalid> {
        let invalid = |why: &str| Err(Invalid(why.to_owned()));
        match self.loss {
            Loss::Random(chance) => chance.check("loss")?,
            Loss::Bursts { to_bad, to_good, in_bad, in_good } => {
                for probability in [to_bad, to_good, in_bad, in_good] {
                    Chance { probability, correlation: 0.0 }.check("bursts of loss")?;
                }
            }
        }
        self.corruption.check("corruption")?;
        self.duplication.check("duplication")?;
        self.reordering.check("reordering")?;
        Chance { probability: 0.0, correlation: self.jitter_correlation }.check("jitter")?;
        if self.delay > DELAY_MAX || self.jitter > JITTER_MAX {
            return invalid("a delay is at most a minute, a jitter 2 seconds");
        }
        if self.rate.is_some_and(|rate| !RATE_RANGE.contains(&rate)) {
            return invalid("a rate is 1 kB/s to 12.5 GB/s");
        }
        if !(1..=QUEUE_PACKETS_MAX).contains(&self.queue.packets) {
            return invalid("a queue holds 1 to 1,000,000 packets");
        }
        if self.reordering.probability > 0.0 && (self.delay.is_zero() || self.gap == 0) {
            return invalid("reordering needs a delay that can be skipped, and a gap of at least 1");
        }
        if self.mode == Mode::Netem && self.queue.bytes.is_some() {
            return invalid("netem's queue is limited in packets");
        }
        if self.mode == Mode::True && self.jitter_correlation > 0.0 {
            return invalid("correlated jitter is netem's");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_a_meaning_are_refused() {
        let good = Impairments { delay: Duration::from_millis(1), ..Impairments::default() };
        assert_eq!(good.check(), Ok(()));
        let chance = |probability, correlation| Chance { probability, correlation };
        for (bad, why) in [
            (Impairments { loss: Loss::Random(chance(1.1, 0.0)), ..good }, "loss"),
            (Impairments { loss: Loss::Random(chance(f64::NAN, 0.0)), ..good }, "loss"),
            (
                Impairments { loss: Loss::Bursts { to_bad: -0.1, to_good: 0.5, in_bad: 1.0, in_good: 0.0 }, ..good },
                "bursts",
            ),
            (Impairments { corruption: chance(0.5, 1.0), ..good }, "corruption"),
            (Impairments { duplication: chance(-1.0, 0.0), ..good }, "duplication"),
            (Impairments { reordering: Chance::percent(1.0), delay: Duration::ZERO, ..good }, "reordering"),
            (Impairments { reordering: Chance::percent(1.0), gap: 0, ..good }, "gap"),
            (Impairments { rate: Some(10), ..good }, "rate"),
            (Impairments { delay: Duration::from_hours(1), ..good }, "delay"),
            (Impairments { queue: Queue { packets: 0, bytes: None }, ..good }, "queue"),
            (Impairments { queue: Queue { packets: 1, bytes: Some(1) }, mode: Mode::Netem, ..good }, "packets"),
            (Impairments { jitter_correlation: 0.5, ..good }, "jitter"),
        ] {
            let said = bad.check().expect_err(why).to_string();
            assert!(said.contains(why), "{why}: {said}");
        }
    }
}
