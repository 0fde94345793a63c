//! A simulated disk, mounted as a file system, that keeps after a power cut only what was synced.
//!
//! # Mechanism
//!
//! [`CrashDisk::mount`] serves a FUSE file system from threads of the test program; any program
//! (the real server, a real `SQLite`) can then work on it. Everything is in memory, in pages of
//! 4 KiB that are shared copy-on-write:
//!
//! - A file has *current* pages (what readers see), *durable* pages (what the platter holds) and,
//!   for every page written since the last sync, the list of versions it went through, as a page
//!   cache may have written back any of them. Its size has the same three parts.
//! - A folder has current and durable entries. Changes of entries go through one log of pending
//!   operations, each atomic (a rename is one operation on two names).
//! - `fsync` and `fdatasync` of a file make its pages and size durable. `fsync` of a folder makes
//!   its entries durable. Nothing else does.
//!
//! [`CrashDisk::snapshot`] copies that whole state (cheap: pages are shared) and
//! [`Snapshot::crash`] draws, by seed, one state the disk may hold after a power cut at that
//! moment: every page independently at any of its versions or torn between two of them at a
//! 512-byte sector, every size at any of its values, every subset of pending entry operations that
//! keeps the order of operations on the same name. The result is an [`Image`] to look into or to
//! mount again with [`CrashDisk::mount_image`]. One run of a workload can so be judged at many
//! moments and by many seeds. [`CrashDisk::power_cut`] does all of it at once; afterwards every
//! request on the old mount fails with `EIO`.
//!
//! [`Profile`] chooses between the strictest reading of POSIX and what ext4 gives. [`Fault`]s make
//! chosen operations fail, wait, or cut the power, by kind, path and count.
//!
//! # Limits
//!
//! - Modes, owners and times are not part of the crash model: they are kept as last set. Symbolic
//!   links keep their target.
//! - Stores through a shared mapping reach the model when the kernel writes them back, not at once
//!   (enough for `SQLite`'s `-shm` file, which is not needed after a crash).
//! - `sync(2)` and `syncfs(2)` do not reach a FUSE file system and make nothing durable here.
//! - A page keeps at most the last [`MAX_VERSIONS`] of its versions, and the log of pending entry
//!   operations at most [`MAX_PENDING`] operations (the oldest become durable), so memory is at
//!   most about ten times the capacity, and in practice about twice what is stored.
//! - The process that serves a disk must not map its files writably (`SQLite` in WAL mode maps its
//!   `-shm` file): unmapping waits, under the lock of the process's own memory, for an answer of
//!   threads that need that lock. Run such programs as another process, as with the real server.
//! - A test that is killed leaves its mount behind, dead; the next mount of any test sweeps it.

mod config;
mod content;
mod control;
mod crash;
mod fault;
mod file;
mod fuse;
mod image;
mod journal;
mod mount;
mod names;
mod state;
#[cfg(test)]
mod tests;

pub use config::{Config, Profile};
pub use control::CrashDisk;
pub use fault::{Action, Counts, Fault, FaultId, OpKind};
pub use file::MAX_VERSIONS;
pub use image::{Image, Snapshot};
pub use journal::MAX_PENDING;
pub use mount::supported;
