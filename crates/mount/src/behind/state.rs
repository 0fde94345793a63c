//! What waits, in order, and what became of it.

use super::fresh::Fresh;
use super::journal::{self, Journal};
use super::left::batch_of;
use super::view::{After, View};
use super::{NUMBERS_FRESH, PARKED_MAX, ROOM_BYTES, UNSYNCED_BYTES_MAX, WAITING_MAX, key_of};
use holdfast_base::{Error, ErrorKind, NodeId, NodeName, Result};
use holdfast_drive::{Deferred, Entry, HeldUp, Unsynced};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::Instant;

/// Changes that are looked at for those of a node that was removed: as many as a batch has, twice.
const LOOKED_BACK_MAX: usize = 512;
/// Changes of a node of which nothing is handed over, at most: they are in one batch.
const PASSED_MAX: usize = 64;

pub(super) struct State {
    pub(super) journal: Journal,
    pub(super) view: View,
    /// Changes that wait, in order.
    pub(super) queue: VecDeque<(u64, Deferred)>,
    /// The first number of those on their way to the tree.
    pub(super) under_way: Option<u64>,
    /// Content in blocks of the changes that are not in the tree, by their numbers: also of those of which nothing is handed over, since whoever goes
    /// through the journal again looks for it.
    unsynced: HashMap<u64, Unsynced>,
    unsynced_bytes: u64,
    /// Changes that were refused, and those that must come after them, in order.
    pub(super) parked: VecDeque<(u64, Deferred)>,
    pub(super) held_up: HeldUp,
    /// Nodes whose content is being changed in the usual way, and by how many.
    pub(super) direct: HashMap<NodeId, u32>,
    /// Those that the log and the file's next closing know of, and why.
    pub(super) refused: HashMap<u64, String>,
    /// Errors that nobody was told yet.
    pub(super) troubles: HashMap<NodeId, Trouble>,
    /// Why the last batch failed as a whole, and how many did.
    pub(super) failure: Option<(ErrorKind, String)>,
    pub(super) failures: u64,
    pub(super) numbers: Range<i64>,
    /// When others are asked for.
    pub(super) numbers_until: Instant,
    /// Room in the space when it was last asked for.
    pub(super) free_bytes: Option<u64>,
    /// Bytes written since.
    pub(super) since_bytes: u64,
    pub(super) absent: HashMap<u64, Instant>,
    pub(super) fresh: Fresh,
    /// See [`super::Shared::links`].
    pub(super) links: u64,
}

/// What went wrong with a change after it was answered.
#[derive(Clone)]
pub(super) struct Trouble {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
}

impl Trouble {
    pub(super) fn error(&self) -> Error {
        Error::new(self.kind, self.message.clone())
    }
}

impl State {
    /// Nothing waits.
    pub(super) fn new(journal: Journal, numbers: Range<i64>, free_bytes: Option<u64>) -> Self {
        Self {
            journal,
            view: View::default(),
            queue: VecDeque::new(),
            under_way: None,
            unsynced: HashMap::new(),
            unsynced_bytes: 0,
            parked: VecDeque::new(),
            held_up: HeldUp::default(),
            direct: HashMap::new(),
            refused: HashMap::new(),
            troubles: HashMap::new(),
            failure: None,
            failures: 0,
            numbers,
            numbers_until: Instant::now() + NUMBERS_FRESH,
            free_bytes,
            since_bytes: 0,
            absent: HashMap::new(),
            fresh: Fresh::default(),
            links: 0,
        }
    }

    /// Numbers a node or content.
    pub(super) fn number(&mut self) -> Option<i64> {
        self.numbers.next()
    }

    /// The next changes to be handed over, up to so many; see [`batch_of`].
    pub(super) fn take_batch(&mut self, limit: usize, bytes_max: u64) -> Vec<(u64, Deferred)> {
        let mut count = batch_of(self.queue.iter().take(limit), bytes_max);
        let passed = |at: usize| match self.queue.get(at) {
            Some((_, Deferred::Passed { node, .. })) => Some(*node),
            _ => None,
        };
        while count > 0 && passed(count).is_some() && passed(count - 1) == passed(count) {
            count -= 1;
        }
        let changes: Vec<_> = self.queue.drain(..count).collect();
        self.under_way = changes.iter().map(|(number, _)| *number).min();
        changes
    }

    /// Whether any change up to a number is not in the tree and not refused.
    pub(super) fn waits_for(&self, number: u64) -> bool {
        self.under_way.is_some_and(|first| first <= number) || self.queue.iter().any(|(other, _)| *other <= number)
    }

    pub(super) fn are_old(&self) -> bool {
        Instant::now() >= self.numbers_until
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.under_way.is_none()
    }

    /// See [`super::Shared::may_be_named`].
    pub(super) fn named(&mut self, folder: NodeId, name: &NodeName) {
        let key = key_of(folder, name.as_str());
        self.absent.remove(&key);
        self.fresh.named(folder, key);
    }

    /// What was not there may be.
    pub(super) fn forget_what_is_not_there(&mut self) {
        self.absent.clear();
        self.fresh.clear();
    }

    /// Whether a change may be answered first.
    pub(super) fn may_defer(&self, bytes: u64) -> bool {
        let claimed = self.since_bytes.saturating_add(bytes).saturating_add(ROOM_BYTES);
        self.parked.len() < PARKED_MAX && self.free_bytes.is_none_or(|free| free > claimed)
    }

    /// Whether a node that was looked up after so many links is a file of one name, and stays so until what is done in the usual way is done.
    pub(super) fn has_one_name(&self, there: &Entry, links: u64) -> bool {
        there.bond.is_none() && self.links == links && !self.direct.contains_key(&there.node.id)
    }

    /// Whether a name may be taken away or given first; an error if what was refused before has to be made before it.
    pub(super) fn may_take(&self, change: &Deferred) -> Result<bool> {
        let nodes = || [Some(change.node()), change.other()].into_iter().flatten();
        // A file that was never made may go again.
        let is_new = matches!(change, Deferred::Unlink { .. }) && self.view.is_new(change.node());
        if self.held_up.holds_up(change) && !is_new {
            let node = nodes().find(|node| self.held_up.has(*node)).unwrap_or_else(|| change.node());
            return Err(self.waits_behind_a_refusal(node));
        }
        // What is being saved may be another content by then.
        Ok(self.parked.len() < PARKED_MAX && !nodes().any(|node| self.direct.contains_key(&node)))
    }

    /// Why nothing can be done to a node now.
    pub(super) fn waits_behind_a_refusal(&self, node: NodeId) -> Error {
        match self.troubles.get(&node) {
            Some(trouble) => trouble.error(),
            None => Error::unavailable("a change of this file before was refused, and is tried again"),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        // What was refused may wait for ever, and nobody for it.
        let much_is_unsynced = self.unsynced_bytes >= UNSYNCED_BYTES_MAX && !self.is_idle();
        self.queue.len() >= WAITING_MAX || self.journal.bytes() >= journal::JOURNAL_BYTES_MAX || much_is_unsynced
    }

    /// Bytes in packs that are not known to be on the disk.
    pub(super) const fn unsynced_bytes(&self) -> u64 {
        self.unsynced_bytes
    }

    /// The content in blocks of a change.
    pub(super) fn unsynced(&self, number: u64) -> Option<&Unsynced> {
        self.unsynced.get(&number)
    }

    /// Answers a change: from here on it waits, and is seen. `after` is what its nodes are after it, and `unsynced` its content, if that is in blocks.
    pub(super) fn add(&mut self, change: Deferred, after: Vec<After>, unsynced: Option<Unsynced>) -> Result<()> {
        let number = self.journal.append(&change)?;
        if matches!(change, Deferred::Create { .. } | Deferred::Save { .. }) {
            self.since_bytes += after.first().map_or(0, |(entry, _)| entry.node.size);
        }
        self.view.add(&change, after);
        self.keep(number, &change, unsynced);
        self.line_up(number, change);
        Ok(())
    }

    /// Keeps the content in blocks of a change.
    pub(super) fn keep(&mut self, number: u64, change: &Deferred, unsynced: Option<Unsynced>) {
        if let (Some(unsynced), Deferred::Save { content_id, .. }) = (unsynced, change) {
            self.view.add_unsynced(*content_id, unsynced.clone());
            self.put_unsynced(number, unsynced);
        }
    }

    /// The content in blocks of a change is elsewhere now.
    pub(super) fn put_unsynced(&mut self, number: u64, unsynced: Unsynced) {
        self.let_go(number);
        self.unsynced_bytes += unsynced.sealed_bytes();
        self.unsynced.insert(number, unsynced);
    }

    /// Nobody will ask the journal for the content in blocks of a change any more.
    pub(super) fn let_go(&mut self, number: u64) {
        if let Some(unsynced) = self.unsynced.remove(&number) {
            unsynced.let_go();
            self.unsynced_bytes -= unsynced.sealed_bytes();
        }
    }

    /// Puts a change where it belongs: behind one that was refused, if it needs that.
    pub(super) fn line_up(&mut self, number: u64, change: Deferred) {
        if self.held_up.holds_up(&change) {
            self.held_up.add(&change);
            self.parked.push_back((number, change));
        } else {
            self.queue.push_back((number, change));
        }
    }

    /// Hands over nothing of a node that is gone and was made, saved and changed by what waits here alone, and that nobody has open: only that its
    /// folder changed. The journal has all of it, and whoever goes through that makes and removes it again.
    pub(super) fn pass(&mut self, node: NodeId) {
        let changes = self.view.changes_of(node) as usize;
        let is_alone = self.view.is_gone(node) && self.view.is_new(node) && !self.view.has_names(node);
        if !is_alone || changes > PASSED_MAX {
            return;
        }
        let is_its = |(_, change): &&(u64, Deferred)| change.node() == node || change.other() == Some(node);
        let parked = self.parked.iter().filter(|_| self.held_up.has(node)).filter(is_its);
        let queued = self.queue.iter().rev().take(LOOKED_BACK_MAX).filter(is_its);
        let mut found: Vec<(u64, Deferred)> = parked.chain(queued).take(changes).cloned().collect();
        found.sort_unstable_by_key(|(number, _)| *number);
        let is_passable = |(_, change): &(u64, Deferred)| match change {
            Deferred::Create { .. } | Deferred::Save { .. } | Deferred::Attributes { .. } => true,
            Deferred::Unlink { unlink, .. } => unlink.leave.held_until_ms.is_none(),
            Deferred::Rename { .. } | Deferred::Passed { .. } => false,
        };
        let Some((_, Deferred::Unlink { unlink, .. })) = found.last() else { return };
        if found.len() < changes || !found.iter().all(is_passable) {
            return;
        }
        let passed = Deferred::Passed { node, folder: unlink.parent, now_ns: unlink.leave.now_ns };
        let is_found = |number: u64| found.iter().any(|(other, _)| *other == number);
        self.parked.retain(|(number, _)| !is_found(*number));
        // What is before them stays as it is, and need not be looked at.
        let start = self.queue.len().saturating_sub(LOOKED_BACK_MAX);
        let rest: Vec<_> = self.queue.drain(start..).filter(|(number, _)| !is_found(*number)).collect();
        self.queue.extend(rest);
        // Beside each other, and so in one batch: of half of them, something would be made when the journal is gone through again.
        for (number, change) in found {
            self.refused.remove(&number);
            self.view.done(&change, None);
            self.view.add(&passed, Vec::new());
            self.queue.push_back((number, passed.clone()));
        }
        self.troubles.remove(&node);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // The journal names what was not handed over: its packs are to be open still when it is gone through.
        self.unsynced.drain().for_each(|(_, unsynced)| std::mem::forget(unsynced));
    }
}

#[cfg(test)]
mod tests {
    use super::super::after::after;
    use super::*;
    use holdfast_base::{ContentId, NodeName, SpaceId};
    use holdfast_drive::{
        BATCH_CHANGES_MAX, Leave, NewContent, NewEntry, NodeKind, Posix, Rename, Rewrite, Taken, Unlink,
    };

    const ROOT: NodeId = NodeId(1);

    struct Stage {
        _folder: tempfile::TempDir,
        state: State,
    }

    impl Stage {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let journal = Journal::begin(folder.path(), [1; 16]).expect("begins");
            Self { _folder: folder, state: State::new(journal, 0..0, None) }
        }

        fn add(&mut self, change: Deferred) {
            let shown = |node| self.state.view.shown(node);
            let before = (shown(change.node()), change.other().and_then(shown));
            let after = after(&change, before, SpaceId(1)).expect("there is something to be changed");
            self.state.add(change, after, None).expect("appends");
        }

        fn create(&mut self, id: i64, parent: NodeId, kind: NodeKind) {
            let new = NewEntry { parent, name: name(id), kind, posix: Posix::default(), content: NewContent::Empty };
            self.add(Deferred::Create { id: NodeId(id), new, content_id: ContentId(0) });
        }

        fn save(&mut self, id: i64) {
            let content = NewContent::Inline { size: 5, nonce: [0; 16], tag: [0; 16], sealed: vec![1] };
            let rewrite = Rewrite { node: NodeId(id), base: None, content, posix: Posix::default(), keep: false };
            self.add(Deferred::Save { rewrite, content_id: ContentId(1_000 + id), at: (ROOT, name(id)) });
        }

        fn unlink(&mut self, id: i64, parent: NodeId, held_until_ms: Option<i64>) {
            let leave = Leave { now_ns: 7, held_until_ms, forget_after_ms: 0 };
            let unlink = Unlink { parent, name: name(id), folder: false, leave };
            self.add(Deferred::Unlink { unlink, node: NodeId(id), content: None });
            self.state.pass(NodeId(id));
        }

        /// What waits, with its numbers: those that are passed in brackets.
        fn waits(&self) -> String {
            let tell = |(number, change): &(u64, Deferred)| match change {
                Deferred::Passed { .. } => format!("[{number}]"),
                _ => number.to_string(),
            };
            self.state.queue.iter().map(tell).collect::<Vec<_>>().join(" ")
        }
    }

    fn name(id: i64) -> NodeName {
        NodeName::new(&format!("f{id}")).expect("a good name")
    }

    #[test]
    fn of_what_was_made_and_removed_nothing_is_handed_over_but_that_it_was() {
        let mut stage = Stage::new();
        stage.create(10, ROOT, NodeKind::Folder);
        stage.create(11, NodeId(10), NodeKind::File);
        stage.create(12, ROOT, NodeKind::File);
        stage.save(11);
        stage.unlink(11, NodeId(10), None);
        assert_eq!(stage.waits(), "1 3 [2] [4] [5]");
        assert_eq!(stage.state.view.content_bytes(), 0);
        stage.unlink(10, ROOT, None);
        assert_eq!(stage.waits(), "3 [2] [4] [5] [1] [6]", "and the folder that it was in");
        assert_eq!(stage.state.view.changes(), 6);
        for (number, change) in stage.state.take_batch(BATCH_CHANGES_MAX, u64::MAX) {
            assert_ne!(number, 0);
            stage.state.view.done(&change, None);
        }
        assert_eq!(stage.state.view.changes(), 0);
        assert!(stage.state.view.touched(ROOT).is_none());
    }

    #[test]
    fn what_is_open_or_known_elsewhere_or_took_a_name_is_handed_over() {
        let mut stage = Stage::new();
        stage.create(10, ROOT, NodeKind::File);
        stage.unlink(10, ROOT, Some(1));
        assert_eq!(stage.waits(), "1 2", "somebody has it open");
        stage.create(11, ROOT, NodeKind::File);
        let (batch, end) = (stage.state.take_batch(3, u64::MAX), stage.state.queue.len());
        assert_eq!((batch.len(), end), (3, 0));
        stage.unlink(11, ROOT, None);
        assert_eq!(stage.waits(), "4", "it is on its way");
        stage.create(12, ROOT, NodeKind::File);
        stage.create(13, ROOT, NodeKind::File);
        let leave = Leave { now_ns: 7, held_until_ms: None, forget_after_ms: 0 };
        let rename = Rename { from: (ROOT, name(12)), to: (ROOT, name(13)), taken: Taken::Replace, leave };
        stage.add(Deferred::Rename { rename, node: NodeId(12), other: Some((NodeId(13), None)) });
        stage.unlink(12, ROOT, None);
        assert_eq!(stage.waits(), "4 5 6 7 8");
        stage.create(14, ROOT, NodeKind::Folder);
        stage.create(15, NodeId(14), NodeKind::File);
        stage.state.pass(NodeId(14));
        assert_eq!(stage.waits(), "4 5 6 7 8 9 10", "it is not gone");
    }

    #[test]
    fn what_is_passed_is_never_in_two_batches() {
        let mut stage = Stage::new();
        for id in 0..9 {
            stage.create(100 + id, ROOT, NodeKind::File);
        }
        stage.create(10, ROOT, NodeKind::File);
        stage.save(10);
        stage.unlink(10, ROOT, None);
        assert_eq!(stage.state.take_batch(11, u64::MAX).len(), 9);
        assert_eq!(stage.waits(), "[10] [11] [12]");
        assert_eq!(stage.state.under_way, Some(1));
    }

    #[test]
    fn what_needs_a_refused_change_waits_behind_it_and_a_file_that_never_was_may_go() {
        let mut stage = Stage::new();
        stage.create(10, ROOT, NodeKind::File);
        let refused = stage.state.queue.pop_front().expect("waits");
        stage.state.held_up.add(&refused.1);
        stage.state.parked.push_back(refused);
        stage.save(10);
        stage.create(11, ROOT, NodeKind::File);
        assert_eq!((stage.waits().as_str(), stage.state.parked.len()), ("3", 2));
        let unlink = Unlink {
            parent: ROOT,
            name: name(10),
            folder: false,
            leave: Leave { now_ns: 7, held_until_ms: None, forget_after_ms: 0 },
        };
        let removal = Deferred::Unlink { unlink, node: NodeId(10), content: None };
        assert!(stage.state.may_take(&removal).expect("may"));
        stage.unlink(10, ROOT, None);
        assert_eq!((stage.waits().as_str(), stage.state.parked.len()), ("3 [1] [2] [4]", 0));
    }
}
