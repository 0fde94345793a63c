//! Connections for reads.
//!
//! A read takes a turn (so that there are never more connections than was said), runs on a blocking thread, and puts its connection
//! back. What sees one state over several statements is a REPEATABLE READ transaction; a single statement needs none. A
//! connection that turns out to be dead, because the server was restarted while it lay idle, is replaced and the read run
//! once more; the others that lie idle are as dead and go with it.

use super::connector::{Connector, Session};
use super::link::PgLink;
use crate::sql::fault::{Done, Fault, Trouble};
use crate::sql::seam::Link;
use holdfast_base::{Error, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Time a read waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// Times a read is run again on another connection: once for a connection that lay idle, and once more if that is cut, too.
const AGAIN: u32 = 2;

/// A pool of lazily opened connections.
pub(super) struct Pool {
    connector: Arc<Connector>,
    session: Session,
    turns: Arc<Semaphore>,
    idle: Mutex<Vec<PgLink>>,
}

impl Pool {
    /// A pool of `size` connections, none of them open yet.
    pub(super) fn new(connector: Arc<Connector>, size: usize, session: Session) -> Self {
        Self { connector, session, turns: Arc::new(Semaphore::new(size.max(1))), idle: Mutex::default() }
    }

    /// Runs a read. With `snapshot`, its statements see one state.
    pub(super) async fn read<T, F>(self: &Arc<Self>, snapshot: bool, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&dyn Link) -> Done<T> + Send + 'static,
    {
        let turn = tokio::time::timeout(TURN_TIMEOUT, Arc::clone(&self.turns).acquire_owned()).await;
        let turn = turn
            .map_err(|_| Error::unavailable("too many reads of the catalogue wait; try again"))?
            .map_err(|_| Error::unavailable("the catalogue is closed"))?;
        let pool = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            pool.read_now(snapshot, &read)
        });
        done.await.map_err(|error| Error::internal("a read of the catalogue met a defect").with_source(error))?
    }

    fn read_now<T>(&self, snapshot: bool, read: &dyn Fn(&dyn Link) -> Done<T>) -> Result<T> {
        let mut again = 0;
        loop {
            let link = match self.take() {
                Some(link) => link,
                None => self.connector.connect(self.session).map_err(Error::from)?,
            };
            let done = if snapshot { read_snapshot(&link, read) } else { read(&link) };
            let trouble = match &done {
                Err(Fault::Database(error)) => error.trouble,
                _ => Trouble::Statement,
            };
            if trouble == Trouble::Connection {
                self.idle().clear();
            } else if !link.is_broken() {
                self.idle().push(link);
            }
            if trouble == Trouble::Statement || again == AGAIN {
                return done.map_err(Error::from);
            }
            again += 1;
        }
    }

    fn take(&self) -> Option<PgLink> {
        let mut idle = self.idle();
        while let Some(link) = idle.pop() {
            if !link.is_broken() {
                return Some(link);
            }
        }
        None
    }

    /// Ends the connections; later reads are `Unavailable`.
    pub(super) fn close(&self) {
        self.turns.close();
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<PgLink>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_snapshot<T>(link: &PgLink, read: &dyn Fn(&dyn Link) -> Done<T>) -> Done<T> {
    link.control("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    let done = read(link);
    // Reading changes nothing, so how it ends does not matter; the connection must be free of it.
    link.roll_back();
    done
}
