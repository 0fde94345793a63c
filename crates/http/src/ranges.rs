//! The `Range` header (RFC 9110 section 14.2) against a file of known size.
//!
//! What cannot be understood is ignored, as the RFC has it: another unit, a broken list, more than [`RANGES_MAX`] ranges (the
//! whole file then answers what a hostile header asked for in pieces). Ranges that overlap or nearly touch become one;
//! if there is such a pair the parts come in order of position, else in the order asked for.

use crate::limits::{RANGE_GAP_BYTES, RANGES_MAX};
use holdfast_base::ByteRange;

/// What a `Range` header asks of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeRequest {
    /// No header that counts: the whole file.
    Whole,
    /// These ranges, none empty, none overlapping: at least one.
    Parts(Vec<ByteRange>),
    /// Ranges, and not one of them is in the file: 416.
    Unsatisfiable,
}

/// Reads a `Range` header for a file of `size` bytes.
pub fn ranges(text: &str, size: u64) -> RangeRequest {
    let Some(list) = strip_unit(text.trim()) else { return RangeRequest::Whole };
    let mut parts = Vec::new();
    let mut asked = 0;
    for spec in list.split(',').map(str::trim).filter(|spec| !spec.is_empty()) {
        asked += 1;
        if asked > RANGES_MAX {
            return RangeRequest::Whole;
        }
        // Empty: the spec is lawful and lies outside the file.
        match one(spec, size) {
            None => return RangeRequest::Whole,
            Some(range) => parts.extend((!range.is_empty()).then_some(range)),
        }
    }
    if asked == 0 {
        return RangeRequest::Whole;
    }
    if parts.is_empty() {
        // A suffix of an empty file could be satisfied, but no Content-Range can say so; 416 says the size as well.
        return RangeRequest::Unsatisfiable;
    }
    RangeRequest::Parts(coalesce(parts))
}

fn strip_unit(text: &str) -> Option<&str> {
    let (unit, list) = text.split_once('=')?;
    unit.trim().eq_ignore_ascii_case("bytes").then_some(list)
}

/// One range-spec, clipped to the file; none if it is malformed.
fn one(spec: &str, size: u64) -> Option<ByteRange> {
    let (first, last) = spec.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        return Some(ByteRange { start: size.saturating_sub(number(last)?), end: size });
    }
    let start = number(first)?;
    let end = if last.is_empty() { u64::MAX } else { number(last)?.saturating_add(1) };
    (start < end || end == u64::MAX).then(|| ByteRange { start: start.min(size), end: end.min(size) })
}

/// Digits only (no sign); a number beyond 64 bits is as good as the largest one.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

fn coalesce(parts: Vec<ByteRange>) -> Vec<ByteRange> {
    let mut sorted = parts.clone();
    sorted.sort_unstable_by_key(|part| (part.start, part.end));
    let mut merged: Vec<ByteRange> = Vec::with_capacity(sorted.len());
    for part in sorted {
        match merged.last_mut() {
            Some(last) if part.start <= last.end.saturating_add(RANGE_GAP_BYTES) => last.end = last.end.max(part.end),
            _ => merged.push(part),
        }
    }
    if merged.len() == parts.len() { parts } else { merged }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(text: &str, size: u64) -> Vec<(u64, u64)> {
        match ranges(text, size) {
            RangeRequest::Parts(parts) => parts.iter().map(|part| (part.start, part.end)).collect(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_form_of_a_range_is_read() {
        assert_eq!(parts("bytes=0-0", 10), [(0, 1)]);
        assert_eq!(parts("Bytes = 2-", 10), [(2, 10)]);
        assert_eq!(parts("bytes=-3", 10), [(7, 10)]);
        assert_eq!(parts("bytes=-30", 10), [(0, 10)]);
        assert_eq!(parts("bytes=5-99999999999999999999", 10), [(5, 10)]);
        assert_eq!(parts("bytes=500-600, 0-0,,300-310", 1_000), [(500, 601), (0, 1), (300, 311)]);
    }

    #[test]
    fn far_ranges_keep_their_order_and_near_ones_become_one() {
        assert_eq!(parts("bytes=5000-5001,0-1", 10_000), [(5_000, 5_002), (0, 2)]);
        assert_eq!(parts("bytes=5000-5001,0-10,5-20", 10_000), [(0, 21), (5_000, 5_002)]);
    }

    #[test]
    fn what_cannot_be_understood_is_ignored() {
        for text in ["lines=1-2", "bytes", "bytes=", "bytes=a-b", "bytes=5-2", "bytes=--1", "bytes=+1-2", "bytes=-"] {
            assert_eq!(ranges(text, 10), RangeRequest::Whole, "{text}");
        }
        let many = format!("bytes={}", "0-0,".repeat(RANGES_MAX + 1));
        assert_eq!(ranges(&many, 10), RangeRequest::Whole);
    }

    #[test]
    fn ranges_outside_the_file_are_unsatisfiable() {
        for (text, size) in
            [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-5", 0), ("bytes=10-11,12-", 10)]
        {
            assert_eq!(ranges(text, size), RangeRequest::Unsatisfiable, "{text}");
        }
        assert_eq!(parts("bytes=10-11,3-4", 10), [(3, 5)]);
    }

    proptest! {
        #[test]
        fn parts_are_never_empty_and_never_overlap(text in "bytes=[0-9, -]{0,60}", size in 0u64..2_000) {
            if let RangeRequest::Parts(mut parts) = ranges(&text, size) {
                prop_assert!(!parts.is_empty() && parts.len() <= RANGES_MAX);
                parts.sort_unstable_by_key(|part| part.start);
                prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= size));
                prop_assert!(parts.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
        }

        #[test]
        fn any_text_is_read(text in ".{0,60}", size: u64) {
            let _ = ranges(&text, size);
        }
    }
}
