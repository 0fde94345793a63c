//! How a mount does, as it is told.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a mount does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Where it is mounted.
    pub at: String,
    /// The drive: its server's address, or its data directory.
    pub target: String,
    /// The space.
    pub space: String,
    /// Whether it refuses every change.
    pub read_only: bool,
    /// Its process.
    pub process: u32,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// How long the server has been away; none if it is there, or there is none.
    pub away_ms: Option<u64>,
    /// Files that programs have open.
    pub open_files: u64,
    /// How many of those have something that is not saved.
    pub unsaved_files: u64,
    /// What of them is not saved, in pages of 64 KiB.
    pub unsaved_bytes: u64,
    /// Content in memory to be read again, as far as it is known; the kernel has its own.
    pub cache_bytes: Option<u64>,
    /// The cache on the disk, if there is one.
    #[serde(default)]
    pub disk_cache: Option<DiskCacheStatus>,
    /// What was answered and is not where it belongs; none without `--write-behind`.
    pub journal: Option<JournalStatus>,
    /// How many operations are under way.
    pub operations_under_way: u64,
    /// The oldest of them.
    pub under_way: Vec<UnderWay>,
    /// What was done since it was mounted, by kind.
    pub operations: Vec<Operation>,
}

/// How a cache on the disk does. Counts are since it was mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCacheStatus {
    /// Its folder.
    pub folder: String,
    /// Bytes it takes on the disk.
    pub bytes: u64,
    /// Bytes it takes at most.
    pub bytes_max: u64,
    /// Bytes of those that are pinned.
    pub pinned_bytes: u64,
    /// Blocks and what is known of contents and folders.
    pub things: u64,
    /// Blocks that were read from it.
    pub hits: u64,
    /// Blocks that were not in it.
    pub misses: u64,
    /// Bytes of files that were read from it.
    pub hit_bytes: u64,
    /// Things that went because there was no room.
    pub evicted: u64,
    /// Things that were torn, flipped or of somebody else, and were dropped.
    pub damaged: u64,
    /// Things that could not be kept.
    pub skipped: u64,
    /// Why nothing could be kept lately.
    pub trouble: Option<String>,
    /// What is pinned.
    pub pins: Vec<PinStatus>,
}

/// How far something pinned is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinStatus {
    /// What it was called in the mount when it was pinned.
    pub path: String,
    /// `waits`, `fetches`, `here`, `no-room`, `fails` or `gone`.
    pub state: String,
    /// Files in it, as of the last look.
    pub files: u64,
    /// How many of them are here.
    pub files_here: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Bytes of those that are here.
    pub bytes_here: u64,
    /// What is in the way.
    pub why: Option<String>,
}

/// What waits in a mount's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalStatus {
    /// Changes that wait, with those that were refused.
    pub changes: u64,
    /// Bytes of the journal on disk.
    pub bytes: u64,
    /// Bytes of content that was closed, and is in the store and not synced there, or in the spool of a mount from a server. Those of a mount before this release say nothing of it.
    #[serde(default)]
    pub unsynced_bytes: u64,
    /// How long the oldest change waits.
    pub oldest_ms: Option<u64>,
    /// How many were refused, and are tried again.
    pub refused: u64,
    /// The first of those.
    pub reasons: Vec<Refused>,
    /// Why none could be handed over lately.
    pub failure: Option<String>,
}

/// A change that was refused after it was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The file's name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// An operation that is not answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    /// What it is, by the names of FUSE.
    pub operation: String,
    /// The inode it is about, or in which the name is.
    pub inode: u64,
    /// The name it is about.
    pub name: Option<String>,
    /// The process that asked; 0 is the kernel itself.
    pub process: u32,
    /// For how long.
    pub ms: u64,
    /// What it waits for; if that is not known, the drive.
    pub waits_for: Option<String>,
}

/// What was done of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// What it is, by the names of FUSE.
    pub operation: String,
    /// How often it was done.
    pub count: u64,
    /// How often it ended in which error.
    pub errors: BTreeMap<String, u64>,
    /// How long it took at the mean, in microseconds.
    pub mean_us: u64,
    /// Half of them took no longer, to a quarter.
    pub half_within_us: u64,
    /// 99 of a hundred took no longer, to a quarter.
    pub p99_us: u64,
    /// How often a second.
    pub per_second: Rates,
}

/// Operations a second, in whiles that ended now; of a mount that is younger, since it began.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// In the last ten seconds.
    pub last_10_s: f64,
    /// In the last minute.
    pub last_minute: f64,
    /// In the last five minutes.
    pub last_5_minutes: f64,
    /// In the last hour.
    pub last_hour: f64,
}
