//! The tree of report 003: folders of a depth and width, so many files in each, of one size or of a range of sizes.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::size::{parse_size, size_label};

/// More files than any run here can make.
const FILES_MAX: u64 = 100_000_000;
/// Bytes of content made at once.
pub(super) const PIECE_BYTES: usize = 1 << 20;
/// What lies between two marks that make content unlike any other: less than the blocks in which anything keeps equal content once.
const MARK_EVERY: usize = 4 << 10;
const MARK_BYTES: usize = 16;

/// Sizes of files: all of one, or evenly drawn from a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// The least.
    pub min: u64,
    /// The greatest, which may be drawn.
    pub max: u64,
}

impl FromStr for Sizes {
    type Err = String;

    /// Reads `4KiB` or `1MB..20MB`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let sizes = Self { min: parse_size(min)?, max: parse_size(max)? };
        if sizes.min > sizes.max {
            return Err(format!("{text:?} begins above its end"));
        }
        Ok(sizes)
    }
}

impl Sizes {
    /// For people: `4KiB`, `1MiB to 20MiB`.
    pub(super) fn label(self) -> String {
        if self.min == self.max {
            size_label(self.min)
        } else {
            format!("{} to {}", size_label(self.min), size_label(self.max))
        }
    }
}

/// The shape of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Levels of folders below the tree's own.
    pub depth: u32,
    /// Folders in each folder but the lowest.
    pub width: u32,
    /// Files in each folder.
    pub files: u32,
    /// Bytes of each file.
    pub sizes: Sizes,
}

impl Shape {
    /// Refuses what is surely a mistake.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.width > 0 && self.files > 0, "a tree needs a --width and --files of at least 1");
        let count = self.folders().checked_mul(u64::from(self.files));
        ensure!(count.is_some_and(|count| count <= FILES_MAX), "a tree can have {FILES_MAX} files at most");
        Ok(())
    }

    /// Folders, the tree's own included; saturating.
    pub(super) fn folders(&self) -> u64 {
        let (mut level, mut sum) = (1_u64, 1_u64);
        for _ in 0..self.depth {
            level = level.saturating_mul(u64::from(self.width));
            sum = sum.saturating_add(level);
        }
        sum
    }

    /// Files of the whole tree.
    pub(super) fn file_count(&self) -> u64 {
        self.folders().saturating_mul(u64::from(self.files))
    }

    /// Bytes of the whole tree, as far as they are known before sizes are drawn: of files in the middle of the range.
    pub(super) fn bytes(&self) -> u64 {
        self.file_count().saturating_mul(self.sizes.min.midpoint(self.sizes.max))
    }

    /// What report 003 calls a tree: `T1_<host>_<pid>_<depth>_<width>_<files>_fsize:<bytes>_dirs:<n>_files:<n>`. A range of sizes is
    /// `<least>-<greatest>`.
    pub(super) fn name(&self, host: &str, pid: u32) -> String {
        let Self { depth, width, files, sizes } = self;
        let size = if sizes.min == sizes.max { sizes.min.to_string() } else { format!("{}-{}", sizes.min, sizes.max) };
        let (folders, count) = (self.folders(), self.file_count());
        format!("T1_{host}_{pid}_{depth}_{width}_{files}_fsize:{size}_dirs:{folders}_files:{count}")
    }

    /// A folder by number, level by level, below the tree's own, which is 0.
    pub(super) fn folder(&self, root: &Path, number: u64) -> PathBuf {
        let width = u64::from(self.width);
        let mut names = Vec::new();
        let mut at = number;
        while at > 0 {
            names.push(format!("d{}", (at - 1) % width));
            at = (at - 1) / width;
        }
        names.iter().rev().fold(root.to_owned(), |path, name| path.join(name))
    }

    /// A file by number: those of the first folder first.
    pub(super) fn file(&self, root: &Path, number: u64) -> PathBuf {
        let files = u64::from(self.files);
        self.folder(root, number / files).join(format!("f{}", number % files))
    }
}

/// The content of one file, which is that of no other file of any run, and does not shrink.
pub(super) struct Content {
    piece: Vec<u8>,
    seed: u64,
    tree: u64,
}

impl Content {
    /// `tree` is a number that no other tree of this measurement has.
    pub(super) fn new(seed: u64, tree: u64) -> Self {
        let mut piece = vec![0; PIECE_BYTES];
        crate::data::small_content(seed, u64::MAX, 0, &mut piece);
        Self { piece, seed, tree }
    }

    /// How many bytes a file has.
    pub(super) fn size(&self, sizes: Sizes, file: u64) -> u64 {
        let mut drawn = [0; 8];
        crate::data::small_content(self.seed, !self.tree, file, &mut drawn);
        let span = u128::from(sizes.max - sizes.min) + 1;
        // A range is far smaller than 2^64, so the remainder is as good as even.
        sizes.min + u64::try_from(u128::from(u64::from_le_bytes(drawn)) % span).unwrap_or(0)
    }

    /// A piece of a file: as many bytes as are left of it, and [`PIECE_BYTES`] at most.
    pub(super) fn piece(&mut self, file: u64, number: u64, left: u64) -> &[u8] {
        let length = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        let mut marks = [0; PIECE_BYTES / MARK_EVERY * MARK_BYTES];
        let count = length.div_ceil(MARK_EVERY);
        let marks = &mut marks[..count * MARK_BYTES];
        crate::data::small_content(self.seed, self.tree, file ^ number.rotate_left(40), marks);
        for (part, mark) in self.piece[..length].chunks_mut(MARK_EVERY).zip(marks.chunks(MARK_BYTES)) {
            let bytes = part.len().min(MARK_BYTES);
            part[..bytes].copy_from_slice(&mark[..bytes]);
        }
        &self.piece[..length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORTED: Shape = Shape { depth: 2, width: 4, files: 40, sizes: Sizes { min: 2_000_000, max: 2_000_000 } };

    #[test]
    fn a_tree_is_called_as_in_the_report() {
        let name = REPORTED.name("eospluswig704", 2_694_968);
        assert_eq!(name, "T1_eospluswig704_2694968_2_4_40_fsize:2000000_dirs:21_files:840");
        let range = Shape { sizes: "1MB..20MB".parse().expect("sizes"), ..REPORTED };
        assert!(range.name("h", 1).contains("_fsize:1000000-20000000_"));
    }

    #[test]
    fn each_file_has_a_place_of_its_own_below_a_folder_made_before_it() {
        let root = Path::new("/t");
        let mut seen = std::collections::HashSet::new();
        for number in 0..REPORTED.file_count() {
            assert!(seen.insert(REPORTED.file(root, number)));
        }
        assert_eq!(REPORTED.folder(root, 0), root);
        for number in 1..REPORTED.folders() {
            let folder = REPORTED.folder(root, number);
            let above = (0..number).any(|before| REPORTED.folder(root, before) == folder.parent().expect("a parent"));
            assert!(above, "{folder:?}");
        }
    }

    #[test]
    fn content_is_the_same_again_and_unlike_that_of_other_files_trees_and_seeds() {
        let piece = |seed, tree, file, number| Content::new(seed, tree).piece(file, number, 5_000).to_vec();
        let base = piece(1, 2, 3, 0);
        assert_eq!(base, piece(1, 2, 3, 0));
        for other in [piece(9, 2, 3, 0), piece(1, 9, 3, 0), piece(1, 2, 9, 0), piece(1, 2, 3, 1)] {
            for part in [0..MARK_BYTES, MARK_EVERY..MARK_EVERY + MARK_BYTES] {
                assert_ne!(base[part.clone()], other[part]);
            }
        }
    }

    #[test]
    fn sizes_are_drawn_from_the_whole_range_and_no_further() {
        let (content, sizes) = (Content::new(1, 1), Sizes { min: 3, max: 6 });
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|file| content.size(sizes, file)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert!("20MB..1MB".parse::<Sizes>().is_err() && "x".parse::<Sizes>().is_err());
    }
}
