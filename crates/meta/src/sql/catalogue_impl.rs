//! The trait's methods, each handed to its subject. What may touch many rows is a scan.

use super::codec::{rows, unsigned};
use super::engine::{Engine, Ops, Reading};
use super::seam::Link;
use super::{
    accounts, audit, factors, identities, index, jobs, members, metering, monitor, numbers, packs, posix, posix_batch,
    properties, resumable, searches, shares, slots, spaces, state, tree_read, xattrs,
};
use crate::catalogue::{
    Attempts, Catalogue, Change, Changed, Found, Guard, Missing, MovedBlock, NewUpload, Relocation,
};
use crate::cluster::{Cluster, InstanceId, Joined, NewInstance};
use crate::leases::Leases;
use crate::postgres::PostgresCatalogue;
use crate::sqlite::SqliteCatalogue;
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

/// Rows up to which a read is a point read: some tens of microseconds.
const INLINE_ROWS: usize = 64;

// Generic code is compiled by the crate that first uses it. Used here, for both databases, it is compiled once; without this, every crate
// and test that opens a catalogue would compile all of it again. (A function that may be inlined would not be compiled here.)

impl SqliteCatalogue {
    /// The catalogue as everything above this crate knows it.
    #[inline(never)]
    pub fn shared(self: Arc<Self>) -> Arc<dyn Catalogue> {
        self
    }
}

impl PostgresCatalogue {
    /// The catalogue as everything above this crate knows it.
    #[inline(never)]
    pub fn shared(self: Arc<Self>) -> Arc<dyn Catalogue> {
        self
    }
}

#[async_trait]
impl<E: Engine> Catalogue for E {
    async fn create_account(&self, new: NewAccount) -> Result<Account> {
        Ops(self).create_account(new).await
    }

    async fn account_by_name(&self, name: &str) -> Result<Option<Account>> {
        let name = name.to_owned();
        self.read(Reading::Point, move |link| accounts::by_name(link, &name)).await
    }

    async fn account(&self, id: AccountId) -> Result<Option<Account>> {
        self.read(Reading::Point, move |link| accounts::by_id(link, id)).await
    }

    async fn accounts(&self) -> Result<Vec<Account>> {
        self.read(Reading::Scan, accounts::all).await
    }

    async fn change_account(&self, id: AccountId, change: AccountChange) -> Result<Account> {
        Ops(self).change_account(id, change).await
    }

    async fn remove_account(&self, id: AccountId, _now_ms: i64) -> Result<()> {
        Ops(self).remove_account(id).await
    }

    async fn slots(&self, account: AccountId) -> Result<Vec<Slot>> {
        self.read(Reading::Point, move |link| slots::of_account(link, account)).await
    }

    async fn slot_by_lookup(&self, kind: SlotKind, lookup: &str) -> Result<Option<(Account, Slot)>> {
        let lookup = lookup.to_owned();
        self.read(Reading::Point, move |link| slots::by_lookup(link, kind, &lookup)).await
    }

    async fn put_slot(&self, account: AccountId, slot: NewSlot, now_ms: i64) -> Result<Slot> {
        Ops(self).put_slot(account, slot, now_ms).await
    }
    async fn replace_password(
        &self,
        account: AccountId,
        slot: NewSlot,
        keep: Option<i64>,
        now_ms: i64,
    ) -> Result<Slot> {
        Ops(self).replace_password(account, slot, keep, now_ms).await
    }

    async fn remove_slot(&self, account: AccountId, slot: i64) -> Result<()> {
        Ops(self).remove_slot(account, slot).await
    }

    async fn touch_slot(&self, slot: i64, now_ms: i64) -> Result<()> {
        Ops(self).touch_slot(slot, now_ms).await
    }

    async fn factors(&self, account: AccountId) -> Result<Factors> {
        self.read(Reading::Point, move |link| factors::of_account(link, account)).await
    }

    async fn put_totp(&self, account: AccountId, sealed: Vec<u8>, step: i64, now_ms: i64) -> Result<()> {
        Ops(self).put_totp(account, sealed, step, now_ms).await
    }

    async fn use_totp(&self, account: AccountId, step: i64) -> Result<bool> {
        Ops(self).use_totp(account, step).await
    }

    async fn remove_totp(&self, account: AccountId) -> Result<()> {
        Ops(self).remove_totp(account).await
    }

    async fn remove_factors(&self, account: AccountId) -> Result<()> {
        Ops(self).remove_factors(account).await
    }

    async fn add_passkey(&self, account: AccountId, new: NewPasskey, ticket: Ticket, now_ms: i64) -> Result<Passkey> {
        Ops(self).add_passkey(account, new, ticket, now_ms).await
    }

    async fn passkey_by_credential(&self, credential: &[u8]) -> Result<Option<(Account, Passkey)>> {
        let credential = credential.to_owned();
        self.read(Reading::Point, move |link| factors::by_credential(link, &credential)).await
    }

    async fn use_passkey(&self, id: i64, counter: u32, ticket: Ticket, now_ms: i64) -> Result<bool> {
        Ops(self).use_passkey(id, counter, ticket, now_ms).await
    }

    async fn rename_passkey(&self, account: AccountId, id: i64, label: String) -> Result<()> {
        Ops(self).rename_passkey(account, id, label).await
    }

    async fn remove_passkey(&self, account: AccountId, id: i64) -> Result<()> {
        Ops(self).remove_passkey(account, id).await
    }

    async fn spend_ticket(&self, ticket: Ticket, now_ms: i64) -> Result<bool> {
        Ops(self).spend_ticket(ticket, now_ms).await
    }

    async fn drive_key(&self, name: &str, proposed: [u8; 32]) -> Result<[u8; 32]> {
        Ops(self).drive_key(name, proposed).await
    }

    async fn identities(&self, account: AccountId) -> Result<Vec<Identity>> {
        self.read(Reading::Point, move |link| identities::of_account(link, account)).await
    }

    async fn identity(&self, issuer: &str, subject: &str) -> Result<Option<(Account, Identity)>> {
        let (issuer, subject) = (issuer.to_owned(), subject.to_owned());
        self.read(Reading::Point, move |link| identities::find(link, &issuer, &subject)).await
    }

    async fn link_identity(&self, account: AccountId, new: NewIdentity, now_ms: i64) -> Result<Identity> {
        Ops(self).link_identity(account, new, now_ms).await
    }

    async fn create_linked_account(&self, new: NewAccount, identity: NewIdentity) -> Result<Account> {
        Ops(self).create_linked_account(new, identity).await
    }

    async fn unlink_identity(&self, account: AccountId, id: i64) -> Result<()> {
        Ops(self).unlink_identity(account, id).await
    }

    async fn touch_identity(&self, id: i64, now_ms: i64) -> Result<()> {
        Ops(self).touch_identity(id, now_ms).await
    }

    async fn wish_grants(&self, account: AccountId, issuer: &str, wanted: Vec<(SpaceId, Role)>) -> Result<()> {
        Ops(self).wish_grants(account, issuer, wanted).await
    }

    async fn open_grants(&self, owner: AccountId, limit: usize) -> Result<Vec<OpenGrant>> {
        let limit = rows(limit);
        self.read(Reading::Point, move |link| identities::open_grants(link, owner, limit)).await
    }

    async fn awaited_grants(&self, account: AccountId) -> Result<Vec<OpenGrant>> {
        self.read(Reading::Point, move |link| identities::awaited_grants(link, account)).await
    }

    async fn make_grant(&self, space: SpaceId, account: AccountId, role: Role, wrapped_key: Vec<u8>) -> Result<bool> {
        Ops(self).make_grant(space, account, role, wrapped_key).await
    }

    async fn attempts(&self, key: &str) -> Result<Attempts> {
        let key = key.to_owned();
        self.read(Reading::Point, move |link| metering::attempts(link, &key)).await
    }

    async fn attempt_failed(&self, key: &str, now_ms: i64, lapse_ms: i64) -> Result<Attempts> {
        Ops(self).attempt_failed(key, now_ms, lapse_ms).await
    }

    async fn attempt_succeeded(&self, key: &str) -> Result<()> {
        Ops(self).attempt_succeeded(key).await
    }

    async fn add_traffic(&self, traffic: Vec<(AccountId, Traffic)>, now_ms: i64) -> Result<()> {
        Ops(self).add_traffic(traffic, now_ms).await
    }

    async fn traffic(&self, account: AccountId, days: usize) -> Result<Vec<(String, Traffic)>> {
        self.read(Reading::Scan, move |link| metering::traffic(link, account, days)).await
    }

    async fn create_space(&self, new: NewSpace) -> Result<Space> {
        Ops(self).create_space(new).await
    }

    async fn space_by_name(&self, name: &str, account: AccountId) -> Result<Option<(Space, Option<Membership>)>> {
        let name = name.to_owned();
        self.read(Reading::Point, move |link| members::by_name(link, &name, account)).await
    }

    async fn space(&self, id: SpaceId) -> Result<Option<Space>> {
        self.read(Reading::Point, move |link| spaces::find(link, id)).await
    }

    async fn spaces_of(&self, account: AccountId) -> Result<Vec<(Space, Membership)>> {
        self.read(Reading::Point, move |link| members::of_account(link, account)).await
    }

    async fn all_spaces(&self) -> Result<Vec<Space>> {
        self.read(Reading::Scan, spaces::all).await
    }

    async fn change_space(&self, id: SpaceId, change: SpaceChange) -> Result<Space> {
        Ops(self).change_space(id, change).await
    }

    async fn remove_space(&self, id: SpaceId, _now_ms: i64) -> Result<()> {
        Ops(self).remove_space(id).await
    }

    async fn put_member(&self, space: SpaceId, account: AccountId, role: Role, wrapped_key: Vec<u8>) -> Result<()> {
        Ops(self).put_member(space, account, role, wrapped_key).await
    }

    async fn remove_member(&self, space: SpaceId, account: AccountId) -> Result<()> {
        Ops(self).remove_member(space, account).await
    }

    async fn members(&self, space: SpaceId) -> Result<Vec<Membership>> {
        self.read(Reading::Point, move |link| members::of_space(link, space)).await
    }

    async fn account_used_bytes(&self, account: AccountId) -> Result<u64> {
        self.read(Reading::Point, move |link| state::account_bytes(link, account).map(unsigned)).await
    }

    async fn put_share(&self, new: NewShare) -> Result<Shared> {
        Ops(self).put_share(new).await
    }

    async fn share(&self, uid: Uid) -> Result<Option<Shared>> {
        self.read(Reading::Snapshot, move |link| shares::by_uid(link, uid)).await
    }

    async fn share_by_id(&self, id: i64) -> Result<Option<Shared>> {
        self.read(Reading::Snapshot, move |link| shares::by_id(link, id)).await
    }

    async fn share_by_name(&self, account: AccountId, name: &str) -> Result<Option<Shared>> {
        let name = name.to_owned();
        self.read(Reading::Snapshot, move |link| shares::by_name(link, account, &name)).await
    }

    async fn shares_with(&self, account: AccountId) -> Result<Vec<Shared>> {
        self.read(Reading::Snapshot, move |link| shares::with_account(link, account)).await
    }

    async fn shares_by(&self, account: AccountId) -> Result<Vec<Shared>> {
        self.read(Reading::Scan, move |link| shares::by_account(link, account)).await
    }

    async fn shares_of(&self, space: SpaceId, node: Option<NodeId>) -> Result<Vec<Shared>> {
        self.read(Reading::Scan, move |link| shares::of_space(link, space, node)).await
    }

    async fn change_share(&self, id: i64, change: ShareChange) -> Result<Shared> {
        Ops(self).change_share(id, change).await
    }

    async fn remove_share(&self, id: i64) -> Result<()> {
        Ops(self).remove_share(id).await
    }

    async fn begin_visit(&self, new: NewVisit) -> Result<Visit> {
        Ops(self).begin_visit(new).await
    }

    async fn visit(&self, lookup: &str) -> Result<Option<(Visit, Shared)>> {
        let lookup = lookup.to_owned();
        self.read(Reading::Snapshot, move |link| shares::visit(link, &lookup)).await
    }

    async fn end_visit(&self, id: i64) -> Result<()> {
        Ops(self).end_visit(id).await
    }

    async fn count_download(&self, visit: &Visit, node: NodeId, seq: i64) -> Result<()> {
        Ops(self).count_download(visit, node, seq).await
    }

    async fn find(&self, space: SpaceId, path: &DrivePath, with_content: bool) -> Result<Found> {
        let here = |link: &dyn Link| tree_read::find(link, space, path, with_content);
        if let Some(found) = self.read_here(E::WALK, here) {
            return found;
        }
        let path = path.clone();
        self.read(E::WALK, move |link| tree_read::find(link, space, &path, with_content)).await
    }

    async fn children(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Result<Vec<Node>> {
        let after = after.cloned();
        let reading = if limit <= INLINE_ROWS { Reading::Point } else { Reading::Scan };
        self.read(reading, move |link| tree_read::children(link, folder, after.as_ref(), limit)).await
    }

    async fn count_below(&self, folder: NodeId, limit: usize) -> Result<usize> {
        self.read(Reading::Scan, move |link| tree_read::count_below(link, folder, limit)).await
    }

    async fn properties(&self, nodes: &[NodeId]) -> Result<Vec<(NodeId, Vec<Property>)>> {
        let reading = if nodes.len() <= INLINE_ROWS { Reading::Point } else { Reading::Scan };
        let nodes = nodes.to_vec();
        self.read(reading, move |link| properties::of_nodes(link, &nodes)).await
    }

    async fn locks_on(&self, space: SpaceId, nodes: &[NodeId], now_ms: i64) -> Result<Vec<Lock>> {
        Ops(self).locks_on(space, nodes, now_ms).await
    }

    async fn content(&self, id: ContentId) -> Result<Option<Content>> {
        self.read(Reading::Point, move |link| tree_read::content(link, id)).await
    }

    async fn manifest_chunk(&self, content: ContentId, index: u64) -> Result<Option<ManifestChunk>> {
        self.read(Reading::Point, move |link| tree_read::manifest_chunk(link, content, index)).await
    }

    async fn block_places(&self, space: SpaceId, ids: &[BlockId]) -> Result<Vec<Option<BlockPlace>>> {
        let reading = if ids.len() <= INLINE_ROWS { Reading::Point } else { Reading::Scan };
        let ids = ids.to_vec();
        self.read(reading, move |link| packs::places(link, space, &ids)).await
    }

    async fn make_folder(&self, space: SpaceId, path: &DrivePath, guard: &Guard) -> Result<Node> {
        Ops(self).make_folder(space, path, guard).await
    }

    async fn commit_file(
        &self,
        space: SpaceId,
        path: &DrivePath,
        content: NewContent,
        modified_ms: i64,
        guard: &Guard,
    ) -> Result<std::result::Result<Changed, Missing>> {
        Ops(self).commit_file(space, path, content, modified_ms, &[], guard).await
    }

    async fn commit_tagged_file(
        &self,
        space: SpaceId,
        path: &DrivePath,
        content: NewContent,
        modified_ms: i64,
        tags: &[Tag],
        guard: &Guard,
    ) -> Result<std::result::Result<Changed, Missing>> {
        Ops(self).commit_file(space, path, content, modified_ms, tags, guard).await
    }

    async fn remove(&self, space: SpaceId, path: &DrivePath, guard: &Guard) -> Result<Option<i64>> {
        Ops(self).remove(space, path, guard).await
    }

    async fn relocate(&self, relocation: &Relocation, guard: &Guard) -> Result<Changed> {
        Ops(self).relocate(relocation, guard).await
    }

    async fn copy(&self, relocation: &Relocation, guard: &Guard) -> Result<Changed> {
        Ops(self).copy(relocation, guard).await
    }

    async fn change_properties(
        &self,
        space: SpaceId,
        path: &DrivePath,
        changes: &[PropertyChange],
        guard: &Guard,
    ) -> Result<Node> {
        Ops(self).change_properties(space, path, changes, guard).await
    }

    async fn lock(&self, space: SpaceId, path: &DrivePath, new: NewLock, guard: &Guard) -> Result<(Lock, Changed)> {
        Ops(self).lock(space, path, new, guard).await
    }

    async fn refresh_lock(
        &self,
        space: SpaceId,
        path: &DrivePath,
        token: &str,
        expires_ms: i64,
        guard: &Guard,
    ) -> Result<Lock> {
        Ops(self).refresh_lock(space, path, token, expires_ms, guard).await
    }

    async fn unlock(&self, space: SpaceId, path: &DrivePath, token: &str, guard: &Guard) -> Result<()> {
        Ops(self).unlock(space, path, token, guard).await
    }

    async fn change_tags(
        &self,
        space: SpaceId,
        paths: &[DrivePath],
        change: &TagChange,
        guard: &Guard,
    ) -> Result<Vec<Result<Node>>> {
        Ops(self).change_tags(space, paths, change, guard).await
    }

    async fn tags_in_use(&self, places: &[SearchIn], prefix: &str, limit: usize) -> Result<Vec<TagCount>> {
        Ops(self).tags_in_use(places, prefix, limit).await
    }

    async fn save_search(&self, new: NewSearch) -> Result<SavedSearch> {
        Ops(self).save_search(new).await
    }

    async fn saved_searches(&self, account: AccountId) -> Result<Vec<SavedSearch>> {
        self.read(Reading::Scan, move |link| searches::of_account(link, account)).await
    }

    async fn saved_search(&self, account: AccountId, which: &WhichSearch) -> Result<Option<SavedSearch>> {
        let which = which.clone();
        self.read(Reading::Snapshot, move |link| searches::find(link, account, &which)).await
    }

    async fn change_search(&self, account: AccountId, id: i64, change: SearchChange) -> Result<SavedSearch> {
        Ops(self).change_search(account, id, change).await
    }

    async fn remove_search(&self, account: AccountId, id: i64) -> Result<()> {
        Ops(self).remove_search(account, id).await
    }

    async fn search(&self, places: &[SearchIn], query: &SearchQuery) -> Result<SearchAnswer> {
        Ops(self).search(places, query).await
    }

    async fn words_wait(&self) -> Result<bool> {
        self.read(Reading::Point, index::waits).await
    }

    async fn index_words(&self) -> Result<bool> {
        Ops(self).index_words().await
    }

    async fn versions(&self, node: NodeId) -> Result<Vec<Version>> {
        Ops(self).versions(node).await
    }

    async fn restore_version(&self, space: SpaceId, path: &DrivePath, seq: i64, guard: &Guard) -> Result<Node> {
        Ops(self).restore_version(space, path, seq, guard).await
    }

    async fn remove_version(&self, node: NodeId, seq: i64) -> Result<()> {
        Ops(self).remove_version(node, seq).await
    }

    async fn trash(&self, space: SpaceId, before: Option<i64>, limit: usize) -> Result<Vec<TrashEntry>> {
        Ops(self).trash(space, before, limit).await
    }

    async fn restore_trash(&self, space: SpaceId, entry: i64, to: Option<&DrivePath>, guard: &Guard) -> Result<Node> {
        Ops(self).restore_trash(space, entry, to, guard).await
    }

    async fn purge_trash(&self, space: SpaceId, entry: Option<i64>) -> Result<u64> {
        Ops(self).purge_trash(space, entry).await
    }

    async fn expire(&self, now_ms: i64, limit: usize) -> Result<usize> {
        Ops(self).expire(now_ms, limit).await
    }

    async fn begin_upload(&self, upload: NewUpload) -> Result<ContentId> {
        Ops(self).begin_upload(upload).await
    }

    async fn reserve_more(&self, upload: ContentId, bytes: u64) -> Result<()> {
        Ops(self).reserve_more(upload, bytes).await
    }

    async fn stage(&self, upload: ContentId, run: StagedRun) -> Result<std::result::Result<(), Missing>> {
        Ops(self).stage(upload, run).await
    }

    async fn abandon_upload(&self, upload: ContentId) -> Result<()> {
        Ops(self).abandon_upload(upload).await
    }

    async fn begin_resumable(&self, new: NewResumable) -> Result<ContentId> {
        Ops(self).begin_resumable(new).await
    }

    async fn resumable(&self, uid: Uid, now_ms: i64) -> Result<Option<Resumable>> {
        self.read(Reading::Point, move |link| resumable::find(link, uid, now_ms)).await
    }

    async fn resumables_of(&self, account: AccountId, visit: i64, now_ms: i64, limit: usize) -> Result<Vec<Resumable>> {
        self.read(Reading::Scan, move |link| resumable::of_account(link, (account, visit), now_ms, limit)).await
    }

    async fn claim_resumable(&self, upload: ContentId, stored: Option<u64>, now_ms: i64) -> Result<UploadClaim> {
        Ops(self).claim_resumable(upload, stored, now_ms).await
    }

    async fn resumable_tail(&self, upload: ContentId) -> Result<Option<Tail>> {
        self.read(Reading::Scan, move |link| resumable::tail(link, upload)).await
    }

    async fn advance_resumable(
        &self,
        claim: UploadClaim,
        run: Option<StagedRun>,
        tail: Option<Tail>,
        expires_ms: i64,
    ) -> Result<std::result::Result<(), Missing>> {
        Ops(self).advance_resumable(claim, run, tail, expires_ms).await
    }

    async fn finish_resumable(
        &self,
        claim: UploadClaim,
        content: NewContent,
        name_taken: Option<NameTaken>,
        expires_ms: i64,
        guard: &Guard,
    ) -> Result<Changed> {
        Ops(self).finish_resumable(claim, content, name_taken, expires_ms, guard).await
    }

    async fn expire_resumables(&self, now_ms: i64, limit: usize) -> Result<usize> {
        Ops(self).expire_resumables(now_ms, limit).await
    }

    async fn open_pack(&self, name: PackName, instance: InstanceId, now_ms: i64) -> Result<PackId> {
        Ops(self).open_pack(name, instance, now_ms).await
    }

    async fn seal_pack(&self, pack: PackId, total_bytes: u64) -> Result<()> {
        Ops(self).seal_pack(pack, total_bytes).await
    }

    async fn packs(&self, after: Option<PackId>, limit: usize) -> Result<Vec<Pack>> {
        Ops(self).packs(after, limit).await
    }

    async fn pack_blocks(&self, pack: PackId, from: u64, limit: usize) -> Result<Vec<(SpaceId, BlockPlace)>> {
        Ops(self).pack_blocks(pack, from, limit).await
    }

    async fn move_blocks(&self, moves: Vec<MovedBlock>) -> Result<usize> {
        Ops(self).move_blocks(moves).await
    }

    async fn dead_packs(&self, limit: usize) -> Result<Vec<Pack>> {
        Ops(self).dead_packs(limit).await
    }

    async fn forget_pack(&self, pack: PackId) -> Result<()> {
        Ops(self).forget_pack(pack).await
    }

    async fn release_garbage(&self, limit: usize) -> Result<usize> {
        Ops(self).release_garbage(limit).await
    }

    fn is_shared(&self) -> bool {
        E::SHARED
    }

    async fn join(&self, new: NewInstance) -> Result<Joined> {
        Ops(self).join(new).await
    }

    async fn beat(&self, id: InstanceId, addresses: &str) -> Result<bool> {
        Ops(self).beat(id, addresses).await
    }

    async fn leave(&self, id: InstanceId) -> Result<()> {
        Ops(self).leave(id).await
    }

    async fn give_up(&self, unseen_ms: u64) -> Result<Vec<Pack>> {
        Ops(self).give_up(unseen_ms).await
    }

    async fn cluster(&self) -> Result<Cluster> {
        Ops(self).cluster().await
    }

    async fn take_lease(&self, name: &'static str, holder: InstanceId, ttl_ms: u64) -> Result<Option<u64>> {
        Ops(self).take_lease(name, holder, ttl_ms).await
    }

    async fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        Ops(self).check(repair).await
    }

    async fn all_blocks(
        &self,
        after: Option<(SpaceId, BlockId)>,
        limit: usize,
    ) -> Result<Vec<(SpaceId, BlockPlace, u64)>> {
        self.read(Reading::Scan, move |link| packs::all_blocks(link, after, limit)).await
    }

    async fn all_contents(&self, after: Option<ContentId>, limit: usize) -> Result<Vec<Content>> {
        self.read(Reading::Scan, move |link| tree_read::all_contents(link, after, limit)).await
    }

    async fn ping(&self) -> Result<()> {
        let read = |link: &dyn Link| {
            super::query::only(link, "SELECT count(*) FROM space_sum WHERE space_id = 0", (), |_| Ok(()))
        };
        self.read(Reading::Point, read).await?;
        self.probe().await
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.subscribe()
    }

    fn leases(&self) -> Option<&Arc<Leases>> {
        Engine::leases(self)
    }

    async fn entry(&self, space: SpaceId, node: NodeId) -> Result<Option<Entry>> {
        self.read(Reading::Point, move |link| posix::by_id(link, space, node)).await
    }

    async fn entry_in(&self, space: SpaceId, folder: NodeId, name: &NodeName) -> Result<Option<Entry>> {
        let name = name.clone();
        self.read(Reading::Point, move |link| posix::by_name(link, space, folder, name.as_str())).await
    }

    async fn entries(
        &self,
        space: SpaceId,
        folder: NodeId,
        after: Option<&NodeName>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let after = after.cloned();
        let reading = if limit <= INLINE_ROWS { Reading::Point } else { Reading::Scan };
        self.read(reading, move |link| posix::members(link, space, folder, after.as_ref(), limit)).await
    }

    async fn create_entry(
        &self,
        space: SpaceId,
        new: NewEntry,
        guard: &Guard,
        durable: Durable,
    ) -> Result<std::result::Result<Entry, Missing>> {
        Ops(self).create_entry(space, new, guard, durable).await
    }

    async fn rewrite(
        &self,
        space: SpaceId,
        rewrite: Rewrite,
        guard: &Guard,
        durable: Durable,
    ) -> Result<std::result::Result<Entry, Missing>> {
        Ops(self).rewrite(space, rewrite, guard, durable).await
    }

    async fn set_attributes(
        &self,
        space: SpaceId,
        node: NodeId,
        change: NewAttributes,
        usual: Posix,
        guard: &Guard,
        durable: Durable,
    ) -> Result<Entry> {
        Ops(self).set_attributes(space, node, change, usual, guard, durable).await
    }

    async fn link(
        &self,
        space: SpaceId,
        link: NewName,
        usual: Posix,
        guard: &Guard,
        durable: Durable,
    ) -> Result<Entry> {
        Ops(self).link(space, link, usual, guard, durable).await
    }

    async fn unlink(&self, space: SpaceId, unlink: Unlink, guard: &Guard, durable: Durable) -> Result<NodeId> {
        Ops(self).unlink(space, unlink, guard, durable).await
    }

    async fn rename(&self, space: SpaceId, rename: Rename, guard: &Guard, durable: Durable) -> Result<Renamed> {
        Ops(self).rename(space, rename, guard, durable).await
    }

    async fn hold(&self, space: SpaceId, nodes: Vec<NodeId>, until_ms: i64) -> Result<()> {
        Ops(self).hold(space, nodes, until_ms).await
    }

    async fn let_go(&self, space: SpaceId, node: NodeId) -> Result<()> {
        Ops(self).let_go(space, node).await
    }

    async fn xattrs(&self, node: NodeId) -> Result<Vec<(String, Vec<u8>)>> {
        self.read(Reading::Point, move |link| xattrs::of_node(link, node)).await
    }

    async fn set_xattr(
        &self,
        space: SpaceId,
        node: NodeId,
        change: (String, Option<Vec<u8>>, XattrRule),
        usual: (Posix, i64),
        guard: &Guard,
    ) -> Result<Entry> {
        Ops(self).set_xattr(space, node, change, usual, guard).await
    }

    async fn reserve(&self, count: u32) -> Result<Range<i64>> {
        Ops(self).reserve(count).await
    }

    async fn give(&self, space: SpaceId, account: AccountId, count: u32, now_ms: i64) -> Result<Range<i64>> {
        Ops(self).give(space, account, count, now_ms).await
    }

    async fn given(&self, space: SpaceId, account: AccountId, asked: Vec<i64>) -> Result<Vec<bool>> {
        self.read(Reading::Point, move |link| numbers::given(link, space, account, &asked)).await
    }

    async fn apply(
        &self,
        space: SpaceId,
        batch: Batch,
        guard: &Guard,
        durable: Durable,
    ) -> Result<Vec<Result<Applied>>> {
        Ops(self).apply(space, batch, guard, durable).await
    }

    async fn answered(&self, space: SpaceId, journal: [u8; 16], numbers: Vec<u64>) -> Result<Vec<bool>> {
        self.read(Reading::Point, move |link| posix_batch::answered(link, space, journal, &numbers)).await
    }

    async fn standing(&self, space: SpaceId) -> Result<Option<Standing>> {
        self.read(Reading::Point, move |link| posix::standing(link, space)).await
    }

    async fn settle(&self) -> Result<()> {
        Ops(self).settle().await
    }

    async fn add_audit(&self, notes: Vec<AuditNote>) -> Result<()> {
        Ops(self).add_audit(notes).await
    }

    async fn audit(&self, query: AuditQuery) -> Result<Vec<AuditEntry>> {
        self.read(Reading::Scan, move |link| audit::find(link, &query)).await
    }

    async fn trim_audit(&self, oldest_ms: i64, rows_max: usize, limit: usize) -> Result<usize> {
        Ops(self).trim_audit(oldest_ms, rows_max, limit).await
    }

    async fn put_sample(&self, instance: InstanceId, now: Sample, minute: Option<Sample>, kept_ms: i64) -> Result<()> {
        Ops(self).put_sample(instance, now, minute, kept_ms).await
    }

    async fn samples(&self) -> Result<Vec<Sample>> {
        self.read(Reading::Point, monitor::samples).await
    }

    async fn sample_minutes(&self, from_ms: i64, limit: usize) -> Result<Vec<Sample>> {
        self.read(Reading::Scan, move |link| monitor::minutes(link, from_ms, limit)).await
    }

    async fn put_capacity(&self, now: Capacity) -> Result<()> {
        Ops(self).put_capacity(now).await
    }

    async fn capacities(&self, from_ms: i64) -> Result<Vec<Capacity>> {
        self.read(Reading::Scan, move |link| monitor::capacities(link, from_ms)).await
    }

    async fn job_dealt_with(&self, job: &str) -> Result<Option<i64>> {
        let job = job.to_owned();
        self.read(Reading::Point, move |link| jobs::dealt_with(link, &job)).await
    }

    async fn job_runs(&self, which: WhichJobRuns) -> Result<Vec<JobRun>> {
        self.read(Reading::Scan, move |link| jobs::runs(link, &which)).await
    }

    async fn deal_with_job(&self, holder: Option<InstanceId>, job: &str, until_ms: i64) -> Result<()> {
        Ops(self).deal_with_job(holder, job, until_ms).await
    }

    async fn begin_job(&self, holder: Option<InstanceId>, new: NewJobRun, begin: JobBegin) -> Result<i64> {
        Ops(self).begin_job(holder, new, begin).await
    }

    async fn note_job(&self, holder: Option<InstanceId>, run: i64, done: &str) -> Result<()> {
        Ops(self).note_job(holder, run, done).await
    }

    async fn end_job(&self, holder: Option<InstanceId>, run: i64, end: JobEnd) -> Result<()> {
        Ops(self).end_job(holder, run, end).await
    }

    async fn job_steps_done(&self, holder: Option<InstanceId>, run: i64, errors: &str) -> Result<()> {
        Ops(self).job_steps_done(holder, run, errors).await
    }

    async fn ask_for_job(&self, new: NewJobRun) -> Result<i64> {
        Ops(self).ask_for_job(new).await
    }

    async fn stop_job(&self, run: i64, end: JobEnd) -> Result<bool> {
        Ops(self).stop_job(run, end).await
    }

    async fn pressure(&self) -> Result<Pressure> {
        self.read(Reading::Scan, monitor::pressure).await
    }
}
