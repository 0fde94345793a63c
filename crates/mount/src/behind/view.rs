//! What was answered and is not in the catalogue yet, as those who ask for it see it.
//!
//! Each change holds the nodes and names it is about until it is done. As long as one is held, it is as the last of its changes left it, and the
//! catalogue is not asked: what it has by then is older. Changes are done in their order, so what nobody holds any more is there as it is to be.

use holdfast_base::{ContentId, NodeId, NodeName};
use holdfast_drive::{Applied, Deferred, Entry, NewContent, Posix, Taken, Unsynced};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// Nodes, names and contents of the changes that wait.
#[derive(Default)]
pub(super) struct View {
    nodes: HashMap<NodeId, Waiting>,
    /// Names that they give and take, by folder.
    names: HashMap<NodeId, BTreeMap<String, Slot>>,
    contents: HashMap<ContentId, NewContent>,
    unsynced: HashMap<ContentId, Unsynced>,
    touched: HashMap<NodeId, Touched>,
    content_bytes: u64,
    changes: u64,
}

struct Waiting {
    entry: Entry,
    /// It has lost its name.
    gone: bool,
    /// Changes of it that wait.
    changes: u32,
    /// The catalogue does not have it at all.
    is_new: bool,
    /// The name that it holds beside those that its changes are about: for whoever lists the folder.
    held: Option<(NodeId, String)>,
}

struct Slot {
    is: Named,
    /// What holds it.
    holders: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Node(NodeId),
    Nothing,
    /// Others have it, and the catalogue knows.
    Others,
}

/// What a name means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Child {
    Is(Entry),
    IsNone,
    /// Nothing that waits is about it.
    Unknown,
}

/// A node after a change, and whether it has lost its name.
pub(super) type After = (Entry, bool);

/// A folder whose members change.
#[derive(Clone, Copy)]
pub(super) struct Touched {
    now_ns: i64,
    changes: u32,
}

impl Touched {
    /// The folder's entry with the times it is going to have.
    pub(super) fn show(self, entry: &mut Entry) {
        let ms = self.now_ns.div_euclid(1_000_000);
        if ms < entry.node.modified_ms {
            return;
        }
        entry.node.modified_ms = ms;
        if let Some(posix) = &mut entry.posix {
            (posix.mtime_ns, posix.ctime_ns) = (self.now_ns, self.now_ns);
        }
    }
}

impl View {
    /// A node that waits and has a name.
    pub(super) fn entry(&self, node: NodeId) -> Option<&Entry> {
        self.nodes.get(&node).filter(|waiting| !waiting.gone).map(|waiting| &waiting.entry)
    }

    /// Whether it has lost its name here.
    pub(super) fn is_gone(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|waiting| waiting.gone)
    }

    /// Whether the catalogue does not have it yet.
    pub(super) fn is_new(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|waiting| waiting.is_new)
    }

    /// How many changes of a node wait.
    pub(super) fn changes_of(&self, node: NodeId) -> u32 {
        self.nodes.get(&node).map_or(0, |waiting| waiting.changes)
    }

    pub(super) fn child(&self, folder: NodeId, name: &str) -> Child {
        let slot = self.names.get(&folder).and_then(|names| names.get(name));
        match slot.map(|slot| slot.is) {
            Some(Named::Node(node)) => self.shown(node).map_or(Child::Unknown, Child::Is),
            Some(Named::Nothing) => Child::IsNone,
            None if self.is_new(folder) => Child::IsNone,
            Some(Named::Others) | None => Child::Unknown,
        }
    }

    /// A node that waits, as it is shown.
    pub(super) fn shown(&self, node: NodeId) -> Option<Entry> {
        let mut entry = self.entry(node)?.clone();
        self.show(&mut entry);
        Some(entry)
    }

    /// A folder's times with what waits in it.
    pub(super) fn show(&self, entry: &mut Entry) {
        if let Some(touched) = self.touched(entry.node.id) {
            touched.show(entry);
        }
    }

    /// Whether a folder has members that wait.
    pub(super) fn has_members(&self, folder: NodeId) -> bool {
        let is_member = |slot: &Slot| matches!(slot.is, Named::Node(node) if self.entry(node).is_some());
        self.names.get(&folder).is_some_and(|names| names.values().any(is_member))
    }

    /// Whether anything that waits is about a name in a folder.
    pub(super) fn has_names(&self, folder: NodeId) -> bool {
        self.names.contains_key(&folder)
    }

    pub(super) fn content(&self, content: ContentId) -> Option<&NewContent> {
        self.contents.get(&content)
    }

    /// Content in blocks that waits.
    pub(super) fn unsynced(&self, content: ContentId) -> Option<&Unsynced> {
        self.unsynced.get(&content)
    }

    /// Takes in the content in blocks of a change.
    pub(super) fn add_unsynced(&mut self, content: ContentId, unsynced: Unsynced) {
        self.content_bytes += unsynced.size();
        self.unsynced.insert(content, unsynced);
    }

    /// Bytes that files are going to have.
    pub(super) const fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// How many changes wait.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn touched(&self, folder: NodeId) -> Option<Touched> {
        self.touched.get(&folder).copied()
    }

    /// Names in a folder that wait, after a name, with what they mean; up to where `limit` of them are members.
    pub(super) fn members(
        &self,
        folder: NodeId,
        after: Option<&NodeName>,
        limit: usize,
    ) -> BTreeMap<String, Option<Entry>> {
        let mut found = BTreeMap::new();
        let Some(names) = self.names.get(&folder) else { return found };
        let from = after.map_or(Bound::Unbounded, |name| Bound::Excluded(name.as_str()));
        let mut members = 0;
        for (name, slot) in names.range::<str, _>((from, Bound::Unbounded)) {
            let entry = match slot.is {
                Named::Node(node) => self.shown(node),
                Named::Nothing => None,
                Named::Others => continue,
            };
            if entry.is_none() && slot.is != Named::Nothing {
                // All of its changes are done.
                continue;
            }
            members += usize::from(entry.is_some());
            found.insert(name.clone(), entry);
            if members == limit {
                break;
            }
        }
        found
    }

    /// Takes in a change that was answered, with what its nodes are after it.
    pub(super) fn add(&mut self, change: &Deferred, after: Vec<After>) {
        self.changes += 1;
        for (folder, now_ns) in touches(change) {
            let touched = self.touched.entry(folder).or_insert(Touched { now_ns: i64::MIN, changes: 0 });
            touched.now_ns = touched.now_ns.max(now_ns);
            touched.changes += 1;
        }
        if let Deferred::Attributes { node, .. } = change
            && let Some(touched) = self.touched.get_mut(node)
        {
            // What was made in it before is in what it is now.
            touched.now_ns = i64::MIN;
        }
        if let Some((id, content @ NewContent::Inline { size, .. })) = content_of(change) {
            self.content_bytes += size;
            self.contents.insert(id, content.clone());
        }
        for (folder, name, is) in meanings(change) {
            self.hold(folder, name.as_str(), is);
        }
        let is_about_a_name = change.names().next().is_some();
        let is_create = matches!(change, Deferred::Create { .. });
        for (entry, gone) in after {
            let node = entry.node.id;
            let waiting = self.nodes.entry(node).or_insert_with(|| {
                let entry = entry.clone();
                Waiting { entry, gone, changes: 0, is_new: is_create, held: None }
            });
            (waiting.entry, waiting.gone) = (entry, gone);
            waiting.changes += 1;
            if is_about_a_name {
                if let Some((folder, name)) = waiting.held.take() {
                    self.let_go(folder, &name);
                }
            } else if waiting.held.is_none()
                && let Some(parent) = waiting.entry.node.parent
            {
                let name = waiting.entry.node.name.clone();
                waiting.held = Some((parent, name.clone()));
                self.hold(parent, &name, Named::Node(node));
            }
        }
    }

    /// A change is in the catalogue, or was given up.
    pub(super) fn done(&mut self, change: &Deferred, applied: Option<&Applied>) {
        self.changes -= 1;
        for (folder, _) in touches(change) {
            if let Some(touched) = self.touched.get_mut(&folder) {
                touched.changes -= 1;
                if touched.changes == 0 {
                    self.touched.remove(&folder);
                }
            }
        }
        if let Some((id, _)) = content_of(change) {
            if let Some(NewContent::Inline { size, .. }) = self.contents.remove(&id) {
                self.content_bytes -= size;
            }
            if let Some(unsynced) = self.unsynced.remove(&id) {
                self.content_bytes -= unsynced.size();
            }
        }
        if let Some(Applied::Aside(entry)) = applied {
            self.is_aside(change, entry);
        }
        for (folder, name) in change.names() {
            self.let_go(folder, name.as_str());
        }
        if matches!(change, Deferred::Passed { .. }) {
            return;
        }
        for node in [Some(change.node()), change.other()].into_iter().flatten() {
            let Some(waiting) = self.nodes.get_mut(&node) else { continue };
            waiting.changes -= 1;
            waiting.is_new &= !matches!(change, Deferred::Create { .. });
            if waiting.changes > 0 {
                continue;
            }
            if let Some((folder, name)) = self.nodes.remove(&node).and_then(|waiting| waiting.held) {
                self.let_go(folder, &name);
            }
        }
    }

    /// It is elsewhere than it was to be, and what waits of it goes there.
    fn is_aside(&mut self, change: &Deferred, entry: &Entry) {
        let (Deferred::Create { new: holdfast_drive::NewEntry { parent, name, .. }, .. }
        | Deferred::Rename { rename: holdfast_drive::Rename { to: (parent, name), .. }, .. }) = change
        else {
            return;
        };
        let Some(waiting) = self.nodes.get_mut(&change.node()) else { return };
        if waiting.entry.node.parent != Some(*parent) || waiting.entry.node.name != name.as_str() {
            // It has been given another name since.
            return;
        }
        waiting.entry.node.parent = entry.node.parent;
        waiting.entry.node.name.clone_from(&entry.node.name);
        let slot = self.names.get_mut(parent).and_then(|names| names.get_mut(name.as_str()));
        if let Some(slot) = slot.filter(|slot| slot.is == Named::Node(change.node())) {
            slot.is = Named::Others;
        }
    }

    fn hold(&mut self, folder: NodeId, name: &str, is: Named) {
        let names = self.names.entry(folder).or_default();
        if let Some(slot) = names.get_mut(name) {
            slot.is = is;
            slot.holders += 1;
        } else {
            names.insert(name.to_owned(), Slot { is, holders: 1 });
        }
    }

    fn let_go(&mut self, folder: NodeId, name: &str) {
        let Some(names) = self.names.get_mut(&folder) else { return };
        let Some(slot) = names.get_mut(name) else { return };
        slot.holders -= 1;
        if slot.holders == 0 {
            names.remove(name);
            if names.is_empty() {
                self.names.remove(&folder);
            }
        }
    }
}

/// Folders whose times a change sets, and to when.
fn touches(change: &Deferred) -> impl Iterator<Item = (NodeId, i64)> + use<> {
    let (folders, now_ns) = match change {
        Deferred::Create { new, .. } => ([Some(new.parent), None], new.posix.ctime_ns),
        Deferred::Unlink { unlink, .. } => ([Some(unlink.parent), None], unlink.leave.now_ns),
        Deferred::Rename { rename, .. } => {
            let other = (rename.from.0 != rename.to.0).then_some(rename.to.0);
            ([Some(rename.from.0), other], rename.leave.now_ns)
        }
        Deferred::Passed { folder, now_ns, .. } => ([Some(*folder), None], *now_ns),
        Deferred::Save { .. } | Deferred::Attributes { .. } => ([None, None], 0),
    };
    folders.into_iter().flatten().map(move |folder| (folder, now_ns))
}

const fn content_of(change: &Deferred) -> Option<(ContentId, &NewContent)> {
    match change {
        Deferred::Create { new, content_id, .. } => Some((*content_id, &new.content)),
        Deferred::Save { rewrite, content_id, .. } => Some((*content_id, &rewrite.content)),
        _ => None,
    }
}

/// Names that a change gives and takes, and what they mean after it.
fn meanings(change: &Deferred) -> impl Iterator<Item = (NodeId, &NodeName, Named)> {
    let first = match change {
        Deferred::Create { id, .. } => Named::Node(*id),
        Deferred::Rename { rename, other: Some((other, _)), .. } if rename.taken == Taken::Exchange => {
            Named::Node(*other)
        }
        _ => Named::Nothing,
    };
    // The second name is the one that a node is given.
    let meanings = [first, Named::Node(change.node())];
    change.names().zip(meanings).map(|((folder, name), is)| (folder, name, is))
}

/// What a node is after a change of attributes.
pub(super) fn with_attributes(mut entry: Entry, posix: Posix) -> Entry {
    entry.node.modified_ms = posix.mtime_ns.div_euclid(1_000_000);
    entry.posix = Some(posix);
    entry
}

#[cfg(test)]
mod tests;
