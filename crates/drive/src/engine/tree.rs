//! A space for a mount, on this machine: see [`Tree`].

mod deferring;
mod leases;
mod own;

use super::Engine;
use super::access::Entered;
use super::intake::Intake;
use super::locking::EngineLocks;
use super::opened::Opened;
use super::read::Reading;
use super::store::{Around, Within};
use super::target::Target;
use super::upload::Ready;
use crate::posix_locks::Locking;
use crate::{Condition, Deferring, LeftOut, NewNode, OpenContent, Room, Save, SaveBody, SealedAhead, Shows, Tree};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_auth::Session;
use holdfast_base::limits::{BLOCK_BYTES, FILE_BYTES_MAX};
use holdfast_base::{AccountId, BlockId, ByteRange, ContentId, Error, ErrorKind, NodeId, NodeName, Result, SpaceId};
use holdfast_meta::{
    Applied, Batch, Change, Content, Durable, Entry, Expect, Guard, NewAttributes, NewContent, NewEntry, NewName,
    Posix, Rename, Renamed, Rewrite, Role, Standing, Unlink, XattrRule,
};
pub use leases::Believer;
use own::Own;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::broadcast;

/// How long a look at who may do what holds: what an administrator takes away is gone within this time.
const GRANT: Duration = Duration::from_secs(1);

/// A space entered for a mount.
struct EngineTree {
    engine: Engine,
    who: Arc<Session>,
    space: String,
    root: NodeId,
    /// The id of a block of zeros, once somebody looked for holes.
    zeros: Arc<OnceLock<BlockId>>,
    entered: Mutex<(Arc<Entered>, Instant)>,
    /// Who asks is on another machine.
    far: bool,
    from: MountName,
    /// If it is shown by a mount in this process beside which others make changes.
    own: Option<Arc<Own>>,
    /// Nobody else makes changes.
    only: bool,
}

/// How a mount names itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MountName {
    /// A random number under which it makes changes, so that it knows its own ([`Change::by`]); 0 if it does not.
    pub voice: u64,
    /// Whether it knows that a file may have several names. To others each is a file.
    pub bonds: bool,
    /// A random number that stays, under which it has leases; 0 if it has none.
    pub number: u64,
}

impl Engine {
    /// A space for a mount, with what the session may do there.
    pub async fn tree(&self, who: Arc<Session>, space: &str) -> Result<Arc<dyn Deferring>> {
        self.tree_of(who, space, false, MountName { voice: 0, bonds: true, number: 0 }).await.map(|tree| tree as _)
    }

    /// The same for a mount on another machine.
    pub async fn far_tree(&self, who: Arc<Session>, space: &str, from: MountName) -> Result<Arc<dyn Deferring>> {
        self.tree_of(who, space, true, from).await.map(|tree| tree as _)
    }

    async fn tree_of(&self, who: Arc<Session>, space: &str, far: bool, from: MountName) -> Result<Arc<EngineTree>> {
        let entered = self.enter(&who, space, Role::Reader).await?;
        if entered.view.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a folder that was shared cannot be mounted yet, only a space",
            ));
        }
        let root = self.view(&entered).await?.root.id;
        let entered = Mutex::new((Arc::new(entered), Instant::now()));
        let (zeros, space, own, only) = (Arc::default(), space.to_owned(), None, false);
        Ok(Arc::new(EngineTree { engine: self.clone(), who, space, root, zeros, entered, far, from, own, only }))
    }
}

impl Engine {
    /// Makes changes that a mount of an account answered before its end, as far as the account may make them now. What is in them is sealed already.
    pub async fn apply_answered(
        &self,
        account: AccountId,
        space: SpaceId,
        batch: Batch,
    ) -> Result<Vec<Result<Applied>>> {
        let now_ms = self.shared.clock.now_ms();
        let guard = Guard { account, expect: Expect::Any, tokens: Vec::new(), through: Vec::new(), now_ms, mount: 0 };
        self.shared.catalogue.apply(space, batch, &guard, Durable::Soon).await
    }
}

impl EngineTree {
    /// The space with the role the account has there now, or had a moment ago.
    async fn enter(&self, need: Role) -> Result<Arc<Entered>> {
        let (mut entered, since) = self.entered.lock().clone();
        if since.elapsed() >= GRANT {
            let account = self.engine.shared.catalogue.account(self.who.account).await?;
            if account.is_none_or(|account| account.disabled) {
                return Err(Error::forbidden("the account was disabled or removed"));
            }
            entered = Arc::new(self.engine.enter(&self.who, &self.space, Role::Reader).await?);
            *self.entered.lock() = (entered.clone(), Instant::now());
        }
        if entered.role < need {
            return Err(Error::forbidden(format!("you may only read {:?}", self.space)));
        }
        Ok(entered)
    }

    async fn enter_to_write(&self) -> Result<(Arc<Entered>, Guard)> {
        let entered = self.enter(Role::Editor).await?;
        let guard = self.engine.guard(&self.who, &entered, crate::Conditions::default());
        Ok((entered, Guard { mount: self.from.voice, ..guard }))
    }

    /// An entry as whoever asks knows it.
    fn told(&self, entry: Entry) -> Entry {
        if self.from.bonds { entry } else { Entry { bond: None, ..entry } }
    }

    async fn standing(&self) -> Result<Standing> {
        let entered = self.enter(Role::Reader).await?;
        let standing = self.engine.shared.catalogue.standing(entered.space.id).await?;
        standing.ok_or_else(|| Error::not_found("the space is gone"))
    }

    async fn reading(&self, entered: &Entered, content: ContentId) -> Result<Arc<Reading>> {
        let found = self.engine.shared.catalogue.content(content).await?;
        let content: Content = found
            .filter(|content| content.space == entered.space.id)
            .ok_or_else(|| Error::not_found("this content is no longer kept"))?;
        self.engine.reading(entered.keys(&self.who)?, content)
    }

    /// What a save was made of. The file has another content if that is no longer kept.
    async fn base(&self, entered: &Entered, content: ContentId) -> Result<Arc<Reading>> {
        self.reading(entered, content).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::new(ErrorKind::PreconditionFailed, "the file was changed meanwhile"),
            _ => error,
        })
    }

    /// Ids of the blocks before and after what is sent.
    async fn kept(&self, entered: &Entered, save: &Save) -> Result<(Vec<BlockId>, Vec<BlockId>)> {
        let block = BLOCK_BYTES as u64;
        let after = save.body.end < save.size;
        if save.body.start == 0 && !after {
            return Ok((Vec::new(), Vec::new()));
        }
        let base = save.base.ok_or_else(|| Error::internal("there is nothing to be kept of an empty file"))?;
        let base = self.base(entered, base).await?;
        let aligned = save.body.start.is_multiple_of(block) && (!after || save.body.end.is_multiple_of(block));
        if !aligned || !base.has_blocks_of(BLOCK_BYTES) || (after && base.size() != save.size) {
            return Err(Error::internal("a part of a file is to be kept that is not made of blocks"));
        }
        let before = base.block_ids(0..save.body.start / block).await?;
        let after =
            if after { base.block_ids(save.body.end / block..save.size.div_ceil(block)).await? } else { Vec::new() };
        Ok((before, after))
    }

    /// Adds blocks within what is sent that are left out, by their number in it.
    async fn add_left_out(
        &self,
        (entered, target): (&Entered, &Arc<Target>),
        save: &Save,
        LeftOut { stay, zeros }: LeftOut,
        within: &mut BTreeMap<u64, Within>,
    ) -> Result<()> {
        let block = BLOCK_BYTES as u64;
        let wrong = || Error::invalid("a save leaves out what it cannot");
        if save.size > FILE_BYTES_MAX {
            return Err(wrong());
        }
        // Counted from the first byte that is sent. In order: the same blocks, named often, would be as many in memory.
        let first = save.body.start / block;
        let inside = |after: &mut u64, range: &Range<u64>, end: u64| {
            let fits = *after <= range.start && range.start < range.end && range.end <= end / block;
            *after = range.end;
            if fits { Ok(range.start - first) } else { Err(wrong()) }
        };
        let mut add = |start, blocks| within.insert(start, blocks).map_or(Ok(()), |_| Err(wrong()));
        if !stay.is_empty() {
            let base = self.base(entered, save.base.ok_or_else(wrong)?).await?;
            let end = if base.has_blocks_of(BLOCK_BYTES) { base.size().min(save.body.end) } else { 0 };
            let mut after = first;
            for range in stay {
                let start = inside(&mut after, &range, end)?;
                add(start, Within::Known(base.block_ids(range).await?))?;
            }
        }
        let (mut after, mut id) = (first, None);
        for range in zeros {
            let (mut start, mut times) = (inside(&mut after, &range, save.body.end)?, range.end - range.start);
            if id.is_none() {
                let first = target.clone().store_zeros().await?;
                id = Some(first.id);
                add(start, Within::Stored(first))?;
                (start, times) = (start + 1, times - 1);
            }
            if let Some(id) = id.filter(|_| times > 0) {
                add(start, Within::Same(id, times))?;
            }
        }
        Ok(())
    }

    /// Stores what a save sends, between blocks that are kept.
    async fn store(
        &self,
        entered: &Entered,
        save: &Save,
        body: SaveBody,
        before: Vec<BlockId>,
        after: (Vec<BlockId>, u64),
    ) -> Result<(Arc<Target>, Ready)> {
        let target = self.engine.target(entered, entered.keys(&self.who)?)?;
        let (intake, within) = self.intake((entered, &target), save, body).await?;
        let ready = target.store(intake, Some(save.body.len()), Around { before, within, after }).await?;
        Ok((target, ready))
    }

    /// What a save sends, and the blocks within that which it does not.
    async fn intake(
        &self,
        (entered, target): (&Entered, &Arc<Target>),
        save: &Save,
        body: SaveBody,
    ) -> Result<(Intake, BTreeMap<u64, Within>)> {
        let SaveBody { stream, ahead, left_out } = body;
        let mut within = target.sealed(ahead, save.body.start)?;
        if !left_out.is_empty() {
            self.add_left_out((entered, target), save, left_out, &mut within).await?;
        }
        let length = save.body.len();
        let known = within.values().map(Within::blocks).sum::<u64>();
        let streamed = known.checked_mul(BLOCK_BYTES as u64).and_then(|known| length.checked_sub(known));
        let streamed = streamed.ok_or_else(|| Error::invalid("a save leaves out more than it is to have"))?;
        Ok((Intake::new(stream, Some(streamed), Vec::new()), within))
    }

    async fn commit(&self, save: Save, (target, ready): (&Target, Ready)) -> Result<Entry> {
        let asking = self.asking();
        let (entered, guard) = self.enter_to_write().await?;
        let catalogue = &self.engine.shared.catalogue;
        let commit = |content| {
            let Save { node, base, posix, keep, .. } = save;
            catalogue.rewrite(entered.space.id, Rewrite { node, base, content, posix, keep }, &guard, save.durable)
        };
        let saved = ready.commit(target, commit).await.map(|entry| self.told(entry))?;
        asking.tells([&saved], []).await;
        Ok(saved)
    }
}

#[async_trait]
impl Tree for EngineTree {
    fn root(&self) -> NodeId {
        self.root
    }

    async fn entry(&self, node: NodeId) -> Result<Option<Entry>> {
        let (entered, asking) = (self.enter(Role::Reader).await?, self.asking());
        let found = self.engine.shared.catalogue.entry(entered.space.id, node).await?;
        asking.tells(&found, []).await;
        Ok(found.map(|entry| self.told(entry)))
    }

    async fn lookup(&self, folder: NodeId, name: &NodeName) -> Result<Option<Entry>> {
        let (entered, asking) = (self.enter(Role::Reader).await?, self.asking());
        let found = self.engine.shared.catalogue.entry_in(entered.space.id, folder, name).await?;
        asking.tells(&found, [folder]).await;
        Ok(found.map(|entry| self.told(entry)))
    }

    async fn list(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Result<Vec<Entry>> {
        let (entered, asking) = (self.enter(Role::Reader).await?, self.asking());
        let members = self.engine.shared.catalogue.entries(entered.space.id, folder, after, limit).await?;
        asking.tells(&members, [folder]).await;
        Ok(members.into_iter().map(|entry| self.told(entry)).collect())
    }

    async fn room(&self) -> Result<Room> {
        let entered = self.engine.enter(&self.who, &self.space, Role::Reader).await?;
        let view = self.engine.view(&entered).await?;
        Ok(Room { used_bytes: view.usage.used_bytes, free_bytes: view.available_bytes })
    }

    async fn open(&self, content: ContentId) -> Result<Arc<dyn OpenContent>> {
        let entered = self.enter(Role::Reader).await?;
        let reading = self.reading(&entered, content).await?;
        Ok(Arc::new(Opened::new(content, reading, self.zeros.clone())))
    }

    async fn has_holes(&self, content: ContentId, blocks_max: u64) -> Result<bool> {
        let open = self.open(content).await?;
        for index in 0..(open.size() / BLOCK_BYTES as u64).min(blocks_max) {
            if open.is_hole(index).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn create(&self, new: NewNode, content: Bytes, durable: Durable) -> Result<Entry> {
        let asking = self.asking();
        let (entered, guard) = self.enter_to_write().await?;
        let catalogue = &self.engine.shared.catalogue;
        let commit = |content| {
            let NewNode { parent, name, kind, posix } = new.clone();
            let new = NewEntry { parent, name, kind, posix, content };
            catalogue.create_entry(entered.space.id, new, &guard, durable)
        };
        if content.is_empty() {
            // Nearly all are: what is written comes later. There is nothing to be sealed, and no room to be looked for.
            let created = commit(NewContent::Empty).await?;
            let created = created.map_err(|_| Error::internal("the catalogue misses blocks of nothing"))?;
            asking.tells([&created], []).await;
            return Ok(created);
        }
        let target = self.engine.target(&entered, entered.keys(&self.who)?)?;
        let length = Some(content.len() as u64);
        let body = stream::once(async move { Ok(content) }).boxed();
        let ready = target.store(Intake::new(body, length, Vec::new()), length, Around::default()).await?;
        let created = ready.commit(&target, commit).await?;
        asking.tells([&created], []).await;
        Ok(created)
    }

    fn seals_here(&self) -> bool {
        true
    }

    fn leaves_out(&self) -> bool {
        true
    }

    async fn seal_ahead(&self, block: Vec<Bytes>) -> Result<Option<SealedAhead>> {
        let (entered, _) = self.enter_to_write().await?;
        self.engine.target(&entered, entered.keys(&self.who)?)?.seal_ahead(block).await
    }

    async fn save(&self, save: Save, body: SaveBody) -> Result<Entry> {
        let (entered, _) = self.enter_to_write().await?;
        let (before, after) = self.kept(&entered, &save).await?;
        let after_bytes = save.size - save.body.end;
        let (target, ready) = self.store(&entered, &save, body, before, (after, after_bytes)).await?;
        self.commit(save, (&target, ready)).await
    }

    async fn extend(&self, save: Save, body: SaveBody, (content, range): (ContentId, ByteRange)) -> Result<Entry> {
        let (entered, _) = self.enter_to_write().await?;
        let block = BLOCK_BYTES as u64;
        let source = self.reading(&entered, content).await?;
        let whole = source.has_blocks_of(BLOCK_BYTES)
            && range.start.is_multiple_of(block)
            && (range.end.is_multiple_of(block) || range.end == source.size())
            && save.body.end.is_multiple_of(block);
        let fits = !range.is_empty()
            && range.end <= source.size()
            && save.body.end.checked_add(range.len()) == Some(save.size)
            && save.size <= FILE_BYTES_MAX;
        if !whole || !fits {
            let message = "what is to be copied is not made of whole blocks";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let (before, _) = self.kept(&entered, &Save { size: save.body.end, ..save.clone() }).await?;
        let ids = source.block_ids(range.start / block..range.end.div_ceil(block)).await?;
        let (target, ready) = self.store(&entered, &save, body, before, (ids, range.len())).await?;
        self.commit(save, (&target, ready)).await
    }

    async fn set_attributes(&self, node: NodeId, change: NewAttributes, usual: Posix) -> Result<Entry> {
        let asking = self.asking();
        let (entered, guard) = self.enter_to_write().await?;
        let catalogue = &self.engine.shared.catalogue;
        let entry = catalogue.set_attributes(entered.space.id, node, change, usual, &guard, Durable::Soon).await?;
        asking.tells([&entry], []).await;
        Ok(self.told(entry))
    }

    async fn link(&self, link: NewName, usual: Posix) -> Result<Entry> {
        let asking = self.asking();
        let (entered, guard) = self.enter_to_write().await?;
        let linked = self.engine.shared.catalogue.link(entered.space.id, link, usual, &guard, Durable::Soon).await?;
        asking.tells([&linked], []).await;
        Ok(self.told(linked))
    }

    async fn unlink(&self, unlink: Unlink) -> Result<NodeId> {
        let (entered, guard) = self.enter_to_write().await?;
        self.engine.shared.catalogue.unlink(entered.space.id, unlink, &guard, Durable::Soon).await
    }

    async fn rename(&self, rename: Rename) -> Result<Renamed> {
        let asking = self.asking();
        let (entered, guard) = self.enter_to_write().await?;
        let Renamed { entry, other } =
            self.engine.shared.catalogue.rename(entered.space.id, rename, &guard, Durable::Soon).await?;
        asking.tells(other.iter().chain([&entry]), []).await;
        Ok(Renamed { entry: self.told(entry), other: other.map(|other| self.told(other)) })
    }

    async fn hold(&self, nodes: Vec<NodeId>, until_ms: i64) -> Result<()> {
        let entered = self.enter(Role::Editor).await?;
        self.engine.shared.catalogue.hold(entered.space.id, nodes, until_ms).await
    }

    async fn let_go(&self, node: NodeId) -> Result<()> {
        let entered = self.enter(Role::Editor).await?;
        self.engine.shared.catalogue.let_go(entered.space.id, node).await
    }

    async fn xattrs(&self, node: NodeId) -> Result<Vec<(String, Vec<u8>)>> {
        // A number is of one space only.
        match self.entry(node).await? {
            Some(entry) => self.engine.shared.catalogue.xattrs(entry.node.id).await,
            None => Ok(Vec::new()),
        }
    }

    async fn set_xattr(
        &self,
        node: NodeId,
        change: (String, Option<Vec<u8>>, XattrRule),
        usual: (Posix, i64),
    ) -> Result<Entry> {
        let asking = self.asking();
        let (entered, guard) = self.enter_to_write().await?;
        let entry = self.engine.shared.catalogue.set_xattr(entered.space.id, node, change, usual, &guard).await?;
        asking.tells([&entry], []).await;
        Ok(self.told(entry))
    }

    async fn settle(&self) -> Result<()> {
        self.engine.shared.catalogue.settle().await
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.own.as_ref().map_or_else(|| self.engine.shared.catalogue.changes(), |own| own.changes())
    }

    fn unchanged(&self) -> Option<u64> {
        self.own.as_ref().map_or_else(|| self.only.then_some(0), |own| own.unchanged())
    }

    fn shown_by(&self, who: Weak<dyn Shows>) {
        if let Some(own) = &self.own {
            own.shown_by.set(who);
        }
    }

    fn condition(&self) -> Condition {
        let bytes = self.engine.shared.downloads.cache.used_bytes();
        Condition { cache_bytes: u64::try_from(bytes).ok(), ..Condition::default() }
    }

    fn locking(&self) -> Option<Arc<dyn Locking>> {
        // Another node would know nothing of the locks that this one gives.
        let of_one_node = !self.engine.shared.catalogue.is_shared();
        let of = (self.entered.lock().0.space.id, self.who.account);
        of_one_node.then(|| Arc::new(EngineLocks::new(self.engine.clone(), of, self.far)) as Arc<dyn Locking>)
    }

    async fn forget(&self, content: Option<ContentId>, _pinned_too: bool) {
        // Blocks are kept by their ids, which a content shares with others.
        if content.is_none() {
            self.engine.shared.downloads.cache.clear();
        }
    }
}
