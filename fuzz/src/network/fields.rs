//! The small headers: `Depth`, `Overwrite`, `Timeout`, `Lock-Token`, `Range`, `Content-Range`, times.

use holdfast_base::ByteRange;
use holdfast_base::limits::{FILE_BYTES_MAX, LOCK_SECONDS_MAX};
use holdfast_dav::limits::RANGES_MAX;
use holdfast_dav::parse::{
    RangeRequest, content_range, depth, lock_token, mtime_ms, overwrite, ranges, timeout_s, win32_time_ms,
};

/// Eight bytes of a file's size, then a header's value, read as every field.
pub fn fields(data: &[u8]) {
    let (size, text) = data.split_at(data.len().min(8));
    let size = size.iter().fold(0, |size, byte| size << 8 | u64::from(*byte));
    let Ok(text) = std::str::from_utf8(text) else { return };
    let _ = (depth(text), overwrite(text), win32_time_ms(text));
    assert!((1..=LOCK_SECONDS_MAX).contains(&timeout_s(text)));
    if let Ok(token) = lock_token(text) {
        assert!(!token.is_empty() && text.contains(token));
    }
    if let Ok(patch) = content_range(text) {
        assert!(!patch.range.is_empty() && patch.range.end <= FILE_BYTES_MAX);
        assert!(patch.total.is_none_or(|total| patch.range.end <= total));
    }
    if let Ok(ms) = mtime_ms(text) {
        let written =
            format!("{}{}.{:03}", if ms < 0 { "-" } else { "" }, ms.unsigned_abs() / 1_000, ms.unsigned_abs() % 1_000);
        assert_eq!(mtime_ms(&written).expect("reads what was written"), ms);
    }
    for size in [size, 0, 1, 1_000, u64::MAX] {
        if let RangeRequest::Parts(parts) = ranges(text, size) {
            check(parts, size);
        }
    }
}

/// Parts are some, none empty, none outside the file, none overlapping.
fn check(mut parts: Vec<ByteRange>, size: u64) {
    assert!(!parts.is_empty() && parts.len() <= RANGES_MAX);
    assert!(parts.iter().all(|part| part.start < part.end && part.end <= size));
    parts.sort_unstable_by_key(|part| part.start);
    assert!(parts.windows(2).all(|pair| pair[0].end <= pair[1].start));
}
