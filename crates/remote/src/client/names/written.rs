//! What is known of folders, as it is written down and recalled for when the server is away.

use super::super::kept::KeptFolder;
use super::{Folder, NEVER, Names, RECALLED_MAX};
use holdfast_base::{NodeId, NodeName};
use holdfast_drive::Entry;
use std::collections::HashMap;

impl Names {
    /// A page of a folder's members as they were last, if all of them are known.
    pub(in crate::client) fn list_before(
        &self,
        folder: NodeId,
        after: Option<&NodeName>,
        limit: usize,
    ) -> Option<Vec<Entry>> {
        let known = self.known.lock();
        let after = after.map_or("", NodeName::as_str);
        let mut page = known.members_before(folder)?;
        page.retain(|entry| entry.node.name.as_str() > after);
        page.sort_unstable_by(|one, other| one.node.name.cmp(&other.node.name));
        Some(page.into_iter().take(limit).cloned().collect())
    }

    /// What is learnt is to be written down from now on.
    pub(in crate::client) fn keeps(&self) {
        self.known.lock().keeps = true;
    }

    /// Changes that were heard of, and everything else that may have made anything different.
    pub(in crate::client) fn version(&self) -> (u64, u64) {
        let known = self.known.lock();
        (known.changes, known.count)
    }

    /// A node as the server says it is at present, for when it is away.
    pub(in crate::client) fn note(&self, entry: &Entry) {
        let mut known = self.known.lock();
        if let Some(folder) = entry.node.parent {
            known.learnt_of(folder, None);
        }
        if !known.entries.get(&entry.node.id).is_some_and(|(learnt, there)| known.holds_entry(*learnt, there)) {
            known.put(NEVER, entry);
        }
    }

    /// What was learnt of folders since this was asked last.
    pub(in crate::client) fn take_learnt(&self) -> Vec<Folder> {
        let mut known = self.known.lock();
        let learnt = std::mem::take(&mut known.learnt);
        if learnt.is_empty() {
            return Vec::new();
        }
        let mut members: HashMap<NodeId, Vec<Entry>> = HashMap::new();
        for ((folder, _), (at, node)) in &known.members {
            let is_now = learnt.contains_key(folder) && known.whole_since(*folder).is_none_or(|since| *at >= since);
            let entry = node.filter(|_| is_now).and_then(|node| known.entries.get(&node));
            if let Some((_, entry)) = entry {
                members.entry(*folder).or_default().push(entry.clone());
            }
        }
        let folder = |(node, free): (NodeId, Vec<NodeName>)| Folder {
            node,
            entry: known.entries.get(&node).map(|(_, entry)| entry.clone()),
            members: members.remove(&node).unwrap_or_default(),
            whole: known.complete.contains_key(&node),
            free,
        };
        learnt.into_iter().map(folder).collect()
    }

    /// Remembers a folder as it was written down, where nothing better is known.
    pub(in crate::client) fn recall(&self, folder: NodeId, kept: &KeptFolder) {
        let mut known = self.known.lock();
        known.make_room();
        if known.recalled.len() >= RECALLED_MAX {
            known.recalled.clear();
        }
        for entry in kept.entry.iter().chain(&kept.members) {
            if !known.entries.contains_key(&entry.node.id) {
                known.keep(NEVER, entry);
            }
        }
        for entry in &kept.members {
            known.recalled.insert(entry.node.id, folder);
            if let Ok(name) = NodeName::new(&entry.node.name) {
                known.members.entry((folder, name)).or_insert((NEVER, Some(entry.node.id)));
            }
        }
        if kept.whole {
            known.complete.entry(folder).or_insert(NEVER);
        }
    }

    /// The folder by which a node was recalled that is not known any more.
    pub(in crate::client) fn recalled_by(&self, node: NodeId) -> Option<NodeId> {
        self.known.lock().recalled.get(&node).copied()
    }
}
