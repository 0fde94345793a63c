//! Sizes as people write them: `10G`, `512 MiB`, `1.5TB`.

use crate::{Error, Result};

/// Reads a size in bytes. `K`, `M`, `G`, `T`, `P` alone and with `iB` are powers of 1,024; with `B` (`KB`, `MB`) powers of
/// 1,000. A fraction is allowed and rounds down. `none` and `unlimited` are not sizes; callers handle them.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let bad = || Error::invalid(format!("{text:?} is not a size: write for example 512M, 10G, 1.5 TiB or 2TB"));
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let factor = unit_bytes(unit.trim()).ok_or_else(bad)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(bad);
    }
    let value = number.parse::<f64>().map_err(|_| bad())? * factor as f64;
    if !(0.0..9.0e18).contains(&value) {
        return Err(bad());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked against the range above")]
    Ok(value as u64)
}

fn unit_bytes(unit: &str) -> Option<u64> {
    let lower = unit.to_ascii_lowercase();
    let (prefix, base) = match lower.as_str() {
        "" | "b" => return Some(1),
        text if text.ends_with("ib") => (&text[..text.len() - 2], 1_024u64),
        text if text.ends_with('b') => (&text[..text.len() - 1], 1_000),
        text => (text, 1_024),
    };
    let power = match prefix {
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    Some(base.pow(power))
}

/// Writes a size for a person: three significant digits and a binary unit.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1_024.0;
    let mut unit = 0;
    while value >= 1_023.5 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("0", 0), ("512M", 512 << 20), ("10 GiB", 10 << 30), ("2TB", 2_000_000_000_000), ("1.5k", 1536), ("7b", 7)]
        {
            assert_eq!(parse_bytes(text).expect(text), bytes, "{text}");
        }
        for bad in ["", "x", "-1", "1..2", "5 parsecs", "99999999999P", "1e400"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_written_with_three_digits() {
        assert_eq!(
            [0, 1_023, 1_024, 10 << 20, 1_048_575].map(format_bytes),
            ["0 B", "1023 B", "1.00 KiB", "10.0 MiB", "1.00 MiB"]
        );
    }
}
