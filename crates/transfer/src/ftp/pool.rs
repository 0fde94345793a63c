//! Signed-in connections, which are made as they are needed and used again.
//!
//! One that moves the content of a large file is busy for as long as that takes. Of several connections at least one is kept from that, for listings and
//! what else is over soon: whoever has a connection for long may itself wait for one for short, and never the other way round.

use super::session::{Server, Session};
use crate::signs;
use holdfast_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A connection that was quiet for this long is asked whether it is still there.
const QUIET: Duration = Duration::from_secs(15);

pub(super) struct Pool {
    server: Server,
    all: Arc<Semaphore>,
    long: Arc<Semaphore>,
    /// The last one that was used is the first to be used again.
    idle: Mutex<Vec<Open>>,
    open: Arc<AtomicUsize>,
    /// Connections that there may be, as far as the server lets one.
    limit: AtomicUsize,
    /// Whether the server has ever taken the password.
    believed: AtomicBool,
}

impl Pool {
    pub(super) fn new(server: Server, connections: usize) -> Arc<Self> {
        let count = connections.max(1);
        Arc::new(Self {
            server,
            all: Arc::new(Semaphore::new(count)),
            long: Arc::new(Semaphore::new((count - 1).max(1))),
            idle: Mutex::default(),
            open: Arc::default(),
            limit: AtomicUsize::new(count),
            believed: AtomicBool::new(false),
        })
    }

    /// A connection for something that is over soon.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease> {
        loop {
            let permit = waited(&self.all).await?;
            if let Some(open) = self.idle().await {
                return Ok(Lease { pool: Arc::clone(self), open, permits: vec![permit] });
            }
            let count = Count::one(&self.open);
            match Session::open(&self.server).await {
                Ok(session) => {
                    self.believed.store(true, Ordering::Relaxed);
                    let open = Open { session, _count: count };
                    return Ok(Lease { pool: Arc::clone(self), open, permits: vec![permit] });
                }
                // A server that has enough of them says so, or that it does not know who that is: the others go on.
                Err(error) if self.is_enough(&error) => {
                    tracing::debug!(%error, "fewer connections are made");
                    permit.forget();
                    self.long.forget_permits(1);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A connection for as long as a large file takes.
    pub(super) async fn lease_long(self: &Arc<Self>) -> Result<Lease> {
        let permit = waited(&self.long).await?;
        let mut lease = self.lease().await?;
        lease.permits.push(permit);
        Ok(lease)
    }

    /// The same, if there is one to be had without waiting, and others beside it.
    pub(super) async fn try_lease_long(self: &Arc<Self>) -> Result<Option<Lease>> {
        let Ok(permit) = Arc::clone(&self.long).try_acquire_owned() else { return Ok(None) };
        let mut lease = self.lease().await?;
        lease.permits.push(permit);
        Ok(Some(lease))
    }

    /// Whether an error means that the server takes no more connections, which then are one less.
    fn is_enough(&self, error: &Error) -> bool {
        let refused = matches!(error.kind(), ErrorKind::Unauthenticated | ErrorKind::Unavailable);
        let others = self.believed.load(Ordering::Relaxed) && self.open.load(Ordering::Relaxed) > 1;
        // One stays, whatever is said at once to several.
        let less = |limit: usize| (limit > 1).then(|| limit - 1);
        refused && others && self.limit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// One that is there and answers.
    async fn idle(&self) -> Option<Open> {
        loop {
            let mut open = self.idle.lock().pop()?;
            if open.session.used.elapsed() < QUIET {
                return Some(open);
            }
            let told = tokio::time::timeout(QUIET, open.session.ask("NOOP")).await;
            if matches!(told, Ok(Ok(reply)) if reply.is_done()) {
                return Some(open);
            }
        }
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
    permits: Vec<OwnedSemaphorePermit>,
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
