//! Public keys as authenticators write them: COSE (RFC 9052, RFC 8152 section 13).
//!
//! Such a key is one CBOR map of numbers to numbers and byte strings, four or five of them, always of known length. That part of CBOR is
//! read here; a library for all of it would be many times the size of this, for nothing that is sent to us.

use holdfast_base::{Error, Result};
use holdfast_seal::proof::PublicKey;

/// Entries of a map at most.
const ENTRIES_MAX: u64 = 8;

const KEY_TYPE: i64 = 1;
const ALGORITHM: i64 = 3;
const ES256: i64 = -7;
const EDDSA: i64 = -8;
const RS256: i64 = -257;

/// The algorithms that are accepted, the best liked first.
pub const ALGORITHMS: [i64; 3] = [ES256, EDDSA, RS256];

enum Item<'a> {
    Number(i64),
    Bytes(&'a [u8]),
}

/// Reads a key.
pub(super) fn parse(key: &[u8]) -> Result<PublicKey> {
    let (entries, rest) = map(key).ok_or_else(malformed)?;
    if !rest.is_empty() {
        return Err(malformed());
    }
    let number = |wanted| {
        entries.iter().find_map(|(name, item)| match item {
            Item::Number(number) if *name == wanted => Some(*number),
            _ => None,
        })
    };
    let bytes = |wanted| {
        entries.iter().find_map(|(name, item)| match item {
            Item::Bytes(bytes) if *name == wanted => Some(*bytes),
            _ => None,
        })
    };
    match (number(KEY_TYPE), number(ALGORITHM), number(-1)) {
        (Some(2), Some(ES256), Some(1)) => {
            let (x, y) = (bytes(-2).ok_or_else(malformed)?, bytes(-3).ok_or_else(malformed)?);
            let point = [x, y].concat().try_into().map_err(|_| malformed())?;
            if x.len() == 32 { Ok(PublicKey::P256(point)) } else { Err(malformed()) }
        }
        (Some(1), Some(EDDSA), Some(6)) => {
            let key = bytes(-2).and_then(|key| key.try_into().ok());
            key.map(PublicKey::Ed25519).ok_or_else(malformed)
        }
        (Some(3), Some(RS256), _) => {
            let (modulus, exponent) = (bytes(-1).ok_or_else(malformed)?, bytes(-2).ok_or_else(malformed)?);
            Ok(PublicKey::Rsa { modulus: modulus.to_vec(), exponent: exponent.to_vec() })
        }
        _ => Err(Error::invalid("the passkey's key is of a kind that is not known here")),
    }
}

/// The bytes of the key at the beginning; extensions may follow.
pub(super) fn first(bytes: &[u8]) -> Result<&[u8]> {
    let (_, rest) = map(bytes).ok_or_else(malformed)?;
    Ok(&bytes[..bytes.len() - rest.len()])
}

type Entries<'a> = Vec<(i64, Item<'a>)>;

fn map(bytes: &[u8]) -> Option<(Entries<'_>, &[u8])> {
    let (5, count, mut rest) = head(bytes)? else { return None };
    if count > ENTRIES_MAX {
        return None;
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let (name, after) = item(rest)?;
        let (value, after) = item(after)?;
        let Item::Number(name) = name else { return None };
        entries.push((name, value));
        rest = after;
    }
    Some((entries, rest))
}

fn item(bytes: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (kind, value, rest) = head(bytes)?;
    match kind {
        0 => Some((Item::Number(i64::try_from(value).ok()?), rest)),
        1 => Some((Item::Number(-1 - i64::try_from(value).ok()?), rest)),
        2 => {
            let (bytes, rest) = rest.split_at_checked(usize::try_from(value).ok()?)?;
            Some((Item::Bytes(bytes), rest))
        }
        _ => None,
    }
}

/// The kind of an item and its number, which is a value, a length or a count.
fn head(bytes: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (length, low) = match first & 31 {
        low @ 0..24 => (0, u64::from(low)),
        24 => (1, 0),
        25 => (2, 0),
        26 => (4, 0),
        _ => return None,
    };
    let (number, rest) = rest.split_at_checked(length)?;
    Some((first >> 5, number.iter().fold(low, |value, &byte| value << 8 | u64::from(byte)), rest))
}

fn malformed() -> Error {
    Error::invalid("the passkey's key is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn p256() -> Vec<u8> {
        let head = [0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32];
        [&head[..], &[7; 32], &[0x22, 0x58, 32], &[8; 32]].concat()
    }

    #[test]
    fn keys_of_three_kinds_are_read() {
        let mut point = [7; 64];
        point[32..].fill(8);
        assert_eq!(parse(&p256()).expect("reads"), PublicKey::P256(point));
        let ed = [&[0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 32][..], &[9; 32]].concat();
        assert_eq!(parse(&ed).expect("reads"), PublicKey::Ed25519([9; 32]));
        let rsa = [&[0xa4, 1, 3, 3, 0x39, 1, 0, 0x20, 0x59, 1, 0][..], &[5; 256], &[0x21, 0x43, 1, 0, 1]].concat();
        assert_eq!(parse(&rsa).expect("reads"), PublicKey::Rsa { modulus: vec![5; 256], exponent: vec![1, 0, 1] });
    }

    #[test]
    fn a_key_ends_where_extensions_begin() {
        let key = p256();
        let both = [&key[..], &[0xa1, 0x61, b'x', 1]].concat();
        assert_eq!(first(&both).expect("reads"), key);
        assert!(parse(&both).is_err());
        for cut in 0..key.len() {
            assert!(first(&key[..cut]).is_err() && parse(&key[..cut]).is_err(), "{cut}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_without_panic(bytes: Vec<u8>) {
            let _ = (parse(&bytes), first(&bytes));
        }
    }
}
