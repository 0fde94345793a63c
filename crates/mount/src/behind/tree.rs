//! The tree that answers first, as a mount asks it.

use super::apply::after;
use super::view::{Touched, merged};
use super::{ABSENT, ABSENT_MAX, Behind, Shared, key_of};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use holdfast_base::{ByteRange, ContentId, Error, ErrorKind, NodeId, NodeName, Result};
use holdfast_drive::{
    Change, Condition, ContentStream, Deferred, Durable, Entry, NewAttributes, NewContent, NewEntry, NewNode, NodeKind,
    OpenContent, Posix, Rename, Renamed, Rewrite, Room, Save, Tree, Unlink, XattrRule,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::sync::broadcast;

/// Content beyond this is never small enough when it is sealed.
const SMALL_BYTES: u64 = 64 << 10;

#[async_trait]
impl Tree for Behind {
    fn root(&self) -> NodeId {
        self.shared.inner.root()
    }

    async fn entry(&self, node: NodeId) -> Result<Option<Entry>> {
        self.shared.entry(node).await
    }

    async fn lookup(&self, folder: NodeId, name: &NodeName) -> Result<Option<Entry>> {
        self.shared.lookup(folder, name).await
    }

    async fn list(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Result<Vec<Entry>> {
        // What waits is asked first: what is handed over meanwhile is in both rather than in none.
        let (waiting, any) = {
            let state = self.shared.state.lock();
            (state.view.members(folder, after, limit), !state.is_idle())
        };
        let mut there = self.shared.inner.list(folder, after, limit).await?;
        if any {
            let state = self.shared.state.lock();
            for entry in &mut there {
                if let Some(touched) = state.view.touched(entry.node.id) {
                    touched.show(entry);
                }
            }
        }
        Ok(if waiting.is_empty() { there } else { merged(there, waiting, limit) })
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
        let waiting = self.shared.state.lock().view.content(content).cloned();
        match waiting {
            Some(sealed) => {
                let plain = self.shared.inner.open_small(&sealed)?;
                Ok(Arc::new(Waiting { id: content, plain }))
            }
            None => self.shared.inner.open(content).await,
        }
    }

    async fn has_holes(&self, content: ContentId, blocks_max: u64) -> Result<bool> {
        self.shared.inner.has_holes(content, blocks_max).await
    }

    async fn create(&self, new: NewNode, content: Bytes, durable: Durable) -> Result<Entry> {
        let sealed = match durable {
            Durable::Soon => self.shared.inner.seal_small(&content)?,
            Durable::Now => None,
        };
        let Some(sealed) = sealed else { return self.create_now(new, content, durable).await };
        self.shared.make_ready().await?;
        if self.shared.is_taken(new.parent, &new.name).await? {
            return Err(taken(&new.name));
        }
        if let Some(entry) = self.shared.defer_create(&new, sealed)? {
            return Ok(entry);
        }
        self.create_now(new, content, durable).await
    }

    async fn save(&self, save: Save, body: ContentStream) -> Result<Entry> {
        let whole = save.body == ByteRange::whole(save.size) && save.size <= SMALL_BYTES;
        if !whole || save.durable == Durable::Now {
            self.shared.flush().await?;
            self.shared.refuse_parked(save.node)?;
            return self.shared.inner.save(save, body).await;
        }
        let plain = body.try_fold(Vec::new(), |mut all, piece| async move {
            all.extend_from_slice(&piece);
            Ok(all)
        });
        let plain = plain.await?;
        if let Some(sealed) = self.shared.inner.seal_small(&plain)? {
            self.shared.make_ready().await?;
            let there = self.shared.entry(save.node).await?;
            if let Some(entry) = self.shared.defer_save(&save, sealed, there)? {
                return Ok(entry);
            }
        }
        self.shared.flush().await?;
        self.shared.refuse_parked(save.node)?;
        self.shared.inner.save(save, stream::once(async move { Ok(Bytes::from(plain)) }).boxed()).await
    }

    async fn extend(&self, save: Save, body: ContentStream, tail: (ContentId, ByteRange)) -> Result<Entry> {
        self.shared.flush().await?;
        self.shared.refuse_parked(save.node)?;
        self.shared.inner.extend(save, body, tail).await
    }

    async fn set_attributes(&self, node: NodeId, change: NewAttributes, usual: Posix) -> Result<Entry> {
        let waits = {
            let state = self.shared.state.lock();
            state.view.entry(node).is_some()
        };
        if waits {
            self.shared.make_ready().await?;
            if let Some(entry) = self.shared.defer_attributes(node, change, usual)? {
                return Ok(entry);
            }
        }
        // A member made before would set the folder's times after this.
        self.shared.flush().await?;
        self.shared.refuse_parked(node)?;
        self.shared.inner.set_attributes(node, change, usual).await
    }

    async fn unlink(&self, unlink: Unlink) -> Result<NodeId> {
        self.shared.flush().await?;
        self.shared.refuse_parked_at(unlink.parent, &unlink.name).await?;
        self.shared.changes(unlink.parent);
        let parent = unlink.parent;
        let done = self.shared.inner.unlink(unlink).await;
        self.shared.changes(parent);
        done
    }

    async fn rename(&self, rename: Rename) -> Result<Renamed> {
        self.shared.flush().await?;
        let (from, to) = (rename.from.clone(), rename.to.clone());
        self.shared.refuse_parked_at(from.0, &from.1).await?;
        self.shared.refuse_parked_at(to.0, &to.1).await?;
        self.shared.forget_absent(to.0, &to.1);
        let done = self.shared.inner.rename(rename).await;
        for (folder, name) in [from, to] {
            self.shared.forget_absent(folder, &name);
        }
        done
    }

    async fn hold(&self, nodes: Vec<NodeId>, until_ms: i64) -> Result<()> {
        self.shared.inner.hold(nodes, until_ms).await
    }

    async fn let_go(&self, node: NodeId) -> Result<()> {
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
        self.shared.flush().await?;
        self.shared.refuse_parked(node)?;
        self.shared.inner.set_xattr(node, change, usual).await
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

    fn condition(&self) -> Condition {
        Condition { deferred: self.shared.waiting(), ..self.shared.inner.condition() }
    }

    fn forget(&self, content: Option<ContentId>) {
        self.shared.inner.forget(content);
        if content.is_none() {
            self.shared.state.lock().absent.clear();
        }
    }
}

impl Behind {
    async fn create_now(&self, new: NewNode, content: Bytes, durable: Durable) -> Result<Entry> {
        self.shared.flush().await?;
        self.shared.refuse_parked(new.parent)?;
        let (parent, name) = (new.parent, new.name.clone());
        let made = self.shared.inner.create(new, content, durable).await;
        self.shared.forget_absent(parent, &name);
        made
    }
}

fn taken(name: &NodeName) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("{name} exists already"))
}

impl Shared {
    async fn entry(&self, node: NodeId) -> Result<Option<Entry>> {
        let touched = {
            let state = self.state.lock();
            if let Some(entry) = state.view.entry(node) {
                let mut entry = entry.clone();
                show(&mut entry, state.view.touched(node));
                return Ok(Some(entry));
            }
            state.view.touched(node)
        };
        let mut entry = self.inner.entry(node).await?;
        if let Some(entry) = &mut entry {
            show(entry, touched);
        }
        Ok(entry)
    }

    async fn lookup(&self, folder: NodeId, name: &NodeName) -> Result<Option<Entry>> {
        {
            let state = self.state.lock();
            if let Some(entry) = state.view.child(folder, name.as_str()) {
                let mut entry = entry.clone();
                let touched = state.view.touched(entry.node.id);
                show(&mut entry, touched);
                return Ok(Some(entry));
            }
            if state.view.is_new(folder) {
                return Ok(None);
            }
        }
        let generation = self.generation(folder).load(Ordering::Acquire);
        let mut found = self.inner.lookup(folder, name).await?;
        let mut state = self.state.lock();
        match &mut found {
            Some(entry) => show(entry, state.view.touched(entry.node.id)),
            None if self.generation(folder).load(Ordering::Acquire) == generation => {
                if state.absent.len() >= ABSENT_MAX {
                    state.absent.clear();
                }
                state.absent.insert(key_of(folder, name.as_str()), Instant::now());
            }
            None => {}
        }
        Ok(found)
    }

    /// Whether a name is taken, as far as it was asked for a moment ago.
    async fn is_taken(&self, folder: NodeId, name: &NodeName) -> Result<bool> {
        {
            let mut state = self.state.lock();
            let asked = state.absent.remove(&key_of(folder, name.as_str()));
            if asked.is_some_and(|asked| asked.elapsed() < ABSENT) {
                return Ok(state.view.child(folder, name.as_str()).is_some());
            }
        }
        Ok(self.lookup(folder, name).await?.is_some())
    }

    fn forget_absent(&self, folder: NodeId, name: &NodeName) {
        self.changes(folder);
        self.state.lock().absent.remove(&key_of(folder, name.as_str()));
    }

    /// Answers that a node is made; none if that must be asked for.
    fn defer_create(&self, new: &NewNode, content: NewContent) -> Result<Option<Entry>> {
        self.changes(new.parent);
        let mut state = self.state.lock();
        state.absent.remove(&key_of(new.parent, new.name.as_str()));
        if state.view.child(new.parent, new.name.as_str()).is_some() {
            return Err(taken(&new.name));
        }
        if !state.may_defer(size_of(&content)) {
            return Ok(None);
        }
        let Some(id) = state.number() else { return Ok(None) };
        let content_id = if content == NewContent::Empty { Some(0) } else { state.number() };
        let Some(content_id) = content_id else { return Ok(None) };
        let NewNode { parent, name, kind, posix } = new.clone();
        let new = NewEntry { parent, name, kind, posix, content };
        let change = Deferred::Create { id: NodeId(id), new, content_id: ContentId(content_id) };
        self.answer(&mut state, change, None)
    }

    /// Answers that a file is saved; none if that must be asked for.
    fn defer_save(&self, save: &Save, content: NewContent, there: Option<Entry>) -> Result<Option<Entry>> {
        let mut state = self.state.lock();
        let there = state.view.entry(save.node).cloned().or(there);
        let there = there.ok_or_else(|| Error::not_found("there is no such file any more"))?;
        if there.node.kind != NodeKind::File {
            return Err(Error::new(ErrorKind::WrongKind, "this is a folder"));
        }
        if there.node.content != save.base {
            return Err(Error::new(ErrorKind::PreconditionFailed, "the file was changed meanwhile"));
        }
        let Some(parent) = there.node.parent else { return Ok(None) };
        if !state.may_defer(size_of(&content)) {
            return Ok(None);
        }
        let content_id = if content == NewContent::Empty { Some(0) } else { state.number() };
        let Some(content_id) = content_id else { return Ok(None) };
        let at = (parent, NodeName::new(&there.node.name)?);
        let Save { node, base, posix, keep, .. } = *save;
        let rewrite = Rewrite { node, base, content, posix, keep };
        let change = Deferred::Save { rewrite, content_id: ContentId(content_id), at };
        self.answer(&mut state, change, Some(there))
    }

    /// Answers that attributes of what waits are changed; none if it does not wait any more.
    fn defer_attributes(&self, node: NodeId, change: NewAttributes, usual: Posix) -> Result<Option<Entry>> {
        let mut state = self.state.lock();
        let Some(mut there) = state.view.entry(node).cloned() else { return Ok(None) };
        show(&mut there, state.view.touched(node));
        if state.view.touched(node).is_some() || !state.may_defer(0) {
            return Ok(None);
        }
        self.answer(&mut state, Deferred::Attributes { node, change, usual }, Some(there))
    }

    fn answer(&self, state: &mut super::State, change: Deferred, there: Option<Entry>) -> Result<Option<Entry>> {
        let Some(entry) = after(&change, there, self.space) else { return Ok(None) };
        state.add(change, entry.clone())?;
        self.work.notify_one();
        Ok(Some(entry))
    }

    /// What was refused has to be made before anything else can be done to it.
    fn refuse_parked(&self, node: NodeId) -> Result<()> {
        let state = self.state.lock();
        if !state.parked_nodes.contains(&node) {
            return Ok(());
        }
        match state.troubles.get(&node) {
            Some(trouble) => Err(trouble.error()),
            None => Err(Error::unavailable("a change of this file before was refused, and is tried again")),
        }
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
            let state = self.state.lock();
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

fn show(entry: &mut Entry, touched: Option<Touched>) {
    if let Some(touched) = touched {
        touched.show(entry);
    }
}

const fn size_of(content: &NewContent) -> u64 {
    match content {
        NewContent::Inline { size, .. } => *size,
        _ => 0,
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
