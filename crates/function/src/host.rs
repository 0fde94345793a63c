//! Functions of a store in a process that stays.
//!
//! Each function that is called, or keeps instances ready, has a pool of its current version. A call looks whether that is still the current one; a task looks every
//! [`LOOK`] at all of them, so that what was deployed is warm before it is called and what was removed is gone although nobody calls it.
//!
//! A call runs in a task of its own: who asked may go away. Then its input breaks off, which ends it, or it is finished and recorded.

use crate::call::Call;
use crate::id::Id;
use crate::name::Name;
use crate::pool::Pool;
use crate::store::Store;
use holdfast_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::io::AsyncRead;
use tokio::sync::{Semaphore, watch};

/// Calls at a time, of all functions together: each has up to 16 MiB of output in memory, and some ten descriptors.
pub const CALLS_MAX: usize = 128;
/// Longest that calls which were ended are waited for: an instance that does not end is given up after half of it.
const END_TIME: Duration = Duration::from_secs(10);
/// How often all functions are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Functions in a process that stays. Dropping the last of its clones ends what is ready.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    pools: Mutex<BTreeMap<Name, Arc<Pool>>>,
    /// Pools of versions that are not current any more, which calls may still hold.
    retired: Mutex<Vec<Weak<Pool>>>,
    calls: Arc<Semaphore>,
    /// No call begins any more.
    closed: AtomicBool,
    /// Calls under way are to end.
    stop: watch::Sender<bool>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for pool in self.pools.get_mut().values() {
            pool.retire();
        }
    }
}

/// What a function does now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Instances that are ready.
    pub ready: usize,
    /// Calls under way.
    pub running: usize,
    /// Calls that wait.
    pub waiting: usize,
    /// Why nothing is kept ready any more, if that was given up.
    pub trouble: Option<String>,
}

impl Host {
    /// Functions of a store.
    pub fn new(store: Store) -> Self {
        let inner = Inner {
            store,
            pools: Mutex::new(BTreeMap::new()),
            retired: Mutex::new(Vec::new()),
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            closed: AtomicBool::new(false),
            stop: watch::Sender::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Looks after what is deployed and removed, until [`Host::stop`].
    pub async fn run(&self) {
        let mut stop = self.inner.stop.subscribe();
        while !self.inner.closed.load(Ordering::Acquire) {
            let host = self.clone();
            // It reads files.
            let _ = tokio::task::spawn_blocking(move || host.look()).await;
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    fn look(&self) {
        let listed = match self.inner.store.list() {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(%error, "the functions cannot be looked at");
                return;
            }
        };
        let known: Vec<Name> = self.inner.pools.lock().keys().cloned().collect();
        let gone = known.into_iter().filter(|name| !listed.iter().any(|one| one.name == *name));
        for name in gone {
            self.retire(&name);
        }
        for one in listed {
            let is_warm = one.manifest.as_ref().is_ok_and(|manifest| manifest.limits.warm > 0);
            let known = self.inner.pools.lock().get(&one.name).map(|pool| pool.function().version);
            if (is_warm || known.is_some())
                && known != Some(one.version)
                && let Err(error) = self.pool(&one.name)
            {
                tracing::warn!(%error, function = %one.name, "nothing of this function can be kept ready");
            }
        }
        self.tidy();
    }

    /// Removes versions that nobody holds any more.
    fn tidy(&self) {
        let mut retired = self.inner.retired.lock();
        let before = retired.len();
        retired.retain(|pool| pool.strong_count() > 0);
        let some_ended = retired.len() < before;
        drop(retired);
        if some_ended {
            self.inner.store.tidy();
        }
    }

    fn retire(&self, name: &Name) {
        if let Some(pool) = self.inner.pools.lock().remove(name) {
            self.retired(&pool);
        }
    }

    fn retired(&self, pool: &Arc<Pool>) {
        pool.retire();
        self.inner.retired.lock().push(Arc::downgrade(pool));
    }

    /// The pool of the current version. Within a runtime.
    fn pool(&self, name: &Name) -> Result<Arc<Pool>> {
        let Some(current) = self.inner.store.current(name)? else {
            self.retire(name);
            return Err(Error::not_found(format!("there is no function {name}")));
        };
        let known = |pools: &BTreeMap<Name, Arc<Pool>>| {
            pools.get(name).filter(|pool| pool.function().version == current).map(Arc::clone)
        };
        if let Some(pool) = known(&self.inner.pools.lock()) {
            return Ok(pool);
        }
        let function = self.inner.store.function(name)?;
        let mut pools = self.inner.pools.lock();
        // Another call may have been quicker.
        if let Some(pool) = pools.get(name).filter(|pool| pool.function().version == function.version) {
            return Ok(Arc::clone(pool));
        }
        if self.inner.closed.load(Ordering::Acquire) {
            return Err(stopping());
        }
        let pool = Pool::start(function);
        if let Some(old) = pools.insert(name.clone(), Arc::clone(&pool)) {
            self.retired(&old);
        }
        Ok(pool)
    }

    /// Calls a function. `may` is asked whether this caller may, before anything is done.
    ///
    /// # Errors
    /// `NotFound`, what `may` says, or `TooManyRequests` if it is busy. What went wrong with the call itself is in what is told.
    pub async fn invoke(
        &self,
        name: &Name,
        by: &str,
        may: impl FnOnce(&crate::Manifest) -> Result<()>,
        mut input: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Call> {
        let (id, asked) = (Id::new(), Instant::now());
        let pool = self.pool(name)?;
        may(&pool.function().manifest)?;
        let turn = pool.turn().await?;
        let place = Arc::clone(&self.inner.calls).try_acquire_owned().map_err(|_| {
            let why = format!("{CALLS_MAX} calls of functions are under way, which is as many as this server makes");
            Error::new(ErrorKind::TooManyRequests { retry_after_s: 1 }, why)
        })?;
        let mut stop = self.inner.stop.subscribe();
        // Whoever closes waits for the places after that.
        if self.inner.closed.load(Ordering::Acquire) {
            return Err(stopping());
        }
        let by = by.to_owned();
        let call =
            tokio::spawn(
                async move { pool.call(id, asked.elapsed(), &by, &mut input, &mut stop, (turn, place)).await },
            );
        call.await.map_err(|error| Error::internal(error.to_string()))
    }

    /// What a function does now.
    pub fn state(&self, name: &Name) -> State {
        let pool = self.inner.pools.lock().get(name).map(Arc::clone);
        let Some(pool) = pool else { return State { ready: 0, running: 0, waiting: 0, trouble: None } };
        let (running, waiting) = pool.busy();
        State { ready: pool.ready(), running, waiting, trouble: pool.trouble() }
    }

    /// The first processes of the instances that are ready.
    pub fn pids(&self, name: &Name) -> Vec<i32> {
        let pool = self.inner.pools.lock().get(name).map(Arc::clone);
        pool.map(|pool| pool.pids()).unwrap_or_default()
    }

    /// Ends what is ready, and waits this long for calls under way; then ends those, and waits until they are recorded.
    pub async fn stop(&self, limit: Duration) {
        self.inner.closed.store(true, Ordering::Release);
        let pools: Vec<_> = std::mem::take(&mut *self.inner.pools.lock()).into_values().collect();
        for pool in &pools {
            pool.retire();
        }
        let every = u32::try_from(CALLS_MAX).unwrap_or(u32::MAX);
        if tokio::time::timeout(limit, self.inner.calls.acquire_many(every)).await.is_err() {
            tracing::warn!("calls of functions that did not end have been ended");
        }
        self.inner.stop.send_replace(true);
        let _ = tokio::time::timeout(END_TIME, self.inner.calls.acquire_many(every)).await;
        for pool in pools {
            pool.retired().await;
        }
    }
}

fn stopping() -> Error {
    Error::unavailable("this server is stopping")
}
