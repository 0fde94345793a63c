//! What kind of disk is simulated.

/// Which promises the simulated file system makes beyond an explicit sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// The strictest reading of POSIX: `fsync` of a file says nothing about its name, operations on
    /// different names survive independently, a file may grow before its data is there.
    Strict,
    /// Like ext4 with ordered data: operations on names survive as a prefix of the order they were
    /// made in, any sync that writes metadata commits all earlier ones, and a file that grew holds
    /// the data it grew by.
    Ext4Like,
}

/// Parameters of a simulated disk.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Which promises are made.
    pub profile: Profile,
    /// Bytes of file pages before a write fails with `ENOSPC`.
    pub capacity_bytes: u64,
    /// Files, folders and links before a creation fails with `ENOSPC`.
    pub max_inodes: usize,
    /// Whether pages of a file that grew without its data reaching the disk hold old garbage
    /// instead of zeros (as on a file system without ordered data). [`Profile::Strict`] only.
    pub garbage: bool,
    /// Whether a failed `fsync` marks the dirty pages clean, as Linux does: the next `fsync`
    /// succeeds although the data is not on the disk.
    pub failed_sync_drops_dirty: bool,
    /// Threads that answer the kernel.
    pub threads: usize,
}

impl Default for Config {
    /// A strict disk of 1 GiB that leaves garbage and drops dirty pages after a failed sync.
    fn default() -> Self {
        Self {
            profile: Profile::Strict,
            capacity_bytes: 1 << 30,
            max_inodes: 1 << 20,
            garbage: true,
            failed_sync_drops_dirty: true,
            // Two cores serve at once while one thread waits in a latency fault and one is spare.
            threads: 4,
        }
    }
}

impl Config {
    /// The default disk with ext4's promises instead of the strictest ones.
    pub fn ext4_like() -> Self {
        Self { profile: Profile::Ext4Like, garbage: false, ..Self::default() }
    }

    /// The same disk with room for `bytes` of file pages.
    #[must_use]
    pub fn with_capacity(mut self, bytes: u64) -> Self {
        self.capacity_bytes = bytes;
        self
    }
}
