//! Sizes as people write them, and as this crate prints them.

/// Reads `100MiB`, `1GiB`, `64 KiB`, `5MB`, `4096`: powers of two with an `i`, powers of ten without.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is no size; write for example 100MiB"))?;
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        other => return Err(format!("unknown unit {other:?} in {text:?}; use KiB, MiB, GiB, kB, MB or GB")),
    };
    number.checked_mul(factor).ok_or_else(|| format!("{text:?} is too large"))
}

/// Writes a size with the largest binary unit that divides it, as used in file names and titles: `100MiB`.
pub(crate) fn size_label(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::{parse_size, size_label};

    #[test]
    fn sizes_are_read_with_binary_and_decimal_units() {
        assert_eq!(parse_size("100MiB"), Ok(104_857_600));
        assert_eq!(parse_size(" 1 GiB "), Ok(1 << 30));
        assert_eq!(parse_size("5MB"), Ok(5_000_000));
        assert_eq!(parse_size("17"), Ok(17));
    }

    #[test]
    fn sizes_that_are_no_sizes_are_refused_with_a_hint() {
        for text in ["", "MiB", "-1", "3 parsecs", "99999999999GiB"] {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_label_uses_the_largest_unit_that_divides() {
        assert_eq!(size_label(1_048_576_000), "1000MiB");
        assert_eq!(size_label(1 << 30), "1GiB");
        assert_eq!(size_label(1_500), "1500B");
        assert_eq!(size_label(0), "0B");
    }
}
