//! The small headers: `Depth`, `Overwrite`, `Timeout`, `Lock-Token`, `Content-Range` and times set by clients.

use crate::limits::LOCK_SECONDS_DEFAULT;
use holdfast_base::limits::{FILE_BYTES_MAX, LOCK_SECONDS_MAX};
use holdfast_base::{ByteRange, Error, Result};

/// The `Depth` header (RFC 4918 section 10.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The resource alone.
    Zero,
    /// With its members.
    One,
    /// With everything below it.
    Infinity,
}

/// Reads `Depth`.
pub fn depth(text: &str) -> Result<Depth> {
    match text.trim() {
        "0" => Ok(Depth::Zero),
        "1" => Ok(Depth::One),
        text if text.eq_ignore_ascii_case("infinity") => Ok(Depth::Infinity),
        _ => Err(Error::invalid("the Depth header is 0, 1 or infinity")),
    }
}

/// Reads `Overwrite` (RFC 4918 section 10.6).
pub fn overwrite(text: &str) -> Result<bool> {
    match text.trim() {
        "T" | "t" => Ok(true),
        "F" | "f" => Ok(false),
        _ => Err(Error::invalid("the Overwrite header is T or F")),
    }
}

/// Reads `Timeout` (RFC 4918 section 10.7): the first entry understood counts, at least a second and at most what the drive
/// allows. A header without such an entry is like none.
pub fn timeout_s(text: &str) -> u32 {
    let seconds = text.split(',').map(str::trim).find_map(|entry| {
        if entry.eq_ignore_ascii_case("infinite") {
            return Some(LOCK_SECONDS_MAX);
        }
        let (word, digits) = entry.split_once('-')?;
        let understood = word.eq_ignore_ascii_case("second")
            && !digits.is_empty()
            && digits.bytes().all(|digit| digit.is_ascii_digit());
        understood.then(|| digits.parse().unwrap_or(u32::MAX))
    });
    seconds.unwrap_or(LOCK_SECONDS_DEFAULT).clamp(1, LOCK_SECONDS_MAX)
}

/// Reads `Lock-Token` (RFC 4918 section 10.5): a token in angle brackets.
pub fn lock_token(text: &str) -> Result<&str> {
    text.trim()
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'))
        .filter(|token| !token.is_empty() && !token.contains(['<', '>']))
        .ok_or_else(|| Error::invalid("the Lock-Token header is a token in angle brackets: <urn:uuid:…>"))
}

/// The `Content-Range` of a partial PUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// The bytes the body replaces; never empty.
    pub range: ByteRange,
    /// The file's size afterwards, if it was stated.
    pub total: Option<u64>,
}

/// Reads `Content-Range: bytes a-b/total` or `bytes a-b/*` (RFC 9110 section 14.4).
pub fn content_range(text: &str) -> Result<ContentRange> {
    let bad = || Error::invalid("the Content-Range header is written bytes FIRST-LAST/TOTAL, or /* for TOTAL");
    let rest = text.trim();
    let (unit, rest) = rest.split_once([' ', '\t']).ok_or_else(bad)?;
    let (range, total) = rest.trim().split_once('/').ok_or_else(bad)?;
    let (first, last) = range.split_once('-').ok_or_else(bad)?;
    let (first, last) = (number(first).ok_or_else(bad)?, number(last).ok_or_else(bad)?);
    let total = if total == "*" { None } else { Some(number(total).ok_or_else(bad)?) };
    if !unit.eq_ignore_ascii_case("bytes") || last < first || last >= FILE_BYTES_MAX {
        return Err(bad());
    }
    if total.is_some_and(|total| last >= total) {
        return Err(Error::invalid("the Content-Range header states a total that ends before the range does"));
    }
    Ok(ContentRange { range: ByteRange { start: first, end: last + 1 }, total })
}

/// Reads seconds since 1970, with a fraction or without, in milliseconds: `X-OC-Mtime`, and `lastmodified` as rclone sets it.
pub fn mtime_ms(text: &str) -> Result<i64> {
    let bad = || Error::invalid("a modification time is written in seconds since 1970");
    let text = text.trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) || (fraction.is_empty() && text.contains('.')) {
        return Err(bad());
    }
    let milliseconds =
        format!("{fraction:0<3}").get(..3).and_then(|digits| digits.parse::<i64>().ok()).ok_or_else(bad)?;
    let seconds = whole.parse::<i64>().map_err(|_| bad())?;
    let milliseconds = if whole.starts_with('-') { -milliseconds } else { milliseconds };
    seconds.checked_mul(1_000).and_then(|ms| ms.checked_add(milliseconds)).ok_or_else(bad)
}

/// Reads the value of `Win32LastModifiedTime` or `getlastmodified`: an HTTP date.
pub fn win32_time_ms(text: &str) -> Option<i64> {
    holdfast_http::dates::parse_http_s(text)?.checked_mul(1_000)
}

fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timeouts_are_capped_and_never_zero() {
        for (text, seconds) in [
            ("Second-600", 600),
            ("Infinite, Second-4100000000", LOCK_SECONDS_MAX),
            ("Second-99999999999999", LOCK_SECONDS_MAX),
            ("Second-0", 1),
            ("Extend, second-5", 5),
            ("", LOCK_SECONDS_DEFAULT),
            ("Second-", LOCK_SECONDS_DEFAULT),
        ] {
            assert_eq!(timeout_s(text), seconds, "{text}");
        }
    }

    #[test]
    fn content_ranges_are_read_exactly() {
        let read = content_range("bytes 5-9/20").expect("reads");
        assert_eq!((read.range.start, read.range.end, read.total), (5, 10, Some(20)));
        assert_eq!(content_range("bytes 0-0/*").expect("reads").total, None);
        for bad in
            ["bytes 9-5/20", "bytes 5-9/9", "lines 5-9/20", "bytes */20", "bytes=5-9/20", "bytes 5-9", "bytes -/*"]
        {
            assert!(content_range(bad).is_err(), "{bad}");
        }
        assert!(content_range(&format!("bytes 0-{}/*", u64::MAX)).is_err());
    }

    #[test]
    fn client_times_are_seconds_with_or_without_a_fraction() {
        for (text, ms) in
            [("0", 0), ("1700000000", 1_700_000_000_000), ("1.5", 1_500), ("-1.25", -1_250), ("2.12345", 2_123)]
        {
            assert_eq!(mtime_ms(text).expect(text), ms, "{text}");
        }
        for bad in ["", "x", "1.", "1.x", "9223372036854775807", "1e9"] {
            assert!(mtime_ms(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}", digits in "(bytes )?[0-9/*.-]{0,40}") {
            for text in [text.as_str(), digits.as_str()] {
                let _ = (depth(text), overwrite(text), timeout_s(text), lock_token(text), content_range(text));
                let _ = (mtime_ms(text), win32_time_ms(text));
            }
        }
    }
}
