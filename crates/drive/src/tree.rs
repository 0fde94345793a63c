//! What a mount speaks to: one space, its nodes by number.
//!
//! A mount asks many small questions about nodes it knows, so nothing here takes a path, and nothing walks one down. It has two
//! implementations to come to: [`Engine::tree`](crate::engine::Engine::tree) on this machine, and a client that seals by itself and
//! speaks to a server (docs/design/mount.md).

use crate::engine::Believer;
use crate::engine::small::{Sealed, SealedBlock};
use crate::posix_locks::Locking;
use crate::{ContentStream, Prepared, SealedAhead, Unsynced};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::{ByteRange, ContentId, Error, ErrorKind, NodeId, NodeName, Result};
use holdfast_meta::{
    Applied, Batch, Change, Durable, Entry, NewAttributes, NewContent, NewName, NodeKind, Posix, Rename, Renamed,
    Unlink, XattrRule,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::broadcast;

/// A space, by numbers; a file of several names goes by its own ([`Entry::number`]) or that of any of them. Whoever may no longer see it is `NotFound` within a second, whoever may only read `Forbidden`. A lock of
/// another face on what is changed is `Locked`.
#[async_trait]
pub trait Tree: Send + Sync + 'static {
    /// The space's root.
    fn root(&self) -> NodeId;
    /// A node that has a name.
    async fn entry(&self, node: NodeId) -> Result<Option<Entry>>;
    /// The same for whoever is about to open it: at least as it was when the last change was answered, whoever asked for that.
    async fn entry_to_open(&self, node: NodeId) -> Result<Option<Entry>> {
        self.entry(node).await
    }
    /// A member of a folder.
    async fn lookup(&self, folder: NodeId, name: &NodeName) -> Result<Option<Entry>>;
    /// Up to `limit` members of a folder in byte order of name, after `after`.
    async fn list(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Result<Vec<Entry>>;
    /// What is used, and what is left.
    async fn room(&self) -> Result<Room>;
    /// Opens a content to read it. What is read of it stays the same whatever becomes of the file.
    async fn open(&self, content: ContentId) -> Result<Arc<dyn OpenContent>>;

    /// Whether a content has blocks of nothing but zeros among its first `blocks_max`, as far as that is told at once.
    async fn has_holes(&self, _content: ContentId, _blocks_max: u64) -> Result<bool> {
        Ok(false)
    }

    /// Makes a node with content of at most a block.
    async fn create(&self, new: NewNode, content: Bytes, durable: Durable) -> Result<Entry>;
    /// Gives a file new content: `PreconditionFailed` if it has not the content that this was made of, `NotFound` if it has no name.
    async fn save(&self, save: Save, body: SaveBody) -> Result<Entry>;
    /// Seals content that will be all of a file, if a save of it can be answered before anything is written; with what it gives,
    /// [`Self::save_whole`] saves it. Waits for nobody.
    fn seal_whole(&self, _plain: &[u8]) -> Option<Sealed> {
        None
    }
    /// Saves a whole file whose content is sealed; none, and nothing is done, if that must go the way of [`Self::save`].
    async fn save_whole(&self, _save: &Save, _sealed: Sealed) -> Result<Option<Entry>> {
        Ok(None)
    }
    /// Whether content is sealed in this process: then blocks may be sealed before the save that names them.
    fn seals_here(&self) -> bool {
        false
    }
    /// Whether a save may leave out blocks that stay and blocks of zeros, as far as is known: a save that does so elsewhere is `Unsupported`, and known from then on.
    fn leaves_out(&self) -> bool {
        false
    }
    /// Whether a save of a whole file of this size is answered now, where one of a part would wait for a server that is away.
    fn prefers_whole(&self, _size: u64) -> bool {
        false
    }
    /// Seals a whole block of what a later [`Self::save`] is to have; none if the space has it already, which the save finds. `Unsupported` where
    /// [`Self::seals_here`] says no.
    async fn seal_ahead(&self, _block: Vec<Bytes>) -> Result<Option<SealedAhead>> {
        Err(Error::new(ErrorKind::Unsupported, "blocks are sealed by the save here"))
    }
    /// The same, and whole blocks of another content of the space behind what is sent, without moving a byte of them: `range` begins where a block of it begins,
    /// and ends where one or it ends; `save.body` ends where a block begins, and `save.size` behind the range. What cannot be done so is `Unsupported`, and
    /// has to be sent.
    async fn extend(&self, _save: Save, _body: SaveBody, _tail: (ContentId, ByteRange)) -> Result<Entry> {
        Err(Error::new(ErrorKind::Unsupported, "content is not copied without moving it here"))
    }
    /// Changes attributes; of a node without any, `usual` is what they were.
    async fn set_attributes(&self, node: NodeId, change: NewAttributes, usual: Posix) -> Result<Entry>;
    /// Gives a file another name, and answers that. `Unsupported` where files have one.
    async fn link(&self, link: NewName, usual: Posix) -> Result<Entry>;
    /// Takes a node its name.
    async fn unlink(&self, unlink: Unlink) -> Result<NodeId>;
    /// Gives a node another name.
    async fn rename(&self, rename: Rename) -> Result<Renamed>;
    /// Prolongs the time for which nodes without a name are held.
    async fn hold(&self, nodes: Vec<NodeId>, until_ms: i64) -> Result<()>;
    /// Nobody has the node open any more.
    async fn let_go(&self, node: NodeId) -> Result<()>;
    /// Extended attributes of a node, by name.
    async fn xattrs(&self, node: NodeId) -> Result<Vec<(String, Vec<u8>)>>;
    /// Sets an extended attribute, or removes it; see [`Catalogue::set_xattr`](holdfast_meta::Catalogue::set_xattr).
    async fn set_xattr(
        &self,
        node: NodeId,
        change: (String, Option<Vec<u8>>, XattrRule),
        usual: (Posix, i64),
    ) -> Result<Entry>;
    /// What went wrong with a node after its change was answered, and was not told yet. Asked by whoever closes or syncs it.
    fn trouble(&self, _node: NodeId) -> Option<Error> {
        None
    }
    /// When it answers, everything that was answered before is on disk.
    async fn settle(&self) -> Result<()>;
    /// Changes of the drive's spaces from now on, by whomever.
    fn changes(&self) -> broadcast::Receiver<Change>;
    /// A number that stays while nobody but whoever asks changed anything, as far as anybody is told of it at once; none if nobody is. Waits for nobody.
    fn unchanged(&self) -> Option<u64> {
        None
    }
    /// Who shows to others what is asked here, and is to have taken back what is not so any more before it is said here that a change was heard of.
    fn shown_by(&self, _who: Weak<dyn Shows>) {}
    /// Nothing that is known here is shown to anybody any more: others need not wait until this mount has heard of what they change.
    async fn leave(&self) {}
    /// How it does, for whoever looks after a mount. Waits for nobody.
    fn condition(&self) -> Condition {
        Condition::default()
    }
    /// Hands over what was answered first; then others see it. Says nothing about disks.
    async fn hand_over(&self) -> Result<()> {
        Ok(())
    }
    /// Locks that hold over all mounts of the space; none if they hold within a mount only.
    fn locking(&self) -> Option<Arc<dyn Locking>> {
        None
    }
    /// Lets go of a content that is kept to be read again, or of all of them and what is known of names; of what is pinned only if that is said.
    async fn forget(&self, _content: Option<ContentId>, _pinned_too: bool) {}
    /// What keeps files here for when the server is away; none where there is no such thing.
    fn pinning(&self) -> Option<Arc<dyn Pinning>> {
        None
    }
}

/// Longest that others wait until who shows something has taken it back: that may wait for what waits for those others.
const TAKES_BACK: Duration = Duration::from_millis(250);

/// Who shows what a tree answers, if anybody does.
#[derive(Default)]
pub struct ShownBy(Mutex<Option<Weak<dyn Shows>>>);

impl ShownBy {
    /// From now on it is this.
    pub fn set(&self, who: Weak<dyn Shows>) {
        *self.0.lock() = Some(who);
    }

    /// Nobody believes any more what is not so; or does, because taking it back waits for what is under way in the same folder, which may wait for this.
    pub async fn has_taken_back(&self) {
        let who = self.0.lock().as_ref().and_then(Weak::upgrade);
        if let Some(who) = who {
            let _ = tokio::time::timeout(TAKES_BACK, who.has_taken_back()).await;
        }
    }
}

/// Who shows what a tree answers to others, and has them believe it.
#[async_trait]
pub trait Shows: Send + Sync {
    /// Waits until nobody believes anything any more that was answered before the tree's last change by somebody else.
    async fn has_taken_back(&self);
}

/// Files and folders that are kept on this machine, whatever else there is no room for.
#[async_trait]
pub trait Pinning: Send + Sync {
    /// Keeps a file, or everything below a folder, from now on; it is fetched in the background. `path` is what it is called where it is told of. On disk when
    /// it is answered.
    async fn pin(&self, node: NodeId, path: String) -> Result<()>;
    /// Keeps it no more. Answers whether it was pinned: by this path, or by this node if there is one.
    async fn unpin(&self, path: &str, node: Option<NodeId>) -> Result<bool>;
}

/// How a cache on the disk does. Counts are since the mount began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskCache {
    /// Its folder.
    pub folder: String,
    /// Bytes it takes.
    pub bytes: u64,
    /// Bytes it takes at most.
    pub bytes_max: u64,
    /// Bytes that are pinned.
    pub pinned_bytes: u64,
    /// Blocks, and what is known of contents and folders.
    pub things: u64,
    /// Blocks that were read from it.
    pub hits: u64,
    /// Blocks that were not in it.
    pub misses: u64,
    /// Bytes of files that were read from it.
    pub hit_bytes: u64,
    /// Things that went because there was no room.
    pub evicted: u64,
    /// Things that did not open and were dropped.
    pub damaged: u64,
    /// Things that could not be kept.
    pub skipped: u64,
    /// Why nothing could be kept lately.
    pub trouble: Option<String>,
    /// What is pinned.
    pub pins: Vec<Pinned>,
}

/// How far something pinned is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pinned {
    /// What it was called when it was pinned.
    pub path: String,
    /// How it does.
    pub state: PinState,
    /// Files in it, as far as they are known.
    pub files: u64,
    /// How many of them are here.
    pub files_here: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Bytes of those that are here.
    pub bytes_here: u64,
    /// What is in the way.
    pub why: Option<String>,
}

/// How something pinned does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PinState {
    /// It was not looked at yet.
    #[default]
    Waits,
    /// It is being fetched.
    Fetches,
    /// All of it is here, as of the last look.
    Here,
    /// There is no room for all of it.
    NoRoom,
    /// It could not be fetched lately.
    Fails,
    /// There is no such node any more.
    Gone,
}

/// How a tree does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// How long its server has been away; none if it is there, or there is none.
    pub away: Option<Duration>,
    /// Content in memory, to be read again; as far as it is known.
    pub cache_bytes: Option<u64>,
    /// What it answered first, if it does so.
    pub deferred: Option<Waiting>,
    /// Its cache on the disk, if it has one.
    pub disk: Option<DiskCache>,
}

/// Changes that were answered and are not where they belong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many, with those that were refused.
    pub changes: u64,
    /// Bytes of the journal on disk.
    pub bytes: u64,
    /// Bytes of content that is in the store and not synced there, or in the spool of a mount from a server.
    pub unsynced_bytes: u64,
    /// When the oldest was made, in nanoseconds since 1970.
    pub oldest_ns: Option<i64>,
    /// How many were refused and are tried again.
    pub refused: u64,
    /// The first of those, with what they are about and why: [`REFUSED_SHOWN_MAX`] at most.
    pub reasons: Vec<(String, String)>,
    /// Why none could be handed over lately.
    pub failure: Option<String>,
}

/// See [`Waiting::reasons`].
pub const REFUSED_SHOWN_MAX: usize = 100;

/// Bytes of a content in blocks, and of all those of a batch, at most: with so many blocks, a transaction takes a few milliseconds.
pub const PREPARED_BYTES_MAX: u64 = 64 << 20;

/// A tree that takes changes which were answered before it knew of them.
#[async_trait]
pub trait Deferring: Tree {
    /// Whether changes may be made here: `Forbidden` to whoever may only read.
    async fn may_change(&self) -> Result<()>;
    /// Gives out up to so many numbers for nodes and contents that nobody else gets, at least one.
    async fn reserve(&self, count: u32) -> Result<Range<i64>>;
    /// Seals content that may be small enough to lie in the catalogue. Waits for nobody.
    fn seal_small(&self, plain: &[u8]) -> Result<Sealed>;
    /// Opens what [`Self::seal_small`] found small enough.
    fn open_small(&self, content: &NewContent) -> Result<Vec<u8>>;
    /// Bytes of a content that may be written before it is synced at most, for [`Self::prepare`] and what belongs to it, and about as many go into a batch;
    /// none may be if it is 0. At most [`PREPARED_BYTES_MAX`].
    fn prepared_bytes_max(&self) -> u64 {
        0
    }
    /// Whether the server is not to be reached at present, as far as anybody found out.
    fn is_away(&self) -> bool {
        false
    }
    /// Whether there is room here for more of such content now; if not, it is saved in the usual way.
    fn has_room(&self) -> bool {
        true
    }
    /// Writes what a save of a whole file is to have, and syncs nothing of it.
    async fn prepare(&self, _save: &Save, _body: SaveBody) -> Result<Prepared> {
        Err(Error::new(ErrorKind::Unsupported, "content is written by the save here"))
    }
    /// Writes a block that turned out too large for [`Self::seal_small`], as a whole content; none if the space has it.
    async fn prepare_block(&self, _block: SealedBlock) -> Result<Option<Prepared>> {
        Ok(None)
    }
    /// Saves it at once, as [`Tree::save`] does.
    async fn save_prepared(&self, _save: Save, _prepared: Prepared) -> Result<Entry> {
        Err(Error::new(ErrorKind::Unsupported, "content is written by the save here"))
    }
    /// Makes contents durable. Before that, [`Self::apply`] must not have them.
    async fn sync(&self, contents: &[Unsynced]) -> Result<()> {
        if contents.is_empty() { Ok(()) } else { Err(Error::internal("nothing was written before its sync here")) }
    }
    /// Writes a content once more that was written and may be lost, by this process or one before it; none if it is.
    async fn rescue(&self, _content: &NewContent) -> Result<Option<Unsynced>> {
        Ok(None)
    }
    /// Of what a process before this wrote, nobody needs more than was [rescued](Self::rescue) and is kept still.
    fn forget_left(&self) -> Result<()> {
        Ok(())
    }
    /// Which changes of a journal, by their numbers, were answered well by [`Self::apply`]: an answer each.
    async fn answered(&self, _journal: [u8; 16], numbers: Vec<u64>) -> Result<Vec<bool>> {
        Ok(vec![false; numbers.len()])
    }
    /// Whether other faces lock anything in the space, or may do: then names are taken away and given as they were before anything was answered first.
    async fn has_locks(&self) -> Result<bool>;
    /// The leases of whoever asks here, if it is a mount on another machine and others wait until it has heard of what they change.
    fn believes(&self) -> Option<Believer> {
        None
    }
    /// The count of the space's changes, which a power cut that takes changes back takes back as well; none where this machine's power cuts take none.
    async fn seq(&self) -> Result<Option<i64>>;
    /// Makes changes that were answered before: see [`Catalogue::apply`](holdfast_meta::Catalogue::apply).
    async fn apply(&self, batch: Batch, durable: Durable) -> Result<Vec<Result<Applied>>>;
    /// The same for a client, with the blocks of its contents as [entries](crate::engine::sealed), in order.
    async fn apply_with(
        &self,
        _batch: Batch,
        _records: ContentStream,
        _durable: Durable,
    ) -> Result<Vec<Result<Applied>>> {
        Err(Error::new(ErrorKind::Unsupported, "blocks do not come with changes here"))
    }
}

/// A content that is being read.
#[async_trait]
pub trait OpenContent: Send + Sync + 'static {
    /// Its number.
    fn id(&self) -> ContentId;
    /// Its size in bytes.
    fn size(&self) -> u64;
    /// Bytes of the blocks of which a new version may keep some ([`Save::body`]); none if it can keep nothing.
    fn grain(&self) -> Option<u64>;
    /// Whether block `index`, of [`Self::grain`], is nothing but zeros, as far as that is known without reading it.
    async fn is_hole(&self, _index: u64) -> Result<bool> {
        Ok(false)
    }
    /// A range, which must lie within it.
    async fn read(&self, range: ByteRange) -> Result<Vec<u8>>;
}

/// Room in a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes in use, old versions and trash with them.
    pub used_bytes: u64,
    /// Bytes that can still be written, as far as anybody knows.
    pub free_bytes: Option<u64>,
}

/// A node to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNode {
    /// Its folder.
    pub parent: NodeId,
    /// Its name.
    pub name: NodeName,
    /// File or folder.
    pub kind: NodeKind,
    /// Its attributes.
    pub posix: Posix,
}

/// What a save sends.
pub struct SaveBody {
    /// The bytes of [`Save::body`], without those of the blocks that follow.
    pub stream: ContentStream,
    /// Blocks that were sealed before, by their number in the file.
    pub ahead: BTreeMap<u64, SealedAhead>,
    /// Whole blocks that are left out, in order, and not among those before.
    pub left_out: LeftOut,
}

/// Whole blocks of a file that a save does not send, by their numbers, in order. Only where that may be ([`Tree::leaves_out`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Those of [`Save::base`] that stay where they are.
    pub stay: Vec<Range<u64>>,
    /// Those of nothing but zeros.
    pub zeros: Vec<Range<u64>>,
}

impl LeftOut {
    /// Ranges of each kind at most.
    pub const RANGES_MAX: usize = 32_768;

    /// How many blocks.
    pub fn blocks(&self) -> u64 {
        let blocks = self.stay.iter().chain(&self.zeros).map(|range| range.end.saturating_sub(range.start));
        blocks.fold(0, u64::saturating_add)
    }

    /// Whether nothing is.
    pub const fn is_empty(&self) -> bool {
        self.stay.is_empty() && self.zeros.is_empty()
    }
}

impl From<ContentStream> for SaveBody {
    fn from(stream: ContentStream) -> Self {
        Self { stream, ahead: BTreeMap::new(), left_out: LeftOut::default() }
    }
}

/// A file's new content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Save {
    /// The file.
    pub node: NodeId,
    /// The content it was made of.
    pub base: Option<ContentId>,
    /// The part that is sent; what is before and after it stays as it is in `base`. It begins where a block of [`OpenContent::grain`]
    /// begins, and ends where one does or at the file's end.
    pub body: ByteRange,
    /// The file's size after that. Where something after `body` stays, that of `base`.
    pub size: u64,
    /// The file's attributes after that.
    pub posix: Posix,
    /// Whether `base` becomes an old version.
    pub keep: bool,
    /// How soon it is on disk.
    pub durable: Durable,
}
