//! Names and attributes that were asked before, or that this mount made.
//!
//! They are believed while the stream of changes is alive, and for sure while the server takes this mount's word for what it has [heard of](super::word): else whoever opens a file asks. None of a folder any more after somebody else changed anything in it, and none at all where it is not known in which. A count grows each time;
//! an answer is remembered only if nothing of its folder was changed since the question was sent ([`Mark`]), so nothing of before a change is ever put back.
//!
//! What this mount changes, it knows by itself ([`Names::begin`]): when a change was answered, the answer is what is known. Two that overlap, and a question
//! that was under way meanwhile, leave nothing behind: which came first is not known. A change whose end is not known is treated as somebody else's,
//! whenever it happens ([`Voice`]).
//!
//! Of a folder whose members are all known, others are known not to be there. While the server does not answer, what was known last is better than
//! nothing: then it is what is shown.

mod changing;
mod known;
mod sure;
mod written;

pub(super) use changing::Changing;
pub(super) use sure::{Say, Until};

use super::voice::Voice;
use holdfast_base::limits::PATH_DEPTH_MAX;
use holdfast_base::{NodeId, NodeName};
use holdfast_drive::Entry;
use known::Known;
use parking_lot::Mutex;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Entries, and names, remembered at most. At this many all are forgotten.
const KNOWN_MAX: usize = 64 << 10;
/// A count that is never reached: what was learnt at it is not believed while the server is there.
const NEVER: u64 = u64::MAX;
/// Places in which own changes are remembered; nodes and names share them.
const PLACES: usize = 8_192;
/// Folders that are being listed page by page, and folders in which names were looked for in vain, remembered at most.
const FOLDERS_MAX: usize = 256;
/// Folders of which it is remembered when others changed them; at this many, all may have been.
const CHANGED_MAX: usize = 8 << 10;
/// Names that are looked for in vain in a folder until all of it is asked for.
const MISSES: u32 = 3;
/// Nodes of which it is remembered by which folder they were recalled: 32 MiB.
const RECALLED_MAX: usize = 1 << 20;
/// Time between two such questions: in a space that others change all the time, each is soon worth nothing.
const LIST_AGAIN: Duration = Duration::from_secs(2);

/// What is known of a name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Member {
    Is(Entry),
    IsNone,
    Unknown,
}

/// What was known when a question was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    count: u64,
    own: u64,
    cleared: u64,
}

/// What a change is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum About {
    Entry(NodeId),
    Name(NodeId, NodeName),
}

impl About {
    fn place(&self) -> usize {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        usize::try_from(hasher.finish() % PLACES as u64).unwrap_or(0)
    }
}

pub(super) struct Names {
    known: Mutex<Known>,
    voice: Arc<Voice>,
}

/// What was learnt of a folder.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) node: NodeId,
    pub(super) entry: Option<Entry>,
    pub(super) members: Vec<Entry>,
    /// Whether those are all.
    pub(super) whole: bool,
    /// Names that are not of what they were of.
    pub(super) free: Vec<NodeName>,
}

impl Names {
    /// Nothing is known, and nothing is believed until the stream of changes is there.
    pub(super) fn new(voice: Arc<Voice>) -> Self {
        Self { known: Mutex::new(Known::new()), voice }
    }

    /// Something changed here: what is known is believed no more, except while the server is away.
    pub(super) fn forget(&self) {
        let mut known = self.known.lock();
        known.forget();
        known.changes += 1;
    }

    /// The same by somebody else; in these folders alone, if they are known.
    pub(super) fn hear(&self, folders: Option<&[NodeId]>) {
        let mut known = self.known.lock();
        known.changes += 1;
        let folders = folders.filter(|folders| known.changed_by_others.len() + folders.len() <= CHANGED_MAX);
        let Some(folders) = folders else {
            known.forget();
            known.told += 1;
            return;
        };
        known.count += 1;
        let count = known.count;
        known.changed_by_others.extend(folders.iter().map(|folder| (*folder, count)));
    }

    /// A change of this mount has an end that is not known: it may happen yet, and is somebody else's then.
    pub(super) fn lost(&self) {
        self.voice.change();
        self.forget();
    }

    /// This mount changed what a name means, or is about to: what it meant is not to come back.
    pub(super) fn forget_name(&self, folder: NodeId, name: &NodeName) {
        let mut known = self.known.lock();
        known.learnt_of(folder, Some(name));
        known.members.remove(&(folder, name.clone()));
    }

    /// Whether the stream of changes is alive from now on.
    pub(super) fn trust(&self, trusted: bool) {
        let mut known = self.known.lock();
        known.forget();
        known.told += 1;
        known.trusted = trusted;
        // The next server may be another.
        known.is_asked |= trusted;
    }

    /// The count of what others changed, while the stream of changes is alive.
    pub(super) fn unchanged(&self) -> Option<u64> {
        let known = self.known.lock();
        known.trusted.then_some(known.count)
    }

    /// To be shown with what is learnt from a question that is sent after this.
    pub(super) fn mark(&self) -> Mark {
        let mut known = self.known.lock();
        known.used = Instant::now();
        known.mark()
    }

    pub(super) fn entry(&self, node: NodeId) -> Option<Entry> {
        let mut known = self.known.lock();
        known.used = Instant::now();
        known.of(node, true).cloned()
    }

    /// An entry as it was when it was last asked for.
    pub(super) fn entry_before(&self, node: NodeId) -> Option<Entry> {
        self.known.lock().of(node, false).cloned()
    }

    /// A node and the folders above it, each as it was when it was last asked for.
    pub(super) fn way_before(&self, node: NodeId) -> Vec<(NodeId, Option<Entry>)> {
        let known = self.known.lock();
        let mut way = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next.filter(|_| way.len() <= PATH_DEPTH_MAX) {
            let entry = known.of(node, false).cloned();
            next = entry.as_ref().and_then(|entry| entry.node.parent);
            way.push((node, entry));
        }
        way
    }

    /// A member of a folder, or that there is none, as far as it is known.
    pub(super) fn lookup(&self, folder: NodeId, name: &NodeName) -> Member {
        let mut known = self.known.lock();
        known.used = Instant::now();
        match known.member(folder, name, true) {
            // It may be there by now, and nobody would ask for it.
            Member::IsNone if known.is_loose() && !known.believes_free => Member::Unknown,
            member => member,
        }
    }

    /// The same as it was when it was last asked for.
    pub(super) fn lookup_before(&self, folder: NodeId, name: &NodeName) -> Member {
        let known = self.known.lock();
        if let Some((learnt, _)) = known.members.get(&(folder, name.clone()))
            && known.whole_since(folder).is_some_and(|since| *learnt < since)
        {
            // All members were listed later, and it was not among them.
            return Member::IsNone;
        }
        known.member(folder, name, false)
    }

    /// Remembers an entry.
    pub(super) fn learn(&self, mark: Mark, entry: &Entry) {
        self.known.lock().learn(mark, entry);
    }

    /// Remembers what this mount made of a node, for when the server is away; what others did at the same time is not known.
    pub(super) fn remember(&self, entry: &Entry) {
        self.known.lock().put(NEVER, entry);
    }

    /// Remembers what a name in a folder means.
    pub(super) fn learn_name(&self, mark: Mark, folder: NodeId, name: &NodeName, found: Option<&Entry>) {
        self.known.lock().learn_name(mark, folder, name, found);
    }

    /// Remembers a page of a folder's members, those after a name; `last` if there are no more. When every page followed the one before it, all
    /// members are known.
    pub(super) fn learn_page(&self, mark: Mark, folder: NodeId, after: Option<&NodeName>, page: &[Entry], last: bool) {
        let mut known = self.known.lock();
        let begun = match after {
            None => Some(mark),
            Some(after) => known.listed.remove(&folder).filter(|(_, to)| to == after).map(|(begun, _)| begun),
        };
        let mut to = None;
        for entry in page {
            let Ok(name) = NodeName::new(&entry.node.name) else { return };
            known.learn_name(mark, folder, &name, Some(entry));
            to = Some(name);
        }
        let is_whole = |begun: &Mark| known.holds(begun.count, folder) && known.cleared == begun.cleared;
        let Some(begun) = begun.filter(is_whole) else { return };
        if last {
            known.complete.insert(folder, begun.count);
        } else if let Some(to) = to {
            if known.listed.len() >= FOLDERS_MAX {
                known.listed.clear();
            }
            known.listed.insert(folder, (begun, to));
        }
    }

    /// A name was looked for in vain; answers whether it is time to ask for the whole folder.
    pub(super) fn missed(&self, folder: NodeId) -> bool {
        let mut known = self.known.lock();
        if known.missed.len() >= FOLDERS_MAX {
            known.missed.clear();
        }
        let count = known.since(folder);
        let missed = known.missed.entry(folder).or_default();
        *missed = if missed.0 == count { (count, missed.1.saturating_add(1)) } else { (count, 1) };
        let is_time = missed.1 == MISSES && known.list_again <= Instant::now();
        if is_time {
            known.list_again = Instant::now() + LIST_AGAIN;
        }
        is_time
    }

    /// This mount begins to change something.
    pub(super) fn begin(&self, about: Vec<About>) -> Changing<'_> {
        let mut known = self.known.lock();
        let entries = about.iter().filter_map(|about| match about {
            About::Entry(node) => known.entries.get(node),
            About::Name(..) => None,
        });
        let before = entries.filter(|(learnt, entry)| known.holds_entry(*learnt, entry));
        let before = before.map(|(_, entry)| entry.clone()).collect();
        known.touch(&about);
        let mark = known.mark();
        drop(known);
        Changing { names: self, about, mark, before, settled: false }
    }
}

#[cfg(test)]
mod tests;
