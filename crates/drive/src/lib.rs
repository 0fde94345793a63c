//! The drive: what every face (WebDAV, API, mount, transfer) speaks to.
//!
//! [`Drive`] is the trait; [`engine`] is the local implementation, which seals content into packs of a
//! [`holdfast_blob::BlobStore`] and names it in a [`holdfast_meta::Catalogue`]. A face hands in a
//! [`Session`] with every call; the drive decides from its memberships and scope what it may do.

pub mod care;
pub mod engine;
pub mod posix_locks;
pub mod scratch;
mod tree;
mod types;

pub use engine::LINK_VIEW;
pub use engine::ahead::SealedAhead;
pub use engine::unsynced::{Prepared, Rescued, Spooled, Unsynced};
pub use holdfast_meta::{
    Access, Applied, BATCH_CHANGES_MAX, Batch, Bond, Change, Changed, Compression, Content, Cursor, Deferred, Durable,
    Entry, Expect, HITS_MAX, HeldUp, Leave, Lock, MANIFEST_CHUNK_BLOCKS, ManifestChunk, MediaGroup, NameTaken,
    NewAttributes, NewContent, NewEntry, NewName, Node, NodeKind, Place, Posix, Property, PropertyChange, Rename,
    Renamed, Retention, Rewrite, Role, SEARCHES_MAX, SMART_HITS_MAX, SearchQuery, Shared, Special, StagedBlock,
    StagedRun, Standing, TAG_LIST_MAX, TAG_NAMESPACE, TAGS_MAX, Tag, TagChange, TagCount, Taken, Touched, TrashEntry,
    Unlink, Usage, Version, WhichSearch, XATTRS_BYTES_MAX, XattrRule, entity_tag,
};
pub use tree::*;
pub use types::*;

use async_trait::async_trait;
use holdfast_auth::Session;
use holdfast_base::{ByteRange, NodeName, Result, Uid};

/// A drive. Unless said otherwise: a space the session may not see is `NotFound`, a role or scope that does not suffice
/// `Forbidden`, and every change is durable before the answer.
#[async_trait]
pub trait Drive: Send + Sync + 'static {
    /// The spaces the session may see, the account's home first.
    async fn spaces(&self, who: &Session) -> Result<Vec<SpaceView>>;
    /// One space by name, with role, usage and quota.
    async fn space(&self, who: &Session, name: &str) -> Result<SpaceView>;

    /// Walks to a location. A path that does not exist is no error here: see [`Walk::node`].
    async fn walk(&self, who: &Session, at: &Location) -> Result<Walk>;
    /// Up to `limit` members of a folder in byte order of name, after `after`.
    async fn list(&self, who: &Session, folder: &Node, after: Option<&NodeName>, limit: usize) -> Result<Vec<Node>>;
    /// How many nodes are below a folder, counting no further than `limit`.
    async fn count_below(&self, who: &Session, folder: &Node, limit: usize) -> Result<usize>;
    /// Dead properties of nodes of one space, in the order of `nodes`. Tags are none of them.
    async fn properties(&self, who: &Session, nodes: &[Node]) -> Result<Vec<Vec<Property>>>;
    /// Live locks rooted on any of `nodes` (hand in a walk's chain to learn what covers its end).
    async fn locks(&self, who: &Session, nodes: &[Node]) -> Result<Vec<Lock>>;
    /// Streams plaintext of the file version that `walk` found; every byte is authenticated before it is handed out. A
    /// write that commits meanwhile does not disturb the stream.
    async fn read(&self, who: &Session, walk: &Walk, range: ByteRange) -> Result<ContentStream>;
    /// Computes a digest of the file version that `walk` found by reading it.
    async fn digest(&self, who: &Session, walk: &Walk, algorithm: DigestAlgorithm) -> Result<Vec<u8>>;

    /// Writes a file from a stream: all of it becomes the new version, or nothing changes. With `options.patch`, the bytes
    /// replace a range of the present version instead.
    async fn write(&self, who: &Session, at: &Location, options: WriteOptions, body: ContentStream) -> Result<Changed>;
    /// Begins an upload that is continued request by request, and reserves its length. What is bound to be refused at its end is refused
    /// now. One of no bytes is a file at once.
    async fn begin_upload(&self, who: &Session, request: UploadRequest) -> Result<UploadView>;
    /// The account's unfinished uploads that the session may see, oldest first, without their metadata.
    async fn uploads(&self, who: &Session) -> Result<Vec<UploadView>>;
    /// One upload of the account, also when it was finished a moment ago.
    async fn upload(&self, who: &Session, id: Uid) -> Result<UploadView>;
    /// Continues an upload; when the answer comes, what it says is durable. An offset that is not the upload's is `Conflict`, as is
    /// being overtaken by another request. A body that breaks off ends in its error, and counts as far as it came; this goes on when
    /// the caller goes away. The last byte makes the file; if that is refused (`AlreadyExists`, `PreconditionFailed`, …) the upload
    /// waits with all its bytes.
    async fn continue_upload(
        &self,
        who: &Session,
        id: Uid,
        part: UploadPart,
        body: ContentStream,
    ) -> Result<UploadView>;
    /// Makes the file of an upload that waits, under another rule if one is given.
    async fn finish_upload(&self, who: &Session, id: Uid, name_taken: Option<NameTaken>) -> Result<UploadView>;
    /// Gives an upload up, or forgets that it was finished.
    async fn abandon_upload(&self, who: &Session, id: Uid) -> Result<()>;
    /// Makes a folder.
    async fn make_folder(&self, who: &Session, at: &Location, guard: Conditions) -> Result<Node>;
    /// Removes a file or a folder with everything below it, into the trash; answers the trash entry, none where the space keeps
    /// nothing.
    async fn remove(&self, who: &Session, at: &Location, guard: Conditions) -> Result<Option<i64>>;
    /// Moves or copies a node with everything below it, atomically; between spaces, content is sealed anew for the target.
    async fn relocate(&self, who: &Session, transfer: &Transfer, guard: Conditions) -> Result<Changed>;
    /// Applies property changes in order, all or none. Those of [`TAG_NAMESPACE`] are `Forbidden`.
    async fn change_properties(
        &self,
        who: &Session,
        at: &Location,
        changes: &[PropertyChange],
        guard: Conditions,
    ) -> Result<Node>;
    /// Takes a lock; a missing file is made, empty.
    async fn lock(
        &self,
        who: &Session,
        at: &Location,
        request: LockRequest,
        guard: Conditions,
    ) -> Result<(Lock, Changed)>;
    /// Extends a lock.
    async fn refresh_lock(
        &self,
        who: &Session,
        at: &Location,
        token: &str,
        seconds: u32,
        guard: Conditions,
    ) -> Result<Lock>;
    /// Releases a lock.
    async fn unlock(&self, who: &Session, at: &Location, token: &str) -> Result<()>;

    /// Tags of nodes of one space, in the order of `nodes`.
    async fn tags(&self, who: &Session, nodes: &[Node]) -> Result<Vec<Vec<String>>>;
    /// Adds and removes tags of nodes in any spaces; an answer for each item, in order, and one that is refused does not stop the
    /// others.
    async fn change_tags(&self, who: &Session, items: &[Location], change: &TagChange) -> Result<Vec<Result<Node>>>;
    /// Tags in use in a space, or in all that the session may see, that begin with `prefix`.
    async fn tags_in_use(
        &self,
        who: &Session,
        space: Option<&str>,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<TagCount>>;
    /// Looks for nodes in a space, or in all that the session may see.
    async fn search(&self, who: &Session, space: Option<&str>, query: &SearchQuery) -> Result<FoundNodes>;

    /// The account's saved searches, by name. A token for one space sees none, nor does a visitor.
    async fn saved_searches(&self, who: &Session) -> Result<Vec<SavedView>>;
    /// One of them.
    async fn saved_search(&self, who: &Session, which: &WhichSearch) -> Result<SavedView>;
    /// Saves a search. A taken name is `AlreadyExists`, a query that nothing could be a hit of `InvalidInput`, more than [`SEARCHES_MAX`]
    /// `Conflict`. The folder must be one that the session may write to.
    async fn save_search(&self, who: &Session, wanted: SearchToSave) -> Result<SavedView>;
    /// Changes a saved search.
    async fn change_search(&self, who: &Session, id: i64, wish: SavedWish) -> Result<SavedView>;
    /// Removes a saved search, and nothing that it finds.
    async fn remove_search(&self, who: &Session, id: i64) -> Result<()>;
    /// A text that is another one after every change in the spaces that the session sees.
    async fn state_of_all(&self, who: &Session) -> Result<String>;

    /// Old versions of a file, newest first.
    async fn versions(&self, who: &Session, at: &Location) -> Result<Vec<Version>>;
    /// Walks to an old version of a file, or the present one: the node at the end has that version's content, size, time and number,
    /// and [`Self::read`] reads it.
    async fn walk_version(&self, who: &Session, at: &Location, seq: i64) -> Result<Walk>;
    /// Makes an old version current again.
    async fn restore_version(&self, who: &Session, at: &Location, seq: i64, guard: Conditions) -> Result<Node>;
    /// Removes an old version for good (owners only).
    async fn remove_version(&self, who: &Session, at: &Location, seq: i64) -> Result<()>;
    /// Trash of a space, newest first, `limit` entries at most, older than entry `before`.
    async fn trash(&self, who: &Session, space: &str, before: Option<i64>, limit: usize) -> Result<Vec<TrashEntry>>;
    /// Puts a trash entry back at `to`, or where it was.
    async fn restore_trash(&self, who: &Session, space: &str, entry: i64, to: Option<&Location>) -> Result<Node>;
    /// Removes one trash entry, or all, for good (owners only); answers the bytes that no longer count.
    async fn purge_trash(&self, who: &Session, space: &str, entry: Option<i64>) -> Result<u64>;
}
