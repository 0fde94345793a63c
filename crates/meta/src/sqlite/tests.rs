//! The suite on SQLite.

use super::{Options, SqliteCatalogue};
use crate::catalogue::Catalogue;
use std::sync::Arc;
use tempfile::TempDir;

#[expect(clippy::unused_async, reason = "the suite opens other databases over the network")]
async fn fresh() -> (Arc<dyn Catalogue>, TempDir) {
    let folder = TempDir::new().expect("a temporary folder");
    let catalogue = SqliteCatalogue::open(&folder.path().join("catalogue.db"), &Options::default()).expect("opens");
    (Arc::new(catalogue), folder)
}

crate::catalogue_conformance!(crate::sqlite::tests::fresh);
