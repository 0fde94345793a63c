//! The catalogue: names, versions, quota, locks, accounts, and where every block lies.
//!
//! One trait of whole operations, [`Catalogue`], with one implementation a database: [`sqlite`] (the embedded default). One
//! suite, `conformance`, proves an implementation; everything above this crate speaks to the trait.

pub mod catalogue;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod sqlite;
pub mod types;

pub use catalogue::*;
pub use types::*;
