//! Random operations, compared with a small tree in memory.
//!
//! The model knows paths, contents, old versions, which names are one file, and the trash, and says for each operation what kind of error it ends with, if
//! any. After each sequence, paths and sums must be the same on both sides; after each operation, each file must have the number it had,
//! as many names as it has, and no other file's.

use super::stage::{Stage, path};
use crate::catalogue::Catalogue;
use holdfast_base::{ErrorKind, NodeId};
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

/// Sequences tried, and operations in each at most.
const SEQUENCES: usize = 40;
const OPERATIONS: usize = 40;

#[derive(Debug, Clone)]
enum Operation {
    Folder(String),
    Write(String, u64),
    Remove(String),
    Move(String, String, bool),
    Copy(String, String, bool),
    Link(String, String),
    RestoreVersion(String),
    RestoreTrash(usize),
    Purge(usize),
    Release,
}

fn operation() -> impl Strategy<Value = Operation> {
    let name = prop_oneof!["[ab]", "[ab]/[ab]", "[ab]/[ab]/[ab]"];
    let (one, two) = (name.clone(), name.clone());
    prop_oneof![
        3 => name.clone().prop_map(Operation::Folder),
        4 => (name.clone(), 0..50u64).prop_map(|(at, size)| Operation::Write(at, size)),
        2 => name.clone().prop_map(Operation::Remove),
        3 => (one.clone(), two.clone(), any::<bool>()).prop_map(|(from, to, over)| Operation::Move(from, to, over)),
        3 => (one.clone(), two.clone(), any::<bool>()).prop_map(|(from, to, over)| Operation::Copy(from, to, over)),
        3 => (one, two).prop_map(|(from, to)| Operation::Link(from, to)),
        1 => name.prop_map(Operation::RestoreVersion),
        1 => (0..4usize).prop_map(Operation::RestoreTrash),
        1 => (0..4usize).prop_map(Operation::Purge),
        1 => any::<bool>().prop_map(|_| Operation::Release),
    ]
}

/// A content, by a number of the model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bytes {
    id: u64,
    size: u64,
}

/// A node of the model: a folder, or a name of a file with its content and its old versions.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Model {
    Folder,
    File { file: u64, now: Bytes, old: Vec<Bytes> },
}

impl Model {
    /// Gets other content, as a version that may be its own already.
    fn becomes(&mut self, new: Bytes) {
        if let Self::File { now, old, .. } = self {
            if let Some(at) = old.iter().rposition(|bytes| *bytes == new) {
                old.remove(at);
            }
            if now.size > 0 {
                old.push(*now);
            }
            *now = new;
        }
    }
}

type Tree = BTreeMap<String, Model>;

/// A subtree: its top has the empty path, the rest begin with a slash.
#[derive(Debug, Clone, Default)]
struct World {
    tree: Tree,
    trash: Vec<(String, Tree)>,
    numbers: u64,
}

fn is_below(at: &str, folder: &str) -> bool {
    at.len() > folder.len() && at.starts_with(folder) && at.as_bytes()[folder.len()] == b'/'
}

impl World {
    fn parent_is_folder(&self, at: &str) -> bool {
        at.rsplit_once('/').is_none_or(|(parent, _)| self.tree.get(parent) == Some(&Model::Folder))
    }

    fn cut(&mut self, at: &str) -> Tree {
        let subtree = self.peek(at);
        self.tree.retain(|other, _| other != at && !is_below(other, at));
        subtree
    }

    fn peek(&self, at: &str) -> Tree {
        let inside = self.tree.iter().filter(|(other, _)| *other == at || is_below(other, at));
        inside.map(|(other, node)| (other[at.len()..].to_owned(), node.clone())).collect()
    }

    fn paste(&mut self, at: &str, subtree: &Tree) {
        self.tree.extend(subtree.iter().map(|(below, node)| (format!("{at}{below}"), node.clone())));
    }

    /// What goes to the trash is a file of its own, unless it was one.
    fn discard(&mut self, at: &str) {
        if self.tree.contains_key(at) {
            let names: HashMap<u64, usize> = self.names();
            let mut subtree = self.cut(at);
            for node in subtree.values_mut() {
                if let Model::File { file, .. } = node
                    && names.get(file).is_some_and(|names| *names > 1)
                {
                    *file = self.number();
                }
            }
            self.trash.push((at.to_owned(), subtree));
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// How many names each file has.
    fn names(&self) -> HashMap<u64, usize> {
        let mut names = HashMap::new();
        for node in self.tree.values() {
            if let Model::File { file, .. } = node {
                *names.entry(*file).or_default() += 1;
            }
        }
        names
    }

    /// A file gets content under each of its names.
    fn change(&mut self, changed: u64, new: Bytes) {
        for node in self.tree.values_mut() {
            if matches!(node, Model::File { file, .. } if *file == changed) {
                node.becomes(new);
            }
        }
    }

    fn link(&mut self, from: &str, to: &str) -> Result<(), ErrorKind> {
        let source = self.tree.get(from).ok_or(ErrorKind::NotFound)?.clone();
        let Model::File { file, now, .. } = source else { return Err(ErrorKind::WrongKind) };
        match to.rsplit_once('/').map(|(parent, _)| self.tree.get(parent)) {
            Some(None) => return Err(ErrorKind::NotFound),
            Some(Some(Model::File { .. })) => return Err(ErrorKind::WrongKind),
            Some(Some(Model::Folder)) | None => {}
        }
        if self.tree.contains_key(to) {
            return Err(ErrorKind::AlreadyExists);
        }
        self.tree.insert(to.to_owned(), Model::File { file, now, old: Vec::new() });
        Ok(())
    }

    fn ends(&self, from: &str, to: &str, overwrite: bool) -> Result<(), ErrorKind> {
        if !self.tree.contains_key(from) {
            return Err(ErrorKind::NotFound);
        }
        if from == to {
            return Err(ErrorKind::Forbidden);
        }
        if !self.parent_is_folder(to) {
            return Err(ErrorKind::Conflict);
        }
        if self.tree.contains_key(to) && !overwrite {
            return Err(ErrorKind::PreconditionFailed);
        }
        Ok(())
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), ErrorKind> {
        match operation {
            Operation::Folder(at) => self.make_folder(at),
            Operation::Write(at, size) => self.write(at, *size),
            Operation::Remove(at) => {
                self.tree.get(at).ok_or(ErrorKind::NotFound)?;
                self.discard(at);
                Ok(())
            }
            Operation::Move(from, to, overwrite) => {
                if is_below(to, from) {
                    return Err(ErrorKind::Conflict);
                }
                self.ends(from, to, *overwrite)?;
                let subtree = self.cut(from);
                self.discard(to);
                self.paste(to, &subtree);
                Ok(())
            }
            Operation::Copy(from, to, overwrite) => {
                self.ends(from, to, *overwrite)?;
                let mut subtree = self.peek(from);
                for node in subtree.values_mut() {
                    if let Model::File { file, old, .. } = node {
                        *file = self.number();
                        old.clear();
                    }
                }
                self.discard(to);
                self.paste(to, &subtree);
                Ok(())
            }
            Operation::Link(from, to) => self.link(from, to),
            Operation::RestoreVersion(at) => self.restore_version(at),
            Operation::RestoreTrash(index) => self.restore_trash(*index),
            Operation::Purge(index) => {
                let newest_first = self.trash.len().checked_sub(index + 1).ok_or(ErrorKind::NotFound)?;
                self.trash.remove(newest_first);
                Ok(())
            }
            Operation::Release => Ok(()),
        }
    }

    fn make_folder(&mut self, at: &str) -> Result<(), ErrorKind> {
        if self.tree.contains_key(at) {
            return Err(ErrorKind::AlreadyExists);
        }
        if !self.parent_is_folder(at) {
            return Err(ErrorKind::Conflict);
        }
        self.tree.insert(at.to_owned(), Model::Folder);
        Ok(())
    }

    fn write(&mut self, at: &str, new: u64) -> Result<(), ErrorKind> {
        if !self.parent_is_folder(at) {
            return Err(ErrorKind::Conflict);
        }
        let (file, id) = (self.number(), self.number());
        let empty = Model::File { file, now: Bytes { id: 0, size: 0 }, old: Vec::new() };
        match self.tree.entry(at.to_owned()).or_insert(empty) {
            Model::Folder => Err(ErrorKind::WrongKind),
            Model::File { file, .. } => {
                let file = *file;
                self.change(file, Bytes { id, size: new });
                Ok(())
            }
        }
    }

    /// The newest old version becomes current.
    fn restore_version(&mut self, at: &str) -> Result<(), ErrorKind> {
        match self.tree.get_mut(at) {
            Some(Model::File { file, old, .. }) => {
                let (file, restored) = (*file, *old.last().ok_or(ErrorKind::NotFound)?);
                self.change(file, restored);
                Ok(())
            }
            _ => Err(ErrorKind::NotFound),
        }
    }

    fn restore_trash(&mut self, index: usize) -> Result<(), ErrorKind> {
        let newest_first = self.trash.len().checked_sub(index + 1).ok_or(ErrorKind::NotFound)?;
        let (at, subtree) = self.trash[newest_first].clone();
        if !self.parent_is_folder(&at) {
            return Err(ErrorKind::Conflict);
        }
        if self.tree.contains_key(&at) {
            return Err(ErrorKind::AlreadyExists);
        }
        self.trash.remove(newest_first);
        self.paste(&at, &subtree);
        Ok(())
    }

    /// Bytes used and old versions' part.
    fn used(&self) -> (u64, u64) {
        let all = self.tree.values().chain(self.trash.iter().flat_map(|(_, subtree)| subtree.values()));
        all.fold((0, 0), |(used, versions), node| match node {
            Model::Folder => (used, versions),
            Model::File { now, old, .. } => {
                let more: u64 = old.iter().map(|bytes| bytes.size).sum();
                (used + now.size + more, versions + more)
            }
        })
    }

    /// Paths that end with a name, as search tells them.
    fn named(&self, name: &str) -> Vec<String> {
        let named = self.tree.keys().filter(|at| at.rsplit('/').next() == Some(name));
        named.map(|at| format!("/{at}")).collect()
    }

    fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self
            .tree
            .iter()
            .map(|(at, node)| if *node == Model::Folder { format!("{at}/") } else { at.clone() })
            .collect();
        paths.sort();
        paths
    }
}

/// What the catalogue does.
async fn perform(stage: &Stage, operation: &Operation) -> Result<(), ErrorKind> {
    let catalogue = &stage.catalogue;
    let entry = async |index: usize| {
        let trash = catalogue.trash(stage.space, None, 9).await.expect("reads");
        trash.get(index).map(|entry| entry.id).ok_or(ErrorKind::NotFound)
    };
    let result = match operation {
        Operation::Folder(at) => catalogue.make_folder(stage.space, &path(at), &stage.guard()).await.map(drop),
        Operation::Write(at, size) => stage.try_write(at, *size, &stage.guard()).await.map(drop),
        Operation::Remove(at) => stage.remove(at).await,
        Operation::Move(from, to, overwrite) => stage.relocate(from, to, *overwrite).await.map(drop),
        Operation::Copy(from, to, overwrite) => stage.copy(from, to, *overwrite).await.map(drop),
        Operation::Link(from, to) => stage.link(&path(from), &path(to), &stage.guard()).await.map(drop),
        Operation::RestoreVersion(at) => {
            let node = stage.node(at).await.ok_or(ErrorKind::NotFound)?;
            let versions = catalogue.versions(node.id).await.expect("reads");
            let newest = versions.first().ok_or(ErrorKind::NotFound)?.seq;
            catalogue.restore_version(stage.space, &path(at), newest, &stage.guard()).await.map(drop)
        }
        Operation::RestoreTrash(index) => {
            let id = entry(*index).await?;
            catalogue.restore_trash(stage.space, id, None, &stage.guard()).await.map(drop)
        }
        Operation::Purge(index) => {
            let id = entry(*index).await?;
            catalogue.purge_trash(stage.space, Some(id)).await.map(drop)
        }
        Operation::Release => catalogue.release_garbage(5).await.map(drop),
    };
    result.map_err(|error| error.kind())
}

/// Each file has the number that it had, as many names as it has, and another number than all others.
async fn look_at_numbers(stage: &Stage, world: &World, numbers: &mut HashMap<u64, NodeId>) {
    let (names, mut seen) = (world.names(), HashMap::new());
    for (at, node) in &world.tree {
        let Model::File { file, .. } = node else { continue };
        let id = stage.node(at).await.expect(at).id;
        let entry = stage.catalogue.entry(stage.space, id).await.expect("reads").expect(at);
        assert_eq!(entry.node.name, at.rsplit('/').next().unwrap_or(at), "a node is found by its own number");
        assert_eq!(entry.names() as usize, names[file], "{at}");
        assert_eq!(*numbers.entry(*file).or_insert(entry.number()), entry.number(), "{at}");
        assert_eq!(*seen.entry(entry.number()).or_insert(*file), *file, "{at}");
        let by_number = stage.catalogue.entry(stage.space, entry.number()).await.expect("reads").expect(at);
        assert_eq!((by_number.number(), by_number.node.content), (entry.number(), entry.node.content), "{at}");
    }
}

pub async fn random_operations_do_what_the_model_does(catalogue: &Place) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let sequence = proptest::collection::vec(operation(), 1..OPERATIONS);
    for number in 0..SEQUENCES {
        let operations = sequence.new_tree(&mut runner).expect("makes a sequence").current();
        let (account, home) = Stage::account(catalogue, &format!("account{number}")).await;
        let stage = Stage { catalogue: Arc::clone(catalogue), account, space: home.id };
        let (mut world, mut numbers) = (World::default(), HashMap::new());
        for (step, operation) in operations.iter().enumerate() {
            let (expected, actual) = (world.apply(operation), perform(&stage, operation).await);
            assert_eq!(actual, expected, "sequence {number}, step {step}: {operations:#?}");
            look_at_numbers(&stage, &world, &mut numbers).await;
        }
        assert_eq!(stage.tree().await, world.paths(), "{operations:#?}");
        for name in ["a", "b"] {
            let mut found = stage.search_paths(name).await;
            found.sort();
            assert_eq!(found, world.named(name), "{operations:#?}");
        }
        assert_eq!(stage.used().await, world.used(), "{operations:#?}");
        super::finish(catalogue).await;
    }
}
