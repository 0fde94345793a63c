//! A site in memory that does what it is told to do wrong.

use crate::signs;
use crate::site::{Content, Incoming, Item, Kind, Listed, Site, Version, Wanted};
use crate::sum::Sum;
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::{ByteRange, DrivePath, Error, ErrorKind, NodeName, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of a block, so that a small file has many.
pub(super) const GRAIN: u64 = 64;
/// Members of a page, so that a small folder has several.
const PAGE: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Folder,
    File { bytes: Vec<u8>, modified_ns: i64 },
    Link(String),
}

/// What goes wrong, each at its own time.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Every such call of reading or writing fails in a way that may go by itself.
    pub(super) break_every: Option<u64>,
    /// The read of this number never answers.
    pub(super) hang_at: Option<u64>,
    /// A read gives a byte of itself in this time.
    pub(super) trickle: Option<Duration>,
    /// Files are listed this much larger than they are.
    pub(super) lie: u64,
    /// The read of this number comes after the file was replaced.
    pub(super) change_at: Option<u64>,
    /// After this many bytes written, there is no room.
    pub(super) room: Option<u64>,
    /// A listing takes so long.
    pub(super) far: Option<Duration>,
    /// What is told as the sum of each file.
    pub(super) sum: Option<Sum>,
    /// What stands can be read back.
    pub(super) reads_back: bool,
    /// Each call is refused like this.
    pub(super) refuse: Option<ErrorKind>,
    /// When the network to it is away.
    pub(super) away: Option<Away>,
}

/// A network that is away.
#[derive(Debug, Clone)]
pub(super) struct Away {
    pub(super) during: Range<Instant>,
    /// Calls are never answered; otherwise it is said at once.
    pub(super) silent: bool,
}

#[derive(Default)]
pub(super) struct Memory {
    pub(super) nodes: Mutex<BTreeMap<DrivePath, (Node, u64)>>,
    pub(super) parts: Mutex<BTreeMap<DrivePath, (String, Vec<u8>)>>,
    pub(super) faults: Mutex<Faults>,
    versions: AtomicU64,
    pub(super) reads: AtomicU64,
    calls: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) at_once: AtomicU64,
    pub(super) most_at_once: AtomicU64,
}

pub(super) fn path(text: &str) -> DrivePath {
    DrivePath::parse(text).expect(text)
}

impl Memory {
    pub(super) fn new(nodes: impl IntoIterator<Item = (DrivePath, Node)>) -> Arc<Self> {
        let memory = Arc::new(Self::default());
        memory.nodes.lock().insert(DrivePath::root(), (Node::Folder, 0));
        nodes.into_iter().for_each(|(path, node)| memory.put(&path, node));
        memory
    }

    pub(super) fn put(&self, path: &DrivePath, node: Node) {
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        self.nodes.lock().insert(path.clone(), (node, version));
    }

    /// All that is there.
    pub(super) fn tree(&self) -> BTreeMap<DrivePath, Node> {
        self.nodes.lock().iter().map(|(path, (node, _))| (path.clone(), node.clone())).collect()
    }

    fn item(&self, path: &DrivePath, node: &Node, version: u64) -> Item {
        let lie = self.faults.lock().lie;
        let (kind, size, modified_ns) = match node {
            Node::Folder => (Kind::Folder, 0, None),
            Node::File { bytes, modified_ns } => (Kind::File, bytes.len() as u64 + lie, Some(*modified_ns)),
            Node::Link(to) => (Kind::Link(to.clone()), 0, None),
        };
        let name = path.name().cloned().unwrap_or_else(|| NodeName::new("root").expect("a name"));
        Item { name, kind, size, modified_ns, mode: None, version: Version(version.to_string()) }
    }

    fn answer(&self) -> Result<()> {
        match self.faults.lock().refuse {
            Some(kind) => Err(Error::new(kind, "refused")),
            None => Ok(()),
        }
    }

    /// Goes over the network.
    async fn reach(&self) -> Result<()> {
        let away = self.faults.lock().away.clone().filter(|away| away.during.contains(&Instant::now()));
        match away {
            Some(Away { silent: true, .. }) => std::future::pending().await,
            Some(_) => Err(Error::unavailable("the network is away")),
            None => Ok(()),
        }
    }

    /// A call that moves content.
    fn call(&self) -> Result<()> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        match self.faults.lock().break_every {
            Some(every) if number.is_multiple_of(every) => Err(Error::unavailable("the network broke")),
            _ => Ok(()),
        }
    }

    fn check(&self, path: &DrivePath, replaces: Option<&Item>) -> Result<()> {
        let there = self.nodes.lock().get(path).map(|(_, version)| version.to_string());
        if there != replaces.map(|item| item.version.0.clone()) {
            return Err(Error::new(ErrorKind::PreconditionFailed, "changed meanwhile"));
        }
        let above = path.parent().expect("not the root");
        match self.nodes.lock().get(&above) {
            Some((Node::Folder, _)) => Ok(()),
            _ => Err(Error::not_found("its folder is not there")),
        }
    }
}

/// The site's handle.
#[derive(Clone)]
pub(super) struct Handle(pub(super) Arc<Memory>);

struct Reading {
    memory: Arc<Memory>,
    path: DrivePath,
    version: u64,
    bytes: Vec<u8>,
}

#[async_trait]
impl Content for Reading {
    async fn read(&self, range: ByteRange) -> Result<Bytes> {
        let number = self.memory.reads.fetch_add(1, Ordering::Relaxed);
        let (hang, trickle, change) = {
            let faults = self.memory.faults.lock();
            (faults.hang_at == Some(number), faults.trickle, faults.change_at == Some(number))
        };
        if hang {
            std::future::pending::<()>().await;
        }
        if let Some(each) = trickle {
            for _ in range.start..range.end {
                tokio::time::sleep(each).await;
                signs::current().alive();
            }
        }
        self.memory.reach().await?;
        self.memory.call()?;
        if change {
            self.memory.put(&self.path, Node::File { bytes: vec![9; self.bytes.len() + 7], modified_ns: 99 });
        }
        let end = usize::try_from(range.end).expect("small").min(self.bytes.len());
        let start = usize::try_from(range.start).expect("small").min(end);
        Ok(Bytes::copy_from_slice(&self.bytes[start..end]))
    }

    fn grain(&self) -> u64 {
        GRAIN
    }

    fn ahead(&self) -> usize {
        4
    }

    fn sum(&self) -> Option<Sum> {
        self.memory.faults.lock().sum.clone()
    }

    async fn is_still(&self) -> Result<bool> {
        Ok(self.memory.nodes.lock().get(&self.path).is_some_and(|(_, version)| *version == self.version))
    }
}

struct Writing {
    memory: Arc<Memory>,
    wanted: Wanted,
    stands: u64,
}

#[async_trait]
impl Incoming for Writing {
    fn stands_at(&self) -> u64 {
        self.stands
    }

    async fn read_back(&mut self, range: ByteRange) -> Result<Option<Bytes>> {
        if !self.memory.faults.lock().reads_back {
            return Ok(None);
        }
        let (parts, place) = (self.memory.parts.lock(), |at: u64| usize::try_from(at).expect("small"));
        let (_, part) = parts.get(&self.wanted.path).expect("begun");
        Ok(Some(Bytes::copy_from_slice(&part[place(range.start)..place(range.end)])))
    }

    fn grain(&self) -> u64 {
        GRAIN
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.memory.reach().await?;
        self.memory.call()?;
        let length = bytes.len() as u64;
        let written = self.memory.written.fetch_add(length, Ordering::Relaxed) + length;
        if self.memory.faults.lock().room.is_some_and(|room| written > room) {
            return Err(Error::new(ErrorKind::NoSpace, "the disk is full"));
        }
        let mut parts = self.memory.parts.lock();
        let (_, part) = parts.get_mut(&self.wanted.path).expect("begun");
        assert!(length == GRAIN || part.len() as u64 + length == self.wanted.size, "blocks are whole");
        part.extend_from_slice(&bytes);
        Ok(())
    }

    fn arrived(&self) -> u64 {
        self.memory.parts.lock().get(&self.wanted.path).map_or(0, |(_, part)| part.len() as u64)
    }

    async fn finish(self: Box<Self>) -> Result<Item> {
        self.memory.check(&self.wanted.path, self.wanted.replaces.as_ref())?;
        let (_, bytes) = self.memory.parts.lock().remove(&self.wanted.path).expect("begun");
        assert_eq!(bytes.len() as u64, self.wanted.size);
        self.memory.at_once.fetch_sub(1, Ordering::Relaxed);
        let node = Node::File { bytes, modified_ns: self.wanted.modified_ns.unwrap_or(0) };
        self.memory.put(&self.wanted.path, node);
        Handle(self.memory).look(&self.wanted.path).await.map(|item| item.expect("just put there"))
    }

    async fn pause(self: Box<Self>) {
        self.memory.at_once.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Site for Handle {
    fn address(&self) -> String {
        // Two of them are two places.
        format!("memory:{:p}", Arc::as_ptr(&self.0))
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        self.0.answer()?;
        let found = self.0.nodes.lock().get(path).cloned();
        Ok(found.map(|(node, version)| self.0.item(path, &node, version)))
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        self.0.answer()?;
        let far = self.0.faults.lock().far;
        if let Some(far) = far {
            tokio::time::sleep(far).await;
        }
        let nodes = self.0.nodes.lock().clone();
        let members = nodes.iter().filter(|(path, _)| path.parent().as_ref() == Some(folder));
        let mut items = members
            .map(|(path, (node, version))| self.0.item(path, node, *version))
            .filter(|item| after.is_none_or(|after| item.name > *after));
        let page: Vec<Item> = items.by_ref().take(PAGE).collect();
        Ok(Listed { items: page, refused: Vec::new(), more: items.next().is_some() })
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        self.0.reach().await?;
        self.0.answer()?;
        match self.0.nodes.lock().get(path) {
            Some((Node::File { bytes, .. }, version)) if version.to_string() == item.version.0 => {
                let (memory, path) = (Arc::clone(&self.0), path.clone());
                Ok(Arc::new(Reading { memory, path, version: *version, bytes: bytes.clone() }))
            }
            _ => Err(Error::new(ErrorKind::PreconditionFailed, "another version")),
        }
    }

    async fn make_folder(&self, path: &DrivePath) -> Result<()> {
        self.0.answer()?;
        assert!(self.0.nodes.lock().contains_key(&path.parent().expect("not the root")), "made from above");
        if !self.0.nodes.lock().contains_key(path) {
            self.0.put(path, Node::Folder);
        }
        Ok(())
    }

    async fn make_link(&self, path: &DrivePath, to: &str, replaces: Option<&Item>) -> Result<()> {
        self.0.answer()?;
        self.0.check(path, replaces)?;
        self.0.put(path, Node::Link(to.to_owned()));
        Ok(())
    }

    async fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Incoming>> {
        self.0.reach().await?;
        self.0.answer()?;
        self.0.check(&wanted.path, wanted.replaces.as_ref())?;
        let mut parts = self.0.parts.lock();
        let part = parts.entry(wanted.path.clone()).or_default();
        if part.0 != wanted.key {
            *part = (wanted.key.clone(), Vec::new());
        }
        let stands = part.1.len() as u64;
        let now = self.0.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.most_at_once.fetch_max(now, Ordering::Relaxed);
        Ok(Box::new(Writing { memory: Arc::clone(&self.0), wanted: wanted.clone(), stands }))
    }

    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        self.0.answer()?;
        let mut nodes = self.0.nodes.lock();
        let inside = nodes.keys().any(|other| other != path && path.contains(other));
        let same = nodes.get(path).is_some_and(|(_, version)| version.to_string() == item.version.0);
        if inside || !same {
            return Err(Error::conflict("not empty, or something else"));
        }
        nodes.remove(path);
        Ok(())
    }

    async fn settle(&self) -> Result<()> {
        self.0.answer()
    }
}
