//! Names of nodes, accounts and spaces.
//!
//! A node's name is UTF-8, stored as given and compared exactly (no case folding, no normalisation): what a client wrote is what
//! it reads back. Refused are only names that cannot be carried everywhere: empty, `.` and `..`, a slash, control
//! characters (XML 1.0 has no way to write them), and more than [`NAME_BYTES_MAX`] bytes.

use crate::limits::{ACCOUNT_NAME_BYTES_MAX, NAME_BYTES_MAX};
use crate::{Error, ErrorKind, Result};
use std::borrow::Borrow;
use std::fmt;

/// Longest extension that a number is put before, with its dot.
const EXTENSION_BYTES_MAX: usize = 32;

/// The name of a node in its folder.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Box<str>);

impl NodeName {
    /// Checks `name` against the rules above.
    pub fn new(name: &str) -> Result<Self> {
        if name.is_empty() {
            return Err(Error::invalid("a name cannot be empty"));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("a name can have {NAME_BYTES_MAX} bytes at most; this one has {}", name.len()),
            ));
        }
        if name == "." || name == ".." {
            return Err(Error::invalid("\".\" and \"..\" cannot be used as names"));
        }
        if name.contains('/') || name.chars().any(|c| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')) {
            return Err(Error::invalid(format!("the name {name:?} has a slash or a control character in it")));
        }
        Ok(Self(name.into()))
    }

    /// The name that stands beside this one when both are kept: `name (2).ext` for 2. It is shortened before the number where it would be
    /// longer than a name can be.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Self {
        self.marked(format_args!("({number})"))
    }

    /// The same with another mark, of a few characters that a name may have, in place of a number in parentheses.
    #[must_use]
    pub fn marked(&self, mark: impl fmt::Display) -> Self {
        // A dot that begins a name is no extension, nor is what is longer than extensions are.
        let dot = self.0.rfind('.').filter(|dot| *dot > 0 && self.0.len() - dot <= EXTENSION_BYTES_MAX);
        let (stem, extension) = self.0.split_at(dot.unwrap_or(self.0.len()));
        let suffix = format!(" {mark}{extension}");
        let stem = &stem[..stem.floor_char_boundary(NAME_BYTES_MAX - suffix.len())];
        Self(format!("{stem}{suffix}").into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Borrow<str> for NodeName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for NodeName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Checks the name of an account or space: 1 to 64 bytes of letters and digits (any script), `.`, `-`, `_`, `@`, not
/// starting with a dot or dash, so that it is a clean URL segment, a file name, and never looks like an option.
pub fn check_account_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    if name.is_empty() || name.len() > ACCOUNT_NAME_BYTES_MAX {
        return Err(Error::invalid(format!("an account or space name has 1 to {ACCOUNT_NAME_BYTES_MAX} bytes")));
    }
    if name.starts_with(['.', '-']) || !name.chars().all(allowed) {
        return Err(Error::invalid(format!(
            "{name:?} cannot be an account or space name: use letters, digits, '.', '-', '_' and '@', not starting with '.' or '-'"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_carried_everywhere_are_refused() {
        for bad in ["", ".", "..", "a/b", "a\0b", "line\nbreak", "\u{7f}", "\u{ffff}"] {
            assert_eq!(NodeName::new(bad).expect_err(bad).kind(), ErrorKind::InvalidInput, "{bad:?}");
        }
        assert_eq!(NodeName::new(&"x".repeat(256)).expect_err("too long").kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn names_are_kept_exactly_as_given() {
        for good in ["a", "...", " leading and trailing ", "e\u{301}", "é", "100%25+&\"'<>", "💾", &"é".repeat(127)]
        {
            assert_eq!(NodeName::new(good).expect(good).as_str(), good);
        }
    }

    #[test]
    fn a_number_stands_before_the_extension_and_the_name_stays_a_name() {
        let numbered = |name: &str, number| NodeName::new(name).expect(name).numbered(number).as_str().to_owned();
        assert_eq!(numbered("a.txt", 2), "a (2).txt");
        assert_eq!(numbered("a.b.txt", 10), "a.b (10).txt");
        assert_eq!(numbered(".profile", 2), ".profile (2)");
        assert_eq!(numbered("folder", 3), "folder (3)");
        for long in
            ["x".repeat(255), "é".repeat(127), format!("{}.txt", "é".repeat(125)), format!(".{}", "y".repeat(254))]
        {
            let name = numbered(&long, u32::MAX);
            assert!(NodeName::new(&name).is_ok_and(|name| name.as_str().contains(" (4294967295)")), "{name}");
        }
    }

    #[test]
    fn account_names_are_url_segments() {
        assert!(check_account_name("ana.müller@lab").is_ok());
        for bad in ["", "-x", ".x", "a b", "a/b", "a%b", &"x".repeat(65)] {
            assert!(check_account_name(bad).is_err(), "{bad:?}");
        }
    }
}
