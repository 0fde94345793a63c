//! Ids from the one counter of the database.

use crate::sql::fault::Done;
use crate::sql::query as sql;
use crate::sql::tx::Ids;
use rusqlite::Connection;
use std::cell::Cell;
use std::ops::Range;

/// The counter inside a transaction: read at its beginning, written at its end.
pub(super) struct Counter<'c> {
    connection: &'c Connection,
    first: i64,
    next: Cell<i64>,
}

impl<'c> Counter<'c> {
    /// Reads the counter of a transaction that has just begun.
    pub(super) fn begin(connection: &'c Connection) -> Done<Self> {
        let next: i64 = sql::only(connection, "SELECT next_id FROM counter WHERE only = 1", (), |row| row.get(0))?;
        Ok(Self { connection, first: next, next: Cell::new(next) })
    }

    /// Writes the counter, if it moved; the last statement before COMMIT.
    pub(super) fn finish(&self) -> Done<()> {
        if self.next.get() == self.first {
            return Ok(());
        }
        sql::put(self.connection, "UPDATE counter SET next_id = ?1 WHERE only = 1", [self.next.get()])
    }
}

impl Ids for Counter<'_> {
    fn next(&self) -> Done<i64> {
        let id = self.next.get();
        self.next.set(id + 1);
        Ok(id)
    }

    fn reserve(&self, count: u32) -> Done<Range<i64>> {
        let first = self.next.get();
        self.next.set(first + i64::from(count));
        Ok(first..self.next.get())
    }

    fn next_after(&self, floor: i64) -> Done<i64> {
        self.next.set(self.next.get().max(floor + 1));
        self.next()
    }

    fn end(&self) -> Done<i64> {
        Ok(self.next.get())
    }

    fn skip_to(&self, id: i64) -> Done<()> {
        self.next.set(self.next.get().max(id));
        Ok(())
    }
}
