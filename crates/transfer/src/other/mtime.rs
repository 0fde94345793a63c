//! Times in the metadata of objects, as rclone and others write them: seconds since 1970 in decimals, with as many digits behind the point as are
//! needed, a sign before what was earlier.

const NS: u64 = 1_000_000_000;
/// Digits of a second.
const DIGITS: usize = 9;

/// A time as text.
pub fn mtime_text(ns: i64) -> String {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    let fraction = format!(".{:09}", ns % NS);
    format!("{sign}{}{}", ns / NS, fraction.trim_end_matches('0').trim_end_matches('.'))
}

/// A text as time, in nanoseconds; none if it is not one.
pub fn parse_mtime(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || !plain(seconds) || !plain(fraction) {
        return None;
    }
    let fraction = format!("{fraction:0<DIGITS$}");
    let ns =
        seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction.get(..DIGITS)?.parse().ok()?)?;
    Some(if negative { -ns } else { ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_time_has_no_more_digits_than_it_needs() {
        let texts = [
            (0, "0"),
            (1_500_000_000, "1.5"),
            (-1, "-0.000000001"),
            (1_700_000_000_123_456_789, "1700000000.123456789"),
        ];
        for (ns, text) in texts {
            assert_eq!((mtime_text(ns).as_str(), parse_mtime(text)), (text, Some(ns)));
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for bad in ["", ".", "-", "1e9", "1.5.5", "now", "99999999999999999999", "+1", "1.-5"] {
            assert_eq!(parse_mtime(bad), None, "{bad}");
        }
        assert_eq!(parse_mtime("1.1234567891234"), Some(1_123_456_789));
    }

    proptest! {
        #[test]
        fn each_time_comes_back(ns in i64::MIN + 1..i64::MAX) {
            prop_assert_eq!(parse_mtime(&mtime_text(ns)), Some(ns));
        }
    }
}
