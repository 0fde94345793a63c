//! Paths inside a space: a list of [`NodeName`]s from the space's root. The empty path is the root.

use crate::limits::{PATH_BYTES_MAX, PATH_DEPTH_MAX};
use crate::{Error, ErrorKind, NodeName, Result};
use std::fmt;

/// A checked path inside a space.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DrivePath(Vec<NodeName>);

impl DrivePath {
    /// The root of a space.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Parses `a/b/c`. Slashes at either end and doubled slashes are ignored; `.` and `..` are refused, so a path
    /// cannot climb out of its space.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > PATH_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("a path can have {PATH_BYTES_MAX} bytes at most")));
        }
        let names = text.split('/').filter(|part| !part.is_empty()).map(NodeName::new).collect::<Result<Vec<_>>>()?;
        Self::from_names(names)
    }

    /// Makes a path of names already checked.
    pub fn from_names(names: Vec<NodeName>) -> Result<Self> {
        if names.len() > PATH_DEPTH_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("a path can be {PATH_DEPTH_MAX} levels deep at most")));
        }
        Ok(Self(names))
    }

    /// The names from the root down.
    pub fn names(&self) -> &[NodeName] {
        &self.0
    }

    /// Whether this is the space's root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The last name; none for the root.
    pub fn name(&self) -> Option<&NodeName> {
        self.0.last()
    }

    /// The folder this path is in; none for the root.
    pub fn parent(&self) -> Option<Self> {
        self.0.split_last().map(|(_, parent)| Self(parent.to_vec()))
    }

    /// The path of `name` in this folder.
    pub fn join(&self, name: NodeName) -> Result<Self> {
        let mut names = self.0.clone();
        names.push(name);
        Self::from_names(names)
    }

    /// Whether `other` is this path or below it.
    pub fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl fmt::Display for DrivePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_climb_out() {
        for bad in ["..", "a/../b", "a/..", "./a", "a/\0"] {
            assert!(DrivePath::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn slashes_at_the_ends_do_not_matter() {
        let path = DrivePath::parse("//a//b/").expect("parses");
        assert_eq!(path.to_string(), "/a/b");
        assert_eq!(path.parent().expect("has a parent").to_string(), "/a");
        assert!(DrivePath::root().contains(&path) && !path.contains(&DrivePath::root()));
    }

    #[test]
    fn depth_and_length_have_limits() {
        assert!(DrivePath::parse(&"a/".repeat(PATH_DEPTH_MAX)).is_ok());
        assert_eq!(DrivePath::parse(&"a/".repeat(PATH_DEPTH_MAX + 1)).expect_err("deep").kind(), ErrorKind::TooLarge);
        assert_eq!(DrivePath::parse(&"abc/".repeat(PATH_BYTES_MAX)).expect_err("long").kind(), ErrorKind::TooLarge);
    }
}
