//! The end that has units, and decides which fragment goes next and when.

mod echo;
#[cfg(test)]
mod lies;

use crate::epochs::Epochs;
use crate::flights::{Fate, Flight, Flights};
use crate::fragments::Fragments;
use crate::frame::{DATA_HEADER_BYTES, Data, EPOCHS_MAX, FrameError, Report};
use crate::rate::Rate;
use crate::trip::Trip;
use crate::{Shape, whole};
use bytes::Bytes;
use echo::Echo;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Datagrams sent back to back at the beginning, whose distance on arrival tells what the bottleneck passes.
const TRAIN_DATAGRAMS: u32 = 32;
/// Until it is known what became of a train or of what was sent after it, no more is out than this: nobody knows yet how fast it goes, and how long the queue is.
const UNJUDGED_DATAGRAMS: u64 = TRAIN_DATAGRAMS as u64 + 8;
/// Fillers at most, if the first of their trains was broken into.
const FILLERS_MAX: u32 = 2 * TRAIN_DATAGRAMS;
/// Where a round trip is shorter, knowing the bottleneck before there is content saves nothing that anybody feels.
const FILL_ROUND_US: u64 = 50_000;
/// Nothing was put in for so long before a train is filled: answers come first, which may be long on a slow link.
const FILL_AFTER_US: u64 = 10_000;
/// A train of which less arrived tells nothing.
const TRAIN_ARRIVED_MIN: u32 = 8;
/// A timer that is late is made up for by sending back to back for this long at most.
const BURST_US: f64 = 2_000.0;
/// Without any report for this long and two round trips, the link is held to be down.
const SILENCE_US: u64 = 300_000;
/// The share of loss is that of so long.
const LOSS_OVER_US: u64 = 2_000_000;
/// Looked at so often.
const LOSS_EVERY_US: u64 = 100_000;
/// Of what waits to be sent, so much is taken in any case: what passes between two questions for more.
const AHEAD_BYTES_MIN: usize = 16 << 10;
/// What is taken ahead is so many units.
const UNITS_AHEAD: usize = 4;
/// Epochs in which the last is overtaken at most: half of those of a report, so that some may be cut short.
const EPOCHS_TO_OVERTAKE: f64 = EPOCHS_MAX as f64 / 2.0;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Poll {
    /// Send this, now.
    Send(Data),
    /// Ask again at this time, or when a report comes.
    Wait(u64),
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The receiver has the unit for good.
    Done(u32),
}

/// What a sender has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Statistics {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams the receiver has.
    pub arrived: u64,
    /// Of those, with what it had.
    pub needless: u64,
    /// Share of what was sent lately that did not arrive.
    pub loss: f64,
    /// Share of what the other end sent that did not arrive.
    pub loss_in: f64,
    /// Least round trip, in microseconds.
    pub rtt_us: f64,
    /// Time in the link's queue, in microseconds.
    pub queue_us: f64,
    /// Bytes a second at which it sends, headers of all layers included.
    pub rate: f64,
    /// Bytes that a unit had better have at most: what is put in next does not wait for long then.
    pub unit_bytes: usize,
    /// Bytes of units that the receiver has for good.
    pub done_bytes: u64,
    /// Whether the receiver has all there is for good.
    pub idle: bool,
}

/// Sends units.
#[derive(Debug)]
pub struct Sender {
    shape: Shape,
    /// Bytes a datagram costs on the link beside its fragment.
    overhead_bytes: usize,
    units: BTreeMap<u32, Outgoing>,
    next_unit: u32,
    granted: u32,
    done_below: u32,
    /// The unit and fragment that are the first never sent.
    fresh: (u32, usize),
    /// Bytes of the units of which nothing was sent.
    unsent_bytes: usize,
    lost: BTreeSet<(u32, u16)>,
    flights: Flights,
    echo: Echo,
    rate: Rate,
    /// See [`Self::prompt`].
    ahead_s: f64,
    epochs: Epochs,
    train_left: u32,
    /// Whether the first rate has anything to do with the link.
    judged: bool,
    /// Datagrams of a train that may be sent with nothing in them.
    fillers_left: u32,
    /// When the next datagram may go.
    next_us: f64,
    trip: Trip,
    report_number: u64,
    heard_us: u64,
    /// When a unit was put in last.
    put_us: u64,
    /// When, how many datagrams were decided on by then, and how many had arrived.
    counts: VecDeque<(u64, u64, u64)>,
    statistics: Statistics,
    events: VecDeque<Event>,
}

#[derive(Debug)]
struct Outgoing {
    bytes: Bytes,
    arrived: Fragments,
    /// All of it arrived.
    whole: bool,
}

impl Sender {
    /// One without units. `rtt_us` is a first measure of the round trip, `overhead_bytes` what a datagram costs on the link beside what this crate puts in,
    /// `hint` and `cap` bytes a second, headers included.
    pub fn new(
        now_us: u64,
        shape: Shape,
        overhead_bytes: usize,
        rtt_us: u64,
        hint: Option<f64>,
        cap: Option<f64>,
    ) -> Self {
        let overhead_bytes = overhead_bytes + DATA_HEADER_BYTES;
        let train_bytes = f64::from(TRAIN_DATAGRAMS) * (shape.fragment_bytes + overhead_bytes) as f64;
        let rtt = (rtt_us as f64).max(1_000.0);
        let first = hint.unwrap_or(train_bytes / rtt.max(20_000.0) * 1e6);
        Self {
            shape,
            overhead_bytes,
            units: BTreeMap::new(),
            next_unit: 0,
            granted: shape.window_units.min(crate::WINDOW_FIRST),
            done_below: 0,
            fresh: (0, 0),
            unsent_bytes: 0,
            lost: BTreeSet::new(),
            flights: Flights::new(),
            echo: Echo::default(),
            rate: Rate::new(now_us, first, cap),
            ahead_s: f64::INFINITY,
            epochs: Epochs::default(),
            train_left: TRAIN_DATAGRAMS,
            judged: hint.is_some(),
            fillers_left: 0,
            next_us: now_us as f64,
            trip: Trip::new(now_us, rtt),
            report_number: 0,
            heard_us: now_us,
            put_us: now_us,
            counts: VecDeque::new(),
            statistics: Statistics::default(),
            events: VecDeque::new(),
        }
    }

    /// Measures the bottleneck as soon as the first words are out, with a train of fillers, where the round trip of `rtt_us` is long enough for that to matter. The
    /// receiver has to know fillers.
    #[must_use]
    pub fn filling(self, rtt_us: u64) -> Self {
        Self { fillers_left: if rtt_us >= FILL_ROUND_US { FILLERS_MAX } else { 0 }, ..self }
    }

    /// Takes no more units than what goes within this time, so that whoever puts them in knows how fast they go, and what is put in last goes soon.
    #[must_use]
    pub fn prompt(self, ahead: Duration) -> Self {
        Self { ahead_s: ahead.as_secs_f64(), ..self }
    }

    /// How many units may be put in now.
    pub fn room(&self) -> usize {
        let granted = self.granted.saturating_sub(self.next_unit) as usize;
        if self.unsent_bytes < self.ahead_bytes() { granted } else { 0 }
    }

    /// Bytes of units that are taken before they are sent; all that is granted, without a bound.
    fn ahead_bytes(&self) -> usize {
        let rate = if self.judged { self.rate.bytes_per_second() } else { 1.0 };
        usize::try_from(whole(self.ahead_s * rate)).map_or(usize::MAX, |ahead| ahead.max(AHEAD_BYTES_MIN))
    }

    /// See [`Statistics::unit_bytes`].
    fn unit_bytes(&self) -> usize {
        let fragments = self.ahead_bytes() / UNITS_AHEAD / self.shape.fragment_bytes;
        // A train is not made of several.
        let least = if self.train_left > 0 { TRAIN_DATAGRAMS as usize + 1 } else { 1 };
        (fragments.max(least) * self.shape.fragment_bytes).min(self.shape.unit_bytes)
    }

    /// Puts in a unit; its number. Numbers go up by one.
    ///
    /// # Panics
    /// If it is longer than the shape allows or there is no [`Self::room`].
    pub fn put(&mut self, now_us: u64, bytes: Bytes) -> u32 {
        assert!(bytes.len() <= self.shape.unit_bytes && self.room() > 0, "a unit nobody can take");
        self.put_us = now_us;
        self.unsent_bytes += bytes.len();
        let (number, arrived) = (self.next_unit, Fragments::none(self.shape.fragments(bytes.len())));
        self.units.insert(number, Outgoing { bytes, arrived, whole: false });
        self.next_unit += 1;
        number
    }

    /// Whether all that was put in is done.
    pub fn is_idle(&self) -> bool {
        self.units.is_empty()
    }

    /// What happened since the last call.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What it has seen.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            rtt_us: self.trip.least_us(),
            queue_us: self.rate.queue_us(),
            rate: self.rate.bytes_per_second(),
            unit_bytes: self.unit_bytes(),
            idle: self.is_idle(),
            ..self.statistics
        }
    }

    /// What to do now.
    pub fn poll(&mut self, now_us: u64) -> Poll {
        self.rate.tick(now_us);
        let wait_us = self.mind_silence(now_us);
        self.flights.settle_old(now_us, self.patience_us(), &mut self.lost);
        self.judge(now_us);
        if self.next_us > now_us as f64 && self.train_left == 0 {
            return Poll::Wait(whole(self.next_us.ceil()).min(wait_us));
        }
        if !self.judged && self.flights.next() - self.flights.settled() >= UNJUDGED_DATAGRAMS {
            return Poll::Wait(wait_us);
        }
        let Some((unit, fragment)) = self.next_fragment(now_us) else {
            if let Some(filler) = self.filler(now_us) {
                return Poll::Send(filler);
            }
            self.epochs.limited();
            if self.train_left > 0 && self.train_left < TRAIN_DATAGRAMS {
                // A question or an answer is none; the first that is long enough will be.
                self.epochs.break_off();
                self.train_left = TRAIN_DATAGRAMS;
                self.next_us = now_us as f64;
            }
            return Poll::Wait(wait_us);
        };
        let Some(data) = self.data(now_us, unit, fragment) else { return Poll::Wait(now_us) };
        Poll::Send(data)
    }

    /// A datagram of a train with nothing in it, if there is one to be sent and nothing else. What comes next does not wait for it.
    fn filler(&mut self, now_us: u64) -> Option<Data> {
        let is_quiet = self.statistics.sent > 0 && now_us >= self.put_us.saturating_add(FILL_AFTER_US);
        if self.fillers_left == 0 || self.train_left == 0 || !is_quiet || !self.rate.is_starting() {
            return None;
        }
        let bytes = Bytes::from(vec![0; self.shape.fragment_bytes]);
        let rate = self.rate.bytes_per_second();
        let epoch = self.epochs.number(now_us, rate, self.epoch_us(), true);
        let sequence = self.flights.send(Flight::new(now_us, Data::FILLER, 0, epoch), &mut self.lost);
        self.epochs.sent(now_us, sequence, (bytes.len() + self.overhead_bytes) as u64);
        self.statistics.sent += 1;
        self.train_left -= 1;
        self.fillers_left = if self.train_left == 0 { 0 } else { self.fillers_left - 1 };
        #[allow(clippy::cast_possible_truncation, reason = "modulo 2^32")]
        Some(Data { sequence, sent: now_us as u32, epoch, unit: Data::FILLER, unit_bytes: 0, fragment: 0, bytes })
    }

    fn data(&mut self, now_us: u64, unit: u32, fragment: u16) -> Option<Data> {
        let outgoing = self.units.get(&unit)?;
        let from = usize::from(fragment) * self.shape.fragment_bytes;
        let bytes = outgoing.bytes.slice(from..(from + self.shape.fragment_bytes).min(outgoing.bytes.len()));
        let (wire, rate) = (bytes.len() + self.overhead_bytes, self.rate.bytes_per_second());
        let epoch = self.epochs.number(now_us, rate, self.epoch_us(), self.train_left > 0);
        let sequence = self.flights.send(Flight::new(now_us, unit, fragment, epoch), &mut self.lost);
        self.epochs.sent(now_us, sequence, wire as u64);
        self.statistics.sent += 1;
        if self.train_left > 0 {
            self.train_left -= 1;
            // What follows waits as long as the train would have taken.
            self.next_us += wire as f64 / rate * 1e6;
        } else {
            self.next_us = self.next_us.max(now_us as f64 - BURST_US) + wire as f64 / rate * 1e6;
        }
        #[allow(clippy::cast_possible_truncation, reason = "modulo 2^32; a unit's length is bounded")]
        Some(Data {
            sequence,
            sent: now_us as u32,
            epoch,
            unit,
            unit_bytes: outgoing.bytes.len() as u32,
            fragment,
            bytes,
        })
    }

    /// Takes a report.
    ///
    /// # Errors
    /// What no honest receiver says.
    pub fn report(&mut self, now_us: u64, report: &Report) -> Result<(), FrameError> {
        let arrived_any = report.arrived > 0;
        if arrived_any && report.newest >= self.flights.next() || report.done_below > self.begun() {
            return Err(FrameError::Nonsense("that something arrived that was not sent"));
        }
        if report.number <= self.report_number {
            return Ok(());
        }
        self.report_number = report.number;
        self.heard_us = now_us;
        self.granted = self.granted.max(report.granted.min(self.next_unit.saturating_add(self.shape.window_units)));
        if report.arrived > self.statistics.arrived && self.rate.heard(now_us) {
            self.epochs.forget();
        }
        if arrived_any {
            self.flights.newest_arrived(report.newest);
            #[allow(clippy::cast_possible_truncation, reason = "modulo 2^32")]
            let away = (now_us as u32).wrapping_sub(report.newest_sent).wrapping_sub(report.held);
            if away.cast_signed() > 0 {
                self.trip.note(now_us, f64::from(away));
            }
            self.arrived(now_us, report);
        }
        (self.statistics.arrived, self.statistics.needless) = (report.arrived, report.needless);
        self.mark_units(report);
        self.flights.settle(&mut self.lost);
        self.count_loss(now_us);
        for sum in &report.epochs {
            self.epochs.note(*sum);
        }
        self.judge(now_us);
        Ok(())
    }

    fn arrived(&mut self, now_us: u64, report: &Report) {
        let first = report.newest / 64 + 1 - report.words.len() as u64;
        for (number, word) in (first..).zip(&report.words) {
            let mut news = self.flights.news(number, *word);
            while news != 0 {
                let sequence = number * 64 + u64::from(news.trailing_zeros());
                news &= news - 1;
                let Some((flight, fate)) = self.flights.arrived(sequence) else { continue };
                // One that is only overdue, since a queue grew, tells nothing of those that overtake others.
                if fate == Fate::Lost {
                    self.rate.mistaken(now_us);
                }
                self.epochs.arrived(flight.epoch);
                if let Some(unit) = self.units.get_mut(&flight.unit) {
                    unit.arrived.insert(usize::from(flight.fragment));
                    unit.whole |= unit.arrived.is_full();
                }
            }
        }
    }

    /// Units of which something was sent: those below.
    fn begun(&self) -> u32 {
        self.fresh.0 + u32::from(self.fresh.1 > 0)
    }

    fn mark_units(&mut self, report: &Report) {
        while let Some(unit) = self.units.first_entry().filter(|unit| *unit.key() < report.done_below) {
            self.events.push_back(Event::Done(*unit.key()));
            self.statistics.done_bytes += unit.remove().bytes.len() as u64;
        }
        self.done_below = self.done_below.max(report.done_below);
        for range in &report.ranges {
            let first = report.done_below.saturating_add(u32::from(range.first));
            let end = first.saturating_add(u32::from(range.units)).min(self.begun()).max(first);
            // Those that are there, which the window bounds, and not what a peer counts up.
            let units: Vec<u32> = self.units.range(first..end).map(|(number, _)| *number).collect();
            for number in units {
                if range.done {
                    let unit = self.units.remove(&number);
                    self.statistics.done_bytes += unit.map_or(0, |unit| unit.bytes.len() as u64);
                    self.events.push_back(Event::Done(number));
                } else if let Some(unit) = self.units.get_mut(&number) {
                    unit.whole = true;
                }
            }
        }
    }

    /// What of the last seconds did not arrive. What was held to be lost and came late is in neither count for long.
    fn count_loss(&mut self, now_us: u64) {
        let (settled, arrived) = (self.flights.settled(), self.statistics.arrived);
        if let Some((_, first_settled, first_arrived)) = self.counts.front()
            && settled > *first_settled
        {
            let share = arrived.saturating_sub(*first_arrived) as f64 / (settled - first_settled) as f64;
            self.statistics.loss = (1.0 - share).clamp(0.0, 1.0);
        }
        if self.counts.back().is_none_or(|(at_us, ..)| now_us - at_us >= LOSS_EVERY_US) {
            self.counts.push_back((now_us, settled, arrived));
        }
        while self.counts.front().is_some_and(|(at_us, ..)| now_us - at_us > LOSS_OVER_US) && self.counts.len() > 1 {
            self.counts.pop_front();
        }
    }

    /// The rate learns of what is settled.
    fn judge(&mut self, now_us: u64) {
        while let Some(outcome) = self.epochs.settled(self.flights.settled()) {
            let train = outcome.train && self.rate.is_starting();
            if train && outcome.sum.datagrams >= TRAIN_ARRIVED_MIN && outcome.sum.span > 0 {
                let bytes = f64::from(outcome.sum.distance) * (self.shape.fragment_bytes + self.overhead_bytes) as f64;
                self.rate.train(now_us, outcome.arrived, outcome.sent, bytes / f64::from(outcome.sum.span) * 1e6);
                self.judged = true;
            } else if !train {
                self.judged |= !outcome.limited;
                self.rate.judge(now_us, self.round_us(), &outcome);
            }
        }
    }

    /// Slows down while nothing is heard; when to look again.
    fn mind_silence(&mut self, now_us: u64) -> u64 {
        let limit_us = SILENCE_US + whole(2.0 * self.trip.smooth_us);
        let out = self.flights.settled() < self.flights.next();
        if out && now_us - self.heard_us.min(now_us) > limit_us {
            self.rate.silence(now_us);
            // Once more if nothing is heard for as long again.
            self.heard_us = now_us;
        }
        now_us + 10_000
    }

    /// How long an epoch is: long enough that a report still tells of it when those come that others overtook.
    fn epoch_us(&self) -> f64 {
        self.rate.epoch_us(self.round_us()).max(self.flights.overtaking_us() as f64 / EPOCHS_TO_OVERTAKE)
    }

    /// Time without queues until it is known what became of a datagram: where some overtake others, longer than a round trip of those.
    fn round_us(&self) -> f64 {
        self.trip.least_us() + self.flights.overtaking_us() as f64
    }

    /// How long a datagram is out until it is lost, whatever arrived after it.
    fn patience_us(&self) -> u64 {
        whole(self.trip.smooth_us * 1.5) + self.flights.overtaking_us() + 50_000
    }

    fn next_fragment(&mut self, now_us: u64) -> Option<(u32, u16)> {
        while let Some((unit, fragment)) = self.lost.pop_first() {
            if self.is_missing(unit, usize::from(fragment)) {
                return Some((unit, fragment));
            }
        }
        self.next_fresh().or_else(|| self.next_echo(now_us))
    }

    fn is_missing(&self, unit: u32, fragment: usize) -> bool {
        self.units.get(&unit).is_some_and(|unit| !unit.whole && !unit.arrived.contains(fragment))
    }

    fn next_fresh(&mut self) -> Option<(u32, u16)> {
        let (mut number, mut fragment) = self.fresh;
        while number < self.next_unit.min(self.granted) {
            let bytes = self.units.get(&number).map(|unit| unit.bytes.len());
            if fragment == 0 {
                self.unsent_bytes -= bytes.unwrap_or(0);
            }
            if fragment < bytes.map_or(0, |bytes| self.shape.fragments(bytes)) {
                self.fresh = (number, fragment + 1);
                return u16::try_from(fragment).ok().map(|fragment| (number, fragment));
            }
            (number, fragment) = (number + 1, 0);
            self.fresh = (number, 0);
        }
        None
    }
}
