//! The stretches of sending that [`Rate`](crate::rate::Rate) judges: which datagram belongs to which, and what became of each.
//!
//! An epoch goes on while its rate does and it is not too old ([`Epochs::number`]). It is handed out for judgement once, in the order of sending, when the fate of all
//! its datagrams is known ([`Epochs::settled`]). At most [`OPEN_MAX`] wait; beyond, the oldest are forgotten.

use crate::frame::EpochSum;
use crate::rate::{DATAGRAMS_MIN, Outcome};
use std::collections::VecDeque;

/// The last epochs of a sender.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    /// In order; the last one is under way.
    open: VecDeque<Epoch>,
    next: u16,
}

#[derive(Debug)]
struct Epoch {
    number: u16,
    began_us: u64,
    ended_us: u64,
    /// Sequence numbers after its last.
    end: u64,
    bytes: u64,
    sent: u32,
    rate: f64,
    limited: bool,
    /// Sent back to back.
    train: bool,
    /// It ended before it was one.
    broken: bool,
    arrived: u32,
    sum: Option<EpochSum>,
    absorbed: Absorbed,
}

/// What is judged with the epoch after it, since too little of it arrived.
#[derive(Debug, Clone, Copy, Default)]
struct Absorbed {
    sent: u32,
    arrived: u32,
    limited: bool,
    sum: Option<EpochSum>,
}

/// Datagrams of an epoch that is not cut short, and of one on a slow link, where that many take long.
const ENOUGH: u32 = 2 * DATAGRAMS_MIN;
/// See [`ENOUGH`].
const FEW: u32 = DATAGRAMS_MIN + 4;
/// Epochs that wait for their judgement; beyond, the oldest are forgotten.
const OPEN_MAX: usize = 256;

impl Epochs {
    /// The number for a datagram that is sent now at `rate`, in a train or not; a new one if the present one is `long_us` old and has enough datagrams, or its rate is not that.
    pub(crate) fn number(&mut self, now_us: u64, rate: f64, long_us: f64, train: bool) -> u16 {
        let goes_on = self.open.back().is_some_and(|epoch| {
            let old = (now_us - epoch.began_us) as f64;
            // On a slow link these take longer than anything else, and fewer tell nothing.
            let few_us = epoch.bytes as f64 / f64::from(epoch.sent.max(1)) * f64::from(FEW) / rate * 1e6;
            !epoch.broken
                && epoch.train == train
                && (epoch.rate - rate).abs() < 1.0
                && (train || old < long_us || (epoch.sent < ENOUGH && old < few_us.max(20.0 * long_us)))
        });
        if !goes_on {
            if self.open.len() == OPEN_MAX {
                self.open.pop_front();
            }
            let number = self.next;
            self.next = self.next.wrapping_add(1);
            self.open.push_back(Epoch {
                number,
                began_us: now_us,
                ended_us: now_us,
                end: 0,
                bytes: 0,
                sent: 0,
                rate,
                limited: false,
                train,
                broken: false,
                arrived: 0,
                sum: None,
                absorbed: Absorbed::default(),
            });
        }
        self.open.back().map_or(0, |epoch| epoch.number)
    }

    /// A datagram was sent in the epoch under way.
    pub(crate) fn sent(&mut self, now_us: u64, sequence: u64, bytes: u64) {
        if let Some(epoch) = self.open.back_mut() {
            (epoch.ended_us, epoch.end) = (now_us, sequence + 1);
            epoch.bytes += bytes;
            epoch.sent += 1;
        }
    }

    /// A datagram of an epoch arrived.
    pub(crate) fn arrived(&mut self, epoch: u16) {
        let at = self.open.front().map(|first| usize::from(epoch.wrapping_sub(first.number)));
        if let Some(epoch) = at.and_then(|at| self.open.get_mut(at)) {
            epoch.arrived += 1;
        }
    }

    /// What was sent says nothing any more.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
    }

    /// There was nothing to send.
    pub(crate) fn limited(&mut self) {
        if let Some(epoch) = self.open.back_mut() {
            epoch.limited = true;
        }
    }

    /// There was nothing to send in the middle of a train: it tells nothing.
    pub(crate) fn break_off(&mut self) {
        if let Some(epoch) = self.open.back_mut().filter(|epoch| epoch.train) {
            epoch.broken = true;
        }
    }

    /// What the receiver has of an epoch.
    pub(crate) fn note(&mut self, sum: EpochSum) {
        if let Some(epoch) = self.open.iter_mut().find(|epoch| epoch.number == sum.epoch) {
            epoch.sum = Some(sum);
        }
    }

    /// The oldest epoch, if all of its datagrams arrived or are lost: those below `settled`. One of which too little arrived is put together with the next.
    pub(crate) fn settled(&mut self, settled: u64) -> Option<Outcome> {
        while let Some(first) = self.open.front().filter(|first| self.open.len() > 1 && first.end <= settled) {
            if first.broken {
                self.open.pop_front();
                continue;
            }
            let few = first.all_arrived() < DATAGRAMS_MIN && first.all_sent() < 64 * DATAGRAMS_MIN;
            if few && self.open.len() < 3 {
                return None;
            }
            let first = self.open.pop_front()?;
            if !few {
                return Some(first.outcome());
            }
            // Mostly the end of a stretch whose rate was changed: the next tells enough by itself, and of another rate it would tell what is not so.
            if let Some(next) = self.open.front_mut()
                && next.arrived < DATAGRAMS_MIN
                && (next.rate - first.rate).abs() < 0.1 * first.rate
            {
                next.absorbed = first.into_absorbed();
            }
        }
        None
    }
}

impl Epoch {
    fn all_sent(&self) -> u32 {
        self.absorbed.sent + self.sent
    }

    fn all_arrived(&self) -> u32 {
        self.absorbed.arrived + self.arrived
    }

    fn into_absorbed(self) -> Absorbed {
        Absorbed {
            sent: self.all_sent(),
            arrived: self.all_arrived(),
            limited: self.absorbed.limited || self.limited,
            sum: self.sum(),
        }
    }

    /// What the receiver has of it, and of what it absorbed if it needs that: there is no slope through two rates.
    fn sum(&self) -> Option<EpochSum> {
        match (self.sum, self.absorbed.sum) {
            (Some(own), Some(other)) if own.datagrams < DATAGRAMS_MIN => {
                let (n, m) = (f64::from(own.datagrams), f64::from(other.datagrams));
                #[allow(clippy::cast_possible_truncation, reason = "a mean of two that fit")]
                let delay = ((f64::from(own.delay) * n + f64::from(other.delay) * m) / (n + m)) as i32;
                let datagrams = own.datagrams.saturating_add(other.datagrams);
                Some(EpochSum { datagrams, delay, slope: 0.0, slope_error: f32::from(u16::MAX), ..own })
            }
            (own, other) => own.or(other),
        }
    }

    fn outcome(&self) -> Outcome {
        let long_us = (self.ended_us - self.began_us) as f64;
        // The first datagram begins the stretch, so it is not sent within it.
        let bytes = self.bytes as f64 * f64::from(self.sent.saturating_sub(1)) / f64::from(self.sent.max(1));
        let rate = if long_us > 0.0 { bytes / long_us * 1e6 } else { self.rate };
        let limited = self.limited || self.absorbed.limited;
        // Few datagrams make a coarse measure; a machine that cannot keep up makes a true one.
        let kept_up = !limited && rate > 0.85 * self.rate;
        let nothing = EpochSum {
            epoch: self.number,
            datagrams: 0,
            delay: 0,
            slope: 0.0,
            slope_error: f32::from(u16::MAX),
            span: 0,
            distance: 0,
        };
        // If reports tell of it no more, some may have come later, and just those that were delayed.
        let is_known = |sum: &EpochSum| u64::from(sum.datagrams) * 8 >= u64::from(self.arrived) * 7;
        Outcome {
            began_us: self.began_us,
            ended_us: self.ended_us,
            rate: if kept_up { self.rate } else { rate },
            sent: self.all_sent(),
            arrived: self.all_arrived(),
            limited,
            train: self.train,
            sum: self.sum().filter(is_known).unwrap_or(nothing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(epoch: u16, datagrams: u32, delay: i32) -> EpochSum {
        EpochSum { epoch, datagrams, delay, slope: 0.5, slope_error: 0.01, span: 0, distance: 0 }
    }

    /// Epochs of which so many datagrams were sent at a rate, one each millisecond, and how many are sent; another has begun.
    fn sent(stretches: &[(u32, f64)]) -> (Epochs, u64) {
        let (mut epochs, mut sequence) = (Epochs::default(), 0);
        for (count, rate) in stretches {
            for _ in 0..*count {
                epochs.number(sequence * 1_000, *rate, 1e9, false);
                epochs.sent(sequence * 1_000, sequence, 1_000);
                sequence += 1;
            }
        }
        epochs.number(sequence * 1_000, 1.0, 1e9, false);
        (epochs, sequence)
    }

    fn arrive(epochs: &mut Epochs, number: u16, count: u32) {
        (0..count).for_each(|_| epochs.arrived(number));
    }

    #[test]
    fn the_end_of_another_rate_changes_nothing_of_what_the_next_epoch_tells() {
        let (mut epochs, all) = sent(&[(1, 10.0), (100, 1e6)]);
        arrive(&mut epochs, 0, 1);
        epochs.note(sum(0, 1, 70_000));
        assert!(epochs.settled(1).is_none());
        arrive(&mut epochs, 1, 100);
        epochs.note(sum(1, 100, 2_000));
        let outcome = epochs.settled(all).expect("settled");
        assert_eq!((outcome.sent, outcome.arrived, outcome.sum), (100, 100, sum(1, 100, 2_000)), "{outcome:?}");
        assert!((outcome.rate - 1e6).abs() < 1.0, "{outcome:?}");
    }

    #[test]
    fn small_epochs_are_judged_together_and_without_a_slope() {
        let (mut epochs, all) = sent(&[(10, 1e6), (10, 0.99e6)]);
        arrive(&mut epochs, 0, 10);
        arrive(&mut epochs, 1, 10);
        epochs.note(sum(0, 10, 1_000));
        epochs.note(sum(1, 10, 2_000));
        let outcome = epochs.settled(all).expect("settled");
        assert_eq!((outcome.sent, outcome.sum.datagrams, outcome.sum.delay), (20, 20, 1_500), "{outcome:?}");
        assert!(outcome.sum.slope_error > 1.0);
    }

    #[test]
    fn of_an_epoch_that_is_told_of_in_part_only_arrivals_are_known() {
        let (mut epochs, all) = sent(&[(100, 1e6)]);
        arrive(&mut epochs, 0, 100);
        epochs.note(sum(0, 30, 1_000));
        let outcome = epochs.settled(all).expect("settled");
        assert_eq!((outcome.sent, outcome.arrived, outcome.sum.datagrams), (100, 100, 0));
    }
}
