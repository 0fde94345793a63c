//! Care for what is stored: proving it ([`mod@check`]), giving space back ([`mod@reclaim`]), and copies elsewhere ([`mod@backup`]).
//!
//! Nothing here needs a key: sealed blocks are checked, moved and copied as they are.

pub mod backup;
pub mod check;
pub(crate) mod frame;
mod heart;
mod index;
pub mod jobs;
mod memory;
pub mod reclaim;

pub(crate) use memory::give_back as give_memory_back;
pub use memory::share_heaps;

pub use backup::{BackupReport, backup, restore};
pub use check::{CheckOptions, CheckReport, check};
pub use heart::under_lease;
pub use jobs::{JobOptions, Jobs, LastReclaim, Reclaims};
pub use reclaim::{ReclaimReport, reclaim};

/// Rows asked of the catalogue at a time: a page is a few hundred KiB in memory and a few milliseconds of work.
const PAGE_ROWS: usize = 1_000;
