//! Thumbnails on this server: settings, and what starts a worker.

use holdfast_thumbnail::{ThumbnailOptions, Thumbnails};
use serde::{Deserialize, Serialize};

/// This very program, whatever has become of its file: an upgrade replaces it while it runs.
const PROGRAM: &str = "/proc/self/exe";

/// Configuration of thumbnails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ThumbnailsConfig {
    /// Workers at a time; 0 makes no thumbnails.
    pub workers: usize,
    /// Memory for pictures that were made, in MiB.
    pub cache_mib: u64,
}

impl Default for ThumbnailsConfig {
    /// Two photographs at a time, and some two thousand tiles.
    fn default() -> Self {
        Self { workers: 2, cache_mib: 32 }
    }
}

impl ThumbnailsConfig {
    /// What makes them.
    pub(crate) fn start(&self) -> Thumbnails {
        let cache_bytes = usize::try_from(self.cache_mib.saturating_mul(1 << 20)).unwrap_or(usize::MAX);
        Thumbnails::new(ThumbnailOptions {
            program: PROGRAM.into(),
            workers: self.workers.min(WORKERS_MAX),
            cache_bytes,
        })
    }
}

/// Workers at most, whatever is configured: each may take half a gigabyte.
const WORKERS_MAX: usize = 64;
