//! Names and attributes that were asked before.
//!
//! They are believed while the stream of changes is alive, and none of them any more after a change of the space. A count grows each time;
//! an answer is remembered only if the count is what it was when the question was sent, so nothing of before a change is ever put back. While the
//! server does not answer, what was known last is better than nothing: then it is what is shown.

use holdfast_base::{NodeId, NodeName};
use holdfast_drive::Entry;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Entries, and names, remembered at most. At this many all are forgotten.
const KNOWN_MAX: usize = 64 << 10;

/// A count that is never reached: what was learnt at it is not believed while the server is there.
const NEVER: u64 = u64::MAX;

/// What is known of a name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Member {
    Is(Entry),
    IsNone,
    Unknown,
}

#[derive(Default)]
pub(super) struct Names(Mutex<Known>);

#[derive(Default)]
struct Known {
    trusted: bool,
    count: u64,
    /// Each with the count it was learnt at.
    entries: HashMap<NodeId, (u64, Entry)>,
    members: HashMap<(NodeId, NodeName), (u64, Option<NodeId>)>,
}

impl Known {
    fn make_room(&mut self) {
        if self.entries.len() >= KNOWN_MAX || self.members.len() >= KNOWN_MAX {
            self.entries.clear();
            self.members.clear();
        }
    }

    /// Whether what was learnt at this count is believed.
    const fn holds(&self, learnt: u64) -> bool {
        self.trusted && learnt == self.count
    }

    /// A member of a folder, of what was learnt at counts that are good.
    fn member(&self, folder: NodeId, name: &NodeName, good: impl Fn(u64) -> bool) -> Member {
        match self.members.get(&(folder, name.clone())) {
            Some((learnt, Some(node))) if good(*learnt) => {
                let entry = self.entries.get(node).filter(|(learnt, _)| good(*learnt));
                entry.map_or(Member::Unknown, |(_, entry)| Member::Is(entry.clone()))
            }
            Some((learnt, None)) if good(*learnt) => Member::IsNone,
            _ => Member::Unknown,
        }
    }
}

impl Names {
    /// Something changed: what is known is believed no more, except while the server is away.
    pub(super) fn forget(&self) {
        self.0.lock().count += 1;
    }

    /// This mount changed what a name means, or is about to: what it meant is not to come back.
    pub(super) fn forget_name(&self, folder: NodeId, name: &NodeName) {
        self.0.lock().members.remove(&(folder, name.clone()));
    }

    /// Whether the stream of changes is alive from now on.
    pub(super) fn trust(&self, trusted: bool) {
        let mut known = self.0.lock();
        known.count += 1;
        known.trusted = trusted;
    }

    /// To be shown with what is learnt from a question that is sent after this.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().count
    }

    pub(super) fn entry(&self, node: NodeId) -> Option<Entry> {
        let known = self.0.lock();
        known.entries.get(&node).filter(|(learnt, _)| known.holds(*learnt)).map(|(_, entry)| entry.clone())
    }

    /// An entry as it was when it was last asked for.
    pub(super) fn entry_before(&self, node: NodeId) -> Option<Entry> {
        self.0.lock().entries.get(&node).map(|(_, entry)| entry.clone())
    }

    /// A member of a folder, or that there is none, as far as it is known.
    pub(super) fn lookup(&self, folder: NodeId, name: &NodeName) -> Member {
        let known = self.0.lock();
        known.member(folder, name, |learnt| known.holds(learnt))
    }

    /// The same as it was when it was last asked for.
    pub(super) fn lookup_before(&self, folder: NodeId, name: &NodeName) -> Member {
        self.0.lock().member(folder, name, |_| true)
    }

    /// Remembers an entry.
    pub(super) fn learn(&self, count: u64, entry: &Entry) {
        let mut known = self.0.lock();
        if known.holds(count) {
            known.make_room();
            known.entries.insert(entry.node.id, (count, entry.clone()));
        }
    }

    /// Remembers what this mount made of a node, for when the server is away; what others did at the same time is not known.
    pub(super) fn remember(&self, entry: &Entry) {
        let mut known = self.0.lock();
        known.make_room();
        known.entries.insert(entry.node.id, (NEVER, entry.clone()));
        if let (Some(folder), Ok(name)) = (entry.node.parent, NodeName::new(&entry.node.name)) {
            known.members.insert((folder, name), (NEVER, Some(entry.node.id)));
        }
    }

    /// Remembers what a name in a folder means.
    pub(super) fn learn_name(&self, count: u64, folder: NodeId, name: &NodeName, found: Option<&Entry>) {
        let mut known = self.0.lock();
        if known.holds(count) {
            known.make_room();
            if let Some(entry) = found {
                known.entries.insert(entry.node.id, (count, entry.clone()));
            }
            known.members.insert((folder, name.clone()), (count, found.map(|entry| entry.node.id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::SpaceId;
    use holdfast_drive::{Node, NodeKind};

    fn entry(id: i64) -> Entry {
        let node = Node {
            id: NodeId(id),
            space: SpaceId(1),
            parent: Some(NodeId(1)),
            name: "a".into(),
            kind: NodeKind::File,
            content: None,
            size: 0,
            seq: 1,
            created_ms: 0,
            modified_ms: 0,
            has_properties: false,
        };
        Entry { node, posix: None }
    }

    #[test]
    fn nothing_is_believed_without_the_stream_of_changes() {
        let names = Names::default();
        let name = NodeName::new("a").expect("name");
        names.learn_name(names.count(), NodeId(1), &name, Some(&entry(7)));
        assert_eq!(names.lookup(NodeId(1), &name), Member::Unknown);
        names.trust(true);
        names.learn_name(names.count(), NodeId(1), &name, Some(&entry(7)));
        assert_eq!(names.lookup(NodeId(1), &name), Member::Is(entry(7)));
        assert_eq!(names.entry(NodeId(7)), Some(entry(7)));
        names.trust(false);
        assert_eq!((names.lookup(NodeId(1), &name), names.entry(NodeId(7))), (Member::Unknown, None));
        assert_eq!(names.lookup_before(NodeId(1), &name), Member::Is(entry(7)), "what was known last");
        assert_eq!(names.entry_before(NodeId(7)), Some(entry(7)));
        names.trust(true);
        names.remember(&entry(8));
        assert_eq!(names.lookup(NodeId(1), &name), Member::Unknown, "asked for again while the server is there");
        assert_eq!(names.lookup_before(NodeId(1), &name), Member::Is(entry(8)));
        names.forget_name(NodeId(1), &name);
        assert_eq!(names.lookup_before(NodeId(1), &name), Member::Unknown, "this mount changed it");
    }

    #[test]
    fn an_answer_from_before_a_change_is_not_put_back() {
        let names = Names::default();
        names.trust(true);
        let name = NodeName::new("a").expect("name");
        let before = names.count();
        names.forget();
        names.learn(before, &entry(7));
        names.learn_name(before, NodeId(1), &name, None);
        assert_eq!((names.entry(NodeId(7)), names.lookup(NodeId(1), &name)), (None, Member::Unknown));
        names.learn_name(names.count(), NodeId(1), &name, None);
        assert_eq!(names.lookup(NodeId(1), &name), Member::IsNone, "that there is none is known, too");
    }

    #[test]
    fn however_many_names_are_asked_for_memory_has_its_bound() {
        let names = Names::default();
        names.trust(true);
        let count = names.count();
        for number in 0..(3 * KNOWN_MAX) {
            let name = NodeName::new(&format!("n{number}")).expect("name");
            names.learn_name(count, NodeId(1), &name, None);
            names.learn(count, &entry(i64::try_from(number).expect("fits")));
        }
        let known = names.0.lock();
        assert!(known.entries.len() <= KNOWN_MAX && known.members.len() <= KNOWN_MAX);
    }
}
