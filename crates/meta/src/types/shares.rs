//! Shares: what an account, or whoever knows a link, may do below one node of a space.

use super::{NodeKind, Space};
use holdfast_base::{AccountId, DrivePath, NodeId, SpaceId, Uid};
use serde::{Deserialize, Serialize};

/// Shares one account makes at most: each is a thing somebody has to remember.
pub const SHARES_BY_ACCOUNT_MAX: usize = 1_000;
/// Shares with one account at most: each is an entry beside its spaces in every listing.
pub const SHARES_WITH_ACCOUNT_MAX: usize = 200;
/// Visits of one link at a time; with one more the oldest ends.
pub const VISITS_PER_LINK_MAX: usize = 1_000;

/// What a share allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Looking and reading.
    Read,
    /// Also writing, moving and removing.
    Write,
    /// Only uploading, and seeing nothing (links only).
    Upload,
}

/// What only a link has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkLock {
    /// The link's private key, sealed for its secret, and its password if it has one.
    pub sealed: Vec<u8>,
    /// A hash of the secret: who cannot show it learns nothing, not even that there is such a link.
    pub proof: Vec<u8>,
    /// The secret, sealed to the public key of whoever made the link, who can so show it again.
    pub secret: Vec<u8>,
    /// Whether it has a password.
    pub has_password: bool,
}

/// A share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Row.
    pub id: i64,
    /// Its random name in addresses.
    pub uid: Uid,
    /// The space.
    pub space: SpaceId,
    /// The folder, or of a link the file or folder, that is shared with all below it.
    pub node: NodeId,
    /// Who made it.
    pub by: AccountId,
    /// That account's name.
    pub by_name: String,
    /// Whether that account is disabled.
    pub by_disabled: bool,
    /// With whom; none is a link.
    pub account: Option<AccountId>,
    /// That account's name; empty for a link.
    pub account_name: String,
    /// What that account calls it, beside its spaces; empty for a link.
    pub name: String,
    /// A note of whoever made it.
    pub label: String,
    /// What it allows.
    pub access: Access,
    /// The space's data key, wrapped to the account's public key or the link's.
    pub wrapped_key: Vec<u8>,
    /// Of a link.
    pub link: Option<LinkLock>,
    /// When it ends.
    pub expires_ms: Option<i64>,
    /// Downloads at most.
    pub downloads_max: Option<u64>,
    /// Downloads so far; counted only where there is a limit.
    pub downloads: u64,
    /// When it was made.
    pub created_ms: i64,
}

impl Share {
    /// Whether its time is over.
    pub fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|expires_ms| now_ms >= expires_ms)
    }
}

/// A share with where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// The share.
    pub share: Share,
    /// Its space.
    pub space: Space,
    /// Where its node is and what it is; none while that is in the trash, or gone.
    pub place: Option<(DrivePath, NodeKind)>,
}

/// A share to be made.
#[derive(Debug, Clone)]
pub struct NewShare {
    /// See [`Share::uid`].
    pub uid: Uid,
    /// See [`Share::space`].
    pub space: SpaceId,
    /// See [`Share::node`].
    pub node: NodeId,
    /// See [`Share::by`].
    pub by: AccountId,
    /// With whom, and what it is to be called there: a number is added where that is taken. None is a link.
    pub with: Option<(AccountId, String)>,
    /// See [`Share::label`].
    pub label: String,
    /// See [`Share::access`].
    pub access: Access,
    /// See [`Share::wrapped_key`].
    pub wrapped_key: Vec<u8>,
    /// Of a link.
    pub link: Option<LinkLock>,
    /// See [`Share::expires_ms`].
    pub expires_ms: Option<i64>,
    /// See [`Share::downloads_max`].
    pub downloads_max: Option<u64>,
    /// When.
    pub now_ms: i64,
}

/// Fields of a share to be changed; none leaves a field as it is. Any change of access or lock ends a link's visits.
#[derive(Debug, Clone, Default)]
pub struct ShareChange {
    /// See [`Share::label`].
    pub label: Option<String>,
    /// See [`Share::access`].
    pub access: Option<Access>,
    /// See [`Share::expires_ms`] (inner none: never).
    pub expires_ms: Option<Option<i64>>,
    /// See [`Share::downloads_max`] (inner none: no limit). The count begins again.
    pub downloads_max: Option<Option<u64>>,
    /// A new lock, with the space's key wrapped to its new key.
    pub lock: Option<(LinkLock, Vec<u8>)>,
}

/// A visit of a link: a session that is limited to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// Row.
    pub id: i64,
    /// The link.
    pub share: i64,
    /// The link's private key, sealed for the visit's secret.
    pub sealed: Vec<u8>,
    /// When it ends.
    pub expires_ms: i64,
    /// Whether its link has a limit of downloads.
    pub limited: bool,
}

/// A visit about to begin.
#[derive(Debug, Clone)]
pub struct NewVisit {
    /// The link.
    pub share: i64,
    /// Public part of its secret by which it is found.
    pub lookup: String,
    /// See [`Visit::sealed`].
    pub sealed: Vec<u8>,
    /// When.
    pub now_ms: i64,
    /// See [`Visit::expires_ms`].
    pub expires_ms: i64,
}

/// What a change comes in through, where that is a share: tested in the transaction of the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    /// The share, which must still be there and not have expired.
    pub share: i64,
    /// Its space; a change elsewhere is not concerned.
    pub space: SpaceId,
    /// Where its node must still be.
    pub base: DrivePath,
    /// Whether more than reading must still be allowed; not of what is only copied from.
    pub writes: bool,
}
