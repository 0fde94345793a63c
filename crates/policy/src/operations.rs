//! Sets of operations, and the words for the sets that people mean.
//!
//! A single word in a policy is a group of operations, a list names operations one by one: `"read"` is everything that only reads,
//! `["read"]` is the operation `read` alone.

use crate::Operation;
use std::fmt;

/// A set of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operations(u32);

/// Words of the short form, smallest set first, with what each is.
pub const GROUPS: [(&str, Operations); 6] = [
    ("none", Operations::NONE),
    ("list", Operations::LIST),
    ("read", Operations::READ),
    ("read+exec", Operations::READ_EXEC),
    ("write", Operations::WRITE),
    ("all", Operations::ALL),
];

impl Operations {
    /// No operation.
    pub const NONE: Self = Self(0);
    /// Every operation.
    pub const ALL: Self = Self((1 << Operation::ALL.len()) - 1);
    /// What the folders on the way to something need: that a name is there, and what it is.
    pub const WAY: Self = Self::of(&[Operation::Lookup, Operation::Getattr]);
    /// Names and attributes, and no content.
    pub const LIST: Self = Self::of(&[Operation::Lookup, Operation::Getattr, Operation::Readdir, Operation::Statfs]);
    /// Everything that only reads. Syncing and seeking change nothing in a file that cannot be written.
    pub const READ: Self =
        Self::of(&[Operation::Read, Operation::Mmap, Operation::Llseek, Operation::Fsync]).with(Self::LIST);
    /// Everything that only reads, and executing.
    pub const READ_EXEC: Self = Self::of(&[Operation::Exec]).with(Self::READ);
    /// Everything but executing.
    pub const WRITE: Self = Self::ALL.without(Self::of(&[Operation::Exec]));
    /// What changes something: neither reading nor executing.
    pub const CHANGE: Self = Self::ALL.without(Self::READ_EXEC);

    /// The set of some operations.
    pub const fn of(operations: &[Operation]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < operations.len() {
            bits |= 1 << (operations[index] as u32);
            index += 1;
        }
        Self(bits)
    }

    /// What is in either.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in this one and not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether an operation is in it.
    pub const fn has(self, operation: Operation) -> bool {
        self.0 & (1 << (operation as u32)) != 0
    }

    /// Whether all of another set is in it.
    pub const fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// A number for the set, to sort by.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Its operations, in the order of the enumeration.
    pub fn iter(self) -> impl Iterator<Item = Operation> {
        Operation::ALL.into_iter().filter(move |operation| self.has(*operation))
    }

    /// The word for exactly this set, if there is one.
    pub fn group(self) -> Option<&'static str> {
        GROUPS.iter().find(|(_, set)| *set == self).map(|(word, _)| *word)
    }

    /// The smallest group that holds all of it.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        GROUPS.iter().find(|(_, set)| set.covers(self)).map_or(Self::ALL, |(_, set)| *set)
    }
}

impl FromIterator<Operation> for Operations {
    fn from_iter<I: IntoIterator<Item = Operation>>(operations: I) -> Self {
        operations.into_iter().fold(Self::NONE, |set, operation| set.with(Self::of(&[operation])))
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => out.write_str("everything"),
            Self::NONE => out.write_str("nothing"),
            _ => {
                let names: Vec<_> = self.iter().map(Operation::name).collect();
                out.write_str(&names.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_rounds_up_to_the_smallest_word_that_holds_it() {
        assert_eq!(Operations::of(&[Operation::Getattr]).rounded_up().group(), Some("list"));
        assert_eq!(Operations::of(&[Operation::Mmap]).rounded_up().group(), Some("read"));
        assert_eq!(Operations::of(&[Operation::Exec]).rounded_up().group(), Some("read+exec"));
        assert_eq!(Operations::of(&[Operation::Unlink]).rounded_up().group(), Some("write"));
        assert_eq!(Operations::of(&[Operation::Unlink, Operation::Exec]).rounded_up().group(), Some("all"));
        assert_eq!(Operations::NONE.rounded_up().group(), Some("none"));
    }

    #[test]
    fn groups_part_the_operations_without_rest() {
        assert_eq!(Operations::CHANGE.with(Operations::READ_EXEC), Operations::ALL);
        assert!(Operations::CHANGE.and(Operations::READ_EXEC).is_empty());
        assert_eq!(Operations::ALL.iter().collect::<Operations>(), Operations::ALL);
    }
}
