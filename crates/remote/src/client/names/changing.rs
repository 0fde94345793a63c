//! Changes of this mount: what is known once they have ended.

use super::{About, Mark, Names};
use holdfast_base::{NodeId, NodeName};
use holdfast_drive::{Entry, NodeKind};

/// A change of this mount. Dropped before it is settled, its end is not known.
pub(in crate::client) struct Changing<'n> {
    pub(super) names: &'n Names,
    pub(super) about: Vec<About>,
    pub(super) mark: Mark,
    pub(super) before: Vec<Entry>,
    pub(super) settled: bool,
}

impl Changing<'_> {
    /// A node of those it is about as it was before, if that is known.
    pub(in crate::client) fn before(&self, node: NodeId) -> Option<&Entry> {
        self.before.iter().find(|entry| entry.node.id == node)
    }

    /// The change was made or refused for certain, and this is what came of it, the last word of a node behind the others. Folders in `made` are
    /// new, and empty.
    pub(in crate::client) fn settle(self, entries: &[Entry], made: &[NodeId]) {
        self.settle_with(entries, made, &[]);
    }

    /// The same, and these names are free after it.
    pub(in crate::client) fn settle_with(mut self, entries: &[Entry], made: &[NodeId], free: &[(NodeId, NodeName)]) {
        self.settled = true;
        let names = self.names;
        let mut known = names.known.lock();
        // Where another change of this mount was under way at the same time, which came first is not known.
        let learnt: Vec<u64> = entries.iter().map(|entry| known.learnt(self.mark, entry)).collect();
        let learnt_free: Vec<u64> =
            free.iter().map(|(folder, name)| known.learnt_name(self.mark, *folder, name)).collect();
        known.touch(&self.about);
        known.doubt(&self.about);
        for (key, learnt) in free.iter().zip(learnt_free) {
            known.members.insert(key.clone(), (learnt, None));
        }
        for (entry, learnt) in entries.iter().zip(learnt) {
            known.put(learnt, entry);
            // What this mount made is known whole when the server is away, whether it is believed now or not.
            if entry.node.kind == NodeKind::Folder && made.contains(&entry.node.id) {
                known.complete.insert(entry.node.id, learnt);
            }
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.names.lost();
            let mut known = self.names.known.lock();
            known.touch(&self.about);
            known.doubt(&self.about);
        }
    }
}
