//! The seeded generator, and the rules that decide for one packet after another.

use crate::settings::{Chance, Loss, Mode};

/// `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): small, good enough for choices
/// that are counted, and the same on every machine and in every release of this program.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

/// 2^64 divided by the golden ratio, odd: the step of the generator's state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// The generator of one purpose: each rule of a link has its own, so that switching one rule on does not change what another does.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut start = Self(seed ^ purpose.wrapping_mul(STEP).rotate_left(32));
        let first = start.next_u64();
        Self(first ^ purpose)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// At least 0, below 1, in steps of 2^-53.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// At least 0, below `end`, which is not 0; the bias is below 2^-32 for what a packet has bits.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        u32::try_from((u64::from(self.next_u32()) * u64::from(end)) >> 32).unwrap_or(0)
    }
}

/// The kernel's correlated numbers (`get_crandom` in `net/sched/sch_netem.c`): each is a mean of a new one and the last, weighted by the
/// correlation. They are far from uniform, which is why a netem percentage with a correlation is not what comes out.
#[derive(Debug, Clone)]
pub(crate) struct Correlated {
    /// The correlation in units of 2^-32; 0 for none.
    rho: u32,
    last: u32,
    random: Random,
}

impl Correlated {
    pub(crate) fn new(correlation: f64, mut random: Random) -> Self {
        Self { rho: scaled(correlation), last: random.next_u32(), random }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the upper half of 64 bits")]
    pub(crate) fn next(&mut self) -> u32 {
        let new = u64::from(self.random.next_u32());
        if self.rho == 0 {
            return new as u32;
        }
        let rho = u64::from(self.rho) + 1;
        self.last = ((new * ((1 << 32) - rho) + u64::from(self.last) * rho) >> 32) as u32;
        self.last
    }
}

/// A fraction of 1 as the kernel has it, in units of 2^-32.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float becomes the nearest integer in range"
)]
fn scaled(fraction: f64) -> u32 {
    (fraction * f64::from(u32::MAX)).round() as u32
}

/// Decides for one packet after another whether a rule hits it.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    /// It is not in use, and no number is drawn.
    Never,
    /// As netem decides.
    Netem { threshold: u32, numbers: Correlated },
    /// With exactly this probability. A correlation makes a chain of two states of which the probability stays what it is: after a hit the
    /// next is one with `p + rho (1 - p)`, after none with `p (1 - rho)`.
    True { probability: f64, correlation: f64, last: bool, random: Random },
    /// Gilbert and Elliott's two states: in the bad one packets are lost with another probability than in the good one.
    Bursts { to_bad: f64, to_good: f64, in_bad: f64, in_good: f64, bad: bool, random: Random },
}

impl Rule {
    pub(crate) fn new(chance: Chance, mode: Mode, random: Random) -> Self {
        let Chance { probability, correlation } = chance;
        if probability <= 0.0 {
            return Self::Never;
        }
        match mode {
            Mode::Netem => {
                Self::Netem { threshold: scaled(probability), numbers: Correlated::new(correlation, random) }
            }
            Mode::True => {
                let mut random = random;
                // As if it had been going on for ever.
                let last = random.fraction() < probability;
                Self::True { probability, correlation, last, random }
            }
        }
    }

    pub(crate) fn of_loss(loss: Loss, mode: Mode, random: Random) -> Self {
        match loss {
            Loss::Random(chance) => Self::new(chance, mode, random),
            Loss::Bursts { to_bad, to_good, in_bad, in_good } => {
                Self::Bursts { to_bad, to_good, in_bad, in_good, bad: false, random }
            }
        }
    }

    /// Whether it hits the next packet.
    pub(crate) fn hits(&mut self) -> bool {
        match self {
            Self::Never => false,
            Self::Netem { threshold, numbers } => *threshold >= numbers.next(),
            Self::True { probability, correlation, last, random } => {
                let after = if *last { *correlation } else { 0.0 };
                *last = random.fraction() < *probability * (1.0 - *correlation) + after;
                *last
            }
            Self::Bursts { to_bad, to_good, in_bad, in_good, bad, random } => {
                // The kernel's order: first the state changes, then the packet is judged by the state it found.
                let found = *bad;
                let change = if found { *to_good } else { *to_bad };
                *bad ^= random.fraction() < change;
                random.fraction() < if found { *in_bad } else { *in_good }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hits in a million, and of those that follow a hit.
    fn rates(mut rule: Rule) -> (f64, f64) {
        let (mut hits, mut again, mut last) = (0_u32, 0_u32, false);
        for _ in 0..1_000_000 {
            let hit = rule.hits();
            hits += u32::from(hit);
            again += u32::from(hit && last);
            last = hit;
        }
        (f64::from(hits) / 1e6, f64::from(again) / f64::from(hits.max(1)))
    }

    fn correlated(percent: f64, mode: Mode) -> (f64, f64) {
        let chance = Chance { probability: percent / 100.0, correlation: 0.5 };
        rates(Rule::new(chance, mode, Random::new(7, 3)))
    }

    #[test]
    fn the_generator_gives_the_published_numbers() {
        let mut random = Random(1_234_567);
        let found: Vec<u64> = (0..5).map(|_| random.next_u64()).collect();
        let right = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ];
        assert_eq!(found[..4], right);
    }

    #[test]
    fn the_kernels_correlation_of_a_half_makes_rare_events_rarer_and_common_ones_commoner() {
        for (percent, realised, tolerance) in [
            (4.0, 0.0, 0.0005),
            (8.0, 0.0003, 0.0002),
            (16.0, 0.011, 0.002),
            (24.0, 0.06, 0.005),
            (32.0, 0.16, 0.01),
            (48.0, 0.46, 0.01),
            (64.0, 0.77, 0.01),
        ] {
            let (found, _) = correlated(percent, Mode::Netem);
            assert!((found - realised).abs() <= tolerance, "{percent} %: {found}");
        }
    }

    #[test]
    fn the_kernels_chosen_packets_follow_each_other_more_often_than_the_correlation_says() {
        for (percent, next) in [(16.0, 0.19), (32.0, 0.39), (64.0, 0.84)] {
            let (_, found) = correlated(percent, Mode::Netem);
            assert!((found - next).abs() < 0.03, "{percent} %: {found}");
        }
    }

    #[test]
    fn true_percentages_stay_what_they_are_under_correlation() {
        for percent in [0.1, 1.0, 8.0, 32.0, 64.0, 99.0] {
            let p = percent / 100.0;
            let (found, next) = correlated(percent, Mode::True);
            // Correlation of a half: a sum varies three times as much.
            let deviation = (3.0 * p * (1.0 - p) / 1e6).sqrt();
            assert!((found - p).abs() < 6.0 * deviation, "{percent} %: {found}");
            assert!((next - (p + 0.5 * (1.0 - p))).abs() < 0.05, "{percent} %: {next}");
        }
    }

    #[test]
    fn bursts_lose_what_their_states_say() {
        let loss = Loss::Bursts { to_bad: 0.01, to_good: 0.1, in_bad: 0.5, in_good: 0.001 };
        let (found, next) = rates(Rule::of_loss(loss, Mode::True, Random::new(7, 3)));
        let bad = 0.01 / 0.11;
        assert!((found - (bad * 0.5 + (1.0 - bad) * 0.001)).abs() < 0.003, "{found}");
        assert!(next > 0.4, "losses come together: {next}");
    }

    #[test]
    fn certain_and_impossible_rules_are() {
        for mode in [Mode::Netem, Mode::True] {
            assert!(rates(Rule::new(Chance::percent(100.0), mode, Random::new(1, 1))).0 >= 1.0);
            assert!(rates(Rule::new(Chance::NEVER, mode, Random::new(1, 1))).0 <= 0.0);
        }
    }
}
