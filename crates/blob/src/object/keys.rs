//! The keys of packs: a prefix, the pack's name, an ending.
//!
//! There are no folders by first byte as on a disk: object services cut their key space by load, and random names spread
//! over it by themselves. The prefix keeps several drives apart in one bucket. Keys sort as names do.

use holdfast_base::{Error, PackName, Result};

/// The ending of a pack's key, the same as of its file in a folder, so that a store can be copied by any tool.
const PACK_SUFFIX: &str = ".pack";

/// Longest prefix: S3 and Swift both take keys of 1,024 bytes; segments and marks are added to this.
pub(crate) const PREFIX_BYTES_MAX: usize = 512;

/// The keys of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    /// Keys below `prefix`: empty, or names of letters, digits and `-_.` with slashes between them.
    pub(crate) fn below(prefix: &str) -> Result<Self> {
        let prefix = prefix.trim_matches('/');
        if prefix.is_empty() {
            return Ok(Self { prefix: String::new() });
        }
        // No percent-encoding, no surprises: such names are the same in every URL, signature and list.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let good = |name: &str| !name.is_empty() && name != "." && name != ".." && name.bytes().all(plain);
        if prefix.len() > PREFIX_BYTES_MAX || !prefix.split('/').all(good) {
            return Err(Error::invalid(format!(
                "{prefix:?} cannot be a prefix: it is made of letters, digits, '-', '_' and '.', with '/' between names, and has at most {PREFIX_BYTES_MAX} bytes"
            )));
        }
        Ok(Self { prefix: format!("{prefix}/") })
    }

    /// What all keys begin with; empty or ending in a slash.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of a pack.
    pub(crate) fn of(&self, name: PackName) -> String {
        format!("{}{name}{PACK_SUFFIX}", self.prefix)
    }

    /// The pack of a key, if it is one of ours.
    pub(crate) fn name(&self, key: &str) -> Option<PackName> {
        let digits = key.strip_prefix(&self.prefix)?.strip_suffix(PACK_SUFFIX)?;
        let name: PackName = digits.parse().ok()?;
        (name.to_string() == digits).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_names_stand_for_each_other_and_nothing_else_is_taken_for_a_pack() {
        let name = PackName([0xab; 16]);
        for prefix in ["", "drive", "/a/b-c/"] {
            let keys = Keys::below(prefix).expect("a good prefix");
            assert_eq!(keys.name(&keys.of(name)), Some(name));
            for other in
                [keys.of(name).to_uppercase(), format!("x{}", keys.of(name)), keys.of(name) + "x", String::new()]
            {
                assert_eq!(keys.name(&other), None, "{other}");
            }
        }
    }

    #[test]
    fn a_prefix_that_would_need_encoding_is_refused() {
        for prefix in ["a b", "ä", "a//b", "../x", "a?b", "a%20", "a/./b"] {
            assert!(Keys::below(prefix).is_err(), "{prefix}");
        }
    }
}
