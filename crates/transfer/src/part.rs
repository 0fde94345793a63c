//! Names of what is on its way in: `.NAME.<16 hexadecimal digits>.part`, and `.journal` beside it.
//!
//! The first eight digits are of the whole name, so that names which are shortened alike are still told apart; the other eight are of the key, so
//! that another version of the same file is not taken for this one. The journal has the whole key and decides.

use holdfast_base::NodeName;
use holdfast_base::limits::NAME_BYTES_MAX;
use std::fmt::Write;

/// What a part file ends in.
pub(crate) const PART: &str = ".part";
/// What its journal ends in.
pub(crate) const JOURNAL: &str = ".journal";
/// Digits between two dots.
const DIGITS: usize = 16;

/// Names of one part and its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartName {
    stem: String,
    /// What every part of the same target begins with.
    of_target: usize,
}

impl PartName {
    pub(crate) fn new(target: &NodeName, key: &str) -> Self {
        let room = NAME_BYTES_MAX - 1 - 1 - DIGITS - JOURNAL.len();
        let name = target.as_str();
        let mut stem = format!(".{}.{}", &name[..name.floor_char_boundary(room)], digits(name.as_bytes()));
        let of_target = stem.len();
        stem.push_str(&digits(key.as_bytes()));
        Self { stem, of_target }
    }

    pub(crate) fn part(&self) -> String {
        format!("{}{PART}", self.stem)
    }

    pub(crate) fn journal(&self) -> String {
        format!("{}{JOURNAL}", self.stem)
    }

    /// Whether `name` is the part or journal of another version of the same target.
    pub(crate) fn is_stale(&self, name: &str) -> bool {
        is_part(name) && name.starts_with(&self.stem[..self.of_target]) && !name.starts_with(&self.stem)
    }
}

fn digits(of: &[u8]) -> String {
    blake3::hash(of).as_bytes()[..DIGITS / 4].iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a name is of a part file or journal: such are neither listed nor moved.
pub(crate) fn is_part(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(PART).or_else(|| name.strip_suffix(JOURNAL)) else { return false };
    let bytes = stem.as_bytes();
    let Some(dot) = bytes.len().checked_sub(DIGITS + 1).filter(|dot| *dot > 1) else { return false };
    bytes[0] == b'.' && bytes[dot] == b'.' && bytes[dot + 1..].iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, key: &str) -> PartName {
        PartName::new(&NodeName::new(name).expect(name), key)
    }

    #[test]
    fn parts_of_any_name_are_names_and_are_known_as_parts() {
        for name in ["a", ".a", "é.txt", &"x".repeat(255), &"é".repeat(127)] {
            let part = named(name, "key");
            for made in [part.part(), part.journal()] {
                assert!(NodeName::new(&made).is_ok() && is_part(&made), "{made}");
            }
        }
        for other in
            ["a", ".part", ".a.part", ".a.0123456789abcde.part", "a.0123456789abcdef.part", ".a.0123456789ABCDEF.part"]
        {
            assert!(!is_part(other), "{other}");
        }
    }

    #[test]
    fn another_version_of_the_same_target_is_stale_and_nothing_else_is() {
        let mine = named("a", "new");
        assert!(mine.is_stale(&named("a", "old").part()) && mine.is_stale(&named("a", "old").journal()));
        assert!(!mine.is_stale(&mine.part()) && !mine.is_stale(&mine.journal()));
        assert!(!mine.is_stale(&named("b", "old").part()) && !mine.is_stale("a") && !mine.is_stale(".a.part"));
        let (long, like_it) = ("x".repeat(255), format!("{}y", "x".repeat(254)));
        assert!(!named(&long, "k").is_stale(&named(&like_it, "l").part()));
    }
}
