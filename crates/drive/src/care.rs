//! Care for what is stored: proving it ([`check`]), giving space back ([`reclaim`]), and copies elsewhere ([`backup`]).
//!
//! Nothing here needs a key: sealed blocks are checked, moved and copied as they are.

pub mod backup;
pub mod check;
pub(crate) mod frame;
pub mod jobs;
pub mod reclaim;

pub use backup::{BackupReport, backup, restore};
pub use check::{CheckOptions, CheckReport, check};
pub use jobs::{JobOptions, Jobs};
pub use reclaim::{ReclaimReport, reclaim};

/// Rows asked of the catalogue at a time: a page is a few hundred KiB in memory and a few milliseconds of work.
const PAGE_ROWS: usize = 1_000;
