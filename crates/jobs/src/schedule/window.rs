//! Hours of the day.

use super::instant;
use holdfast_base::{Error, Result};
use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;

/// Days that are looked through for the next change; a day may lack an hour, not two in a row.
const DAYS_LOOKED: usize = 4;

/// A time of day, `22:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DayTime(Time);

impl DayTime {
    /// Reads `6:30` or `06:30`.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("{text:?} is no time of day: write it like 06:30"));
        let (hour, minute) = text.split_once(':').ok_or_else(bad)?;
        let number = |text: &str| {
            let fits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<i8>().ok().filter(|_| fits)
        };
        let (hour, minute) =
            (number(hour).ok_or_else(bad)?, number(minute).filter(|_| minute.len() == 2).ok_or_else(bad)?);
        Time::new(hour, minute, 0, 0).map(Self).map_err(|_| bad())
    }

    /// The first instant after a moment at which it is this time of the day.
    pub fn next_after(self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        let today = after.to_zoned_datetime(zone.clone()).date();
        let first = today.yesterday().unwrap_or(today);
        let days = std::iter::successors(Some(first), |day| day.tomorrow().ok()).take(DAYS_LOOKED);
        days.filter_map(|day| instant(zone, day.to_datetime(self.0))).find(|at| *at > after)
    }

    /// Whether a local time is at it or later.
    fn has_come(self, local: Time) -> bool {
        local >= self.0
    }
}

/// From one time of day to another, the latter excluded; over midnight if that is earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// When it opens.
    pub from: DayTime,
    /// When it closes.
    pub to: DayTime,
}

impl Window {
    /// Reads `22:00-06:00`.
    pub fn parse(text: &str) -> Result<Self> {
        let (from, to) = text
            .split_once('-')
            .ok_or_else(|| Error::invalid(format!("{text:?} is no window: write it like 22:00-06:00")))?;
        let (from, to) = (DayTime::parse(from.trim())?, DayTime::parse(to.trim())?);
        if from == to {
            return Err(Error::invalid(format!(
                "the window {text:?} ends when it begins: leave it out for the whole day"
            )));
        }
        Ok(Self { from, to })
    }

    /// Whether it is open.
    pub fn is_open(&self, zone: &TimeZone, at: Timestamp) -> bool {
        let local = at.to_zoned_datetime(zone.clone()).time();
        let (begun, over) = (self.from.has_come(local), self.to.has_come(local));
        if self.from < self.to { begun && !over } else { begun || !over }
    }

    /// The next time it opens.
    pub fn opens_after(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        self.from.next_after(zone, after)
    }

    /// The next time it closes.
    pub fn closes_after(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        self.to.next_after(zone, after)
    }
}
