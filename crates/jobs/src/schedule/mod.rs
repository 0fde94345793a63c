//! When a job is due.
//!
//! A schedule answers one question: [the first due time after a moment](Schedule::next_after). Due times are instants, strictly increasing. What follows
//! from them for a job that was not begun in time is decided by [`decide()`], which asks no clock.

mod cron;
mod decide;
mod every;
mod window;

pub use cron::Cron;
pub use decide::{Decision, decide};
pub use every::{Period, Unit};
pub use window::{DayTime, Window};

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// When a job is due, in a time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// What makes it due.
    pub when: When,
    /// Whose local time is meant.
    pub zone: TimeZone,
    /// Hours in which runs may be under way; none is always.
    pub window: Option<Window>,
}

/// What makes a job due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// Again and again after a start; that without a zone is local.
    Every(Period, Option<Start>),
    /// By a line of cron.
    Cron(Box<Cron>),
    /// At one time only.
    Once(Start),
    /// Nothing but an order.
    Never,
}

/// The first due time of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// A local time.
    Local(DateTime),
    /// An instant.
    At(Timestamp),
}

impl Start {
    fn instant(self, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Local(local) => instant(zone, local),
            Self::At(at) => Some(at),
        }
    }
}

impl Schedule {
    /// The first due time after a moment; none if there is none any more.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Every(period, start) => period.next_after(*start, &self.zone, after),
            When::Cron(cron) => cron.next_after(&self.zone, after),
            When::Once(start) => start.instant(&self.zone).filter(|at| *at > after),
            When::Never => None,
        }
    }

    /// The latest due time after one moment that is not after another.
    pub fn latest_between(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let first = self.next_after(after).filter(|first| *first <= until)?;
        // Halving finds it without walking a year of minutes.
        let (mut found, mut low, mut high) = (first, first.as_second(), until.as_second() + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let from = Timestamp::from_second(middle).ok()?;
            match self.next_after(from).filter(|due| *due <= until) {
                Some(due) => (found, low) = (due, middle.max(due.as_second())),
                None => high = middle,
            }
        }
        // What is due in the second that is left.
        self.next_after(found).filter(|due| *due <= until).or(Some(found))
    }
}

/// The instant of a local time. What does not exist, because the clock goes forward over it, is the first instant after the gap; of what comes twice it
/// is the first.
pub(crate) fn instant(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Gap { before, .. } => {
            let late = before.to_timestamp(local).ok()?.checked_add(1.second()).ok()?;
            zone.preceding(late).next().map(|transition| transition.timestamp())
        }
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
    }
}

#[cfg(test)]
mod tests;
