//! Names and attributes that were asked before.
//!
//! They are believed while the stream of changes is alive, and all of them are forgotten with every change of the space. A count grows each time;
//! an answer is remembered only if the count is what it was when the question was sent, so nothing of before a change is ever put back.

use holdfast_base::{NodeId, NodeName};
use holdfast_drive::Entry;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Entries, and names, remembered at most. At this many all are forgotten.
const KNOWN_MAX: usize = 64 << 10;

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
    entries: HashMap<NodeId, Entry>,
    members: HashMap<(NodeId, NodeName), Option<NodeId>>,
}

impl Known {
    fn clear(&mut self) {
        self.count += 1;
        self.entries.clear();
        self.members.clear();
    }

    fn make_room(&mut self) {
        if self.entries.len() >= KNOWN_MAX || self.members.len() >= KNOWN_MAX {
            self.entries.clear();
            self.members.clear();
        }
    }
}

impl Names {
    /// Something changed.
    pub(super) fn forget(&self) {
        self.0.lock().clear();
    }

    /// Whether the stream of changes is alive from now on.
    pub(super) fn trust(&self, trusted: bool) {
        let mut known = self.0.lock();
        known.clear();
        known.trusted = trusted;
    }

    /// To be shown with what is learnt from a question that is sent after this.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().count
    }

    pub(super) fn entry(&self, node: NodeId) -> Option<Entry> {
        let known = self.0.lock();
        known.entries.get(&node).filter(|_| known.trusted).cloned()
    }

    /// A member of a folder, or that there is none, as far as it is known.
    pub(super) fn lookup(&self, folder: NodeId, name: &NodeName) -> Member {
        let known = self.0.lock();
        match known.members.get(&(folder, name.clone())).filter(|_| known.trusted) {
            Some(Some(node)) => known.entries.get(node).cloned().map_or(Member::Unknown, Member::Is),
            Some(None) => Member::IsNone,
            None => Member::Unknown,
        }
    }

    /// Remembers an entry.
    pub(super) fn learn(&self, count: u64, entry: &Entry) {
        let mut known = self.0.lock();
        if known.trusted && known.count == count {
            known.make_room();
            known.entries.insert(entry.node.id, entry.clone());
        }
    }

    /// Remembers what a name in a folder means.
    pub(super) fn learn_name(&self, count: u64, folder: NodeId, name: &NodeName, found: Option<&Entry>) {
        let mut known = self.0.lock();
        if known.trusted && known.count == count {
            known.make_room();
            if let Some(entry) = found {
                known.entries.insert(entry.node.id, entry.clone());
            }
            known.members.insert((folder, name.clone()), found.map(|entry| entry.node.id));
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
