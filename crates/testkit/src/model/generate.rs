//! Random operations from a seed, over few names, so that they collide.

use super::tree::{Model, Op, TreePath};
use crate::rng::Prng;

/// How often each kind of operation is made, relative to the others.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named after the operations")]
pub struct Weights {
    pub get: u64,
    pub put: u64,
    pub delete: u64,
    pub mkcol: u64,
    pub copy: u64,
    pub rename: u64,
    pub proppatch: u64,
    pub lock: u64,
    pub unlock: u64,
}

impl Default for Weights {
    /// Trees that grow slowly, with few locks: under many, nothing else succeeds.
    fn default() -> Self {
        Self { get: 10, put: 25, delete: 10, mkcol: 15, copy: 10, rename: 10, proppatch: 10, lock: 4, unlock: 6 }
    }
}

impl Weights {
    /// The same without locks, whose tokens a restarted test would not know.
    #[must_use]
    pub fn without_locks(mut self) -> Self {
        (self.lock, self.unlock) = (0, 0);
        self
    }
}

/// Names that operations use: plain ones, and some that break careless code.
const NAMES: [&str; 7] = ["a", "b", "c", "a b", "100%", "\u{e9}&<", "b.txt"];
const PROPERTIES: [&str; 3] = ["colour", "note", "size"];
/// Folders on the way to a path, at most: deep enough for moves of trees with trees in them.
const MAX_DEPTH: u64 = 4;
/// Draws for an operation whose effect is settled; nearly always the first one is.
const MAX_TRIES: usize = 100;

/// An endless stream of operations.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: Prng,
    weights: Weights,
    max_bytes: u64,
}

impl Generator {
    /// Operations from a seed, with files up to 4 KiB and now and then up to `max_bytes`.
    pub fn new(seed: u64, weights: Weights, max_bytes: u64) -> Self {
        Self { rng: Prng::new(seed), weights, max_bytes }
    }

    /// The next operation for a tree in this state.
    pub fn next_op(&mut self, model: &Model) -> Op {
        for _ in 0..MAX_TRIES {
            let op = self.draw(model);
            if model.is_settled(&op) {
                return op;
            }
        }
        let path = TreePath::root();
        Op::Get { path }
    }

    fn draw(&mut self, model: &Model) -> Op {
        let w = self.weights;
        let kinds = [w.get, w.put, w.delete, w.mkcol, w.copy, w.rename, w.proppatch, w.lock, w.unlock];
        let mut at = self.rng.below(kinds.iter().sum());
        let mut kind = 0;
        while at >= kinds[kind] {
            at -= kinds[kind];
            kind += 1;
        }
        let tokens = self.rng.chance(0.7);
        match kind {
            0 => Op::Get { path: self.old_path(model) },
            1 => self.put(model, tokens),
            2 => Op::Delete { path: self.old_path(model), tokens },
            3 => Op::Mkcol { path: self.new_path(model), tokens },
            4 => Op::Copy {
                from: self.old_path(model),
                to: self.new_path(model),
                overwrite: self.rng.chance(0.7),
                deep: self.rng.chance(0.8),
                tokens,
            },
            5 => Op::Move {
                from: self.old_path(model),
                to: self.new_path(model),
                overwrite: self.rng.chance(0.7),
                tokens,
            },
            6 => self.proppatch(model, tokens),
            7 => Op::Lock {
                path: self.old_path(model),
                deep: self.rng.chance(0.5),
                exclusive: self.rng.chance(0.7),
                tokens,
            },
            _ => self.unlock(model),
        }
    }

    fn put(&mut self, model: &Model, tokens: bool) -> Op {
        let limit = match self.rng.below(20) {
            0 => self.max_bytes,
            1..5 => 1,
            _ => 4096,
        };
        Op::Put {
            path: self.new_path(model),
            seed: self.rng.next_u64(),
            len: self.rng.below(limit + 1) as usize,
            tokens,
        }
    }

    fn proppatch(&mut self, model: &Model, tokens: bool) -> Op {
        let value = format!("v{} <&> \u{e9}", self.rng.below(100));
        Op::Proppatch {
            path: self.old_path(model),
            name: (*self.rng.pick(&PROPERTIES)).to_owned(),
            value: self.rng.chance(0.8).then_some(value),
            tokens,
        }
    }

    fn unlock(&mut self, model: &Model) -> Op {
        let path = match model.locks() {
            [] => self.old_path(model),
            locks => self.rng.pick(locks).root.clone(),
        };
        Op::Unlock { path }
    }

    /// Mostly a path that exists, never the root.
    fn old_path(&mut self, model: &Model) -> TreePath {
        let existing: Vec<&TreePath> = model.nodes().map(|(path, _)| path).skip(1).collect();
        if existing.is_empty() || self.rng.chance(0.15) {
            return self.any_path();
        }
        (*self.rng.pick(&existing)).clone()
    }

    /// Mostly a path in a folder that exists.
    fn new_path(&mut self, model: &Model) -> TreePath {
        let shallow = |path: &TreePath| path.depth() < MAX_DEPTH as usize;
        let folders: Vec<&TreePath> =
            model.nodes().map(|(path, _)| path).filter(|path| model.is_folder(path) && shallow(path)).collect();
        if folders.is_empty() || self.rng.chance(0.1) {
            return self.any_path();
        }
        let folder = *self.rng.pick(&folders);
        folder.child(self.rng.pick::<&str>(&NAMES))
    }

    fn any_path(&mut self) -> TreePath {
        let mut path = TreePath::root();
        for _ in 0..=self.rng.below(MAX_DEPTH) {
            path = path.child(self.rng.pick::<&str>(&NAMES));
        }
        path
    }
}
