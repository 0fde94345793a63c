//! Files and folders that stay on the disk: fetched in the background, and read while the server is away.
//!
//! What is pinned is a node, whatever it is called later; everything below a folder goes with it, also what is made there afterwards. A *walk* lists all of it,
//! fetches what is missing, and afterwards lets go of what is not in it any more (old versions, what was moved away). It is done again when something in the space
//! has changed, with a rest of ten times as long as the last one took, so that a large folder costs little of a server's time.
//!
//! The list is on disk when a pin is answered. Blocks that were fetched lie apart from what may go, so the next mount knows them as pinned before it has walked.

use super::disk::{Disk, Kept, Name};
use super::kept::KeptFolder;
use super::layouts::{Layout, Layouts, off};
use super::{Shared, layouts};
use crate::wire::{self, LIST_MAX};
use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use holdfast_base::{BlockId, ContentId, Error, ErrorKind, NodeId, NodeName, Result};
use holdfast_drive::{Entry, MANIFEST_CHUNK_BLOCKS, NodeKind, PinState, Pinned, Pinning};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Pins at most: each is looked at in each walk.
const PINS_MAX: usize = 1_000;
/// Longest path that is remembered with one.
const PATH_BYTES_MAX: usize = 4_096;
/// Nodes of all pins at most; a million contents known by number and blocks are some 200 MB of memory.
const NODES_MAX: usize = 1_000_000;
/// Files that are fetched at a time, and blocks of each.
const FILES: usize = 4;
const BLOCKS: usize = 4;
/// Rest between two walks, as often as the last one took, and its bounds.
const REST_TIMES: u32 = 10;
const REST_MIN: Duration = Duration::from_millis(500);
const REST_MAX: Duration = Duration::from_mins(2);
/// Rest after a walk that could not do all.
const REST_FAILED: Duration = Duration::from_secs(5);
/// How often it is looked whether anything changed.
const LOOK: Duration = Duration::from_millis(500);
/// The connection's stream of changes ends and begins all the time, and nobody knows what was missed: it is walked again after so long.
const REST_UNSEEN: Duration = Duration::from_mins(5);
/// The list's name in the cache.
const PINS: &str = "pins";

#[derive(Default)]
pub(super) struct Pins {
    list: Mutex<Vec<Pin>>,
    wake: Notify,
}

struct Pin {
    node: NodeId,
    told: Pinned,
}

impl Pins {
    /// Reads the list. What cannot be read is said, and begins anew.
    pub(super) fn load(&self, disk: &Disk) {
        match disk.note::<Vec<(NodeId, String)>>(PINS) {
            Ok(list) => {
                let pin = |(node, path)| Pin { node, told: Pinned { path, ..Pinned::default() } };
                *self.list.lock() = list.unwrap_or_default().into_iter().take(PINS_MAX).map(pin).collect();
            }
            Err(error) => {
                tracing::error!(%error, "the list of what is pinned cannot be read: nothing is pinned any more");
            }
        }
    }

    /// What is pinned, and how far it is.
    pub(super) fn told(&self) -> Vec<Pinned> {
        self.list.lock().iter().map(|pin| pin.told.clone()).collect()
    }

    /// Something was let go of that may have been pinned.
    pub(super) fn again(&self) {
        self.wake.notify_one();
    }

    fn tell(&self, node: NodeId, change: impl FnOnce(&mut Pinned)) {
        if let Some(pin) = self.list.lock().iter_mut().find(|pin| pin.node == node) {
            change(&mut pin.told);
        }
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.list.lock().iter().map(|pin| pin.node).collect()
    }
}

/// See [`Pinning`].
pub(super) struct RemotePins(pub(super) Arc<Shared>);

impl RemotePins {
    /// Writes a changed list, and then has it.
    async fn change<T: Send>(&self, change: impl FnOnce(&mut Vec<(NodeId, String)>) -> Result<T> + Send) -> Result<T> {
        let layouts = self.0.layouts.get().ok_or_else(|| Error::internal("this client has no cache"))?;
        let mut list: Vec<(NodeId, String)> =
            self.0.pins.list.lock().iter().map(|pin| (pin.node, pin.told.path.clone())).collect();
        let done = change(&mut list)?;
        let (disk, written) = (layouts.disk.clone(), list.clone());
        off(move || disk.write_note(PINS, &written))
            .await?
            .map_err(|error| error.context("the list of what is pinned"))?;
        let mut pins = self.0.pins.list.lock();
        pins.retain(|pin| list.iter().any(|(node, _)| *node == pin.node));
        for (node, path) in list {
            if !pins.iter().any(|pin| pin.node == node) {
                pins.push(Pin { node, told: Pinned { path, ..Pinned::default() } });
            }
        }
        drop(pins);
        self.0.pins.wake.notify_one();
        Ok(done)
    }
}

#[async_trait]
impl Pinning for RemotePins {
    async fn pin(&self, node: NodeId, path: String) -> Result<()> {
        if path.len() > PATH_BYTES_MAX {
            return Err(Error::invalid(format!("a path of a pin has {PATH_BYTES_MAX} bytes at most")));
        }
        self.change(|list| {
            if list.iter().any(|(pinned, _)| *pinned == node) {
                return Ok(());
            }
            if list.len() >= PINS_MAX {
                return Err(Error::new(ErrorKind::TooLarge, format!("{PINS_MAX} files and folders can be pinned")));
            }
            list.push((node, path));
            Ok(())
        })
        .await
    }

    async fn unpin(&self, path: &str, node: Option<NodeId>) -> Result<bool> {
        self.change(|list| {
            let before = list.len();
            list.retain(|(pinned, called)| called != path && Some(*pinned) != node);
            Ok(list.len() < before)
        })
        .await
    }
}

/// What earlier walks found.
#[derive(Default)]
struct Walked {
    /// All that is kept of a content, which never changes.
    contents: HashMap<ContentId, Arc<Vec<Name>>>,
    /// Of a folder, a hash of how it was kept.
    folders: HashMap<NodeId, u64>,
}

/// Why a walk ends early.
enum Stop {
    NoRoom,
    Gone,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Kept> for std::result::Result<(), Stop> {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::Yes => Ok(()),
            Kept::NoRoom => Err(Stop::NoRoom),
            Kept::Failed => Err(Stop::Failed(Error::new(ErrorKind::NoSpace, "the cache's disk takes nothing more"))),
        }
    }
}

/// Keeps what is pinned, for ever.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut walked = Walked::default();
    loop {
        let (began, version) = (Instant::now(), shared.names.version());
        let whole = walk(&shared, &mut walked).await;
        let rest = if whole { (began.elapsed() * REST_TIMES).clamp(REST_MIN, REST_MAX) } else { REST_FAILED };
        let woken = tokio::time::timeout(rest, shared.pins.wake.notified()).await.is_ok();
        if whole && !woken {
            changed(&shared, (began, version)).await;
        }
    }
}

/// Waits until it is time for another walk: something changed, or may have long ago, or somebody says so.
async fn changed(shared: &Shared, (began, version): (Instant, (u64, u64))) {
    loop {
        let now = shared.names.version();
        if now.0 != version.0 || (now != version && began.elapsed() >= REST_UNSEEN) {
            return;
        }
        if tokio::time::timeout(LOOK, shared.pins.wake.notified()).await.is_ok() {
            return;
        }
    }
}

/// Looks at everything that is pinned, and fetches what is missing. Answers whether nothing is left to be done.
async fn walk(shared: &Arc<Shared>, walked: &mut Walked) -> bool {
    let Some(layouts) = shared.layouts.get() else { return true };
    let (mut wanted, mut whole) = (HashSet::new(), true);
    for node in shared.pins.nodes() {
        if shared.link.is_away() {
            whole = false;
            shared.pins.tell(node, |told| told.why = Some("the server is away".into()));
            continue;
        }
        let outcome = one(shared, layouts, (walked, &mut wanted), node).await;
        whole &= matches!(outcome, Ok(()) | Err(Stop::Gone));
        shared.pins.tell(node, |told| match outcome {
            Ok(()) => (told.state, told.why) = (PinState::Here, None),
            Err(Stop::Gone) => (told.state, told.why) = (PinState::Gone, Some("there is no such node any more".into())),
            Err(Stop::NoRoom) => {
                if told.state != PinState::NoRoom {
                    tracing::warn!(path = told.path, "what is pinned does not fit into the cache");
                }
                let why = "all that is pinned takes at most nine tenths of --cache-size, and this does not fit";
                (told.state, told.why) = (PinState::NoRoom, Some(why.into()));
            }
            // What is here stays so.
            Err(Stop::Failed(error)) => {
                if told.state != PinState::Here {
                    told.state = PinState::Fails;
                }
                told.why = Some(error.to_string());
            }
        });
    }
    if whole {
        walked.contents.retain(|content, _| wanted.contains(&Name::Content(*content)));
        walked.folders.retain(|folder, _| wanted.contains(&Name::Folder(*folder)));
        let disk = layouts.disk.clone();
        let let_go = move || {
            let unwanted = disk.names().into_iter().filter(|(name, pinned)| *pinned && !wanted.contains(name));
            for (name, _) in unwanted {
                disk.pin(name, false);
            }
        };
        let _ = off(let_go).await;
    }
    whole
}

/// Looks at one pin.
async fn one(
    shared: &Arc<Shared>,
    layouts: &Layouts,
    (walked, wanted): (&mut Walked, &mut HashSet<Name>),
    node: NodeId,
) -> std::result::Result<(), Stop> {
    let entry: Option<Entry> = shared.link.ask(&wire::Call::Entry(node)).await?;
    let entry = entry.ok_or(Stop::Gone)?;
    shared.names.note(&entry);
    if let Some(folder) = entry.node.parent {
        // So that it is found by its path while the server is away.
        above(shared, layouts, wanted, folder).await?;
    }
    let files = list(shared, layouts, (walked, wanted), entry).await?;
    let bytes = files.iter().map(|(_, size)| size).sum();
    shared.pins.tell(node, |told| {
        (told.files, told.bytes, told.files_here, told.bytes_here) = (files.len() as u64, bytes, 0, 0);
        if told.state != PinState::Here {
            told.state = PinState::Fetches;
        }
    });
    let mut missing = Vec::new();
    for (content, size) in files {
        let known = content.map_or(Some(Vec::new().into()), |content| {
            walked.contents.get(&content).filter(|names| layouts.disk.are_pinned(names)).cloned()
        });
        match (known, content) {
            (Some(names), _) => {
                wanted.extend(names.iter().copied());
                here(shared, node, size);
            }
            (None, Some(content)) => missing.push((content, size)),
            (None, None) => {}
        }
    }
    let mut fetching = stream::iter(missing)
        .map(|(content, size)| async move { (content, size, fetch(shared, layouts, content).await) })
        .buffer_unordered(FILES);
    while let Some((content, size, fetched)) = fetching.next().await {
        let names = Arc::new(fetched?);
        wanted.extend(names.iter().copied());
        walked.contents.insert(content, names);
        here(shared, node, size);
    }
    Ok(())
}

fn here(shared: &Shared, node: NodeId, size: u64) {
    shared.pins.tell(node, |told| {
        told.files_here += 1;
        told.bytes_here += size;
    });
}

/// Keeps the folders above a pin, each with what is known of it.
async fn above(
    shared: &Arc<Shared>,
    layouts: &Layouts,
    wanted: &mut HashSet<Name>,
    mut folder: NodeId,
) -> std::result::Result<(), Stop> {
    // A circle is no tree; whoever sends one is no server of ours.
    for _ in 0..holdfast_base::limits::PATH_DEPTH_MAX {
        let name = Name::Folder(folder);
        let entry: Option<Entry> = shared.link.ask(&wire::Call::Entry(folder)).await?;
        let Some(entry) = entry else { return Ok(()) };
        let parent = entry.node.parent;
        shared.names.note(&entry);
        let (theirs, disk) = (shared.clone(), layouts.disk.clone());
        off(move || {
            theirs.keep_names();
            // One of which nothing is kept yet is there at the next walk.
            disk.pin(name, true);
        })
        .await?;
        wanted.insert(name);
        match parent {
            Some(parent) => folder = parent,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Lists everything from a node down, keeps the folders, and answers the files: contents with their sizes.
async fn list(
    shared: &Arc<Shared>,
    layouts: &Layouts,
    (walked, wanted): (&mut Walked, &mut HashSet<Name>),
    entry: Entry,
) -> std::result::Result<Vec<(Option<ContentId>, u64)>, Stop> {
    let (mut files, mut waiting, mut nodes) = (Vec::new(), vec![entry], 0);
    while let Some(entry) = waiting.pop() {
        nodes += 1;
        if nodes > NODES_MAX {
            return Err(Stop::Failed(Error::new(ErrorKind::TooLarge, format!("{NODES_MAX} nodes can be pinned"))));
        }
        if entry.node.kind == NodeKind::File {
            files.push((entry.node.content, entry.node.size));
            continue;
        }
        let folder = entry.node.id;
        let mut members: Vec<Entry> = Vec::new();
        loop {
            let after = members.last().map(|entry| NodeName::new(&entry.node.name)).transpose()?;
            let page = shared.list(folder, after.as_ref(), LIST_MAX).await?;
            let is_last = page.len() < LIST_MAX;
            members.extend(page);
            if is_last || members.len() > NODES_MAX {
                break;
            }
        }
        waiting.extend(members.iter().cloned());
        let (name, kept) = (Name::Folder(folder), KeptFolder { entry: Some(entry), members, whole: true });
        let hash = hash_of(&kept);
        wanted.insert(name);
        if walked.folders.get(&folder) != Some(&hash) || !layouts.disk.are_pinned(&[name]) {
            let disk = layouts.disk.clone();
            let done: std::result::Result<(), Stop> = off(move || disk.keep(name, &kept, true)).await?.into();
            done?;
            walked.folders.insert(folder, hash);
        }
    }
    Ok(files)
}

fn hash_of(folder: &KeptFolder) -> u64 {
    let mut hasher = DefaultHasher::new();
    wire::encode(folder).hash(&mut hasher);
    hasher.finish()
}

/// Has all of a content on the disk, and answers what that is.
async fn fetch(shared: &Shared, layouts: &Layouts, content: ContentId) -> std::result::Result<Vec<Name>, Stop> {
    let layout = layouts.layout(shared, content).await?;
    let mut names = vec![Name::Content(content)];
    let (disk, whole) = (layouts.disk.clone(), layout.content.clone());
    let kept: std::result::Result<(), Stop> =
        off(move || disk.keep(Name::Content(content), &whole, true)).await?.into();
    kept?;
    let chunks = layout.content.blocks.div_ceil(MANIFEST_CHUNK_BLOCKS as u64);
    for number in 0..chunks {
        let chunk = layouts.chunk(shared, &layout, number).await?;
        let (disk, name, whole) = (layouts.disk.clone(), Name::Manifest(content, number), chunk.clone());
        let kept: std::result::Result<(), Stop> = off(move || disk.keep(name, &*whole, true)).await?.into();
        kept?;
        names.push(name);
        let first = number * MANIFEST_CHUNK_BLOCKS as u64;
        let blocks = (first..).zip(chunk.blocks.iter().copied());
        stream::iter(blocks)
            .map(|(index, id)| block(shared, layouts, &layout, (index, id)))
            .buffer_unordered(BLOCKS)
            .try_collect::<Vec<()>>()
            .await?;
        names.extend(chunk.blocks.iter().map(|id| Name::Block(*id)));
    }
    Ok(names)
}

/// Has a block on the disk, which opens.
async fn block(
    shared: &Shared,
    layouts: &layouts::Layouts,
    layout: &Layout,
    (index, id): (u64, BlockId),
) -> std::result::Result<(), Stop> {
    let (disk, name) = (layouts.disk.clone(), Name::Block(id));
    let pinned = off(move || {
        // Of those that are pinned it was looked at when they were.
        let is_good = disk.are_pinned(&[name]) || disk.has(name) && disk.open_block(id).is_some();
        if is_good { disk.pin(name, true) } else { Kept::Failed }
    });
    match pinned.await? {
        Kept::Yes => return Ok(()),
        Kept::NoRoom => return Err(Stop::NoRoom),
        Kept::Failed => {}
    }
    let (record, _) = layouts.fetch(shared, layout.content.id, index, id).await?;
    let disk = layouts.disk.clone();
    off(move || disk.keep_block(id, &record, true)).await?.into()
}
