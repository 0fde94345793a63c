//! Numbers that were given to mounts on other machines, and to whom: what such a mount hands over is made by numbers of its own choice, and they
//! must be none that somebody else has, or is going to have.
//!
//! A row is a range of numbers that follow one another. It grows as long as nobody else takes numbers in between, is forgotten after [`GIVEN_MS`], and
//! of the ranges that an account has for a space the [`RANGES_MAX`] latest are kept.

use super::engine::{Engine, Ops, Scope};
use super::fault::Done;
use super::posix_batch::RESERVED_MAX;
use super::query as sql;
use super::seam::Link;
use super::tx::Tx;
use crate::types::GIVEN_MS;
use holdfast_base::{AccountId, Result, SpaceId};
use std::ops::Range;

/// Ranges of an account for a space: with 8,192 numbers each, of 67 million files.
const RANGES_MAX: i64 = 16_384;

impl<E: Engine> Ops<'_, E> {
    pub(super) async fn give(&self, space: SpaceId, account: AccountId, count: u32, now_ms: i64) -> Result<Range<i64>> {
        let work = move |tx: &Tx<'_>| {
            let range = tx.reserve(count.clamp(1, RESERVED_MAX))?;
            let old_ms = now_ms.saturating_sub(GIVEN_MS);
            sql::put(tx, "DELETE FROM given WHERE space_id = ?1 AND given_ms < ?2", (space.0, old_ms))?;
            let sql =
                "UPDATE given SET end_id = ?4, given_ms = ?5 WHERE space_id = ?1 AND account_id = ?2 AND end_id = ?3";
            if sql::run(tx, sql, (space.0, account.0, range.start, range.end, now_ms))? == 0 {
                let sql =
                    "INSERT INTO given (start_id, end_id, space_id, account_id, given_ms) VALUES (?1, ?2, ?3, ?4, ?5)";
                sql::put(tx, sql, (range.start, range.end, space.0, account.0, now_ms))?;
                let sql = "DELETE FROM given WHERE space_id = ?1 AND account_id = ?2 AND start_id <= (SELECT start_id FROM given \
                           WHERE space_id = ?1 AND account_id = ?2 ORDER BY start_id DESC LIMIT 1 OFFSET ?3)";
                sql::put(tx, sql, (space.0, account.0, RANGES_MAX))?;
            }
            Ok(range)
        };
        self.0.write("give", Scope::Alone, work).await
    }
}

/// Whether numbers were given to an account for a space.
pub(super) fn given(link: &dyn Link, space: SpaceId, account: AccountId, asked: &[i64]) -> Done<Vec<bool>> {
    let sql = "SELECT start_id, end_id FROM given WHERE space_id = ?1 AND account_id = ?2 AND start_id <= ?3 \
               ORDER BY start_id DESC LIMIT 1";
    // Most are of one range.
    let mut last: Range<i64> = 0..0;
    let mut answers = Vec::with_capacity(asked.len());
    for number in asked {
        if !last.contains(number) {
            let found = sql::first(link, sql, (space.0, account.0, *number), |row| Ok((row.get(0)?, row.get(1)?)))?;
            last = found.map_or(0..0, |(start, end): (i64, i64)| start..end);
        }
        answers.push(last.contains(number));
    }
    Ok(answers)
}
