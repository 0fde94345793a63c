//! The locks of one file, as POSIX has them (fcntl(2)): of each owner, ranges that do not overlap; what it asks for replaces what it had there.

use super::Held;
use holdfast_base::ByteRange;

/// Locks of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges<O>(Vec<Held<O>>);

impl<O> Default for Ranges<O> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

const fn overlap(one: ByteRange, other: ByteRange) -> bool {
    one.start < other.end && other.start < one.end
}

impl<O: Copy + Eq> Ranges<O> {
    /// Locks that are in the way of one.
    pub fn conflicts(&self, wanted: Held<O>) -> impl Iterator<Item = Held<O>> + '_ {
        self.0.iter().copied().filter(move |held| {
            held.owner != wanted.owner && (held.exclusive || wanted.exclusive) && overlap(held.range, wanted.range)
        })
    }

    /// Gives an owner a range, or takes it away; what it had of it before is gone.
    pub fn set(&mut self, owner: O, range: ByteRange, exclusive: Option<bool>) {
        let (own, others): (Vec<_>, Vec<_>) = self.0.drain(..).partition(|held| held.owner == owner);
        self.0 = others;
        let mut left: Vec<Held<O>> = Vec::with_capacity(own.len() + 2);
        for held in own {
            let before = ByteRange { start: held.range.start, end: held.range.end.min(range.start) };
            let after = ByteRange { start: held.range.start.max(range.end), end: held.range.end };
            left.extend([before, after].into_iter().filter(|r| r.start < r.end).map(|range| Held { range, ..held }));
        }
        left.extend(exclusive.map(|exclusive| Held { owner, range, exclusive }));
        left.sort_by_key(|held| held.range.start);
        for held in left {
            match self.0.last_mut() {
                Some(last)
                    if last.owner == owner
                        && last.exclusive == held.exclusive
                        && last.range.end == held.range.start =>
                {
                    last.range.end = held.range.end;
                }
                _ => self.0.push(held),
            }
        }
    }

    /// Locks of an owner.
    pub fn of(&self, owner: O) -> Vec<Held<O>> {
        self.0.iter().copied().filter(|held| held.owner == owner).collect()
    }

    /// Whether an owner holds any part of a range.
    pub fn touches(&self, owner: O, range: ByteRange) -> bool {
        self.0.iter().any(|held| held.owner == owner && overlap(held.range, range))
    }

    /// Leaves an owner these, as far as it has them.
    pub fn leave_only(&mut self, owner: O, left: &[Held<O>]) {
        let had = self.of(owner);
        self.0.retain(|held| held.owner != owner);
        for (left, had) in left.iter().flat_map(|left| had.iter().map(move |had| (left, had))) {
            if overlap(left.range, had.range) {
                let range =
                    ByteRange { start: left.range.start.max(had.range.start), end: left.range.end.min(had.range.end) };
                self.set(owner, range, Some(left.exclusive && had.exclusive));
            }
        }
    }

    /// Leaves the locks of whom this is true.
    pub fn retain(&mut self, keep: impl Fn(O) -> bool) {
        self.0.retain(|held| keep(held.owner));
    }

    /// All locks.
    pub fn all(&self) -> &[Held<O>] {
        &self.0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
