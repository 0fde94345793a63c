//! What goes in and out of the [`Drive`](crate::Drive) trait.

use bytes::Bytes;
use futures_util::Stream;
use holdfast_base::{DrivePath, NodeId, NodeName, Result, Uid};
use holdfast_meta::{
    Compression, Content, Cursor, Expect, Membership, NameTaken, Node, Retention, Role, SearchQuery, Space, Tag, Usage,
};
use std::fmt;
use std::pin::Pin;

/// A place in the drive: a space by name and a path in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// The space's name.
    pub space: String,
    /// The path in it.
    pub path: DrivePath,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.space)?;
        if self.path.is_root() { f.write_str("/") } else { self.path.fmt(f) }
    }
}

/// Plaintext, in order, in pieces of at most a block. An error ends the stream.
pub type ContentStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// A space as a session sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceView {
    /// Name.
    pub name: String,
    /// Whether it is the home of the session's account.
    pub home: bool,
    /// Who shared it, if it is a folder that was shared: then the sums are not told.
    pub shared_by: Option<String>,
    /// The session's role, lowered to reader by a read-only token.
    pub role: Role,
    /// Sums.
    pub usage: Usage,
    /// Bytes that can still be written before a quota of the space or its owner says no; none is unlimited.
    pub available_bytes: Option<u64>,
    /// Compression of new content.
    pub compression: Compression,
    /// Retention of old versions and trash.
    pub retention: Retention,
    /// The root folder.
    pub root: Node,
}

/// Result of walking to a location.
#[derive(Debug, Clone)]
pub struct Walk {
    /// The space walked in.
    pub space: Space,
    /// The session's account as a member of it.
    pub membership: Membership,
    /// The session's role there, lowered to reader by a read-only token.
    pub role: Role,
    /// The nodes that exist, from the root down.
    pub chain: Vec<Node>,
    /// Whether the chain reaches the path's end.
    pub complete: bool,
    /// The end's content, if it is a non-empty file.
    pub content: Option<Content>,
}

impl Walk {
    /// The node at the end of the path, if there is one.
    pub fn node(&self) -> Option<&Node> {
        self.complete.then(|| self.chain.last()).flatten()
    }
}

/// What must hold for a change to happen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// Of the node that is created, written, removed or overwritten.
    pub expect: Expect,
    /// Lock tokens submitted with the request.
    pub tokens: Vec<String>,
}

/// Digest algorithms a client may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DigestAlgorithm {
    /// MD5, for old clients that compare; proves nothing against malice.
    Md5,
    /// SHA-1, likewise.
    Sha1,
    /// SHA-256.
    Sha256,
    /// BLAKE3.
    Blake3,
}

/// Replacing a range of a file (a partial PUT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// First byte written; at most the present size (no holes).
    pub start: u64,
    /// Total size the client states the file has afterwards, if it does; a contradiction is `PreconditionFailed`.
    pub total: Option<u64>,
}

/// How a file is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// Preconditions.
    pub conditions: Conditions,
    /// Declared length. A body that is shorter or longer is `InvalidInput` and changes nothing.
    pub length: Option<u64>,
    /// Modification time to record; now if none.
    pub modified_ms: Option<i64>,
    /// Replace a range only.
    pub patch: Option<Patch>,
    /// Digests the plaintext must have; a difference is `InvalidInput` and changes nothing.
    pub digests: Vec<(DigestAlgorithm, Vec<u8>)>,
    /// Tags that are added to the file in the transaction that writes it.
    pub tags: Vec<Tag>,
}

/// A move or copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Source.
    pub from: Location,
    /// Target, name included.
    pub to: Location,
    /// Copy (rather than move).
    pub copy: bool,
    /// Replace what is at the target.
    pub overwrite: bool,
    /// For a copy of a folder: with its members.
    pub deep: bool,
    /// What must hold of the source; the conditions speak of the target.
    pub source_expect: Expect,
    /// Tags that it gets besides its own, in the transaction that puts it there.
    pub tags: Vec<Tag>,
}

/// Something a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundNode {
    /// Where it is.
    pub at: Location,
    /// The session's role there.
    pub role: Role,
    /// What it is.
    pub node: Node,
    /// Its tags.
    pub tags: Vec<String>,
}

/// What a search answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundNodes {
    /// The best first; see [`SearchAnswer::hits`](holdfast_meta::SearchAnswer::hits).
    pub found: Vec<FoundNode>,
    /// Where the list goes on, if it does.
    pub next: Option<Cursor>,
    /// Whether there may be more than was found: work for one query is bounded.
    pub more: bool,
    /// Whether some names or tags are not indexed yet.
    pub indexing: bool,
}

/// A saved search as its account sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedView {
    /// Names it.
    pub id: i64,
    /// What it is called.
    pub name: NodeName,
    /// Only in this space; none is all that the account may see.
    pub space: Option<String>,
    /// What is looked for.
    pub query: SearchQuery,
    /// Where goes what is put into it; none while that folder is in the trash, or out of sight.
    pub folder: Option<Location>,
    /// When it was made.
    pub created_ms: i64,
    /// When it was last changed.
    pub changed_ms: i64,
}

/// A search to be saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchToSave {
    /// What it is to be called.
    pub name: NodeName,
    /// Only in this space; none is all that the account may see.
    pub space: Option<String>,
    /// What is looked for.
    pub query: SearchQuery,
    /// Where is to go what is put into it; none is the account's home.
    pub folder: Option<Location>,
}

/// Changes of a saved search; none leaves a field as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SavedWish {
    /// Its name.
    pub name: Option<NodeName>,
    /// What is looked for, and in which space.
    pub query: Option<(Option<String>, SearchQuery)>,
    /// Where goes what is put into it (inner none: the account's home).
    pub folder: Option<Option<Location>>,
}

/// A lock asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest {
    /// Exclusive or shared.
    pub exclusive: bool,
    /// Depth infinity or zero.
    pub deep: bool,
    /// The client's `DAV:owner` element, serialized; empty if it gave none.
    pub owner_xml: String,
    /// Lifetime asked for, in seconds; the drive may shorten it.
    pub seconds: u32,
}

/// A resumable upload to be begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadRequest {
    /// The file it is to become.
    pub at: Location,
    /// Bytes it is to have.
    pub length: u64,
    /// If the name is taken when it ends.
    pub name_taken: NameTaken,
    /// The [`Node::seq`] of the version it replaces, if it may replace no other.
    pub expect_seq: Option<i64>,
    /// Modification time to record; that of its end if none.
    pub modified_ms: Option<i64>,
    /// Given back as it is.
    pub metadata: String,
    /// Tags that are added to the file in the transaction that makes it.
    pub tags: Vec<Tag>,
}

/// A part of a resumable upload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UploadPart {
    /// Where it begins: where the upload stands.
    pub offset: u64,
    /// Its length, if that is known beforehand.
    pub length: Option<u64>,
    /// A digest it must have; then it counts whole or not at all, and has [`CHECKED_PART_BYTES_MAX`] at most.
    pub digest: Option<(DigestAlgorithm, Vec<u8>)>,
}

/// Longest part of an upload that is taken with a digest: until that is compared, nothing of the part may count.
pub const CHECKED_PART_BYTES_MAX: u64 = 64 << 20;

/// A resumable upload as its account sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadView {
    /// Its name in addresses.
    pub id: Uid,
    /// What it is to become, or has.
    pub at: Location,
    /// Bytes it is to have.
    pub length: u64,
    /// Bytes it has, durably. The last byte of all counts when the file is there, and not before.
    pub offset: u64,
    /// Whether all bytes are here and the file could not be made: it waits for [`Drive::finish_upload`](crate::Drive::finish_upload).
    pub waits: bool,
    /// If the name is taken.
    pub name_taken: NameTaken,
    /// What the client wrote about it.
    pub metadata: String,
    /// When it began.
    pub created_ms: i64,
    /// When it is given up, unless it goes on.
    pub expires_ms: i64,
    /// The file it became, with its [`Node::seq`].
    pub node: Option<(NodeId, i64)>,
}
