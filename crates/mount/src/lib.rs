//! A space as a local folder, through FUSE.
//!
//! The kernel asks, [`face`] answers (how: [`request`]); what it answers is worked out in [`core`] (names and attributes), [`mod@file`] (what is open),
//! [`overlay`] (what was written and is not saved) and [`folder`] (listings). All of it speaks to a
//! [`Tree`](holdfast_drive::Tree) and knows neither catalogue nor cipher. docs/design/mount.md says why it is as it is.
//!
//! **Numbers.** An inode's number is its node's; 1 is the root. So nothing is remembered of what the kernel looked up: the only
//! state is what is open.
//!
//! **Writes.** What is written stays in memory, and beyond a bound in an encrypted file without a name, until the file is closed or synced:
//! then it becomes a new version, all of it or nothing. `close` returns when the end of this process cannot undo it, `fsync`
//! when a power cut cannot.
//!
//! **Answering first.** With [`with_journal`] small changes are answered when they are in a journal, and handed to the tree a moment later ([`behind`]).
//!
//! **Locks** of programs hold over all mounts of the space, where the tree has a table of them ([`locks`]).
//!
//! **Care.** What is under way, waits and was done is counted ([`meter`], [`status`]), and told on a socket of the mount's ([`control`]), on which it can be
//! told to save, to forget and to end as well.
//!
//! **Limits.** [`MountOptions`]. Threads that the kernel's requests come in on never wait for the store: what may is handed to the
//! runtime. Nothing ever tells the kernel to forget something from a thread that holds a request.

mod ahead;
mod attributes;
mod behind;
mod belief;
mod body;
mod care;
pub mod control;
mod core;
mod early;
mod errno;
mod extents;
mod face;
mod file;
mod files;
mod folder;
mod follow;
#[doc(hidden)]
pub mod fuzzed;
mod inherited;
mod known;
mod locks;
mod meter;
mod mounted;
mod names;
mod overlay;
mod request;
pub mod status;
mod under_way;

pub use behind::{note_owner, recover, with_journal};
pub use mounted::{MountOptions, Mounted};
