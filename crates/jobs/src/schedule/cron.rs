//! Lines of cron: minute, hour, day of month, month, day of week, as crontab(5) has them, in local time.
//!
//! Each field is `*` or a list of numbers, ranges and steps; months and days of the week have names of three letters, and Sunday is 0 or 7. If days of
//! the month and of the week are both restricted, either makes a day match. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` are short for lines.
//!
//! Where the clock goes forward, times that do not exist are due at the first moment after the gap. Where it goes back, a line whose hours are
//! restricted is due the first time only; one of every hour is due in both.

use super::instant;
use holdfast_base::{Error, Result};
use jiff::Timestamp;
#[cfg(test)]
use jiff::ToSpan;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// Days that are looked through: a leap day comes after eight years at most, and one on a certain day of the week is not asked for.
const DAYS_LOOKED: usize = 366 * 9;
/// Longest line.
const BYTES_MAX: usize = 500;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A line of cron.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// Numbers that match, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Whether it was written as `*`, without a step or with.
    star: bool,
}

impl Field {
    fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits >> number & 1 == 1)
    }
}

impl Cron {
    /// Reads a line.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > BYTES_MAX {
            return Err(Error::invalid(format!("a line of cron can have {BYTES_MAX} bytes at most")));
        }
        let line = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            line => line,
        };
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            let what = "a line of cron has five fields: minute, hour, day of month, month, day of week, for example \"30 6 * * mon-fri\"";
            return Err(Error::invalid(format!("{text:?} has {}: {what}", fields.len())));
        };
        let cron = Self {
            minutes: field("minute", minutes, (0, 59), &[])?,
            hours: field("hour", hours, (0, 23), &[])?,
            days: field("day of month", days, (1, 31), &[])?,
            months: field("month", months, (1, 12), &MONTHS)?,
            weekdays: weekdays_of(weekdays)?,
        };
        // 31 February and the like.
        let from = Timestamp::constant(946_684_800, 0);
        match cron.next_after(&TimeZone::UTC, from) {
            Some(_) => Ok(cron),
            None => Err(Error::invalid(format!("{text:?} is never due: no month it names has such a day"))),
        }
    }

    pub(super) fn next_after(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        let today = after.to_zoned_datetime(zone.clone()).date();
        // The day before may reach over midnight where the clock is changed then.
        let first = today.yesterday().unwrap_or(today);
        let days = std::iter::successors(Some(first), |day| day.tomorrow().ok()).take(DAYS_LOOKED);
        days.filter(|day| self.takes(*day)).find_map(|day| self.of_day(zone, day, after))
    }

    fn takes(&self, day: Date) -> bool {
        let (of_month, of_week) = (self.days.has(day.day()), self.weekdays.has(day.weekday().to_sunday_zero_offset()));
        let either = !self.days.star && !self.weekdays.star;
        self.months.has(day.month()) && if either { of_month || of_week } else { of_month && of_week }
    }

    fn of_day(&self, zone: &TimeZone, day: Date, after: Timestamp) -> Option<Timestamp> {
        let (hours, minutes) = ((0..24).filter(|hour| self.hours.has(*hour)), 0..60);
        let times = hours.flat_map(|hour| minutes.clone().map(move |minute| (hour, minute)));
        let times = times.filter(|(_, minute)| self.minutes.has(*minute));
        let due = times.flat_map(|(hour, minute)| self.instants(zone, day.at(hour, minute, 0, 0)));
        due.filter(|due| *due > after).min()
    }

    /// When a local time is.
    fn instants(&self, zone: &TimeZone, local: DateTime) -> impl Iterator<Item = Timestamp> {
        let again = match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Fold { after, .. } if self.is_of_every_hour() => after.to_timestamp(local).ok(),
            _ => None,
        };
        instant(zone, local).into_iter().chain(again)
    }

    fn is_of_every_hour(&self) -> bool {
        self.hours.bits == (1 << 24) - 1
    }

    /// The next due times after a moment, in UTC: what a fuzzer and a preview ask for.
    pub fn upcoming(&self, after: Timestamp, count: usize) -> Vec<Timestamp> {
        let next = |after: &Timestamp| self.next_after(&TimeZone::UTC, *after);
        std::iter::successors(next(&after), next).take(count).collect()
    }
}

fn weekdays_of(text: &str) -> Result<Field> {
    let field = field("day of week", text, (0, 7), &WEEKDAYS)?;
    // Sunday is both.
    let sunday = field.bits >> 7 & 1;
    Ok(Field { bits: (field.bits | sunday) & 0x7f, star: field.star })
}

fn field(what: &str, text: &str, (least, most): (u32, u32), names: &[&str]) -> Result<Field> {
    let bad = |part: &str| {
        Error::invalid(format!(
            "the {what} {part:?} is none: {least} to {most}, *, a list, a range like 1-5, or steps like */10"
        ))
    };
    // Names of months begin at 1, of days of the week at 0.
    let number = |text: &str| {
        let by_name =
            names.iter().position(|name| text.eq_ignore_ascii_case(name)).and_then(|at| u32::try_from(at).ok());
        let by_name = by_name.map(|at| if names.len() == MONTHS.len() { at + 1 } else { at });
        let plain = || text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        by_name.or_else(plain).filter(|number| (least..=most).contains(number)).ok_or_else(|| bad(text))
    };
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let step = match step {
            Some(step) => step.parse::<usize>().ok().filter(|step| (1..=60).contains(step)).ok_or_else(|| bad(part))?,
            None => 1,
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (least, most),
            Some((from, to)) => (number(from)?, number(to)?),
            // As everywhere: 5/10 is from 5 on.
            None if part.contains('/') => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return Err(bad(part));
        }
        (from..=to).step_by(step).for_each(|number| bits |= 1_u64 << number);
    }
    Ok(Field { bits, star: text.starts_with('*') })
}

/// A day on which this line is due, for a test of what it takes.
#[cfg(test)]
pub(super) fn is_due(cron: &Cron, local: DateTime) -> bool {
    let at = instant(&TimeZone::UTC, local).expect("a time");
    cron.next_after(&TimeZone::UTC, at.checked_sub(1.second()).expect("a time")) == Some(at)
}
