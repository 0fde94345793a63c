//! What a mounted drive keeps of a node beside what every face knows.

use super::{NewContent, Node, NodeKind};
use holdfast_base::{ContentId, NodeId, NodeName};

/// Nanoseconds in a millisecond.
const NS_PER_MS: i64 = 1_000_000;

/// Extended attributes of one node, names and values together: four times what ext4 has room for in a block, and the largest value
/// that Linux hands over (`XATTR_SIZE_MAX`).
pub const XATTRS_BYTES_MAX: usize = 64 * 1_024;

/// Names that a file may have: `LINK_MAX` as the C library tells it of file systems that it does not know. A change writes a row for each.
pub const FILE_NAMES_MAX: u32 = 127;

/// What a node is to a mount, beyond file and folder. To every other face all of these are files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Special {
    /// What its [`NodeKind`] says.
    #[default]
    None,
    /// A symbolic link; its target is the content. Nothing of ours ever follows one.
    Link,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    Character,
    /// A block device.
    Block,
}

/// Attributes of a node as POSIX has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Posix {
    /// What it is.
    pub special: Special,
    /// Permissions with set-user-id, set-group-id and sticky: twelve bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of devices.
    pub rdev: u32,
    /// Last access as it was set; nothing updates it.
    pub atime_ns: i64,
    /// Last change of content.
    pub mtime_ns: i64,
    /// Last change of anything.
    pub ctime_ns: i64,
    /// How many extended attributes there are.
    pub xattrs: u32,
}

impl Posix {
    /// The same, with all times now.
    #[must_use]
    pub const fn at(self, now_ns: i64) -> Self {
        Self { atime_ns: now_ns, mtime_ns: now_ns, ctime_ns: now_ns, ..self }
    }
}

/// A time in milliseconds, as other faces know it.
pub const fn to_ms(ns: i64) -> i64 {
    ns.div_euclid(NS_PER_MS)
}

/// A time of other faces in nanoseconds.
pub(crate) const fn to_ns(ms: i64) -> i64 {
    ms.saturating_mul(NS_PER_MS)
}

/// A node with its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The node.
    pub node: Node,
    /// Its attributes; none if it came another way than through a mount and nobody gave it any.
    pub posix: Option<Posix>,
    /// What ties it to the other names of its file; none if it is the only one and has a number of its own.
    pub bond: Option<Bond>,
}

/// What the names of one file have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bond {
    /// The file's number: that of one of its nodes, or of none.
    pub number: NodeId,
    /// How many names it has.
    pub names: u32,
}

impl Entry {
    /// A node that has one name and no other.
    pub const fn new(node: Node, posix: Option<Posix>) -> Self {
        Self { node, posix, bond: None }
    }

    /// The number of the file or folder, which all its names have.
    pub fn number(&self) -> NodeId {
        self.bond.map_or(self.node.id, |bond| bond.number)
    }

    /// How many names it has.
    pub fn names(&self) -> u32 {
        self.bond.map_or(1, |bond| bond.names)
    }

    /// Its attributes; where it has none, those of `usual`. Times are those of the last change, whichever face made it.
    pub fn attributes(&self, usual: &Posix) -> Posix {
        let node_ns = to_ns(self.node.modified_ms);
        match self.posix {
            // Another face writes milliseconds only, and does not know of these.
            Some(posix) if to_ms(posix.mtime_ns) == self.node.modified_ms => posix,
            Some(posix) => Posix { mtime_ns: node_ns, ctime_ns: posix.ctime_ns.max(node_ns), ..posix },
            None => {
                // Folders may be entered by whoever may read them.
                let folder = self.node.kind == NodeKind::Folder;
                let mode = if folder { usual.mode | (usual.mode & 0o444) >> 2 } else { usual.mode };
                Posix { mode, ..usual.at(node_ns) }
            }
        }
    }
}

/// How soon a change is on disk after it was answered. Either way the next reader sees it, and the end of this process does not undo it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durable {
    /// Before the answer.
    #[default]
    Now,
    /// With the next change that is, or with [`Catalogue::settle`](crate::Catalogue::settle); a power cut before that takes it back, and
    /// everything answered after it. A database that serves several processes treats it like [`Self::Now`].
    Soon,
}

/// A node to be made in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// The folder.
    pub parent: NodeId,
    /// Its name there; one that is taken is `AlreadyExists`.
    pub name: NodeName,
    /// File or folder.
    pub kind: NodeKind,
    /// Attributes; the folder's times become its `ctime_ns`.
    pub posix: Posix,
    /// Content of a file.
    pub content: NewContent,
}

/// A further name of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewName {
    /// The file; a folder is `WrongKind`. With [`FILE_NAMES_MAX`] names it is `TooLarge`.
    pub node: NodeId,
    /// The folder.
    pub parent: NodeId,
    /// The name there; one that is taken is `AlreadyExists`.
    pub name: NodeName,
    /// When.
    pub now_ns: i64,
}

/// New content of a file that is known by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// The file.
    pub node: NodeId,
    /// The content it must have; another is `PreconditionFailed`.
    pub base: Option<ContentId>,
    /// What it becomes.
    pub content: NewContent,
    /// Its attributes after that; extended attributes stay.
    pub posix: Posix,
    /// Whether `base` becomes an old version, as far as the space keeps any.
    pub keep: bool,
}

/// A change of attributes; what is none stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewAttributes {
    /// See [`Posix::mode`].
    pub mode: Option<u32>,
    /// See [`Posix::uid`].
    pub uid: Option<u32>,
    /// See [`Posix::gid`].
    pub gid: Option<u32>,
    /// See [`Posix::atime_ns`].
    pub atime_ns: Option<i64>,
    /// See [`Posix::mtime_ns`].
    pub mtime_ns: Option<i64>,
    /// See [`Posix::ctime_ns`].
    pub ctime_ns: i64,
}

impl NewAttributes {
    /// `posix` with the change made.
    #[must_use]
    pub fn of(&self, posix: Posix) -> Posix {
        Posix {
            mode: self.mode.unwrap_or(posix.mode) & 0o7777,
            uid: self.uid.unwrap_or(posix.uid),
            gid: self.gid.unwrap_or(posix.gid),
            atime_ns: self.atime_ns.unwrap_or(posix.atime_ns),
            mtime_ns: self.mtime_ns.unwrap_or(posix.mtime_ns),
            ctime_ns: self.ctime_ns,
            ..posix
        }
    }
}

/// What becomes of a node that loses its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leave {
    /// When.
    pub now_ns: i64,
    /// Somebody has it open: its content stays until this time at least.
    pub held_until_ms: Option<i64>,
    /// What was made after this time, and empty files, do not go to the trash: programs make and remove such files all the time.
    pub forget_after_ms: i64,
}

/// A node that is to lose its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlink {
    /// The folder.
    pub parent: NodeId,
    /// The name there.
    pub name: NodeName,
    /// Whether it must be a folder, which must be empty (`Conflict`), or must be none; otherwise `WrongKind`.
    pub folder: bool,
    /// What becomes of it.
    pub leave: Leave,
}

/// What a rename does where the new name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Replaces it, if that is of the same kind (`WrongKind`) and no folder with anything in it (`Conflict`).
    Replace,
    /// `AlreadyExists`.
    Refuse,
    /// Both names change places; a name that is not taken is `NotFound`.
    Exchange,
}

/// A node that is to have another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    /// Folder and name it has.
    pub from: (NodeId, NodeName),
    /// Folder and name it is to have. A folder below itself is `InvalidInput`.
    pub to: (NodeId, NodeName),
    /// If that is taken.
    pub taken: Taken,
    /// What becomes of what is replaced.
    pub leave: Leave,
}

/// What a rename did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    /// The node, by its new name.
    pub entry: Entry,
    /// What lost its name for it, or changed places with it.
    pub other: Option<Entry>,
}

/// Whether an extended attribute must be there before it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrRule {
    /// May be.
    Any,
    /// Must not (`AlreadyExists`).
    Create,
    /// Must (`NotFound`).
    Replace,
}
