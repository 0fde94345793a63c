//! Answering changes: what has to be told at once is looked up, and then the change waits.
//!
//! A file of several names is changed in the usual way: what waits is about nodes, and would be seen under one of its names. A look-up from before a link was made here
//! says nothing ([`Shared::links`]).
//!
//! Programs that change the same folder come one after the other, for the kernel holds the folder's lock meanwhile. What other faces do between the look-up
//! and the handing over is met there.

use super::Shared;
use super::after::after;
use super::state::State;
use holdfast_base::{ContentId, Error, ErrorKind, NodeId, NodeName, Result};
use holdfast_drive::{
    Deferred, Entry, NewAttributes, NewContent, NewEntry, NewNode, NodeKind, Posix, Rename, Renamed, Rewrite, Save,
    Taken, Unlink, Unsynced,
};

/// What a file is to have.
pub(super) enum Content {
    /// It lies in the journal.
    Small(NewContent),
    /// It lies in packs.
    Unsynced(Unsynced),
}

pub(super) fn taken(name: &NodeName) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("{name} exists already"))
}

fn missing(name: &NodeName) -> Error {
    Error::not_found(format!("{name} does not exist"))
}

fn gone() -> Error {
    Error::not_found("there is no such file any more")
}

impl Shared {
    /// Answers that a node is made; none if that must be asked for.
    pub(super) fn defer_create(&self, new: &NewNode, content: NewContent) -> Result<Option<Entry>> {
        self.changes(new.parent);
        let now = if new.kind == NodeKind::Folder { self.inner.unchanged() } else { None };
        let mut state = self.state.lock();
        state.named(new.parent, &new.name);
        if matches!(state.view.child(new.parent, new.name.as_str()), super::view::Child::Is(_)) {
            return Err(taken(&new.name));
        }
        if state.view.is_gone(new.parent) {
            return Err(Error::not_found("the folder was removed"));
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
        let made = self.answer(&mut state, change, (None, None), None)?;
        if let (Some(_), Some(now)) = (&made, now) {
            state.fresh.made(NodeId(id), now);
        }
        Ok(made)
    }

    /// How many links this mount began or made. With another number, what was looked up may have another name by now.
    pub(super) fn links(&self) -> u64 {
        self.state.lock().links
    }

    /// A link begins, or was made or refused.
    pub(super) fn note_link(&self) {
        self.state.lock().links += 1;
    }

    /// Answers that a file, which was looked up after so many links, is saved; none if that must be asked for.
    pub(super) fn defer_save(
        &self,
        save: &Save,
        content: Content,
        there: Option<Entry>,
        links: u64,
    ) -> Result<Option<Entry>> {
        let (content, unsynced) = match content {
            Content::Small(content) => (content, None),
            Content::Unsynced(unsynced) => (unsynced.content().clone(), Some(unsynced)),
        };
        let mut state = self.state.lock();
        if state.view.is_gone(save.node) {
            return Err(gone());
        }
        let there = state.view.entry(save.node).cloned().or(there).ok_or_else(gone)?;
        if there.node.kind != NodeKind::File {
            return Err(Error::new(ErrorKind::WrongKind, "this is a folder"));
        }
        if there.node.content != save.base {
            return Err(Error::new(ErrorKind::PreconditionFailed, "the file was changed meanwhile"));
        }
        let Some(parent) = there.node.parent else { return Ok(None) };
        if !state.may_defer(size_of(&content)) || !state.has_one_name(&there, links) {
            return Ok(None);
        }
        let content_id = if content == NewContent::Empty { Some(0) } else { state.number() };
        let Some(content_id) = content_id else { return Ok(None) };
        let at = (parent, NodeName::new(&there.node.name)?);
        let Save { node, base, posix, keep, .. } = *save;
        let rewrite = Rewrite { node, base, content, posix, keep };
        let change = Deferred::Save { rewrite, content_id: ContentId(content_id), at };
        self.answer(&mut state, change, (Some(there), None), unsynced)
    }

    /// Whether another face may have a lock on a node.
    pub(super) async fn may_be_locked(&self, node: NodeId) -> Result<bool> {
        let is_new = self.state.lock().view.is_new(node);
        Ok(!is_new && self.inner.has_locks().await?)
    }

    /// Answers that attributes are changed; none if that must be asked for.
    pub(super) async fn defer_attributes(
        &self,
        node: NodeId,
        change: NewAttributes,
        usual: Posix,
    ) -> Result<Option<Entry>> {
        self.make_ready().await?;
        if self.may_be_locked(node).await? {
            return Ok(None);
        }
        let links = self.links();
        let there = self.entry(node, false).await?.ok_or_else(gone)?;
        let mut state = self.state.lock();
        if state.view.is_gone(node) {
            return Err(gone());
        }
        let there = state.view.shown(node).unwrap_or(there);
        if !state.may_defer(0) || !state.has_one_name(&there, links) {
            return Ok(None);
        }
        self.answer(&mut state, Deferred::Attributes { node, change, usual }, (Some(there), None), None)
    }

    /// Answers that a name is taken away; none if that must be asked for.
    pub(super) async fn defer_unlink(&self, unlink: &Unlink) -> Result<Option<NodeId>> {
        self.make_ready().await?;
        if self.inner.has_locks().await? {
            return Ok(None);
        }
        let links = self.links();
        let found = self.lookup(unlink.parent, &unlink.name).await?;
        let there = found.ok_or_else(|| missing(&unlink.name))?;
        let is_folder = there.node.kind == NodeKind::Folder;
        if is_folder != unlink.folder {
            let not = if unlink.folder { "not " } else { "" };
            return Err(Error::new(ErrorKind::WrongKind, format!("{} is {not}a folder", unlink.name)));
        }
        let node = there.node.id;
        if is_folder && !self.is_empty(node).await? {
            return Err(Error::conflict(format!("{} is not empty", unlink.name)));
        }
        let mut state = self.state.lock();
        let there = state.view.shown(node).unwrap_or(there);
        let change = Deferred::Unlink { unlink: unlink.clone(), node, content: there.node.content };
        if !state.may_take(&change)? || !state.has_one_name(&there, links) {
            return Ok(None);
        }
        let answered = self.answer(&mut state, change, (Some(there), None), None)?;
        if unlink.leave.held_until_ms.is_none() {
            state.pass(node);
        }
        Ok(answered.map(|_| node))
    }

    /// Answers that a node has another name; none if that must be asked for.
    pub(super) async fn defer_rename(&self, rename: &Rename) -> Result<Option<Renamed>> {
        let Rename { from, to, taken: rule, .. } = rename;
        self.make_ready().await?;
        if self.inner.has_locks().await? {
            return Ok(None);
        }
        let links = self.links();
        let there = self.lookup(from.0, &from.1).await?.ok_or_else(|| missing(&from.1))?;
        if from == to {
            return Ok(Some(Renamed { entry: there, other: None }));
        }
        let other = self.lookup(to.0, &to.1).await?;
        self.refuse_rename(rename, &there, other.as_ref()).await?;
        let mut state = self.state.lock();
        let there = state.view.shown(there.node.id).unwrap_or(there);
        let other = other.map(|other| state.view.shown(other.node.id).unwrap_or(other));
        let is_other = other.as_ref().map(|other| (other.node.id, other.node.content));
        let change = Deferred::Rename { rename: rename.clone(), node: there.node.id, other: is_other };
        let nodes = || std::iter::once(&there).chain(&other);
        if !state.may_take(&change)? || !nodes().all(|node| state.has_one_name(node, links)) {
            return Ok(None);
        }
        state.named(to.0, &to.1);
        self.changes(to.0);
        let replaced = other.clone().filter(|_| *rule != Taken::Exchange);
        let Some(entry) = self.answer(&mut state, change, (Some(there), other), None)? else { return Ok(None) };
        let other = replaced.or_else(|| is_other.and_then(|(other, _)| state.view.shown(other)));
        Ok(Some(Renamed { entry, other }))
    }

    /// What a rename must not do.
    async fn refuse_rename(&self, rename: &Rename, there: &Entry, other: Option<&Entry>) -> Result<()> {
        let Rename { from, to, taken: rule, .. } = rename;
        let is_folder = there.node.kind == NodeKind::Folder;
        let into_itself = |name: &NodeName| Err(Error::invalid(format!("{name} cannot be moved into itself")));
        if is_folder && from.0 != to.0 && self.is_below(to.0, there.node.id).await? {
            return into_itself(&from.1);
        }
        match (other, rule) {
            (None, Taken::Exchange) => Err(missing(&to.1)),
            (None, _) => Ok(()),
            (Some(_), Taken::Refuse) => Err(taken(&to.1)),
            (Some(other), Taken::Exchange) => {
                let is_folder = other.node.kind == NodeKind::Folder;
                if is_folder && from.0 != to.0 && self.is_below(from.0, other.node.id).await? {
                    return into_itself(&to.1);
                }
                Ok(())
            }
            (Some(other), Taken::Replace) => {
                if there.node.kind != other.node.kind {
                    let message = "a file cannot replace a folder, nor a folder a file";
                    return Err(Error::new(ErrorKind::WrongKind, message));
                }
                if is_folder && !self.is_empty(other.node.id).await? {
                    return Err(Error::conflict(format!("{} is not empty", to.1)));
                }
                Ok(())
            }
        }
    }

    /// Nobody has a node open any more whose removal waits: it need not be held. False if it does not wait.
    pub(super) fn lets_go_of_what_waits(&self, node: NodeId) -> bool {
        let mut state = self.state.lock();
        if !state.view.is_gone(node) {
            return false;
        }
        let state = &mut *state;
        let mut waits = state.queue.iter_mut().rev().chain(&mut state.parked).map(|(_, change)| change);
        let Some(removal) = waits.find(|change| change.removed() == Some(node)) else { return false };
        if let Deferred::Unlink { unlink: Unlink { leave, .. }, .. }
        | Deferred::Rename { rename: Rename { leave, .. }, .. } = removal
        {
            leave.held_until_ms = None;
        }
        state.pass(node);
        true
    }

    fn answer(
        &self,
        state: &mut State,
        change: Deferred,
        before: (Option<Entry>, Option<Entry>),
        unsynced: Option<Unsynced>,
    ) -> Result<Option<Entry>> {
        let Some(after) = after(&change, before, self.space) else { return Ok(None) };
        let entry = after.first().map(|(entry, _)| entry.clone());
        state.add(change, after, unsynced)?;
        self.work.notify_one();
        Ok(entry)
    }
}

const fn size_of(content: &NewContent) -> u64 {
    match content {
        NewContent::Inline { size, .. } | NewContent::Blocks { size, .. } => *size,
        _ => 0,
    }
}
