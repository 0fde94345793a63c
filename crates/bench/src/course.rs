//! What happened when: counts and coarse latencies in pieces of time.
//!
//! Memory is bounded whatever the length of a run: when there would be more than [`PIECES_MAX`] pieces, neighbours are put
//! together and pieces become twice as long.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::report::{Course, CoursePoint};

/// Length of a piece at first.
const PIECE: Duration = Duration::from_millis(250);
/// More points than a chart 860 pixels wide can show apart are of no use.
const PIECES_MAX: usize = 240;
/// Slowest latency kept apart; slower ones count as this.
const MAX_MICROS: u64 = 3_600_000_000;
/// Error at most 1 %: a chart shows no more.
const DIGITS: u8 = 2;

#[derive(Debug, Clone, Default)]
struct Piece {
    good: u64,
    failed: u64,
    /// Made when the first answer comes: an idle piece costs nothing.
    latencies: Option<Histogram<u32>>,
}

impl Piece {
    fn add(&mut self, other: &Self) {
        self.good += other.good;
        self.failed += other.failed;
        if let Some(latencies) = &other.latencies {
            self.histogram().add(latencies).expect("all histograms have the same bounds");
        }
    }

    fn histogram(&mut self) -> &mut Histogram<u32> {
        self.latencies.get_or_insert_with(|| {
            Histogram::new_with_bounds(1, MAX_MICROS, DIGITS).expect("constants the histogram accepts")
        })
    }

    fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        self.latencies.as_ref().map(|latencies| latencies.value_at_quantile(quantile) as f64 / 1e3)
    }
}

/// The course of one run as one thread saw it; those of several can be added up.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    piece: Duration,
    pieces: Vec<Piece>,
}

/// A course as one process tells it to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    piece_ms: u64,
    pieces: Vec<ToldPiece>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ToldPiece {
    good: u64,
    failed: u64,
    /// Microseconds, and how often.
    latencies: Vec<(u64, u32)>,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Self { piece: PIECE, pieces: Vec::new() }
    }

    pub(crate) fn tell(&self) -> Told {
        let latencies = |histogram: &Histogram<u32>| {
            histogram.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
        };
        let pieces = self.pieces.iter().map(|piece| ToldPiece {
            good: piece.good,
            failed: piece.failed,
            latencies: piece.latencies.as_ref().map(latencies).unwrap_or_default(),
        });
        let piece_ms = u64::try_from(self.piece.as_millis()).unwrap_or(u64::MAX);
        Told { piece_ms, pieces: pieces.collect() }
    }

    /// Takes what another process told; anything may stand in it.
    pub(crate) fn hear(told: &Told) -> Self {
        let mut timeline = Self::new();
        for (index, piece) in told.pieces.iter().take(PIECES_MAX).enumerate() {
            let at = Duration::from_millis(told.piece_ms.saturating_mul(index as u64));
            let own = timeline.piece_at(at.min(Duration::from_hours(10_000)));
            own.good += piece.good;
            own.failed += piece.failed;
            for &(micros, count) in &piece.latencies {
                own.histogram().saturating_record_n(micros.max(1), count);
            }
        }
        timeline
    }

    /// A good answer that ended `at` after the begin of the run.
    pub(crate) fn good(&mut self, at: Duration, latency: Duration) {
        let piece = self.piece_at(at);
        piece.good += 1;
        let micros = u64::try_from(latency.as_micros()).unwrap_or(MAX_MICROS);
        piece.histogram().saturating_record(micros.max(1));
    }

    /// A failure that ended `at` after the begin of the run.
    pub(crate) fn failed(&mut self, at: Duration) {
        self.piece_at(at).failed += 1;
    }

    fn piece_at(&mut self, at: Duration) -> &mut Piece {
        let index = |piece: Duration| usize::try_from(at.as_nanos() / piece.as_nanos()).unwrap_or(usize::MAX);
        while index(self.piece) >= PIECES_MAX {
            self.double();
        }
        let index = index(self.piece);
        if index >= self.pieces.len() {
            self.pieces.resize_with(index + 1, Piece::default);
        }
        &mut self.pieces[index]
    }

    fn double(&mut self) {
        self.piece *= 2;
        let halves = std::mem::take(&mut self.pieces);
        self.pieces = halves
            .chunks(2)
            .map(|pair| {
                let mut sum = pair[0].clone();
                pair.get(1).inspect(|second| sum.add(second));
                sum
            })
            .collect();
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.piece < other.piece {
            self.double();
        }
        while other.piece < self.piece {
            other.double();
        }
        if self.pieces.len() < other.pieces.len() {
            self.pieces.resize_with(other.pieces.len(), Piece::default);
        }
        self.pieces.iter_mut().zip(&other.pieces).for_each(|(sum, piece)| sum.add(piece));
    }

    /// As rates, for a run that took `whole`.
    pub(crate) fn finish(&self, whole: Duration) -> Course {
        let piece_s = self.piece.as_secs_f64();
        let point = |(index, piece): (usize, &Piece)| {
            let at_s = index as f64 * piece_s;
            // The last piece is over when the run is; a very short rest would make a rate of nothing.
            let length_s = (whole.as_secs_f64() - at_s).clamp(piece_s / 10.0, piece_s);
            CoursePoint {
                at_s,
                rate: piece.good as f64 / length_s,
                errors_per_s: piece.failed as f64 / length_s,
                p50_ms: piece.quantile_ms(0.5),
                p99_ms: piece.quantile_ms(0.99),
            }
        };
        Course { piece_s, points: self.pieces.iter().enumerate().map(point).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn rates_are_per_second_and_the_last_piece_counts_as_long_as_it_was() {
        let mut timeline = Timeline::new();
        (0..10).for_each(|index| timeline.good(index * 10 * MS, 4 * MS));
        timeline.failed(300 * MS);
        let course = timeline.finish(375 * MS);
        assert_eq!(course.points.len(), 2);
        assert!((course.points[0].rate - 40.0).abs() < 1e-9, "ten in a quarter of a second");
        assert!((course.points[1].errors_per_s - 8.0).abs() < 1e-9, "one in 125 ms");
        assert!((course.points[0].p50_ms.expect("ten answers") - 4.0).abs() < 0.05);
        assert_eq!(course.points[1].p99_ms, None);
    }

    #[test]
    fn a_long_run_has_no_more_pieces_than_a_short_one_and_loses_nothing() {
        let mut timeline = Timeline::new();
        let hour = Duration::from_hours(1);
        for second in 0..3600 {
            timeline.good(Duration::from_secs(second), MS);
        }
        let course = timeline.finish(hour);
        assert!((PIECES_MAX / 2..=PIECES_MAX).contains(&course.points.len()), "{}", course.points.len());
        let sum: f64 = course.points.iter().map(|point| point.rate * course.piece_s).sum();
        assert!((sum - 3600.0).abs() < 3600.0 * 0.01, "{sum}");
    }

    #[test]
    fn a_course_survives_being_told() {
        let mut timeline = Timeline::new();
        for second in 0..200 {
            timeline.good(Duration::from_secs(second), 3 * MS);
        }
        timeline.failed(MS);
        let heard = Timeline::hear(&timeline.tell());
        assert_eq!(heard.finish(Duration::from_secs(200)), timeline.finish(Duration::from_secs(200)));
    }

    #[test]
    fn threads_with_pieces_of_different_length_add_up() {
        let (mut short, mut long) = (Timeline::new(), Timeline::new());
        short.good(MS, MS);
        long.good(MS, MS);
        long.good(Duration::from_secs(100), MS);
        for (mut one, two) in [(short.clone(), &long), (long.clone(), &short)] {
            one.add(two);
            let course = one.finish(Duration::from_secs(101));
            assert!((course.points[0].rate * course.piece_s - 2.0).abs() < 1e-9);
            assert_eq!(course.points.len(), 201, "of half a second");
        }
    }
}
