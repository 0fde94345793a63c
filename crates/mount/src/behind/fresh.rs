//! Folders that were made here: while nobody else makes changes, what is in them is what was put there here, and a name that was not is asked of nobody.
//! Who makes a folder on a server has a lease of it with the answer, and so is told (docs/design/leases.md).

use holdfast_base::NodeId;
use std::collections::{HashMap, HashSet};

/// Folders and names that are remembered; at this many all are forgotten.
const REMEMBERED_MAX: usize = 64 << 10;

/// What this mount put where.
#[derive(Default)]
pub(super) struct Fresh {
    folders: HashMap<NodeId, Folder>,
    remembered: usize,
}

struct Folder {
    /// The tree's number before it was made ([`Tree::unchanged`](holdfast_drive::Tree::unchanged)).
    at: u64,
    /// Names that anything here was ever given in it, as [`key_of`](super::key_of) has them. What was removed since is asked for.
    names: HashSet<u64>,
}

impl Fresh {
    /// A folder is made, to be seen by nobody else yet.
    pub(super) fn made(&mut self, folder: NodeId, at: u64) {
        self.makes_room();
        self.folders.insert(folder, Folder { at, names: HashSet::new() });
    }

    /// Something may be given a name.
    pub(super) fn named(&mut self, folder: NodeId, key: u64) {
        self.makes_room();
        if self.folders.get_mut(&folder).is_some_and(|folder| folder.names.insert(key)) {
            self.remembered += 1;
        }
    }

    /// Whether a name is not in a folder for certain, with the tree's number of now.
    pub(super) fn lacks(&self, folder: NodeId, key: u64, now: Option<u64>) -> bool {
        self.folders.get(&folder).is_some_and(|folder| now == Some(folder.at) && !folder.names.contains(&key))
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn makes_room(&mut self) {
        if self.remembered + self.folders.len() >= REMEMBERED_MAX {
            self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: NodeId = NodeId(7);

    #[test]
    fn only_what_was_made_here_and_while_nobody_else_changes_anything_is_known() {
        let mut fresh = Fresh::default();
        fresh.named(FOLDER, 1);
        assert!(!fresh.lacks(FOLDER, 2, Some(3)), "it was not made here");
        fresh.made(FOLDER, 3);
        fresh.named(FOLDER, 1);
        assert!(fresh.lacks(FOLDER, 2, Some(3)));
        assert!(!fresh.lacks(FOLDER, 1, Some(3)), "it has that name");
        assert!(!fresh.lacks(FOLDER, 2, Some(4)) && !fresh.lacks(FOLDER, 2, None), "others may have given it");
        assert!(!fresh.lacks(NodeId(8), 2, Some(3)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut fresh = Fresh::default();
        for number in 0..3 * REMEMBERED_MAX as u64 {
            let folder = NodeId(i64::try_from(number / 2).expect("a number"));
            fresh.made(folder, 0);
            fresh.named(folder, number);
            assert!(fresh.remembered + fresh.folders.len() <= REMEMBERED_MAX + 1);
        }
        assert!(fresh.folders.len() > 1);
    }
}
