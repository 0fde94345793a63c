//! What the catalogue's operations take and answer besides its rows, and what is told of a change.

use crate::cluster::InstanceId;
use crate::types::{Content, Node, Place, Tag, Through};
use holdfast_base::{AccountId, BlockId, DrivePath, NodeId, SpaceId};
use std::collections::BTreeSet;

/// What must be true of a node for a change to happen; tested in the transaction of the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expect {
    /// Anything.
    #[default]
    Any,
    /// There is no such node (`If-None-Match: *`).
    Absent,
    /// There is one (`If-Match: *`).
    Present,
    /// There is one and its `seq` is this (`If-Match: "…"`).
    Seq(i64),
}

/// Who changes, what they expect, and which lock tokens they submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The account that acts; a submitted token counts only if this account holds the lock.
    pub account: AccountId,
    /// Expectation on the node that is created, written, removed or (for copy and move) overwritten.
    pub expect: Expect,
    /// Lock tokens submitted with the request.
    pub tokens: Vec<String>,
    /// Shares that the change comes in through.
    pub through: Vec<Through>,
    /// Time of the change.
    pub now_ms: i64,
    /// The mount on another machine that asks, by a random number; 0 is none: those who follow the space are told ([`Change::by`]).
    pub mount: u64,
}

/// Result of walking a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The nodes that exist, from the space's root down. The path exists if there is one more than it has names.
    pub chain: Vec<Node>,
    /// The last node's content, if the path exists, is a non-empty file, and it was asked for.
    pub content: Option<Content>,
}

impl Found {
    /// The node at the path's end, if `path` exists.
    pub fn node(&self, path: &DrivePath) -> Option<&Node> {
        (self.chain.len() == path.names().len() + 1).then(|| self.chain.last()).flatten()
    }
}

/// A node after a change, and whether it was made (rather than overwritten).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The node.
    pub node: Node,
    /// Whether there was nothing of that name before.
    pub created: bool,
}

/// A move or a copy of a node with everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocation {
    /// Space of the source. Copies between spaces are made of content above this trait: both paths are in this space.
    pub space: SpaceId,
    /// What is moved or copied.
    pub from: DrivePath,
    /// Where it goes, name included.
    pub to: DrivePath,
    /// Whether something at `to` is replaced (it goes to the trash, in the same transaction).
    pub overwrite: bool,
    /// For a copy of a folder: whether its members come too (Depth: infinity rather than 0).
    pub deep: bool,
    /// Expectation on the source; that of the guard is on the destination.
    pub source_expect: Expect,
    /// Tags that what is moved or copied gets besides its own, in the same transaction.
    pub tags: Vec<Tag>,
}

/// An upload that is under way: a content without references whose blocks arrive in runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewUpload {
    /// Into which space.
    pub space: SpaceId,
    /// Through which instance.
    pub instance: InstanceId,
    /// Bytes to reserve from quota now.
    pub reserve_bytes: u64,
    /// See [`Content::block_bytes`].
    pub block_bytes: u32,
    /// See [`Content::nonce`].
    pub nonce: [u8; 16],
    /// When.
    pub now_ms: i64,
}

/// Blocks a commit or stage claimed to exist and that do not (any more): positions as (chunk, index in chunk). The caller
/// still has their bytes, writes them, and tries again; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(pub Vec<(u64, usize)>);

/// Failed sign-ins counted under one key (an account, or an account and an address).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempts {
    /// Failures since the last success or since the count lapsed.
    pub failures: u32,
    /// Time of the last one.
    pub last_ms: i64,
}

/// A block moved by reclaim: from an old place to a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedBlock {
    /// The block's space.
    pub space: SpaceId,
    /// The block.
    pub id: BlockId,
    /// Where it was; if it is no longer there, the move is skipped.
    pub from: Place,
    /// Where it is now, synced.
    pub to: Place,
}

/// A space counted a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The space.
    pub space: SpaceId,
    /// Its count before the change.
    pub since: i64,
    /// Its count after the change; see [`Space::seq`](crate::types::Space::seq).
    pub seq: i64,
    /// The mount that made it ([`Guard::mount`]), if all of it from `since` to `seq` is that mount's; otherwise 0.
    pub by: u64,
}

/// A change, and what has to be known of it before it is told.
#[derive(Debug, Clone)]
pub struct Noted {
    /// The change.
    pub change: Change,
    /// Which folders it is about.
    pub touched: Touched,
    /// The mount that made it ([`Guard::mount`]), or 0; also where that has to look again as all others do.
    pub maker: u64,
}

/// Which folders a change was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touched {
    /// Names in these, or what has a name in them.
    Folders(BTreeSet<NodeId>),
    /// Any.
    All,
}

impl Touched {
    /// Of more folders than this it is all.
    const FOLDERS_MAX: usize = 1_024;

    /// Whether there is a folder in both.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Folders(these), Self::Folders(others)) => !these.is_disjoint(others),
            _ => true,
        }
    }

    pub(crate) fn add(&mut self, folders: impl IntoIterator<Item = NodeId>) {
        let Self::Folders(all) = self else { return };
        all.extend(folders);
        if all.len() > Self::FOLDERS_MAX {
            *self = Self::All;
        }
    }

    pub(crate) fn join(&mut self, other: &Self) {
        match other {
            Self::Folders(folders) => self.add(folders.iter().copied()),
            Self::All => *self = Self::All,
        }
    }
}

impl Default for Touched {
    fn default() -> Self {
        Self::Folders(BTreeSet::new())
    }
}

impl Change {
    /// This change and one after it as one.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        let is_one = self.by == later.by && self.seq == later.since;
        Self { seq: later.seq.max(self.seq), by: if is_one { self.by } else { 0 }, ..self }
    }
}
