//! What was answered and is not in the catalogue yet, as those who ask for it see it.

use holdfast_base::{ContentId, NodeId, NodeName};
use holdfast_drive::{Applied, Deferred, Entry, NewContent, Posix};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// Nodes, names and contents of the changes that wait.
#[derive(Default)]
pub(super) struct View {
    nodes: HashMap<NodeId, Waiting>,
    /// Names of those nodes, by folder.
    names: HashMap<NodeId, BTreeMap<String, NodeId>>,
    contents: HashMap<ContentId, NewContent>,
    touched: HashMap<NodeId, Touched>,
    content_bytes: u64,
}

struct Waiting {
    entry: Entry,
    /// Changes of it that wait.
    changes: u32,
    /// The catalogue does not have it at all.
    is_new: bool,
}

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
    pub(super) fn entry(&self, node: NodeId) -> Option<&Entry> {
        self.nodes.get(&node).map(|waiting| &waiting.entry)
    }

    /// Whether the catalogue does not have it yet.
    pub(super) fn is_new(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|waiting| waiting.is_new)
    }

    pub(super) fn child(&self, folder: NodeId, name: &str) -> Option<&Entry> {
        self.entry(*self.names.get(&folder)?.get(name)?)
    }

    /// Whether a folder has members that wait.
    pub(super) fn has_members(&self, folder: NodeId) -> bool {
        self.names.get(&folder).is_some_and(|names| !names.is_empty())
    }

    pub(super) fn content(&self, content: ContentId) -> Option<&NewContent> {
        self.contents.get(&content)
    }

    /// Bytes that files are going to have.
    pub(super) const fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// How many changes wait.
    pub(super) fn changes(&self) -> u64 {
        self.nodes.values().map(|waiting| u64::from(waiting.changes)).sum()
    }

    pub(super) fn touched(&self, folder: NodeId) -> Option<Touched> {
        self.touched.get(&folder).copied()
    }

    /// Up to `limit` members of a folder that wait, after a name.
    pub(super) fn members(&self, folder: NodeId, after: Option<&NodeName>, limit: usize) -> Vec<Entry> {
        let Some(names) = self.names.get(&folder) else { return Vec::new() };
        let from = after.map_or(Bound::Unbounded, |name| Bound::Excluded(name.as_str()));
        let members = names.range::<str, _>((from, Bound::Unbounded)).take(limit);
        members.filter_map(|(_, node)| self.entry(*node).cloned()).collect()
    }

    /// Takes in a change that was answered; `entry` is what the node is after it.
    pub(super) fn add(&mut self, change: &Deferred, entry: Entry) {
        let node = entry.node.id;
        if let Some(parent) = entry.node.parent {
            self.names.entry(parent).or_default().insert(entry.node.name.clone(), node);
        }
        let content = match change {
            Deferred::Create { new, content_id, .. } => {
                let touched = self.touched.entry(new.parent).or_insert(Touched { now_ns: i64::MIN, changes: 0 });
                touched.now_ns = touched.now_ns.max(new.posix.ctime_ns);
                touched.changes += 1;
                Some((*content_id, &new.content))
            }
            Deferred::Save { rewrite, content_id, .. } => Some((*content_id, &rewrite.content)),
            Deferred::Attributes { .. } | Deferred::Unlink { .. } => None,
        };
        if let Some((id, content @ NewContent::Inline { size, .. })) = content {
            self.content_bytes += size;
            self.contents.insert(id, content.clone());
        }
        let is_new = matches!(change, Deferred::Create { .. });
        let waiting = self.nodes.entry(node).or_insert_with(|| Waiting { entry: entry.clone(), changes: 0, is_new });
        waiting.entry = entry;
        waiting.changes += 1;
    }

    /// A change is in the catalogue, or was given up.
    pub(super) fn done(&mut self, change: &Deferred, applied: Option<&Applied>) {
        let content_id = match change {
            Deferred::Create { new, content_id, .. } => {
                if let Some(touched) = self.touched.get_mut(&new.parent) {
                    touched.changes -= 1;
                    if touched.changes == 0 {
                        self.touched.remove(&new.parent);
                    }
                }
                Some(content_id)
            }
            Deferred::Save { content_id, .. } => Some(content_id),
            Deferred::Attributes { .. } | Deferred::Unlink { .. } => None,
        };
        if let Some(NewContent::Inline { size, .. }) = content_id.and_then(|id| self.contents.remove(id)) {
            self.content_bytes -= size;
        }
        let node = change.node();
        let Some(waiting) = self.nodes.get_mut(&node) else { return };
        waiting.changes -= 1;
        waiting.is_new &= !matches!(change, Deferred::Create { .. });
        let (parent, name) = (waiting.entry.node.parent, waiting.entry.node.name.clone());
        let is_done = waiting.changes == 0;
        if is_done {
            self.nodes.remove(&node);
            self.forget_name(parent, &name);
        } else if let (Some(Applied::Aside(entry)), Deferred::Create { .. }) = (applied, change) {
            // It is elsewhere, and what waits of it goes there.
            waiting.entry.node.parent = entry.node.parent;
            waiting.entry.node.name.clone_from(&entry.node.name);
            self.forget_name(parent, &name);
            if let Some(parent) = entry.node.parent {
                self.names.entry(parent).or_default().insert(entry.node.name.clone(), node);
            }
        }
    }

    fn forget_name(&mut self, parent: Option<NodeId>, name: &str) {
        let Some(parent) = parent else { return };
        if let Some(names) = self.names.get_mut(&parent) {
            names.remove(name);
            if names.is_empty() {
                self.names.remove(&parent);
            }
        }
    }
}

/// Members of a folder as the catalogue has them, `limit` at most, with those that wait: the same order, and each once.
pub(super) fn merged(there: Vec<Entry>, waiting: Vec<Entry>, limit: usize) -> Vec<Entry> {
    // Beyond the last of a full page, the next page tells.
    let end = if there.len() < limit { None } else { there.last().map(|entry| entry.node.name.clone()) };
    let mut all: BTreeMap<String, Entry> = there.into_iter().map(|entry| (entry.node.name.clone(), entry)).collect();
    for entry in waiting {
        if end.as_ref().is_none_or(|end| entry.node.name <= *end) {
            all.insert(entry.node.name.clone(), entry);
        }
    }
    all.into_values().take(limit).collect()
}

/// What a node is after a change of attributes.
pub(super) fn with_attributes(mut entry: Entry, posix: Posix) -> Entry {
    entry.node.modified_ms = posix.mtime_ns.div_euclid(1_000_000);
    entry.posix = Some(posix);
    entry
}
