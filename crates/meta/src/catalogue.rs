//! The catalogue as one trait of whole operations.
//!
//! Each method is one transaction (or one consistent read): it happens or it does not, it costs O(what it changes), and when a
//! writing method has answered, the change is on disk. Preconditions, locks and quota are tested inside the
//! transaction, so there is no gap between test and change. Roles are not: the layer above knows who may do what.

mod calls;

pub use calls::*;

use crate::cluster::{Cluster, InstanceId, Joined, NewInstance};
use crate::leases::Leases;
use crate::types::{
    Account, AccountChange, AuditEntry, AuditNote, AuditQuery, BlockPlace, Capacity, Content, Finding, Lock,
    ManifestChunk, Membership, NameTaken, NewAccount, NewContent, NewLock, NewResumable, NewShare, NewSlot, NewSpace,
    NewVisit, Node, Pack, Pressure, Property, PropertyChange, Resumable, Role, Sample, SearchAnswer, SearchIn,
    SearchQuery, ShareChange, Shared, Slot, SlotKind, Space, SpaceChange, StagedRun, TagChange, TagCount, Tail,
    Traffic, TrashEntry, UploadClaim, Version, Visit,
};
use crate::types::{Applied, Batch, Standing};
use crate::types::{
    Durable, Entry, NewAttributes, NewEntry, NewName, Posix, Rename, Renamed, Rewrite, Unlink, XattrRule,
};
use crate::types::{Factors, Identity, NewIdentity, NewPasskey, OpenGrant, Passkey, Ticket};
use crate::types::{JobBegin, JobEnd, JobRun, NewJobRun, WhichJobRuns};
use crate::types::{NewSearch, SavedSearch, SearchChange, Tag, WhichSearch};
use async_trait::async_trait;
use holdfast_base::{
    AccountId, BlockId, ContentId, DrivePath, NodeId, NodeName, PackId, PackName, Result, SpaceId, Uid,
};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::broadcast;

/// The database of a drive. See the module for what every method promises.
#[async_trait]
pub trait Catalogue: Send + Sync + 'static {
    // ---- accounts and their credentials ------------------------------------------------------------------------

    /// Makes an account, its slots and its home space. A taken name (of an account or a space) is `AlreadyExists`.
    async fn create_account(&self, new: NewAccount) -> Result<Account>;
    /// Finds an account by name.
    async fn account_by_name(&self, name: &str) -> Result<Option<Account>>;
    /// Finds an account by row.
    async fn account(&self, id: AccountId) -> Result<Option<Account>>;
    /// All accounts in name order.
    async fn accounts(&self) -> Result<Vec<Account>>;
    /// Changes flags or quota.
    async fn change_account(&self, id: AccountId, change: AccountChange) -> Result<Account>;
    /// Removes an account, its slots, memberships, locks and the spaces it owns (their content becomes garbage for reclaim).
    /// A group space it owns that has other members is `Conflict`: hand it over or remove it first.
    async fn remove_account(&self, id: AccountId, now_ms: i64) -> Result<()>;
    /// The account's slots.
    async fn slots(&self, account: AccountId) -> Result<Vec<Slot>>;
    /// The slot with this kind and lookup (app tokens, sessions), with its account.
    async fn slot_by_lookup(&self, kind: SlotKind, lookup: &str) -> Result<Option<(Account, Slot)>>;
    /// Adds a slot. For kinds of which there is one at most, replaces it. Counts the generation up if it replaced one.
    async fn put_slot(&self, account: AccountId, slot: NewSlot, now_ms: i64) -> Result<Slot>;
    /// Replaces the password's slot, ends every session of the account but `keep`, and counts the generation up.
    async fn replace_password(&self, account: AccountId, slot: NewSlot, keep: Option<i64>, now_ms: i64)
    -> Result<Slot>;
    /// Removes a slot and counts the generation up. `NotFound` if it is not this account's.
    async fn remove_slot(&self, account: AccountId, slot: i64) -> Result<()>;
    /// Notes that a slot was used.
    async fn touch_slot(&self, slot: i64, now_ms: i64) -> Result<()>;
    /// An account's second factors and passkeys.
    async fn factors(&self, account: AccountId) -> Result<Factors>;
    /// Switches codes on, `step` being the one of the code that proved it, and counts the generation up. If they are on it is `AlreadyExists`.
    async fn put_totp(&self, account: AccountId, sealed: Vec<u8>, step: i64, now_ms: i64) -> Result<()>;
    /// Notes that the code of a step was used; false if this one or a later one was used before, whichever node asks.
    async fn use_totp(&self, account: AccountId, step: i64) -> Result<bool>;
    /// Switches codes off and counts the generation up. If they are off it is `NotFound`.
    async fn remove_totp(&self, account: AccountId) -> Result<()>;
    /// Removes codes and passkeys, and counts the generation up.
    async fn remove_factors(&self, account: AccountId) -> Result<()>;
    /// Adds a passkey in answer to a challenge, and counts the generation up. One that is known is `AlreadyExists`, a challenge that
    /// was answered before `Conflict`.
    async fn add_passkey(&self, account: AccountId, new: NewPasskey, ticket: Ticket, now_ms: i64) -> Result<Passkey>;
    /// The passkey with this credential id, with its account.
    async fn passkey_by_credential(&self, credential: &[u8]) -> Result<Option<(Account, Passkey)>>;
    /// Notes that a passkey answered a challenge and what its counter says now; false if the counter went back. A challenge that
    /// was answered before is `Unauthenticated`.
    async fn use_passkey(&self, id: i64, counter: u32, ticket: Ticket, now_ms: i64) -> Result<bool>;
    /// Gives a passkey another label. `NotFound` if it is not this account's.
    async fn rename_passkey(&self, account: AccountId, id: i64, label: String) -> Result<()>;
    /// Removes a passkey and counts the generation up. `NotFound` if it is not this account's.
    async fn remove_passkey(&self, account: AccountId, id: i64) -> Result<()>;
    /// Notes that a challenge was answered; false if it was before.
    async fn spend_ticket(&self, ticket: Ticket, now_ms: i64) -> Result<bool>;
    /// The key of this name that all nodes share: `proposed`, if there was none.
    async fn drive_key(&self, name: &str, proposed: [u8; 32]) -> Result<[u8; 32]>;
    /// Who an account is at providers.
    async fn identities(&self, account: AccountId) -> Result<Vec<Identity>>;
    /// Who somebody of a provider is here.
    async fn identity(&self, issuer: &str, subject: &str) -> Result<Option<(Account, Identity)>>;
    /// Links an identity to an account. One that is linked is `AlreadyExists`.
    async fn link_identity(&self, account: AccountId, new: NewIdentity, now_ms: i64) -> Result<Identity>;
    /// [`Catalogue::create_account`] and [`Catalogue::link_identity`] as one.
    async fn create_linked_account(&self, new: NewAccount, identity: NewIdentity) -> Result<Account>;
    /// Takes a link away. `NotFound` if it is not this account's.
    async fn unlink_identity(&self, account: AccountId, id: i64) -> Result<()>;
    /// Notes that an identity signed in.
    async fn touch_identity(&self, id: i64, now_ms: i64) -> Result<()>;
    /// Sets the memberships that an issuer's groups give an account: those no longer wanted end at once, new ones wait for somebody
    /// with the space's key ([`Catalogue::make_grant`]). What a person gave stays as it is.
    async fn wish_grants(&self, account: AccountId, issuer: &str, wanted: Vec<(SpaceId, Role)>) -> Result<()>;
    /// Memberships that wait for a key that `owner` has, `limit` at most.
    async fn open_grants(&self, owner: AccountId, limit: usize) -> Result<Vec<OpenGrant>>;
    /// Memberships that an account waits for.
    async fn awaited_grants(&self, account: AccountId) -> Result<Vec<OpenGrant>>;
    /// Makes a membership that waits; false if it does not wait any more, or not with this role.
    async fn make_grant(&self, space: SpaceId, account: AccountId, role: Role, wrapped_key: Vec<u8>) -> Result<bool>;
    /// Failed sign-ins under `key`.
    async fn attempts(&self, key: &str) -> Result<Attempts>;
    /// Counts one more failure under `key`; a count whose last failure is older than `lapse_ms` starts again at one.
    async fn attempt_failed(&self, key: &str, now_ms: i64, lapse_ms: i64) -> Result<Attempts>;
    /// Forgets the failures under `key`.
    async fn attempt_succeeded(&self, key: &str) -> Result<()>;
    /// Adds traffic to the account's sums of the UTC day of `now_ms`.
    async fn add_traffic(&self, traffic: Vec<(AccountId, Traffic)>, now_ms: i64) -> Result<()>;
    /// The account's traffic per UTC day (`YYYY-MM-DD`), newest first, `days` rows at most.
    async fn traffic(&self, account: AccountId, days: usize) -> Result<Vec<(String, Traffic)>>;

    // ---- spaces ------------------------------------------------------------------------------------------------

    /// Makes a group space. A taken name is `AlreadyExists`.
    async fn create_space(&self, new: NewSpace) -> Result<Space>;
    /// Finds a space by name, with `account`'s membership if it has one.
    async fn space_by_name(&self, name: &str, account: AccountId) -> Result<Option<(Space, Option<Membership>)>>;
    /// Finds a space by row.
    async fn space(&self, id: SpaceId) -> Result<Option<Space>>;
    /// The spaces an account is a member of, in name order (its home first).
    async fn spaces_of(&self, account: AccountId) -> Result<Vec<(Space, Membership)>>;
    /// All spaces, in name order.
    async fn all_spaces(&self) -> Result<Vec<Space>>;
    /// Changes a space. A new owner has to be a member (`Conflict`), becomes an owner among the members, and needs room in its
    /// quota (`NoSpace`); a home space stays with its account (`Conflict`).
    async fn change_space(&self, id: SpaceId, change: SpaceChange) -> Result<Space>;
    /// Removes a group space with everything in it (its content becomes garbage for reclaim). A home space is `Conflict`.
    async fn remove_space(&self, id: SpaceId, now_ms: i64) -> Result<()>;
    /// Adds a member or changes its role and key.
    async fn put_member(&self, space: SpaceId, account: AccountId, role: Role, wrapped_key: Vec<u8>) -> Result<()>;
    /// Removes a member; the last owner is `Conflict`.
    async fn remove_member(&self, space: SpaceId, account: AccountId) -> Result<()>;
    /// A space's members in name order.
    async fn members(&self, space: SpaceId) -> Result<Vec<Membership>>;
    /// Bytes used and reserved by all spaces the account owns: what its quota counts.
    async fn account_used_bytes(&self, account: AccountId) -> Result<u64>;

    // ---- shares ------------------------------------------------------------------------------------------------

    /// Shares a node. One that is not in the tree is `NotFound`; a second share of it with the same account `AlreadyExists`; more than
    /// there may be `Conflict`.
    async fn put_share(&self, new: NewShare) -> Result<Shared>;
    /// A share by its random name.
    async fn share(&self, uid: Uid) -> Result<Option<Shared>>;
    /// A share by row.
    async fn share_by_id(&self, id: i64) -> Result<Option<Shared>>;
    /// What an account calls by this name, among what is shared with it.
    async fn share_by_name(&self, account: AccountId, name: &str) -> Result<Option<Shared>>;
    /// What is shared with an account, by name.
    async fn shares_with(&self, account: AccountId) -> Result<Vec<Shared>>;
    /// What an account has shared.
    async fn shares_by(&self, account: AccountId) -> Result<Vec<Shared>>;
    /// Shares of a node of a space, or of any.
    async fn shares_of(&self, space: SpaceId, node: Option<NodeId>) -> Result<Vec<Shared>>;
    /// Changes a share; see [`ShareChange`].
    async fn change_share(&self, id: i64, change: ShareChange) -> Result<Shared>;
    /// Takes a share back: its visits end, and what is being uploaded through it is given up.
    async fn remove_share(&self, id: i64) -> Result<()>;
    /// Begins a visit of a link; with more than there may be the oldest ends.
    async fn begin_visit(&self, new: NewVisit) -> Result<Visit>;
    /// A visit by the public part of its secret, with its link.
    async fn visit(&self, lookup: &str) -> Result<Option<(Visit, Shared)>>;
    /// Ends a visit.
    async fn end_visit(&self, id: i64) -> Result<()>;
    /// Counts that a visit downloads this version of a node, once; `Forbidden` where the link's limit is reached.
    async fn count_download(&self, visit: &Visit, node: NodeId, seq: i64) -> Result<()>;

    // ---- reading the tree --------------------------------------------------------------------------------------

    /// Walks a path.
    async fn find(&self, space: SpaceId, path: &DrivePath, with_content: bool) -> Result<Found>;
    /// Up to `limit` members of a folder in byte order of name, after `after`.
    async fn children(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Result<Vec<Node>>;
    /// How many nodes are below `folder`, counting no further than `limit`.
    async fn count_below(&self, folder: NodeId, limit: usize) -> Result<usize>;
    /// Dead properties of nodes; nodes without any are left out.
    async fn properties(&self, nodes: &[NodeId]) -> Result<Vec<(NodeId, Vec<Property>)>>;
    /// Live locks rooted on any of `nodes`.
    async fn locks_on(&self, space: SpaceId, nodes: &[NodeId], now_ms: i64) -> Result<Vec<Lock>>;
    /// A content by row; none once nobody refers to it any more, though not all of it may be gone.
    async fn content(&self, id: ContentId) -> Result<Option<Content>>;
    /// Chunk `index` of a content's manifest.
    async fn manifest_chunk(&self, content: ContentId, index: u64) -> Result<Option<ManifestChunk>>;
    /// Where blocks lie: one answer for each of `ids`, in order.
    async fn block_places(&self, space: SpaceId, ids: &[BlockId]) -> Result<Vec<Option<BlockPlace>>>;

    // ---- changing the tree -------------------------------------------------------------------------------------

    /// Makes a folder. Its parent missing is `Conflict`; something there is `AlreadyExists`.
    async fn make_folder(&self, space: SpaceId, path: &DrivePath, guard: &Guard) -> Result<Node>;
    /// Makes `content` the current version of the file at `path`, which is made if need be. The version before it becomes an old
    /// version (or goes, if retention keeps none). A folder at `path` is `WrongKind`; a parent missing is `Conflict`;
    /// over quota is `NoSpace`. `Ok(Err(Missing))`: see [`Missing`].
    async fn commit_file(
        &self,
        space: SpaceId,
        path: &DrivePath,
        content: NewContent,
        modified_ms: i64,
        guard: &Guard,
    ) -> Result<std::result::Result<Changed, Missing>>;
    /// The same, with tags that are added to the file in the same transaction: with none, exactly the same. More than a file may have are
    /// `TooLarge`, and nothing changes.
    async fn commit_tagged_file(
        &self,
        space: SpaceId,
        path: &DrivePath,
        content: NewContent,
        modified_ms: i64,
        tags: &[Tag],
        guard: &Guard,
    ) -> Result<std::result::Result<Changed, Missing>>;
    /// Removes a node and everything below it, into the trash; answers the trash entry, none in a space that keeps nothing.
    async fn remove(&self, space: SpaceId, path: &DrivePath, guard: &Guard) -> Result<Option<i64>>;
    /// Moves a node with everything below it; versions and properties go with it, locks do not (RFC 4918 section 7.5).
    async fn relocate(&self, relocation: &Relocation, guard: &Guard) -> Result<Changed>;
    /// Copies a node, and if `deep` everything below it, with properties (not versions, not locks), by reference.
    async fn copy(&self, relocation: &Relocation, guard: &Guard) -> Result<Changed>;
    /// Applies property changes in order, all or none. `guard.expect` speaks of the node.
    async fn change_properties(
        &self,
        space: SpaceId,
        path: &DrivePath,
        changes: &[PropertyChange],
        guard: &Guard,
    ) -> Result<Node>;
    /// Takes a lock on the node at `path`; if there is none, makes an empty file there first (RFC 4918 section 7.3).
    /// A conflicting lock is `Locked`.
    async fn lock(&self, space: SpaceId, path: &DrivePath, new: NewLock, guard: &Guard) -> Result<(Lock, Changed)>;
    /// Extends a lock that covers `path` and is held by the guard's account; an unknown token is `PreconditionFailed`.
    async fn refresh_lock(
        &self,
        space: SpaceId,
        path: &DrivePath,
        token: &str,
        expires_ms: i64,
        guard: &Guard,
    ) -> Result<Lock>;
    /// Releases a lock that covers `path` and is held by the guard's account; an unknown token is `Conflict`
    /// (RFC 4918 section 9.11.1), somebody else's `Forbidden`.
    async fn unlock(&self, space: SpaceId, path: &DrivePath, token: &str, guard: &Guard) -> Result<()>;

    // ---- by number: what a mount does --------------------------------------------------------------------------
    // A file of several names may be asked for by its own number ([`Entry::number`]) or that of any of its nodes; what changes content or
    // attributes, through whichever face, changes them for all of its names.

    /// A node that has a name, with its attributes.
    async fn entry(&self, space: SpaceId, node: NodeId) -> Result<Option<Entry>>;
    /// A member of a folder.
    async fn entry_in(&self, space: SpaceId, folder: NodeId, name: &NodeName) -> Result<Option<Entry>>;
    /// Up to `limit` members of a folder in byte order of name, after `after`: whatever changes meanwhile, what stays is listed once.
    async fn entries(
        &self,
        space: SpaceId,
        folder: NodeId,
        after: Option<&NodeName>,
        limit: usize,
    ) -> Result<Vec<Entry>>;
    /// Makes a node with its attributes and content. The folder gone is `NotFound`.
    async fn create_entry(
        &self,
        space: SpaceId,
        new: NewEntry,
        guard: &Guard,
        durable: Durable,
    ) -> Result<std::result::Result<Entry, Missing>>;
    /// Gives a file new content.
    async fn rewrite(
        &self,
        space: SpaceId,
        rewrite: Rewrite,
        guard: &Guard,
        durable: Durable,
    ) -> Result<std::result::Result<Entry, Missing>>;
    /// Changes attributes; of a node without any, `usual` is what they were.
    async fn set_attributes(
        &self,
        space: SpaceId,
        node: NodeId,
        change: NewAttributes,
        usual: Posix,
        guard: &Guard,
        durable: Durable,
    ) -> Result<Entry>;
    /// Gives a file another name, which is a node of its own, and answers that; `usual` is as in [`Self::set_attributes`]. `Unsupported` while a node
    /// serves whose program knows nothing of this, `Forbidden` through a share.
    async fn link(&self, space: SpaceId, link: NewName, usual: Posix, guard: &Guard, durable: Durable)
    -> Result<Entry>;
    /// Takes a node its name, and answers its number. While its file has others, that is open by those; it is held only with its last.
    async fn unlink(&self, space: SpaceId, unlink: Unlink, guard: &Guard, durable: Durable) -> Result<NodeId>;
    /// Gives a node another name and folder, atomically.
    async fn rename(&self, space: SpaceId, rename: Rename, guard: &Guard, durable: Durable) -> Result<Renamed>;
    /// Prolongs the time for which nodes that lost their name are held.
    async fn hold(&self, space: SpaceId, nodes: Vec<NodeId>, until_ms: i64) -> Result<()>;
    /// Nobody has this node open any more: what was held only for that goes.
    async fn let_go(&self, space: SpaceId, node: NodeId) -> Result<()>;
    /// Extended attributes of a node, by name.
    async fn xattrs(&self, node: NodeId) -> Result<Vec<(String, Vec<u8>)>>;
    /// Sets an extended attribute, or removes it (`NotFound` if there is none); more than [`XATTRS_BYTES_MAX`](crate::XATTRS_BYTES_MAX)
    /// of a node are `TooLarge`. `usual` is as in [`Self::set_attributes`], and the time is now.
    async fn set_xattr(
        &self,
        space: SpaceId,
        node: NodeId,
        change: (String, Option<Vec<u8>>, XattrRule),
        usual: (Posix, i64),
        guard: &Guard,
    ) -> Result<Entry>;
    /// Gives out up to so many numbers for nodes and contents that nobody else gets, at least one.
    async fn reserve(&self, count: u32) -> Result<Range<i64>>;
    /// The same for a mount on another machine: they are remembered as given to this account for this space, for
    /// [`GIVEN_MS`](crate::GIVEN_MS) at least unless the account takes very many.
    async fn give(&self, space: SpaceId, account: AccountId, count: u32, now_ms: i64) -> Result<Range<i64>>;
    /// Whether numbers were given to this account for this space, one answer each.
    async fn given(&self, space: SpaceId, account: AccountId, numbers: Vec<i64>) -> Result<Vec<bool>>;
    /// Makes changes that a mount answered before, in one transaction; an answer for each, in order, and one that is refused takes back none
    /// of the others. What was answered well before is [`Applied::Before`], what was refused is tried again. More than
    /// [`BATCH_CHANGES_MAX`](crate::BATCH_CHANGES_MAX) changes are `TooLarge`.
    async fn apply(
        &self,
        space: SpaceId,
        batch: Batch,
        guard: &Guard,
        durable: Durable,
    ) -> Result<Vec<Result<Applied>>>;
    /// Which changes of a journal, by their numbers, were answered well: an answer each.
    async fn answered(&self, space: SpaceId, journal: [u8; 16], numbers: Vec<u64>) -> Result<Vec<bool>>;
    /// How a space stands; none if it is gone.
    async fn standing(&self, space: SpaceId) -> Result<Option<Standing>>;
    /// When it answers, everything that was answered before is on disk ([`Durable::Soon`]).
    async fn settle(&self) -> Result<()>;

    // ---- tags and search ---------------------------------------------------------------------------------------

    /// Changes the tags of nodes, by few transactions; an answer for each path, in order, and one that is refused does not stop the
    /// others. More than [`TAGS_MAX`](crate::TAGS_MAX) tags on a node are `TooLarge`; a root has none (`Forbidden`).
    async fn change_tags(
        &self,
        space: SpaceId,
        paths: &[DrivePath],
        change: &TagChange,
        guard: &Guard,
    ) -> Result<Vec<Result<Node>>>;
    /// Tags in use in these spaces, or below folders of them, whose folded text begins like that of `prefix`, in the order of their folded
    /// text, `limit` at most. Below folders they are looked for up to a bound.
    async fn tags_in_use(&self, places: &[SearchIn], prefix: &str, limit: usize) -> Result<Vec<TagCount>>;
    /// Looks for nodes of these spaces, or below folders of them, by name, path and tags. What is not indexed yet is indexed first, up to a bound.
    async fn search(&self, places: &[SearchIn], query: &SearchQuery) -> Result<SearchAnswer>;
    /// Saves a search. A taken name is `AlreadyExists`, a query that nothing could be a hit of `InvalidInput`, more than
    /// [`SEARCHES_MAX`](crate::SEARCHES_MAX) of an account `Conflict`.
    async fn save_search(&self, new: NewSearch) -> Result<SavedSearch>;
    /// An account's saved searches, by name.
    async fn saved_searches(&self, account: AccountId) -> Result<Vec<SavedSearch>>;
    /// One of an account's saved searches.
    async fn saved_search(&self, account: AccountId, which: &WhichSearch) -> Result<Option<SavedSearch>>;
    /// Changes a saved search. `NotFound` if it is not this account's.
    async fn change_search(&self, account: AccountId, id: i64, change: SearchChange) -> Result<SavedSearch>;
    /// Removes a saved search, and nothing that it finds. `NotFound` if it is not this account's.
    async fn remove_search(&self, account: AccountId, id: i64) -> Result<()>;
    /// Whether names or tags wait to be indexed.
    async fn words_wait(&self) -> Result<bool>;
    /// Indexes what waits in one bounded step; answers whether there was anything to do.
    async fn index_words(&self) -> Result<bool>;

    // ---- versions and trash ------------------------------------------------------------------------------------

    /// Old versions of a file, newest first.
    async fn versions(&self, node: NodeId) -> Result<Vec<Version>>;
    /// Makes an old version current again (as a new version; the one it replaces becomes an old version).
    async fn restore_version(&self, space: SpaceId, path: &DrivePath, seq: i64, guard: &Guard) -> Result<Node>;
    /// Removes one old version for good.
    async fn remove_version(&self, node: NodeId, seq: i64) -> Result<()>;
    /// Trash of a space, newest first, `limit` entries at most, older than entry `before`.
    async fn trash(&self, space: SpaceId, before: Option<i64>, limit: usize) -> Result<Vec<TrashEntry>>;
    /// Puts a trash entry back at `to`, or where it was; something there is `AlreadyExists`, its folder missing `Conflict`.
    async fn restore_trash(&self, space: SpaceId, entry: i64, to: Option<&DrivePath>, guard: &Guard) -> Result<Node>;
    /// Marks trash for removal: one entry, or all of the space. Usage falls in the same transaction for the entries' bytes;
    /// rows and references go with [`Self::release_garbage`].
    async fn purge_trash(&self, space: SpaceId, entry: Option<i64>) -> Result<u64>;
    /// Removes old versions and purges trash past their space's retention, `limit` at most; answers how many went.
    async fn expire(&self, now_ms: i64, limit: usize) -> Result<usize>;

    // ---- uploads and packs -------------------------------------------------------------------------------------

    /// Begins an upload and reserves its quota; over quota is `NoSpace`.
    async fn begin_upload(&self, upload: NewUpload) -> Result<ContentId>;
    /// Reserves more for an upload of unknown length.
    async fn reserve_more(&self, upload: ContentId, bytes: u64) -> Result<()>;
    /// Appends a run of blocks to an upload's manifest and takes a reference on each.
    async fn stage(&self, upload: ContentId, run: StagedRun) -> Result<std::result::Result<(), Missing>>;
    /// Gives an upload up: its reservation falls at once, its references with [`Self::release_garbage`]. A resumable one that is
    /// finished is forgotten.
    async fn abandon_upload(&self, upload: ContentId) -> Result<()>;
    /// Begins a resumable upload and reserves its length; over quota is `NoSpace`, too many of an account `TooManyRequests`.
    async fn begin_resumable(&self, new: NewResumable) -> Result<ContentId>;
    /// A resumable upload by its random name, finished or not, unless it has expired.
    async fn resumable(&self, uid: Uid, now_ms: i64) -> Result<Option<Resumable>>;
    /// An account's unfinished ones (0), or those of a visit in its name, oldest first, `limit` at most, without their metadata.
    async fn resumables_of(&self, account: AccountId, visit: i64, now_ms: i64, limit: usize) -> Result<Vec<Resumable>>;
    /// Takes the right to continue an upload away from whoever has it. `Conflict` if it has not exactly `stored` bytes (where
    /// that is asked) or is finished; `NotFound` if it has expired.
    async fn claim_resumable(&self, upload: ContentId, stored: Option<u64>, now_ms: i64) -> Result<UploadClaim>;
    /// What it has beyond its last full block.
    async fn resumable_tail(&self, upload: ContentId) -> Result<Option<Tail>>;
    /// Appends a run of blocks, which begins with what the tail held, and puts `tail` in the tail's place; without a run, only
    /// replaces the tail. `Conflict` if the claim was taken by another.
    async fn advance_resumable(
        &self,
        claim: UploadClaim,
        run: Option<StagedRun>,
        tail: Option<Tail>,
        expires_ms: i64,
    ) -> Result<std::result::Result<(), Missing>>;
    /// Makes `content`, all that the upload holds, the file it was created for, under the conditions it was created with or, if
    /// `name_taken` says so, under another rule. A refusal leaves the upload as it is: `AlreadyExists` for a taken name,
    /// `PreconditionFailed` for another version, and what [`Self::commit_file`] refuses. The finished upload is remembered until `expires_ms`.
    async fn finish_resumable(
        &self,
        claim: UploadClaim,
        content: NewContent,
        name_taken: Option<NameTaken>,
        expires_ms: i64,
        guard: &Guard,
    ) -> Result<Changed>;
    /// Gives up resumable uploads that have expired and forgets finished ones, `limit` at most; answers how many.
    async fn expire_resumables(&self, now_ms: i64, limit: usize) -> Result<usize>;
    /// Registers a pack that an instance is about to write.
    async fn open_pack(&self, name: PackName, instance: InstanceId, now_ms: i64) -> Result<PackId>;
    /// Notes that a pack is closed, `total_bytes` long, and that no block of it is still on its way to the catalogue.
    async fn seal_pack(&self, pack: PackId, total_bytes: u64) -> Result<()>;
    /// All packs, in row order after `after`, `limit` at most.
    async fn packs(&self, after: Option<PackId>, limit: usize) -> Result<Vec<Pack>>;
    /// Blocks of a pack in offset order, with their spaces, from offset `from` on, `limit` at most.
    async fn pack_blocks(&self, pack: PackId, from: u64, limit: usize) -> Result<Vec<(SpaceId, BlockPlace)>>;
    /// Points blocks to their new places; answers how many moved.
    async fn move_blocks(&self, moves: Vec<MovedBlock>) -> Result<usize>;
    /// Marks sealed packs without live blocks dead, `limit` at most, and answers all dead ones (new or old).
    async fn dead_packs(&self, limit: usize) -> Result<Vec<Pack>>;
    /// Forgets a dead pack whose object is gone from the store.
    async fn forget_pack(&self, pack: PackId) -> Result<()>;
    /// Frees garbage in a bounded step: purged nodes, removed spaces, contents without references and their block references.
    /// Touches about `limit` rows; answers how many, 0 when there is nothing left.
    async fn release_garbage(&self, limit: usize) -> Result<usize>;

    // ---- who serves ----------------------------------------------------------------------------------------------

    /// Whether several instances may serve it at the same time.
    fn is_shared(&self) -> bool;
    /// Makes an instance. The one before it on the same data directory (in SQLite: any) has ended and is given up; see
    /// [`Self::give_up`]. A catalogue that is an unfinished copy is `Conflict`.
    async fn join(&self, new: NewInstance) -> Result<Joined>;
    /// Says that an instance is there, and where it listens. False if it was given up: then it has to join again.
    async fn beat(&self, id: InstanceId, addresses: &str) -> Result<bool>;
    /// Ends an instance and its leases. What it has under way is given up by the next who looks.
    async fn leave(&self, id: InstanceId) -> Result<()>;
    /// Ends the instances that were not seen for this long, abandons the uploads of all that are gone, and answers the packs those
    /// left open, which are to be sealed as they lie in the store.
    async fn give_up(&self, unseen_ms: u64) -> Result<Vec<Pack>>;
    /// Instances and leases.
    async fn cluster(&self) -> Result<Cluster>;
    /// Takes or renews a lease: its fence, or none while another instance holds it.
    async fn take_lease(&self, name: &'static str, holder: InstanceId, ttl_ms: u64) -> Result<Option<u64>>;

    // ---- what administrators look at -----------------------------------------------------------------------------

    /// Adds to the log of who did what. See [`crate::audit`] for entries that are written with the change they speak of.
    async fn add_audit(&self, notes: Vec<AuditNote>) -> Result<()>;
    /// Entries of the log, the newest first.
    async fn audit(&self, query: AuditQuery) -> Result<Vec<AuditEntry>>;
    /// Removes entries older than `oldest_ms`, and the oldest beyond `rows_max`; `limit` at most; answers how many went.
    async fn trim_audit(&self, oldest_ms: i64, rows_max: usize, limit: usize) -> Result<usize>;
    /// Notes what an instance says of itself now, and of a whole minute; minutes older than `kept_ms` before that one go.
    async fn put_sample(&self, instance: InstanceId, now: Sample, minute: Option<Sample>, kept_ms: i64) -> Result<()>;
    /// What each instance that is there last said, by name.
    async fn samples(&self) -> Result<Vec<Sample>>;
    /// Minutes of all instances from a time on, the oldest first, `limit` at most.
    async fn sample_minutes(&self, from_ms: i64, limit: usize) -> Result<Vec<Sample>>;
    /// Notes what is stored in the present hour; a year is kept.
    async fn put_capacity(&self, now: Capacity) -> Result<()>;
    /// What was stored from a time on, by hour, the oldest first.
    async fn capacities(&self, from_ms: i64) -> Result<Vec<Capacity>>;
    /// What waits, what is held, and what is stored.
    async fn pressure(&self) -> Result<Pressure>;

    // ---- transfers that the server runs --------------------------------------------------------------------------

    /// Up to when due times of a job are dealt with.
    async fn job_dealt_with(&self, job: &str) -> Result<Option<i64>>;
    /// Runs.
    async fn job_runs(&self, which: WhichJobRuns) -> Result<Vec<JobRun>>;
    /// Due times of a job up to then are dealt with. With a holder this, as the next four, is `Unavailable` unless that has the
    /// lease [`JOBS_LEASE`](crate::types::JOBS_LEASE).
    async fn deal_with_job(&self, holder: Option<InstanceId>, job: &str, until_ms: i64) -> Result<()>;
    /// Begins a run: its number. A due time that is dealt with, and one that was asked for and is begun or taken back, are `Conflict`.
    async fn begin_job(&self, holder: Option<InstanceId>, new: NewJobRun, begin: JobBegin) -> Result<i64>;
    /// Notes how far a run is that has not ended.
    async fn note_job(&self, holder: Option<InstanceId>, run: i64, done: &str) -> Result<()>;
    /// Ends a run that has not ended; its steps are owed from now on.
    async fn end_job(&self, holder: Option<InstanceId>, run: i64, end: JobEnd) -> Result<()>;
    /// The steps of a run are done, and this failed of them.
    async fn job_steps_done(&self, holder: Option<InstanceId>, run: i64, errors: &str) -> Result<()>;
    /// Asks for a run, which whoever has the lease begins: its number. `Conflict` if too many wait.
    async fn ask_for_job(&self, new: NewJobRun) -> Result<i64>;
    /// Ends, with `end`, a run that was asked for and waits, and asks for the end of one that is under way. False if there is neither.
    async fn stop_job(&self, run: i64, end: JobEnd) -> Result<bool>;

    // ---- care --------------------------------------------------------------------------------------------------

    /// Checks every sum, reference and constraint of the catalogue itself; with `repair`, sets right what it can.
    async fn check(&self, repair: bool) -> Result<Vec<Finding>>;
    /// Every block of every space in (space, id) order after `after`, `limit` at most, with its reference count.
    async fn all_blocks(
        &self,
        after: Option<(SpaceId, BlockId)>,
        limit: usize,
    ) -> Result<Vec<(SpaceId, BlockPlace, u64)>>;
    /// Every content in row order after `after`, `limit` at most.
    async fn all_contents(&self, after: Option<ContentId>, limit: usize) -> Result<Vec<Content>>;
    /// A reading and writing probe for readiness.
    async fn ping(&self) -> Result<()>;
    /// Changes of spaces from now on, each after it is on disk. Several changes of a space may be told as one, the last. Changes by
    /// other processes are told by databases that serve several, within seconds. A receiver that is too slow is told that it
    /// missed some: then, and at its start, it looks at [`Space::seq`] itself.
    fn changes(&self) -> broadcast::Receiver<Change>;
    /// Who has to hear of changes before they are answered; none if other processes may make changes.
    fn leases(&self) -> Option<&Arc<Leases>>;
}
