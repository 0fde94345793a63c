//! Identifiers. Catalogue rows are numbered (`i64`, the integer both databases share); things that must stay unique
//! across drives, or be recognised outside the catalogue, carry random or hashed bytes.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! row_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        })*
    };
}

row_id! {
    /// An account's row.
    AccountId;
    /// A space's row.
    SpaceId;
    /// A node's row; stable for the node's life, through renames and moves.
    NodeId;
    /// A content's row: the bytes of one or more file versions.
    ContentId;
    /// A pack's row.
    PackId;
}

macro_rules! byte_id {
    ($($(#[$doc:meta])* $name:ident, $len:literal;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// Length in bytes.
            pub const BYTES: usize = $len;

            /// Reads exactly [`Self::BYTES`] bytes.
            pub fn from_slice(bytes: &[u8]) -> Result<Self> {
                bytes.try_into().map(Self).map_err(|_| {
                    Error::damaged(format!("{} needs {} bytes, got {}", stringify!($name), $len, bytes.len()))
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                let mut bytes = [0u8; $len];
                if text.len() != 2 * $len || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return Err(Error::invalid(format!("{} is {} hexadecimal digits", stringify!($name), 2 * $len)));
                }
                for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
                    *byte = std::str::from_utf8(pair)
                        .ok()
                        .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                        .ok_or_else(|| Error::invalid(format!("{text:?} is not hexadecimal")))?;
                }
                Ok(Self(bytes))
            }
        })*
    };
}

byte_id! {
    /// A block's id: BLAKE3 of its plaintext, keyed with a key of its space.
    BlockId, 32;
    /// A random name that stays unique across drives (a space's or an account's); bound into sealed things.
    Uid, 16;
    /// A pack's random name in the store.
    PackName, 16;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_ids_round_trip_through_hexadecimal() {
        let uid = Uid([0xab; 16]);
        assert_eq!(uid.to_string().parse::<Uid>().expect("own output parses"), uid);
    }

    #[test]
    fn a_byte_id_of_the_wrong_length_or_alphabet_is_refused() {
        for text in ["", "ab", "zz".repeat(16).as_str(), "é".repeat(16).as_str(), "+f".repeat(16).as_str()] {
            assert!(text.parse::<Uid>().is_err(), "{text:?}");
        }
    }
}
