//! What is known, and of that what is believed.

use super::sure::Until;
use super::{About, KNOWN_MAX, Mark, Member, NEVER, PLACES};
use holdfast_base::{NodeId, NodeName};
use holdfast_drive::{Entry, NodeKind};
use std::collections::HashMap;
use tokio::time::Instant;

pub(super) struct Known {
    /// The stream of changes is alive.
    pub(super) trusted: bool,
    /// Until when others wait for this mount to have heard of what they change, if they do.
    pub(super) until: Option<Until>,
    /// Whether the server takes its word for that.
    pub(super) is_asked: bool,
    /// That a name is free is believed in any case.
    pub(super) believes_free: bool,
    /// How often all was forgotten because of others.
    pub(super) told: u64,
    /// How often it was when the last word was answered; none while one is under way.
    pub(super) word: Option<u64>,
    /// When anything was asked here last.
    pub(super) used: Instant,
    pub(super) count: u64,
    /// The count when all was forgotten last.
    pub(super) forgotten: u64,
    /// Folders that others changed since, each with the count of that.
    pub(super) changed_by_others: HashMap<NodeId, u64>,
    /// Own changes that began or ended.
    pub(super) own: u64,
    /// For each place, the last of those.
    pub(super) changed: Vec<u64>,
    /// How often all was forgotten for want of room.
    pub(super) cleared: u64,
    /// Each with the count it was learnt at.
    pub(super) entries: HashMap<NodeId, (u64, Entry)>,
    /// For the number of a file that none of its nodes has, one of them.
    pub(super) numbers: HashMap<NodeId, NodeId>,
    pub(super) members: HashMap<(NodeId, NodeName), (u64, Option<NodeId>)>,
    /// Folders all of whose members are known.
    pub(super) complete: HashMap<NodeId, u64>,
    /// Folders that are being listed, and the last name so far.
    pub(super) listed: HashMap<NodeId, (Mark, NodeName)>,
    /// How often a name was looked for in vain, and at which count.
    pub(super) missed: HashMap<NodeId, (u64, u32)>,
    pub(super) list_again: Instant,
    /// Whether what is learnt is written down.
    pub(super) keeps: bool,
    /// Folders of which something was learnt that is not written down, each with names of which it is not known any more what they mean.
    pub(super) learnt: HashMap<NodeId, Vec<NodeName>>,
    /// Changes that others and this mount made, as far as they were heard of.
    pub(super) changes: u64,
    /// In which folder a node was, of those that were recalled.
    pub(super) recalled: HashMap<NodeId, NodeId>,
}

impl Known {
    pub(super) fn new() -> Self {
        Self {
            trusted: false,
            until: None,
            is_asked: true,
            believes_free: false,
            told: 0,
            word: None,
            used: Instant::now(),
            count: 0,
            forgotten: 0,
            changed_by_others: HashMap::new(),
            own: 0,
            changed: vec![0; PLACES],
            cleared: 0,
            entries: HashMap::new(),
            numbers: HashMap::new(),
            members: HashMap::new(),
            complete: HashMap::new(),
            listed: HashMap::new(),
            missed: HashMap::new(),
            list_again: Instant::now(),
            keeps: false,
            learnt: HashMap::new(),
            changes: 0,
            recalled: HashMap::new(),
        }
    }

    /// Something was learnt of a folder, that a name is another's with it.
    pub(super) fn learnt_of(&mut self, folder: NodeId, name: Option<&NodeName>) {
        if !self.keeps || self.learnt.len() >= KNOWN_MAX {
            return;
        }
        let names = self.learnt.entry(folder).or_default();
        if let Some(name) = name.filter(|_| names.len() < KNOWN_MAX) {
            names.push(name.clone());
        }
    }

    /// From which count on members of a folder are those of its last whole listing; none if it never was known whole.
    pub(super) fn whole_since(&self, folder: NodeId) -> Option<u64> {
        self.complete.get(&folder).map(|learnt| if *learnt == NEVER { 0 } else { *learnt })
    }

    /// Members of a folder as they were last, if all of them are known.
    pub(super) fn members_before(&self, folder: NodeId) -> Option<Vec<&Entry>> {
        let since = self.whole_since(folder)?;
        let is_member = |((of, _), (learnt, node)): (&(NodeId, NodeName), &(u64, Option<NodeId>))| {
            let node = node.filter(|_| *of == folder && *learnt >= since)?;
            self.entries.get(&node).map(|(_, entry)| entry)
        };
        Some(self.members.iter().filter_map(is_member).collect())
    }

    pub(super) fn make_room(&mut self) {
        if self.entries.len() >= KNOWN_MAX || self.members.len() >= KNOWN_MAX {
            self.entries.clear();
            self.numbers.clear();
            self.members.clear();
            self.complete.clear();
            self.cleared += 1;
        }
    }

    pub(super) const fn mark(&self) -> Mark {
        Mark { count: self.count, own: self.own, cleared: self.cleared }
    }

    /// All that is known is believed no more.
    pub(super) fn forget(&mut self) {
        self.count += 1;
        self.forgotten = self.count;
        self.changed_by_others.clear();
    }

    /// The count since which nothing of a folder has changed.
    pub(super) fn since(&self, folder: NodeId) -> u64 {
        self.changed_by_others.get(&folder).map_or(self.forgotten, |changed| self.forgotten.max(*changed))
    }

    /// Whether what was learnt of a folder at this count is believed.
    pub(super) fn holds(&self, learnt: u64, folder: NodeId) -> bool {
        self.trusted && learnt != NEVER && learnt >= self.since(folder)
    }

    /// The same of an entry, which changes with its folder and, if it is one, with its members.
    pub(super) fn holds_entry(&self, learnt: u64, entry: &Entry) -> bool {
        let own = (entry.node.kind == NodeKind::Folder).then_some(entry.node.id);
        let of = entry.node.parent.into_iter().chain(own).map(|folder| self.since(folder)).max();
        self.trusted && learnt != NEVER && learnt >= of.unwrap_or(self.forgotten)
    }

    /// Whether this mount has not changed what this is about since a mark.
    pub(super) fn is_own_since(&self, mark: Mark, about: &About) -> bool {
        self.changed[about.place()] <= mark.own
    }

    /// A member of a folder, of what is believed or of all that is known.
    pub(super) fn member(&self, folder: NodeId, name: &NodeName, is_believed: bool) -> Member {
        let good = |learnt: u64| !is_believed || self.holds(learnt, folder);
        match self.members.get(&(folder, name.clone())) {
            Some((learnt, Some(node))) if good(*learnt) => {
                let entry = self.entries.get(node);
                let entry = entry.filter(|(learnt, entry)| !is_believed || self.holds_entry(*learnt, entry));
                entry.map_or(Member::Unknown, |(_, entry)| Member::Is(entry.clone()))
            }
            Some((learnt, None)) if good(*learnt) => Member::IsNone,
            None if self.complete.get(&folder).is_some_and(|learnt| good(*learnt)) => Member::IsNone,
            _ => Member::Unknown,
        }
    }

    /// What was learnt of a node, or of a file by its number: what is believed, or all that is known.
    pub(super) fn of(&self, node: NodeId, is_believed: bool) -> Option<&Entry> {
        let ids = std::iter::once(node).chain(self.numbers.get(&node).copied());
        let found = ids.filter_map(|id| self.entries.get(&id));
        let mut found = found.filter(|(learnt, entry)| !is_believed || self.holds_entry(*learnt, entry));
        found.find(|(_, entry)| entry.node.id == node || entry.number() == node).map(|(_, entry)| entry)
    }

    pub(super) fn keep(&mut self, learnt: u64, entry: &Entry) {
        if entry.bond.is_some() {
            self.numbers.insert(entry.number(), entry.node.id);
        }
        self.entries.insert(entry.node.id, (learnt, entry.clone()));
    }

    pub(super) fn put(&mut self, learnt: u64, entry: &Entry) {
        self.make_room();
        self.keep(learnt, entry);
        if let (Some(folder), Ok(name)) = (entry.node.parent, NodeName::new(&entry.node.name)) {
            self.learnt_of(folder, None);
            self.members.insert((folder, name), (learnt, Some(entry.node.id)));
        }
    }

    /// Remembers an answer, unless this mount changed what it is about meanwhile. What others may have changed meanwhile is good enough for when the server is away, but
    /// takes no place of what is believed.
    pub(super) fn learn(&mut self, mark: Mark, entry: &Entry) {
        let is_of_now = self.holds_entry(mark.count, entry);
        let is_better =
            || !self.entries.get(&entry.node.id).is_some_and(|(learnt, there)| self.holds_entry(*learnt, there));
        if self.is_own_since(mark, &About::Entry(entry.node.id)) && (is_of_now || is_better()) {
            self.make_room();
            self.keep(if is_of_now { self.count } else { NEVER }, entry);
        }
    }

    pub(super) fn learn_name(&mut self, mark: Mark, folder: NodeId, name: &NodeName, found: Option<&Entry>) {
        if let Some(entry) = found {
            self.learn(mark, entry);
        }
        let (key, is_of_now) = ((folder, name.clone()), self.holds(mark.count, folder));
        let is_better = || !self.members.get(&key).is_some_and(|(learnt, _)| self.holds(*learnt, folder));
        if self.is_own_since(mark, &About::Name(folder, name.clone())) && (is_of_now || is_better()) {
            self.make_room();
            self.learnt_of(folder, found.is_none().then_some(name));
            self.members.insert(key, (if is_of_now { self.count } else { NEVER }, found.map(|entry| entry.node.id)));
        }
    }

    /// The count at which it is learnt what a name is after a change of this mount.
    pub(super) fn learnt_name(&self, mark: Mark, folder: NodeId, name: &NodeName) -> u64 {
        let is_known = self.holds(mark.count, folder) && self.is_own_since(mark, &About::Name(folder, name.clone()));
        if is_known { self.count } else { NEVER }
    }

    /// The count at which what came of a change is learnt.
    pub(super) fn learnt(&self, mark: Mark, entry: &Entry) -> u64 {
        let name = entry.node.parent.zip(NodeName::new(&entry.node.name).ok());
        let is_known = name.is_none_or(|(folder, name)| self.learnt_name(mark, folder, &name) != NEVER)
            && self.holds_entry(mark.count, entry)
            && self.is_own_since(mark, &About::Entry(entry.node.id));
        if is_known { self.count } else { NEVER }
    }

    /// What this is about is to be asked for.
    pub(super) fn doubt(&mut self, about: &[About]) {
        self.make_room();
        for about in about {
            match about {
                About::Entry(node) => {
                    if let Some((learnt, _)) = self.entries.get_mut(node) {
                        *learnt = NEVER;
                    }
                }
                About::Name(folder, name) => {
                    self.learnt_of(*folder, Some(name));
                    self.members.insert((*folder, name.clone()), (NEVER, None));
                }
            }
        }
    }

    pub(super) fn touch(&mut self, about: &[About]) {
        self.own += 1;
        self.changes += 1;
        for about in about {
            self.changed[about.place()] = self.own;
        }
    }
}
