//! The time a user thinks before each request.

use std::str::FromStr;
use std::time::Duration;

use rand::{Rng, RngExt};

use crate::duration::{DURATION_MAX, duration_label, parse_duration};

/// How long a user thinks; drawn anew for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    /// Always as long.
    Constant(Duration),
    /// From `least` on, evenly up to `range` longer.
    Uniform {
        /// The shortest.
        least: Duration,
        /// The longest less the shortest.
        range: Duration,
    },
    /// Normally distributed; below zero counts as zero.
    Gaussian {
        /// The middle.
        mean: Duration,
        /// The standard deviation.
        deviation: Duration,
    },
}

impl Think {
    /// One drawing.
    pub(super) fn draw(self, random: &mut impl Rng) -> Duration {
        match self {
            Self::Constant(time) => time,
            Self::Uniform { least, range } => least + range.mul_f64(random.random::<f64>()),
            Self::Gaussian { mean, deviation } => {
                let seconds = mean.as_secs_f64() + deviation.as_secs_f64() * normal(random);
                Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default().min(DURATION_MAX)
            }
        }
    }

    /// In words.
    pub(super) fn label(self) -> String {
        match self {
            Self::Constant(time) => duration_label(time),
            Self::Uniform { least, range } => {
                format!("{} to {}, uniform", duration_label(least), duration_label(least + range))
            }
            Self::Gaussian { mean, deviation } => {
                format!("{} ± {}, gaussian", duration_label(mean), duration_label(deviation))
            }
        }
    }

    /// The longest of its parts: limits are checked on it.
    pub(super) fn greatest_part(self) -> Duration {
        match self {
            Self::Constant(time) => time,
            Self::Uniform { least: one, range: two } | Self::Gaussian { mean: one, deviation: two } => one.max(two),
        }
    }
}

/// A standard normal number: the first of a pair after Box and Muller (1958).
fn normal(random: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt(); // 1 − [0, 1) is never 0.
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

impl FromStr for Think {
    type Err = String;

    /// `200ms`, `uniform:100ms,300ms` (shortest, longest), `gaussian:300ms,50ms` (mean, deviation).
    fn from_str(text: &str) -> Result<Self, String> {
        let pair = |rest: &str| {
            let (one, two) = rest.split_once(',').ok_or_else(|| format!("{text:?} needs two durations"))?;
            Ok::<_, String>((parse_duration(one)?, parse_duration(two)?))
        };
        match text.split_once(':') {
            None => parse_duration(text).map(Self::Constant),
            Some(("constant", rest)) => parse_duration(rest).map(Self::Constant),
            Some(("uniform", rest)) => {
                let (least, most) = pair(rest)?;
                let range = most.checked_sub(least).ok_or_else(|| format!("{text:?}: the second is the longest"))?;
                Ok(Self::Uniform { least, range })
            }
            Some(("gaussian", rest)) => {
                let (mean, deviation) = pair(rest)?;
                Ok(Self::Gaussian { mean, deviation })
            }
            Some((other, _)) => Err(format!("unknown kind {other:?}; there are constant, uniform and gaussian")),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::stats::{Moments, Spread};

    fn draw_many(text: &str) -> Spread {
        let think: Think = text.parse().expect("a think time");
        let mut random = StdRng::seed_from_u64(7);
        let mut moments = Moments::default();
        (0..20_000).for_each(|_| moments.record(think.draw(&mut random)));
        moments.spread().expect("many")
    }

    #[test]
    fn a_uniform_time_has_the_mean_and_deviation_of_its_range() {
        let spread = draw_many("uniform:100ms,300ms");
        assert!(spread.min_ms >= 100.0 && spread.max_ms < 300.0, "{spread:?}");
        assert!(
            (spread.avg_ms - 200.0).abs() < 2.0 && (spread.dev_ms - 200.0 / 12_f64.sqrt()).abs() < 1.0,
            "{spread:?}"
        );
    }

    #[test]
    fn a_gaussian_time_has_its_mean_and_deviation_and_is_never_negative() {
        let spread = draw_many("gaussian:300ms,50ms");
        assert!((spread.avg_ms - 300.0).abs() < 2.0 && (spread.dev_ms - 50.0).abs() < 1.0, "{spread:?}");
        assert!(draw_many("gaussian:1ms,100ms").min_ms.abs() < f64::EPSILON);
    }

    #[test]
    fn the_same_seed_thinks_the_same_times() {
        let think = Think::Uniform { least: Duration::ZERO, range: Duration::from_secs(1) };
        let draw = |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            (0..10).map(|_| think.draw(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn what_is_no_think_time_is_refused() {
        for text in ["", "x", "uniform:1s", "uniform:2s,1s", "gaussian:1s,x", "poisson:1s"] {
            assert!(text.parse::<Think>().is_err(), "{text:?}");
        }
    }
}
