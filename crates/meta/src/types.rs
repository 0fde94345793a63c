//! The rows of the catalogue as the layers above see them.

mod accounts;
mod audit;
mod deferred;
mod factors;
mod jobs;
mod monitor;
mod posix;
mod search;
mod searches;
mod shares;
mod uploads;

pub use accounts::*;
pub use audit::*;
pub use deferred::*;
pub use factors::*;
use holdfast_base::{AccountId, BlockId, ContentId, NodeId, NodeName, PackId, PackName, SpaceId};
pub use jobs::*;
pub use monitor::*;
pub use posix::*;
pub use search::*;
pub use searches::*;
use serde::{Deserialize, Serialize};
pub use shares::*;
use std::fmt::Write as _;
pub use uploads::*;

/// Kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A folder.
    Folder,
    /// A file.
    File,
}

/// A node with the facts of its current version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Row; stable through renames.
    pub id: NodeId,
    /// Its space.
    pub space: SpaceId,
    /// Its folder; the root's parent is none.
    pub parent: Option<NodeId>,
    /// Its name; the root has an empty one, so this is text and not [`NodeName`].
    pub name: String,
    /// Kind.
    pub kind: NodeKind,
    /// Content of the current version (files only; none is an empty file).
    pub content: Option<ContentId>,
    /// Size in bytes; 0 for folders.
    pub size: u64,
    /// The space's change count when this node's content, name or properties last changed: the entity tag is made of it.
    pub seq: i64,
    /// When it was made.
    pub created_ms: i64,
    /// Modification time, as the client set it or as of the last write.
    pub modified_ms: i64,
    /// Whether it has dead properties (saves a look-up in listings).
    pub has_properties: bool,
}

/// The entity tag of a version of a node: `"<node id>-<seq>"` in hexadecimal. The sequence number grows with every change in its
/// space, so the tag is strong, and the id keeps two nodes of one space apart.
pub fn entity_tag(node: NodeId, seq: i64) -> String {
    format!("\"{:x}-{seq:x}\"", node.0)
}

impl Node {
    /// The entity tag of its present version.
    pub fn entity_tag(&self) -> String {
        entity_tag(self.id, self.seq)
    }

    /// Appends [`Self::entity_tag`].
    pub fn push_entity_tag(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(out, "\"{:x}-{:x}\"", self.id.0, self.seq);
    }
}

/// A dead property (RFC 4918 section 4): its value is an XML fragment, kept as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Namespace name; may be empty.
    pub namespace: String,
    /// Local name.
    pub name: String,
    /// The property element, serialized with every namespace it uses declared on it.
    pub xml: String,
}

/// One change of PROPPATCH, applied in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyChange {
    /// Sets or replaces.
    Set(Property),
    /// Removes; removing what is not there succeeds.
    Remove {
        /// Namespace name.
        namespace: String,
        /// Local name.
        name: String,
    },
    /// Sets the modification time (`X-OC-Mtime`, `Win32LastModifiedTime`, `getlastmodified`).
    Modified(i64),
}

/// A lock (RFC 4918 section 6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// `urn:uuid:…`.
    pub token: String,
    /// The lock's root.
    pub node: NodeId,
    /// Path of the lock's root at the time of reading.
    pub path: holdfast_base::DrivePath,
    /// Who holds it.
    pub account: AccountId,
    /// Exclusive or shared.
    pub exclusive: bool,
    /// Depth infinity or zero.
    pub deep: bool,
    /// The client's `DAV:owner` element, serialized; empty if it gave none.
    pub owner_xml: String,
    /// When it lapses.
    pub expires_ms: i64,
}

/// A lock to be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLock {
    /// See [`Lock::token`].
    pub token: String,
    /// See [`Lock::exclusive`].
    pub exclusive: bool,
    /// See [`Lock::deep`].
    pub deep: bool,
    /// See [`Lock::owner_xml`].
    pub owner_xml: String,
    /// See [`Lock::expires_ms`].
    pub expires_ms: i64,
}

/// The bytes of one or more file versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Row.
    pub id: ContentId,
    /// Its space.
    pub space: SpaceId,
    /// Size in plaintext bytes.
    pub size: u64,
    /// Plaintext bytes of every block but the last.
    pub block_bytes: u32,
    /// Random, bound into the tags of the manifest.
    pub nonce: [u8; 16],
    /// Authenticates nonce, size, block size and checksum (keyed; made by `seal`).
    pub tag: [u8; 16],
    /// Tiny content, sealed, in the row itself: then there is no manifest. Opaque here.
    pub inline: Option<Vec<u8>>,
    /// Blocks in the manifest.
    pub blocks: u64,
}

/// Blocks of one manifest chunk: [`MANIFEST_CHUNK_BLOCKS`] but for the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestChunk {
    /// Chunk number from 0.
    pub index: u64,
    /// The blocks in order.
    pub blocks: Vec<BlockId>,
    /// Authenticates content nonce, index and blocks (keyed; made by `seal`).
    pub tag: [u8; 16],
}

/// Blocks in one chunk of a manifest: 256 ids are 8 KiB, two database pages, and cover 256 MiB of a file.
pub const MANIFEST_CHUNK_BLOCKS: usize = 256;

/// Where a sealed block lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The pack's row.
    pub pack: PackId,
    /// First byte of the sealed block in the pack.
    pub offset: u64,
    /// Bytes of the sealed block.
    pub sealed_bytes: u32,
    /// Bytes of its plaintext.
    pub raw_bytes: u32,
}

/// A stored block with its pack's name, ready to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    /// The block.
    pub id: BlockId,
    /// The pack's name in the store.
    pub pack_name: PackName,
    /// Where in it.
    pub place: Place,
}

/// A block of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedBlock {
    /// The block.
    pub id: BlockId,
    /// Where it was just written and synced; none claims that the space has it already.
    pub written: Option<Place>,
}

/// The next blocks of an upload, appended to its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedRun {
    /// The chunk the blocks go to; a run never crosses a chunk's end.
    pub chunk: u64,
    /// Index of the first block within the chunk; equals what the chunk holds already.
    pub first: usize,
    /// The blocks, in order.
    pub blocks: Vec<StagedBlock>,
    /// Tag of the whole chunk once these are appended.
    pub tag: [u8; 16],
}

/// What becomes a file's new content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewContent {
    /// No bytes at all.
    Empty,
    /// Tiny content sealed into the row.
    Inline {
        /// Plaintext size.
        size: u64,
        /// See [`Content::nonce`].
        nonce: [u8; 16],
        /// See [`Content::tag`].
        tag: [u8; 16],
        /// Opaque sealed bytes.
        sealed: Vec<u8>,
    },
    /// A few blocks, in packs that are already synced: content, manifest and block rows are made in the same transaction.
    Blocks {
        /// Plaintext size.
        size: u64,
        /// See [`Content::block_bytes`].
        block_bytes: u32,
        /// See [`Content::nonce`].
        nonce: [u8; 16],
        /// See [`Content::tag`].
        tag: [u8; 16],
        /// The blocks, as runs in order.
        runs: Vec<StagedRun>,
    },
    /// A staged upload, complete.
    Staged {
        /// The upload.
        content: ContentId,
        /// Plaintext size.
        size: u64,
        /// See [`Content::tag`].
        tag: [u8; 16],
    },
}

/// A file's old version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The node's `seq` when this version was current: names the version.
    pub seq: i64,
    /// Content; none is an empty file.
    pub content: Option<ContentId>,
    /// Size in bytes.
    pub size: u64,
    /// Modification time it had.
    pub modified_ms: i64,
    /// When it was superseded.
    pub superseded_ms: i64,
    /// Who superseded it.
    pub by: AccountId,
}

/// Something in the trash: the root of what was deleted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrashEntry {
    /// Row.
    pub id: i64,
    /// Its root node.
    pub node: NodeId,
    /// File or folder.
    pub kind: NodeKind,
    /// Path it had in its space, as text.
    pub path: String,
    /// When it was deleted.
    pub deleted_ms: i64,
    /// By whom.
    pub by: AccountId,
    /// Bytes below it, with their old versions.
    pub bytes: u64,
    /// Nodes in it.
    pub nodes: u64,
}

/// State of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackState {
    /// A process is writing it, or its blocks are not all in the catalogue yet. Never rewritten.
    Open,
    /// Immutable.
    Sealed,
    /// Holds nothing alive; its object may be deleted from the store.
    Dead,
}

/// A pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pack {
    /// Row.
    pub id: PackId,
    /// Name in the store.
    pub name: PackName,
    /// State.
    pub state: PackState,
    /// Bytes in the store; 0 while open.
    pub total_bytes: u64,
    /// Sealed bytes of blocks that are referenced.
    pub live_bytes: u64,
    /// When it was begun.
    pub created_ms: i64,
}

/// Metered traffic of one account to be added to its sums of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests.
    pub requests: u64,
    /// Body bytes received.
    pub bytes_in: u64,
    /// Body bytes sent.
    pub bytes_out: u64,
}

/// One finding of a check, with a stable code for scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable code, such as `usage-sum` or `block-refs`.
    pub code: String,
    /// What is wrong, where, for a person.
    pub message: String,
    /// Whether content is lost or unreadable (as opposed to a sum or an orphan that repair sets right).
    pub loss: bool,
    /// What repair did, if it was asked for and possible.
    pub repaired: Option<String>,
}

/// A name that a listing continues after.
pub type After<'a> = Option<&'a NodeName>;
