//! What an operation works on: a connection inside a transaction, ids, row locks, and the changes it makes known.
//!
//! **Row locks.** SQLite has one writer and needs none. In PostgreSQL, at READ COMMITTED, every operation first locks the
//! `space_sum` row of the space it changes, so that operations of one space follow one another on however many machines; one on
//! several spaces locks them in the order of their ids. Growth under an account's quota locks the account's row after
//! that, and what administers accounts and spaces locks the one row of `administration` before anything else. Who locks in
//! this order cannot wait in a circle but for packs, whose rows come last; there the database ends the circle and the
//! operation is run again.

use super::fault::Done;
use super::query as sql;
use super::seam::{Dialect, Each, EachOfMany, Link, Params, Value};
use crate::catalogue::Noted;
use holdfast_base::{AccountId, SpaceId};
use std::cell::RefCell;
use std::ops::Range;

/// Where ids come from.
pub(crate) trait Ids {
    /// A number never used as an id before. One that is taken by an operation that fails is not used at all.
    fn next(&self) -> Done<i64>;
    /// The same, greater than `floor`, which another process may have given out.
    fn next_after(&self, floor: i64) -> Done<i64>;
    /// Up to so many that follow one another, at least one.
    fn reserve(&self, count: u32) -> Done<Range<i64>>;
    /// A number greater than every id given out until now, without taking it.
    fn end(&self) -> Done<i64>;
    /// Never gives out an id below `id` (a repair).
    fn skip_to(&self, id: i64) -> Done<()>;
}

/// What an operation locks, which decides with which others it shares a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One space.
    Space(SpaceId),
    /// Accounts, spaces as a whole, or many of either.
    Administration,
    /// Rows that nothing else depends on, or locks it takes itself.
    Alone,
}

/// A running operation. It runs statements on this as on a connection; it never begins or ends transactions.
pub(crate) struct Tx<'c> {
    link: &'c dyn Link,
    ids: &'c dyn Ids,
    scope: Scope,
    changes: RefCell<Vec<Noted>>,
}

impl<'c> Tx<'c> {
    /// In a transaction that has begun and that holds the row lock of `scope`.
    pub(crate) fn new(link: &'c dyn Link, ids: &'c dyn Ids, scope: Scope) -> Self {
        Self { link, ids, scope, changes: RefCell::default() }
    }

    /// See [`Ids::next`].
    pub(crate) fn new_id(&self) -> Done<i64> {
        self.ids.next()
    }

    /// A new id that is greater than what `floor` finds, in a table whose order is that of its ids.
    pub(crate) fn new_id_after(&self, floor: impl FnOnce() -> Done<i64>) -> Done<i64> {
        match self.link.dialect() {
            // One counter, used in one order.
            Dialect::Sqlite => self.ids.next(),
            Dialect::Postgres => self.ids.next_after(floor()?),
        }
    }

    /// See [`Ids::reserve`].
    pub(crate) fn reserve(&self, count: u32) -> Done<Range<i64>> {
        self.ids.reserve(count)
    }

    /// See [`Ids::end`].
    pub(crate) fn ids_end(&self) -> Done<i64> {
        self.ids.end()
    }

    /// See [`Ids::skip_to`].
    pub(crate) fn skip_ids_to(&self, id: i64) -> Done<()> {
        self.ids.skip_to(id)
    }

    /// Locks a space against other operations on it; nothing happens if there is no such space.
    pub(crate) fn lock_space(&self, id: SpaceId) -> Done<()> {
        if self.scope == Scope::Space(id) {
            return Ok(());
        }
        self.lock("SELECT space_id FROM space_sum WHERE space_id = ?1 FOR UPDATE", [id.0])
    }

    /// Locks every space.
    pub(crate) fn lock_all_spaces(&self) -> Done<()> {
        self.lock("SELECT space_id FROM space_sum ORDER BY space_id FOR UPDATE", ())
    }

    /// Locks an account's quota.
    pub(crate) fn lock_account(&self, id: AccountId) -> Done<()> {
        self.lock("SELECT id FROM account WHERE id = ?1 FOR UPDATE", [id.0])
    }

    /// Locks a lease, so that nobody takes it.
    pub(crate) fn lock_lease(&self, name: &str) -> Done<()> {
        self.lock("SELECT name FROM lease WHERE name = ?1 FOR UPDATE", [name])
    }

    /// Locks administration.
    pub(crate) fn lock_administration(&self) -> Done<()> {
        if self.scope == Scope::Administration {
            return Ok(());
        }
        self.lock(LOCK_ADMINISTRATION, ())
    }

    fn lock(&self, sql: &str, params: impl Params) -> Done<()> {
        match self.link.dialect() {
            Dialect::Sqlite => Ok(()),
            Dialect::Postgres => sql::put(self.link, sql, params),
        }
    }

    /// Notes that a space counted a change, for those who follow it.
    pub(crate) fn changed(&self, noted: Noted) {
        self.changes.borrow_mut().push(noted);
    }

    /// What was noted, by an operation whose transaction is going to be committed.
    pub(crate) fn into_changes(self) -> Vec<Noted> {
        self.changes.into_inner()
    }
}

/// Locks administration against other administration.
pub(crate) const LOCK_ADMINISTRATION: &str = "SELECT id FROM administration WHERE id = 1 FOR UPDATE";

impl Link for Tx<'_> {
    fn dialect(&self) -> Dialect {
        self.link.dialect()
    }

    fn run(&self, sql: &str, params: &[Value<'_>]) -> Done<usize> {
        self.link.run(sql, params)
    }

    fn put(&self, sql: &str, params: &[Value<'_>]) -> Done<()> {
        self.link.put(sql, params)
    }

    fn query(&self, sql: &str, params: &[Value<'_>], each: Each<'_>) -> Done<()> {
        self.link.query(sql, params, each)
    }

    fn run_many(&self, sql: &str, width: usize, params: &[Value<'_>]) -> Done<Vec<usize>> {
        self.link.run_many(sql, width, params)
    }

    fn query_many(&self, sql: &str, width: usize, params: &[Value<'_>], each: EachOfMany<'_>) -> Done<()> {
        self.link.query_many(sql, width, params, each)
    }
}

/// Past every id that PostgreSQL's sequence of blocks gave out.
pub(crate) const POSTGRES_IDS_END: &str =
    "SELECT CASE WHEN is_called THEN last_value + 256 ELSE last_value END FROM id_block";

/// A number greater than every id that was given out, as the database has it outside of a transaction that changes it.
pub(crate) fn ids_end(link: &dyn Link) -> Done<i64> {
    let sql = match link.dialect() {
        Dialect::Sqlite => "SELECT next_id FROM counter WHERE only = 1",
        Dialect::Postgres => POSTGRES_IDS_END,
    };
    sql::only(link, sql, (), |row| row.get(0))
}
