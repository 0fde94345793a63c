//! Datagrams on their way, by sequence number: which arrived, as the reports have it, and which are held to be lost.
//!
//! A datagram is lost when one that was sent later, by more than the reordering seen so far, has arrived ([`Flights::settle`]), or when it has been out for too long
//! ([`Flights::settle_old`]). One that arrives after all teaches how far the network reorders. At most [`FLIGHTS_MAX`] are remembered.

use crate::frame::{SEQUENCE_MAX, WORDS_MAX};
use std::collections::{BTreeSet, VecDeque};

/// Datagrams that are remembered: two seconds at 1 Gbit/s.
const FLIGHTS_MAX: usize = 1 << 18;
/// Nothing is held to be lost before this much that was sent after it arrived.
const OVERTAKING_MIN_US: u64 = 2_000;

/// Datagrams that were sent, by sequence number.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    first: u64,
    out: VecDeque<Flight>,
    /// Whatever is below arrived or is lost.
    settled: u64,
    /// Which arrived, as the reports have it: words of 64, the first being that of number `64 * base`.
    words: VecDeque<u64>,
    base: u64,
    /// When the newest that arrived was sent.
    newest_sent_us: u64,
    newest: u64,
    /// How much later than what was sent after it a datagram may arrive.
    overtaking_us: u64,
}

/// A datagram that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) unit: u32,
    pub(crate) fragment: u16,
    pub(crate) epoch: u16,
    fate: Fate,
    sent_us: u64,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Out,
    Arrived,
    /// Later ones arrived.
    Lost,
    /// Nothing was heard of it for too long.
    Overdue,
}

impl Flight {
    pub(crate) fn new(sent_us: u64, unit: u32, fragment: u16, epoch: u16) -> Self {
        Self { unit, fragment, epoch, fate: Fate::Out, sent_us }
    }
}

impl Flights {
    pub(crate) fn new() -> Self {
        Self { overtaking_us: OVERTAKING_MIN_US, ..Self::default() }
    }

    /// Whatever is below arrived or is lost.
    pub(crate) fn settled(&self) -> u64 {
        self.settled
    }

    /// How much later than what was sent after it a datagram may arrive, as far as was seen.
    pub(crate) fn overtaking_us(&self) -> u64 {
        self.overtaking_us
    }

    /// The number of the next datagram.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.out.len() as u64
    }

    /// Notes a datagram; its sequence number. If there are too many, the oldest is forgotten, and lost if nothing was heard of it.
    pub(crate) fn send(&mut self, flight: Flight, lost: &mut BTreeSet<(u32, u16)>) -> u64 {
        let sequence = self.next();
        assert!(sequence < SEQUENCE_MAX, "a connection is made anew long before");
        if self.out.len() == FLIGHTS_MAX {
            if let Some(oldest) = self.out.pop_front().filter(|oldest| oldest.fate == Fate::Out) {
                lost.insert((oldest.unit, oldest.fragment));
            }
            self.first += 1;
            self.settled = self.settled.max(self.first);
        }
        self.out.push_back(flight);
        sequence
    }

    /// The greatest number of those that arrived.
    pub(crate) fn newest_arrived(&mut self, sequence: u64) {
        if let Some(flight) = sequence.checked_sub(self.first).and_then(|at| self.out.get(usize::try_from(at).ok()?))
            && sequence >= self.newest
        {
            (self.newest, self.newest_sent_us) = (sequence, flight.sent_us);
        }
    }

    /// The bits of a word that were not set in it before.
    pub(crate) fn news(&mut self, number: u64, word: u64) -> u64 {
        if self.words.is_empty() {
            self.base = number;
        }
        let Some(mut at) = number.checked_sub(self.base) else { return 0 };
        while self.words.len() as u64 <= at {
            self.words.push_back(0);
            if self.words.len() > 2 * WORDS_MAX {
                self.words.pop_front();
                self.base += 1;
                at -= 1;
            }
        }
        let Some(known) = usize::try_from(at).ok().and_then(|at| self.words.get_mut(at)) else { return 0 };
        let news = word & !*known;
        *known |= word;
        news
    }

    /// A datagram arrived; what it was, and what was thought of it. One that was overtaken and held to be lost teaches how much later than others they come.
    pub(crate) fn arrived(&mut self, sequence: u64) -> Option<(Flight, Fate)> {
        let flight = self.out.get_mut(usize::try_from(sequence.checked_sub(self.first)?).ok()?)?;
        if flight.fate == Fate::Lost {
            let late_us = self.newest_sent_us.saturating_sub(flight.sent_us);
            self.overtaking_us = self.overtaking_us.max(late_us + late_us / 8).min(2_000_000);
        }
        let fate = std::mem::replace(&mut flight.fate, Fate::Arrived);
        Some((*flight, fate))
    }

    /// Decides on what was sent long enough before the newest that arrived.
    pub(crate) fn settle(&mut self, lost: &mut BTreeSet<(u32, u16)>) {
        let before_us = self.newest_sent_us.saturating_sub(self.overtaking_us);
        self.settle_before(before_us, self.newest, Fate::Lost, lost);
    }

    /// Decides on what has been out for too long.
    pub(crate) fn settle_old(&mut self, now_us: u64, patience_us: u64, lost: &mut BTreeSet<(u32, u16)>) {
        self.settle_before(now_us.saturating_sub(patience_us), u64::MAX, Fate::Overdue, lost);
    }

    fn settle_before(&mut self, before_us: u64, below: u64, fate: Fate, lost: &mut BTreeSet<(u32, u16)>) {
        while self.settled < below {
            let Some(flight) = usize::try_from(self.settled - self.first).ok().and_then(|at| self.out.get_mut(at))
            else {
                break;
            };
            if flight.fate == Fate::Out {
                if flight.sent_us >= before_us {
                    break;
                }
                flight.fate = fate;
                lost.insert((flight.unit, flight.fragment));
            }
            self.settled += 1;
        }
        // What reports may still tell of is kept.
        let keep = self.newest.saturating_sub(64 * WORDS_MAX as u64).min(self.settled);
        while self.first < keep {
            self.out.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flights of so many datagrams, one each millisecond, of which each is the only fragment of its unit.
    fn flights(count: u32, lost: &mut BTreeSet<(u32, u16)>) -> Flights {
        let mut flights = Flights::new();
        for unit in 0..count {
            flights.send(Flight::new(u64::from(unit) * 1_000, unit, 0, 0), lost);
        }
        flights
    }

    #[test]
    fn what_is_forgotten_before_anything_was_heard_of_it_is_sent_again() {
        let mut lost = BTreeSet::new();
        let max = u32::try_from(FLIGHTS_MAX).expect("small");
        let mut flights = flights(max, &mut lost);
        assert!(lost.is_empty());
        assert_eq!(flights.arrived(1).map(|(_, fate)| fate), Some(Fate::Out));
        for unit in max..max + 3 {
            flights.send(Flight::new(0, unit, 0, 0), &mut lost);
        }
        assert_eq!(lost.into_iter().collect::<Vec<_>>(), [(0, 0), (2, 0)], "the one in the middle arrived");
        assert_eq!((flights.settled(), flights.next()), (3, u64::from(max) + 3));
        assert!(flights.arrived(0).is_none(), "and is known no more");
    }

    #[test]
    fn one_that_comes_late_teaches_how_late_they_come() {
        let mut lost = BTreeSet::new();
        let mut flights = flights(100, &mut lost);
        flights.arrived(50);
        flights.newest_arrived(50);
        flights.settle(&mut lost);
        assert_eq!(lost.len(), 48, "what was sent within the last {OVERTAKING_MIN_US} us is not");
        assert_eq!(flights.arrived(10).map(|(_, fate)| fate), Some(Fate::Lost));
        assert!(flights.overtaking_us() >= 40_000, "{}", flights.overtaking_us());
        flights.arrived(90);
        flights.newest_arrived(90);
        flights.settle(&mut lost);
        assert_eq!(lost.len(), 48, "nothing more: all later ones may still come");
        flights.settle_old(1_000_000, 100_000, &mut lost);
        assert_eq!(lost.len(), 98, "but not for ever: all but the two that were never held to be lost");
    }
}
