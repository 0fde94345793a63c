//! What the database must be before it is used: a catalogue of ours, not of a newer program, that syncs its commits.

use super::connector::{Connector, Session, jittered};
use super::link::PgLink;
use crate::sql::fault::{Fault, Trouble};
use crate::sql::query as sql;
use holdfast_base::{Error, ErrorKind, Result};
use std::time::Duration;

/// The newest schema this program knows; equals the number of the last migration.
const SCHEMA_VERSION: i64 = 16;

/// Attempts at migrating while another node does the same.
const ATTEMPTS: u32 = 8;

/// Pause between them.
const PAUSE: Duration = Duration::from_millis(200);

/// Time a statement of a migration may take.
const MIGRATION_TIMEOUT: Duration = Duration::from_hours(1);

mod embedded {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
    refinery::embed_migrations!("migrations/postgres");
}

/// Checks the database and migrates it if it is empty or older.
pub(super) fn prepare(connector: &Connector) -> Result<()> {
    let session = Session { statement: MIGRATION_TIMEOUT, by_index: false };
    let mut link = connector.attempt(session).map_err(|error| connector.refused(error))?;
    let named = |error: Error| error.context(connector.server());
    check_durability(&link).map_err(named)?;
    for attempt in 1.. {
        if check_format(&link).map_err(named)? == SCHEMA_VERSION {
            break;
        }
        let migrated = link.migrate(&embedded::migrations::runner().set_grouped(true));
        match migrated {
            Ok(()) => break,
            // Another node may migrate at the same moment: then this one looks again.
            Err(_) if attempt < ATTEMPTS => std::thread::sleep(jittered(PAUSE)),
            Err(error) => {
                let message = "the catalogue's schema could not be brought up to date";
                return Err(named(Error::unavailable(message).with_source(error)));
            }
        }
    }
    Ok(())
}

/// A setting of the server; none if it does not know it.
fn setting(link: &PgLink, name: &str) -> Result<Option<String>> {
    match sql::first(link, &format!("SHOW {name}"), (), |row| row.get::<String>(0)) {
        Ok(value) => Ok(value),
        Err(Fault::Database(error)) if error.trouble == Trouble::Statement => Ok(None),
        Err(fault) => Err(fault.into()),
    }
}

/// An acknowledged change must survive a crash of the server.
fn check_durability(link: &PgLink) -> Result<()> {
    if setting(link, "synchronous_commit")?.as_deref() == Some("off") {
        return Err(Error::invalid(
            "the database acknowledges changes before they are on disk (synchronous_commit is off): switch it on for this \
             database or account, for example by ALTER DATABASE … SET synchronous_commit = on",
        ));
    }
    if setting(link, "fsync")?.as_deref() == Some("off") {
        tracing::warn!("the database server runs with fsync off: a crash of its machine may destroy the catalogue");
    }
    Ok(())
}

/// The schema's version, 0 for an empty database. Refuses what is another program's, or a newer one's.
fn check_format(link: &PgLink) -> Result<i64> {
    let sql = "SELECT count(*), coalesce(sum(CASE WHEN table_name = 'refinery_schema_history' THEN 1 ELSE 0 END), 0), \
               coalesce(sum(CASE WHEN table_name = 'administration' THEN 1 ELSE 0 END), 0) \
               FROM information_schema.tables WHERE table_schema = current_schema()";
    let read = |row: &crate::sql::seam::Row<'_>| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, row.get::<i64>(2)?));
    let (tables, history, administration) = sql::only(link, sql, (), read)?;
    let sql = "SELECT CAST(coalesce(max(version), 0) AS BIGINT) FROM refinery_schema_history";
    let version = if history == 0 { 0 } else { sql::only(link, sql, (), |row| row.get::<i64>(0))? };
    // A first start that was cut off leaves the migrations' own table and nothing else.
    if tables > history && administration == 0 {
        return Err(Error::invalid("this database has tables of another program in it: give the catalogue its own"));
    }
    if version > SCHEMA_VERSION {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "the catalogue was written by a newer holdfast (schema {version}; this program knows {SCHEMA_VERSION}): \
                 use that program or a newer one"
            ),
        ));
    }
    Ok(version)
}
