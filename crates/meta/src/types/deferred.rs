//! Changes that a mount answered before the catalogue had them, and what becomes of them there.

use super::{Entry, NewAttributes, NewEntry, Posix, Rename, Rewrite, Taken, Unlink};
use holdfast_base::{ContentId, ErrorKind, NodeId, NodeName};
use std::collections::HashSet;

/// Changes of one batch at most: one transaction, some ten milliseconds.
pub const BATCH_CHANGES_MAX: usize = 256;

/// How long it is remembered to whom numbers were given, and how far a journal was gone through: 90 days.
pub const GIVEN_MS: i64 = 90 * 86_400_000;

/// A change that was answered before the catalogue had it. Its numbers were reserved, so whoever made it could go on with what it made.
/// Contents are empty, inline, or in blocks that were all just written ([`Blocks`](super::NewContent::Blocks)), as from a mount on this machine.
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
    /// Takes a node its name. What others did with it meanwhile is not undone: by another name, with other content or with members it stays.
    Unlink {
        /// The name.
        unlink: Unlink,
        /// The node.
        node: NodeId,
        /// The content that it had when its removal was answered.
        content: Option<ContentId>,
    },
    /// Gives a node another name, wherever it is by now.
    Rename {
        /// The names.
        rename: Rename,
        /// The node.
        node: NodeId,
        /// What had the new name when the change was answered, and its content: it loses its name for this, or changes places. Anything else that is there
        /// by then is another's, and both are kept.
        other: Option<(NodeId, Option<ContentId>)>,
    },
    /// Something was made in a folder, changed, and removed before it came here: what is left of it are the folder's times.
    Passed {
        /// What it was.
        node: NodeId,
        /// The folder.
        folder: NodeId,
        /// When.
        now_ns: i64,
    },
}

impl Deferred {
    /// The node it is about.
    pub const fn node(&self) -> NodeId {
        match self {
            Self::Create { id, .. } => *id,
            Self::Save { rewrite, .. } => rewrite.node,
            Self::Attributes { node, .. }
            | Self::Unlink { node, .. }
            | Self::Rename { node, .. }
            | Self::Passed { node, .. } => *node,
        }
    }

    /// The node that loses its name for it, or changes places.
    pub const fn other(&self) -> Option<NodeId> {
        match self {
            Self::Rename { other: Some((other, _)), .. } => Some(*other),
            _ => None,
        }
    }

    /// The node whose name it takes away.
    pub const fn removed(&self) -> Option<NodeId> {
        match self {
            Self::Unlink { node, .. } => Some(*node),
            Self::Rename { rename, .. } if !matches!(rename.taken, Taken::Exchange) => self.other(),
            _ => None,
        }
    }

    /// The names it gives or takes, by folder.
    pub fn names(&self) -> impl Iterator<Item = (NodeId, &NodeName)> {
        let (one, two) = match self {
            Self::Create { new, .. } => (Some((new.parent, &new.name)), None),
            Self::Unlink { unlink, .. } => (Some((unlink.parent, &unlink.name)), None),
            Self::Rename { rename: Rename { from, to, .. }, .. } => (Some((from.0, &from.1)), Some((to.0, &to.1))),
            Self::Save { .. } | Self::Attributes { .. } | Self::Passed { .. } => (None, None),
        };
        one.into_iter().chain(two)
    }

    /// The folders whose members it changes.
    pub fn folders(&self) -> impl Iterator<Item = NodeId> {
        let passed = match self {
            Self::Passed { folder, .. } => Some(*folder),
            _ => None,
        };
        self.names().map(|(folder, _)| folder).chain(passed)
    }

    /// Whether a refusal of this kind says that there is nothing left to be changed.
    pub const fn is_pointless(&self, refusal: ErrorKind) -> bool {
        matches!(self, Self::Attributes { .. })
            && matches!(refusal, ErrorKind::NotFound | ErrorKind::WrongKind | ErrorKind::Conflict)
    }
}

/// What must wait for changes that were refused and are to come again: whatever is about the same nodes or names, and the removal of folders in which they
/// are.
#[derive(Debug, Clone, Default)]
pub struct HeldUp {
    nodes: HashSet<NodeId>,
    names: HashSet<(NodeId, NodeName)>,
    folders: HashSet<NodeId>,
}

impl HeldUp {
    /// A change waits, and what comes after it with it.
    pub fn add(&mut self, change: &Deferred) {
        self.nodes.insert(change.node());
        self.nodes.extend(change.other());
        self.names.extend(change.names().map(|(folder, name)| (folder, name.clone())));
        self.folders.extend(change.folders());
    }

    /// Whether a change must wait.
    pub fn holds_up(&self, change: &Deferred) -> bool {
        if self.nodes.is_empty() {
            return false;
        }
        self.nodes.contains(&change.node())
            || change.other().is_some_and(|other| self.nodes.contains(&other))
            || change.removed().is_some_and(|folder| self.folders.contains(&folder))
            || change
                .names()
                .any(|(folder, name)| self.nodes.contains(&folder) || self.names.contains(&(folder, name.clone())))
    }

    /// Whether a change of this node waits.
    pub fn has(&self, node: NodeId) -> bool {
        self.nodes.contains(&node)
    }

    /// Nothing waits any more.
    pub fn clear(&mut self) {
        *self = Self::default();
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

/// What a mount that answers first has to know of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The count of its changes; a power cut that takes changes back takes it back, too.
    pub seq: i64,
    /// How many locks there are in it, lapsed ones with them.
    pub locks: u64,
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
    /// Others removed or moved what it is about, and it stays as they have it.
    Late,
}
