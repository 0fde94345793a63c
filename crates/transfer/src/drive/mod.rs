//! A space of a drive, over the network: content is sealed and opened on this side ([`holdfast_remote::client::Space`]).
//!
//! A file of a block at most is one request; a longer one is a resumable upload, which the server keeps for a week, found again by what it is made of.
//! Blocks that the space has are named and not sent. What comes in is proved by the manifest and the blocks' ids.
//!
//! Times are kept to the millisecond, and of permissions only whether a file can be run.
//!
//! Limits: numbers of [`FOLDERS_MAX`] folders are remembered; [`content`] and [`outgoing`] say how much of a file is in memory.

mod choose;
mod chosen;
mod connect;
mod content;
mod first;
mod outgoing;
mod small;
mod tiny;

pub use chosen::{Chosen, Why};
pub use connect::{Reach, connect};
pub use holdfast_remote::client::Plane;

use crate::{Content, Incoming, Item, Kind, Listed, Network, Site, Version, Wanted};
use async_trait::async_trait;
use bytes::Bytes;
use choose::Late;
use chosen::Memory;
use content::DriveContent;
use first::First;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ContentId, DrivePath, Error, ErrorKind, NodeId, NodeName, Result};
use holdfast_drive::{Entry, Expect, Leave, NewNode, NodeKind, Posix, Rename, Special, Taken, Unlink};
use holdfast_remote::client::{Options, Space};
use holdfast_remote::wire::Seen;
use outgoing::Outgoing;
use parking_lot::Mutex;
use small::Small;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tiny::Tiny;

/// Folders whose numbers are remembered; a walk to another is a request for each name.
const FOLDERS_MAX: usize = 16 << 10;
/// Nanoseconds in a millisecond.
const NS_PER_MS: i64 = 1_000_000;

/// The space.
pub struct DriveSite {
    space: Space,
    /// As it was given, without secrets.
    address: String,
    folders: Mutex<HashMap<DrivePath, NodeId>>,
    tiny: Tiny,
    first: Option<First>,
    /// By which plane it is reached, and why.
    chosen: Arc<Mutex<Chosen>>,
}

impl DriveSite {
    /// A space that is connected to, with what was seen at a path meanwhile.
    pub fn new(space: Space, address: String, seen: Option<(DrivePath, Seen)>, chosen: Chosen) -> Self {
        let contents = seen.as_ref().map(|(_, seen)| seen.contents.clone()).unwrap_or_default();
        let tiny = Tiny::start(space.clone(), contents);
        let folders = Mutex::new(seen.as_ref().map(|(path, seen)| folders_on(path, &seen.way)).unwrap_or_default());
        let first = seen.map(|(path, seen)| First::new(path, seen));
        Self { space, address, folders, tiny, first, chosen: Arc::new(Mutex::new(chosen)) }
    }

    /// Has the plane looked after as long as this is used: one that answers `late` is taken then, one that falls silent is left, and another one is tried in the course of a long transfer.
    /// What is found out is kept.
    fn keep_choosing(&self, options: Options, reach: &Reach, memory: Memory, late: Option<Late>) {
        let (space, chosen, reach) = (self.space.clone(), self.chosen.clone(), reach.clone());
        let mut verdict = space.verdict();
        tokio::spawn(async move {
            if let Some(late) = late {
                match late.in_time().await {
                    Some((by_quic, found)) => {
                        space.go_on_by(&by_quic);
                        *chosen.lock() = found;
                    }
                    None => memory.keep(*chosen.lock(), SystemTime::now()),
                }
            }
            let known = !matches!(chosen.lock().why, Why::Near | Why::Far);
            space.keep_choosing(options, reach.connections, &reach.token, known);
            // Whoever uses it has it alone from here on.
            drop(space);
            while verdict.changed().await.is_ok() {
                let Some((about, found)) = *verdict.borrow_and_update() else { continue };
                let now = choose::after(*chosen.lock(), about, found);
                *chosen.lock() = now;
                // A small file, written at once.
                memory.keep(now, SystemTime::now());
            }
        });
    }

    /// The number of a folder, by its path in the space.
    async fn folder(&self, path: &DrivePath) -> Result<NodeId> {
        if let Some(known) = self.folders.lock().get(path) {
            return Ok(*known);
        }
        let mut at = self.space.root();
        for name in path.names() {
            let found = self.space.lookup(at, name).await?;
            let found = found.ok_or_else(|| Error::conflict(format!("the folder {path} does not exist")))?;
            if found.node.kind != NodeKind::Folder {
                return Err(Error::new(ErrorKind::WrongKind, format!("{name} of {path} is no folder")));
            }
            at = found.node.id;
        }
        self.learn(path, at);
        Ok(at)
    }

    fn learn(&self, path: &DrivePath, node: NodeId) {
        let mut folders = self.folders.lock();
        if folders.len() >= FOLDERS_MAX {
            folders.clear();
        }
        folders.insert(path.clone(), node);
    }

    /// A folder's number that turned out to be wrong is asked for again; whatever fails for it is tried again by the caller.
    fn forget(&self, path: &DrivePath) {
        self.folders.lock().retain(|known, _| !path.contains(known));
    }

    /// What is at a path of the space.
    async fn find(&self, path: &DrivePath) -> Result<Option<Entry>> {
        if let Some(found) = self.first.as_ref().and_then(|first| first.find(path)) {
            return Ok(found.into_iter().next());
        }
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return self.space.entry(self.space.root()).await;
        };
        match self.folder(&parent).await {
            Ok(folder) => {
                let found = self.space.lookup(folder, name).await?;
                if let Some(found) = found.as_ref().filter(|found| found.node.kind == NodeKind::Folder) {
                    self.learn(path, found.node.id);
                }
                Ok(found)
            }
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::WrongKind) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Nodes as items; those that are neither files nor folders nor links are refused.
    async fn items(&self, entries: Vec<Entry>) -> Result<Listed> {
        let mut listed = Listed::default();
        let mut links = Vec::new();
        for entry in entries {
            match entry.posix.map_or(Special::None, |posix| posix.special) {
                Special::None => listed.items.push(item(&entry)?),
                Special::Link => {
                    links.push((listed.items.len(), entry.node.content));
                    listed.items.push(item(&entry)?);
                }
                other => {
                    let why = Error::new(ErrorKind::WrongKind, format!("it is no file, folder or link ({other:?})"));
                    listed.refused.push((entry.node.name, why));
                }
            }
        }
        for (at, content) in links {
            let to = match content {
                Some(content) => self.tiny.read(content).await?,
                None => Bytes::new(),
            };
            let to = String::from_utf8(to.into()).map_err(|_| Error::damaged("a link's target is not UTF-8"))?;
            listed.items[at].kind = Kind::Link(to);
        }
        Ok(listed)
    }

    async fn one(&self, entry: Entry) -> Result<Option<Item>> {
        let mut listed = self.items(vec![entry]).await?;
        match listed.refused.pop() {
            Some((_, error)) => Err(error),
            None => Ok(listed.items.pop()),
        }
    }

    /// A link under a name of its own takes its place when it is whole.
    async fn put_link(&self, folder: NodeId, name: &NodeName, to: &str, taken: Taken) -> Result<()> {
        let posix = Posix { special: Special::Link, mode: 0o777, ..Posix::default() }.at(now_ns());
        let new = |name: NodeName| NewNode { parent: folder, name, kind: NodeKind::File, posix };
        let to = Bytes::copy_from_slice(to.as_bytes());
        if taken == Taken::Refuse {
            return self.space.create(new(name.clone()), to).await.map(drop);
        }
        let aside = name.marked(format_args!("({:x})", now_ns()));
        self.space.create(new(aside.clone()), to).await?;
        let leave = Leave { now_ns: now_ns(), held_until_ms: None, forget_after_ms: i64::MAX };
        let rename = Rename { from: (folder, aside), to: (folder, name.clone()), taken, leave };
        self.space.rename(rename).await
    }
}

/// Numbers of the folders that a path leads through.
fn folders_on(path: &DrivePath, way: &[Entry]) -> HashMap<DrivePath, NodeId> {
    let mut at = Some(DrivePath::root());
    let mut names = path.names().iter();
    let folders = way.iter().take_while(|entry| entry.node.kind == NodeKind::Folder);
    let each = folders.filter_map(|folder| {
        let here = at.take()?;
        at = names.next().and_then(|name| here.join(name.clone()).ok());
        Some((here, folder.node.id))
    });
    each.collect()
}

/// What a node's entry says; of a link, not yet where to.
fn item(entry: &Entry) -> Result<Item> {
    let node = &entry.node;
    // A space's root has no name of its own.
    let name = NodeName::new(if node.name.is_empty() { "space" } else { &node.name })?;
    let exact = entry.posix.filter(|posix| posix.mtime_ns.div_euclid(NS_PER_MS) == node.modified_ms);
    let kind = if node.kind == NodeKind::Folder { Kind::Folder } else { Kind::File };
    Ok(Item {
        name,
        kind,
        size: node.size,
        modified_ns: Some(exact.map_or(node.modified_ms.saturating_mul(NS_PER_MS), |posix| posix.mtime_ns)),
        mode: entry.posix.map(|posix| posix.mode),
        version: Version(format!("{}.{}", node.content.map_or(0, |content| content.0), node.seq)),
    })
}

/// Content and count of changes of what was listed.
fn listed_as(item: &Item) -> Result<(Option<ContentId>, i64)> {
    let parts =
        item.version.0.split_once('.').and_then(|(content, seq)| Some((content.parse().ok()?, seq.parse().ok()?)));
    let (content, seq) = parts.ok_or_else(|| Error::internal("an item of another site"))?;
    Ok(((content != 0).then_some(ContentId(content)), seq))
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[async_trait]
impl Site for DriveSite {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn network(&self) -> Option<Network> {
        let seen = self.space.network()?;
        let Chosen { why, remembered, .. } = *self.chosen.lock();
        let why = Some(why);
        Some(Network {
            plane: seen.plane,
            rtt: seen.rtt,
            lost: seen.lost,
            connections: seen.connections,
            why,
            remembered,
        })
    }

    fn takes_tags(&self) -> bool {
        true
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        match self.find(path).await? {
            Some(entry) => self.one(entry).await,
            None => Ok(None),
        }
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        let path = folder;
        let node = self.folder(path).await.map_err(|error| Error::not_found(error.message()))?;
        let known = self.first.as_ref().filter(|_| after.is_none()).and_then(|first| first.list(path));
        let found = match known {
            Some(known) => known,
            None => self.space.list(node, after).await?,
        };
        let more = found.len() >= holdfast_remote::wire::LIST_MAX;
        for entry in found.iter().filter(|entry| entry.node.kind == NodeKind::Folder) {
            self.learn(&path.join(NodeName::new(&entry.node.name)?)?, entry.node.id);
        }
        let listed = self.items(found).await?;
        Ok(Listed { more, ..listed })
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        let Some(content) = listed_as(item)?.0 else { return Ok(Arc::new(DriveContent::empty())) };
        let layout = self.tiny.layout(content).await?;
        let gone = || Error::new(ErrorKind::PreconditionFailed, format!("{path} has changed since it was listed"));
        Ok(Arc::new(DriveContent::of(self.space.clone(), layout.ok_or_else(gone)?)?))
    }

    async fn make_folder(&self, path: &DrivePath) -> Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Ok(()) };
        let folder = self.folder(&parent).await?;
        let posix = Posix { mode: 0o755, ..Posix::default() }.at(now_ns());
        let new = NewNode { parent: folder, name: name.clone(), kind: NodeKind::Folder, posix };
        let made = match self.space.create(new, Bytes::new()).await {
            Ok(made) => made,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let found = self.space.lookup(folder, name).await?;
                found.filter(|found| found.node.kind == NodeKind::Folder).ok_or(error)?
            }
            Err(error) => {
                self.forget(&parent);
                return Err(error);
            }
        };
        self.learn(path, made.node.id);
        Ok(())
    }

    async fn make_link(&self, path: &DrivePath, to: &str, replaces: Option<&Item>) -> Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::new(ErrorKind::WrongKind, "a space's root cannot be a link"));
        };
        let folder = self.folder(&parent).await?;
        let taken = if replaces.is_some() { Taken::Replace } else { Taken::Refuse };
        self.put_link(folder, name, to, taken).await
    }

    async fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Incoming>> {
        let path = wanted.path.clone();
        let expect = match &wanted.replaces {
            Some(item) => Expect::Seq(listed_as(item)?.1),
            None => Expect::Absent,
        };
        if wanted.size > 0 && wanted.size <= BLOCK_BYTES as u64 {
            return Ok(Box::new(Small::new(self.space.clone(), path, wanted, expect)));
        }
        Ok(Box::new(Outgoing::begin(self.space.clone(), path, wanted, expect).await?))
    }

    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::new(ErrorKind::WrongKind, "a space's root is not removed"));
        };
        let folder = self.folder(&parent).await?;
        let found = self.space.lookup(folder, name).await?;
        let Some(found) = found else { return Ok(()) };
        if self::item(&found)?.version != item.version && item.kind != Kind::Folder {
            return Err(Error::new(ErrorKind::PreconditionFailed, format!("{path} has changed since it was listed")));
        }
        self.forget(path);
        // Into the trash, whenever it was made.
        let leave = Leave { now_ns: now_ns(), held_until_ms: None, forget_after_ms: i64::MAX };
        let unlink = Unlink { parent: folder, name: name.clone(), folder: item.kind == Kind::Folder, leave };
        match self.space.unlink(unlink).await {
            // An answer was lost.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done.map(drop),
        }
    }

    async fn settle(&self) -> Result<()> {
        self.space.settle().await
    }
}
