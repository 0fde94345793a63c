//! How the drive does.

use serde::{Deserialize, Serialize};

/// What a node says of itself, as text that this crate does not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Its name.
    pub node: String,
    /// When.
    pub at_ms: i64,
    /// The figures.
    pub figures: String,
}

/// What waits, what is held, and what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pressure {
    /// Locks, lapsed ones that nobody met yet included.
    pub locks: u64,
    /// Uploads under way.
    pub uploads: u64,
    /// Those of them that are continued request by request.
    pub resumable: u64,
    /// Bytes that uploads have reserved.
    pub reserved_bytes: u64,
    /// Packs.
    pub packs: u64,
    /// Packs being written.
    pub packs_open: u64,
    /// Bytes of closed packs.
    pub total_bytes: u64,
    /// Bytes of blocks that something refers to.
    pub live_bytes: u64,
    /// Bytes of all files, versions and trash, as quotas count them.
    pub used_bytes: u64,
    /// Removed nodes whose rows are to go.
    pub garbage: u64,
    /// Names and tags that wait to be indexed.
    pub words: u64,
}

/// What was stored at an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// When.
    pub at_ms: i64,
    /// See [`Pressure::packs`].
    pub packs: u64,
    /// See [`Pressure::total_bytes`].
    pub total_bytes: u64,
    /// See [`Pressure::live_bytes`].
    pub live_bytes: u64,
    /// See [`Pressure::used_bytes`].
    pub used_bytes: u64,
    /// Bytes free where packs are kept, if that is known.
    pub free_bytes: Option<u64>,
}
