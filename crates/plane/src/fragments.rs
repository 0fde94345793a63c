//! A set of small numbers: which fragments of a unit are there.

/// Bits `0..len`, each set or not, and how many are set.
#[derive(Debug, Clone)]
pub(crate) struct Fragments {
    words: Vec<u64>,
    len: usize,
    set: usize,
}

impl Fragments {
    pub(crate) fn none(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len, set: 0 }
    }

    pub(crate) fn contains(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Sets a bit; whether it was not set before. A number beyond the end is not set.
    pub(crate) fn insert(&mut self, at: usize) -> bool {
        if at >= self.len || self.contains(at) {
            return false;
        }
        self.words[at / 64] |= 1 << (at % 64);
        self.set += 1;
        true
    }

    pub(crate) fn is_full(&self) -> bool {
        self.set == self.len
    }

    /// The first number at or after `from` that is not set.
    pub(crate) fn next_missing(&self, from: usize) -> Option<usize> {
        (from..self.len).find(|at| !self.contains(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_up_once() {
        let mut fragments = Fragments::none(130);
        assert!(fragments.insert(129) && !fragments.insert(129) && !fragments.insert(130));
        assert_eq!(fragments.next_missing(129), None);
        (0..129).for_each(|at| assert!(fragments.insert(at)));
        assert!(fragments.is_full());
    }
}
