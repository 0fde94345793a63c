//! Folders of services that know only objects with names: what names have in common up to a slash, and an object `NAME/` for one that is empty.

use holdfast_base::{DrivePath, Error, NodeName, Result};
use parking_lot::Mutex;
use std::collections::HashSet;

/// Longest name of an object.
const KEY_BYTES_MAX: usize = 1_024;
/// Folders that are remembered as perhaps empty. Where there are more, each gets its object at once.
const MADE_MAX: usize = 100_000;

/// The name of a file's object, or of a folder's without the slash at its end.
pub(crate) fn key_of(path: &DrivePath) -> Result<String> {
    let names: Vec<&str> = path.names().iter().map(NodeName::as_str).collect();
    let key = names.join("/");
    if key.len() >= KEY_BYTES_MAX {
        return Err(Error::invalid(format!(
            "{path} is longer than the name of an object may be ({KEY_BYTES_MAX} bytes)"
        )));
    }
    Ok(key)
}

/// What the names of a folder's members begin with.
pub(crate) fn prefix_of(folder: &DrivePath) -> Result<String> {
    if folder.is_root() { Ok(String::new()) } else { Ok(key_of(folder)? + "/") }
}

/// Folders that were made and in which nothing is yet.
#[derive(Debug, Default)]
pub(crate) struct MadeFolders(Mutex<HashSet<DrivePath>>);

impl MadeFolders {
    /// Something is in the folders above.
    pub(crate) fn filled(&self, path: &DrivePath) {
        let mut made = self.0.lock();
        let mut above = path.parent();
        while let Some(folder) = above.filter(|_| !made.is_empty()) {
            made.remove(&folder);
            above = folder.parent();
        }
    }

    /// Remembers a folder that was made; answers whether there was room.
    pub(crate) fn remember(&self, path: &DrivePath) -> bool {
        // What is above is not empty.
        self.filled(path);
        let mut made = self.0.lock();
        let room = made.len() < MADE_MAX;
        if room {
            made.insert(path.clone());
        }
        room
    }

    /// It has its object, or is gone.
    pub(crate) fn forget(&self, path: &DrivePath) {
        self.0.lock().remove(path);
    }

    pub(crate) fn has(&self, path: &DrivePath) -> bool {
        self.0.lock().contains(path)
    }

    /// Those that are still empty.
    pub(crate) fn empty(&self) -> Vec<DrivePath> {
        self.0.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> DrivePath {
        DrivePath::parse(text).expect(text)
    }

    #[test]
    fn a_folder_is_empty_until_something_is_in_it_or_below() {
        let made = MadeFolders::default();
        for folder in ["a", "a/b", "c", "d"] {
            assert!(made.remember(&path(folder)));
        }
        made.filled(&path("c/file"));
        let mut empty = made.empty();
        empty.sort();
        assert_eq!(empty, [path("a/b"), path("d")]);
        made.forget(&path("d"));
        assert!(!made.has(&path("d")) && made.has(&path("a/b")));
    }

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        assert_eq!(key_of(&path("a/b c")).expect("a key"), "a/b c");
        assert_eq!(prefix_of(&path("a")).expect("a prefix"), "a/");
        let long = vec!["x".repeat(200); 6].join("/");
        assert!(key_of(&path(&long)).is_err());
    }
}
