//! [`Tree`], operation by operation.

use super::layouts::Layout;
use super::link::{Lost, Outcome};
use super::locking::RemoteLocks;
use super::names::{About, Member};
use super::opened::{Progress, RemoteContent};
use super::pins::RemotePins;
use super::replay::Replay;
use super::{REPEATED_BYTES_MAX, Remote, Shared, again};
use crate::wire::{self, Call, HOLD_MAX, LIST_MAX, Opened, Value};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, ContentId, Error, ErrorKind, NodeId, NodeName, Result};
use holdfast_drive::posix_locks::Locking;
use holdfast_drive::{
    Change, Condition, ContentStream, DiskCache, Durable, Entry, LeftOut, NewAttributes, NewName, NewNode, OpenContent,
    Pinning, Posix, Rename, Renamed, Room, Save, SaveBody, Shows, Tree, Unlink, XattrRule,
};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::broadcast;

/// How often a rename is sent whose answers were lost: each try and the look after it have a deadline of their own.
const RENAMES_MAX: u32 = 5;
/// Pause between them.
const RENAME_PAUSE: Duration = Duration::from_millis(200);

impl Remote {
    pub(super) async fn ask<T: Value>(&self, call: Call) -> Result<T> {
        self.shared.link.ask(&call).await
    }

    /// Changes something about many nodes or names. What is known is forgotten before and after: in between, others may ask and be told of either.
    async fn change<T: Value>(&self, call: Call, lost: Lost) -> Outcome<T> {
        let names = &self.shared.names;
        let changing = names.begin(Vec::new());
        names.forget();
        let outcome = self.shared.link.call(&call, lost).await;
        names.forget();
        if outcome.is_certain() {
            changing.settle(&[], &[]);
        }
        outcome
    }

    /// The rest of what a question may be answered with: what was known last, once the server is away.
    pub(super) async fn or_before<T, F>(
        &self,
        ask: impl Future<Output = Result<T>>,
        before: impl Fn() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Option<T>>,
    {
        let link = &self.shared.link;
        if link.is_away()
            && let Some(known) = before().await
        {
            return Ok(known);
        }
        let mut ask = Box::pin(ask);
        let found = tokio::select! {
            biased;
            found = &mut ask => found,
            () = link.gone() => match before().await {
                Some(known) => return Ok(known),
                None => ask.await,
            },
        };
        match found {
            Err(error) if link.is_away() => before().await.ok_or(error),
            found => found,
        }
    }

    /// A file changed: under its other names, what is known of it is not so any more.
    fn changed(&self, entry: &Entry) {
        if entry.bond.is_some() {
            self.shared.names.forget();
        }
    }

    fn content(&self, id: ContentId, facts: Opened, layout: Option<Arc<Layout>>) -> Arc<dyn OpenContent> {
        let reading = Mutex::new(Progress::default());
        Arc::new(RemoteContent { shared: self.shared.clone(), id, facts, layout, reading })
    }

    /// A node as it was last, in memory or on the disk.
    pub(super) async fn entry_before(&self, node: NodeId) -> Option<Entry> {
        let (shared, names) = (&self.shared, &self.shared.names);
        if let Some(known) = names.entry_before(node) {
            return Some(known);
        }
        shared.recall(names.recalled_by(node).unwrap_or(node)).await;
        names.entry_before(node)
    }

    /// A member of a folder as it was last, in memory or on the disk.
    async fn lookup_before(&self, folder: NodeId, name: &NodeName) -> Option<Option<Entry>> {
        let names = &self.shared.names;
        if let Member::Unknown = names.lookup_before(folder, name) {
            self.shared.recall(folder).await;
        }
        match names.lookup_before(folder, name) {
            Member::Is(entry) => Some(Some(entry)),
            Member::IsNone => Some(None),
            Member::Unknown => None,
        }
    }

    /// Members of a folder as they were last, in memory or on the disk.
    async fn list_before(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Option<Vec<Entry>> {
        let names = &self.shared.names;
        if let Some(page) = names.list_before(folder, after, limit) {
            return Some(page);
        }
        self.shared.recall(folder).await;
        names.list_before(folder, after, limit)
    }

    /// Asks for a folder as a whole where names are looked for in vain.
    async fn missed(&self, folder: NodeId) {
        let (link, names) = (&self.shared.link, &self.shared.names);
        if !link.is_away()
            && names.missed(folder)
            && let Err(error) = self.list(folder, None, LIST_MAX).await
        {
            tracing::debug!(%error, "a folder could not be asked for as a whole");
        }
    }

    /// A member as the server has it now.
    async fn look(&self, folder: NodeId, name: &NodeName) -> Result<Option<Entry>> {
        let mark = self.shared.names.mark();
        let found: Option<Entry> = self.ask(Call::Lookup(folder, name.clone())).await?;
        self.shared.names.learn_name(mark, folder, name, found.as_ref());
        Ok(found)
    }

    /// Sends a save with so many bytes of it.
    async fn send_save(&self, save: &Save, (body, bytes): (ContentStream, u64), left_out: LeftOut) -> Outcome<Entry> {
        let replay = Replay::new(body, bytes);
        let pairs = |ranges: Vec<Range<u64>>| ranges.into_iter().map(|range| (range.start, range.end)).collect();
        let frame = wire::frame(&if left_out.is_empty() {
            Call::Save(save.clone())
        } else {
            Call::SavePart(save.clone(), pairs(left_out.stay), pairs(left_out.zeros))
        });
        let sent = self.shared.link.send(Lost::Repeat, bytes, || replay.body(frame.clone())).await;
        match replay.error() {
            Some(error) => Outcome { result: Err(error), ..sent },
            None => sent,
        }
    }

    /// What a rename did whose answer is missing; none if it was not done.
    async fn renamed(&self, rename: &Rename, source: Option<NodeId>, other: Option<&Entry>) -> Result<Option<Renamed>> {
        let found = self.look(rename.to.0, &rename.to.1).await?;
        let done = found.filter(|found| Some(found.node.id) == source);
        Ok(done.map(|entry| {
            let other = other.filter(|other| other.node.id != entry.node.id).cloned();
            Renamed { entry, other }
        }))
    }
}

#[async_trait]
impl Tree for Remote {
    fn root(&self) -> NodeId {
        self.root_node()
    }

    async fn entry(&self, node: NodeId) -> Result<Option<Entry>> {
        let names = &self.shared.names;
        if let Some(known) = names.entry(node) {
            return Ok(Some(known));
        }
        self.ask_entry(node).await
    }

    async fn entry_to_open(&self, node: NodeId) -> Result<Option<Entry>> {
        let names = &self.shared.names;
        if !names.is_loose() {
            return self.entry(node).await;
        }
        self.ask_way(node).await
    }

    async fn lookup(&self, folder: NodeId, name: &NodeName) -> Result<Option<Entry>> {
        match self.shared.names.lookup(folder, name) {
            Member::Is(entry) => Ok(Some(entry)),
            Member::IsNone => Ok(None),
            Member::Unknown => {
                let before = || self.lookup_before(folder, name);
                let found = self.or_before(self.look(folder, name), before).await?;
                if found.is_none() {
                    self.missed(folder).await;
                }
                Ok(found)
            }
        }
    }

    async fn list(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Result<Vec<Entry>> {
        let limit = limit.min(LIST_MAX);
        self.or_before(self.shared.list(folder, after, limit), || self.list_before(folder, after, limit)).await
    }

    async fn room(&self) -> Result<Room> {
        let known = || async { *self.shared.room.lock() };
        let room = self.or_before(self.ask(Call::Room()), known).await?;
        *self.shared.room.lock() = Some(room);
        Ok(room)
    }

    async fn open(&self, content: ContentId) -> Result<Arc<dyn OpenContent>> {
        if let Some(layouts) = self.shared.layouts.get() {
            let layout = layouts.layout(&self.shared, content).await?;
            return Ok(self.content(content, layout.facts(), Some(layout)));
        }
        let blocks = &self.shared.blocks;
        let facts = if let Some(facts) = blocks.facts(content) {
            facts
        } else {
            let facts: Opened = self.ask(Call::Open(content)).await?;
            blocks.learn_facts(content, facts);
            facts
        };
        Ok(self.content(content, facts, None))
    }

    async fn create(&self, new: NewNode, content: Bytes, durable: Durable) -> Result<Entry> {
        let size = content.len() as u64;
        let about = vec![About::Name(new.parent, new.name.clone()), About::Entry(new.parent)];
        let changing = self.shared.names.begin(about);
        let call = Call::Create(new.clone(), content, durable);
        let outcome = self.shared.link.call::<Entry>(&call, Lost::Repeat).await;
        if outcome.is_certain() {
            let folder = changing.before(new.parent).map(|folder| touched(folder, new.posix.ctime_ns));
            if let Ok(entry) = &outcome.result {
                let known: Vec<Entry> = std::iter::once(entry.clone()).chain(folder).collect();
                changing.settle(&known, &[entry.node.id]);
            } else {
                changing.settle(&[], &[]);
            }
            return outcome.result;
        }
        drop(changing);
        let Outcome { result, unknown } = outcome;
        match result {
            Err(error) if unknown && error.kind() == ErrorKind::AlreadyExists => {
                let found = self.look(new.parent, &new.name).await?;
                found.filter(|found| again::is_made(found, &new, size)).ok_or(error)
            }
            result => result.inspect(|entry| self.shared.names.remember(entry)),
        }
    }

    fn leaves_out(&self) -> bool {
        self.shared.leaves_out.load(Ordering::Relaxed)
    }

    async fn save(&self, save: Save, SaveBody { stream, left_out, .. }: SaveBody) -> Result<Entry> {
        let bytes = save.body.len().saturating_sub(left_out.blocks().saturating_mul(BLOCK_BYTES as u64));
        let kept = u32::try_from(bytes.min(REPEATED_BYTES_MAX)).unwrap_or(u32::MAX);
        let room = self.shared.repeated.acquire_many(kept).await;
        let _room = room.map_err(|_| Error::internal("nobody closes this"))?;
        let changing = self.shared.names.begin(vec![About::Entry(save.node)]);
        let outcome = self.send_save(&save, (stream, bytes), left_out).await;
        if outcome.result.as_ref().is_err_and(wire::is_unknown) {
            self.shared.leaves_out.store(false, Ordering::Relaxed);
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the server is older than this program, and takes whole contents",
            ));
        }
        if outcome.is_certain() {
            changing.settle(outcome.result.as_ref().map_or(&[], std::slice::from_ref), &[]);
            return outcome.result.inspect(|entry| self.changed(entry));
        }
        drop(changing);
        let Outcome { result, unknown } = outcome;
        match result {
            Err(error) if unknown && matches!(error.kind(), ErrorKind::PreconditionFailed | ErrorKind::Unavailable) => {
                let found: Option<Entry> = self.ask(Call::Entry(save.node)).await?;
                found.filter(|found| again::is_saved(found, &save)).ok_or(error)
            }
            result => result.inspect(|entry| self.shared.names.remember(entry)),
        }
    }

    async fn extend(&self, save: Save, _body: SaveBody, tail: (ContentId, ByteRange)) -> Result<Entry> {
        if !save.body.is_empty() {
            return Err(Error::new(ErrorKind::Unsupported, "what is sent is saved in the usual way"));
        }
        let Outcome { result, unknown } = self.change(Call::Extend(save.clone(), tail), Lost::Repeat).await;
        match result {
            Err(error) if unknown && matches!(error.kind(), ErrorKind::PreconditionFailed | ErrorKind::Unavailable) => {
                let found: Option<Entry> = self.ask(Call::Entry(save.node)).await?;
                found.filter(|found| again::is_saved(found, &save)).ok_or(error)
            }
            result => result.inspect(|entry| self.shared.names.remember(entry)),
        }
    }

    async fn set_attributes(&self, node: NodeId, change: NewAttributes, usual: Posix) -> Result<Entry> {
        let changing = self.shared.names.begin(vec![About::Entry(node)]);
        let call = Call::SetAttributes(node, change, usual);
        let outcome = self.shared.link.call::<Entry>(&call, Lost::Repeat).await;
        if outcome.is_certain() {
            changing.settle(outcome.result.as_ref().map_or(&[], std::slice::from_ref), &[]);
            return outcome.result.inspect(|entry| self.changed(entry));
        }
        drop(changing);
        outcome.result.inspect(|entry| self.shared.names.remember(entry))
    }

    async fn link(&self, link: NewName, usual: Posix) -> Result<Entry> {
        self.shared.names.forget_name(link.parent, &link.name);
        let Outcome { result, unknown } = self.change(Call::Link(link.clone(), usual), Lost::Repeat).await;
        match result {
            Err(error) if wire::is_unknown(&error) => {
                Err(Error::new(ErrorKind::Unsupported, "the server is older than hard links"))
            }
            Err(error) if unknown && error.kind() == ErrorKind::AlreadyExists => {
                let found = self.look(link.parent, &link.name).await?;
                found.filter(|found| again::is_linked(found, &link)).ok_or(error)
            }
            result => result.inspect(|entry| self.shared.names.remember(entry)),
        }
    }

    async fn unlink(&self, unlink: Unlink) -> Result<NodeId> {
        // To know whom it was, if the answer is lost; the kernel has just asked for it, so it is nearly always known.
        let was = self.lookup(unlink.parent, &unlink.name).await?;
        self.shared.names.forget_name(unlink.parent, &unlink.name);
        let Outcome { result, unknown } = self.change(Call::Unlink(unlink), Lost::Repeat).await;
        match result {
            // Nobody has a node of number 0 open.
            Err(error) if unknown && error.kind() == ErrorKind::NotFound => {
                Ok(was.map_or(NodeId(0), |entry| entry.node.id))
            }
            result => result,
        }
    }

    async fn rename(&self, rename: Rename) -> Result<Renamed> {
        let source = self.lookup(rename.from.0, &rename.from.1).await?.map(|entry| entry.node.id);
        let other = self.lookup(rename.to.0, &rename.to.1).await?;
        for (folder, name) in [&rename.from, &rename.to] {
            self.shared.names.forget_name(*folder, name);
        }
        // Sent twice, an exchange would undo itself: each time it is looked first what became of it.
        for tried in 1.. {
            let Outcome { result, unknown } = self.change(Call::Rename(rename.clone()), Lost::Tell).await;
            let error = match result {
                Err(error) if unknown => error,
                result => return result.inspect(|done: &Renamed| self.shared.names.remember(&done.entry)),
            };
            if let Some(done) = self.renamed(&rename, source, other.as_ref()).await? {
                return Ok(done);
            }
            if error.kind() != ErrorKind::Unavailable || tried == RENAMES_MAX {
                return Err(error);
            }
            tokio::time::sleep(RENAME_PAUSE).await;
        }
        Err(Error::internal("a rename was not tried"))
    }

    async fn hold(&self, nodes: Vec<NodeId>, until_ms: i64) -> Result<()> {
        for some in nodes.chunks(HOLD_MAX) {
            self.ask::<()>(Call::Hold(some.to_vec(), until_ms)).await?;
        }
        Ok(())
    }

    async fn let_go(&self, node: NodeId) -> Result<()> {
        self.ask(Call::LetGo(node)).await
    }

    async fn xattrs(&self, node: NodeId) -> Result<Vec<(String, Vec<u8>)>> {
        let all: Vec<(String, Bytes)> = self.ask(Call::Xattrs(node)).await?;
        Ok(all.into_iter().map(|(name, value)| (name, value.to_vec())).collect())
    }

    async fn set_xattr(
        &self,
        node: NodeId,
        (name, value, rule): (String, Option<Vec<u8>>, XattrRule),
        usual: (Posix, i64),
    ) -> Result<Entry> {
        let change = (name.clone(), value.clone().map(Bytes::from), rule);
        let Outcome { result, unknown } = self.change(Call::SetXattr(node, change, usual), Lost::Repeat).await;
        match result {
            Err(error) if unknown && matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
                let found = self.xattrs(node).await?.into_iter().find(|(other, _)| *other == name);
                let entry = self.entry(node).await?;
                entry.filter(|_| found.map(|(_, value)| value) == value).ok_or(error)
            }
            result => result,
        }
    }

    async fn settle(&self) -> Result<()> {
        self.ask(Call::Settle()).await
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.shared.changes.subscribe()
    }

    fn unchanged(&self) -> Option<u64> {
        self.shared.names.unchanged()
    }

    fn condition(&self) -> Condition {
        let away = self.shared.away_since.lock().map(|since| since.elapsed());
        let disk = self.shared.layouts.get().map(|layouts| {
            let pins = self.shared.pins.told();
            DiskCache { pins, ..layouts.disk.condition() }
        });
        Condition { away, cache_bytes: Some(self.shared.blocks.bytes()), deferred: None, disk }
    }

    fn locking(&self) -> Option<Arc<dyn Locking>> {
        self.shared.has_locking.then(|| Arc::new(RemoteLocks(self.shared.clone())) as Arc<dyn Locking>)
    }

    fn shown_by(&self, who: Weak<dyn Shows>) {
        self.shared.word.shown_by.set(who);
    }

    async fn leave(&self) {
        self.shared.leave().await;
    }

    async fn forget(&self, content: Option<ContentId>, pinned_too: bool) {
        self.shared.blocks.forget(content);
        if content.is_none() {
            self.shared.names.forget();
        }
        if let Some(layouts) = self.shared.layouts.get() {
            layouts.let_go(content, pinned_too).await;
            self.shared.pins.again();
        }
    }

    fn pinning(&self) -> Option<Arc<dyn Pinning>> {
        self.shared.layouts.get().map(|_| Arc::new(RemotePins(self.shared.clone())) as Arc<dyn Pinning>)
    }
}

impl Shared {
    /// Asks for members of a folder.
    pub(super) async fn list(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Result<Vec<Entry>> {
        let mark = self.names.mark();
        let asked = u32::try_from(limit).unwrap_or(u32::MAX);
        let found: Vec<Entry> = self.link.ask(&Call::List(folder, after.cloned(), asked)).await?;
        self.names.learn_page(mark, folder, after, &found, found.len() < limit);
        Ok(found)
    }
}

/// A folder's entry after a member of it changed: what the catalogue writes with that.
pub(super) fn touched(folder: &Entry, now_ns: i64) -> Entry {
    let mut folder = folder.clone();
    folder.node.modified_ms = now_ns.div_euclid(1_000_000);
    if let Some(posix) = &mut folder.posix {
        (posix.mtime_ns, posix.ctime_ns) = (now_ns, now_ns);
    }
    folder
}
