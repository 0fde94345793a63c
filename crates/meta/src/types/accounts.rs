//! Accounts and their credentials, spaces and their members.

use holdfast_base::{AccountId, NodeId, SpaceId, Uid};
use serde::{Deserialize, Serialize};

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Row.
    pub id: AccountId,
    /// Random name bound into everything sealed for this account.
    pub uid: Uid,
    /// Sign-in name, unique.
    pub name: String,
    /// May administer the drive.
    pub admin: bool,
    /// May not sign in.
    pub disabled: bool,
    /// X25519 public key to which space keys are wrapped.
    pub public_key: [u8; 32],
    /// Bytes all spaces it owns may use together; none is unlimited.
    pub quota_bytes: Option<u64>,
    /// Counts every change of credentials, name or state: a cached sign-in with an older number is void.
    pub generation: i64,
    /// When it was made.
    pub created_ms: i64,
}

/// An account to be made, with its home space and first slots, in one transaction.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// See [`Account::uid`].
    pub uid: Uid,
    /// See [`Account::name`].
    pub name: String,
    /// See [`Account::admin`].
    pub admin: bool,
    /// See [`Account::public_key`].
    pub public_key: [u8; 32],
    /// See [`Account::quota_bytes`].
    pub quota_bytes: Option<u64>,
    /// Credential slots.
    pub slots: Vec<NewSlot>,
    /// Random uid of the home space, which bears the account's name.
    pub home_uid: Uid,
    /// The home space's data key wrapped to `public_key`.
    pub home_wrapped_key: Vec<u8>,
    /// When.
    pub now_ms: i64,
}

/// Fields of an account an administrator changes; none leaves a field as it is. Any change counts the generation up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountChange {
    /// New administrator flag.
    pub admin: Option<bool>,
    /// New disabled flag.
    pub disabled: Option<bool>,
    /// New quota (inner none: unlimited).
    pub quota_bytes: Option<Option<u64>>,
}

/// What a credential slot is opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotKind {
    /// The account's password (one at most).
    Password,
    /// An app token.
    Token,
    /// The recovery code (one at most).
    Recovery,
    /// The operator's escrow key, if switched on (one at most).
    Escrow,
    /// A browser that is signed in; the secret is in its cookie.
    Session,
}

impl SlotKind {
    /// Whether an account has any number of this kind, each found by its lookup; of the others it has one at most.
    pub const fn has_lookup(self) -> bool {
        matches!(self, Self::Token | Self::Session)
    }
}

/// A credential slot: the account's private key, wrapped for one credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Row.
    pub id: i64,
    /// Whose.
    pub account: AccountId,
    /// What opens it.
    pub kind: SlotKind,
    /// Public part of the credential by which it is found (the id of an app token or session); empty for the other kinds.
    pub lookup: String,
    /// The person's label.
    pub label: String,
    /// Only reading.
    pub read_only: bool,
    /// Only this space.
    pub space: Option<SpaceId>,
    /// The wrapped key, in `seal`'s encoding.
    pub sealed: Vec<u8>,
    /// When it was made.
    pub created_ms: i64,
    /// When it was last used, to the day or so (not every use is written).
    pub used_ms: Option<i64>,
    /// When it stops working.
    pub expires_ms: Option<i64>,
}

/// A slot to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSlot {
    /// See [`Slot::kind`].
    pub kind: SlotKind,
    /// See [`Slot::lookup`].
    pub lookup: String,
    /// See [`Slot::label`].
    pub label: String,
    /// See [`Slot::read_only`].
    pub read_only: bool,
    /// See [`Slot::space`].
    pub space: Option<SpaceId>,
    /// See [`Slot::sealed`].
    pub sealed: Vec<u8>,
    /// See [`Slot::expires_ms`].
    pub expires_ms: Option<i64>,
}

/// A member's role in a space, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Reader,
    /// Reads and writes.
    Editor,
    /// Also changes members, policy, empties the trash.
    Owner,
}

/// How new content of a space is compressed (encryption is always on).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Stored as it is.
    None,
    /// LZ4.
    Lz4,
    /// Zstandard at this level (1 to 19).
    Zstd(i8),
}

impl Default for Compression {
    /// Zstandard, level 1, with a window of a whole block. On 1 GiB of source text two cores compress 1,116 MB/s to 0.1725 of the size;
    /// level 2 compresses 1,022 MB/s to 0.1666.
    fn default() -> Self {
        Self::Zstd(1)
    }
}

/// How long old versions and trash are kept. A thing goes when any stated bound is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Days; 0 keeps nothing.
    pub days: u32,
    /// Old versions of one file at most.
    pub versions_max: Option<u32>,
    /// Bytes of old versions and trash in the space at most; the oldest go first.
    pub bytes_max: Option<u64>,
    /// Whether old versions thin out as they age: all of the last ten minutes are kept, then what a file was at each full ten seconds for an
    /// hour, at each full five minutes for a day, at each full hour for thirty days, and at the beginning of each day (UTC) after that.
    pub thin: bool,
}

impl Default for Retention {
    /// 30 days, thinning out, no other bound.
    fn default() -> Self {
        Self { days: 30, versions_max: None, bytes_max: None, thin: true }
    }
}

/// A space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// Row.
    pub id: SpaceId,
    /// Random name bound into every sealed block.
    pub uid: Uid,
    /// Name in URLs, unique.
    pub name: String,
    /// Whose quota it counts against.
    pub owner: AccountId,
    /// Whether it is the owner's home space.
    pub home: bool,
    /// Root folder.
    pub root: NodeId,
    /// For new content.
    pub compression: Compression,
    /// For old versions and trash.
    pub retention: Retention,
    /// Limit of this space alone; none is unlimited.
    pub quota_bytes: Option<u64>,
    /// Usage.
    pub usage: Usage,
    /// Counts every change in the space; a node's `seq` is the count at its last change.
    pub seq: i64,
    /// When it was made.
    pub created_ms: i64,
}

/// Sums of a space, kept in the transaction of each change and never negative (a database constraint).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Logical bytes of all files, old versions and trash: what quota counts.
    pub used_bytes: u64,
    /// Part of `used_bytes` held by old versions.
    pub version_bytes: u64,
    /// Bytes reserved by uploads that are under way.
    pub reserved_bytes: u64,
    /// Plaintext bytes of the distinct blocks stored (before sealing, after deduplication).
    pub stored_raw_bytes: u64,
    /// The same blocks as stored (after sealing).
    pub stored_sealed_bytes: u64,
}

/// A space to be made.
#[derive(Debug, Clone)]
pub struct NewSpace {
    /// See [`Space::uid`].
    pub uid: Uid,
    /// See [`Space::name`].
    pub name: String,
    /// See [`Space::owner`]; becomes its first member, with [`Role::Owner`].
    pub owner: AccountId,
    /// The space's data key wrapped to the owner's public key.
    pub wrapped_key: Vec<u8>,
    /// See [`Space::quota_bytes`].
    pub quota_bytes: Option<u64>,
    /// When.
    pub now_ms: i64,
}

/// Fields of a space its owner changes; none leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpaceChange {
    /// New compression for new content.
    pub compression: Option<Compression>,
    /// New retention.
    pub retention: Option<Retention>,
    /// New quota (inner none: unlimited).
    pub quota_bytes: Option<Option<u64>>,
    /// The account it counts against from now on.
    pub owner: Option<AccountId>,
}

/// Membership of one account in one space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The space.
    pub space: SpaceId,
    /// The account.
    pub account: AccountId,
    /// The account's name.
    pub account_name: String,
    /// Its role.
    pub role: Role,
    /// The space's data key wrapped to the account's public key.
    pub wrapped_key: Vec<u8>,
}
