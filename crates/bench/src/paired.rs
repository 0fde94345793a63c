//! What a second way of doing a thing costs beside a first one, done in turns: means, differences of pairs, slopes, each with its 95 % interval.
//!
//! Intervals are those of Student's t: runs are few, and their scatter is all that is known of what disturbs them. They take differences to be near
//! normal and independent; a machine that is busy with something else for half of the time breaks that, and the spread beside them shows it.
//! Proportions are compared by their logarithms, so that twice as fast and half as fast are equally far from no difference.

use serde::{Deserialize, Serialize};

/// Of ten runs report 002 leaves the two worst out: one in five.
const ONE_WORST_IN: usize = 5;
/// Two-sided 95 % points of Student's t for 1 to 10 degrees of freedom, where the series below is not good enough.
const T_95: [f64; 10] =
    [12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004, 2.262_157, 2.228_139];
/// The same of the normal distribution.
const Z_95: f64 = 1.959_964;

/// A value and what it may be, with 95 % certainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The best estimate.
    pub value: f64,
    /// The lower end; nothing where there are too few runs to say.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl Interval {
    fn around(value: f64, half: Option<f64>) -> Self {
        Self { value, low: half.map(|half| value - half), high: half.map(|half| value + half) }
    }

    fn map(self, with: impl Fn(f64) -> f64) -> Self {
        Self { value: with(self.value), low: self.low.map(&with), high: self.high.map(&with) }
    }

    /// Whether it is told from nothing.
    pub fn excludes_zero(&self) -> bool {
        matches!((self.low, self.high), (Some(low), Some(high)) if low > 0.0 || high < 0.0)
    }
}

/// The two-sided 95 % point of Student's t.
fn t_95(freedom: usize) -> Option<f64> {
    if freedom == 0 {
        return None;
    }
    Some(T_95.get(freedom - 1).copied().unwrap_or_else(|| {
        // Cornish and Fisher's series; from 11 on it is right to four digits.
        let (z, n) = (Z_95, freedom as f64);
        let first = (z.powi(3) + z) / 4.0;
        let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
        let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
        z + first / n + second / n.powi(2) + third / n.powi(3)
    }))
}

/// The mean of some values.
pub(crate) fn mean(values: &[f64]) -> Option<Interval> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let half = t_95(values.len().checked_sub(1)?).map(|t| t * (squares / (count - 1.0) / count).sqrt());
    Some(Interval::around(mean, half))
}

/// Pairs of which both are there.
fn pairs(first: &[Option<f64>], second: &[Option<f64>]) -> Vec<(f64, f64)> {
    first.iter().zip(second).filter_map(|(first, second)| Some(((*first)?, (*second)?))).collect()
}

/// How much greater the second of each pair is.
pub(crate) fn difference(first: &[Option<f64>], second: &[Option<f64>]) -> Option<Interval> {
    mean(&pairs(first, second).into_iter().map(|(first, second)| second - first).collect::<Vec<_>>())
}

/// How much greater the second of each pair is, in percent of the first. Pairs with a value that is not above 0 do not count.
pub(crate) fn change_percent(first: &[Option<f64>], second: &[Option<f64>]) -> Option<Interval> {
    let good = pairs(first, second).into_iter().filter(|(first, second)| *first > 0.0 && *second > 0.0);
    let logarithms: Vec<f64> = good.map(|(first, second)| (second / first).ln()).collect();
    Some(mean(&logarithms)?.map(|logarithm| logarithm.exp_m1() * 100.0))
}

/// Report 002's figure: the mean of what is left without the worst fifth, which is the mean of the best eight of ten.
pub(crate) fn mean_without_worst(values: &[f64], higher_is_better: bool) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if higher_is_better {
        sorted.reverse();
    }
    sorted.truncate(sorted.len() - sorted.len() / ONE_WORST_IN);
    (!sorted.is_empty()).then(|| sorted.iter().sum::<f64>() / sorted.len() as f64)
}

/// By how much values rise from each to the next: the line of least squares.
pub(crate) fn slope(values: &[f64]) -> Option<Interval> {
    let freedom = values.len().checked_sub(2)?;
    let count = values.len() as f64;
    let (middle, mean) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let points = || values.iter().enumerate().map(|(at, value)| (at as f64 - middle, value - mean));
    let spread: f64 = points().map(|(x, _)| x * x).sum();
    let slope = points().map(|(x, y)| x * y).sum::<f64>() / spread;
    let rest: f64 = points().map(|(x, y)| (y - slope * x).powi(2)).sum();
    Some(Interval::around(slope, t_95(freedom).map(|t| t * (rest / freedom as f64 / spread).sqrt())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, right: f64) {
        assert!((found - right).abs() < 2e-4 * right.abs().max(1.0), "{found} is not {right}");
    }

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn points_of_students_t_are_those_of_the_tables() {
        for (freedom, right) in
            [(1, 12.7062), (4, 2.7764), (10, 2.2281), (11, 2.2010), (19, 2.0930), (30, 2.0423), (120, 1.9799)]
        {
            near(t_95(freedom).expect("there is one"), right);
        }
        assert_eq!(t_95(0), None);
    }

    #[test]
    fn the_interval_of_a_mean_is_that_of_the_textbook() {
        // Mean 3, standard deviation 1.5811 over the root of 5, times 2.7764.
        let found = mean(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("five values");
        near(found.value, 3.0);
        near(found.low.expect("an end"), 1.0368);
        near(found.high.expect("an end"), 4.9632);
        assert!(found.excludes_zero());
        assert_eq!(mean(&[]), None);
        assert_eq!(
            mean(&[2.0]),
            Some(Interval { value: 2.0, low: None, high: None }),
            "one run says nothing of the scatter"
        );
    }

    #[test]
    fn differences_are_of_pairs_so_what_disturbs_both_alike_is_no_scatter() {
        let (first, second) = (some(&[10.0, 100.0, 50.0]), some(&[11.0, 101.0, 51.0]));
        let found = difference(&first, &second).expect("three pairs");
        assert_eq!((found.value, found.low, found.high), (1.0, Some(1.0), Some(1.0)));
        let found = change_percent(&some(&[10.0, 40.0]), &some(&[20.0, 80.0])).expect("two pairs");
        near(found.value, 100.0);
        near(found.high.expect("an end"), 100.0);
    }

    #[test]
    fn twice_and_half_cancel_out_and_a_run_that_failed_takes_its_pair_along() {
        let found = change_percent(&some(&[10.0, 10.0]), &some(&[20.0, 5.0])).expect("two pairs");
        near(found.value, 0.0);
        assert!(!found.excludes_zero());
        let found = difference(&[Some(1.0), None, Some(3.0)], &[Some(2.0), Some(9.0), None]).expect("one pair");
        assert_eq!((found.value, found.low), (1.0, None));
        assert_eq!(change_percent(&[Some(0.0)], &[Some(1.0)]), None);
    }

    #[test]
    fn the_two_worst_of_ten_are_left_out_and_none_of_four() {
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(mean_without_worst(&ten, true), Some(6.5), "the worst rates are the least");
        assert_eq!(mean_without_worst(&ten, false), Some(4.5), "the worst times are the greatest");
        assert_eq!(mean_without_worst(&[1.0, 2.0, 3.0, 6.0], true), Some(3.0));
        assert_eq!(mean_without_worst(&[], true), None);
    }

    #[test]
    fn a_slope_is_that_of_the_line_with_the_least_squares() {
        let found = slope(&[1.0, 3.0, 5.0, 7.0]).expect("four points");
        assert_eq!((found.value, found.low, found.high), (2.0, Some(2.0), Some(2.0)));
        // y = 2, 4, 5, 4, 5: slope 0.6; the rest's squares are 2.4, so the error is sqrt(2.4 / 3 / 10) = 0.28284, times 3.18245.
        let found = slope(&[2.0, 4.0, 5.0, 4.0, 5.0]).expect("five points");
        near(found.value, 0.6);
        near(found.low.expect("an end"), -0.30012);
        assert!(!found.excludes_zero());
        assert_eq!(slope(&[1.0]), None);
        assert_eq!(slope(&[1.0, 4.0]), Some(Interval { value: 3.0, low: None, high: None }));
    }
}
