//! The catalogue: names, versions, quota, locks, accounts, and where every block lies.
//!
//! One trait of whole operations, [`Catalogue`], in two databases: [`sqlite`] (the embedded default) and [`postgres`] (many
//! nodes). What an operation does is written once, in [`sql`], over a small seam; a database supplies connections, transactions, its
//! writer and its migrations. One suite, `conformance`, proves both; everything above this crate speaks to the trait.

pub mod audit;
pub mod catalogue;
pub mod cluster;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod figures;
#[doc(hidden)]
pub mod fuzzed;
pub mod leases;
pub mod migrate;
pub mod postgres;
mod sql;
pub mod sqlite;
pub mod types;
mod words;

pub use catalogue::*;
pub use cluster::*;
pub use types::*;
