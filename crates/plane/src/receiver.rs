//! The end that puts units together and says what it has.

use crate::fragments::Fragments;
use crate::frame::{Data, EPOCHS_MAX, EpochSum, FrameError, RANGES_MAX, Range, Report, WORDS_MAX};
use crate::paths::Paths;
use crate::{Shape, WINDOW_FIRST};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};

/// A report at least this often while data arrives: a queue that grows is known of early, and many reports tell of each datagram.
const REPORT_EVERY_US: u64 = 10_000;
/// And after so many datagrams, a quarter of those a report tells of.
const REPORT_DATAGRAMS: u32 = 1_024;
/// While nothing arrives, reports come ever more rarely up to this: the last one may have been lost.
const REPORT_QUIET_US: u64 = 1_000_000;

/// A unit all of which arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its number.
    pub number: u32,
    /// Its bytes.
    pub bytes: Bytes,
}

/// Puts units together.
#[derive(Debug)]
pub struct Receiver {
    shape: Shape,
    /// Units granted before any is taken.
    first_units: u32,
    partial: BTreeMap<u32, Partial>,
    /// Units from `done_below` on that are whole, and whether they are done.
    whole: BTreeMap<u32, bool>,
    done_below: u32,
    arrivals: Arrivals,
    epochs: VecDeque<Epoch>,
    needless: u64,
    number: u64,
    reported_us: u64,
    /// Until the next report if nothing new comes.
    quiet_us: u64,
    unreported: u32,
    news: bool,
}

/// A unit of which something is missing.
#[derive(Debug)]
struct Partial {
    bytes: BytesMut,
    fragments: Fragments,
}

/// Which of the last datagrams arrived, and when the newest did.
#[derive(Debug, Default)]
struct Arrivals {
    words: VecDeque<u64>,
    newest: Option<u64>,
    newest_sent: u32,
    newest_us: u64,
    count: u64,
    /// Receiver's time less sender's of the first datagram; delays are told less this.
    offset: Option<u32>,
    paths: Paths,
}

/// Sums over the datagrams of an epoch: `x` is when they were sent, `y` the time they took.
#[derive(Debug, Clone)]
struct Epoch {
    number: u16,
    /// Of the first that arrived.
    sent: u32,
    datagrams: u32,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
    /// The last that arrived.
    last_us: u64,
    last_sequence: u64,
    span_us: u64,
    distance: u64,
}

impl Receiver {
    /// One that has nothing, and grants [`WINDOW_FIRST`] units at first.
    pub fn new(shape: Shape, now_us: u64) -> Self {
        Self {
            shape,
            first_units: WINDOW_FIRST,
            partial: BTreeMap::new(),
            whole: BTreeMap::new(),
            done_below: 0,
            arrivals: Arrivals::default(),
            epochs: VecDeque::new(),
            needless: 0,
            number: 0,
            reported_us: now_us,
            quiet_us: REPORT_EVERY_US,
            unreported: 0,
            news: false,
        }
    }

    /// Grants all of the window from the beginning: to a sender that is trusted with the memory.
    #[must_use]
    pub fn trusting(self) -> Self {
        Self { first_units: self.shape.window_units, ..self }
    }

    /// Takes a datagram; the unit it completes, if it does.
    ///
    /// # Errors
    /// What no honest sender says: a unit beyond what was granted, too long, or of changing length.
    pub fn receive(&mut self, now_us: u64, data: &Data) -> Result<Option<Unit>, FrameError> {
        if data.is_filler() {
            return self.fill(now_us, data);
        }
        let (unit_bytes, at) = (data.unit_bytes as usize, usize::from(data.fragment));
        let fragments = self.shape.fragments(unit_bytes);
        let from = at * self.shape.fragment_bytes;
        if unit_bytes > self.shape.unit_bytes || at >= fragments {
            return Err(FrameError::Nonsense("that it is of a unit longer than there are"));
        }
        if data.bytes.len() != self.shape.fragment_bytes.min(unit_bytes - from) {
            return Err(FrameError::Length);
        }
        if data.unit >= self.granted() {
            return Err(FrameError::Nonsense("that it is of a unit nobody asked for"));
        }
        if !self.note(now_us, data) {
            return Ok(None);
        }
        if data.unit < self.done_below || self.whole.contains_key(&data.unit) {
            self.needless += 1;
            return Ok(None);
        }
        let partial = self
            .partial
            .entry(data.unit)
            .or_insert_with(|| Partial { bytes: BytesMut::zeroed(unit_bytes), fragments: Fragments::none(fragments) });
        if partial.bytes.len() != unit_bytes {
            return Err(FrameError::Nonsense("another length of the unit than before"));
        }
        if !partial.fragments.insert(at) {
            self.needless += 1;
            return Ok(None);
        }
        partial.bytes[from..from + data.bytes.len()].copy_from_slice(&data.bytes);
        if !partial.fragments.is_full() {
            return Ok(None);
        }
        let Some(partial) = self.partial.remove(&data.unit) else { return Ok(None) };
        self.whole.insert(data.unit, false);
        Ok(Some(Unit { number: data.unit, bytes: partial.bytes.freeze() }))
    }

    /// Of a filler only counts when it came.
    fn fill(&mut self, now_us: u64, data: &Data) -> Result<Option<Unit>, FrameError> {
        if data.bytes.len() > self.shape.fragment_bytes {
            return Err(FrameError::Length);
        }
        if self.note(now_us, data) {
            self.needless += 1;
        }
        Ok(None)
    }

    /// Notes that a datagram came; whether it is one that did not before.
    fn note(&mut self, now_us: u64, data: &Data) -> bool {
        if !self.arrivals.note(now_us, data) {
            return false;
        }
        self.note_epoch(now_us, data);
        self.unreported += 1;
        self.news = true;
        true
    }

    /// The unit need not be sent again, ever.
    pub fn done(&mut self, unit: u32) {
        if let Some(done) = self.whole.get_mut(&unit) {
            *done = true;
            self.news = true;
        }
        while self.whole.first_key_value() == Some((&self.done_below, &true)) {
            self.whole.pop_first();
            self.done_below += 1;
        }
    }

    /// Share of the last datagrams, some thousands, that did not arrive.
    pub fn missing(&self) -> f64 {
        let mut told = self.arrivals.words.iter().copied().collect::<Vec<u64>>();
        // What the last word lacks may not be sent yet.
        told.pop();
        let missing: u32 = told.iter().map(|word| word.count_zeros()).sum();
        f64::from(missing) / (64 * told.len()).max(1) as f64
    }

    /// When [`Self::report`] has one, if nothing comes before.
    pub fn report_at_us(&self) -> u64 {
        match (self.news, self.unreported) {
            (true, REPORT_DATAGRAMS..) => self.reported_us,
            (true, _) => self.reported_us + REPORT_EVERY_US,
            (false, _) => self.reported_us + self.quiet_us,
        }
    }

    /// A report, if it is time for one.
    pub fn report(&mut self, now_us: u64) -> Option<Report> {
        if now_us < self.report_at_us() {
            return None;
        }
        self.quiet_us = if self.news { REPORT_EVERY_US } else { (self.quiet_us * 2).min(REPORT_QUIET_US) };
        (self.news, self.unreported, self.reported_us) = (false, 0, now_us);
        self.number += 1;
        let arrivals = &self.arrivals;
        Some(Report {
            number: self.number,
            newest: arrivals.newest.unwrap_or(0),
            newest_sent: arrivals.newest_sent,
            held: u32::try_from(now_us - arrivals.newest_us.min(now_us)).unwrap_or(u32::MAX),
            arrived: arrivals.count,
            needless: self.needless,
            granted: self.granted(),
            done_below: self.done_below,
            words: arrivals.words.iter().copied().collect(),
            ranges: self.ranges(),
            epochs: self.epochs.iter().map(Epoch::sum).collect(),
        })
    }

    fn granted(&self) -> u32 {
        let window = self.first_units.saturating_add(self.done_below.saturating_mul(2)).min(self.shape.window_units);
        self.done_below.saturating_add(window)
    }

    fn ranges(&self) -> Vec<Range> {
        let mut ranges: Vec<Range> = Vec::new();
        for (unit, done) in &self.whole {
            // Never beyond the window, which fits.
            let first = u16::try_from(unit - self.done_below).unwrap_or(u16::MAX);
            match ranges.last_mut() {
                Some(last) if last.done == *done && last.first + last.units == first => last.units += 1,
                _ => ranges.push(Range { first, units: 1, done: *done }),
            }
        }
        ranges.truncate(RANGES_MAX);
        ranges
    }

    fn note_epoch(&mut self, now_us: u64, data: &Data) {
        let delay = self.arrivals.delay(now_us, data);
        if let Some(epoch) = self.epochs.iter_mut().rev().find(|epoch| epoch.number == data.epoch) {
            return epoch.note(now_us, data, delay);
        }
        // Datagrams overtake each other, and so do epochs.
        let older = |than: &Epoch| than.number.wrapping_sub(data.epoch) < 1 << 15;
        let at = self.epochs.iter().position(older).unwrap_or(self.epochs.len());
        if self.epochs.len() == EPOCHS_MAX {
            if at == 0 {
                return;
            }
            self.epochs.pop_front();
            self.epochs.insert(at - 1, Epoch::begin(now_us, data, delay));
        } else {
            self.epochs.insert(at, Epoch::begin(now_us, data, delay));
        }
    }
}

impl Arrivals {
    /// Notes that a datagram arrived; whether it is one that did not before (too old to tell counts as such).
    fn note(&mut self, now_us: u64, data: &Data) -> bool {
        let (word, bit) = (data.sequence / 64, 1_u64 << (data.sequence % 64));
        match self.newest {
            Some(newest) if newest >= data.sequence => {
                let back = usize::try_from(newest / 64 - word).unwrap_or(usize::MAX);
                let Some(word) = self.words.len().checked_sub(back + 1).and_then(|at| self.words.get_mut(at)) else {
                    return true;
                };
                if *word & bit != 0 {
                    return false;
                }
                *word |= bit;
            }
            newest => {
                let ahead = newest.map_or(word + 1, |newest| word - newest / 64);
                for _ in 0..ahead.min(WORDS_MAX as u64) {
                    if self.words.len() == WORDS_MAX {
                        self.words.pop_front();
                    }
                    self.words.push_back(0);
                }
                if let Some(last) = self.words.back_mut() {
                    *last |= bit;
                }
                self.newest = Some(data.sequence);
                (self.newest_sent, self.newest_us) = (data.sent, now_us);
            }
        }
        self.count += 1;
        true
    }

    /// The time a datagram took, in microseconds, less that of the first one, and less what a slower path costs.
    fn delay(&mut self, now_us: u64, data: &Data) -> i32 {
        #[allow(clippy::cast_possible_truncation, reason = "clocks are compared modulo 2^32")]
        let difference = (now_us as u32).wrapping_sub(data.sent);
        let delay = difference.wrapping_sub(*self.offset.get_or_insert(difference)).cast_signed();
        self.paths.level(delay, self.newest != Some(data.sequence))
    }
}

impl Epoch {
    fn begin(now_us: u64, data: &Data, delay: i32) -> Self {
        let mut epoch = Self {
            number: data.epoch,
            sent: data.sent,
            datagrams: 0,
            x: 0.0,
            y: 0.0,
            xx: 0.0,
            xy: 0.0,
            yy: 0.0,
            last_us: now_us,
            last_sequence: data.sequence,
            span_us: 0,
            distance: 0,
        };
        epoch.note(now_us, data, delay);
        epoch
    }

    fn note(&mut self, now_us: u64, data: &Data, delay: i32) {
        let (x, y) = (f64::from(data.sent.wrapping_sub(self.sent).cast_signed()), f64::from(delay));
        self.datagrams += 1;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
        self.yy += y * y;
        // From one that overtook to those it overtook is no time that the bottleneck took.
        if data.sequence > self.last_sequence {
            self.span_us += now_us - self.last_us.min(now_us);
            self.distance += data.sequence - self.last_sequence;
        }
        (self.last_us, self.last_sequence) = (now_us, data.sequence);
    }

    /// Least squares; with fewer than three datagrams the error is told as very large.
    fn sum(&self) -> EpochSum {
        let n = f64::from(self.datagrams);
        let (sxx, sxy, syy) =
            (self.xx - self.x * self.x / n, self.xy - self.x * self.y / n, self.yy - self.y * self.y / n);
        let slope = if sxx > 0.0 { sxy / sxx } else { 0.0 };
        let rest = (syy - slope * sxy).max(0.0);
        let error = if self.datagrams > 2 && sxx > 0.0 { (rest / (n - 2.0) / sxx).sqrt() } else { f64::from(u16::MAX) };
        #[allow(clippy::cast_possible_truncation, reason = "bounded by the times they come from")]
        EpochSum {
            epoch: self.number,
            datagrams: self.datagrams,
            delay: (self.y / n) as i32,
            slope: slope as f32,
            slope_error: error as f32,
            span: u32::try_from(self.span_us).unwrap_or(u32::MAX),
            distance: u32::try_from(self.distance).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { fragment_bytes: 100, window_units: 4, unit_bytes: 400 };

    fn data(sequence: u64, unit: u32, fragment: u16, unit_bytes: u32) -> Data {
        let bytes = (unit_bytes as usize - usize::from(fragment) * 100).min(100);
        let bytes = Bytes::from(vec![u8::try_from(fragment).expect("small"); bytes]);
        Data { sequence, sent: 0, epoch: 0, unit, unit_bytes, fragment, bytes }
    }

    #[test]
    fn a_unit_is_whole_once_whatever_comes_in_whatever_order() {
        let mut receiver = Receiver::new(SHAPE, 0);
        assert_eq!(receiver.receive(1, &data(5, 0, 1, 150)), Ok(None));
        assert_eq!(receiver.receive(1, &data(5, 0, 1, 150)), Ok(None), "the same datagram");
        assert_eq!(receiver.receive(1, &data(9, 0, 1, 150)), Ok(None), "the same fragment");
        let unit = receiver.receive(2, &data(3, 0, 0, 150)).expect("sound").expect("whole");
        assert_eq!((unit.bytes.len(), unit.bytes[99], unit.bytes[100]), (150, 0, 1));
        assert_eq!(receiver.receive(3, &data(10, 0, 0, 150)), Ok(None));
        let report = receiver.report(REPORT_EVERY_US).expect("due");
        assert_eq!((report.arrived, report.needless, report.newest), (4, 2, 10));
        assert_eq!(report.words, [1 << 3 | 1 << 5 | 1 << 9 | 1 << 10]);
        assert_eq!(report.ranges, [Range { first: 0, units: 1, done: false }]);
    }

    #[test]
    fn a_filler_is_told_of_and_is_part_of_nothing() {
        let mut receiver = Receiver::new(SHAPE, 0);
        let filler = |sequence, bytes| Data {
            unit: Data::FILLER,
            bytes: Bytes::from(vec![7; bytes]),
            unit_bytes: 0,
            ..data(sequence, 0, 0, 10)
        };
        for at in [0, 1, 1] {
            assert_eq!(receiver.receive(1, &filler(at, 100)), Ok(None));
        }
        assert_eq!(receiver.receive(1, &filler(2, 101)), Err(FrameError::Length));
        let report = receiver.report(REPORT_EVERY_US).expect("due");
        assert_eq!((report.arrived, report.needless, report.granted, report.epochs[0].datagrams), (2, 2, 4, 2));
        assert!(report.ranges.is_empty() && report.done_below == 0);
    }

    #[test]
    fn the_window_moves_with_what_is_done() {
        let mut receiver = Receiver::new(SHAPE, 0);
        assert!(receiver.receive(0, &data(0, 4, 0, 10)).is_err(), "beyond the window");
        for unit in [0, 1, 3] {
            assert!(receiver.receive(0, &data(u64::from(unit), unit, 0, 10)).expect("sound").is_some());
        }
        receiver.done(1);
        receiver.done(3);
        let report = receiver.report(REPORT_EVERY_US).expect("due");
        assert_eq!((report.done_below, report.granted, report.ranges.len()), (0, 4, 3));
        receiver.done(0);
        let report = receiver.report(2 * REPORT_EVERY_US).expect("due");
        assert_eq!((report.done_below, report.granted), (2, 6));
        assert_eq!(report.ranges, [Range { first: 1, units: 1, done: true }]);
        assert!(receiver.receive(0, &data(9, 4, 0, 10)).is_ok());
    }

    #[test]
    fn who_sends_what_is_never_whole_fills_no_more_than_the_first_window() {
        let mut receiver = Receiver::new(Shape { window_units: 1_024, ..SHAPE }, 0);
        let refused = (0..2_000).position(|unit| receiver.receive(0, &data(u64::from(unit), unit, 0, 400)).is_err());
        assert_eq!(refused, Some(WINDOW_FIRST as usize));
        assert!(receiver.receive(0, &data(9_999, 0, 0, 500)).is_err(), "longer than was agreed");
    }

    #[test]
    fn a_sender_that_is_trusted_has_all_of_the_window_at_once() {
        let mut receiver = Receiver::new(Shape { window_units: 1_024, ..SHAPE }, 0).trusting();
        let refused = (0..2_000).position(|unit| receiver.receive(0, &data(u64::from(unit), unit, 0, 400)).is_err());
        assert_eq!(refused, Some(1_024));
    }

    #[test]
    fn a_gap_in_numbers_longer_than_a_report_forgets_what_was_before() {
        let mut receiver = Receiver::new(SHAPE, 0);
        receiver.receive(0, &data(0, 0, 0, 400)).expect("sound");
        receiver.receive(0, &data(100_000, 0, 1, 400)).expect("sound");
        let report = receiver.report(REPORT_EVERY_US).expect("due");
        assert_eq!(report.words.len(), WORDS_MAX);
        assert_eq!(report.words.iter().map(|word| word.count_ones()).sum::<u32>(), 1);
    }

    #[test]
    fn a_queue_that_grows_has_a_slope_and_a_steady_one_has_none() {
        let mut receiver = Receiver::new(Shape { fragment_bytes: 100, window_units: 4_000, unit_bytes: 400 }, 0);
        for (epoch, stretch) in [(0_u16, 0.0), (1, 0.25)] {
            for at in 0..200_u32 {
                let sent = u32::from(epoch) * 200_000 + at * 1_000;
                let arrived =
                    u64::from(sent) + 5_000 + crate::whole(f64::from(at) * 1_000.0 * stretch) + u64::from(at % 3) * 300;
                let mut data = data(u64::from(epoch) * 200 + u64::from(at), u32::from(epoch) * 200 + at, 0, 10);
                (data.epoch, data.sent) = (epoch, sent);
                receiver.receive(arrived, &data).expect("sound");
                receiver.done(data.unit);
            }
        }
        let report = receiver.report(1_000_000).expect("due");
        let [steady, growing] = report.epochs[..] else { panic!("{report:?}") };
        assert!(steady.slope.abs() < 3.0 * steady.slope_error && steady.slope_error < 0.01, "{steady:?}");
        assert!((growing.slope - 0.25).abs() < 0.01, "{growing:?}");
        assert_eq!((growing.datagrams, growing.distance), (200, 199));
    }

    #[test]
    fn what_overtook_a_train_does_not_make_it_seem_long() {
        let mut receiver = Receiver::new(Shape { window_units: 1_024, ..SHAPE }, 0);
        let late = (0..32).filter(|at| at % 10 != 3).map(|at| (100_000 + 120 * at, at));
        for (now_us, sequence) in [(360, 3), (1_560, 13), (2_760, 23)].into_iter().chain(late) {
            let unit = u32::try_from(sequence).expect("small");
            receiver.receive(now_us, &data(sequence, unit, 0, 10)).expect("sound");
        }
        let train = receiver.report(1_000_000).expect("due").epochs[0];
        assert_eq!((train.datagrams, train.span, train.distance), (32, 51 * 120, 51), "{train:?}");
    }

    #[test]
    fn while_nothing_comes_reports_grow_rare_and_do_not_end() {
        let mut receiver = Receiver::new(SHAPE, 0);
        receiver.receive(0, &data(0, 0, 0, 10)).expect("sound");
        let mut times = Vec::new();
        while times.len() < 12 {
            let at = receiver.report_at_us();
            assert!(receiver.report(at - 1).is_none());
            receiver.report(at).expect("due");
            times.push(at);
        }
        assert_eq!(times[1] - times[0], REPORT_EVERY_US);
        assert_eq!(times[11] - times[10], REPORT_QUIET_US);
    }
}
