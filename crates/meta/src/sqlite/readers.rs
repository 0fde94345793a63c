//! The pools of reading connections.
//!
//! A point read takes microseconds and runs on the caller's own thread, with a connection of the first pool; so many
//! connections as there are threads that read, and nobody waits. What may touch many rows runs on a blocking thread with
//! a connection of the second, small pool, so that a long scan never keeps a point read waiting. Connections are opened when
//! first needed and are replaced after an I/O error.

use super::open::{Opener, Purpose};
use crate::sql::fault::{Done, Fault, Trouble};
use crate::sql::query as sql;
use holdfast_base::Result;
use rusqlite::Connection;
use std::sync::{Condvar, Mutex, PoisonError};

/// A pool of lazily opened reading connections.
pub(super) struct Readers {
    opener: Opener,
    idle: Mutex<Vec<Option<Connection>>>,
    returned: Condvar,
}

impl Readers {
    /// A pool of `size` connections, none of them open yet.
    pub(super) fn new(opener: Opener, size: usize) -> Self {
        Self { opener, idle: Mutex::new((0..size.max(1)).map(|_| None).collect()), returned: Condvar::new() }
    }

    /// Runs a single-statement read.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Connection) -> Done<T>) -> Result<T> {
        let mut lease = self.take();
        let done = lease.connection().map_err(Fault::from).and_then(read);
        lease.settle(done)
    }

    /// Runs a read of several statements, which all see the same state.
    pub(super) fn read_snapshot<T>(&self, read: impl FnOnce(&Connection) -> Done<T>) -> Result<T> {
        self.read(|connection| {
            sql::run(connection, "BEGIN", ())?;
            let done = read(connection);
            let ended = sql::run(connection, "COMMIT", ());
            done.and_then(|value| ended.map(|_| value))
        })
    }

    /// Frees the pages that connections nobody uses right now remember.
    pub(super) fn forget_pages(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // A connection that cannot even do this is opened anew.
        idle.iter_mut().for_each(|slot| drop(slot.take_if(|held| held.execute_batch("PRAGMA shrink_memory").is_err())));
    }

    fn take(&self) -> Lease<'_> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(connection) = idle.pop() {
                return Lease { pool: self, connection };
            }
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A connection on loan; it goes back when this is dropped, also by a panic.
struct Lease<'p> {
    pool: &'p Readers,
    connection: Option<Connection>,
}

impl Lease<'_> {
    fn connection(&mut self) -> rusqlite::Result<&Connection> {
        if self.connection.is_none() {
            self.connection = Some(self.pool.opener.open(Purpose::Read)?);
        }
        self.connection.as_ref().ok_or(rusqlite::Error::InvalidQuery)
    }

    fn settle<T>(&mut self, done: Done<T>) -> Result<T> {
        done.map_err(|fault| match fault {
            Fault::Database(error) => {
                if error.trouble == Trouble::Connection {
                    self.connection = None;
                }
                (*error).into()
            }
            refused => refused.into(),
        })
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let connection = self.connection.take().filter(Connection::is_autocommit);
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        self.pool.returned.notify_one();
    }
}
