//! Ids of versions and calls: the time they were made, and chance. In the order of text they are in the order of time.

use holdfast_base::{Clock, Error, Result, SystemClock};
use std::fmt;
use std::str::FromStr;

/// Digits of the time: milliseconds until the year 10889.
const TIME_DIGITS: usize = 12;
/// All digits.
const DIGITS: usize = 20;

/// An id, of 20 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    ms: u64,
    chance: u32,
}

impl Id {
    /// A new one.
    pub fn new() -> Self {
        let ms = u64::try_from(SystemClock.now_ms()).unwrap_or(0) & ((1 << (4 * TIME_DIGITS)) - 1);
        Self { ms, chance: rand::random() }
    }

    /// When it was made, in milliseconds since 1970.
    pub fn made_ms(self) -> i64 {
        i64::try_from(self.ms).unwrap_or(i64::MAX)
    }
}

impl Default for Id {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:012x}{:08x}", self.ms, self.chance)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for Id {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("{text:?} is no id: {DIGITS} hexadecimal digits"));
        let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != DIGITS || !text.bytes().all(digits) {
            return Err(wrong());
        }
        let (time, chance) = text.split_at(TIME_DIGITS);
        let ms = u64::from_str_radix(time, 16).map_err(|_| wrong())?;
        Ok(Self { ms, chance: u32::from_str_radix(chance, 16).map_err(|_| wrong())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_and_nothing_else_is_one() {
        let id = Id::new();
        assert_eq!(id.to_string().parse::<Id>().expect("own text"), id);
        for bad in ["", "..", "0123456789ABCDEF0123", "0123456789abcdef012", "+123456789abcdef0123"] {
            assert!(bad.parse::<Id>().is_err(), "{bad:?}");
        }
    }
}
