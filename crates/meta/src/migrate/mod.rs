//! Moving a catalogue from one database to another.
//!
//! **How it works.** Table by table, in the order of each table's key, a bounded number of rows at a time, each batch one transaction of
//! the target. Where the copy stands is read from the target itself: the greatest key of a table is the last that arrived. So
//! a copy that was cut off goes on where it stopped. A row in `migration` says which catalogue is being copied; a target
//! that has rows and no such row, or one of another catalogue, is refused. In the end both sides are read once more and compared
//! by count and hash, table by table, and the target is checked.
//!
//! **Limits.** Nobody may write to either side meanwhile; a source that changes is found by the comparison, and then the target
//! has to be emptied. Memory: [`Table::batch_rows`] rows.

mod tables;

use crate::catalogue::Catalogue;
use crate::postgres::PostgresCatalogue;
use crate::sql::engine::{Engine, Reading, Scope};
use crate::sql::fault::{Done, refuse};
use crate::sql::query as sql;
use crate::sql::seam::{Link, Owned, Value};
use crate::sql::tx::{Tx, ids_end};
use crate::sqlite::SqliteCatalogue;
use holdfast_base::{Error, ErrorKind, Result};
use tables::{TABLES, Table};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A catalogue in one of the databases.
#[derive(Debug, Clone, Copy)]
pub enum Database<'c> {
    /// In SQLite.
    Sqlite(&'c SqliteCatalogue),
    /// In PostgreSQL.
    Postgres(&'c PostgresCatalogue),
}

/// How far a migration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The table that is being copied or compared.
    pub table: &'static str,
    /// Rows of it done by this run.
    pub rows: u64,
    /// Whether it is being compared.
    pub comparing: bool,
}

/// A migration that ended well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Migrated {
    /// Rows copied by this run.
    pub copied: u64,
    /// Rows compared, which is all there are.
    pub compared: u64,
}

/// Copies everything in `from` to `to`, which must be empty or hold a part of the same copy. See the module.
pub async fn migrate(
    from: Database<'_>,
    to: Database<'_>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Migrated> {
    match (from, to) {
        (Database::Sqlite(from), Database::Sqlite(to)) => run(from, to, progress).await,
        (Database::Sqlite(from), Database::Postgres(to)) => run(from, to, progress).await,
        (Database::Postgres(from), Database::Sqlite(to)) => run(from, to, progress).await,
        (Database::Postgres(from), Database::Postgres(to)) => run(from, to, progress).await,
    }
}

async fn run<A: Engine, B: Engine>(from: &A, to: &B, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Migrated> {
    let source = from.read(Reading::Scan, identity).await?;
    to.write("migrate", Scope::Administration, move |tx| claim(tx, &source)).await?;
    let mut migrated = Migrated::default();
    for table in &TABLES {
        let mut rows = 0;
        while let Some(batch) = next_batch(from, to, table).await? {
            rows += batch.len() as u64;
            to.write("migrate", Scope::Administration, move |tx| insert(tx, table, &batch)).await?;
            progress(Progress { table: table.name, rows, comparing: false });
        }
        migrated.copied += rows;
    }
    let end = from.read(Reading::Point, ids_end).await?;
    to.write(
        "migrate",
        Scope::Administration,
        move |tx| if tx.ids_end()? < end { tx.skip_ids_to(end) } else { Ok(()) },
    )
    .await?;
    for table in &TABLES {
        let (ours, theirs) = (sum(from, table, progress).await?, sum(to, table, progress).await?);
        if ours != theirs {
            let message = format!(
                "the table {} differs ({} rows and {} rows): the source was changed meanwhile; empty the target and begin anew",
                table.name, ours.rows, theirs.rows
            );
            return Err(Error::conflict(message));
        }
        migrated.compared += ours.rows;
    }
    if let Some(finding) = Catalogue::check(to, false).await?.into_iter().next() {
        return Err(Error::damaged(format!("the copy is not sound: {}", finding.message)));
    }
    to.write("migrate", Scope::Administration, |tx| sql::put(tx, "UPDATE migration SET finished = 1", ())).await?;
    Ok(migrated)
}

/// What tells one catalogue from another: the random names of its accounts.
fn identity(link: &dyn Link) -> Done<String> {
    let uids: Vec<Vec<u8>> = sql::all(link, "SELECT uid FROM account ORDER BY uid", (), |row| row.get(0))?;
    if uids.is_empty() {
        return refuse(ErrorKind::NotFound, "there is nothing to copy: the source has no accounts");
    }
    let sum = uids.iter().fold(0, |sum, uid| xxh3_64_with_seed(uid, sum));
    Ok(format!("{sum:016x}"))
}

/// Makes sure that the target belongs to this copy.
fn claim(tx: &Tx<'_>, source: &str) -> Done<()> {
    let sql = "SELECT source, finished FROM migration WHERE id = 1";
    let claimed = sql::first(tx, sql, (), |row| Ok((row.get::<String>(0)?, row.get::<bool>(1)?)))?;
    match claimed {
        Some((_, true)) => refuse(ErrorKind::AlreadyExists, "the target holds a copy that is finished"),
        Some((other, false)) if other != source => {
            refuse(ErrorKind::Conflict, "the target holds a part of a copy of another catalogue")
        }
        Some(_) => Ok(()),
        None => {
            for table in &TABLES {
                if !table.is_empty(tx)? {
                    return refuse(ErrorKind::Conflict, format!("the target is not empty: look at {}", table.name));
                }
            }
            // The index of words is not copied: it is made anew while the drive is served.
            sql::put(tx, "INSERT INTO reindex (id, after_id) VALUES (1, 0) ON CONFLICT DO NOTHING", ())?;
            sql::put(tx, "INSERT INTO migration (id, source, finished) VALUES (1, ?1, 0)", [source])
        }
    }
}

/// A row, with its key first.
type Line = Vec<Owned>;

/// The rows that come after the last that arrived.
async fn next_batch<A: Engine, B: Engine>(from: &A, to: &B, table: &'static Table) -> Result<Option<Vec<Line>>> {
    let last = to.read(Reading::Point, move |link| table.last_key(link)).await?;
    let batch = from.read(Reading::Scan, move |link| table.after(link, last.as_deref(), table.batch_rows)).await?;
    Ok((!batch.is_empty()).then_some(batch))
}

fn insert(tx: &Tx<'_>, table: &Table, batch: &[Line]) -> Done<()> {
    let values: Vec<Value<'_>> = batch.iter().flatten().map(Owned::value).collect();
    tx.run_many(&table.insert(), table.columns.len(), &values).map(drop)
}

/// A table's rows, counted and hashed in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum {
    rows: u64,
    hash: u64,
}

async fn sum<E: Engine>(engine: &E, table: &'static Table, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Sum> {
    let mut sum = Sum::default();
    let mut last: Option<Line> = None;
    loop {
        let after = last.take();
        let read = move |link: &dyn Link| table.after(link, after.as_deref(), table.batch_rows);
        let batch = engine.read(Reading::Scan, read).await?;
        sum.rows += batch.len() as u64;
        sum.hash = batch.iter().flatten().fold(sum.hash, add);
        progress(Progress { table: table.name, rows: sum.rows, comparing: true });
        match batch.into_iter().next_back() {
            Some(line) => last = Some(line.into_iter().take(table.keys).collect()),
            None => return Ok(sum),
        }
    }
}

/// Chains a value to a hash, its kind with it.
fn add(hash: u64, value: &Owned) -> u64 {
    match value {
        Owned::Null => xxh3_64_with_seed(&[], hash ^ 1),
        Owned::Integer(number) => xxh3_64_with_seed(&number.to_le_bytes(), hash ^ 2),
        Owned::Text(text) => xxh3_64_with_seed(text.as_bytes(), hash ^ 4),
        Owned::Blob(bytes) => xxh3_64_with_seed(bytes, hash ^ 5),
    }
}

#[cfg(test)]
mod tests;
