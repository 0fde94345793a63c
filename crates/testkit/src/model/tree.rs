//! Paths, operations, and the tree with the effect of each operation on it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::data::incompressible;

/// A path below the model's root; the root itself is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Vec<String>);

impl TreePath {
    /// The root.
    pub fn root() -> Self {
        Self::default()
    }

    /// A path from text such as `a/b`.
    pub fn parse(text: &str) -> Self {
        let parts = text.split('/').filter(|part| !part.is_empty());
        Self(parts.map(str::to_owned).collect())
    }

    /// The path of `name` in this folder.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let mut parts = self.0.clone();
        parts.push(name.to_owned());
        Self(parts)
    }

    /// The folder it is in; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, parents) = self.0.split_last()?;
        Some(Self(parents.to_vec()))
    }

    /// Folders on the way to it, itself included.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// Whether it is `other` or below it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The same place below `to` that this has below `from`.
    fn moved(&self, from: &Self, to: &Self) -> Self {
        let below = self.0[from.0.len()..].iter();
        Self(to.0.iter().chain(below).cloned().collect())
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Op {
    /// GET of a file.
    Get { path: TreePath },
    /// PUT of `len` bytes made from `seed`.
    Put { path: TreePath, seed: u64, len: usize, tokens: bool },
    /// DELETE.
    Delete { path: TreePath, tokens: bool },
    /// MKCOL.
    Mkcol { path: TreePath, tokens: bool },
    /// COPY; `deep` is `Depth: infinity`, else 0.
    Copy { from: TreePath, to: TreePath, overwrite: bool, deep: bool, tokens: bool },
    /// MOVE.
    Move { from: TreePath, to: TreePath, overwrite: bool, tokens: bool },
    /// PROPPATCH that sets a dead property, or removes it.
    Proppatch { path: TreePath, name: String, value: Option<String>, tokens: bool },
    /// LOCK for writing; on nothing, it makes an empty file (RFC 4918 section 7.3).
    Lock { path: TreePath, deep: bool, exclusive: bool, tokens: bool },
    /// UNLOCK of the oldest lock taken on exactly this path.
    Unlock { path: TreePath },
}

impl Op {
    /// The bytes of a [`Op::Put`].
    pub fn content(seed: u64, len: usize) -> Arc<[u8]> {
        incompressible(seed, len).into()
    }
}

/// A file or folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The bytes of a file; `None` for a folder.
    pub content: Option<Arc<[u8]>>,
    /// Dead properties in the namespace of the tests.
    pub properties: BTreeMap<String, String>,
}

/// A write lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Where it was taken.
    pub root: TreePath,
    /// Whether it covers everything below.
    pub deep: bool,
    /// Whether it excludes all others.
    pub exclusive: bool,
    /// What the server calls it.
    pub token: String,
}

/// The tree as a correct server holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub(super) nodes: BTreeMap<TreePath, Node>,
    pub(super) locks: Vec<Lock>,
}

impl Default for Model {
    fn default() -> Self {
        Self { nodes: BTreeMap::from([(TreePath::root(), Node::default())]), locks: Vec::new() }
    }
}

impl Model {
    /// An empty root folder.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is at a path.
    pub fn node(&self, path: &TreePath) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Everything, folders before what they hold.
    pub fn nodes(&self) -> impl Iterator<Item = (&TreePath, &Node)> {
        self.nodes.iter()
    }

    /// The locks, oldest first.
    pub fn locks(&self) -> &[Lock] {
        &self.locks
    }

    /// Whether a path is a folder.
    pub fn is_folder(&self, path: &TreePath) -> bool {
        self.node(path).is_some_and(|node| node.content.is_none())
    }

    /// The model after an operation that succeeded.
    #[must_use]
    pub fn after(&self, op: &Op) -> Self {
        let mut after = self.clone();
        after.apply(op, "");
        after
    }

    /// Applies an operation that succeeded; `token` is what a LOCK returned.
    pub fn apply(&mut self, op: &Op, token: &str) {
        match op {
            Op::Get { .. } => {}
            Op::Put { path, seed, len, .. } => {
                let node = self.nodes.entry(path.clone()).or_default();
                node.content = Some(Op::content(*seed, *len));
            }
            Op::Delete { path, .. } => self.remove(path),
            Op::Mkcol { path, .. } => {
                self.nodes.insert(path.clone(), Node::default());
            }
            Op::Copy { from, to, deep, .. } => self.copy(from, to, *deep),
            Op::Move { from, to, .. } => {
                self.copy(from, to, true);
                self.remove(from);
            }
            Op::Proppatch { path, name, value, .. } => self.set_property(path, name, value.as_ref()),
            Op::Lock { path, deep, exclusive, .. } => {
                let empty = || Node { content: Some(Arc::from([])), ..Node::default() };
                self.nodes.entry(path.clone()).or_insert_with(empty);
                self.locks.push(Lock {
                    root: path.clone(),
                    deep: *deep,
                    exclusive: *exclusive,
                    token: token.to_owned(),
                });
            }
            Op::Unlock { path } => {
                if let Some(at) = self.locks.iter().position(|lock| lock.root == *path) {
                    self.locks.remove(at);
                }
            }
        }
    }

    fn set_property(&mut self, path: &TreePath, name: &str, value: Option<&String>) {
        let Some(node) = self.nodes.get_mut(path) else {
            return;
        };
        match value {
            Some(value) => node.properties.insert(name.to_owned(), value.clone()),
            None => node.properties.remove(name),
        };
    }

    fn remove(&mut self, path: &TreePath) {
        self.nodes.retain(|other, _| !other.is_within(path));
        self.locks.retain(|lock| !lock.root.is_within(path));
    }

    fn copy(&mut self, from: &TreePath, to: &TreePath, deep: bool) {
        let copied = |path: &TreePath| path == from || (deep && path.is_within(from));
        let nodes: Vec<(TreePath, Node)> = self
            .nodes
            .iter()
            .filter(|(path, _)| copied(path))
            .map(|(path, node)| (path.moved(from, to), node.clone()))
            .collect();
        self.nodes.retain(|other, _| !other.is_within(to));
        self.nodes.extend(nodes);
    }
}
