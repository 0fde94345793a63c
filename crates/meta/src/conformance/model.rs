//! Random operations, compared with a small tree in memory.
//!
//! The model knows paths, sizes, old versions and the trash, and says for each operation what kind of error it ends with, if
//! any. After each sequence, paths and sums must be the same on both sides.

use super::stage::{Stage, path};
use crate::catalogue::Catalogue;
use holdfast_base::ErrorKind;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
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
        3 => (one, two, any::<bool>()).prop_map(|(from, to, over)| Operation::Copy(from, to, over)),
        1 => name.prop_map(Operation::RestoreVersion),
        1 => (0..4usize).prop_map(Operation::RestoreTrash),
        1 => (0..4usize).prop_map(Operation::Purge),
        1 => any::<bool>().prop_map(|_| Operation::Release),
    ]
}

/// A node of the model: a folder, or a file with its size and its old versions' sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Model {
    Folder,
    File { size: u64, old: Vec<u64> },
}

type Tree = BTreeMap<String, Model>;

/// A subtree: its top has the empty path, the rest begin with a slash.
#[derive(Debug, Clone, Default)]
struct World {
    tree: Tree,
    trash: Vec<(String, Tree)>,
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

    fn discard(&mut self, at: &str) {
        if self.tree.contains_key(at) {
            let subtree = self.cut(at);
            self.trash.push((at.to_owned(), subtree));
        }
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
                    if let Model::File { old, .. } = node {
                        old.clear();
                    }
                }
                self.discard(to);
                self.paste(to, &subtree);
                Ok(())
            }
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
        match self.tree.entry(at.to_owned()).or_insert(Model::File { size: 0, old: Vec::new() }) {
            Model::Folder => return Err(ErrorKind::WrongKind),
            Model::File { size, old } => {
                if *size > 0 {
                    old.push(*size);
                }
                *size = new;
            }
        }
        Ok(())
    }

    /// The newest old version becomes current.
    fn restore_version(&mut self, at: &str) -> Result<(), ErrorKind> {
        match self.tree.get_mut(at) {
            Some(Model::File { size, old }) => {
                let restored = old.pop().ok_or(ErrorKind::NotFound)?;
                if *size > 0 {
                    old.push(*size);
                }
                *size = restored;
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
            Model::File { size, old } => {
                let more: u64 = old.iter().sum();
                (used + size + more, versions + more)
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

pub async fn random_operations_do_what_the_model_does(catalogue: &Place) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let sequence = proptest::collection::vec(operation(), 1..OPERATIONS);
    for number in 0..SEQUENCES {
        let operations = sequence.new_tree(&mut runner).expect("makes a sequence").current();
        let (account, home) = Stage::account(catalogue, &format!("account{number}")).await;
        let stage = Stage { catalogue: Arc::clone(catalogue), account, space: home.id };
        let mut world = World::default();
        for (step, operation) in operations.iter().enumerate() {
            let (expected, actual) = (world.apply(operation), perform(&stage, operation).await);
            assert_eq!(actual, expected, "sequence {number}, step {step}: {operations:#?}");
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
