//! Names of functions: they are names of folders, parts of addresses, and words of a command line.

use holdfast_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Longest name: a label of a host name, for whoever routes by it.
const BYTES_MAX: usize = 63;

/// A function's name: lower-case letters, digits and hyphens, a letter or digit first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if text.is_empty() || text.len() > BYTES_MAX || text.starts_with('-') || !text.bytes().all(fits) {
            return Err(Error::invalid(format!(
                "{text:?} is no name of a function: up to {BYTES_MAX} lower-case letters, digits and hyphens, no hyphen first"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_plain_word() {
        for good in ["a", "resize-image", "2fa", &"x".repeat(63)] {
            assert_eq!(good.parse::<Name>().expect("good").as_str(), good);
        }
        for bad in ["", "-a", "A", "a/b", "..", ".lock", "a b", "ä", "a\0", &"x".repeat(64)] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }
}
