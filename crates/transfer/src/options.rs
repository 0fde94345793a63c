//! What a transfer is told.

use crate::filter::Filter;
use crate::site::Item;
use holdfast_base::{DrivePath, Result};
use holdfast_drive::Tag;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// From a file's path below what was named, and the file, to the path that it shall have at the destination, below where that arrives. The same question
/// must have the same answer for as long as a transfer is to be gone on with.
pub type NewPath = dyn Fn(&DrivePath, &Item) -> Result<DrivePath> + Send + Sync;

/// Gives files and links new paths, and leaves folders to be made as those need them.
#[derive(Clone)]
pub struct Rename(pub Arc<NewPath>);

impl fmt::Debug for Rename {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rename")
    }
}

/// How it is told whether two files are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compare {
    /// By size and time, at the precision that both sides keep. A time that is not known is never the same.
    #[default]
    SizeAndTime,
    /// By content, which both sides read.
    Content,
}

/// What happens where something else is under a file's name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// It is replaced.
    #[default]
    Replace,
    /// It stays, and the file is skipped.
    Skip,
    /// Both are kept: the file arrives under the next free name `name (2)`.
    KeepBoth,
    /// The file fails.
    Fail,
}

/// What is done with symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// They are moved as links.
    #[default]
    Copy,
    /// They are left out.
    Skip,
}

/// What is removed at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delete {
    /// Nothing.
    #[default]
    No,
    /// What the source has not, once all else has arrived.
    AfterSuccess,
    /// What the source has not, though something else failed.
    Anyway,
}

/// Options of a transfer.
#[derive(Debug, Clone)]
pub struct Options {
    /// How files are compared.
    pub compare: Compare,
    /// What happens to what is there.
    pub if_exists: IfExists,
    /// Only files that are newer than what is there.
    pub update: bool,
    /// What is done with links.
    pub links: Links,
    /// What is removed at the destination.
    pub delete: Delete,
    /// Deletes even if the source has nothing in it.
    pub delete_if_empty: bool,
    /// Removes each file and link from the source when the destination has it, durable.
    pub delete_source: bool,
    /// Says what would be done, and does nothing.
    pub dry_run: bool,
    /// Which files.
    pub filter: Filter,
    /// Under which paths they arrive; none is those they have.
    pub rename: Option<Rename>,
    /// Files of more than a block that are moved at a time.
    pub large_files: usize,
    /// Smaller files at a time: most of what they take is round trips, which overlap.
    pub small_files: usize,
    /// Silence after which a file is begun again.
    pub stall: Duration,
    /// How long after a file's last progress it is tried again.
    pub retry_for: Duration,
    /// Bytes a second.
    pub rate: Option<u64>,
    /// Tags that each file that arrives has from then on, beside those that the file it replaces had. What is there already stays as it is.
    pub tags: Vec<Tag>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            compare: Compare::default(),
            if_exists: IfExists::default(),
            update: false,
            links: Links::default(),
            delete: Delete::default(),
            delete_if_empty: false,
            delete_source: false,
            dry_run: false,
            filter: Filter::default(),
            rename: None,
            large_files: 4,
            small_files: 64,
            stall: Duration::from_mins(1),
            retry_for: Duration::from_hours(1),
            rate: None,
            tags: Vec::new(),
        }
    }
}
