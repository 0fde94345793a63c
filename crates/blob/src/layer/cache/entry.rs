//! An entry of the log: a head that says which range of which pack follows, with a sum of the bytes and one of itself.
//!
//! | bytes | |
//! |---|---|
//! | 4 | magic |
//! | 16 | pack |
//! | 8 | offset |
//! | 4 | length; all ones: the pack was removed, and nothing follows |
//! | 8 | XXH3-64 of the bytes |
//! | 8 | XXH3-64 of the head before this |

use holdfast_base::PackName;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 4] = *b"HFC1";

/// Bytes of a head.
pub(super) const HEAD_BYTES: usize = 48;

const REMOVED: u32 = u32::MAX;

/// A range of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) name: PackName,
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl Key {
    /// A range that can be kept: not empty, and of a length that a head can hold.
    pub(super) fn of(name: PackName, offset: u64, len: usize) -> Option<Self> {
        let len = u32::try_from(len).ok().filter(|len| (1..REMOVED).contains(len))?;
        Some(Self { name, offset, len })
    }
}

/// What a head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// A range follows, with this sum.
    Range(Key, u64),
    /// The pack was removed.
    Removed(PackName),
}

impl Head {
    /// Bytes after the head.
    pub(super) const fn body_bytes(self) -> u64 {
        match self {
            Self::Range(key, _) => key.len as u64,
            Self::Removed(_) => 0,
        }
    }

    pub(super) fn encode(self) -> [u8; HEAD_BYTES] {
        let (name, offset, len, sum) = match self {
            Self::Range(key, sum) => (key.name, key.offset, key.len, sum),
            Self::Removed(name) => (name, 0, REMOVED, 0),
        };
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&MAGIC);
        head[4..20].copy_from_slice(&name.0);
        head[20..28].copy_from_slice(&offset.to_le_bytes());
        head[28..32].copy_from_slice(&len.to_le_bytes());
        head[32..40].copy_from_slice(&sum.to_le_bytes());
        let own = xxh3_64(&head[..40]);
        head[40..].copy_from_slice(&own.to_le_bytes());
        head
    }

    pub(super) fn decode(head: &[u8; HEAD_BYTES]) -> Option<Self> {
        let number = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        if head[..4] != MAGIC || number(40)? != xxh3_64(&head[..40]) {
            return None;
        }
        let name = PackName::from_slice(&head[4..20]).ok()?;
        match head[28..32].try_into().map(u32::from_le_bytes).ok()? {
            REMOVED => Some(Self::Removed(name)),
            len => Some(Self::Range(Key { name, offset: number(20)?, len }, number(32)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_read_back_and_a_flipped_bit_is_seen() {
        let name = PackName([7; 16]);
        let key = Key::of(name, 1 << 40, 12).expect("a range");
        for head in [Head::Range(key, 99), Head::Removed(name)] {
            let encoded = head.encode();
            assert_eq!(Head::decode(&encoded), Some(head));
            for bit in 0..HEAD_BYTES * 8 {
                let mut flipped = encoded;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Head::decode(&flipped), None, "bit {bit}");
            }
        }
    }
}
