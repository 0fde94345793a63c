//! Failed sign-ins and traffic: counters, and how their tables stay small.

use super::codec::{rows, signed, unsigned};
use super::engine::{Engine, Ops, Reading, Scope};
use super::fault::Done;
use super::query as sql;
use super::seam::Link;
use super::tx::Tx;
use crate::catalogue::Attempts;
use crate::types::Traffic;
use holdfast_base::{AccountId, Result};

/// Lapsed counts removed with each new failure: more than one, so that a flood of names cannot outrun it.
const SWEPT: i64 = 16;

const DAY_MS: i64 = 86_400_000;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn attempt_failed(&self, key: &str, now_ms: i64, lapse_ms: i64) -> Result<Attempts> {
        let key = key.to_owned();
        let work = move |tx: &Tx<'_>| {
            let oldest_ms = now_ms.saturating_sub(lapse_ms);
            // One statement, so that two failures at the same moment are two.
            let sql = "INSERT INTO attempt (key, failures, last_ms) VALUES (?1, 1, ?2) ON CONFLICT (key) DO UPDATE SET \
                       failures = CASE WHEN attempt.last_ms < ?3 THEN 1 ELSE attempt.failures + 1 END, \
                       last_ms = excluded.last_ms RETURNING failures";
            let failures: i64 = sql::only(tx, sql, (&key, now_ms, oldest_ms), |row| row.get(0))?;
            let sql = "DELETE FROM attempt WHERE key IN \
                       (SELECT key FROM attempt WHERE last_ms < ?1 ORDER BY last_ms LIMIT ?2)";
            sql::put(tx, sql, (oldest_ms, SWEPT))?;
            Ok(Attempts { failures: u32::try_from(failures).unwrap_or(u32::MAX), last_ms: now_ms })
        };
        self.0.write("attempt_failed", Scope::Alone, work).await
    }

    pub(super) async fn attempt_succeeded(&self, key: &str) -> Result<()> {
        // Most sign-ins were not preceded by a failure: then there is nothing to write.
        let (key, looked_up) = (key.to_owned(), key.to_owned());
        if self.0.read(Reading::Point, move |link| attempts(link, &looked_up)).await? == Attempts::default() {
            return Ok(());
        }
        let work = move |tx: &Tx<'_>| sql::put(tx, "DELETE FROM attempt WHERE key = ?1", [&key]);
        self.0.write("attempt_succeeded", Scope::Alone, work).await
    }

    pub(super) async fn add_traffic(&self, traffic: Vec<(AccountId, Traffic)>, now_ms: i64) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            for (account, more) in &traffic {
                // Of an account that was removed meanwhile nothing is metered.
                let sql = "INSERT INTO traffic (account_id, day, requests, bytes_in, bytes_out) \
                           SELECT id, ?2, ?3, ?4, ?5 FROM account WHERE id = ?1 \
                           ON CONFLICT (account_id, day) DO UPDATE SET requests = traffic.requests + excluded.requests, \
                           bytes_in = traffic.bytes_in + excluded.bytes_in, \
                           bytes_out = traffic.bytes_out + excluded.bytes_out";
                let counts = (signed(more.requests), signed(more.bytes_in), signed(more.bytes_out));
                sql::put(tx, sql, (account.0, now_ms.div_euclid(DAY_MS), counts.0, counts.1, counts.2))?;
            }
            Ok(())
        };
        self.0.write("add_traffic", Scope::Alone, work).await
    }
}

/// Failures under a key.
pub(super) fn attempts(link: &dyn Link, key: &str) -> Done<Attempts> {
    let found = sql::first(link, "SELECT failures, last_ms FROM attempt WHERE key = ?1", [key], |row| {
        Ok(Attempts { failures: row.get(0)?, last_ms: row.get(1)? })
    })?;
    Ok(found.unwrap_or_default())
}

/// Traffic per day, newest first.
pub(super) fn traffic(link: &dyn Link, account: AccountId, days: usize) -> Done<Vec<(String, Traffic)>> {
    let sql = "SELECT day, requests, bytes_in, bytes_out FROM traffic WHERE account_id = ?1 ORDER BY day DESC LIMIT ?2";
    sql::all(link, sql, (account.0, rows(days)), |row| {
        let sum = |column| row.get(column).map(unsigned);
        Ok((date(row.get(0)?), Traffic { requests: sum(1)?, bytes_in: sum(2)?, bytes_out: sum(3)? }))
    })
}

/// A day number as `YYYY-MM-DD`; empty for a day no calendar has.
fn date(day: i64) -> String {
    // Julian days begin at noon, 2,440,587.5 days before 1970.
    let julian = day.checked_add(2_440_588).and_then(|day| i32::try_from(day).ok());
    let date = julian.and_then(|day| time::Date::from_julian_day(day).ok());
    date.map(|date| date.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_have_dates() {
        assert_eq!(
            [date(0), date(59), date(-1), date(20_000)],
            ["1970-01-01", "1970-03-01", "1969-12-31", "2024-10-04"]
        );
    }
}
