//! Uploads that are continued request by request.

use super::Tag;
use bytes::Bytes;
use holdfast_base::{AccountId, ContentId, DrivePath, NodeId, SpaceId, Uid};
use serde::{Deserialize, Serialize};

/// What becomes of an upload whose name is taken when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameTaken {
    /// It is refused.
    #[default]
    Fail,
    /// It becomes the file's new version.
    Replace,
    /// It takes a name beside: [`holdfast_base::NodeName::numbered`].
    KeepBoth,
}

/// A resumable upload about to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResumable {
    /// Its random name.
    pub uid: Uid,
    /// Into which space.
    pub space: SpaceId,
    /// By whom.
    pub account: AccountId,
    /// The share it comes in through; 0 is none.
    pub share: i64,
    /// The visit of a link it comes from; 0 is none.
    pub visit: i64,
    /// What it is to become.
    pub path: DrivePath,
    /// Bytes it is to have; they are reserved.
    pub length: u64,
    /// If the name is taken.
    pub name_taken: NameTaken,
    /// The [`crate::Node::seq`] of the version it replaces, if it may replace no other.
    pub expect_seq: Option<i64>,
    /// Modification time to record; that of the end if none.
    pub modified_ms: Option<i64>,
    /// What the client wrote about it, given back as it is.
    pub metadata: String,
    /// Tags that are added to the file in the transaction that makes it.
    pub tags: Vec<Tag>,
    /// See [`crate::Content::block_bytes`].
    pub block_bytes: u32,
    /// See [`crate::Content::nonce`].
    pub nonce: [u8; 16],
    /// When.
    pub now_ms: i64,
    /// When it is given up unless it goes on.
    pub expires_ms: i64,
}

/// A resumable upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumable {
    /// Its content, which is its row.
    pub content: ContentId,
    /// See [`NewResumable::uid`].
    pub uid: Uid,
    /// See [`NewResumable::space`].
    pub space: SpaceId,
    /// See [`NewResumable::account`].
    pub account: AccountId,
    /// See [`NewResumable::share`].
    pub share: i64,
    /// See [`NewResumable::visit`].
    pub visit: i64,
    /// What it is to become, or has.
    pub path: DrivePath,
    /// See [`NewResumable::length`].
    pub length: u64,
    /// Bytes that are stored, from the first on.
    pub stored: u64,
    /// See [`NewResumable::name_taken`].
    pub name_taken: NameTaken,
    /// See [`NewResumable::expect_seq`].
    pub expect_seq: Option<i64>,
    /// See [`NewResumable::modified_ms`].
    pub modified_ms: Option<i64>,
    /// See [`NewResumable::metadata`].
    pub metadata: String,
    /// When it began.
    pub created_ms: i64,
    /// See [`NewResumable::expires_ms`].
    pub expires_ms: i64,
    /// The file it became, with its [`crate::Node::seq`].
    pub node: Option<(NodeId, i64)>,
}

/// The right to continue a resumable upload, until somebody else takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadClaim {
    /// The upload.
    pub content: ContentId,
    /// Counts up with every claim.
    pub fence: i64,
    /// Blocks in its manifest.
    pub blocks: u64,
    /// Bytes of its tail.
    pub tail_bytes: u32,
    /// See [`crate::Content::nonce`].
    pub nonce: [u8; 16],
}

/// What an upload has beyond its last full block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// Plaintext bytes.
    pub bytes: u32,
    /// Ties it to its place in the upload; made by `seal`.
    pub tag: [u8; 16],
    /// Opaque sealed bytes.
    pub sealed: Bytes,
}
