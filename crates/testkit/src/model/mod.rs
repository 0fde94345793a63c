//! A reference tree: what a correct `WebDAV` server would hold and answer, for random operations.
//!
//! [`Model`] is a plain map from paths to files and folders with their dead properties, and the
//! locks on them. [`Model::predict`] says which statuses RFC 4918 allows for an [`Op`];
//! [`play()`] sends the operation to a server, compares, and applies it to the model; [`check_tree`]
//! compares the whole tree. [`Generator`] makes operations from a seed over few names, so that they
//! collide. [`Workload`] runs several clients: each alone in its own folder and, one at a time, in
//! a shared one, so that every answer stays predictable.
//!
//! Where the RFC leaves a choice, the model allows each answer that it allows. Operations whose
//! *effect* it leaves open are not generated: a copy of a folder into itself, over its own
//! ancestor, or over a resource that holds a lock.

mod check;
mod generate;
mod locks;
mod play;
mod predict;
#[cfg(test)]
mod tests;
mod tree;
mod workload;

pub use check::{check_either, check_tree};
pub use generate::{Generator, Weights};
pub use play::{Failure, PROPERTY_NAMESPACE, play};
pub use predict::Prediction;
pub use tree::{Lock, Model, Node, Op, TreePath};
pub use workload::Workload;
