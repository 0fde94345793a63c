//! Walking folders page by page and writing each member's response.
//!
//! A stack holds the folders still to be listed, with the name the next page begins after; one page of nodes is in memory,
//! and of its dead properties those of a few nodes. Depth infinity lists depth first: a page's folders go on the stack
//! above the rest of their own folder, so the stack holds at most the nodes that the limit on infinity allows. For the same
//! reason the hrefs of all folders on the way are beginnings of one string, and no folder on the stack needs its own.

use crate::call::Call;
use crate::href;
use crate::limits::{ANSWER_PIECE_BYTES, LIST_PAGE_NODES, PROPERTIES_PAGE_NODES};
use crate::multistatus::EPILOGUE;
use crate::parse::Depth;
use crate::props::{Facts, Quota, Renderer, Saved};
use crate::smart::Shown;
use bytes::Bytes;
use holdfast_base::{ErrorKind, NodeId, NodeName, Result};
use holdfast_drive::{Location, Lock, Node, NodeKind, Property, Role};
use std::collections::HashMap;
use std::sync::Arc;

/// A lock and the href of its root.
type Rooted = (Lock, String);

/// What is the same for all nodes of a space.
pub(super) struct Place {
    pub(super) space: String,
    pub(super) role: Role,
    pub(super) quota: Option<Quota>,
}

impl Place {
    /// The list of spaces, which can only be read.
    pub(super) const fn top() -> Self {
        Self { space: String::new(), role: Role::Reader, quota: None }
    }
}

/// A folder to be listed.
pub(super) struct Level {
    folder: Node,
    /// How far below the first folder; 0 for that one, whose href is `first_href`.
    depth: usize,
    first_href: String,
    place: Arc<Place>,
    /// Deep locks on the folder or above it.
    inherited: Arc<Vec<Rooted>>,
    after: Option<NodeName>,
}

impl Level {
    pub(super) fn new(folder: Node, href: String, place: Arc<Place>, inherited: Vec<Rooted>) -> Self {
        Self { folder, depth: 0, first_href: href, place, inherited: Arc::new(inherited), after: None }
    }
}

/// A page of members being written.
struct Page {
    nodes: Vec<Node>,
    next: usize,
    depth: usize,
    place: Arc<Place>,
    inherited: Arc<Vec<Rooted>>,
    own: HashMap<NodeId, Vec<Rooted>>,
    dead: HashMap<NodeId, Vec<Property>>,
    /// Dead properties are at hand for nodes before this one.
    dead_until: usize,
}

/// See the module.
pub(super) struct Listing {
    call: Call,
    pub(super) renderer: Renderer,
    pub(super) out: String,
    depth: Depth,
    stack: Vec<Level>,
    page: Option<Page>,
    /// The href of the folder being listed.
    href: String,
    /// Where in `href` the folder of each depth ends.
    ends: Vec<usize>,
    /// What a saved search found and is still to be written, and the href of that.
    hits: Arc<[Shown]>,
    hits_written: usize,
    hits_href: String,
    /// Deep locks on folders that hits lie in, as far as they were looked up.
    locks_above: HashMap<Location, Arc<Vec<Rooted>>>,
    finished: bool,
}

impl Listing {
    pub(super) fn new(call: Call, renderer: Renderer, depth: Depth) -> Self {
        Self {
            call,
            renderer,
            out: new_piece(),
            depth,
            stack: Vec::new(),
            page: None,
            href: String::new(),
            ends: Vec::new(),
            hits: Arc::default(),
            hits_written: 0,
            hits_href: String::new(),
            locks_above: HashMap::new(),
            finished: false,
        }
    }

    pub(super) const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Puts a folder on the list of those whose members are written.
    pub(super) fn enter(&mut self, level: Level) {
        self.stack.push(level);
    }

    /// Writes one response.
    pub(super) fn push_one(
        &mut self,
        place: &Place,
        href: &str,
        node: Option<&Node>,
        dead: &[Property],
        locks: &[Rooted],
        checksums: Option<&str>,
    ) {
        let name = match node {
            Some(node) if node.parent.is_none() => &place.space,
            Some(node) => &node.name,
            None => "",
        };
        let (role, quota, pinned) = (place.role, place.quota, !self.call.aliases.is_empty());
        let facts = Facts { href, name, node, saved: None, pinned, role, dead, locks, quota, checksums };
        self.renderer.push(&mut self.out, &facts);
    }

    /// Writes the response of a saved search, or of their list.
    pub(super) fn push_saved(&mut self, href: &str, name: &str, saved: &Saved) {
        let facts = Facts {
            href,
            name,
            node: None,
            saved: Some(saved),
            pinned: false,
            role: Role::Reader,
            dead: &[],
            locks: &[],
            quota: None,
            checksums: None,
        };
        self.renderer.push(&mut self.out, &facts);
    }

    /// Writes what a saved search found, whose own href this is.
    pub(super) fn enter_search(&mut self, href: String, hits: Arc<[Shown]>) {
        (self.hits_href, self.hits) = (href, hits);
    }

    /// The next piece of the answer; none after the last.
    pub(super) async fn next_piece(&mut self) -> Result<Option<Bytes>> {
        if self.finished {
            return Ok(None);
        }
        while self.out.len() < ANSWER_PIECE_BYTES {
            if let Some(page) = self.page.take() {
                self.page = self.write(page).await?;
            } else if let Some(level) = self.stack.pop() {
                self.page = self.load(level).await?;
            } else if self.hits_written < self.hits.len() {
                self.write_hits().await?;
            } else {
                self.out.push_str(EPILOGUE);
                self.finished = true;
                break;
            }
        }
        let piece =
            if self.finished { std::mem::take(&mut self.out) } else { std::mem::replace(&mut self.out, new_piece()) };
        Ok(Some(piece.into()))
    }

    /// Makes `self.href` the folder's.
    fn go_to(&mut self, level: &Level) {
        match level.depth.checked_sub(1).and_then(|above| self.ends.get(above)) {
            None => self.href.clone_from(&level.first_href),
            Some(&end) => {
                self.href.truncate(end);
                href::push_segment(&mut self.href, &level.folder.name);
                self.href.push('/');
            }
        }
        self.ends.truncate(level.depth);
        self.ends.push(self.href.len());
    }

    /// Reads the next page of a folder and notes where it goes on. A folder that is gone by now has no members.
    async fn load(&mut self, mut level: Level) -> Result<Option<Page>> {
        self.go_to(&level);
        let call = &self.call;
        let nodes = match call.drive.list(&call.who, &level.folder, level.after.as_ref(), LIST_PAGE_NODES).await {
            Ok(nodes) => nodes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut own: HashMap<NodeId, Vec<Rooted>> = HashMap::new();
        if self.renderer.plan.wants_locks() && !nodes.is_empty() {
            let folders = |id| nodes.iter().any(|node| node.id == id && node.kind == NodeKind::Folder);
            for lock in call.drive.locks(&call.who, &nodes).await? {
                let names = lock.path.names().iter().map(AsRef::as_ref);
                let root = href::of_names(&call.options.prefix, &level.place.space, names, folders(lock.node));
                own.entry(lock.node).or_default().push((lock, root));
            }
        }
        let page = Page {
            next: 0,
            depth: level.depth,
            place: level.place.clone(),
            inherited: level.inherited.clone(),
            own,
            dead: HashMap::new(),
            dead_until: if self.renderer.plan.wants_dead() { 0 } else { nodes.len() },
            nodes,
        };
        if let Some(last) = page.nodes.last()
            && page.nodes.len() == LIST_PAGE_NODES
        {
            level.after = Some(NodeName::new(&last.name)?);
            self.stack.push(level);
        }
        if self.depth == Depth::Infinity {
            self.enter_folders(&page);
        }
        Ok(Some(page))
    }

    fn enter_folders(&mut self, page: &Page) {
        for node in page.nodes.iter().rev().filter(|node| node.kind == NodeKind::Folder) {
            let deep = page.own.get(&node.id).into_iter().flatten().filter(|(lock, _)| lock.deep);
            let mut inherited = page.inherited.clone();
            let deep: Vec<_> = deep.cloned().collect();
            if !deep.is_empty() {
                Arc::make_mut(&mut inherited).extend(deep);
            }
            self.stack.push(Level {
                folder: node.clone(),
                depth: page.depth + 1,
                first_href: String::new(),
                place: page.place.clone(),
                inherited,
                after: None,
            });
        }
    }

    /// Writes nodes until the piece or the page is full; answers the page if something of it is left.
    async fn write(&mut self, mut page: Page) -> Result<Option<Page>> {
        let mut href = self.href.clone();
        while let Some(node) = page.nodes.get(page.next) {
            if self.out.len() >= ANSWER_PIECE_BYTES {
                return Ok(Some(page));
            }
            if page.next == page.dead_until {
                (page.dead, page.dead_until) = self.dead_properties(&page.nodes, page.next).await?;
                continue;
            }
            href.truncate(self.href.len());
            href::push_segment(&mut href, &node.name);
            if node.kind == NodeKind::Folder {
                href.push('/');
            }
            let dead = page.dead.get(&node.id).map(Vec::as_slice).unwrap_or_default();
            match page.own.get(&node.id) {
                None => self.push_one(&page.place, &href, Some(node), dead, &page.inherited, None),
                Some(own) => {
                    let locks: Vec<_> = page.inherited.iter().chain(own).cloned().collect();
                    self.push_one(&page.place, &href, Some(node), dead, &locks, None);
                }
            }
            page.next += 1;
        }
        Ok(None)
    }

    /// Writes the next few hits, which may be of several spaces.
    async fn write_hits(&mut self) -> Result<()> {
        let all = Arc::clone(&self.hits);
        let mut hits: Vec<&Shown> = all.iter().skip(self.hits_written).take(PROPERTIES_PAGE_NODES).collect();
        self.hits_written += hits.len();
        hits.sort_by_key(|hit| hit.found.node.space);
        let (mut dead, mut locks) = (HashMap::new(), HashMap::<NodeId, Vec<Rooted>>::new());
        for hits in hits.chunk_by(|one, other| one.found.node.space == other.found.node.space) {
            let nodes: Vec<Node> = hits.iter().map(|hit| hit.found.node.clone()).collect();
            let (call, plan) = (&self.call, &self.renderer.plan);
            if plan.wants_dead() {
                let found = call.drive.properties(&call.who, &nodes).await?;
                dead.extend(nodes.iter().map(|node| node.id).zip(found));
            }
            let found = if plan.wants_locks() { call.drive.locks(&call.who, &nodes).await? } else { Vec::new() };
            for lock in found {
                let hit = hits.iter().find(|hit| hit.found.node.id == lock.node);
                let root = hit.map(|hit| self.href_of(hit)).unwrap_or_default();
                locks.entry(lock.node).or_default().push((lock, root));
            }
        }
        if self.renderer.plan.wants_locks() {
            for hit in &hits {
                let above = self.above(&hit.found.at).await?;
                if !above.is_empty() {
                    locks.entry(hit.found.node.id).or_default().extend(above.iter().cloned());
                }
            }
        }
        hits.sort_by(|one, other| one.name.cmp(&other.name));
        for hit in hits {
            let (href, node) = (self.href_of(hit), &hit.found.node);
            let facts = Facts {
                href: &href,
                name: hit.name.as_str(),
                node: Some(node),
                saved: None,
                pinned: true,
                role: hit.found.role,
                dead: dead.get(&node.id).map(Vec::as_slice).unwrap_or_default(),
                locks: locks.get(&node.id).map(Vec::as_slice).unwrap_or_default(),
                quota: None,
                checksums: None,
            };
            self.renderer.push(&mut self.out, &facts);
        }
        Ok(())
    }

    /// Deep locks on the folders above a place, each with the address of where it really is: the smart folder does not show that.
    async fn above(&mut self, at: &Location) -> Result<Arc<Vec<Rooted>>> {
        let Some(path) = at.path.parent() else { return Ok(Arc::default()) };
        let folder = Location { space: at.space.clone(), path };
        if let Some(known) = self.locks_above.get(&folder) {
            return Ok(Arc::clone(known));
        }
        let call = &self.call;
        let locks = match call.drive.walk(&call.who, &folder).await {
            Ok(walk) => call.drive.locks(&call.who, &walk.chain).await?,
            // It was moved away meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let rooted = |lock: Lock| {
            let root = Location { space: folder.space.clone(), path: lock.path.clone() };
            (lock, href::of(&call.options.prefix, &root, true))
        };
        let above = Arc::new(locks.into_iter().filter(|lock| lock.deep).map(rooted).collect());
        self.locks_above.insert(folder, Arc::clone(&above));
        Ok(above)
    }

    fn href_of(&self, hit: &Shown) -> String {
        let mut href = self.hits_href.clone();
        href::push_segment(&mut href, hit.name.as_str());
        if hit.found.node.kind == NodeKind::Folder {
            href.push('/');
        }
        href
    }

    /// Dead properties of the next few nodes that have any, and up to which node that is.
    async fn dead_properties(&self, nodes: &[Node], from: usize) -> Result<(HashMap<NodeId, Vec<Property>>, usize)> {
        let left = nodes.get(from..).unwrap_or_default();
        let having = left.iter().enumerate().filter(|(_, node)| node.has_properties);
        let batch: Vec<_> = having.take(PROPERTIES_PAGE_NODES).collect();
        let until = match batch.last() {
            Some((index, _)) if batch.len() == PROPERTIES_PAGE_NODES => from + index + 1,
            _ => nodes.len(),
        };
        if batch.is_empty() {
            return Ok((HashMap::new(), until));
        }
        let batch: Vec<Node> = batch.into_iter().map(|(_, node)| node.clone()).collect();
        let properties = self.call.drive.properties(&self.call.who, &batch).await?;
        Ok((batch.iter().map(|node| node.id).zip(properties).collect(), until))
    }
}

/// A piece grows a little past its mark, by the last response in it.
fn new_piece() -> String {
    String::with_capacity(ANSWER_PIECE_BYTES + 4 * 1_024)
}
