//! Durations as people write them, and as this crate prints them.

use std::time::Duration;

/// Longest duration accepted anywhere: a day.
pub(crate) const DURATION_MAX: Duration = Duration::from_hours(24);

/// Reads `100ms`, `1.5s`, `2m`, `1h`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 =
        number.parse().map_err(|_| format!("{text:?} is no duration; write for example 1.5s or 100ms"))?;
    let factor = match unit.trim() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("unknown unit {other:?} in {text:?}; use ms, s, m or h")),
    };
    let found = Duration::try_from_secs_f64(number * factor).map_err(|_| format!("{text:?} is too long"))?;
    if found > DURATION_MAX { Err(format!("{text:?} is longer than a day")) } else { Ok(found) }
}

/// `250 ms`, `1.5 s`.
pub(crate) fn duration_label(duration: Duration) -> String {
    if duration.is_zero() || duration >= Duration::from_secs(1) {
        format!("{} s", duration.as_secs_f64())
    } else {
        format!("{} ms", duration.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, ms) in [("100ms", 100), ("1.5s", 1500), ("2 m", 120_000), ("1h", 3_600_000), ("3", 3000), ("0", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_or_longer_than_a_day_is_refused() {
        for text in ["", "s", "-1s", "1.2.3s", "5 parsecs", "25h", "1e9", "99999999999999999999999h", "NaN", "inf"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_label_is_in_milliseconds_below_a_second() {
        assert_eq!(duration_label(Duration::from_millis(250)), "250 ms");
        assert_eq!(duration_label(Duration::from_millis(1500)), "1.5 s");
        assert_eq!(duration_label(Duration::ZERO), "0 s");
    }
}
