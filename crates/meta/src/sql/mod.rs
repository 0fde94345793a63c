//! The operations of the catalogue, written once for every database.
//!
//! **How it works.** An operation reads what it needs, changes it in memory and writes it back, inside a transaction in
//! which nothing of its space changes in between: an [`engine`] gives it a connection ([`seam`]) and keeps others away, SQLite
//! because it has one writer, PostgreSQL by row locks ([`tx`]). Statements are plain SQL that both understand; the few places
//! where they differ ask for the [`seam::Dialect`].
//!
//! **How the tables work together.** `node` is ordered by (parent, name): a path is one look-up a name, a listing is one range.
//! A file's bytes are a `content` row, shared by copies and versions and counted by `refs`; tiny content lies in the row,
//! other content is a `manifest` of block ids, and `block` says where each lies and how many manifest places refer to it.
//! `space_sum` and `pack.live_bytes` are sums over these, changed in the same transaction, and constraints keep them from
//! going below zero. What is deleted is re-parented (`remove`), what is purged stops counting, and its rows go step by step
//! (`garbage`). What a mount knows of a node besides lies beside it (`posix`), and nodes that are one file
//! share a row there (`bonds`). `check` proves every sum and reference. Words of names and tags are indexed later than they are written
//! (`index`), and `search` finds nodes by them.
//!
//! **Limits.** An operation's memory is bounded by its request; copying, and purging a folder nobody measured, cost O(nodes) time,
//! during which other writers of the space wait (in SQLite, all writers). A check without repair holds up nobody; one
//! with repair holds up writers for as long as a part that is damaged takes.

mod accounts;
pub(crate) mod audit;
mod blocks;
mod bonds;
mod catalogue_impl;
pub(crate) mod chain;
pub(crate) mod check;
pub(crate) mod codec;
mod contents;
mod copy;
pub(crate) mod engine;
mod expire;
mod factors;
pub(crate) mod fault;
mod garbage;
mod identities;
mod index;
mod instances;
pub(crate) mod job;
mod jobs;
mod lock_check;
mod locks;
mod members;
mod metering;
mod monitor;
mod numbers;
mod packs;
mod posix;
mod posix_batch;
mod posix_batch_names;
mod posix_move;
mod posix_write;
mod properties;
pub(crate) mod query;
mod relocate;
mod remove;
mod resumable;
mod resumable_end;
pub(crate) mod seam;
mod search;
mod searches;
mod shares;
mod slots;
mod spaces;
mod state;
mod subtree;
mod tags;
mod thin;
mod trash;
mod tree_read;
mod tree_write;
pub(crate) mod tx;
mod uploads;
mod versions;
mod walk;
mod xattrs;
