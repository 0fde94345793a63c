//! Signed-in connections, made as they are needed and used again, first those in which the right mailbox is open.

use super::session::{Server, Session};
use crate::signs;
use holdfast_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A connection that was quiet for this long is asked whether it is still there.
const QUIET: Duration = Duration::from_secs(15);

pub(super) struct Pool {
    server: Server,
    all: Arc<Semaphore>,
    /// The last one that was used is the first to be used again.
    idle: Mutex<Vec<Open>>,
    open: Arc<AtomicUsize>,
    /// Connections that there may be, as far as the server lets one.
    limit: AtomicUsize,
}

impl Pool {
    pub(super) fn new(server: Server, connections: usize) -> Arc<Self> {
        let count = connections.max(1);
        let (all, limit) = (Arc::new(Semaphore::new(count)), AtomicUsize::new(count));
        Arc::new(Self { server, all, idle: Mutex::default(), open: Arc::default(), limit })
    }

    /// A connection, in which `mailbox` is open if there is such a one.
    pub(super) async fn lease(self: &Arc<Self>, mailbox: &str) -> Result<Lease> {
        loop {
            let permit = waited(&self.all).await?;
            if let Some(open) = self.idle(mailbox).await {
                return Ok(Lease { pool: Arc::clone(self), open, _permit: permit });
            }
            let count = Count::one(&self.open);
            match Session::open(&self.server).await {
                Ok(session) => {
                    let open = Open { session, _count: count };
                    return Ok(Lease { pool: Arc::clone(self), open, _permit: permit });
                }
                Err(error) if self.is_enough(&error) => {
                    tracing::debug!(%error, "fewer connections are made");
                    permit.forget();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether an error means that the server takes no more connections than there are, which then are one less.
    fn is_enough(&self, error: &Error) -> bool {
        let others = error.kind() == ErrorKind::Unavailable && self.open.load(Ordering::Relaxed) > 1;
        // One stays, whatever is said at once to several.
        let less = |limit: usize| (limit > 1).then(|| limit - 1);
        others && self.limit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// One that is there and answers.
    async fn idle(&self, mailbox: &str) -> Option<Open> {
        loop {
            let mut open = self.take(mailbox)?;
            if open.session.used.elapsed() < QUIET {
                return Some(open);
            }
            if matches!(tokio::time::timeout(QUIET, open.session.ask("NOOP")).await, Ok(Ok(_))) {
                return Some(open);
            }
        }
    }

    fn take(&self, mailbox: &str) -> Option<Open> {
        let mut idle = self.idle.lock();
        let is_in = |open: &Open| open.session.selected.as_ref().is_some_and(|open| open.mailbox == mailbox);
        let at = idle.iter().rposition(is_in).or_else(|| idle.len().checked_sub(1))?;
        Some(idle.remove(at))
    }
}

/// An open connection.
struct Open {
    session: Session,
    _count: Count,
}

/// Counts one as open until it is dropped.
struct Count(Arc<AtomicUsize>);

impl Count {
    fn one(of: &Arc<AtomicUsize>) -> Self {
        of.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(of))
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn waited(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    let permit = signs::waiting(Arc::clone(semaphore).acquire_owned()).await;
    permit.map_err(|_| Error::internal("the connections were closed"))
}

/// A connection in use. It is closed when it is dropped, unless [`Self::done`] gives it back.
pub(super) struct Lease {
    pool: Arc<Pool>,
    open: Open,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    pub(super) fn session(&mut self) -> &mut Session {
        &mut self.open.session
    }

    /// Gives the connection back, if nothing is under way on it.
    pub(super) fn done(mut self) {
        if self.open.session.is_quiet() {
            self.open.session.used = Instant::now();
            self.pool.idle.lock().push(self.open);
        }
    }
}
