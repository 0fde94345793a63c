//! The tree that answers first, as a mount asks it.

use super::defer::{Content, taken};
use super::{Behind, Direct, Shared};
use crate::meter::waits_for;
use crate::under_way::Wait;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, ContentId, Error, ErrorKind, NodeId, NodeName, Result};
use holdfast_drive::engine::small::{Sealed, SealedBlock};
use holdfast_drive::posix_locks::Locking;
use holdfast_drive::{
    Change, Condition, Durable, Entry, NewAttributes, NewName, NewNode, OpenContent, Pinning, Posix, Prepared, Rename,
    Renamed, Room, Save, SaveBody, SealedAhead, Shows, Tree, Unlink, Unsynced, XattrRule,
};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use tokio::sync::broadcast;

/// Content beyond this is never small enough when it is sealed.
const SMALL_BYTES: u64 = 64 << 10;

#[async_trait]
impl Tree for Behind {
    fn root(&self) -> NodeId {
        self.shared.inner.root()
    }

    async fn entry(&self, node: NodeId) -> Result<Option<Entry>> {
        self.shared.entry(node, false).await
    }

    async fn entry_to_open(&self, node: NodeId) -> Result<Option<Entry>> {
        self.shared.entry(node, true).await
    }

    async fn lookup(&self, folder: NodeId, name: &NodeName) -> Result<Option<Entry>> {
        self.shared.lookup(folder, name).await
    }

    async fn list(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Result<Vec<Entry>> {
        self.shared.list(folder, after, limit).await
    }

    async fn room(&self) -> Result<Room> {
        let waiting = self.shared.state.lock().view.content_bytes();
        let room = self.shared.inner.room().await?;
        Ok(Room {
            used_bytes: room.used_bytes.saturating_add(waiting),
            free_bytes: room.free_bytes.map(|free| free.saturating_sub(waiting)),
        })
    }

    async fn open(&self, content: ContentId) -> Result<Arc<dyn OpenContent>> {
        let (small, unsynced) = {
            let state = self.shared.state.lock();
            (state.view.content(content).cloned(), state.view.unsynced(content).cloned())
        };
        if let Some(unsynced) = unsynced {
            return Ok(Arc::new(WaitingBlocks { id: content, unsynced }));
        }
        match small {
            Some(sealed) => {
                let plain = self.shared.inner.open_small(&sealed)?;
                Ok(Arc::new(Waiting { id: content, plain }))
            }
            None => self.shared.inner.open(content).await,
        }
    }

    async fn has_holes(&self, content: ContentId, blocks_max: u64) -> Result<bool> {
        if self.shared.state.lock().view.unsynced(content).is_some() {
            return Ok(false);
        }
        self.shared.inner.has_holes(content, blocks_max).await
    }

    async fn create(&self, new: NewNode, content: Bytes, durable: Durable) -> Result<Entry> {
        let sealed = match durable {
            Durable::Soon => self.shared.inner.seal_small(&content)?,
            Durable::Now => Sealed::Large(None),
        };
        let Sealed::Small(sealed) = sealed else { return self.create_now(new, content, durable).await };
        self.shared.make_ready().await?;
        if self.shared.is_taken(new.parent, &new.name).await? {
            return Err(taken(&new.name));
        }
        if let Some(entry) = self.shared.defer_create(&new, sealed)? {
            return Ok(entry);
        }
        self.create_now(new, content, durable).await
    }

    fn seals_here(&self) -> bool {
        self.shared.inner.seals_here()
    }

    fn leaves_out(&self) -> bool {
        self.shared.inner.leaves_out()
    }

    fn prefers_whole(&self, size: u64) -> bool {
        let inner = &self.shared.inner;
        size <= inner.prepared_bytes_max() && inner.is_away() && inner.has_room()
    }

    async fn seal_ahead(&self, block: Vec<Bytes>) -> Result<Option<SealedAhead>> {
        self.shared.inner.seal_ahead(block).await
    }

    fn seal_whole(&self, plain: &[u8]) -> Option<Sealed> {
        let sealed = self.shared.inner.seal_small(plain).ok()?;
        (!matches!(sealed, Sealed::Large(None))).then_some(sealed)
    }

    async fn save_whole(&self, save: &Save, sealed: Sealed) -> Result<Option<Entry>> {
        if save.durable == Durable::Now || self.shared.may_be_locked(save.node).await? {
            return Ok(None);
        }
        match sealed {
            Sealed::Small(sealed) => self.answer_save(save, Content::Small(sealed)).await,
            Sealed::Large(Some(block)) => self.save_block(save, block).await,
            Sealed::Large(None) => Ok(None),
        }
    }

    async fn save(&self, save: Save, body: SaveBody) -> Result<Entry> {
        let whole = save.body == ByteRange::whole(save.size) && body.left_out.stay.is_empty();
        if !whole || save.durable == Durable::Now || self.shared.may_be_locked(save.node).await? {
            return self.save_now(save, body).await;
        }
        if save.size > SMALL_BYTES {
            return self.save_first(save, body).await;
        }
        // What is this small has no whole block.
        let plain = body.stream.try_fold(Vec::new(), |mut all, piece| async move {
            all.extend_from_slice(&piece);
            Ok(all)
        });
        let plain = plain.await?;
        let body = |plain| stream::once(async move { Ok(Bytes::from(plain)) }).boxed().into();
        let sealed = self.shared.inner.seal_small(&plain)?;
        if matches!(sealed, Sealed::Large(None)) {
            return self.save_first(save, body(plain)).await;
        }
        match self.save_whole(&save, sealed).await? {
            Some(entry) => Ok(entry),
            None => self.save_now(save, body(plain)).await,
        }
    }

    async fn extend(&self, save: Save, body: SaveBody, tail: (ContentId, ByteRange)) -> Result<Entry> {
        let (shared, node) = (&self.shared, save.node);
        let work = async {
            shared.refuse_parked(node)?;
            shared.inner.extend(save, body, tail).await
        };
        shared.directly(&[node], work).await
    }

    async fn set_attributes(&self, node: NodeId, change: NewAttributes, usual: Posix) -> Result<Entry> {
        let shared = &self.shared;
        if let Some(entry) = shared.defer_attributes(node, change, usual).await? {
            return Ok(entry);
        }
        let work = async {
            shared.refuse_parked(node)?;
            shared.inner.set_attributes(node, change, usual).await
        };
        shared.directly(&[], work).await
    }

    async fn link(&self, link: NewName, usual: Posix) -> Result<Entry> {
        let (shared, node, parent, name) = (&self.shared, link.node, link.parent, link.name.clone());
        let work = async {
            shared.refuse_parked(node)?;
            shared.refuse_parked(parent)?;
            shared.may_be_named(parent, &name);
            shared.inner.link(link, usual).await
        };
        shared.note_link();
        let done = shared.directly(&[node], work).await;
        shared.note_link();
        shared.may_be_named(parent, &name);
        done
    }

    async fn unlink(&self, unlink: Unlink) -> Result<NodeId> {
        let shared = &self.shared;
        if let Some(node) = shared.defer_unlink(&unlink).await? {
            return Ok(node);
        }
        let parent = unlink.parent;
        let work = async {
            shared.refuse_parked_at(parent, &unlink.name).await?;
            shared.changes(parent);
            shared.inner.unlink(unlink).await
        };
        let done = shared.directly(&[], work).await;
        shared.changes(parent);
        done
    }

    async fn rename(&self, rename: Rename) -> Result<Renamed> {
        let shared = &self.shared;
        if let Some(done) = shared.defer_rename(&rename).await? {
            return Ok(done);
        }
        let (from, to) = (rename.from.clone(), rename.to.clone());
        let work = async {
            shared.refuse_parked_at(from.0, &from.1).await?;
            shared.refuse_parked_at(to.0, &to.1).await?;
            shared.may_be_named(to.0, &to.1);
            shared.inner.rename(rename).await
        };
        let done = shared.directly(&[], work).await;
        for (folder, name) in [from, to] {
            shared.may_be_named(folder, &name);
        }
        done
    }

    async fn hold(&self, nodes: Vec<NodeId>, until_ms: i64) -> Result<()> {
        self.shared.inner.hold(nodes, until_ms).await
    }

    async fn let_go(&self, node: NodeId) -> Result<()> {
        if self.shared.lets_go_of_what_waits(node) {
            return Ok(());
        }
        self.shared.flush().await?;
        self.shared.inner.let_go(node).await
    }

    async fn xattrs(&self, node: NodeId) -> Result<Vec<(String, Vec<u8>)>> {
        self.shared.inner.xattrs(node).await
    }

    async fn set_xattr(
        &self,
        node: NodeId,
        change: (String, Option<Vec<u8>>, XattrRule),
        usual: (Posix, i64),
    ) -> Result<Entry> {
        let shared = &self.shared;
        let work = async {
            shared.refuse_parked(node)?;
            shared.inner.set_xattr(node, change, usual).await
        };
        shared.directly(&[], work).await
    }

    fn trouble(&self, node: NodeId) -> Option<Error> {
        self.shared.trouble(node)
    }

    async fn settle(&self) -> Result<()> {
        self.shared.settle().await
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.shared.inner.changes()
    }

    fn unchanged(&self) -> Option<u64> {
        let otherwise = self.shared.otherwise.load(Ordering::Acquire);
        self.shared.inner.unchanged().map(|count| count.wrapping_add(otherwise))
    }

    fn condition(&self) -> Condition {
        Condition { deferred: self.shared.waiting(), ..self.shared.inner.condition() }
    }

    async fn hand_over(&self) -> Result<()> {
        self.shared.flush().await
    }

    fn locking(&self) -> Option<Arc<dyn Locking>> {
        self.shared.inner.locking()
    }

    fn shown_by(&self, who: Weak<dyn Shows>) {
        self.shared.inner.shown_by(who);
    }

    async fn leave(&self) {
        self.shared.inner.leave().await;
    }

    async fn forget(&self, content: Option<ContentId>, pinned_too: bool) {
        self.shared.inner.forget(content, pinned_too).await;
        if content.is_none() {
            self.shared.state.lock().forget_what_is_not_there();
        }
    }

    fn pinning(&self) -> Option<Arc<dyn Pinning>> {
        self.shared.inner.pinning()
    }
}

impl Behind {
    async fn create_now(&self, new: NewNode, content: Bytes, durable: Durable) -> Result<Entry> {
        let (shared, parent, name) = (&self.shared, new.parent, new.name.clone());
        let work = async {
            shared.refuse_parked(parent)?;
            // Who asked may be gone before it is answered.
            shared.may_be_named(parent, &name);
            shared.inner.create(new, content, durable).await
        };
        let made = shared.directly(&[], work).await;
        shared.may_be_named(parent, &name);
        made
    }

    /// Answers a save; none if that must be asked for.
    async fn answer_save(&self, save: &Save, content: Content) -> Result<Option<Entry>> {
        self.shared.make_ready().await?;
        let links = self.shared.links();
        let there = self.shared.entry(save.node, false).await?;
        self.shared.defer_save(save, content, there, links)
    }

    /// Whether so much may be written before the disk has it.
    fn may_prepare(&self, bytes: u64) -> bool {
        let shared = &self.shared;
        let may = bytes <= shared.inner.prepared_bytes_max() && shared.inner.has_room();
        may && shared.state.lock().may_defer(bytes)
    }

    /// Saves a whole file, and answers before the disk has it, if that may be.
    async fn save_first(&self, save: Save, body: SaveBody) -> Result<Entry> {
        if !self.may_prepare(save.size) {
            return self.save_now(save, body).await;
        }
        // As much waits for the disk as may: then nothing more is written before it.
        self.shared.make_ready().await?;
        let prepared = self.shared.inner.prepare(&save, body).await?;
        self.answer_prepared(save, prepared).await
    }

    /// The same of a file that is sealed as one block; none, and nothing is done, if it must go the usual way.
    async fn save_block(&self, save: &Save, block: SealedBlock) -> Result<Option<Entry>> {
        if !self.may_prepare(save.size) {
            return Ok(None);
        }
        self.shared.make_ready().await?;
        match self.shared.inner.prepare_block(block).await? {
            Some(prepared) => self.answer_prepared(save.clone(), prepared).await.map(Some),
            None => Ok(None),
        }
    }

    async fn answer_prepared(&self, save: Save, prepared: Prepared) -> Result<Entry> {
        let shared = &self.shared;
        if let Some(unsynced) = prepared.unsynced() {
            // Where that fails, no journal has it.
            let answered = self.answer_save(&save, Content::Unsynced(unsynced.clone())).await;
            if let Some(entry) = answered.inspect_err(|_| unsynced.let_go())? {
                return Ok(entry);
            }
        }
        let (node, nodes) = (save.node, [save.node]);
        let work = async {
            shared.refuse_parked(node)?;
            shared.inner.save_prepared(save, prepared).await
        };
        shared.directly(&nodes, work).await
    }

    /// Saves in the usual way. Where content is sealed here, what waits is handed over meanwhile: the body ends when that is done, and nothing is committed
    /// before. To a server, as many saves as it takes at once would wait for one more request.
    async fn save_now(&self, save: Save, body: SaveBody) -> Result<Entry> {
        let (shared, nodes) = (self.shared.clone(), [save.node]);
        let [node] = nodes;
        if !shared.inner.seals_here() {
            let work = async {
                shared.refuse_parked(node)?;
                shared.inner.save(save, body).await
            };
            return self.shared.directly(&nodes, work).await;
        }
        let _direct = Direct::begin(&self.shared, &nodes);
        if save.base.is_some_and(|base| self.shared.state.lock().view.unsynced(base).is_some()) {
            // Of what it is made of, the catalogue has to know the blocks.
            self.shared.flush().await?;
            self.shared.refuse_parked(node)?;
        }
        let flushing = tokio::spawn(async move {
            shared.flush().await?;
            shared.refuse_parked(node)
        });
        let flushed = stream::once(async move {
            let flushed = waits_for(Wait::HandedOver, flushing).await;
            flushed.map_err(|error| Error::internal("handing over failed").with_source(error)).flatten()
        });
        let ended = flushed.filter_map(async |flushed| flushed.err().map(Err));
        let body = SaveBody { stream: body.stream.chain(ended).boxed(), ..body };
        self.shared.in_order(self.shared.inner.save(save, body)).await
    }
}

impl Shared {
    /// What was refused has to be made before anything else can be done to it.
    pub(super) fn refuse_parked(&self, node: NodeId) -> Result<()> {
        let state = self.state.lock();
        if state.held_up.has(node) { Err(state.waits_behind_a_refusal(node)) } else { Ok(()) }
    }

    async fn refuse_parked_at(&self, folder: NodeId, name: &NodeName) -> Result<()> {
        if self.state.lock().parked.is_empty() {
            return Ok(());
        }
        let Some(entry) = self.lookup(folder, name).await? else { return Ok(()) };
        if self.state.lock().view.has_members(entry.node.id) {
            return Err(Error::conflict(format!("{name} has members that wait to be made")));
        }
        self.refuse_parked(entry.node.id)
    }

    async fn settle(&self) -> Result<()> {
        self.flush().await?;
        // What was handed over until here is on disk after this, and what was refused has to stay.
        let done = {
            let mut state = self.state.lock();
            if !state.parked.is_empty() {
                state.journal.sync()?;
            }
            let waiting = state.queue.iter().chain(&state.parked).map(|(number, _)| *number).chain(state.under_way);
            waiting.min().map_or(state.journal.last(), |first| first - 1)
        };
        self.inner.settle().await?;
        self.state.lock().journal.retire(done)
    }
}

/// A content in blocks that waits, being read.
struct WaitingBlocks {
    id: ContentId,
    unsynced: Unsynced,
}

#[async_trait]
impl OpenContent for WaitingBlocks {
    fn id(&self) -> ContentId {
        self.id
    }

    fn size(&self) -> u64 {
        self.unsynced.size()
    }

    fn grain(&self) -> Option<u64> {
        Some(BLOCK_BYTES as u64)
    }

    async fn read(&self, range: ByteRange) -> Result<Vec<u8>> {
        self.unsynced.read(range).await
    }
}

/// A content that waits, being read.
struct Waiting {
    id: ContentId,
    plain: Vec<u8>,
}

#[async_trait]
impl OpenContent for Waiting {
    fn id(&self) -> ContentId {
        self.id
    }

    fn size(&self) -> u64 {
        self.plain.len() as u64
    }

    fn grain(&self) -> Option<u64> {
        None
    }

    async fn read(&self, range: ByteRange) -> Result<Vec<u8>> {
        let slice = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let slice = slice.and_then(|(start, end)| self.plain.get(start..end));
        slice
            .map(<[u8]>::to_vec)
            .ok_or_else(|| Error::new(ErrorKind::RangeNotSatisfiable, "the range lies beyond the file's end"))
    }
}
