//! Whether a link did what it was asked to do.
//!
//! Each rule's hits are held against Bernstein's bound for a sum of independent choices: for `n` choices of probability `p` the sum is farther than
//! `t` from `n p` with a probability of at most `2 exp(-t² / (2 n p (1 - p) + 2 t / 3))`. The bound is true for every `n` and `p`, small ones
//! included, unlike a multiple of the standard deviation. Where choices depend on each other, mean and variance come from a simulation of the same rule.

use crate::count::{Counters, Tally};
use crate::random::{Random, Rule};
use crate::settings::{Chance, Impairments, Loss, Mode};

/// ln(2 / 10^-9): one true link in a billion is called false.
const CONFIDENCE: f64 = 21.4;
/// Choices that are simulated, in blocks of which the variance is taken.
const BLOCKS: u32 = 1024;
const BLOCK_CHOICES: u32 = 1024;

/// A rule whose hits cannot be chance.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "the link's {rule} is not what was asked for: {hits} of {trials} packets, between {least:.0} and {most:.0} were possible"
)]
pub struct Mismatch {
    /// Which rule.
    pub rule: &'static str,
    /// What it did.
    pub hits: u64,
    /// For how many packets.
    pub trials: u64,
    /// The least it can do.
    pub least: f64,
    /// The most.
    pub most: f64,
}

/// What a rule does in the long run.
#[derive(Debug, Clone, Copy)]
struct Expected {
    /// Hits for each choice.
    mean: f64,
    /// Variance of a sum, for each choice.
    variance: f64,
    /// Choices that the two were found with; infinite when they are known.
    known_from: f64,
}

impl Expected {
    fn independent(probability: f64) -> Self {
        Self { mean: probability, variance: probability * (1.0 - probability), known_from: f64::INFINITY }
    }

    /// By trying, with a seed of its own: the long run must not depend on the link's.
    fn simulated(mut rule: Rule) -> Self {
        let blocks: Vec<f64> =
            (0..BLOCKS).map(|_| f64::from((0..BLOCK_CHOICES).map(|_| u32::from(rule.hits())).sum::<u32>())).collect();
        let mean = blocks.iter().sum::<f64>() / f64::from(BLOCKS);
        let variance = blocks.iter().map(|block| (block - mean).powi(2)).sum::<f64>() / f64::from(BLOCKS - 1);
        let choices = f64::from(BLOCK_CHOICES);
        // A rule that never hit may still do so.
        let variance = (variance / choices).max(1.0 / (choices * f64::from(BLOCKS)));
        Self { mean: mean / choices, variance, known_from: choices * f64::from(BLOCKS) }
    }

    fn of(chance: Chance, mode: Mode) -> Self {
        if chance.correlation > 0.0 {
            Self::simulated(Rule::new(chance, mode, Random::new(0, 0)))
        } else {
            Self::independent(chance.probability)
        }
    }

    fn of_loss(loss: Loss, mode: Mode) -> Self {
        match loss {
            Loss::Random(chance) => Self::of(chance, mode),
            Loss::Bursts { .. } => Self::simulated(Rule::of_loss(loss, mode, Random::new(0, 0))),
        }
    }

    /// The least and the most hits that can be chance.
    fn bounds(self, trials: u64) -> (f64, f64) {
        let n = trials as f64;
        // What is not known of the mean adds to what is not known of the sum.
        let variance = n * self.variance * (1.0 + n / self.known_from);
        // Choices that come together are as many fewer that are independent.
        let alone = self.mean * (1.0 - self.mean);
        let together = if alone > 0.0 { (self.variance / alone).max(1.0) } else { 1.0 };
        let third = CONFIDENCE / 3.0 * together;
        let reach = third + (third * third + 2.0 * CONFIDENCE * variance).sqrt();
        ((n * self.mean - reach).max(0.0), (n * self.mean + reach).min(n))
    }

    fn check(self, rule: &'static str, tally: Tally) -> Option<Mismatch> {
        let Tally { hits, trials } = tally;
        let (least, most) = self.bounds(trials);
        (!(least..=most).contains(&(hits as f64))).then_some(Mismatch { rule, hits, trials, least, most })
    }
}

/// Every rule of a direction that did what it cannot have done by chance: a run through such a link is worth nothing.
pub fn verify(impairments: &Impairments, counters: &Counters) -> Vec<Mismatch> {
    let mode = impairments.mode;
    let of = |chance| Expected::of(chance, mode);
    // With a gap, reordering is asked only where the gap allows it, so what is asked is what counts.
    [
        (Expected::of_loss(impairments.loss, mode), "loss", counters.loss),
        (of(impairments.corruption), "corruption", counters.corruption),
        (of(impairments.duplication), "duplication", counters.duplication),
        (of(impairments.reordering), "reordering", counters.reordering),
    ]
    .into_iter()
    .filter_map(|(expected, rule, tally)| expected.check(rule, tally))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(rule: &mut Rule, trials: u32) -> Tally {
        let mut tally = Tally::default();
        (0..trials).for_each(|_| {
            tally.count(rule.hits());
        });
        tally
    }

    #[test]
    fn what_rules_do_is_within_bounds_and_what_they_do_not_is_outside() {
        let correlated = Chance { probability: 0.3, correlation: 0.5 };
        for mode in [Mode::True, Mode::Netem] {
            for chance in [Chance::NEVER, Chance::percent(0.1), Chance::percent(8.0), Chance::percent(70.0), correlated]
            {
                for seed in 0..20 {
                    let found = tally(&mut Rule::new(chance, mode, Random::new(seed, 1)), 20_000);
                    assert_eq!(Expected::of(chance, mode).check("rule", found), None, "{mode:?} {chance:?}");
                }
                let more = Chance { probability: chance.probability + 0.05, ..chance };
                let found = tally(&mut Rule::new(more, mode, Random::new(1, 1)), 20_000);
                assert!(Expected::of(chance, mode).check("rule", found).is_some(), "{mode:?} {chance:?}");
            }
        }
    }

    #[test]
    fn bursts_are_judged_by_their_long_run() {
        let bursts = |in_bad| Loss::Bursts { to_bad: 0.01, to_good: 0.1, in_bad, in_good: 0.0 };
        let expected = Expected::of_loss(bursts(0.8), Mode::True);
        assert!((expected.mean - bursts(0.8).share()).abs() < 0.01 && expected.variance > 2.0 * expected.mean);
        for seed in 0..20 {
            let found = tally(&mut Rule::of_loss(bursts(0.8), Mode::True, Random::new(seed, 1)), 50_000);
            assert_eq!(expected.check("loss", found), None);
        }
        let found = tally(&mut Rule::of_loss(bursts(0.2), Mode::True, Random::new(1, 1)), 50_000);
        assert!(expected.check("loss", found).is_some());
    }

    #[test]
    fn few_packets_prove_nothing_and_impossible_hits_prove_everything() {
        let half = Expected::independent(0.5);
        assert_eq!(half.check("rule", Tally { trials: 8, hits: 0 }), None);
        let never = Expected::independent(0.0);
        assert!(never.bounds(1_000_000).0 <= 0.0);
        assert!(never.check("rule", Tally { trials: 1_000_000, hits: 100 }).is_some());
    }
}
