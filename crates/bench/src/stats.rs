//! Medians and spreads of a few runs, percentiles of many requests.
//!
//! A run's figure is one number, and there are few runs, so they are summed up by median, least and greatest: no
//! assumption about their distribution. Latencies of many requests go into an HDR histogram in microseconds with
//! three significant digits (error at most 0.1 %).

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Slowest latency kept apart, one hour; slower ones count as this.
const MAX_LATENCY_MICROS: u64 = 3_600_000_000;

/// Median, least and greatest of some runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// How many values there were.
    pub runs: usize,
}

impl Summary {
    /// Sums up `values`; `None` when there is none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        Some(Self { median, min, max, runs: sorted.len() })
    }
}

/// Percentiles of the latencies of many requests, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// How many requests there were, over all runs.
    pub requests: u64,
    /// Half of the requests took at most this long.
    pub p50_ms: f64,
    /// 90 % took at most this long.
    pub p90_ms: f64,
    /// 99 % took at most this long.
    pub p99_ms: f64,
    /// 99.9 % took at most this long.
    pub p999_ms: f64,
    /// The slowest.
    pub max_ms: f64,
}

/// Least, mean, greatest and standard deviation of many durations, exact to the microsecond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moments {
    count: u64,
    min_us: u64,
    max_us: u64,
    sum_us: u128,
    squares_us: u128,
}

impl Moments {
    pub(crate) fn record(&mut self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(MAX_LATENCY_MICROS).min(MAX_LATENCY_MICROS);
        self.min_us = if self.count == 0 { us } else { self.min_us.min(us) };
        self.max_us = self.max_us.max(us);
        self.count += 1;
        self.sum_us += u128::from(us);
        self.squares_us += u128::from(us) * u128::from(us);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_us = if self.count == 0 { other.min_us } else { self.min_us.min(other.min_us) };
        self.max_us = self.max_us.max(other.max_us);
        self.count += other.count;
        self.sum_us += other.sum_us;
        self.squares_us += other.squares_us;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// `None` when there is nothing to sum up.
    pub(crate) fn spread(&self) -> Option<Spread> {
        if self.count == 0 {
            return None;
        }
        let count = u128::from(self.count);
        // n·Σx² − (Σx)² in whole numbers: no cancellation. Both fit: an hour is 3.6e9 µs, and counts stay below 2^60.
        let variance = (count * self.squares_us - self.sum_us * self.sum_us) as f64 / (count * count) as f64;
        Some(Spread {
            min_ms: self.min_us as f64 / 1e3,
            avg_ms: self.sum_us as f64 / count as f64 / 1e3,
            max_ms: self.max_us as f64 / 1e3,
            dev_ms: variance.sqrt() / 1e3,
        })
    }
}

/// The four figures of latency that JMeter's summary has; the deviation is that of the population, as there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The fastest.
    pub min_ms: f64,
    /// The mean.
    pub avg_ms: f64,
    /// The slowest.
    pub max_ms: f64,
    /// The standard deviation.
    pub dev_ms: f64,
}

/// Collects latencies; those of several threads or runs can be added up.
#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_LATENCY_MICROS, 3);
        Self(histogram.expect("bounds and digits are constants the histogram accepts"))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(MAX_LATENCY_MICROS);
        self.0.saturating_record(micros.max(1));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// All of them in microseconds, and how often each.
    pub(crate) fn pairs(&self) -> Vec<(u64, u64)> {
        self.0.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }

    /// Adds what [`pairs`](Self::pairs) told.
    pub(crate) fn add_pairs(&mut self, pairs: &[(u64, u64)]) {
        for &(micros, count) in pairs {
            self.0.saturating_record_n(micros.max(1), count);
        }
    }

    pub(crate) fn median_ms(&self) -> f64 {
        self.quantile_ms(0.5)
    }

    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        (!self.0.is_empty()).then(|| Percentiles {
            requests: self.0.len(),
            p50_ms: self.quantile_ms(0.5),
            p90_ms: self.quantile_ms(0.9),
            p99_ms: self.quantile_ms(0.99),
            p999_ms: self.quantile_ms(0.999),
            max_ms: self.0.max() as f64 / 1e3,
        })
    }

    fn quantile_ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_count_is_the_middle_value() {
        let summary = Summary::of(&[3.0, 1.0, 2.0]).expect("three values");
        assert_eq!(summary, Summary { median: 2.0, min: 1.0, max: 3.0, runs: 3 });
    }

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle_two() {
        let summary = Summary::of(&[4.0, 1.0, 2.0, 3.0]).expect("four values");
        assert_eq!((summary.median, summary.runs), (2.5, 4));
    }

    #[test]
    fn no_values_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Latencies::new().percentiles(), None);
    }

    fn moments(micros: &[u64]) -> Moments {
        let mut moments = Moments::default();
        for &us in micros {
            moments.record(Duration::from_micros(us));
        }
        moments
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_textbook() {
        // The usual example: mean 5, population deviation 2.
        let spread = moments(&[2000, 4000, 4000, 4000, 5000, 5000, 7000, 9000]).spread().expect("eight values");
        assert_eq!(spread, Spread { min_ms: 2.0, avg_ms: 5.0, max_ms: 9.0, dev_ms: 2.0 });
        assert_eq!(moments(&[]).spread(), None);
        assert_eq!(moments(&[7]).spread().map(|spread| spread.dev_ms), Some(0.0));
    }

    #[test]
    fn a_small_deviation_on_a_large_mean_is_not_lost() {
        let hour = MAX_LATENCY_MICROS;
        let spread = moments(&[hour - 2, hour]).spread().expect("two values");
        assert!((spread.dev_ms - 0.001).abs() < 1e-12, "{spread:?}");
    }

    #[test]
    fn moments_of_threads_add_up_whoever_is_empty() {
        let mut sum = moments(&[]);
        sum.add(&moments(&[3, 1]));
        sum.add(&moments(&[]));
        sum.add(&moments(&[9]));
        assert_eq!((sum, sum.count()), (moments(&[3, 1, 9]), 3));
    }

    #[test]
    fn percentiles_are_exact_to_a_thousandth() {
        let mut latencies = Latencies::new();
        for micros in 1..=10_000 {
            latencies.record(Duration::from_micros(micros));
        }
        let found = latencies.percentiles().expect("ten thousand values");
        assert_eq!(found.requests, 10_000);
        for (found, right) in [(found.p50_ms, 5.0), (found.p90_ms, 9.0), (found.p99_ms, 9.9), (found.p999_ms, 9.99)] {
            assert!((found / right - 1.0).abs() < 0.002, "{found} is not {right}");
        }
    }

    #[test]
    fn histograms_of_threads_add_up() {
        let (mut one, mut two) = (Latencies::new(), Latencies::new());
        one.record(Duration::from_millis(1));
        two.record(Duration::from_hours(2)); // beyond the greatest value: kept as that
        one.add(&two);
        let found = one.percentiles().expect("two values");
        assert_eq!(found.requests, 2);
        assert!(found.max_ms >= 3_600_000.0);
    }
}
