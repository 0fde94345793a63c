//! Proving the catalogue: every sum, every reference, every row's own hash.
//!
//! A check without repair reads one state on a scanning connection, beside running writers. With repair, what was found is
//! looked for again and set right in one operation of the writer, so that nothing changes in between; other writers
//! wait for as long as that takes. Parts are in an order in which later ones rely on what earlier ones repaired: structure,
//! tree, contents, manifests, blocks, packs, and the sums last.
//!
//! Memory is bounded: references are counted in passes over ranges of ids ([`contents`], [`blocks`]).

mod blocks;
mod contents;
mod locks;
mod manifests;
mod rows;
mod structure;
mod sums;
mod trash;
mod tree;

use super::SqliteCatalogue;
use super::fault::{Done, Fault};
use super::sql;
use super::tx::Tx;
use crate::types::Finding;
use holdfast_base::{Error, ErrorKind, Result};
use rusqlite::{Connection, Params, Row};

/// Findings reported at most: beyond, the number matters more than the list.
const FINDINGS_MAX: usize = 10_000;

/// The parts, in order.
const PARTS: [fn(&mut Checker<'_>) -> Done<()>; 9] = [
    structure::check,
    rows::check,
    tree::check,
    trash::check,
    locks::check,
    contents::check,
    manifests::check,
    blocks::check,
    sums::check,
];

impl SqliteCatalogue {
    pub(super) async fn check_op(&self, repair: bool) -> Result<Vec<Finding>> {
        let findings = self.scan(|connection| run(connection, None)).await?;
        if !repair || findings.is_empty() {
            return Ok(findings);
        }
        self.writer().submit("check", |tx| run(tx, Some(tx))).await
    }
}

/// Runs every part; with a `tx`, repairs.
fn run(connection: &Connection, tx: Option<&Tx<'_>>) -> Done<Vec<Finding>> {
    let mut checker = Checker { connection, mender: tx, findings: Vec::new() };
    for part in PARTS {
        match part(&mut checker) {
            Ok(()) => {}
            Err(fault) => checker.unreadable(fault)?,
        }
    }
    Ok(checker.findings)
}

/// A running check.
struct Checker<'c> {
    connection: &'c Connection,
    mender: Option<&'c Tx<'c>>,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    /// Notes a finding. `repaired` is what was done, if anything.
    fn found(&mut self, code: &str, message: String, loss: bool, repaired: Option<String>) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { code: code.to_owned(), message, loss, repaired });
        }
    }

    /// Notes that a part could not be checked for damage; another error ends the check.
    fn unreadable(&mut self, fault: Fault) -> Done<()> {
        let error = Error::from(fault);
        if error.kind() != ErrorKind::Damaged {
            return Err(error.into());
        }
        let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        let message = format!("a part of the catalogue cannot be read: {cause}");
        self.found("database-unreadable", message, true, None);
        Ok(())
    }

    /// Notes a finding that one statement sets right; the statement runs if repair was asked for.
    fn mend(
        &mut self,
        code: &str,
        message: String,
        loss: bool,
        sql: &str,
        params: impl Params,
        what: &str,
    ) -> Done<()> {
        let repaired = match self.mender {
            Some(tx) => {
                sql::run(tx, sql, params)?;
                Some(what.to_owned())
            }
            None => None,
        };
        self.found(code, message, loss, repaired);
        Ok(())
    }

    /// Every row of a query, [`FINDINGS_MAX`] at most: each is going to be a finding.
    fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Done<Vec<T>> {
        let mut statement = self.connection.prepare(sql)?;
        Ok(statement.query_map(params, read)?.take(FINDINGS_MAX).collect::<rusqlite::Result<_>>()?)
    }

    /// The numbers of a query's first column.
    fn ids(&self, sql: &str) -> Done<Vec<i64>> {
        self.rows(sql, [], |row| row.get(0))
    }

    /// Calls `each` with every row of a query, however many there are.
    fn each(&self, sql: &str, params: impl Params, mut each: impl FnMut(&Row<'_>) -> rusqlite::Result<()>) -> Done<()> {
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            each(row)?;
        }
        Ok(())
    }

    /// The first id that was never given out.
    fn next_id(&self) -> Done<i64> {
        Ok(match self.mender {
            Some(tx) => tx.new_id(),
            None => sql::only(self.connection, "SELECT next_id FROM counter WHERE only = 1", [], |row| row.get(0))?,
        })
    }
}
