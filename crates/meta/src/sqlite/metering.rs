//! Failed sign-ins and traffic: counters, and how their tables stay small.

use super::SqliteCatalogue;
use super::codec::{rows, signed, unsigned};
use super::fault::Done;
use super::sql;
use super::tx::Tx;
use crate::catalogue::Attempts;
use crate::types::Traffic;
use holdfast_base::{AccountId, Result};
use rusqlite::Connection;

/// Lapsed counts removed with each new failure: more than one, so that a flood of names cannot outrun it.
const SWEPT: i64 = 16;

const DAY_MS: i64 = 86_400_000;

impl SqliteCatalogue {
    pub(super) async fn attempt_failed_op(&self, key: &str, now_ms: i64, lapse_ms: i64) -> Result<Attempts> {
        let key = key.to_owned();
        let work = move |tx: &Tx<'_>| {
            let oldest_ms = now_ms.saturating_sub(lapse_ms);
            let before = attempts(tx, &key)?;
            let failures = if before.last_ms < oldest_ms { 1 } else { before.failures.saturating_add(1) };
            let sql = "INSERT INTO attempt (key, failures, last_ms) VALUES (?1, ?2, ?3) \
                       ON CONFLICT (key) DO UPDATE SET failures = excluded.failures, last_ms = excluded.last_ms";
            sql::run(tx, sql, (&key, failures, now_ms))?;
            let sql = "DELETE FROM attempt WHERE key IN \
                       (SELECT key FROM attempt WHERE last_ms < ?1 ORDER BY last_ms LIMIT ?2)";
            sql::run(tx, sql, (oldest_ms, SWEPT))?;
            Ok(Attempts { failures, last_ms: now_ms })
        };
        self.writer().submit("attempt_failed", work).await
    }

    pub(super) async fn attempt_succeeded_op(&self, key: &str) -> Result<()> {
        // Most sign-ins were not preceded by a failure: then there is nothing to write.
        if self.readers().read(|connection| attempts(connection, key))? == Attempts::default() {
            return Ok(());
        }
        let key = key.to_owned();
        let work = move |tx: &Tx<'_>| {
            sql::run(tx, "DELETE FROM attempt WHERE key = ?1", [&key])?;
            Ok(())
        };
        self.writer().submit("attempt_succeeded", work).await
    }

    pub(super) async fn add_traffic_op(&self, traffic: Vec<(AccountId, Traffic)>, now_ms: i64) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            for (account, more) in &traffic {
                // Of an account that was removed meanwhile nothing is metered.
                let sql = "INSERT INTO traffic (account_id, day, requests, bytes_in, bytes_out) \
                           SELECT id, ?2, ?3, ?4, ?5 FROM account WHERE id = ?1 \
                           ON CONFLICT (account_id, day) DO UPDATE SET requests = requests + excluded.requests, \
                           bytes_in = bytes_in + excluded.bytes_in, bytes_out = bytes_out + excluded.bytes_out";
                let counts = (signed(more.requests), signed(more.bytes_in), signed(more.bytes_out));
                sql::run(tx, sql, (account.0, now_ms.div_euclid(DAY_MS), counts.0, counts.1, counts.2))?;
            }
            Ok(())
        };
        self.writer().submit("add_traffic", work).await
    }
}

/// Failures under a key.
pub(super) fn attempts(connection: &Connection, key: &str) -> Done<Attempts> {
    let found = sql::first(connection, "SELECT failures, last_ms FROM attempt WHERE key = ?1", [key], |row| {
        Ok(Attempts { failures: row.get(0)?, last_ms: row.get(1)? })
    })?;
    Ok(found.unwrap_or_default())
}

/// Traffic per day, newest first.
pub(super) fn traffic(connection: &Connection, account: AccountId, days: usize) -> Done<Vec<(String, Traffic)>> {
    let sql = "SELECT date(day * 86400, 'unixepoch'), requests, bytes_in, bytes_out FROM traffic WHERE account_id = ?1 \
               ORDER BY day DESC LIMIT ?2";
    Ok(sql::all(connection, sql, (account.0, rows(days)), |row| {
        let sum = |column| row.get(column).map(unsigned);
        Ok((row.get(0)?, Traffic { requests: sum(1)?, bytes_in: sum(2)?, bytes_out: sum(3)? }))
    })?)
}
