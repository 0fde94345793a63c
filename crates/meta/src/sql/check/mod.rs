//! Proving the catalogue: every sum, every reference, every row's own hash.
//!
//! A check without repair reads one state on a scanning connection, beside running writers. With repair, each part is looked at
//! like that first; what was found is looked for again and set right in one operation of the writer, so that nothing changes
//! in between. So writers wait for the parts that are damaged only. Parts are in an order in which later ones rely on what
//! earlier ones repaired: the database's own, ids, tree, bonds, contents, manifests, blocks, packs, the sums, and the index of words last.
//!
//! Memory is bounded: references are counted in passes over ranges of ids ([`contents`], [`blocks`]).

mod blocks;
mod bonds;
mod contents;
mod ids;
mod locks;
mod manifests;
mod sums;
mod trash;
mod tree;
mod words;

use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::{Done, Fault};
use super::query as sql;
use super::seam::{Flow, Link, Params, Row};
use super::tx::{Tx, ids_end};
use crate::types::Finding;
use holdfast_base::{Error, ErrorKind, Result};

/// Findings reported at most: beyond, the number matters more than the list.
const FINDINGS_MAX: usize = 10_000;

/// A part of the check.
pub(crate) type Part = fn(&mut Checker<'_>) -> Done<()>;

/// The parts after the database's own, in order.
const PARTS: [Part; 10] = [
    ids::check,
    tree::check,
    trash::check,
    bonds::check,
    locks::check,
    contents::check,
    manifests::check,
    blocks::check,
    sums::check,
    words::check,
];

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        let parts = || E::OWN_PARTS.iter().chain(&PARTS).copied();
        if !repair {
            return self.0.read(Reading::Scan, move |link| run(link, None, parts())).await;
        }
        let mut findings = Vec::new();
        for part in parts() {
            if self.0.read(Reading::Scan, move |link| run(link, None, [part])).await?.is_empty() {
                continue;
            }
            let work = move |tx: &Tx<'_>| {
                tx.lock_all_spaces()?;
                run(tx, Some(tx), [part])
            };
            findings.extend(self.0.write("check", Scope::Administration, work).await?);
        }
        findings.truncate(FINDINGS_MAX);
        Ok(findings)
    }
}

/// Runs parts; with a `tx`, repairs.
fn run(link: &dyn Link, tx: Option<&Tx<'_>>, parts: impl IntoIterator<Item = Part>) -> Done<Vec<Finding>> {
    let mut checker = Checker { link, mender: tx, findings: Vec::new() };
    for part in parts {
        match part(&mut checker) {
            Ok(()) => {}
            Err(fault) => checker.unreadable(fault)?,
        }
    }
    Ok(checker.findings)
}

/// A running check.
pub(crate) struct Checker<'c> {
    pub(crate) link: &'c dyn Link,
    pub(crate) mender: Option<&'c Tx<'c>>,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    /// Notes a finding. `repaired` is what was done, if anything.
    pub(crate) fn found(&mut self, code: &str, message: String, loss: bool, repaired: Option<String>) {
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
                sql::put(tx, sql, params)?;
                Some(what.to_owned())
            }
            None => None,
        };
        self.found(code, message, loss, repaired);
        Ok(())
    }

    /// Every row of a query, [`FINDINGS_MAX`] at most: each is going to be a finding.
    pub(crate) fn rows<T>(&self, sql: &str, params: impl Params, read: impl Fn(&Row<'_>) -> Done<T>) -> Done<Vec<T>> {
        let mut rows = Vec::new();
        let mut take = |row: &Row<'_>| {
            rows.push(read(row)?);
            Ok(if rows.len() < FINDINGS_MAX { Flow::On } else { Flow::Enough })
        };
        params.with(|values| self.link.query(sql, values, &mut take))?;
        Ok(rows)
    }

    /// The numbers of a query's first column.
    fn ids(&self, sql: &str) -> Done<Vec<i64>> {
        self.rows(sql, (), |row| row.get(0))
    }

    /// Calls `each` with every row of a query, however many there are.
    fn each(&self, sql: &str, params: impl Params, mut each: impl FnMut(&Row<'_>) -> Done<()>) -> Done<()> {
        let mut take = |row: &Row<'_>| each(row).map(|()| Flow::On);
        params.with(|values| self.link.query(sql, values, &mut take))
    }

    /// A number greater than every id that was given out.
    fn ids_end(&self) -> Done<i64> {
        self.mender.map_or_else(|| ids_end(self.link), Tx::ids_end)
    }
}
