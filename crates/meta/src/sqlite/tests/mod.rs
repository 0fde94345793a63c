//! The suite on SQLite, and what is SQLite's alone: files, faults, damage.

mod checking;
mod faults;
mod opening;

use super::{Options, SqliteCatalogue};
use crate::catalogue::Catalogue;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

#[expect(clippy::unused_async, reason = "the suite opens other databases over the network")]
async fn fresh() -> (Arc<dyn Catalogue>, TempDir) {
    let place = Place::new();
    (place.open(), place.folder)
}

crate::catalogue_conformance!(crate::sqlite::tests::fresh);

/// A folder with a catalogue in it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: TempDir::new().expect("a temporary folder") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("catalogue.db")
    }

    fn open(&self) -> Arc<SqliteCatalogue> {
        Arc::new(SqliteCatalogue::open(&self.path(), &Options::default()).expect("opens"))
    }

    /// A connection that can break what the catalogue never would.
    fn raw(&self) -> Connection {
        let connection = Connection::open(self.path()).expect("opens");
        super::row_sum::register(&connection).expect("registers");
        connection.pragma_update(None, "foreign_keys", false).expect("switches");
        connection.pragma_update(None, "ignore_check_constraints", true).expect("switches");
        connection
    }
}
