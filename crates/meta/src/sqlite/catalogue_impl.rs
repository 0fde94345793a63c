//! The trait's methods, each handed to its subject. Point reads run right here; what may touch many rows is a scan.

use super::codec::unsigned;
use super::{SqliteCatalogue, accounts, members, metering, packs, properties, slots, spaces, state, tree_read};
use crate::catalogue::{Attempts, Catalogue, Changed, Found, Guard, Missing, MovedBlock, NewUpload, Relocation};
use crate::types::{
    Account, AccountChange, BlockPlace, Content, Finding, Lock, ManifestChunk, Membership, NewAccount, NewContent,
    NewLock, NewSlot, NewSpace, Node, Pack, Property, PropertyChange, Role, Slot, SlotKind, Space, SpaceChange,
    StagedRun, Traffic, TrashEntry, Version,
};
use async_trait::async_trait;
use holdfast_base::{AccountId, BlockId, ContentId, DrivePath, NodeId, NodeName, PackId, PackName, Result, SpaceId};

/// Rows up to which a read runs on the caller's thread: some tens of microseconds.
const INLINE_ROWS: usize = 64;

#[async_trait]
impl Catalogue for SqliteCatalogue {
    async fn create_account(&self, new: NewAccount) -> Result<Account> {
        self.create_account_op(new).await
    }

    async fn account_by_name(&self, name: &str) -> Result<Option<Account>> {
        self.readers().read(|connection| accounts::by_name(connection, name))
    }

    async fn account(&self, id: AccountId) -> Result<Option<Account>> {
        self.readers().read(|connection| accounts::by_id(connection, id))
    }

    async fn accounts(&self) -> Result<Vec<Account>> {
        self.scan(accounts::all).await
    }

    async fn change_account(&self, id: AccountId, change: AccountChange) -> Result<Account> {
        self.change_account_op(id, change).await
    }

    async fn remove_account(&self, id: AccountId, _now_ms: i64) -> Result<()> {
        self.remove_account_op(id).await
    }

    async fn slots(&self, account: AccountId) -> Result<Vec<Slot>> {
        self.readers().read(|connection| slots::of_account(connection, account))
    }

    async fn slot_by_lookup(&self, kind: SlotKind, lookup: &str) -> Result<Option<(Account, Slot)>> {
        self.readers().read(|connection| slots::by_lookup(connection, kind, lookup))
    }

    async fn put_slot(&self, account: AccountId, slot: NewSlot, now_ms: i64) -> Result<Slot> {
        self.put_slot_op(account, slot, now_ms).await
    }

    async fn remove_slot(&self, account: AccountId, slot: i64) -> Result<()> {
        self.remove_slot_op(account, slot).await
    }

    async fn touch_slot(&self, slot: i64, now_ms: i64) -> Result<()> {
        self.touch_slot_op(slot, now_ms).await
    }

    async fn attempts(&self, key: &str) -> Result<Attempts> {
        self.readers().read(|connection| metering::attempts(connection, key))
    }

    async fn attempt_failed(&self, key: &str, now_ms: i64, lapse_ms: i64) -> Result<Attempts> {
        self.attempt_failed_op(key, now_ms, lapse_ms).await
    }

    async fn attempt_succeeded(&self, key: &str) -> Result<()> {
        self.attempt_succeeded_op(key).await
    }

    async fn add_traffic(&self, traffic: Vec<(AccountId, Traffic)>, now_ms: i64) -> Result<()> {
        self.add_traffic_op(traffic, now_ms).await
    }

    async fn traffic(&self, account: AccountId, days: usize) -> Result<Vec<(String, Traffic)>> {
        self.scan(move |connection| metering::traffic(connection, account, days)).await
    }

    async fn create_space(&self, new: NewSpace) -> Result<Space> {
        self.create_space_op(new).await
    }

    async fn space_by_name(&self, name: &str, account: AccountId) -> Result<Option<(Space, Option<Membership>)>> {
        self.readers().read(|connection| members::by_name(connection, name, account))
    }

    async fn space(&self, id: SpaceId) -> Result<Option<Space>> {
        self.readers().read(|connection| spaces::find(connection, id))
    }

    async fn spaces_of(&self, account: AccountId) -> Result<Vec<(Space, Membership)>> {
        self.readers().read(|connection| members::of_account(connection, account))
    }

    async fn all_spaces(&self) -> Result<Vec<Space>> {
        self.scan(spaces::all).await
    }

    async fn change_space(&self, id: SpaceId, change: SpaceChange) -> Result<Space> {
        self.change_space_op(id, change).await
    }

    async fn remove_space(&self, id: SpaceId, _now_ms: i64) -> Result<()> {
        self.remove_space_op(id).await
    }

    async fn put_member(&self, space: SpaceId, account: AccountId, role: Role, wrapped_key: Vec<u8>) -> Result<()> {
        self.put_member_op(space, account, role, wrapped_key).await
    }

    async fn remove_member(&self, space: SpaceId, account: AccountId) -> Result<()> {
        self.remove_member_op(space, account).await
    }

    async fn members(&self, space: SpaceId) -> Result<Vec<Membership>> {
        self.readers().read(|connection| members::of_space(connection, space))
    }

    async fn account_used_bytes(&self, account: AccountId) -> Result<u64> {
        self.readers().read(|connection| Ok(unsigned(state::account_bytes(connection, account)?)))
    }

    async fn find(&self, space: SpaceId, path: &DrivePath, with_content: bool) -> Result<Found> {
        self.readers().read_snapshot(|connection| tree_read::find(connection, space, path, with_content))
    }

    async fn children(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Result<Vec<Node>> {
        if limit <= INLINE_ROWS {
            return self.readers().read(|connection| tree_read::children(connection, folder, after, limit));
        }
        let after = after.cloned();
        self.scan(move |connection| tree_read::children(connection, folder, after.as_ref(), limit)).await
    }

    async fn count_below(&self, folder: NodeId, limit: usize) -> Result<usize> {
        self.scan(move |connection| tree_read::count_below(connection, folder, limit)).await
    }

    async fn properties(&self, nodes: &[NodeId]) -> Result<Vec<(NodeId, Vec<Property>)>> {
        if nodes.len() <= INLINE_ROWS {
            return self.readers().read_snapshot(|connection| properties::of_nodes(connection, nodes));
        }
        let nodes = nodes.to_vec();
        self.scan(move |connection| properties::of_nodes(connection, &nodes)).await
    }

    async fn locks_on(&self, space: SpaceId, nodes: &[NodeId], now_ms: i64) -> Result<Vec<Lock>> {
        self.locks_on_op(space, nodes, now_ms)
    }

    async fn content(&self, id: ContentId) -> Result<Option<Content>> {
        self.readers().read(|connection| tree_read::content(connection, id))
    }

    async fn manifest_chunk(&self, content: ContentId, index: u64) -> Result<Option<ManifestChunk>> {
        self.readers().read(|connection| tree_read::manifest_chunk(connection, content, index))
    }

    async fn block_places(&self, space: SpaceId, ids: &[BlockId]) -> Result<Vec<Option<BlockPlace>>> {
        if ids.len() <= INLINE_ROWS {
            return self.readers().read_snapshot(|connection| packs::places(connection, space, ids));
        }
        let ids = ids.to_vec();
        self.scan(move |connection| packs::places(connection, space, &ids)).await
    }

    async fn make_folder(&self, space: SpaceId, path: &DrivePath, guard: &Guard) -> Result<Node> {
        self.make_folder_op(space, path, guard).await
    }

    async fn commit_file(
        &self,
        space: SpaceId,
        path: &DrivePath,
        content: NewContent,
        modified_ms: i64,
        guard: &Guard,
    ) -> Result<std::result::Result<Changed, Missing>> {
        self.commit_file_op(space, path, content, modified_ms, guard).await
    }

    async fn remove(&self, space: SpaceId, path: &DrivePath, guard: &Guard) -> Result<()> {
        self.remove_op(space, path, guard).await
    }

    async fn relocate(&self, relocation: &Relocation, guard: &Guard) -> Result<Changed> {
        self.relocate_op(relocation, guard).await
    }

    async fn copy(&self, relocation: &Relocation, guard: &Guard) -> Result<Changed> {
        self.copy_op(relocation, guard).await
    }

    async fn change_properties(
        &self,
        space: SpaceId,
        path: &DrivePath,
        changes: &[PropertyChange],
        guard: &Guard,
    ) -> Result<Node> {
        self.change_properties_op(space, path, changes, guard).await
    }

    async fn lock(&self, space: SpaceId, path: &DrivePath, new: NewLock, guard: &Guard) -> Result<(Lock, Changed)> {
        self.lock_op(space, path, new, guard).await
    }

    async fn refresh_lock(
        &self,
        space: SpaceId,
        path: &DrivePath,
        token: &str,
        expires_ms: i64,
        guard: &Guard,
    ) -> Result<Lock> {
        self.refresh_lock_op(space, path, token, expires_ms, guard).await
    }

    async fn unlock(&self, space: SpaceId, path: &DrivePath, token: &str, guard: &Guard) -> Result<()> {
        self.unlock_op(space, path, token, guard).await
    }

    async fn versions(&self, node: NodeId) -> Result<Vec<Version>> {
        self.versions_op(node)
    }

    async fn restore_version(&self, space: SpaceId, path: &DrivePath, seq: i64, guard: &Guard) -> Result<Node> {
        self.restore_version_op(space, path, seq, guard).await
    }

    async fn remove_version(&self, node: NodeId, seq: i64) -> Result<()> {
        self.remove_version_op(node, seq).await
    }

    async fn trash(&self, space: SpaceId, before: Option<i64>, limit: usize) -> Result<Vec<TrashEntry>> {
        self.trash_op(space, before, limit).await
    }

    async fn restore_trash(&self, space: SpaceId, entry: i64, to: Option<&DrivePath>, guard: &Guard) -> Result<Node> {
        self.restore_trash_op(space, entry, to, guard).await
    }

    async fn purge_trash(&self, space: SpaceId, entry: Option<i64>) -> Result<u64> {
        self.purge_trash_op(space, entry).await
    }

    async fn expire(&self, now_ms: i64, limit: usize) -> Result<usize> {
        self.expire_op(now_ms, limit).await
    }

    async fn begin_upload(&self, upload: NewUpload) -> Result<ContentId> {
        self.begin_upload_op(upload).await
    }

    async fn reserve_more(&self, upload: ContentId, bytes: u64) -> Result<()> {
        self.reserve_more_op(upload, bytes).await
    }

    async fn stage(&self, upload: ContentId, run: StagedRun) -> Result<std::result::Result<(), Missing>> {
        self.stage_op(upload, run).await
    }

    async fn abandon_upload(&self, upload: ContentId) -> Result<()> {
        self.abandon_upload_op(upload).await
    }

    async fn open_pack(&self, name: PackName, now_ms: i64) -> Result<PackId> {
        self.open_pack_op(name, now_ms).await
    }

    async fn seal_pack(&self, pack: PackId, total_bytes: u64) -> Result<()> {
        self.seal_pack_op(pack, total_bytes).await
    }

    async fn packs(&self, after: Option<PackId>, limit: usize) -> Result<Vec<Pack>> {
        self.packs_op(after, limit).await
    }

    async fn pack_blocks(&self, pack: PackId, from: u64, limit: usize) -> Result<Vec<(SpaceId, BlockPlace)>> {
        self.pack_blocks_op(pack, from, limit).await
    }

    async fn move_blocks(&self, moves: Vec<MovedBlock>) -> Result<usize> {
        self.move_blocks_op(moves).await
    }

    async fn dead_packs(&self, limit: usize) -> Result<Vec<Pack>> {
        self.dead_packs_op(limit).await
    }

    async fn forget_pack(&self, pack: PackId) -> Result<()> {
        self.forget_pack_op(pack).await
    }

    async fn release_garbage(&self, limit: usize) -> Result<usize> {
        self.release_garbage_op(limit).await
    }

    async fn recover(&self) -> Result<Vec<Pack>> {
        self.recover_op().await
    }

    async fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        self.check_op(repair).await
    }

    async fn all_blocks(
        &self,
        after: Option<(SpaceId, BlockId)>,
        limit: usize,
    ) -> Result<Vec<(SpaceId, BlockPlace, u64)>> {
        self.scan(move |connection| packs::all_blocks(connection, after, limit)).await
    }

    async fn all_contents(&self, after: Option<ContentId>, limit: usize) -> Result<Vec<Content>> {
        self.scan(move |connection| tree_read::all_contents(connection, after, limit)).await
    }

    async fn ping(&self) -> Result<()> {
        self.readers()
            .read(|connection| Ok(super::sql::only(connection, "SELECT count(*) FROM counter", [], |_| Ok(()))?))?;
        // Taking an id writes the counter, so this goes all the way to the disk.
        let write = |tx: &super::tx::Tx<'_>| {
            tx.new_id();
            Ok(())
        };
        self.writer().submit("ping", write).await
    }
}
