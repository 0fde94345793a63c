//! Who serves a drive: instances and leases. (A node, in this crate, is a file or a folder.)

use crate::types::Pack;
use holdfast_base::Uid;
use serde::{Deserialize, Serialize};

/// An instance's number; no other ever has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(pub i64);

/// A server that begins to serve the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInstance {
    /// The random name of its data directory.
    pub uid: Uid,
    /// What people call it.
    pub name: String,
    /// Its release.
    pub version: String,
}

/// What joining answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The new instance.
    pub id: InstanceId,
    /// Packs that instances which are gone left open, to be sealed as they lie in the store.
    pub left: Vec<Pack>,
}

/// A server of the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its number.
    pub id: InstanceId,
    /// The random name of its data directory.
    pub uid: Uid,
    /// What people call it.
    pub name: String,
    /// URLs it listens on.
    pub addresses: Vec<String>,
    /// Its release.
    pub version: String,
    /// When it began.
    pub started_ms: i64,
    /// When it last said that it is there.
    pub seen_ms: i64,
}

/// The right to do something only one instance may do at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// For what.
    pub name: String,
    /// Who has it.
    pub holder: InstanceId,
    /// Counts up with every new holder.
    pub fence: u64,
    /// Until when, unless it is renewed.
    pub expires_ms: i64,
}

/// The servers of the drive, by name, and their leases. All times are those of [`Self::now_ms`]'s clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// The database's clock.
    pub now_ms: i64,
    /// Instances, those that are gone and were not yet given up included.
    pub instances: Vec<Instance>,
    /// Leases.
    pub leases: Vec<Lease>,
    /// Packs that are being written.
    pub packs_open: u64,
}
