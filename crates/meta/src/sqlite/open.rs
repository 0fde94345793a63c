//! Opening the database file: settings of every connection, format and version checks, migrations.

use super::fault::explain;
use super::row_sum;
use holdfast_base::{Error, ErrorKind, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// "Hold" in the header of the file: `file(1)` and we can tell a catalogue from any other SQLite database.
const APPLICATION_ID: i64 = 0x486F_6C64;

/// The newest schema this program knows; equals the number of the last migration.
const SCHEMA_VERSION: i64 = 17;

/// How long a connection waits for another process (an administration command) before the operation fails.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Page cache of the writing connection, KiB: the inner pages of every tree of a large catalogue and a full batch.
const WRITER_CACHE_KIB: i64 = 32 * 1_024;

/// Page cache of each reading connection, KiB. The file itself is in the system's cache; this saves copies of inner pages.
const READER_CACHE_KIB: i64 = 2 * 1_024;

/// Bytes the write-ahead log keeps on disk when it starts again from its beginning.
const WAL_KEPT_BYTES: i64 = 64 << 20;

/// Cached statements of a connection: more than there are in this crate, so that none is ever prepared twice.
const STATEMENTS: usize = 400;

mod embedded {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
    refinery::embed_migrations!("migrations/sqlite");
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Changes the catalogue, or copies the log into the file.
    Write,
    /// Only reads.
    Read,
}

/// Knows how to open connections to one catalogue.
#[derive(Debug, Clone)]
pub(super) struct Opener {
    path: PathBuf,
    page_limit: Option<u32>,
}

impl Opener {
    /// For the file at `path`; `page_limit` simulates a full disk in tests.
    pub(super) fn new(path: &Path, page_limit: Option<u32>) -> Self {
        Self { path: path.to_owned(), page_limit }
    }

    /// The database file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file if there is none, refuses what is not a catalogue or is of a newer program, and migrates.
    pub(super) fn prepare(&self) -> Result<()> {
        let mut connection = self.connect().map_err(|error| self.failed(error))?;
        check_format(&connection).map_err(|error| error.context(self.path.display()))?;
        create_settings(&connection).map_err(|error| self.failed(error))?;
        if self.version(&connection)? == SCHEMA_VERSION {
            // Nothing to do; and the table of what was done, if it is damaged, is nobody's trouble.
            return Ok(());
        }
        let migrated = embedded::migrations::runner().set_grouped(true).run(&mut connection);
        if let Err(error) = migrated {
            // Another process may have migrated at the same moment; then the version is right now.
            if self.version(&connection)? != SCHEMA_VERSION {
                let message =
                    format!("{}: the catalogue's schema could not be brought up to date", self.path.display());
                return Err(Error::unavailable(message).with_source(error));
            }
        }
        Ok(())
    }

    /// Opens a connection to a prepared catalogue.
    pub(super) fn open(&self, purpose: Purpose) -> rusqlite::Result<Connection> {
        let connection = self.connect()?;
        connection.pragma_update(
            None,
            "cache_size",
            if purpose == Purpose::Write { -WRITER_CACHE_KIB } else { -READER_CACHE_KIB },
        )?;
        if purpose == Purpose::Read {
            connection.pragma_update(None, "query_only", true)?;
        } else if let Some(pages) = self.page_limit {
            connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
        }
        Ok(connection)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        row_sum::register(&connection)?;
        connection.execute_batch(
            // mmap_size 0: a disk error must be an error and not a signal. temp_store: savepoints never touch the disk.
            "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;
             PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA wal_autocheckpoint = 0;",
        )?;
        connection.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES)?;
        // Without this, binding a value makes the planner of the bundled SQLite (which has STAT4) prepare the statement anew,
        // which costs five times what running it does.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(connection)
    }

    fn version(&self, connection: &Connection) -> Result<i64> {
        version(connection).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: rusqlite::Error) -> Error {
        explain(error).context(format!("opening {}", self.path.display()))
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Refuses foreign files and catalogues of newer programs, before anything is written.
fn check_format(connection: &Connection) -> Result<()> {
    let application: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(explain)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(explain)?;
    let found = version(connection).map_err(explain)?;
    if application != APPLICATION_ID && (tables > 0 || application != 0) && !half_made(connection) {
        return Err(Error::invalid("this is a database, but not a catalogue of holdfast"));
    }
    if found > SCHEMA_VERSION {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "the catalogue was written by a newer holdfast (schema {found}; this program knows {SCHEMA_VERSION}): \
                 use that program or a newer one"
            ),
        ));
    }
    Ok(())
}

/// A first start that was cut off leaves the migrations' own table and nothing else.
fn half_made(connection: &Connection) -> bool {
    let sql = "SELECT count(*) = 0 FROM sqlite_schema WHERE tbl_name <> 'refinery_schema_history'";
    connection.query_row(sql, [], |row| row.get(0)).unwrap_or(false)
}

/// Settings that are part of the file: they take effect on an empty database only, and are harmless on any other.
fn create_settings(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL;")?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
}
