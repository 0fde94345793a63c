//! What an operation works on: a connection inside the batch's transaction, and the id counter.

use rusqlite::Connection;
use std::cell::Cell;
use std::ops::Deref;

/// A running batch. Operations run statements on it as on a connection; they never begin or end transactions.
pub(super) struct Tx<'c> {
    connection: &'c Connection,
    first_id: i64,
    next_id: Cell<i64>,
}

impl<'c> Tx<'c> {
    /// Reads the id counter of a transaction that has just begun.
    pub(super) fn begin(connection: &'c Connection) -> rusqlite::Result<Self> {
        let next: i64 =
            super::sql::only(connection, "SELECT next_id FROM counter WHERE only = 1", [], |row| row.get(0))?;
        Ok(Self { connection, first_id: next, next_id: Cell::new(next) })
    }

    /// A number never used as an id before. One that is taken by an operation that fails is not used at all.
    pub(super) fn new_id(&self) -> i64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    /// Never gives out an id below `id` (a repair of the counter).
    pub(super) fn skip_ids_to(&self, id: i64) {
        self.next_id.set(self.next_id.get().max(id));
    }

    /// Writes the id counter, if it moved; the last statement before COMMIT.
    pub(super) fn finish(&self) -> rusqlite::Result<()> {
        if self.next_id.get() != self.first_id {
            super::sql::run(self.connection, "UPDATE counter SET next_id = ?1 WHERE only = 1", [self.next_id.get()])?;
        }
        Ok(())
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection
    }
}
