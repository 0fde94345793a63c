//! Periods: of hours, minutes and seconds in elapsed time, of days and weeks in local time.

use super::{Start, instant};
use holdfast_base::{Error, Result};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};

/// Longest period: ten years.
const DAYS_MAX: i64 = 3_660;
/// Where periods without a start are counted from, in local time.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// What a period counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Elapsed seconds.
    Seconds,
    /// Days of the calendar.
    Days,
}

/// A length of time between due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    count: i64,
    unit: Unit,
}

impl Period {
    /// Reads `90s`, `30m`, `6h`, `1d`, `2w`.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid(format!(
                "{text:?} is no period: write for example 90s, 30m, 6h, 1d or 2w, of at most ten years"
            ))
        };
        let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let factor = match &text[digits.len()..] {
            "s" => (1, Unit::Seconds),
            "m" => (60, Unit::Seconds),
            "h" => (3_600, Unit::Seconds),
            "d" => (1, Unit::Days),
            "w" => (7, Unit::Days),
            _ => return Err(bad()),
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad());
        }
        let count = digits.parse::<i64>().ok().and_then(|count| count.checked_mul(factor.0)).ok_or_else(bad)?;
        let most = if factor.1 == Unit::Days { DAYS_MAX } else { DAYS_MAX * 86_400 };
        if count < 1 || count > most {
            return Err(bad());
        }
        Ok(Self { count, unit: factor.1 })
    }

    pub(super) fn next_after(self, start: Option<Start>, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        match self.unit {
            Unit::Seconds => {
                let first = start.unwrap_or(Start::Local(EPOCH)).instant(zone)?;
                let gone = after.as_second() - first.as_second();
                let steps = if after < first { 0 } else { gone.div_euclid(self.count) + 1 };
                first.checked_add(steps.checked_mul(self.count)?.seconds()).ok()
            }
            Unit::Days => {
                let first = match start {
                    Some(Start::At(at)) => at.to_zoned_datetime(zone.clone()).datetime(),
                    Some(Start::Local(local)) => local,
                    None => EPOCH,
                };
                let gone = first.date().until(after.to_zoned_datetime(zone.clone()).date()).ok()?.get_days();
                let from = (i64::from(gone).div_euclid(self.count) - 1).max(0);
                // The one before the day, that of the day, and the next.
                (from..from + 4).find_map(|steps| {
                    let local = first.checked_add(days(steps * self.count)?).ok()?;
                    instant(zone, local).filter(|due| *due > after)
                })
            }
        }
    }
}

fn days(count: i64) -> Option<Span> {
    Span::new().try_days(count).ok()
}
