//! Changes that a mount answered before the catalogue had them, and what becomes of them there.

use super::{Entry, NewAttributes, NewEntry, Posix, Rewrite, Unlink};
use holdfast_base::{ContentId, NodeId, NodeName};

/// Changes of one batch at most: one transaction, some ten milliseconds.
pub const BATCH_CHANGES_MAX: usize = 256;

/// How long it is remembered to whom numbers were given, and how far a journal was gone through: 90 days.
pub const GIVEN_MS: i64 = 90 * 86_400_000;

/// A change that was answered before the catalogue had it. Its numbers were reserved, so whoever made it could go on with what it made.
/// Contents are empty or inline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deferred {
    /// Makes a node.
    Create {
        /// Its number.
        id: NodeId,
        /// What it is.
        new: NewEntry,
        /// The number of its content, if that is not empty.
        content_id: ContentId,
    },
    /// Gives a file new content.
    Save {
        /// The file and what becomes of it.
        rewrite: Rewrite,
        /// The number of the content, if that is not empty.
        content_id: ContentId,
        /// Where the file was: what was written goes there if it is gone meanwhile.
        at: (NodeId, NodeName),
    },
    /// Changes attributes.
    Attributes {
        /// The node.
        node: NodeId,
        /// What of them.
        change: NewAttributes,
        /// What they were if it has none.
        usual: Posix,
    },
    /// Takes a node its name, if it still is that node's.
    Unlink {
        /// The name.
        unlink: Unlink,
        /// The node.
        node: NodeId,
    },
}

impl Deferred {
    /// The node it is about.
    pub const fn node(&self) -> NodeId {
        match self {
            Self::Create { id, .. } => *id,
            Self::Save { rewrite, .. } => rewrite.node,
            Self::Attributes { node, .. } | Self::Unlink { node, .. } => *node,
        }
    }

    /// The folder whose members it changes.
    pub const fn folder(&self) -> Option<NodeId> {
        match self {
            Self::Create { new, .. } => Some(new.parent),
            Self::Unlink { unlink, .. } => Some(unlink.parent),
            Self::Save { .. } | Self::Attributes { .. } => None,
        }
    }
}

/// Changes of one journal, in the order they were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// A random name.
    pub journal: [u8; 16],
    /// Each with its number in the journal, which grows.
    pub changes: Vec<(u64, Deferred)>,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It was made, and this is what came of it.
    Made(Entry),
    /// It was made, but not where it was to be: somebody else had taken the name, changed the file or removed the folder. Both are kept, and
    /// this is what was written here.
    Aside(Entry),
    /// The node lost its name.
    Gone(NodeId),
    /// It was made before: the journal is being gone through again.
    Before,
}
