//! Random bytes as text that a person can read out and type: Crockford's base32.
//!
//! The alphabet leaves out `i`, `l`, `o` and `u`; the decoder takes capitals, reads `o` as `0` and `i` and `l` as `1`, and skips
//! dashes and spaces. Checked text ends with three more symbols, 15 bits of the bytes' BLAKE3 hash, so that a typing mistake is
//! told apart from a code that is wrong (one in 32,768 slips through).

use std::fmt;
use zeroize::Zeroizing;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Symbols of the check at the end of checked text.
const CHECK_SYMBOLS: usize = 3;

/// Why text is not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// This character is not of the alphabet.
    Symbol(char),
    /// So many symbols instead of so many.
    Length { expected: usize, found: usize },
    /// The check does not fit, or unused bits are set.
    Check,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symbol(symbol) => write!(f, "{symbol:?} does not occur in it"),
            Self::Length { expected, found } => write!(f, "it has {expected} letters and digits, here are {found}"),
            Self::Check => f.write_str("there is a typing mistake in it"),
        }
    }
}

/// How many symbols `bytes` bytes take.
pub(crate) const fn symbols(bytes: usize) -> usize {
    (bytes * 8).div_ceil(5)
}

/// Encodes, most significant bit first; the last symbol is filled up with zero bits.
pub(crate) fn encode(bytes: &[u8]) -> Zeroizing<String> {
    // Exactly sized, so that no copy is left behind by growing.
    let mut text = Zeroizing::new(String::with_capacity(symbols(bytes.len())));
    let (mut buffer, mut bits) = (0u32, 0u32);
    for &byte in bytes {
        buffer = (buffer << 8 | u32::from(byte)) & 0xfff;
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(symbol(buffer >> bits));
        }
    }
    if bits > 0 {
        text.push(symbol(buffer << (5 - bits)));
    }
    text
}

fn symbol(value: u32) -> char {
    char::from(ALPHABET[(value & 31) as usize])
}

/// Encodes with the check, in groups of five divided by dashes.
pub(crate) fn encode_checked(bytes: &[u8]) -> Zeroizing<String> {
    let (text, check) = (encode(bytes), check_of(bytes));
    let length = text.len() + CHECK_SYMBOLS;
    let mut grouped = Zeroizing::new(String::with_capacity(length + length / 5));
    for (at, symbol) in text.chars().chain(check.chars()).enumerate() {
        if at > 0 && at % 5 == 0 {
            grouped.push('-');
        }
        grouped.push(symbol);
    }
    grouped
}

/// Decodes exactly `N` bytes.
pub(crate) fn decode<const N: usize>(text: &str) -> Result<Zeroizing<[u8; N]>, Mistake> {
    let values = values(text, symbols(N))?;
    bytes_of(&values)
}

/// Decodes exactly `N` bytes and tests their check.
pub(crate) fn decode_checked<const N: usize>(text: &str) -> Result<Zeroizing<[u8; N]>, Mistake> {
    let values = values(text, symbols(N) + CHECK_SYMBOLS)?;
    let (content, check) = values.split_at(symbols(N));
    let bytes = bytes_of(content)?;
    let expected = check_of(&*bytes);
    let given: String = check.iter().map(|&value| symbol(u32::from(value))).collect();
    if given == expected { Ok(bytes) } else { Err(Mistake::Check) }
}

fn check_of(bytes: &[u8]) -> String {
    encode(&blake3::hash(bytes).as_bytes()[..2])[..CHECK_SYMBOLS].to_owned()
}

fn values(text: &str, expected: usize) -> Result<Zeroizing<Vec<u8>>, Mistake> {
    let mut values = Zeroizing::new(Vec::with_capacity(expected));
    let mut found = 0;
    for symbol in text.chars().filter(|&c| c != '-' && !c.is_whitespace()) {
        let value = value(symbol).ok_or(Mistake::Symbol(symbol))?;
        found += 1;
        if found <= expected {
            values.push(value);
        }
    }
    if found == expected { Ok(values) } else { Err(Mistake::Length { expected, found }) }
}

fn value(symbol: char) -> Option<u8> {
    let symbol = match symbol.to_ascii_lowercase() {
        'o' => '0',
        'i' | 'l' => '1',
        other => other,
    };
    ALPHABET.iter().position(|&known| char::from(known) == symbol).and_then(|at| u8::try_from(at).ok())
}

fn bytes_of<const N: usize>(values: &[u8]) -> Result<Zeroizing<[u8; N]>, Mistake> {
    let mut bytes = Zeroizing::new([0; N]);
    let (mut buffer, mut bits, mut at) = (0u32, 0u32, 0);
    for &value in values {
        buffer = (buffer << 5 | u32::from(value)) & 0xfff;
        bits += 5;
        if bits >= 8 && at < N {
            bits -= 8;
            bytes[at] = (buffer >> bits & 0xff) as u8;
            at += 1;
        }
    }
    // What is left over must be the zero bits `encode` filled up with: one text for one value.
    if at == N && buffer & ((1 << bits) - 1) == 0 { Ok(bytes) } else { Err(Mistake::Check) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn confused_letters_case_dashes_and_spaces_are_forgiven() {
        let bytes = *decode::<5>("01ab-c0de").expect("decodes");
        assert_eq!(*decode::<5>(" O-l ABcode ").expect("decodes"), bytes);
        assert_eq!(*decode::<5>("oIabcOde").expect("decodes"), bytes);
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(decode::<5>("01ab").expect_err("short"), Mistake::Length { expected: 8, found: 4 });
        assert_eq!(decode::<5>("01abc0du").expect_err("u"), Mistake::Symbol('u'));
        assert_eq!(decode::<1>("01").expect_err("set bits"), Mistake::Check);
    }

    proptest! {
        #[test]
        fn text_round_trips(bytes: [u8; 20], short: [u8; 3]) {
            prop_assert_eq!(*decode::<20>(&encode(&bytes)).expect("decodes"), bytes);
            prop_assert_eq!(*decode::<3>(&encode(&short)).expect("decodes"), short);
            prop_assert_eq!(*decode_checked::<20>(&encode_checked(&bytes)).expect("decodes"), bytes);
        }

        #[test]
        fn one_changed_symbol_is_noticed(bytes: [u8; 20], at in 0..35usize, by in 1..32usize) {
            let mut text: Vec<char> = encode_checked(&bytes).chars().filter(|&c| c != '-').collect();
            let old = value(text[at]).expect("own symbol");
            text[at] = symbol(u32::try_from((usize::from(old) + by) % 32).expect("small"));
            let changed: String = text.into_iter().collect();
            // One in 32,768 passes by design; never as the same bytes.
            prop_assert!(decode_checked::<20>(&changed).map_or(true, |other| *other != bytes));
        }

        #[test]
        fn any_text_is_refused_without_panic(text in "\\PC{0,80}") {
            let _ = decode::<20>(&text);
            let _ = decode_checked::<20>(&text);
        }
    }
}
