//! Ids from the sequence of blocks: a lane takes a block and gives its numbers out by itself.
//!
//! A sequence is not part of a transaction, so nobody waits for a row, and numbers of an operation that fails are lost. Nor does it wait for the disk or
//! a standby: a database that crashed, or took over, may give out again what no commit came after. So a block is kept from a transaction that was committed
//! alone.

use super::link::PgLink;
use crate::sql::fault::Done;
use crate::sql::query as sql;
use crate::sql::tx::{Ids, POSTGRES_IDS_END};
use std::cell::Cell;
use std::ops::Range;

/// Ids in a block; the sequence's increment, and so part of the schema.
const BLOCK_IDS: i64 = 256;

/// What is left of a lane's block.
#[derive(Debug, Default)]
pub(super) struct Block {
    next: Cell<i64>,
    end: Cell<i64>,
    kept: Cell<bool>,
}

impl Block {
    /// The transaction is committed.
    pub(super) fn keep(&self) {
        self.kept.set(true);
    }

    /// A transaction begins, whatever became of the one before.
    pub(super) fn leave_unkept(&self) {
        if !self.kept.get() {
            self.end.set(0);
        }
    }
}

/// A lane's block, on the connection that gets the next one.
pub(super) struct PgIds<'c> {
    pub(super) link: &'c PgLink,
    pub(super) block: &'c Block,
}

impl PgIds<'_> {
    fn take_block(&self) -> Done<()> {
        let start: i64 = sql::only(self.link, "SELECT nextval('id_block')", (), |row| row.get(0))?;
        self.block.next.set(start);
        self.block.end.set(start.saturating_add(BLOCK_IDS));
        self.block.kept.set(false);
        Ok(())
    }
}

impl Ids for PgIds<'_> {
    fn next(&self) -> Done<i64> {
        if self.block.next.get() >= self.block.end.get() {
            self.take_block()?;
        }
        let id = self.block.next.get();
        self.block.next.set(id + 1);
        Ok(id)
    }

    /// A block that is nobody else's.
    fn reserve(&self, count: u32) -> Done<Range<i64>> {
        let start: i64 = sql::only(self.link, "SELECT nextval('id_block')", (), |row| row.get(0))?;
        Ok(start..start.saturating_add(BLOCK_IDS.min(i64::from(count))))
    }

    fn next_after(&self, floor: i64) -> Done<i64> {
        if self.block.end.get() <= floor.saturating_add(1) {
            // Every block is greater than all before it.
            self.take_block()?;
        }
        self.block.next.set(self.block.next.get().max(floor.saturating_add(1)));
        self.next()
    }

    fn end(&self) -> Done<i64> {
        sql::only(self.link, POSTGRES_IDS_END, (), |row| row.get(0))
    }

    /// Blocks that other lanes hold are not taken from them.
    fn skip_to(&self, id: i64) -> Done<()> {
        sql::only(self.link, "SELECT setval('id_block', ?1, false)", [id], |_| Ok(()))?;
        self.block.end.set(0);
        self.block.next.set(0);
        Ok(())
    }
}
