//! Locks of mounts: record locks (`fcntl`, per process or per open file) and `flock`, over every mount of a space.
//!
//! A program asks its mount, and the mount asks the space's [`Locking`]: the table of this process ([`table`]), or that of a server over the network.
//! What is locked is a [`LockKey`], by an *owner*: a number that means something to its mount only. A mount names itself by a *session*, a random number.
//!
//! **As a whole, or exactly.** Whoever asks for a lock of a file that nobody has anything of is given the *whole* file: from then on its mount decides about locks of
//! that file by itself, without a word to anybody. When another session asks, the mount is *recalled*: it saves what was written and says which locks its programs
//! hold. From then on the table decides about each lock, *exactly*, until nobody holds any.
//!
//! **Leases.** A session over the network that was silent for [`LEASE`] has lost everything. Its mount counts from when it *sent* what was answered last, and
//! only to [`LEASE_TRUSTED`], so it knows first. A table that begins where another ended with sessions in it waits that time for them to come back with what
//! they hold ([`LockTable::new`]).
//!
//! **Limits.** [`HELD_MAX`], [`FILES_MAX`], [`WAITING_MAX`], [`SESSIONS_MAX`]; beyond is `NoSpace`.

mod ranges;
mod table;
#[cfg(test)]
mod tests;

pub use ranges::Ranges;
pub use table::LockTable;

use async_trait::async_trait;
use holdfast_base::{ByteRange, NodeId, Result};
use std::time::Duration;

/// Silence after which a session over the network has lost its locks: a few lost connections and a restart of the server fit.
pub const LEASE: Duration = Duration::from_secs(15);
/// How long a mount believes that it has what it had: less, since its clock may be slower.
pub const LEASE_TRUSTED: Duration = Duration::from_secs(12);
/// Locks of one file at most.
pub const HELD_MAX: usize = 4_096;
/// Files that one session has anything of at most.
pub const FILES_MAX: usize = 16_384;
/// Of these, files that it has as a whole; beyond, it asks for each lock.
pub const WHOLE_MAX: usize = 8_192;
/// Locks that one session waits for at most.
pub const WAITING_MAX: usize = 1_024;
/// Sessions of a table at most.
pub const SESSIONS_MAX: usize = 4_096;

/// What locks are about. `flock` and record locks of a file know nothing of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockKey {
    /// The file.
    pub node: NodeId,
    /// By `flock`; otherwise record locks.
    pub flock: bool,
}

/// A lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held<O = u64> {
    /// Whose it is.
    pub owner: O,
    /// Bytes, in the file or beyond its end.
    pub range: ByteRange,
    /// Otherwise it is shared.
    pub exclusive: bool,
}

/// How long a lock is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It is refused when whoever is in the way was asked.
    Try,
    /// It waits until it is free.
    Wait,
    /// Nothing is taken: would it be free?
    Probe,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockAsk {
    /// Of what.
    pub key: LockKey,
    /// The lock.
    pub held: Held,
    /// For how long.
    pub patience: Patience,
    /// The question's number in its session, by which it can be taken back.
    pub ticket: u64,
    /// Longest that the answer may take, in ms.
    pub wait_ms: u32,
}

/// What it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockAnswer {
    /// It has the lock.
    Exact,
    /// It has the whole file, and decides by itself. The number tells this from other times; it grows.
    Whole(u64),
    /// A probe's: it would have it.
    Free,
    /// Another has it, as far as it is known who.
    Busy(Option<Held>),
    /// The time is over, or the question was taken back.
    Later,
    /// To wait for it would be to wait for oneself.
    Deadlock,
}

/// What a session that comes back says it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Of what.
    pub key: LockKey,
    /// It decides by itself, since this number was given to it.
    pub whole: Option<u64>,
    /// The locks, if it does not.
    pub held: Vec<Held>,
}

/// A space's locks. A session that is not known is `PreconditionFailed`: it attaches first.
#[async_trait]
pub trait Locking: Send + Sync + 'static {
    /// How long what is held is held after the last word, as the mount has to count; none if nothing comes between.
    fn lease(&self) -> Option<Duration>;
    /// Begins a session, or comes back with what it has; `Conflict` if another has any of that by now, and then it has nothing.
    async fn attach(&self, session: u64, kept: Vec<Kept>) -> Result<()>;
    /// Asks for a lock, or about one. Asked twice, it is had once.
    async fn ask(&self, session: u64, ask: LockAsk) -> Result<LockAnswer>;
    /// Takes a question back: it is answered at once, with what is so by then.
    async fn take_back(&self, session: u64, ticket: u64) -> Result<()>;
    /// What is left of an owner's locks of a file: never more than it had.
    async fn leave_only(&self, session: u64, key: LockKey, owner: u64, left: Vec<Held>) -> Result<()>;
    /// Answers a recall: these are all locks of the session. What is held by then is decided about exactly.
    async fn yield_whole(&self, session: u64, key: LockKey, number: u64, held: Vec<Held>) -> Result<()>;
    /// Waits for recalls, `wait` at most; each is told until it is answered. Says that the session is there.
    async fn recalls(&self, session: u64, wait: Duration) -> Result<Vec<(LockKey, u64)>>;
    /// Ends a session.
    async fn leave(&self, session: u64) -> Result<()>;
}
