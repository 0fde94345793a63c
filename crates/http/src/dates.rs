//! Dates of HTTP (RFC 9110 section 5.6.7) and of RFC 3339, for any time a client may have set.
//!
//! Times are milliseconds since 1970 and may be negative or absurd: they are clamped to the years 0 to 9999, which both
//! formats can write. Days become dates by the algorithm of Howard Hinnant, "chrono-compatible low-level date algorithms"
//! (`civil_from_days`), which is branch-free arithmetic: a listing formats two dates an entry.

/// 0000-01-01T00:00:00Z.
const SECONDS_MIN: i64 = -62_167_219_200;
/// 9999-12-31T23:59:59Z.
const SECONDS_MAX: i64 = 253_402_300_799;
const DAY_SECONDS: i64 = 86_400;
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

struct Date {
    year: i64,
    month: i64,
    day: i64,
    weekday: i64,
    second_of_day: i64,
}

impl Date {
    fn of_ms(ms: i64) -> Self {
        let seconds = ms.div_euclid(1_000).clamp(SECONDS_MIN, SECONDS_MAX);
        let days = seconds.div_euclid(DAY_SECONDS);
        let shifted = days + 719_468; // days since 0000-03-01
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            weekday: days.rem_euclid(7),
            second_of_day: seconds.rem_euclid(DAY_SECONDS),
        }
    }

    fn push_time(&self, out: &mut String) {
        push_padded(out, self.second_of_day / 3_600, 2);
        out.push(':');
        push_padded(out, self.second_of_day / 60 % 60, 2);
        out.push(':');
        push_padded(out, self.second_of_day % 60, 2);
    }

    fn push_day(&self, out: &mut String) {
        push_padded(out, self.year, 4);
        out.push('-');
        push_padded(out, self.month, 2);
        out.push('-');
        push_padded(out, self.day, 2);
    }
}

/// Appends `value`, which is not negative, with leading zeroes.
fn push_padded(out: &mut String, value: i64, digits: u32) {
    for place in (0..digits).rev() {
        let digit = value / 10i64.pow(place) % 10;
        out.push(char::from(b'0' + u8::try_from(digit).unwrap_or_default()));
    }
}

fn name<const N: usize>(names: [&'static str; N], index: i64) -> &'static str {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default()
}

/// Appends `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn push_http(out: &mut String, ms: i64) {
    let date = Date::of_ms(ms);
    out.push_str(name(WEEKDAYS, date.weekday));
    out.push_str(", ");
    push_padded(out, date.day, 2);
    out.push(' ');
    out.push_str(name(MONTHS, date.month - 1));
    out.push(' ');
    push_padded(out, date.year, 4);
    out.push(' ');
    date.push_time(out);
    out.push_str(" GMT");
}

/// Appends `1994-11-06T08:49:37Z`, what `DAV:creationdate` holds.
pub fn push_rfc3339(out: &mut String, ms: i64) {
    let date = Date::of_ms(ms);
    date.push_day(out);
    out.push('T');
    date.push_time(out);
    out.push('Z');
}

/// Appends `1994-11-06 08:49` for people.
pub fn push_minute(out: &mut String, ms: i64) {
    let date = Date::of_ms(ms);
    date.push_day(out);
    out.push(' ');
    push_padded(out, date.second_of_day / 3_600, 2);
    out.push(':');
    push_padded(out, date.second_of_day / 60 % 60, 2);
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn http(ms: i64) -> String {
    let mut out = String::with_capacity(29);
    push_http(&mut out, ms);
    out
}

/// Reads a date in any of the three forms of RFC 9110, in seconds since 1970; none if it is not a date.
pub fn parse_http_s(text: &str) -> Option<i64> {
    let time = httpdate::parse_http_date(text.trim()).ok()?;
    match time.duration_since(std::time::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).ok(),
        Err(before) => i64::try_from(before.duration().as_secs()).ok().map(|seconds| -seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rfc3339(ms: i64) -> String {
        let mut out = String::new();
        push_rfc3339(&mut out, ms);
        out
    }

    #[test]
    fn known_dates_are_written_as_the_rfcs_write_them() {
        assert_eq!(http(784_111_777_000), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn absurd_times_are_clamped() {
        assert_eq!(rfc3339(i64::MAX), "9999-12-31T23:59:59Z");
        assert_eq!(rfc3339(i64::MIN), "0000-01-01T00:00:00Z");
    }

    proptest! {
        #[test]
        fn http_dates_after_1970_read_back(seconds in 0i64..=SECONDS_MAX) {
            prop_assert_eq!(parse_http_s(&http(seconds * 1_000)), Some(seconds));
        }

        #[test]
        fn any_time_can_be_written(ms: i64) {
            prop_assert_eq!(http(ms).len(), 29);
            prop_assert_eq!(rfc3339(ms).len(), 20);
        }

        #[test]
        fn any_text_can_be_read(text in ".{0,64}") {
            let _ = parse_http_s(&text);
        }
    }
}
